// trace.c: writes traces and their tables.
#include "runtime/trace.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_guard.h"
#include "base/units.h"
#include "compiler/plan/waits.h"
#include "runtime/peers.h"

enum { PLACE_MAX_BYTES = 160 };

void trace_add(TraceLog *log, TraceSpan span) {
  if (log->count == log->capacity) {
    const int64_t capacity = log->capacity ? log->capacity * 2 : 1024;
    TraceSpan *longer = realloc(log->at, sizeof *longer * (size_t)capacity);
    if (!longer) {
      return;
    }
    log->at = longer;
    log->capacity = capacity;
  }
  log->at[log->count++] = span;
}

void trace_free(TraceLog *log) {
  free(log->at);
  *log = (TraceLog){0};
}

static const char *title_of(const Instruction *instruction) {
  return instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
}

void trace_name(const Instruction *instruction, char to[TRACE_NAME_MAX]) {
  int length = 0;
  const char *name = title_of(instruction);
  for (const char *at = name; *at && length + 1 < TRACE_NAME_MAX;) {
    const bool begins = at == name || at[-1] == '.';
    const size_t digits = begins ? strspn(at, "0123456789") : 0;
    if (digits > 0 && (at[digits] == '.' || at[digits] == '\0')) {
      to[length++] = '*';
      at += digits;
    } else {
      to[length++] = *at++;
    }
  }
  to[length] = '\0';
}

// --- communication that nothing hides ---

bool trace_exposure(const Plan *plan, const TraceSpan *spans, int64_t count, Exposure *out) {
  Arena *arena = arena_create();
  if (!arena) {
    return false;
  }
  PlanSpan *plain = ARENA_ARRAY(arena, PlanSpan, count + 1);
  for (int64_t i = 0; i < count; i++) {
    plain[i] = (PlanSpan){spans[i].instruction, spans[i].begin, spans[i].end};
  }
  exposure_find(arena, plan, plain, count, out);
  arena_destroy(arena);
  return true;
}

static void mesh_text(const Plan *plan, uint32_t mesh, char *to, size_t size) {
  size_t length = 0;
  to[0] = '\0';
  for (int m = 0; m < plan->mesh_count; m++) {
    if (mesh >> m & 1 && length < size) {
      length += (size_t)snprintf(to + length, size - length, "%s%s", length ? ", " : "", plan->mesh[m].name);
    }
  }
}

static void exposure_row(const char *over, double bytes, double seconds, double exposed, int64_t steps, Buffer *out) {
  const double each = (double)(steps > 0 ? steps : 1);
  char sent[UNITS_MAX] = "";
  if (bytes > 0) {
    units_bytes(sent, bytes / each);
  }
  buffer_format(out, "%9.3f ms %9.3f ms  %10s  %s\n", seconds / each * 1e3, exposed / each * 1e3, sent, over);
}

// By mesh axes, where there is more than one rank.
static void exposure_table(const Plan *plan, const TraceSpan *spans, int64_t count, int64_t steps, Buffer *out) {
  Exposure of;
  if (!trace_exposure(plan, spans, count, &of) || of.count == 0) {
    return;
  }
  buffer_format(out, "%12s %12s  %10s  %s\n", "communicates", "exposed", "sends", "over");
  for (int m = 0; m < of.count; m++) {
    char over[PLACE_MAX_BYTES];
    mesh_text(plan, of.mesh[m].mesh, over, sizeof over);
    exposure_row(over, of.mesh[m].bytes, of.mesh[m].seconds, of.mesh[m].exposed, steps, out);
  }
  if (of.count > 1) {
    exposure_row("together", 0, of.seconds, of.exposed, steps, out);
  }
}

// --- the trace ---

typedef struct {
  const Plan *plan;
  const TraceSpan *span;
  int64_t rank;
  double start;
} Event;

static json_t *event_json(void *context) {
  const Event *event = context;
  const Plan *plan = event->plan;
  const TraceSpan *span = event->span;
  char place[PLACE_MAX_BYTES];
  const Instruction *instruction = span->instruction;
  plan_source(plan, instruction->span, place, sizeof place);
  json_t *arguments = json_pack("{s:o, s:f, s:f}", "source", json_text(place), "flops", instruction->flops, "bytes",
                                instruction->bytes);
  if (span->form) {
    json_object_set_new(arguments, "form", json_text(span->form));
  }
  if (instruction_is_shared(instruction)) {
    mesh_text(plan, instruction_mesh(plan, instruction), place, sizeof place);
    json_object_set_new(arguments, "over", json_string(place));
    json_object_set_new(arguments, "sent", json_real(instruction_sends(instruction)));
  }
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:i, s:o}", "name", title_of(instruction), "cat",
                   instruction_kind_name(instruction->kind), "ph", "X", "ts", (span->begin - event->start) * 1e6, "dur",
                   (span->end - span->begin) * 1e6, "pid", (json_int_t)event->rank, "tid", span->lane, "args",
                   arguments);
}

