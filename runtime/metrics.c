// metrics.c: writing lines whole, reading them back.
#include "runtime/metrics.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/json_guard.h"

enum { DAMAGED_MOST = 99 };

static bool point_add(Metrics *metrics, MetricsPoint point) {
  if (metrics->count == metrics->capacity) {
    int64_t capacity = metrics->capacity ? metrics->capacity * 2 : 256;
    MetricsPoint *longer = realloc(metrics->points, sizeof *longer * (size_t)capacity);
    if (!longer) {
      return false;
    }
    metrics->points = longer;
    metrics->capacity = capacity;
  }
  metrics->points[metrics->count++] = point;
  return true;
}

static double number_of(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

// Reads whole lines up to step `last` into points and, if `kept` is not NULL, copies their text. Lines that are none of
// metrics are counted and left out: what was written is no reason not to go on.
static bool lines_read(Metrics *metrics, const char *text, size_t size, int64_t last, Buffer *kept, Error *error) {
  size_t number = 0;
  for (size_t at = 0; at < size;) {
    const char *end = memchr(text + at, '\n', size - at);
    if (!end) {
      break;
    }
    size_t length = (size_t)(end - text) - at;
    number++;
    bool starved;
    json_t *line = json_read(text + at, length, 0, NULL, &starved);
    if (starved) {
      return error_set(error, 3, "no memory for %s", metrics->path);
    }
    const json_t *step = json_object_get(line, "step");
    if (!json_is_object(line) || !json_is_integer(step) || json_integer_value(step) < 0) {
      json_decref(line);
      metrics->bad_line = metrics->bad_line ? metrics->bad_line : number;
      metrics->bad_lines++;
      at += length + 1;
      continue;
    }
    const char *windows = json_string_value(json_object_get(line, "validated_with"));
    // Programs before wrote null of what a line does not know; then it has no time of a step either.
    const json_t *loss = json_object_get(line, "loss");
    const bool timed = json_is_number(json_object_get(line, "step_ms"));
    MetricsPoint point = {.step = number_of(line, "step"),
                          .loss = number_of(line, "loss"),
                          .val_loss = number_of(line, "val_loss"),
                          .unknown = !loss || (json_is_null(loss) && !timed),
                          .saved = json_is_number(json_object_get(line, "save_ms")),
                          .validated_with = windows ? strtoull(windows, NULL, 16) : 0};
    point.val_loss = json_is_null(json_object_get(line, "val_loss")) ? INFINITY : point.val_loss;
    json_decref(line);
    if (point.step <= (double)last) {
      if (!point_add(metrics, point)) {
        return error_set(error, 3, "no memory for %s", metrics->path);
      }
      if (kept) {
        buffer_bytes(kept, text + at, length + 1);
      }
    }
    at += length + 1;
  }
  return true;
}

bool metrics_damaged(const char *path, int n, char damaged[IO_PATH_MAX], Error *error) {
  return n == 0 ? io_path(damaged, error, "%s" METRICS_DAMAGED, path)
                : io_path(damaged, error, "%s" METRICS_DAMAGED "-%d", path, n);
}

// Beside those of before. Where there are very many, the last gives way.
static bool damaged_keep(Metrics *metrics, const char *text, size_t size, Error *error) {
  char damaged[IO_PATH_MAX];
  do {
    if (!metrics_damaged(metrics->path, metrics->damaged, damaged, error)) {
      return false;
    }
  } while (io_named(damaged) && ++metrics->damaged < DAMAGED_MOST);
  return io_replace_file(NULL, damaged, text, size, error);
}

static bool metrics_trim(Metrics *metrics, int64_t last, Error *error) {
  char *text;
  size_t size;
  Buffer kept = {0};
  if (!io_read_file(metrics->path, SIZE_MAX / 4, &text, &size, error)) {
    return false;
  }
  bool done = lines_read(metrics, text, size, last, &kept, error);
  if (done && kept.failed) {
    done = error_set(error, 3, "no memory for %s", metrics->path);
  }
  if (done && metrics->bad_lines > 0) {
    done = damaged_keep(metrics, text, size, error);
  }
  if (done && kept.length != size) {
    done = io_replace_file(NULL, metrics->path, kept.text, kept.length, error);
  }
  metrics->bytes = (int64_t)kept.length;
  buffer_free(&kept);
  free(text);
  return done;
}

bool metrics_open(Metrics *metrics, const char *path, int64_t last, Error *error) {
  *metrics = (Metrics){.fd = -1, .path = strdup(path)};
  if (!metrics->path) {
    return error_set(error, 3, "no memory");
  }
  // A file that cannot be looked at is no file that is not there.
  if (!io_absent(path) && !metrics_trim(metrics, last, error)) {
    return false;
  }
  return io_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, &metrics->fd, error);
}

void metrics_close(Metrics *metrics) {
  if (metrics->path && metrics->fd >= 0) {
    close(metrics->fd);
  }
  free(metrics->path);
  free(metrics->points);
  *metrics = (Metrics){.fd = -1};
}

const char *const metrics_keys[] = {"step",           "loss",    "grad_norm",    "lr",        "tokens",
                                    "tokens_per_s",   "step_ms", "tflops",       "mfu",       "memory_bytes",
                                    "skipped",        "save_ms", "save_wait_ms", "precision", "val_loss",
                                    "validated_with", NULL};

