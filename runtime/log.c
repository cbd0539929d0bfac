// log.c: lines with and without colours.
#include "runtime/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/options.h"
#include "base/plain.h"
#include "runtime/io.h"

void log_start(Log *log, FILE *screen) {
  *log =
      (Log){.screen = screen, .terminal = screen && isatty(fileno(screen)), .colour = screen && options_colour(screen)};
}

// Has a program that was killed, or had no space, left half of a line?
static bool ends_torn(const char *path) {
  int fd;
  int64_t bytes;
  char last = '\n';
  Error ignored = {0};
  if (!io_open_sized(path, &fd, &bytes, &ignored)) {
    return false;
  }
  const bool read = bytes > 0 && io_read(fd, path, bytes - 1, &last, 1, &ignored);
  close(fd);
  return read && last != '\n';
}

bool log_open(Log *log, const char *path, Error *error) {
  int fd;
  if (!io_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, &fd, error)) {
    return false;
  }
  log->torn = ends_torn(path);
  log->file = fdopen(fd, "a");
  if (!log->file) {
    close(fd);
  }
  return log->file || io_failed("write", path, error);
}

void log_close(Log *log) {
  if (log->live && log->screen) {
    fputs("\n", log->screen);
    fflush(log->screen);
  }
  if (log->file) {
    fclose(log->file);
  }
  *log = (Log){0};
}

// The length of a colour of log.h at `text`; 0: none stands there.
static size_t colour_length(const char *text) {
  static const char *const colours[] = {LOG_BOLD, LOG_FAINT, LOG_RED, LOG_GREEN, LOG_YELLOW, LOG_BLUE, LOG_PLAIN};
  for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
    if (strncmp(text, colours[i], strlen(colours[i])) == 0) {
      return strlen(colours[i]);
    }
  }
  return 0;
}

// `text` with or without its colours, and nothing else that a terminal obeys; at most `columns` visible bytes if that
// is not 0.
static void text_put(FILE *out, const char *text, bool colour, int columns) {
  int column = 0;
  for (const char *at = text; *at;) {
    const size_t length = colour_length(at), control = plain_control(at);
    if (length > 0) {
      if (colour) {
        fwrite(at, 1, length, out);
      }
      at += length;
      continue;
    }
    if (columns == 0 || column++ < columns) {
      fputc(control > 0 ? '?' : *at, out);
    }
    at += control > 0 ? control : 1;
  }
}

static void line_put(FILE *out, const char *text, bool colour) {
  text_put(out, text, colour, 0);
  fputc('\n', out);
  fflush(out);
}

// Where the disk was full, half of a line may stand there: the next begins one of its own, since lines are read again.
static void file_put(Log *log, const char *text) {
  if (log->torn) {
    fputc('\n', log->file);
  }
  line_put(log->file, text, false);
  log->torn = ferror(log->file) != 0;
  clearerr(log->file);
}

void log_line(Log *log, const char *format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (log->screen) {
    if (log->live) {
      fputs("\r\033[K", log->screen);
    }
    line_put(log->screen, text, log->colour);
    log->live = false;
  }
  if (log->file) {
    file_put(log, text);
  }
}

void log_note(Log *log, const char *text) {
  if (log->file) {
    file_put(log, text);
  }
}

void log_record(Log *log, const char *text) {
  if (log->screen && !log->terminal) {
    line_put(log->screen, text, log->colour);
  }
  log_note(log, text);
}

void log_live(Log *log, const char *text) {
  struct winsize window = {0};
  if (!log->terminal) {
    return;
  }
  if (ioctl(fileno(log->screen), TIOCGWINSZ, &window) != 0 || window.ws_col < 20) {
    window.ws_col = 80;
  }
  fputs("\r\033[K", log->screen);
  text_put(log->screen, text, log->colour, window.ws_col - 1);
  fflush(log->screen);
  log->live = true;
}
