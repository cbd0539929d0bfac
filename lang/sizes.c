// sizes.c: axes and constants, and the sizes that a recipe gives them.
#include <string.h>

#include "lang/elaborate.h"
#include "lang/foreign.h"
#include "lang/settings_rules.h"

bool already_declared(Elaborator *e, const Ast *ast) {
  Object *old = frame_find(e->frame, ast->name);
  if (!old) {
    return false;
  }
  if (old->span.file == ast->name_span.file && old->span.begin == ast->name_span.begin) {
    return false;  // the same statement, in another iteration of a repeat
  }
  Diagnostic *error = diag_error(e->diag, E011, ast->name_span, "'%s' is declared twice", ast->name);
  if (old->span.file >= 0) {
    diag_related(e->diag, error, old->span, "the first declaration");
  }
  return true;
}

// What the recipe gives an axis or a constant that is declared here; NULL: nothing, or here is not the model itself.
static const Ast *size_setting(Elaborator *e, Name name) {
  if (e->frame->kind != FRAME_MODEL) {
    return NULL;
  }
  array_push(e->arena, &e->settable, name);
  for (int i = e->spec->text->sizes.count - 1; i >= 0; i--) {
    if (e->spec->text->sizes.at[i].name == name) {
      return e->spec->text->sizes.at[i].value;
    }
  }
  return NULL;
}

void settings_names(Elaborator *e, Frame *frame) {
  const PlanRun *run = &e->spec->run;
  frame_set(e, frame, name_of(e->names, "steps"), object_number((double)run->steps, true, SPAN_NONE));
  frame_set(e, frame, name_of(e->names, "seed"), object_number((double)run->seed, true, SPAN_NONE));
}

// A size given by the recipe is evaluated where only constants and other settings are known.
static bool setting_value(Elaborator *e, const Ast *value, Object *object) {
  frame_push(e, FRAME_SETTINGS, NULL, name_of(e->names, ""));
  settings_names(e, e->frame);
  *object = evaluate(e, value);
  frame_pop(e);
  return object->kind != OBJECT_POISON;
}

// Numbers of microbatches that cut an axis of this size, of those that cut the batch: "1, 2 or 4 microbatches".
static const char *legal_microbatches(Elaborator *e, int64_t global) {
  const Object *batch = frame_find(e->frame, name_of(e->names, "batch"));
  const int64_t rows = batch && batch->kind == OBJECT_AXIS ? axis_count(e, batch->axes.axis[0]) : global;
  enum { MOST = 8 };
  int64_t legal[MOST];
  int count = 0;
  for (int64_t n = 1; n <= rows && n <= global && count < MOST; n++) {
    if (rows % n == 0 && global % n == 0) {
      legal[count++] = n;
    }
  }
  Buffer text = {0};
  for (int i = 0; i < count; i++) {
    buffer_format(&text, "%s%lld", i == 0 ? "" : i + 1 < count ? ", " : " or ", (long long)legal[i]);
  }
  buffer_format(&text, " microbatch%s", count == 1 ? "" : "es");
  const char *kept = arena_copy(e->arena, text.text, text.length + 1);
  buffer_free(&text);
  return kept;
}

// A batch that microbatches do not divide. A rule that cuts it too has reported that, with what the ranks allow.
static void wrong_batch(Elaborator *e, Span span, int64_t size) {
  const int64_t slots = e->spec->microbatches, below = size / slots * slots;
  static const char reported[] = "axis 'batch' of size";
  for (int i = 0; i < e->diag->all.count; i++) {
    const Diagnostic *other = &e->diag->all.at[i];
    if (other->code == E043 && strncmp(other->message, reported, sizeof reported - 1) == 0) {
      e->diag->reports++;
      return;
    }
  }
  Diagnostic *error = diag_error(e->diag, E024, span, "a batch of %lld cannot be cut into %lld microbatches",
                                 (long long)size, (long long)slots);
  const char *smaller = below ? arena_format(e->arena, "%lld, ", (long long)below) : "";
  diag_help(e->diag, error, "it can be into %s; legal sizes of batch: %s%lld and other multiples of %lld",
            legal_microbatches(e, size), smaller, (long long)(below + slots), (long long)slots);
}

