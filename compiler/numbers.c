// numbers.c: reads the axes and constants off the model as it is elaborated.
#include "compiler/numbers.h"

#include <string.h>

#include "compiler/front.h"

static int places(const Object *object) {
  int count = 1;
  for (int i = 0; object && object->kind == OBJECT_TUPLE && i < object->count; i++) {
    count += places(&object->items[i]);
  }
  return count;
}

static void add(Arena *arena, const Elaborator *e, const char *name, const Object *object, ModelNumbers *numbers) {
  ModelNumber number = {.name = name, .value = object->number, .truth = object->kind == OBJECT_BOOL};
  if (object->kind == OBJECT_AXIS) {
    number.value = (double)axis_count(e, object->axes.axis[0]);
    number.axis = true;
  } else if (object->kind != OBJECT_NUMBER && object->kind != OBJECT_BOOL) {
    for (int i = 0; object->kind == OBJECT_TUPLE && i < object->count; i++) {
      add(arena, e, arena_format(arena, "%s.%d", name, i), &object->items[i], numbers);
    }
    return;
  }
  numbers->at[numbers->count++] = number;
}

static void numbers_of(Arena *arena, const Elaborator *e, const char *model, ModelNumbers *numbers) {
  int most = 0;
  for (int i = 0; i < e->frame->declared.count; i++) {
    most += places(frame_find(e->frame, e->frame->declared.at[i]));
  }
  *numbers = (ModelNumbers){.model = model, .at = ARENA_ARRAY(arena, ModelNumber, most + 1)};
  for (int i = 0; i < e->frame->declared.count; i++) {
    const Name name = e->frame->declared.at[i];
    const Object *object = frame_find(e->frame, name);
    if (object && !model_number(numbers, name)) {
      add(arena, e, name, object, numbers);
    }
  }
}

bool compile_numbers(Arena *arena, Diag *diag, const CompileOptions *options, ModelNumbers *numbers) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return front_escaped(arena, NULL, diag);
  }
  front_limit(arena, options, &escape);
  Front *f = ARENA_NEW(arena, Front);
  bool good = front_read(f, arena, diag, options);
  if (good) {
    front_start_plan(f);
    Compilation c = front_start(f, options, PROGRAM_EVALUATE);
    good = pass_elaborate(&c);
    if (good) {
      numbers_of(arena, c.elaborator, f->spec.run.model, numbers);
    }
  }
  front_limit(arena, options, NULL);
  return good;
}

const ModelNumber *model_number(const ModelNumbers *numbers, const char *name) {
  for (int i = 0; i < numbers->count; i++) {
    if (strcmp(numbers->at[i].name, name) == 0) {
      return &numbers->at[i];
    }
  }
  return NULL;
}