int metrics_numbers(const MetricsLine *line, MetricsNumber numbers[METRICS_NUMBERS]) {
  const MetricsNumber all[METRICS_NUMBERS] = {{"step", (double)line->step, 0},
                                              {"loss", line->loss, -1},
                                              {"grad_norm", line->grad_norm, -1},
                                              {"lr", line->lr, -1},
                                              {"tokens", (double)line->tokens, 0},
                                              {"tokens_per_s", line->tokens_per_s, 1},
                                              {"step_ms", line->step_ms, 3},
                                              {"tflops", line->tflops, 6},
                                              {"mfu", line->mfu, -1},
                                              {"memory_bytes", (double)line->memory_bytes, 0},
                                              {"skipped", (double)line->skipped, 0},
                                              {"save_ms", line->save_ms > 0 ? line->save_ms : NAN, 3},
                                              {"save_wait_ms", line->save_ms > 0 ? line->save_wait_ms : NAN, 3},
                                              {"val_loss", line->val_loss, -1}};
  memcpy(numbers, all, sizeof all);
  return METRICS_NUMBERS;
}

static void write_number(Buffer *text, const char *key, double value, int places) {
  char number[32];
  const double scale = pow(10, places);
  buffer_format(text, "%s\"%s\":", text->length > 1 ? "," : "", key);
  if (places == 0) {
    buffer_format(text, "%lld", (long long)value);
  } else {
    buffer_text(text, json_shortest(number, places > 0 ? round(value * scale) / scale : value));
  }
}

static void write_shown(Buffer *text, const ShownList *list) {
  for (int i = 0; i < list->count; i++) {
    const Shown *shown = &list->at[i];
    char number[32];
    if (shown->of == 0) {
      write_number(text, shown->key, shown->value, -1);
    } else if (shown->index == 0) {
      buffer_format(text, ",\"%s\":[%s", shown->key, json_shortest(number, shown->value));
    } else {
      buffer_format(text, ",%s", json_shortest(number, shown->value));
    }
    buffer_text(text, shown->index + 1 == shown->of ? "]" : "");
  }
}

// Takes off what a line that could not be written may have left; tried again before the next one.
static bool metrics_whole(Metrics *metrics, Error *error) {
  metrics->torn = metrics->torn && ftruncate(metrics->fd, (off_t)metrics->bytes) != 0;
  return !metrics->torn || error_set(error, 1, "cannot write %s, and its last line is torn", metrics->path);
}

bool metrics_write(Metrics *metrics, const MetricsLine *line, Error *error) {
  MetricsNumber numbers[METRICS_NUMBERS];
  Buffer text = {0};
  buffer_text(&text, "{");
  const int count = metrics_numbers(line, numbers), last = count - 1;
  for (int i = 0; i < last - 2 || (i < last && isfinite(numbers[i].value)); i++) {
    if (!line->made_up || !isnan(numbers[i].value)) {
      write_number(&text, numbers[i].key, numbers[i].value, numbers[i].places);
    }
  }
  if (line->precision) {
    buffer_format(&text, ",\"precision\":\"%.200s\"", line->precision);
  }
  if (!isnan(line->val_loss)) {
    write_number(&text, numbers[last].key, numbers[last].value, numbers[last].places);
    if (line->validated_with != 0) {
      buffer_format(&text, ",\"validated_with\":\"%016llx\"", (unsigned long long)line->validated_with);
    }
    write_shown(&text, &line->sets);
    write_shown(&text, &line->validated);
  }
  write_shown(&text, &line->shown);
  write_shown(&text, &line->measures);
  buffer_text(&text, "}\n");
  const bool failed = text.failed;
  const bool written = !failed && metrics_whole(metrics, error) &&
                       io_write(NULL, metrics->fd, metrics->path, text.text, text.length, error);
  if (!failed && !written) {  // no half of a line stays
    Error still;
    metrics->torn = true;
    *error = metrics_whole(metrics, &still) ? *error : still;
  }
  if (written && metrics->echo) {
    fputs(text.text, metrics->echo);
    fflush(metrics->echo);
  }
  metrics->bytes += written ? (int64_t)text.length : 0;
  buffer_free(&text);
  if (!written) {
    return failed ? error_set(error, 3, "no memory") : false;
  }
  return point_add(metrics, (MetricsPoint){.step = (double)line->step,
                                           .loss = line->loss,
                                           .val_loss = line->val_loss,
                                           .unknown = line->made_up && isnan(line->loss),
                                           .saved = line->save_ms > 0,
                                           .validated_with = line->validated_with}) ||
         error_set(error, 3, "no memory");
}

bool metrics_sync(Metrics *metrics, Error *error) {
  return io_sync(NULL, metrics->fd, metrics->path, error);
}

bool metrics_read(const char *path, MetricsPoint **points, int64_t *count, Error *error) {
  int64_t bad;
  return metrics_read_counting(path, points, count, &bad, error);
}

bool metrics_read_counting(const char *path, MetricsPoint **points, int64_t *count, int64_t *bad, Error *error) {
  Metrics metrics = {.fd = -1, .path = strdup(path)};
  char *text;
  size_t size;
  if (!metrics.path) {
    return error_set(error, 3, "no memory");
  }
  bool done = io_read_file(path, SIZE_MAX / 4, &text, &size, error);
  if (done) {
    done = lines_read(&metrics, text, size, INT64_MAX, NULL, error);
    free(text);
  }
  if (done) {
    *bad = metrics.bad_lines;
    *points = metrics.points;
    *count = metrics.count;
    metrics.points = NULL;
  }
  metrics_close(&metrics);
  return done;
}
