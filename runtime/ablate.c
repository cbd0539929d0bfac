// ablate.c: the list of rows, what they run on, and the files that are left.
#include "runtime/ablate.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/interrupt.h"

enum { ROWS_MAX = 4096 };

// --- the list ---

// The words that were given, and those that --seeds stands for.
static bool choices_make(Ablate *ablate, Error *error) {
  const AblateOptions *options = ablate->options;
  const char **words = ARENA_ARRAY(ablate->arena, const char *, options->word_count + 1);
  int count = 0;
  for (; count < options->word_count; count++) {
    words[count] = options->words[count];
    if (options->seeds > 0 && strncmp(words[count], "seed=", 5) == 0) {
      return error_set(error, 2, "--seeds and %s do not go together; leave one away", words[count]);
    }
  }
  if (options->seeds > ROWS_MAX) {
    return error_set(error, 2, "these are more than %d combinations", ROWS_MAX);
  }
  if (options->seeds > 0) {
    Buffer seeds = {0};
    buffer_text(&seeds, "seed=1");
    for (int64_t seed = 2; seed <= options->seeds; seed++) {
      buffer_format(&seeds, ",%lld", (long long)seed);
    }
    words[count++] = arena_format(ablate->arena, "%s", seeds.text ? seeds.text : "");
    const bool failed = seeds.failed;
    buffer_free(&seeds);
    if (failed) {
      return error_set(error, 3, "no memory");
    }
  }
  if (!choices_read(ablate->arena, words, count, false, &ablate->choices, error)) {
    return false;
  }
  return ablate->choices.count > 0 ||
         error_set(error, 2, "there is nothing to vary; say what, for example layout=single,tp2 or batch=4,8");
}

static bool rows_make(Ablate *ablate, Error *error) {
  const Choices *choices = &ablate->choices;
  int64_t count = 1;
  for (int i = 0; i < choices->count; i++) {
    count *= choices->at[i].count;
    if (count > ROWS_MAX) {
      return error_set(error, 2, "these are more than %d combinations", ROWS_MAX);
    }
  }
  ablate->rows = ARENA_ARRAY(ablate->arena, AblateRow, count);
  for (ablate->count = 0; ablate->count < count; ablate->count++) {
    AblateRow *row = &ablate->rows[ablate->count];
    int64_t left = ablate->count;
    *row = (AblateRow){.bubble = NAN,
                       .seconds = NAN,
                       .validation = NAN,
                       .taken = NAN,
                       .peak_flops = NAN,
                       .exposed = NAN,
                       .against = -1};
    for (int i = choices->count - 1; i >= 0; i--) {
      row->pick[i] = (int)(left % choices->at[i].count);
      left /= choices->at[i].count;
    }
    row->name = choices_name(ablate->arena, choices, row->pick, false);
    row->loss = ARENA_ARRAY(ablate->arena, double, ablate->options->steps + 1);
    if (!choices_options(ablate->arena, choices, row->pick, &ablate->options->base, &row->options, error)) {
      return false;
    }
  }
  return true;
}

static bool device_choose(Ablate *ablate, Error *error) {
  const AblateOptions *options = ablate->options;
  ablate->backend = options->dry       ? NULL
                    : options->backend ? options->backend
                                       : backend_choose_all(options->device, &ablate->devices, error);
  ablate->devices = options->backend ? options->devices : ablate->devices;
  return options->dry || ablate->backend;
}

// What is dry leaves files only where it was told to.
static bool directory_make(Ablate *ablate, Error *error) {
  const char *out = ablate->options->out;
  char file[IO_PATH_MAX];
  if (out) {
    if (!io_path(ablate->directory, error, "%s", out) || !io_make_path(out, error) ||
        !io_path(file, error, "%s/ablate.jsonl", out)) {
      return false;
    }
    IoLock lock;
    return io_lock(out, &ablate->lock, &lock, error) &&
           (lock != IO_LOCK_TAKEN ||
            error_set(error, 1, "another ablation is writing into %s; choose another --out", out)) &&
           (!io_named(file) ||
            error_set(error, 1, "%s holds an ablation already; remove it or choose another --out", out));
  }
  if (ablate->options->dry) {
    return true;
  }
  if (!io_make_path("runs", error)) {
    return false;
  }
  for (int n = 1;; n++) {
    if (!io_path(ablate->directory, error, "runs/ablate-%d", n)) {
      return false;
    }
    if (mkdir(ablate->directory, 0777) == 0) {
      return true;
    }
    if (errno != EEXIST) {
      return io_failed("create the directory", ablate->directory, error);
    }
  }
}