// What `make` returns, behind `before`.
static void value_put(JsonMake *make, void *context, const char *before, Buffer *out) {
  char *text = json_made(make, context, JSON_COMPACT | JSON_REAL_PRECISION(12));
  out->failed |= !text;
  buffer_format(out, "%s%s", before, text ? text : "");
  json_guard_free(text);
}

static void event_put(JsonMake *make, void *context, bool *first, Buffer *out) {
  value_put(make, context, *first ? "\n" : ",\n", out);
  *first = false;
}

typedef struct {
  const char *kind, *name;
  int64_t rank;
  int lane;
} Title;

static json_t *title_json(void *context) {
  const Title *title = context;
  return json_pack("{s:s, s:s, s:I, s:i, s:{s:s}}", "name", title->kind, "ph", "M", "pid", (json_int_t)title->rank,
                   "tid", title->lane, "args", "name", title->name);
}

// Lanes are the queues of a plan: each that was used has its name.
static void lanes_json(const Plan *plan, const TraceSpan *spans, int64_t count, int64_t rank, bool *first,
                       Buffer *out) {
  int lanes = 0;
  for (int64_t i = 0; i < count; i++) {
    lanes = spans[i].lane >= lanes ? spans[i].lane + 1 : lanes;
  }
  Arena *arena = lanes > 1 ? arena_create() : NULL;  // a device with one lane runs all of them in it
  const PlanWaits *waits = arena ? plan_waits(arena, plan) : NULL;
  for (int lane = 0; waits && lane < lanes && lane < waits->queue_count; lane++) {
    char name[QUEUE_NAME_MAX];
    plan_queue_name(plan, waits, lane, name);
    event_put(title_json, &(Title){"thread_name", name, rank, lane}, first, out);
  }
  if (arena) {
    arena_destroy(arena);
  }
}

// Of a rank, by mesh axes: seconds of all its spans in which it communicates, and those that nothing hides.
typedef struct {
  const Plan *plan;
  Exposure of;
} Communication;

static json_t *exposure_json(void *context) {
  const Communication *all = context;
  json_t *object = json_object();
  for (int m = 0; m < all->of.count; m++) {
    const ExposedMesh *mesh = &all->of.mesh[m];
    char over[PLACE_MAX_BYTES];
    mesh_text(all->plan, mesh->mesh, over, sizeof over);
    json_object_set_new(
        object, over,
        json_pack("{s:f, s:f, s:f}", "sent", mesh->bytes, "seconds", mesh->seconds, "exposed", mesh->exposed));
  }
  return object;
}

void trace_json(const Session *session, Buffer *out) {
  Buffer exposed = {0};
  bool first = true;
  buffer_format(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    int64_t count = 0;
    const Plan *plan = session_plan(session, rank);
    const TraceSpan *spans = session->backend->traced(session_device(session, rank), &count);
    char name[32];
    snprintf(name, sizeof name, "rank %lld", (long long)rank);
    event_put(title_json, &(Title){"process_name", name, rank, 0}, &first, out);
    lanes_json(plan, spans, count, rank, &first, out);
    for (int64_t i = 0; i < count; i++) {
      event_put(event_json, &(Event){plan, &spans[i], rank, spans[0].begin}, &first, out);
    }
    Communication all = {.plan = plan};
    out->failed |= !trace_exposure(plan, spans, count, &all.of);
    buffer_format(&exposed, "%s\"%s\":", rank > 0 ? "," : "", name);
    value_put(exposure_json, &all, "", &exposed);
  }
  out->failed |= exposed.failed;
  buffer_format(out, "\n],\"otherData\":{\"communication\":{%s}}}\n", exposed.text ? exposed.text : "");
  buffer_free(&exposed);
}

// --- the table ---

typedef struct {
  char name[TRACE_NAME_MAX];
  char place[PLACE_MAX_BYTES];
  InstructionKind kind;
  const char *form;
  int lane;
  int64_t count;
  double seconds, flops, bytes;
} Row;

