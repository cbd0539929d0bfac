// objects.c: compile-time objects, variables of a frame, and words for messages.
#include <string.h>

#include "lang/elaborate.h"
#include "lang/foreign.h"
#include "lang/stdlib.h"
#include "lang/unread_names.h"

Object object_poison(void) {
  return (Object){.kind = OBJECT_POISON};
}

Object object_value(ValueId value, Span span) {
  return (Object){.kind = OBJECT_VALUE, .value = value, .span = span};
}

Object object_number(double number, bool integer, Span span) {
  return (Object){.kind = OBJECT_NUMBER, .number = number, .integer = integer, .span = span};
}

Object object_bool(bool truth, Span span) {
  return (Object){.kind = OBJECT_BOOL, .number = truth, .span = span};
}

Object object_axis(AxisId axis, Span span) {
  return (Object){.kind = OBJECT_AXIS, .axes = shape_of(axis), .span = span};
}

const char *axis_name(const Elaborator *e, AxisId axis) {
  return e->graph->axes.at[axis].name;
}

int64_t axis_size(const Elaborator *e, AxisId axis) {
  return e->graph->axes.at[axis].size;
}

int64_t axis_count(const Elaborator *e, AxisId axis) {
  const Axis *at = &e->graph->axes.at[axis];
  return e->one_microbatch ? at->size : at->global;
}

const char *axes_text(Elaborator *e, const Shape *shape) {
  Buffer text = {0};
  buffer_text(&text, "[");
  for (int i = 0; i < shape->count; i++) {
    buffer_format(&text, "%s%s", i ? ", " : "", axis_name(e, shape->axis[i]));
  }
  buffer_text(&text, "]");
  const char *kept = arena_copy(e->arena, text.text, text.length + 1);
  buffer_free(&text);
  return kept;
}

const char *object_describe(Elaborator *e, const Object *object) {
  switch (object->kind) {
    case OBJECT_VALUE: {
      const Value *value = graph_value(e->graph, object->value);
      const char *axes = axes_text(e, &value->shape);
      if (value->type == TYPE_INDEX) {
        return arena_format(e->arena, "index(%s)%s", axis_name(e, value->bound), axes);
      }
      return arena_format(e->arena, "%s%s", element_type_name(value->type), axes);
    }
    case OBJECT_NUMBER:
      return arena_format(e->arena, "the number %g", object->number);
    case OBJECT_BOOL:
      return object->number != 0 ? "true" : "false";
    case OBJECT_STRING:
      return "a string";
    case OBJECT_AXIS:
      return arena_format(e->arena, "the axis '%s'", axis_name(e, object->axes.axis[0]));
    case OBJECT_AXES:
      return "a list of axes";
    case OBJECT_TUPLE:
      return arena_format(e->arena, "a tuple of %d", object->count);
    case OBJECT_WORD:
      return arena_format(e->arena, "the word '%s'", object->name);
    case OBJECT_FUNCTION:
      return arena_format(e->arena, "the function '%s'", object->function->declaration->ast->name);
    case OBJECT_NOTHING:
      return "nothing";
    case OBJECT_POISON:
      break;
  }
  return "an error";
}

Object *frame_find(Frame *frame, Name name) {
  int64_t at = map_get_or(&frame->variables, map_key(name), -1);
  return at < 0 ? NULL : &frame->objects.at[at];
}

void saw_name(Elaborator *e, Span span, const Object *object) {
  const TextWatch *watch = e->unit->watch;
  if (watch && span.file >= 0) {
    watch->saw(watch->context, e, span, NULL, object, 0);
  }
}

void frame_set(Elaborator *e, Frame *frame, Name name, Object object) {
  saw_name(e, object.span, &object);
  Object *old = frame_find(frame, name);
  if (old) {
    *old = object;
    return;
  }
  if (!frame->variables.arena) {
    frame->variables = map_create(e->arena);
  }
  map_put(&frame->variables, map_key(name), frame->objects.count);
  array_push(e->arena, &frame->objects, object);
  array_push(e->arena, &frame->declared, name);
}

// In an initialiser, sizes and arguments of the maker are visible.
Object *variable_find(Elaborator *e, Name name) {
  Object *variable = frame_find(e->frame, name);
  if (!variable && e->frame->kind == FRAME_INITIALISER) {
    variable = frame_find(e->frame->caller, name);
    variable = variable && variable->kind != OBJECT_VALUE ? variable : NULL;
  }
  return variable;
}