// An axis whose size is computed from the batch is cut with it.
static bool size_in_microbatch(Elaborator *e, const Ast *ast, int64_t global, int64_t *size) {
  double number = (double)global;
  bool integer = true;
  if (e->spec->microbatches > 1) {
    e->one_microbatch = true;
    bool good = evaluate_number(e, ast->kids[0], &number, &integer);
    e->one_microbatch = false;
    if (!good || !integer || number < 1 || number > 9e15) {
      Diagnostic *error = diag_error(e->diag, E024, ast->kids[0]->span,
                                     "axis '%s' has %lld positions and cannot be cut into %d microbatches", ast->name,
                                     (long long)global, e->spec->microbatches);
      diag_help(e->diag, error, "choose a batch or a number of microbatches for which it can: %s",
                legal_microbatches(e, global));
      return false;
    }
  }
  *size = (int64_t)number;
  return true;
}

bool cut_in_microbatches(const Elaborator *e, AxisId axis) {
  return e->graph->axes.at[axis].size != e->graph->axes.at[axis].global;
}

Object needs_whole_batch(Elaborator *e, AxisId axis, Span span) {
  Diagnostic *error =
      diag_error(e->diag, E037, span, "with %d microbatches no operation sees the whole batch, as this would have to",
                 e->spec->microbatches);
  diag_label(e->diag, error, "a microbatch has %lld of the %lld positions of '%s'", (long long)axis_size(e, axis),
             (long long)axis_count(e, axis), axis_name(e, axis));
  diag_help(e->diag, error,
            "use microbatches = 1, or let samples that belong together lie side by side: "
            "`axis group = batch / 4, member = 4;` and `x[batch -> (group, member)]`");
  return object_poison();
}

void run_axis(Elaborator *e, const Ast *ast) {
  if (already_declared(e, ast)) {
    return;
  }
  const Ast *given = size_setting(e, ast->name);
  int64_t size = 0, global = 0;
  bool good = false;
  Name name = ast->name;
  if (e->frame->function) {
    name = name_format(e->names, "%s.%s", e->frame->function->name, ast->name);
  }
  if (given) {
    Object object;
    good = setting_value(e, given, &object);
    double number = 0;
    bool integer = false;
    if (good && (!object_size(&object, e, &number, &integer) || !integer || number < 1 || number > 9e15)) {
      Diagnostic *error = diag_error(e->diag, E034, given->span,
                                     "the size of axis '%s' must be a whole number from 1 to 9e15", ast->name);
      if (given->kind == AST_STRING) {
        diag_help(e->diag, error, "numbers stand without quotes");
      } else if (!integer) {
        whole_help(e, error, given, number);
      }
      good = false;
    }
    size = good ? (int64_t)number : 0;
  } else if (ast->kids[1]) {
    AxisId like;
    good = evaluate_axis(e, ast->kids[1], &like);
    size = good ? axis_size(e, like) : 0;
    global = good ? e->graph->axes.at[like].global : 0;
  } else if (ast->kids[0]) {
    good = evaluate_size(e, ast->kids[0], &global) && size_in_microbatch(e, ast, global, &size);
  } else {
    Diagnostic *error = diag_error(e->diag, E023, ast->name_span, "axis '%s' has no size", ast->name);
    diag_help(e->diag, error, "give it one in the recipe, `%s = ...;`, or on the command line, `--set %s=...`",
              ast->name, ast->name);
    if (e->frame->kind == FRAME_MODEL && strcmp(e->spec->text->recipe->name, "_") != 0) {
      diag_related(e->diag, error, e->spec->text->recipe->name_span, "this recipe gives it none");
    }
  }
  if (!good) {
    frame_set(e, e->frame, ast->name, object_poison());
    return;
  }
  global = global ? global : size;
  if (e->frame->kind == FRAME_MODEL && strcmp(ast->name, "batch") == 0) {
    int64_t slots = e->spec->microbatches;
    if (e->program == PROGRAM_GENERATE) {
      size = global = 1;
    } else if (size % slots != 0) {
      wrong_batch(e, given ? given->span : ast->name_span, size);
    } else {
      size /= slots;
    }
  }
  AxisId axis = graph_axis(e->graph, name, size);
  e->graph->axes.at[axis].global = global;
  frame_set(e, e->frame, ast->name, object_axis(axis, ast->name_span));
}

