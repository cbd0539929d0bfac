// layout_schedule.c: pipelines: the schedule, how many microbatches it needs, and how the iterations are dealt out.
#include <math.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

static const char *const schedule_words[] = {"gpipe", "one_f_one_b", "interleaved", "zero_bubble"};

void layout_read_schedule(Layout *l, const Ast *phrase) {
  const Ast *terms = phrase->kids[0], *kind = terms->count == 2 ? terms->kids[1] : NULL;
  if (!kind || phrase->kids[1] || !name_in(kind->name, WORDS(schedule_words)) ||
      (kind->kind != AST_PATH && kind->kind != AST_CALL)) {
    Diagnostic *error = diag_error(l->unit->diag, E042, kind ? kind->span : phrase->span, "there is no such schedule");
    layout_suggest(l, error, kind && kind->name ? text_closest(kind->name, WORDS(schedule_words)) : NULL,
                   "schedules are gpipe, one_f_one_b, interleaved(chunks = n) and zero_bubble");
    return;
  }
  const Ast *arguments = kind->kind == AST_CALL ? kind->kids[0] : NULL;
  bool interleaved = name_is(kind->name, "interleaved");
  double chunks = 0;
  bool good = interleaved ? arguments && arguments->count == 1 && name_is(arguments->kids[0]->name, "chunks") &&
                                setting_constant(arguments->kids[0]->kids[0], &chunks) && chunks == floor(chunks) &&
                                chunks >= 1 && chunks <= LAYOUT_MAX_RANKS
                          : !arguments || arguments->count == 0;
  if (!good) {
    Diagnostic *error = diag_error(
        l->unit->diag, E042, kind->span,
        interleaved ? "`interleaved` needs the number of chunks on each stage" : "the schedule `%s` takes no arguments",
        kind->name);
    layout_suggest(l, error, NULL, interleaved ? "write `schedule interleaved(chunks = 2)`" : NULL);
    return;
  }
  for (int i = 0; i < (int)(sizeof schedule_words / sizeof *schedule_words); i++) {
    l->pipeline.schedule = name_is(kind->name, schedule_words[i]) ? (ScheduleKind)i : l->pipeline.schedule;
  }
  l->pipeline.chunks = interleaved ? (int)chunks : 1;
  l->schedule = phrase;
}

// "20, 12": how a help writes the parts of a cut that is as even as it can be, most first.
static const char *even_parts(const Layout *l, int64_t size, int64_t count) {
  const char *text = "";
  for (int64_t i = 0; i < count; i++) {
    int64_t part = size / count + (i < size % count ? 1 : 0);
    text = arena_format(l->unit->arena, "%s%s%lld", text, i ? ", " : "", (long long)part);
  }
  return text;
}

static void read_parts(Layout *l) {
  enum { SHOWN = 64 };
  Diag *diag = l->unit->diag;
  Pipeline *pipeline = &l->pipeline;
  int64_t stages = l->mesh[pipeline->mesh].size, wanted = stages * pipeline->chunks, sum = 0;
  int64_t size = l->sized ? layout_size(l, pipeline->axis) : 0;
  int count = l->parts->count;
  pipeline->parts = ARENA_ARRAY(l->unit->arena, int, count + 1);
  for (int i = 0; i < count; i++) {
    double part = 0;
    setting_constant(l->parts->kids[i]->kids[0], &part);
    if (part != floor(part) || part < 1 || part > LAYOUT_MAX_RANKS) {
      Diagnostic *error =
          diag_error(diag, E042, l->parts->kids[i]->span, "a chunk is a whole number of iterations of at least 1");
      diag_help(diag, error, "name the iterations of each chunk in order");
      return;
    }
    pipeline->parts[i] = (int)part;
    sum += (int64_t)part;
  }
  const char *each =
      pipeline->chunks > 1
          ? arena_format(l->unit->arena, "%lld stages with %d chunks each need %lld numbers", (long long)stages,
                         pipeline->chunks, (long long)wanted)
          : arena_format(l->unit->arena, "%lld stages need %lld numbers", (long long)stages, (long long)wanted);
  const char *fix =
      size >= wanted && wanted <= SHOWN
          ? arena_format(l->unit->arena, "write e.g. `%s(%s)`", l->stages->name, even_parts(l, size, wanted))
          : "name the iterations of each chunk in order, in all as many as the axis has";
  Diagnostic *error = NULL;
  if (size && size < wanted) {
    return;  // an error of its own
  }
  if (count != wanted) {
    error = diag_error(diag, E043, l->stages->span, "%s, not %d", each, count);
  } else if (size && sum != size) {
    error = diag_error(diag, E043, l->stages->span, "axis '%s' has %lld iterations, and these numbers add up to %lld",
                       pipeline->axis, (long long)size, (long long)sum);
  }
  if (error) {
    layout_suggest(l, error, NULL, fix);
    return;
  }
  pipeline->part_count = count;
}