bool object_size(const Object *object, const Elaborator *e, double *number, bool *integer) {
  if (object->kind == OBJECT_NUMBER) {
    *number = object->number;
    *integer = object->integer;
    return true;
  }
  if (object->kind == OBJECT_AXIS) {
    *number = (double)axis_count(e, object->axes.axis[0]);
    *integer = true;
    return true;
  }
  return false;
}

const char *declared_as(const Ast *declaration) {
  switch (declaration->kind) {
    case AST_FUNCTION:
      return "a function";
    case AST_UPDATE:
      return "an update";
    case AST_AXIS:
      return "an axis";
    case AST_CONST:
      return "a constant";
    default:
      return "a model";
  }
}

Span span_of_user(const Elaborator *e, Span span) {
  for (const Frame *frame = e->frame; frame && diag_in_library(e->diag, span); frame = frame->caller) {
    span = frame->function ? frame->call : span;
  }
  return span;
}

void blame_caller(Elaborator *e, int first, Name function, Span call) {
  Diag *diag = e->diag;
  for (int i = first; i < diag->all.count; i++) {
    Diagnostic *one = &diag->all.at[i];
    if (!diag_in_library(e->diag, one->span)) {
      continue;
    }
    if (one->related.file < 0) {
      diag_related(diag, one, one->span, "in '%s'", function);
    }
    one->span = call;
    for (int j = 0; j < i; j++) {
      const Diagnostic *other = &diag->all.at[j];
      if (other->code == one->code && other->span.file == call.file && other->span.begin == call.begin &&
          strcmp(other->message, one->message) == 0) {  // said before, for another program or recipe
        diag->all.at[i--] = diag->all.at[--diag->all.count];
        diag->errors--;
        break;
      }
    }
  }
}

// A part of the library that has this function and was not imported, or NULL.
static const char *part_with(Elaborator *e, Name function) {
  const char *head = arena_format(e->arena, "fn %s(", function);
  for (const StdlibFile *file = stdlib_files; file->name; file++) {
    if (strstr(file->text, head)) {
      return file->name;
    }
  }
  return NULL;
}

// A name that is missing is said once for each function, with the number of places.
static bool unknown_again(Elaborator *e, Name name, Span span) {
  const uint64_t frame = map_key(e->frame ? e->frame->function : NULL), word = map_key(name);
  const int64_t first = map_get_bytes_or(&e->unknown, MAP_KEY(word, frame), -1);
  if (first < 0) {
    map_put_bytes(&e->unknown, MAP_KEY(word, frame), e->diag->all.count);
    map_put_bytes(&e->unknown, MAP_KEY(word, frame, span.begin), 1);
    return false;
  }
  e->diag->reports++;
  if (map_get_bytes_or(&e->unknown, MAP_KEY(word, frame, span.begin), 0) == 0) {
    const int64_t places = map_get_bytes_or(&e->unknown, MAP_KEY(word, frame, UINT32_MAX), 1) + 1;
    map_put_bytes(&e->unknown, MAP_KEY(word, frame, span.begin), 1);
    map_put_bytes(&e->unknown, MAP_KEY(word, frame, UINT32_MAX), places);
    if (first < e->diag->all.count && e->diag->all.at[first].code == E010) {
      diag_label(e->diag, &e->diag->all.at[first], "the first of %lld places", (long long)places);
    }
  }
  return true;
}

static bool declares(const Ast *ast, Name name) {
  const bool named = ast->kind == AST_AXIS || ast->kind == AST_CONST || ast->kind == AST_INPUT ||
                     ast->kind == AST_PARAM || ast->kind == AST_STATE || ast->kind == AST_CARRY;
  return named && ast->name == name;
}

// The first place behind a span where the body that it stands in declares or assigns this name; SPAN_NONE.
static Span declared_below(const Ast *ast, Name name, Span behind) {
  if (!ast || ast->span.file != behind.file || ast->span.end <= behind.end) {
    return SPAN_NONE;
  }
  if (declares(ast, name) && ast->name_span.begin > behind.begin) {
    return ast->name_span;
  }
  Span found = SPAN_NONE;
  for (int i = 0; ast->kind == AST_ASSIGN && i < ast->kids[0]->count; i++) {
    const Ast *target = ast->kids[0]->kids[i];
    if (target->name == name && target->span.begin > behind.end) {
      return target->span;
    }
  }
  for (int i = 0; i < ast->count && found.file < 0; i++) {
    found = declared_below(ast->kids[i], name, behind);
  }
  return found;
}

