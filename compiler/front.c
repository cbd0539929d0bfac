// front.c: what compiling any program of a text needs: its settings, what earlier programs found, and its memory.
#include "compiler/front.h"

#include <string.h>

#include "compiler/precision/codes.h"

static const size_t COMPILE_MEMORY = (size_t)8 << 30;

bool front_has_stages(const Spec *spec) {
  return spec->pipeline.axis && spec->mesh[spec->pipeline.mesh].size > 1;
}

bool front_has_histories(const Spec *spec) {
  bool any = false;
  for (int i = 0; i < spec->products.count; i++) {
    any |= spec->products.at[i].history > 0;
  }
  return any;
}

Unit front_unit(const Front *f, const CompileOptions *options) {
  return (Unit){.arena = f->arena,
                .names = f->names,
                .diag = f->diag,
                .open = options->open,
                .open_count = options->open_count,
                .watch = options->text_watch};
}

void front_check_model(Front *f, const CompileOptions *options, DiagMark mark) {
  if (!f->spec.text->model || !f->spec.text->read) {
    return;
  }
  Diag *diag = f->diag;
  const int end = diag->all.count, count = end - mark.count;
  const Diagnostic *read = arena_copy(f->arena, diag->all.at + mark.count, sizeof *read * (size_t)count);
  Compilation *c = ARENA_NEW(f->arena, Compilation);
  *c = front_start(f, options, PROGRAM_TRAIN);
  passes_run(c, "elaborate");
  int kept = mark.count;
  for (int i = end; i < diag->all.count; i++) {
    diag->all.at[kept++] = diag->all.at[i];
  }
  for (int i = 0; i < count; i++) {
    const bool follows = f->spec.text->lacks && (read[i].code == E015 || read[i].code == E041);
    diag->errors -= follows && read[i].severity == SEVERITY_ERROR;
    diag->warnings -= follows && read[i].severity == SEVERITY_WARNING;
    diag->all.at[kept] = read[i];
    kept += !follows;
  }
  diag->all.count = kept;
}

bool front_read(Front *f, Arena *arena, Diag *diag, const CompileOptions *options) {
  *f = (Front){.arena = arena, .diag = diag};
  f->names = names_create(arena);
  f->unit = front_unit(f, options);
  f->tenancy = (Tenancy){.index = map_create(arena)};
  f->tensors = (ModelTensors){.arena = arena, .index = map_create(arena)};
  if (!unit_load(&f->unit, options->file)) {
    return false;
  }
  const DiagMark mark = diag_mark(diag);
  if (!settings_read(arena, &f->unit, options, &f->spec)) {
    front_check_model(f, options, mark);
    return false;
  }
  f->pipeline = front_has_stages(&f->spec);
  f->offloads = ARENA_ARRAY(arena, OffloadFate, f->spec.offload.count + 1);
  f->compresses = ARENA_ARRAY(arena, CompressUse, f->spec.compress.count + 1);
  return true;
}

void front_choose_policy(Front *f, int policy) {
  f->spec.products = f->spec.policies.at[policy];
}

void front_start_again(Front *f) {
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) {
    arena_destroy(f->whole[kind].arena);
    f->whole[kind] = (WholeProgram){0};
  }
  f->histories = (HistoryList){0};
}

void front_start_plan(Front *f) {
  f->kernels = (KernelTable){.by_content = map_create(f->arena)};
  f->terms = (TermTable){0};
  array_push(f->arena, &f->terms, ((PlanTerm){{0}}));
  f->states = (StateMap){.by_name = map_create(f->arena)};
  f->copied = map_create(f->arena);
  f->given = (GivenInputs){0};
  f->least_copied = f->least_given = f->least_held = -1;
  f->again = false;
  if (f->stage == 0 || !f->frozen.arena) {
    f->frozen = map_create(f->arena);
  }
  if (!f->shares) {  // else they were found for all stages
    f->histories = (HistoryList){0};
  }
  f->facts = 0;
}

Compilation front_start(Front *f, const CompileOptions *options, ProgramKind program) {
  const int64_t block = program_block(program);
  return (Compilation){.arena = f->arena,
                       .names = f->names,
                       .diag = f->diag,
                       .unit = &f->unit,
                       .spec = &f->spec,
                       .program = block > 0 ? PROGRAM_GENERATE : program,
                       .decode = block > 0 || (options->decode && program == PROGRAM_GENERATE),
                       .block = block,
                       .gradients = options->gradients,
                       .poison = options->poison,
                       .values = options->values,
                       .tensors = &f->tensors,
                       .packs = f->packs,
                       .pack_count = program == PROGRAM_TRAIN ? 0 : f->pack_count,
                       .forms = program == PROGRAM_TRAIN ? NULL : &f->forms,
                       .tenancy = f->pipeline ? &f->tenancy : NULL,
                       .frozen = &f->frozen,
                       .copied = &f->copied,
                       .histories = &f->histories,
                       .offloads = f->offloads,
                       .compresses = f->compresses,
                       .facts = f->facts,
                       .stage = f->stage,
                       .chunk_bytes = options->chunk_bytes,
                       .part_rows = options->part_rows,
                       .watch = options->watch};
}

