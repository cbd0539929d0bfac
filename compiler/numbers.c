// numbers.c: reads the axes and constants off the model as it is elaborated.
#include "compiler/numbers.h"

#include <string.h>

#include "compiler/front.h"

static void numbers_of(Arena *arena, const Elaborator *e, const char *model, ModelNumbers *numbers) {
  *numbers = (ModelNumbers){.model = model, .at = ARENA_ARRAY(arena, ModelNumber, e->frame->declared.count + 1)};
  for (int i = 0; i < e->frame->declared.count; i++) {
    const Name name = e->frame->declared.at[i];
    const Object *object = frame_find(e->frame, name);
    if (!object || model_number(numbers, name)) {
      continue;
    }
    if (object->kind == OBJECT_AXIS) {
      numbers->at[numbers->count++] =
          (ModelNumber){.name = name, .value = (double)axis_count(e, object->axes.axis[0]), .axis = true};
    } else if (object->kind == OBJECT_NUMBER || object->kind == OBJECT_BOOL) {
      numbers->at[numbers->count++] =
          (ModelNumber){.name = name, .value = object->number, .truth = object->kind == OBJECT_BOOL};
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
