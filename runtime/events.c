// events.c: protocol buffers by hand; there are three messages.
#include "runtime/events.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/io.h"

// CRC-32C (Castagnoli), reflected; a few hundred bytes a step need no table.
static uint32_t crc32c(const void *data, size_t size) {
  const uint8_t *at = data;
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; i++) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; bit++) {
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
  }
  return ~crc;
}

static void put_fixed(Buffer *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) {
    char byte = (char)(value >> (8 * i) & 255);
    buffer_bytes(out, &byte, 1);
  }
}

static void put_varint(Buffer *out, uint64_t value) {
  while (value >= 128) {
    put_fixed(out, (value & 127) | 128, 1);
    value >>= 7;
  }
  put_fixed(out, value, 1);
}

static void put_bytes(Buffer *out, int field, const void *data, size_t size) {
  put_varint(out, (uint64_t)field << 3 | 2);
  put_varint(out, size);
  buffer_bytes(out, data, size);
}

static void put_double(Buffer *out, int field, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_varint(out, (uint64_t)field << 3 | 1);
  put_fixed(out, bits, 8);
}

static void put_masked_crc(Buffer *out, const void *data, size_t size) {
  uint32_t crc = crc32c(data, size);
  put_fixed(out, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u), 4);
}

static void put_record(Buffer *out, const Buffer *payload) {
  size_t start = out->length;
  put_fixed(out, payload->length, 8);
  if (!out->failed && !payload->failed) {
    put_masked_crc(out, out->text + start, 8);
    buffer_bytes(out, payload->text, payload->length);
    put_masked_crc(out, payload->text, payload->length);
  }
  out->failed |= payload->failed;
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
static void put_event(Buffer *out, double wall_time, int64_t step, int field, const void *data, size_t size) {
  Buffer event = {0};
  put_double(&event, 1, wall_time);
  if (step != 0) {
    put_varint(&event, 2 << 3);
    put_varint(&event, (uint64_t)step);
  }
  put_bytes(&event, field, data, size);
  put_record(out, &event);
  buffer_free(&event);
}

void events_record_version(Buffer *out, double wall_time) {
  static const char version[] = "brain.Event:2";
  put_event(out, wall_time, 0, 3, version, sizeof version - 1);
}

void events_record_restart(Buffer *out, double wall_time, int64_t step) {
  static const char start[] = {1 << 3, 1};  // SessionLog: 1 status = START
  put_event(out, wall_time, step, 7, start, sizeof start);
}

void events_record_scalar(Buffer *out, double wall_time, int64_t step, const char *tag, float value) {
  Buffer inner = {0}, summary = {0};
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_bytes(&inner, 1, tag, strlen(tag));  // Value: 1 tag, 2 simple_value
  put_varint(&inner, 2 << 3 | 5);
  put_fixed(&inner, bits, 4);
  if (!inner.failed) {
    put_bytes(&summary, 1, inner.text, inner.length);  // Summary: 1 value
  }
  out->failed |= inner.failed || summary.failed;
  if (!out->failed) {
    put_event(out, wall_time, step, 5, summary.text, summary.length);
  }
  buffer_free(&inner);
  buffer_free(&summary);
}

// Takes off what a record that could not be written may have left: readers stop at half of one, and would see nothing
// of what comes behind it. Tried again before the next one.
static bool events_whole(Events *events, Error *error) {
  events->torn = events->torn &&
                 (ftruncate(events->fd, (off_t)events->bytes) != 0 || lseek(events->fd, events->bytes, SEEK_SET) < 0);
  return !events->torn || error_set(error, 1, "cannot write %s, and its last record is torn", events->path);
}

static bool records_write(Events *events, Buffer *records, Error *error) {
  const bool failed = records->failed;
  const bool done = !failed && events_whole(events, error) &&
                    io_write(NULL, events->fd, events->path, records->text, records->length, error);
  if (failed) {
    error_set(error, 3, "no memory for %s", events->path);
  } else if (done) {
    events->bytes += (int64_t)records->length;
  } else {
    Error still;
    events->torn = true;
    *error = events_whole(events, &still) ? *error : still;
  }
  buffer_free(records);
  return done;
}

// The time in the name of a new file. Readers go through files in the order of their names, and never back: it is later
// than those that are there, also where the clock was set back.
static long long name_time(const char *directory, double now) {
  const long long most = 99999999999;
  long long named = (long long)now > 0 ? (long long)now : 0;
  DIR *open = opendir(directory);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    if (strncmp(entry->d_name, EVENTS_BEGIN, sizeof EVENTS_BEGIN - 1) == 0) {
      const long long other = strtoll(entry->d_name + sizeof EVENTS_BEGIN - 1, NULL, 10);
      named = other >= named && other < most ? other + 1 : named;
    }
  }
  if (open) {
    closedir(open);
  }
  return named;
}

bool events_open(Events *events, const char *directory, int64_t resumed_at, Error *error) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  for (char *at = host; *at; at++) {  // which the system does not look at
    *at = *at == '/' || (unsigned char)*at < ' ' ? '_' : *at;
  }
  events->fd = -1;
  events->bytes = 0;
  events->torn = false;
  const double now = clock_wall();
  if (!io_path(events->path, error, "%s/" EVENTS_BEGIN "%lld.%s.%ld.0", directory, name_time(directory, now), host,
               (long)getpid()) ||
      !io_create(NULL, events->path, &events->fd, error)) {
    return false;
  }
  Buffer records = {0};
  events_record_version(&records, now);
  if (resumed_at > 0) {
    events_record_restart(&records, now, resumed_at);
  }
  return records_write(events, &records, error);
}

void events_close(Events *events) {
  if (events->path[0] && events->fd >= 0) {
    close(events->fd);
  }
  events->fd = -1;
}

static void line_shown(Buffer *records, double now, int64_t step, const ShownList *list) {
  for (int i = 0; i < list->count; i++) {
    if (isfinite(list->at[i].value)) {
      events_record_scalar(records, now, step, shown_called(&list->at[i], list->at[i].key), (float)list->at[i].value);
    }
  }
}

bool events_line(Events *events, const MetricsLine *line, Error *error) {
  MetricsNumber numbers[METRICS_NUMBERS];
  Buffer records = {0};
  const double now = clock_wall();
  const int count = metrics_numbers(line, numbers);
  for (int i = 1; i < count; i++) {  // all but the step, which each record has
    if (isfinite(numbers[i].value)) {
      events_record_scalar(&records, now, line->step, numbers[i].key, (float)numbers[i].value);
    }
  }
  line_shown(&records, now, line->step, &line->shown);
  line_shown(&records, now, line->step, &line->measures);
  if (!isnan(line->val_loss)) {
    line_shown(&records, now, line->step, &line->sets);
    line_shown(&records, now, line->step, &line->validated);
  }
  return records_write(events, &records, error);
}