typedef struct {
  Row *at;
  int count, capacity;
  double seconds, flops, bytes;
} Rows;

static Row *row_of(Rows *rows, const Plan *plan, const TraceSpan *span) {
  Row row = {.kind = span->instruction->kind, .form = span->form ? span->form : "", .lane = span->lane};
  trace_name(span->instruction, row.name);
  plan_source(plan, span->instruction->span, row.place, sizeof row.place);
  for (int i = 0; i < rows->count; i++) {
    Row *have = &rows->at[i];
    if (have->kind == row.kind && have->lane == row.lane && strcmp(have->name, row.name) == 0 &&
        strcmp(have->form, row.form) == 0 && strcmp(have->place, row.place) == 0) {
      return have;
    }
  }
  if (rows->count == rows->capacity) {
    const int capacity = rows->capacity ? rows->capacity * 2 : 64;
    Row *longer = realloc(rows->at, sizeof *longer * (size_t)capacity);
    if (!longer) {
      return NULL;
    }
    rows->at = longer;
    rows->capacity = capacity;
  }
  rows->at[rows->count] = row;
  return &rows->at[rows->count++];
}

static int row_compare(const void *a, const void *b) {
  const Row *left = a, *right = b;
  return left->seconds < right->seconds ? 1 : left->seconds > right->seconds ? -1 : strcmp(left->name, right->name);
}

static void row_print(const Row *row, double total, int64_t steps, const DeviceFacts *facts, Buffer *out) {
  const double limit = fmax(row->flops / facts->peak_flops, row->bytes / facts->peak_bytes);
  buffer_format(out, "%9.3f ms ", row->seconds / (double)steps * 1e3);
  if (row->lane == 0) {
    buffer_format(out, "%5.1f%%", 100 * row->seconds / total);
  } else {
    buffer_format(out, "%6s", "-");
  }
  buffer_format(out, " %6.0f  %8.1f %8.1f ", (double)row->count / (double)steps, row->bytes / row->seconds / 1e9,
                row->flops / row->seconds / 1e12);
  if (isfinite(limit)) {
    buffer_format(out, "%5.0f%%", 100 * limit / row->seconds);
  } else {
    buffer_format(out, "%6s", "-");
  }
  buffer_format(out, "  %s  %s%s%s%s%s\n", row->name, instruction_kind_name(row->kind), *row->form ? ", " : "",
                row->form, *row->place ? "  " : "", row->place);
}

void trace_table(const Session *session, int64_t steps, int limit, Buffer *out) {
  Rows rows = {0};
  DeviceFacts facts;
  int64_t count = 0;
  const TraceSpan *spans = session->backend->traced(session->device, &count);
  session->backend->facts(session->device, &facts);
  for (int64_t i = 0; i < count; i++) {
    Row *row = row_of(&rows, session->plan, &spans[i]);
    const double seconds = spans[i].end - spans[i].begin;
    rows.seconds += spans[i].lane == 0 ? seconds : 0;  // the others run beside it
    if (row) {
      row->count++;
      row->seconds += seconds;
      row->flops += spans[i].instruction->flops;
      row->bytes += spans[i].instruction->bytes;
    }
  }
  qsort(rows.at, (size_t)rows.count, sizeof *rows.at, row_compare);
  buffer_format(out, "%12s %6s %6s  %8s %8s %6s  %s\n", "time a step", "share", "calls", "GB/s", "TFLOP/s", "limit",
                "what, how, where in the text");
  Row rest = {0};
  for (int i = 0; i < rows.count; i++) {
    if (limit == 0 || i < limit) {
      row_print(&rows.at[i], rows.seconds, steps, &facts, out);
    } else {
      rest.seconds += rows.at[i].lane == 0 ? rows.at[i].seconds : 0;
      rest.count += rows.at[i].count;
    }
  }
  if (rest.count > 0) {
    buffer_format(out, "%9.3f ms %5.1f%% %6.0f  %d more kinds of work\n", rest.seconds / (double)steps * 1e3,
                  100 * rest.seconds / rows.seconds, (double)rest.count / (double)steps, rows.count - limit);
  }
  buffer_format(out, "%9.3f ms in all, %lld instructions a step\n", rows.seconds / (double)steps * 1e3,
                (long long)(count / (steps > 0 ? steps : 1)));
  exposure_table(session->plan, spans, count, steps, out);
  free(rows.at);
}