void run_const(Elaborator *e, const Ast *ast) {
  if (already_declared(e, ast)) {
    return;
  }
  const Ast *given = size_setting(e, ast->name);
  Object object;
  if (given) {
    setting_value(e, given, &object);
  } else {
    object = evaluate(e, ast->kids[0]);
  }
  if (object.kind == OBJECT_VALUE) {
    diag_error(e->diag, E033, ast->span, "the constant '%s' is not known at compile time", ast->name);
    object = object_poison();
  }
  object.span = ast->name_span;
  frame_set(e, e->frame, ast->name, object);
}

// Says why a name that a recipe gives a value is none that it can: where it is declared otherwise, or what was meant.
static void blame_setting(Elaborator *e, const SizeSetting *setting) {
  Diagnostic *error = diag_error(e->diag, E010, setting->span, "the model '%s' has no axis or constant '%s'",
                                 e->spec->text->model->ast->name, setting->name);
  const Object *other = frame_find(e->frame, setting->name);
  const Declaration *outside = unit_find(e->unit, SPACE_CODE, setting->name);
  const AstKind kind = outside && !outside->library ? outside->ast->kind : AST_MODEL;
  if (other && other->span.file >= 0) {
    diag_related(e->diag, error, other->span, "this is %s", object_describe(e, other));
    if (other->kind == OBJECT_NUMBER) {
      diag_help(e->diag, error, "a recipe can set what is declared as `const %s = ...;`", setting->name);
    }
    return;
  }
  if (kind == AST_CONST || kind == AST_AXIS) {
    diag_related(e->diag, error, outside->ast->name_span, "this stands outside of the model");
    diag_help(e->diag, error, "what a recipe sets is declared in the model itself");
    return;
  }
  const char *closest = text_closest(setting->name, e->settable.at, e->settable.count);
  const char *of_recipe = setting_closest(setting->name);
  const char *both[] = {closest ? closest : of_recipe, of_recipe ? of_recipe : closest};
  closest = closest || of_recipe ? text_closest(setting->name, both, 2) : NULL;
  const bool set = setting->span.file >= 0 && strcmp(e->diag->sources.at[setting->span.file].path, SETTINGS_SET) == 0;
  const char *foreign = set ? foreign_set(setting->name) : foreign_assigned(setting->name);
  foreign = foreign ? foreign : foreign_setting(setting->name);
  if (foreign) {
    diag_help(e->diag, error, "%s", foreign);
  } else if (closest && strcmp(closest, setting->name) == 0) {
    diag_help(e->diag, error, "it is an entry of the recipe: `%s = ...;` beside `model`", closest);
  } else if (closest) {
    diag_help(e->diag, error, "did you mean `%s`?", closest);
  }
}

void check_settings_used(Elaborator *e) {
  for (int i = 0; i < e->spec->text->sizes.count; i++) {
    const SizeSetting *setting = &e->spec->text->sizes.at[i];
    const uint64_t unknown[] = {map_key(setting->name), map_key(NULL)};
    bool taken = map_get_bytes_or(&e->unknown, unknown, sizeof unknown, -1) >= 0;
    for (int s = 0; s < e->settable.count && !taken; s++) {
      taken = e->settable.at[s] == setting->name;
    }
    if (!taken) {
      blame_setting(e, setting);
    }
  }
}