// The call that this is the name of, `embedding(..., name = table)`; SPAN_NONE: of none.
static Span call_named(const Ast *ast, Name name) {
  Span found = SPAN_NONE;
  if (ast && ast->kind == AST_ARGUMENT && names_a_part(ast)) {
    return ast->kids[0] && ast->kids[0]->name == name ? ast->span : SPAN_NONE;
  }
  for (int i = 0; ast && i < ast->count && found.file < 0; i++) {
    found = call_named(ast->kids[i], name);
  }
  return found;
}

void unknown_name(Elaborator *e, Name name, Span span, const char *kind) {
  const bool function = strcmp(kind, "function") == 0;
  e->spec->text->lacks |= function;
  if (unknown_again(e, name, span)) {
    return;
  }
  enum { MOST = 1024, MOST_SEARCHED = 100 };  // candidates; errors of which the whole text is walked
  const char *candidates[MOST];
  int count = 0;
  for (int i = 0; e->frame && !function && i < e->frame->declared.count && count < MOST; i++) {
    candidates[count++] = e->frame->declared.at[i];
  }
  const char *const *builtins;
  int builtin_count;
  builtin_names(&builtins, &builtin_count);
  for (int i = 0; i < builtin_count && count < MOST; i++) {
    if ((builtin_find(builtins[i]) != NULL) == function) {
      candidates[count++] = builtins[i];
    }
  }
  for (int i = 0; i < e->unit->all.count && count < MOST; i++) {
    const Ast *declared = e->unit->all.at[i].ast;
    if (e->unit->all.at[i].space == SPACE_CODE && (declared->kind == AST_FUNCTION) == function) {
      candidates[count++] = declared->name;
    }
  }
  Diagnostic *error = diag_error(e->diag, E010, span, "there is no %s '%s' here", kind, name);
  const char *closest = text_closest(name, candidates, count), *part = function ? part_with(e, name) : NULL;
  const char *foreign = function ? foreign_function(name) : foreign_name(name);
  const Ast *body = !e->frame ? NULL : e->frame->function ? e->frame->function : e->spec->text->model->ast;
  const bool itself = e->frame && e->frame->variable == name;
  const bool few = e->diag->errors <= MOST_SEARCHED;
  const Span below = function || itself || !few ? SPAN_NONE : declared_below(body, name, span);
  const Span named = few && strcmp(kind, "value") == 0 && !foreign ? call_named(body, name) : SPAN_NONE;
  if (below.file >= 0) {
    diag_related(e->diag, error, below, "it is declared here, below");
    diag_help(e->diag, error, "a name is known from its declaration on: move that up");
  } else if (named.file >= 0) {
    diag_related(e->diag, error, named, "it is the name of this call");
    diag_help(
        e->diag, error,
        "that names parameters, for selectors and checkpoints, and is no value: what is read twice is declared, `param "
        "%s: [vocab, embed] ~ normal(0.02);`, and read as `%s[tokens]` and `dot(x, %s over embed)`",
        name, name, name);
  } else if (foreign) {
    diag_help(e->diag, error, "%s", foreign);
  } else if (!function && e->frame && e->frame->kind == FRAME_UPDATE && e->frame->variable == name) {
    diag_help(e->diag, error, "what an update keeps from step to step is its state: `state %s like p = 0;`", name);
  } else if (part) {
    diag_help(e->diag, error, "write `import std.%s;` at the top of the file", part);
  } else if (closest) {
    diag_help(e->diag, error, "did you mean `%s`?", closest);
  } else if (strcmp(kind, "axis") == 0) {
    const bool inside = e->frame && (e->frame->kind == FRAME_FUNCTION || e->frame->kind == FRAME_COMPOSITE);
    diag_help(e->diag, error,
              inside ? "a function sees no axes of its caller, which gives them behind `over` and `to`; its own are "
                       "declared above, `axis %s = 64;`"
                     : "declare it above, with its size: `axis %s = 64;`",
              name);
  }
}