static Compilation *start_in(Front *f, const CompileOptions *options, ProgramKind kind, Arena *arena) {
  Compilation *c = ARENA_NEW(arena, Compilation);
  *c = front_start(f, options, program_policy(kind) >= 0 ? PROGRAM_TRAIN : kind);
  c->arena = arena;
  c->cold = program_is_cold(kind);
  return c;
}

// The passes that are the same for all stages, once.
static bool make_whole(Front *f, const CompileOptions *options, ProgramKind kind) {
  WholeProgram *whole = &f->whole[kind];
  if (whole->c) {
    return true;
  }
  arena_destroy(whole->arena);  // of a stage for which that failed
  whole->arena = arena_create();
  if (!whole->arena) {
    longjmp(*f->escape, 1);
  }
  front_limit(whole->arena, options, f->escape);
  Compilation *c = start_in(f, options, kind, whole->arena);
  const bool good = passes_run_whole(c);
  whole->c = good ? c : NULL;
  return good;
}

Compilation *front_program(Front *f, const CompileOptions *options, ProgramKind kind) {
  if (!f->shares) {
    Compilation *c = start_in(f, options, kind, f->scratch);
    return passes_run(c, NULL) ? c : NULL;
  }
  if (!make_whole(f, options, kind)) {
    return NULL;
  }
  Compilation *c = passes_view(f->whole[kind].c, f->scratch);
  c->stage = f->stage;
  c->facts = passes_facts(c->facts, f->facts);
  return passes_run_stage(c) ? c : NULL;
}

Lower front_lower(Front *f, Compilation *c) {
  return (Lower){.c = c,
                 .keep = f->arena,
                 .graph = c->graph,
                 .states = &f->states,
                 .kernels = &f->kernels,
                 .terms = &f->terms,
                 .given = &f->given};
}

// --- what programs know of the training step ---

void front_keep_step(Front *f, const Compilation *c) {
  const Graph *graph = c->graph;
  Pack *packs = arena_copy(f->arena, graph->packs.at, sizeof *packs * (size_t)graph->packs.count);
  for (int i = 0; i < graph->packs.count; i++) {
    packs[i].members = arena_copy(f->arena, packs[i].members, sizeof(Name) * (size_t)packs[i].count);
  }
  f->packs = packs;
  f->pack_count = graph->packs.count;
  shard_forms_keep(c, f->arena, &f->forms);
}

// --- programs that a model does not have ---

// Is the text right where this program is elaborated for the batch of training?
static bool right_for_whole_batch(Front *f, const CompileOptions *options, ProgramKind program) {
  Spec whole = f->spec;
  whole.microbatches = 1;
  Compilation c = front_start(f, options, program);
  c.spec = &whole;
  c.tensors = NULL;
  DiagMark mark = diag_mark(f->diag);
  bool right = pass_elaborate(&c);
  diag_rewind(f->diag, mark);
  return right;
}

bool front_leave_out(Front *f, const CompileOptions *options, ProgramKind program, DiagMark mark,
                     const char **missing) {
  Diag *diag = f->diag;
  bool generates = program == PROGRAM_GENERATE;
  for (int i = mark.count; i < diag->all.count; i++) {
    if (diag->all.at[i].code == E090 || diag->all.at[i].code == E099) {
      return false;
    }
  }
  bool other = generates || (program == PROGRAM_EVALUATE && f->spec.microbatches > 1);
  if (!other || diag->all.count == mark.count || diag->errors == mark.errors) {
    return false;
  }
  int at = mark.count;
  while (at < diag->all.count - 1 && diag->all.at[at].severity != SEVERITY_ERROR) {
    at++;
  }
  Diagnostic first = diag->all.at[at];
  if (!generates && !right_for_whole_batch(f, options, program)) {
    return false;
  }
  diag_rewind(diag, mark);
  const char *batch = generates ? "whose batch is 1" : "whose batch is that of one microbatch", *path = "the text";
  int line, column;
  diag_position(diag, first.span, &line, &column);
  path = first.span.file >= 0 ? diag->sources.at[first.span.file].path : path;
  *missing = arena_format(f->arena, "%s, and in %s:%d %s", generates ? "its batch is 1" : "its batch is a microbatch",
                          path, line, first.message);
  if (!generates || f->logits) {
    Diagnostic *note = diag_note(diag, first.code, first.span, "the program '%s', %s, is left out: %s",
                                 program_kind_name(program), batch, first.message);
    note->label = first.label;
    note->related = first.related;
    note->related_label = first.related_label;
  }
  return true;
}

// --- policies that do nothing ---

void front_note_products(Front *f, const Compilation *c) {
  for (int i = 0; i < c->products.count; i++) {
    const ChosenProduct *product = &c->products.at[i];
    const bool eight = element_type_bytes(product->type[0]) == 1 && element_type_bytes(product->type[1]) == 1;
    f->asked_eight++;
    f->eight += eight;
    f->no_eight = eight || f->no_eight || !product->why ? f->no_eight : product->why;
  }
}

