// ablate.c: the rows, one after the other, and the files that are left.
#include "runtime/ablate.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"
#include "runtime/trial.h"

enum { ROWS_MAX = 4096 };

// --- the list ---

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
    *row = (AblateRow){.bubble = NAN, .against = -1};
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

static bool directory_make(Ablate *ablate, Error *error) {
  const char *out = ablate->options->out;
  char file[IO_PATH_MAX];
  if (out) {
    if (!io_path(ablate->directory, error, "%s", out) || !io_make_path(out, error) ||
        !io_path(file, error, "%s/ablate.jsonl", out)) {
      return false;
    }
    return !io_is_file(file) ||
           error_set(error, 1, "%s holds an ablation already; remove it or choose another --out", out);
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
      return error_set(error, 1, "cannot create the directory %s: %s", ablate->directory, strerror(errno));
    }
  }
}

// --- a row ---

static void row_live(Ablate *ablate, const AblateRow *row, const char *format, int64_t step, double loss) {
  char text[512];
  int length = snprintf(text, sizeof text, LOG_FAINT "%d/%d" LOG_PLAIN "  %.300s  ", (int)(row - ablate->rows) + 1,
                        ablate->count, row->name);
  if (format) {
    snprintf(text + length, sizeof text - (size_t)length, "%s", format);
  } else {
    snprintf(text + length, sizeof text - (size_t)length,
             LOG_FAINT "step" LOG_PLAIN " %lld/%lld" LOG_FAINT "  loss " LOG_PLAIN "%.4f", (long long)step,
             (long long)ablate->options->steps, loss);
  }
  log_live(&ablate->log, text);
}

static bool row_train(Ablate *ablate, AblateRow *row, Trial *trial, Error *error) {
  const AblateOptions *options = ablate->options;
  double total = 0, live = 0, start = clock_seconds();
  row_live(ablate, row, "compiling", 0, 0);
  if (!trial_compile(trial, &row->options, error)) {
    return false;
  }
  row->compile_seconds = clock_seconds() - start;
  ablate_measure(trial->arena, trial->set, row);
  if (!trial_open(trial, options->data, options->threads, options->deadline_seconds, error)) {
    return false;
  }
  while (row->steps < options->steps && !interrupt_requested()) {
    double loss;
    start = clock_seconds();
    if (!trial_step(trial, row->steps + 1, &loss, error)) {
      return false;
    }
    double now = clock_seconds();
    total += row->steps > 0 || options->steps == 1 ? now - start : 0;
    row->loss[row->steps++] = loss;
    row->seconds = total / (double)(row->steps > 1 ? row->steps - 1 : 1);
    if (now - live > 0.1) {
      row_live(ablate, row, NULL, row->steps, loss);
      live = now;
    }
  }
  return true;
}

static void row_run(Ablate *ablate, AblateRow *row) {
  Trial trial = {0};
  Error error = {0};
  bool done = row_train(ablate, row, &trial, &error);
  row->state = !done ? ROW_FAILED : row->steps == ablate->options->steps ? ROW_DONE : ROW_STOPPED;
  if (!done) {
    row->problem = arena_format(ablate->arena, "%.*s", (int)strcspn(error.text, "\n"), error.text);
  }
  trial_close(&trial);
  if (!ablate->log.terminal) {  // one flushed line for each row; a terminal has the live line
    char loss[48] = "";
    if (row->steps > 0) {
      snprintf(loss, sizeof loss, "  loss %.6f", row->loss[row->steps - 1]);
    }
    log_line(&ablate->log, "%d/%d  %s%s%s%s", (int)(row - ablate->rows) + 1, ablate->count, row->name, loss,
             done ? "" : "  ", done ? "" : row->problem);
  }
}

// --- all ---

static bool file_write(const Ablate *ablate, const char *name, Buffer *text, Error *error) {
  char path[IO_PATH_MAX];
  bool done = text->failed ? error_set(error, 3, "no memory for %s", name)
                           : io_path(path, error, "%s/%s", ablate->directory, name) &&
                                 io_replace_file(NULL, path, text->text, text->length, error);
  buffer_free(text);
  return done;
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

static bool ablate_end(Ablate *ablate, AblateResult *result, Error *error) {
  Buffer table = {0}, verdicts = {0}, records = {0}, chart = {0};
  ablate_compare(ablate);
  result->rows = ablate->count;
  for (int i = 0; i < ablate->count; i++) {
    result->differ += ablate->rows[i].verdict == VERDICT_DIFFERS;
    result->failed += ablate->rows[i].state == ROW_FAILED;
  }
  ablate_table(ablate, &table);
  text_show(ablate, &table);
  ablate_verdicts(ablate, &verdicts);
  text_show(ablate, &verdicts);
  if (!ablate_records(ablate, &records)) {
    records.failed = true;
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
  Interrupt interrupt;
  Ablate ablate = {.arena = arena_create(), .options = options};
  *result = (AblateResult){0};
  if (!ablate.arena) {
    return error_set(error, 3, "no memory");
  }
  log_start(&ablate.log, options->screen);
  bool done = choices_read(ablate.arena, options->words, options->word_count, false, &ablate.choices, error);
  if (done && ablate.choices.count == 0) {
    done = error_set(error, 2, "there is nothing to vary; say what, for example layout=single,tp2 or batch=4,8");
  }
  done = done && rows_make(&ablate, error) && choices_check(&ablate.choices, &options->base, error) &&
         directory_make(&ablate, error);
  if (done) {
    interrupt_install(&interrupt);
    for (int i = 0; i < ablate.count && !interrupt_requested(); i++) {
      row_run(&ablate, &ablate.rows[i]);
    }
    result->interrupted = interrupt_requested();
    done = ablate_end(&ablate, result, error);
    interrupt_restore(&interrupt);
  }
  log_close(&ablate.log);
  arena_destroy(ablate.arena);
  return done;
}