// The legal numbers of microbatches next to the one that was asked for, at most one below and one above.
static const char *near_microbatches(const Layout *l, int64_t step) {
  int64_t below = l->microbatches / step * step, above = below + step;
  const char *text = "";
  for (int tries = 0; below > 0 && tries < LAYOUT_MAX_RANKS && !layout_batch_divides(l, below); tries++) {
    below -= step;
  }
  for (int tries = 0; above <= LAYOUT_MAX_RANKS && tries < LAYOUT_MAX_RANKS && !layout_batch_divides(l, above);
       tries++) {
    above += step;
  }
  if (below > 0) {
    text = arena_format(l->unit->arena, "`microbatches = %lld;`", (long long)below);
  }
  if (above <= LAYOUT_MAX_RANKS) {
    text = arena_format(l->unit->arena, "%s%s`microbatches = %lld;`", text, *text ? " or " : "", (long long)above);
  }
  return *text ? arena_format(l->unit->arena, "write %s", text)
               : arena_format(l->unit->arena, "the batch cannot be cut so: choose one that is a multiple of %lld",
                              (long long)step);
}

// The schedule is made and checked step by step for every stage.
static bool schedule_fits(const Layout *l, const Ast *at, int64_t stages) {
  enum { MOST_STEPS = 200000 };
  if (stages * l->pipeline.chunks * l->microbatches <= MOST_STEPS) {
    return true;
  }
  Diagnostic *error =
      diag_error(l->unit->diag, E090, at->span,
                 "%lld stages with %d chunk%s each and %lld microbatches are more than %d steps", (long long)stages,
                 l->pipeline.chunks, l->pipeline.chunks == 1 ? "" : "s", (long long)l->microbatches, (int)MOST_STEPS);
  diag_help(l->unit->diag, error, "more microbatches than eight for each stage save little");
  return false;
}

static void check_microbatches(Layout *l) {
  Diag *diag = l->unit->diag;
  Name name = l->mesh[l->pipeline.mesh].name;
  int64_t stages = l->mesh[l->pipeline.mesh].size;
  const Ast *at = l->slots ? l->slots : l->schedule ? l->schedule : l->stages;
  if (!schedule_fits(l, at, stages)) {
    return;
  }
  if (l->pipeline.schedule == SCHEDULE_INTERLEAVED && l->microbatches % stages != 0) {
    Diagnostic *error =
        diag_error(diag, E042, at->span, "`interleaved` needs a multiple of %s = %lld microbatches, not %lld", name,
                   (long long)stages, (long long)l->microbatches);
    diag_help(diag, error, "%s", near_microbatches(l, stages));
  } else if (l->microbatches < stages) {
    Diagnostic *warning =
        diag_warning(diag, E042, at->span, "a pipeline of %lld stages waits most of the time with %lld microbatch%s",
                     (long long)stages, (long long)l->microbatches, l->microbatches == 1 ? "" : "es");
    diag_help(diag, warning, "write `microbatches = %lld;` or more", (long long)stages);
  }
}

void layout_check_schedule(Layout *l) {
  if (!l->pipeline.axis) {
    if (l->schedule) {
      Diagnostic *error =
          diag_error(l->unit->diag, E042, l->schedule->span, "a schedule is for a pipeline, and there is none");
      diag_help(l->unit->diag, error, "map a repeated axis to the mesh: `layers -> pp;`");
    }
    return;
  }
  if (l->parts) {
    read_parts(l);
  }
  if (l->sized) {
    check_microbatches(l);
  }
}
