// clips.c: warns of gradients that are not clipped beside others that are: `clip` looks at the norm of all of them
// together, and scales those of its own rule.
#include <math.h>
#include <string.h>

#include "lang/updates.h"

typedef struct {
  bool can;            // the update of the rule has a `clip`
  bool said;           // the recipe gives it
  bool clips;          // it is a norm
  const Ast *written;  // that, where it is said
} Clip;

static bool is_norm(const Object *object) {
  return object->kind != OBJECT_NUMBER || (object->number > 0 && isfinite(object->number));
}

static bool is_norm_by_default(const Ast *value) {
  const bool none = !value || (value->kind == AST_NAME && strcmp(value->name, "inf") == 0);
  const bool number = value && value->kind == AST_NUMBER;
  return !none && !(number && value->number == 0);
}

static Clip clip_of(const Ast *update, const Arguments *arguments) {
  enum { PARAMETER_AND_GRADIENT = 2 };
  const Ast *formals = update->kids[0];
  Clip clip = {0};
  for (int i = PARAMETER_AND_GRADIENT; i < formals->count; i++) {
    const int place = i - PARAMETER_AND_GRADIENT;
    const Object *given = NULL;
    if (strcmp(formals->kids[i]->name, "clip") != 0) {
      continue;
    }
    if (place < arguments->positional_count) {
      given = &arguments->positional[place];
      clip.written = arguments->positional_ast[place];
    }
    for (int j = 0; j < arguments->named_count; j++) {
      if (strcmp(arguments->names[j], "clip") == 0) {
        given = &arguments->named[j];
        clip.written = arguments->named_ast[j];
      }
    }
    clip.can = true;
    clip.said = given != NULL;
    clip.clips = given ? is_norm(given) : is_norm_by_default(formals->kids[i]->kids[0]);
  }
  return clip;
}

void check_clips(Elaborator *e, const Arguments *arguments, const bool *updates) {
  const int count = e->spec->text->optimizers.count;
  Clip *clips = ARENA_ARRAY(e->arena, Clip, count + 1);
  const Clip *one = NULL;
  for (int i = 0; i < count; i++) {
    const Ast *call = e->spec->text->optimizers.at[i].call;
    if (call && updates[i] && !arguments[i].failed) {
      clips[i] = clip_of(unit_find(e->unit, SPACE_CODE, call->name)->ast, &arguments[i]);
      one = clips[i].clips && (!one || !one->written) ? &clips[i] : one;
    }
  }
  for (int i = 0; one && i < count; i++) {
    if (!clips[i].can || clips[i].said || clips[i].clips) {
      continue;
    }
    Diagnostic *said = diag_warning(e->diag, E057, e->spec->text->optimizers.at[i].call->span,
                                    "gradients of these parameters are not clipped, and those of others are");
    diag_help(e->diag, said,
              "give `clip` here too: it looks at the norm of all gradients together, and scales those of "
              "its own rule; `clip = 0` says that none is meant");
    if (one->written) {
      diag_related(e->diag, said, one->written->span, "of others");
    }
  }
}