void front_check_products(Front *f) {
  if (f->asked_eight > 0 && f->eight == 0) {
    Diagnostic *said = diag_warning(f->diag, E051, SPAN_NONE, "no product has 8 bits under '%s': %s",
                                    f->spec.run.precision, f->no_eight ? f->no_eight : "none fits");
    diag_help(f->diag, said,
              "`mdlc explain` says it of each product; sizes that are multiples of 128 fit all policies");
  }
}

void front_check_frozen(Front *f) {
  const ElementType format = f->spec.formats.frozen;
  bool any = format == f->spec.real;  // nothing else is asked for
  for (size_t i = 0; i < f->frozen.capacity && !any; i++) {
    any = f->frozen.slots[i].used && codes_holds_frozen(f->frozen.slots[i].value);
  }
  if (!any) {
    Diagnostic *said = diag_warning(f->diag, E051, SPAN_NONE, "no parameter is frozen, so '%s' stores none in %s",
                                    f->spec.run.precision, element_type_name(format));
    diag_help(
        f->diag, said,
        "`freeze NAME;` in the recipe freezes some; where none is, a precision without `frozen` computes the same");
  }
}

// --- rules that offload nothing ---

void front_check_offloads(Front *f) {
  static const char *const why[OFFLOAD_MOVED] = {
      [OFFLOAD_NONE] = "the backward reads nothing of what it selects",
      [OFFLOAD_SMALL] = "what it selects is too small to be worth the copies",
      [OFFLOAD_SOON] = "what it selects is read again before it could have left and come back",
      [OFFLOAD_FIXED] = "what it selects lies in memory that other parts of the step use",
  };
  for (int i = 0; i < f->spec.offload.count && !f->spec.idle_rules; i++) {
    const Selector *rule = &f->spec.offload.at[i];
    const OffloadFate fate = f->offloads[i];
    if (fate == OFFLOAD_MOVED) {
      continue;
    }
    // The first is so for all sizes.
    Diagnostic *said =
        fate == OFFLOAD_NONE
            ? diag_error(f->diag, E045, rule->span, "`offload %s` moves nothing: %s", rule->name, why[fate])
            : diag_warning(f->diag, E045, rule->span, "`offload %s` moves nothing: %s", rule->name, why[fate]);
    diag_help(f->diag, said, "remove it from the layout");
  }
}

void front_check_compress(Front *f) {
  for (int i = 0; i < f->spec.compress.count && !f->spec.idle_rules; i++) {
    const CompressRule *rule = &f->spec.compress.at[i];
    const MeshAxis *axis = &f->spec.mesh[rule->mesh];
    const CompressUse *use = &f->compresses[i];
    if (use->any || axis->size == 1) {
      continue;
    }
    const char *in = rule->place.name ? arena_format(f->arena, " in %s", rule->place.name) : "";
    const char *why = use->why ? arena_format(f->arena, " in what ranks send each other there: %s", use->why)
                               : ": ranks send each other no activations there, but by messages and exchanges";
    Diagnostic *error =
        diag_error(f->diag, E045, rule->span, "`compress %s%s` finds nothing to compress%s", axis->name, in, why);
    diag_help(f->diag, error, "%s",
              use->why ? "remove it, or choose a precision such as `precision bf16;`"
                       : "remove it; sums of gradients of parameters have 16 bits by `gradient bf16` of a precision");
  }
}

bool front_has_logits(const Compilation *c) {
  const Object *logits = frame_find(c->elaborator->frame, name_of(c->names, "logits"));
  return logits && logits->kind == OBJECT_VALUE;
}

// --- memory ---

static void out_of_memory(Diag *diag, bool over_limit) {
  if (over_limit) {
    Diagnostic *error = diag_error(diag, E090, SPAN_NONE, "compiling takes too much memory");
    diag_help(diag, error, "repeats and calls are unrolled: fewer of them, or fewer stages of a pipeline, take less");
  } else {
    diag->no_memory = true;
    diag_error(diag, E090, SPAN_NONE, "out of memory while compiling");
  }
}

void front_drop(Front *f) {
  if (!f) {
    return;
  }
  arena_destroy(f->scratch);
  f->scratch = NULL;
  for (int i = 0; i < PROGRAM_COUNT; i++) {
    arena_destroy(f->whole[i].arena);
    f->whole[i] = (WholeProgram){0};
  }
}

bool front_escaped(Arena *arena, Front *f, Diag *diag) {
  bool over_limit = arena_over_limit(arena) || (f && f->scratch && arena_over_limit(f->scratch));
  for (int i = 0; f && i < PROGRAM_COUNT; i++) {
    over_limit |= f->whole[i].arena && arena_over_limit(f->whole[i].arena);
  }
  front_drop(f);
  arena_set_escape(arena, NULL);
  arena_set_limit(arena, 0);
  out_of_memory(diag, over_limit);
  return false;
}

void front_limit(Arena *arena, const CompileOptions *options, jmp_buf *escape) {
  arena_set_escape(arena, escape);
  arena_set_limit(arena, escape ? options->memory ? options->memory : COMPILE_MEMORY : 0);
}
