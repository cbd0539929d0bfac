// largest.c: the largest values of a program where it needs most memory, for people who must make them smaller.
#include "compiler/lower/largest.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/lower/lower.h"

enum { NAME_BYTES = 256 };

typedef ARRAY(PlanValue) Values;

// layers.3.q -> layers.*.q
static void without_numbers(const char *name, char text[NAME_BYTES]) {
  size_t length = 0;
  for (const char *at = name; *at && length + 1 < NAME_BYTES;) {
    const size_t digits = at == name || at[-1] == '.' ? strspn(at, "0123456789") : 0;
    const bool number = digits > 0 && (at[digits] == '.' || at[digits] == '\0');
    text[length++] = *at;
    at += number ? digits : 1;
    text[length - 1] = number ? '*' : text[length - 1];
  }
  text[length] = '\0';
}

static void value_add_named(Arena *arena, Values *values, const char *made, Span span, int64_t bytes, int64_t count) {
  char name[NAME_BYTES];
  without_numbers(made, name);
  for (int i = 0; i < values->count; i++) {
    if (strcmp(values->at[i].name, name) == 0) {
      values->at[i].bytes += bytes * count;
      values->at[i].count += count;
      return;
    }
  }
  const PlanValue value = {arena_format(arena, "%s", name), span, bytes * count, count};
  array_push(arena, values, value);
}

// `count` values of so many bytes each, that this instruction makes; or NULL. `parts`: of which it makes a part.
static void value_add(Arena *arena, Values *values, const Instruction *maker, bool parts, int64_t bytes,
                      int64_t count) {
  const char *made = maker && maker->name ? maker->name : "without a name";
  const Span nowhere = SPAN_NONE;
  value_add_named(arena, values, parts ? arena_format(arena, "%s and others", made) : made,
                  maker ? maker->span : nowhere, bytes, count);
}

static int larger_first(const void *a, const void *b) {
  const PlanValue *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

static void values_sort(Values *values) {
  if (values->count > 0) {
    qsort(values->at, (size_t)values->count, sizeof *values->at, larger_first);
  }
}

void largest_values(Lower *l, PlanProgram *program) {
  const int segment = l->fullest.segment, moment = l->fullest.at;
  Values values = {0};
  for (int i = 0; i < l->buffers.count; i++) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    const bool lasts = buffer->segment == -1 || buffer->message;
    const bool alive = buffer->segment == segment && buffer->first <= moment && moment <= buffer->last;
    if (buffer->arena == ARENA_TRANSIENT && buffer->segment != -2 && buffer->bytes > 0 && (lasts || alive)) {
      value_add(l->c->arena, &values, buffer->maker, buffer->parts, buffer->bytes,
                buffer->copies > 0 ? buffer->copies : 1);
    }
  }
  values_sort(&values);
  program->value_count = values.count < PLAN_MAX_VALUES ? values.count : PLAN_MAX_VALUES;
  program->values = ARENA_ARRAY(l->keep, PlanValue, program->value_count + 1);
  for (int i = 0; i < program->value_count; i++) {
    program->values[i] = values.at[i];
    program->values[i].name = arena_format(l->keep, "%s", values.at[i].name);
  }
}

void largest_list(const Plan *plan, const PlanValue *values, int count, const char *between, Buffer *out) {
  for (int i = 0; i < count; i++) {
    const PlanValue *value = &values[i];
    char bytes[UNITS_MAX], source[NAME_BYTES];
    plan_source(plan, value->span, source, sizeof source);
    buffer_format(out, "%s%s %s", i ? between : "", value->name, units_bytes(bytes, (double)value->bytes));
    if (value->count > 1) {
      buffer_format(out, " in %lld", (long long)value->count);
    }
    if (*source) {
      buffer_format(out, " (%s)", source);
    }
  }
}

void largest_print(const Plan *plan, ProgramKind kind, const char *between, Buffer *out) {
  largest_list(plan, plan->programs[kind].values, plan->programs[kind].value_count, between, out);
}

void largest_offloaded(Arena *arena, const Plan *plan, const char *between, Buffer *out) {
  Values values = {0};
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count && plan_calls(plan, PROGRAM_TRAIN, s) > 0; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      if (instruction->kind == INSTRUCTION_OFFLOAD) {
        value_add(arena, &values, instruction, false, instruction->as.offload.bytes, 1);
      }
    }
  }
  values_sort(&values);
  largest_list(plan, values.at, values.count < PLAN_MAX_VALUES ? values.count : PLAN_MAX_VALUES, between, out);
}

int largest_stays(const Lower *l, OffloadFate why, PlanValue **values) {
  Values found = {0};
  for (int i = 0; i < l->stays.count; i++) {
    const OffloadStay *stay = &l->stays.at[i];
    if (stay->why == why) {
      value_add_named(l->keep, &found, stay->name ? stay->name : "without a name", stay->span, stay->bytes, 1);
    }
  }
  values_sort(&found);
  *values = found.at;
  return found.count < PLAN_MAX_VALUES ? found.count : PLAN_MAX_VALUES;
}

ProgramKind largest_program(const Plan *plan) {
  int most = PROGRAM_TRAIN;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    most = plan->programs[p].transient_bytes > plan->programs[most].transient_bytes ? p : most;
  }
  return (ProgramKind)most;
}
