// metrics.c: writing lines whole, reading them back.
#include "runtime/metrics.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "runtime/io.h"

const char *metrics_number(char text[32], double number) {
  if (!isfinite(number)) {
    return "null";
  }
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, 32, "%.*g", digits, number);
    double back = strtod(text, NULL);
    if (back == number || ((double)(float)number == number && (double)(float)back == number)) {
      break;
    }
  }
  return text;
}

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

// Reads whole lines up to step `last` into points and, if `kept` is not NULL, copies their text.
static bool lines_read(Metrics *metrics, const char *text, size_t size, int64_t last, Buffer *kept, Error *error) {
  size_t number = 0;
  for (size_t at = 0; at < size;) {
    const char *end = memchr(text + at, '\n', size - at);
    if (!end) {
      break;
    }
    size_t length = (size_t)(end - text) - at;
    number++;
    json_t *line = json_loadb(text + at, length, 0, NULL);
    if (!json_is_object(line) || !json_is_integer(json_object_get(line, "step"))) {
      json_decref(line);
      return error_set(error, 1, "%s:%zu is not a line of metrics", metrics->path, number);
    }
    MetricsPoint point = {number_of(line, "step"), number_of(line, "loss"), number_of(line, "val_loss")};
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
  if (io_is_file(path) && !metrics_trim(metrics, last, error)) {
    return false;
  }
  return io_open(path, O_WRONLY | O_CREAT | O_APPEND, &metrics->fd, error);
}

void metrics_close(Metrics *metrics) {
  if (metrics->path && metrics->fd >= 0) {
    close(metrics->fd);
  }
  free(metrics->path);
  free(metrics->points);
  *metrics = (Metrics){.fd = -1};
}

// Names of the text that are keys of every line are told apart.
static void write_shown(Buffer *text, const MetricsLine *line) {
  static const char *const keys[] = {"step",   "loss", "tokens",       "tokens_per_s", "step_ms",
                                     "tflops", "mfu",  "memory_bytes", "precision",    "val_loss"};
  for (int i = 0; i < line->shown_count; i++) {
    char number[32];
    bool taken = false;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      taken = taken || strcmp(keys[k], line->shown[i].name) == 0;
    }
    buffer_format(text, ",\"%s%s\":%s", taken ? "output." : "", line->shown[i].name,
                  metrics_number(number, line->shown[i].value));
  }
  for (int i = 0; i < line->val_count; i++) {
    char number[32];
    buffer_format(text, ",\"val_loss.%s\":%s", line->val_losses[i].name,
                  metrics_number(number, line->val_losses[i].value));
  }
  for (int i = 0; i < line->load_count; i++) {
    char number[32];
    buffer_format(text, ",\"%s\":%s", line->loads[i].name, metrics_number(number, line->loads[i].value));
  }
}

bool metrics_write(Metrics *metrics, const MetricsLine *line, Error *error) {
  char loss[32], norm[32], lr[32], speed[32], time[32], flops[32], mfu[32], val[32];
  char tail[64] = "", precision[224] = "";
  Buffer text = {0};
  if (isfinite(line->val_loss)) {
    snprintf(tail, sizeof tail, ",\"val_loss\":%s", metrics_number(val, line->val_loss));
  }
  if (line->precision) {
    snprintf(precision, sizeof precision, ",\"precision\":\"%.200s\"", line->precision);
  }
  buffer_format(
      &text,
      "{\"step\":%lld,\"loss\":%s,\"grad_norm\":%s,\"lr\":%s,\"tokens\":%lld,\"tokens_per_s\":%s,"
      "\"step_ms\":%s,\"tflops\":%s,\"mfu\":%s,\"memory_bytes\":%lld,\"skipped\":%lld%s%s",
      (long long)line->step, metrics_number(loss, line->loss), metrics_number(norm, line->grad_norm),
      metrics_number(lr, line->lr), (long long)line->tokens, metrics_number(speed, round(line->tokens_per_s * 10) / 10),
      metrics_number(time, round(line->step_ms * 1e3) / 1e3), metrics_number(flops, round(line->tflops * 1e6) / 1e6),
      metrics_number(mfu, line->mfu), (long long)line->memory_bytes, (long long)line->skipped, precision, tail);
  write_shown(&text, line);
  buffer_text(&text, "}\n");
  const bool failed = text.failed;
  const bool written = !failed && io_write(NULL, metrics->fd, metrics->path, text.text, text.length, error);
  metrics->bytes += written ? (int64_t)text.length : 0;
  buffer_free(&text);
  if (!written) {
    return failed ? error_set(error, 3, "no memory") : false;
  }
  return point_add(metrics, (MetricsPoint){(double)line->step, line->loss, line->val_loss}) ||
         error_set(error, 3, "no memory");
}

bool metrics_sync(Metrics *metrics, Error *error) {
  return io_sync(NULL, metrics->fd, metrics->path, error);
}

bool metrics_read(const char *path, MetricsPoint **points, int64_t *count, Error *error) {
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
    *points = metrics.points;
    *count = metrics.count;
    metrics.points = NULL;
  }
  metrics_close(&metrics);
  return done;
}