// --- all ---

static bool file_write(const Ablate *ablate, const char *name, Buffer *text, Error *error) {
  char path[IO_PATH_MAX];
  if (io_path(path, error, "%s/%s", ablate->directory, name)) {
    return io_replace_text(NULL, path, text, error);
  }
  buffer_free(text);
  return false;
}

static void text_show(Ablate *ablate, Buffer *text) {
  for (char *at = text->text, *end; at && *at; at = end) {
    end = at + strcspn(at, "\n");
    bool more = *end != '\0';
    *end = '\0';
    log_line(&ablate->log, "%s", at);
    end += more;
  }
  buffer_free(text);
}

// Adds a row that is finished to the file, on the disk before the next one begins: whatever ends this process leaves
// the rows before. At the end the file is replaced as a whole. A row is compared with earlier ones alone.
static bool row_keep(Ablate *ablate, int row, Error *error) {
  char path[IO_PATH_MAX];
  Buffer record = {0};
  int fd = -1;
  if (ablate->options->dry || !ablate->directory[0]) {
    return true;
  }
  ablate_compare(ablate);
  bool done = (ablate_record(ablate, row, &record) || error_set(error, 3, "no memory for ablate.jsonl")) &&
              io_path(path, error, "%s/ablate.jsonl", ablate->directory) &&
              io_open(path, O_WRONLY | O_CREAT | O_APPEND, &fd, error);
  if (done) {
    Error ignored;
    done = io_write(NULL, fd, path, record.text, record.length, error) && io_sync(NULL, fd, path, error);
    done &= io_close(fd, path, done ? error : &ignored);
    done = done && (row > 0 || io_sync_directory(NULL, ablate->directory, error));
  }
  buffer_free(&record);
  return done;
}

static bool ablate_end(Ablate *ablate, AblateResult *result, Error *error) {
  Buffer table = {0}, notes = {0}, records = {0}, chart = {0};
  ablate_compare(ablate);
  ablate_rank(ablate);
  result->rows = ablate->count;
  for (int i = 0; i < ablate->count; i++) {
    result->differ += ablate->rows[i].verdict == VERDICT_DIFFERS;
    result->failed += ablate->rows[i].state == ROW_FAILED;
    result->good += ablate->rows[i].state == ROW_DONE || ablate->rows[i].state == ROW_PLANNED;
  }
  ablate_table(ablate, &table);
  text_show(ablate, &table);
  ablate_notes(ablate, &notes);
  text_show(ablate, &notes);
  ablate_doubts(ablate);
  for (int i = 0; i < ablate->count; i++) {
    records.failed |= !ablate_record(ablate, i, &records);
  }
  if (ablate->options->lines && records.text && !records.failed) {
    fputs(records.text, ablate->options->lines);
  }
  if (!ablate->directory[0]) {
    buffer_free(&records);
    return true;
  }
  ablate_chart(ablate, &chart);
  bool done = file_write(ablate, "ablate.jsonl", &records, error);
  done = file_write(ablate, "ablate.svg", &chart, done ? error : &(Error){0}) && done;
  if (done) {
    log_line(&ablate->log, LOG_FAINT "picture" LOG_PLAIN "   %s/ablate.svg", ablate->directory);
    log_line(&ablate->log, LOG_FAINT "numbers" LOG_PLAIN "   %s/ablate.jsonl", ablate->directory);
  }
  return done;
}

bool ablate_run(const AblateOptions *options, AblateResult *result, Error *error) {
  Ablate ablate = {.arena = arena_create(), .options = options, .lock = -1};
  *result = (AblateResult){0};
  if (!ablate.arena) {
    return error_set(error, 3, "no memory");
  }
  log_start(&ablate.log, options->screen);
  bool done = choices_make(&ablate, error) && rows_make(&ablate, error) &&
              choices_check(&ablate.choices, &options->base, false, error) && device_choose(&ablate, error) &&
              directory_make(&ablate, error);
  if (done) {
    interrupt_install();
    for (int i = 0; done && i < ablate.count && !interrupt_requested(); i++) {
      ablate_row(&ablate, &ablate.rows[i]);
      done = row_keep(&ablate, i, error);
    }
    result->interrupted = interrupt_requested();
    done = ablate_end(&ablate, result, done ? error : &(Error){0}) && done;
    interrupt_restore();
  }
  log_close(&ablate.log);
  if (ablate.lock >= 0) {
    close(ablate.lock);
  }
  arena_destroy(ablate.arena);
  return done;
}
