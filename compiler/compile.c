// compile.c: the driver: text, passes in the order of passes.def, lowering, plan.
//
//   text ─ parse, settings ─▶ for each program: elaborate ─ passes ─▶ graph ─ lower, memory ─▶ instructions ─▶ plan
#include "compiler/compile.h"

#include <setjmp.h>
#include <string.h>

#include "compiler/compilation.h"
#include "compiler/explain.h"
#include "compiler/graph_text.h"
#include "compiler/lower.h"
#include "compiler/plan/check.h"
#include "compiler/plan/emit.h"
#include "compiler/plan/verify.h"
#include "compiler/schedule.h"
#include "compiler/verify.h"

enum { ALL = 0, TRAIN = 1 };
static const size_t COMPILE_MEMORY = (size_t)8 << 30;

static const struct {
  const char *name, *what;
  Pass *run;
  int programs;
} passes[] = {
#define PASS(name, function, programs, what) {#name, what, function, programs},
#include "compiler/passes.def"
#undef PASS
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

bool pass_elaborate(Compilation *c) {
  c->elaborator = elaborate_model(c->arena, c->names, c->diag, c->unit, c->spec, c->program);
  c->graph = c->elaborator ? c->elaborator->graph : NULL;
  if (c->graph) {
    graph_assign_last(c->graph);
  }
  if (c->graph && c->values) {
    forward_paths(c);
  }
  return c->graph != NULL;
}

static bool run_passes(Compilation *c, const char *after) {
  c->differentiated = c->program != PROGRAM_TRAIN;
  for (int i = 0; i < PASS_COUNT; i++) {
    if (passes[i].programs == TRAIN && c->program != PROGRAM_TRAIN) {
      continue;
    }
    const int errors = c->diag->errors;
    if (!passes[i].run(c) || c->diag->errors > errors) {
      return false;
    }
    if (c->watch) {
      c->watch->after(c->watch->context, c, passes[i].name);
    }
    if (!graph_verify(c->graph, c->diag, passes[i].name)) {
      return false;
    }
    if (after && strcmp(after, passes[i].name) == 0) {
      return true;
    }
  }
  return true;
}

// What compiling any program of a text needs.
typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  Unit unit;
  Spec spec;
  bool pipeline;    // of more than one stage
  Tenancy tenancy;  // see Compilation
  Map copied;       // of the plan being compiled; see Compilation
  int stage;        // being compiled
  bool logits;      // the model has some, so text can be generated
  int64_t batch, sequence;
  Arena *scratch;     // of the program being compiled, or NULL
  jmp_buf *escape;    // where to go when memory is out
  const Pack *packs;  // of its training step
  int pack_count;
  KeptForms forms;  // likewise
  Map tensors;      // likewise: names of tensors to their sizes
} Front;

static bool has_stages(const Spec *spec) {
  return spec->pipeline.axis && spec->mesh[spec->pipeline.mesh].size > 1;
}

static bool front_read(Front *f, Arena *arena, Diag *diag, const CompileOptions *options) {
  *f = (Front){.arena = arena, .diag = diag};
  f->names = names_create(arena);
  f->unit = (Unit){.arena = arena, .names = f->names, .diag = diag};
  f->tenancy = (Tenancy){.index = map_create(arena)};
  f->copied = map_create(arena);
  if (!unit_load(&f->unit, options->file) || !settings_read(arena, &f->unit, options, &f->spec)) {
    return false;
  }
  f->pipeline = has_stages(&f->spec);
  return true;
}

static Compilation start(Front *f, const CompileOptions *options, ProgramKind program) {
  return (Compilation){.arena = f->arena,
                       .names = f->names,
                       .diag = f->diag,
                       .unit = &f->unit,
                       .spec = &f->spec,
                       .program = program,
                       .gradients = options->gradients,
                       .poison = options->poison,
                       .values = options->values,
                       .packs = f->packs,
                       .pack_count = program == PROGRAM_TRAIN ? 0 : f->pack_count,
                       .forms = program == PROGRAM_TRAIN ? NULL : &f->forms,
                       .tenancy = f->pipeline ? &f->tenancy : NULL,
                       .copied = &f->copied,
                       .stage = f->stage,
                       .chunk_bytes = options->chunk_bytes,
                       .bucket_bytes = options->bucket_bytes,
                       .watch = options->watch};
}

static void add_schedule(Front *f, Lower *l) {
  const Pipeline *pipeline = &f->spec.pipeline;
  int stages = (int)f->spec.mesh[pipeline->mesh].size;
  l->schedule = schedule_make(f->arena, pipeline->schedule, stages, pipeline->chunks, f->spec.microbatches, NULL);
  const int *all = schedule_lanes_all(l->c->arena, l->schedule, l->c->jumps.at, l->c->jumps.count);
  int *lanes = ARENA_ARRAY(f->arena, int, pipeline->chunks);
  for (int i = 0; i < pipeline->chunks; i++) {
    lanes[i] = all[i * stages + f->stage];
  }
  l->lanes = lanes;
}

// --- programs that a model does not have ---

// Is the text right where this program is elaborated for the batch of training?
static bool right_for_whole_batch(Front *f, const CompileOptions *options, ProgramKind program) {
  Spec whole = f->spec;
  whole.microbatches = 1;
  Compilation c = start(f, options, program);
  c.spec = &whole;
  DiagMark mark = diag_mark(f->diag);
  bool right = pass_elaborate(&c);
  diag_rewind(f->diag, mark);
  return right;
}

// What cannot be compiled for a batch of another size than in training is left out with a note: what was said since
// `mark` is then unsaid. Training was compiled before, and evaluation, which is no training either, before generation.
static bool leave_out(Front *f, const CompileOptions *options, ProgramKind program, DiagMark mark,
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
  Diagnostic first = diag->all.at[mark.count];
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

static bool has_logits(const Compilation *c) {
  const Object *logits = frame_find(c->elaborator->frame, name_of(c->names, "logits"));
  return logits && logits->kind == OBJECT_VALUE;
}

// What the programs that come after a training step must know of it.
static void keep_step(Front *f, const Compilation *c) {
  const Graph *graph = c->graph;
  Pack *packs = arena_copy(f->arena, graph->packs.at, sizeof *packs * (size_t)graph->packs.count);
  for (int i = 0; i < graph->packs.count; i++) {
    packs[i].members = arena_copy(f->arena, packs[i].members, sizeof(Name) * (size_t)packs[i].count);
  }
  f->packs = packs;
  f->pack_count = graph->packs.count;
  shard_forms_keep(c, f->arena, &f->forms);
  f->tensors = map_create(f->arena);
  for (int i = 0; i < graph->persistent.count; i++) {
    const Shape *shape = &graph->persistent.at[i].shape;
    int64_t *sizes = ARENA_ARRAY(f->arena, int64_t, shape->count + 1);
    for (int a = 0; a < shape->count; a++) {
      sizes[a] = graph->axes.at[shape->axis[a]].size;
    }
    map_put(&f->tensors, map_key(graph->persistent.at[i].name), (int64_t)(intptr_t)sizes);
  }
}

// Tensors are those of training. One with an axis of the batch is another where the batch has another size.
static bool check_tensors(const Front *f, const Compilation *c) {
  const int errors = f->diag->errors;
  for (int i = 0; i < c->graph->persistent.count; i++) {
    const Persistent *tensor = &c->graph->persistent.at[i];
    const int64_t *sizes = (const int64_t *)(intptr_t)map_get_or(&f->tensors, map_key(tensor->name), 0);
    for (int a = 0; sizes && a < tensor->shape.count; a++) {
      const Axis *axis = &c->graph->axes.at[tensor->shape.axis[a]];
      if (axis->size != sizes[a]) {
        diag_error(f->diag, E024, tensor->span, "'%s' has %lld positions along '%s' here, and %lld in training",
                   tensor->name, (long long)axis->size, axis->name, (long long)sizes[a]);
      }
    }
  }
  return f->diag->errors == errors;
}

// From what is left of the training step.
static bool make_refresh(Front *f, Compilation *c, StateMap *states, KernelTable *kernels, TermTable *terms,
                         Plan *plan) {
  if (!copies_refresh(c) || !graph_verify(c->graph, f->diag, "refresh")) {
    return false;
  }
  Lower l = {.c = c, .keep = f->arena, .graph = c->graph, .states = states, .kernels = kernels, .terms = terms};
  lower_program(&l);
  emit_program(plan, &l, assign_memory(&l, &plan->programs[PROGRAM_REFRESH]));
  return true;
}

static bool make_program(Front *f, const CompileOptions *options, ProgramKind program, StateMap *states,
                         KernelTable *kernels, TermTable *terms, Plan *plan) {
  Compilation *c = ARENA_NEW(f->scratch, Compilation);
  *c = start(f, options, program);
  c->arena = f->scratch;
  if (!run_passes(c, NULL) || (program != PROGRAM_TRAIN && !check_tensors(f, c))) {
    return false;
  }
  int errors = f->diag->errors;
  Lower l = {.c = c, .keep = f->arena, .graph = c->graph, .states = states, .kernels = kernels, .terms = terms};
  if (program == PROGRAM_TRAIN) {
    state_map_build(&l);
    keep_step(f, c);
    f->logits = has_logits(c);
  }
  if (program == PROGRAM_GENERATE && c->nothing) {
    return true;  // no logits: nothing to generate from
  }
  if (f->pipeline && program == PROGRAM_TRAIN) {
    add_schedule(f, &l);
  }
  lower_program(&l);
  if (f->diag->errors > errors) {
    return false;
  }
  int64_t transient = assign_memory(&l, &plan->programs[program]);
  if (program == PROGRAM_TRAIN && options->view) {
    options->view->spec = &f->spec;
    view_keep(options->view, &l);
  }
  emit_program(plan, &l, transient);
  if (program == PROGRAM_TRAIN) {
    emit_states(plan, &l);
  }
  return program != PROGRAM_TRAIN || !copies_wanted(&f->spec) || make_refresh(f, c, states, kernels, terms, plan);
}

static void out_of_memory(Diag *diag, bool over_limit) {
  if (over_limit) {
    Diagnostic *error = diag_error(diag, E090, SPAN_NONE, "compiling takes too much memory");
    diag_help(diag, error, "repeats and calls are unrolled: fewer of them, or fewer stages of a pipeline, take less");
  } else {
    diag_error(diag, E090, SPAN_NONE, "out of memory while compiling");
  }
}

// The end of a compilation for which there was no memory; `scratch` may be NULL.
static bool escaped(Arena *arena, Arena *scratch, Diag *diag) {
  bool over_limit = arena_over_limit(arena) || (scratch && arena_over_limit(scratch));
  arena_destroy(scratch);
  arena_set_escape(arena, NULL);
  arena_set_limit(arena, 0);
  out_of_memory(diag, over_limit);
  return false;
}

static void set_limits(Arena *arena, const CompileOptions *options, jmp_buf *escape) {
  arena_set_escape(arena, escape);
  arena_set_limit(arena, escape ? options->memory ? options->memory : COMPILE_MEMORY : 0);
}

// Graphs are much larger than what a plan keeps of them: each has an arena of its own, which goes when it is lowered.
static bool add_program(Front *f, const CompileOptions *options, ProgramKind program, StateMap *states,
                        KernelTable *kernels, TermTable *terms, Plan *plan) {
  f->scratch = arena_create();
  if (!f->scratch) {
    longjmp(*f->escape, 1);
  }
  set_limits(f->scratch, options, f->escape);
  bool good = make_program(f, options, program, states, kernels, terms, plan);
  arena_destroy(f->scratch);
  f->scratch = NULL;
  return good;
}

// Whether the sizes of the text are within what a plan can say.
static bool fits(Front *f, const Plan *plan) {
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (plan->arena_bytes[i] < 0 || plan->arena_bytes[i] > PLAN_MOST_BYTES) {
      diag_error(f->diag, E090, SPAN_NONE, "a rank would need more than 2^56 bytes of memory");
      return false;
    }
  }
  return true;
}

static Plan *plan_new(Front *f, const CompileOptions *options) {
  Plan *plan = ARENA_NEW(f->arena, Plan);
  plan->run = f->spec.run;
  plan->real = f->spec.real;
  plan->coarsest = f->spec.formats.tf32 ? TYPE_F16 : f->spec.formats.dot;
  plan->pipeline = f->pipeline ? f->spec.pipeline.mesh : -1;
  plan->stage = f->stage;
  plan->stages = f->pipeline ? (int)f->spec.mesh[f->spec.pipeline.mesh].size : 1;
  TermTable terms = {0};
  array_push(f->arena, &terms, ((PlanTerm){{0}}));
  plan->mesh_count = f->spec.mesh_count;
  for (int i = 0; i < plan->mesh_count; i++) {
    plan->mesh[i] = (PlanMesh){f->spec.mesh[i].name, f->spec.mesh[i].size};
  }
  StateMap states = {0};
  KernelTable kernels = {.by_content = map_create(f->arena)};
  static const ProgramKind order[] = {PROGRAM_TRAIN, PROGRAM_INITIALISE, PROGRAM_EVALUATE, PROGRAM_GENERATE};
  f->copied = map_create(f->arena);
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    DiagMark mark = diag_mark(f->diag);
    PlanProgram *program = &plan->programs[order[i]];
    if (!add_program(f, options, order[i], &states, &kernels, &terms, plan)) {
      *program = (PlanProgram){0};
      if (!leave_out(f, options, order[i], mark, &program->missing)) {
        return NULL;
      }
    }
  }
  plan->term_count = terms.count;
  plan->terms = terms.at;
  plan->kernel_count = kernels.all.count;
  plan->kernels = kernels.all.at;
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  if (f->stage > 0) {  // inputs may be read on other stages only
    plan->run.batch = f->batch;
    plan->run.sequence = f->sequence;
  }
  for (int i = 0; i < train->input_count; i++) {
    const PlanInput *input = &train->inputs[i];
    for (int j = 0; j < input->axis_count; j++) {
      if (strcmp(input->axis[j], "batch") == 0) {
        plan->run.batch = input->size[j] * train->slots;
      } else if (input->axis_count == 2) {
        plan->run.sequence = input->size[j];
      }
    }
  }
  f->batch = plan->run.batch;
  f->sequence = plan->run.sequence;
  plan->resolved = settings_resolved(f->arena, &f->unit, &f->spec);
  plan->source_count = f->diag->sources.count;
  plan->sources = f->diag->sources.at;
  if (!fits(f, plan)) {
    return NULL;
  }
  const char *wrong = plan_verify(f->arena, plan);
  if (wrong) {
    diag_error(f->diag, E099, SPAN_NONE, "the compiler made a wrong plan: %s", wrong);
    return NULL;
  }
  return plan;
}

bool compile_plans(Arena *arena, Diag *diag, const CompileOptions *options, PlanSet **set) {
  jmp_buf escape;
  Front *volatile front = NULL;
  *set = NULL;
  if (setjmp(escape)) {
    return escaped(arena, front ? front->scratch : NULL, diag);
  }
  set_limits(arena, options, &escape);
  Front *f = ARENA_NEW(arena, Front);
  front = f;
  PlanSet *made = ARENA_NEW(arena, PlanSet);
  bool good = front_read(f, arena, diag, options);
  int stages = good && f->pipeline ? (int)f->spec.mesh[f->spec.pipeline.mesh].size : 1;
  made->plans = ARENA_ARRAY(arena, Plan *, stages);
  f->escape = &escape;
  for (f->stage = 0; good && f->stage < stages; f->stage++) {
    Plan *plan = plan_new(f, options);
    good = plan != NULL;
    made->plans[made->count++] = plan;
  }
  const char *wrong = good ? plan_set_verify(arena, made) : NULL;
  if (wrong) {
    diag_error(diag, E099, SPAN_NONE, "the compiler made plans that do not go together: %s", wrong);
    good = false;
  }
  *set = good ? made : NULL;
  set_limits(arena, options, NULL);
  return good;
}

bool compile_plan(Arena *arena, Diag *diag, const CompileOptions *options, Plan **plan) {
  PlanSet *set;
  *plan = NULL;
  if (compile_plans(arena, diag, options, &set)) {
    *plan = set->plans[0];
  }
  return *plan != NULL;
}

// The programs beside training, once that is right.
static void check_others(Front *f, const CompileOptions *options) {
  static const ProgramKind others[] = {PROGRAM_INITIALISE, PROGRAM_EVALUATE, PROGRAM_GENERATE};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    Compilation *c = ARENA_NEW(f->arena, Compilation);
    DiagMark mark = diag_mark(f->diag);
    const char *missing;
    *c = start(f, options, others[i]);
    if (!run_passes(c, "simplify") && !leave_out(f, options, others[i], mark, &missing)) {
      return;
    }
  }
}

bool compile_check(Arena *arena, Diag *diag, const CompileOptions *options) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return escaped(arena, NULL, diag);
  }
  set_limits(arena, options, &escape);
  int errors = diag->errors;
  Front *f = ARENA_NEW(arena, Front);
  f->names = names_create(arena);
  f->arena = arena;
  f->copied = map_create(arena);
  f->diag = diag;
  f->unit = (Unit){.arena = arena, .names = f->names, .diag = diag};
  if (unit_load(&f->unit, options->file)) {
    Name recipes[64];
    int count = options->recipe ? 0 : settings_recipes(&f->unit, recipes, 64);
    for (int i = 0; i < (count ? count : 1); i++) {
      CompileOptions one = *options;
      one.recipe = count ? recipes[i] : options->recipe;
      bool good = settings_read(arena, &f->unit, &one, &f->spec);
      f->pipeline = good && has_stages(&f->spec);
      f->tenancy = (Tenancy){.index = map_create(arena)};
      if (f->spec.model) {  // what is wrong with the model is said as well
        Compilation *c = ARENA_NEW(arena, Compilation);
        *c = start(f, &one, PROGRAM_TRAIN);
        if (run_passes(c, good ? NULL : "elaborate") && good) {
          f->logits = has_logits(c);
          check_others(f, &one);
        }
      }
    }
  }
  set_limits(arena, options, NULL);
  return diag->errors == errors;
}

static void list_passes(Buffer *out) {
  for (int i = 0; i < PASS_COUNT; i++) {
    buffer_format(out, "%-15s %s\n", passes[i].name, passes[i].what);
  }
  buffer_format(out, "%-15s %s\n", "lower", "every operation as an instruction on memory");
}

static void print_kernels(const Plan *plan, ProgramKind program, Buffer *out) {
  for (int i = 0; i < plan->programs[program].call_count; i++) {
    const PlanSegment *segment = &plan->segments[plan->programs[program].calls[i].segment];
    if (plan->programs[program].calls[i].slot > 0) {
      continue;
    }
    buffer_format(out, "segment %s: %d instructions\n", segment->name, segment->count);
    for (int j = 0; j < segment->count; j++) {
      const Instruction *instruction = &segment->instructions[j];
      buffer_format(out, "%5d %-14s %s", j, instruction_kind_name(instruction->kind), instruction->name);
      if (instruction->kind == INSTRUCTION_GEMM) {
        const Gemm *gemm = &instruction->as.gemm;
        buffer_format(out, "  m %lld n %lld k %lld %c%c%s%s", (long long)gemm->m, (long long)gemm->n,
                      (long long)gemm->k, gemm->transpose_a ? 't' : 'n', gemm->transpose_b ? 't' : 'n',
                      gemm->batch_count ? " batched" : "", gemm->epilogue == EPILOGUE_BIAS ? " + bias" : "");
      } else if (instruction->kind == INSTRUCTION_KERNEL) {
        buffer_format(out, "  kernel %d", instruction->as.kernel.kernel);
      }
      buffer_format(out, "  %.3g MB\n", instruction->bytes / 1e6);
    }
  }
  for (int i = 0; i < plan->kernel_count; i++) {
    buffer_format(out, "\nkernel %d\n", i);
    kernel_print(plan->kernels[i], out);
  }
}

static bool known_rank(Diag *diag, int64_t rank, int64_t ranks) {
  if (rank < 0 || rank >= ranks) {
    Diagnostic *error = diag_error(diag, E010, SPAN_NONE, "there is no rank %lld", (long long)rank);
    diag_help(diag, error, ranks > 1 ? "the layout has the ranks 0 to %lld" : "the layout has rank %lld alone",
              (long long)ranks - 1);
    return false;
  }
  return true;
}

const Plan *compile_of_rank(Diag *diag, const PlanSet *set, int64_t rank) {
  return known_rank(diag, rank, plan_ranks(set->plans[0])) ? plan_of_rank(set, rank) : NULL;
}

static bool print_lowered(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  PlanSet *set;
  const Plan *plan = compile_plans(arena, diag, options, &set) ? compile_of_rank(diag, set, options->rank) : NULL;
  if (plan) {
    print_kernels(plan, options->program, out);
  }
  return plan != NULL;
}

// Finds the stage of a rank.
static bool front_rank(Front *f, int64_t rank) {
  int64_t ranks = 1, below = 1;
  for (int m = 0; m < f->spec.mesh_count; m++) {
    ranks *= f->spec.mesh[m].size;
    below *= f->pipeline && m > f->spec.pipeline.mesh ? f->spec.mesh[m].size : 1;
  }
  f->stage = f->pipeline ? (int)(rank / below % f->spec.mesh[f->spec.pipeline.mesh].size) : 0;
  return known_rank(f->diag, rank, ranks);
}

static bool known_pass(Diag *diag, const char *name) {
  const char *names[PASS_COUNT + 1];
  for (int i = 0; i < PASS_COUNT; i++) {
    names[i] = passes[i].name;
    if (strcmp(passes[i].name, name) == 0) {
      return true;
    }
  }
  names[PASS_COUNT] = "lower";
  Diagnostic *error = diag_error(diag, E010, SPAN_NONE, "there is no pass '%s'", name);
  const char *closest = text_closest(name, names, PASS_COUNT + 1);
  if (closest) {
    diag_help(diag, error, "did you mean `%s`? `--after list` names them all", closest);
  } else {
    diag_help(diag, error, "`--after list` names them all");
  }
  return false;
}

bool compile_print(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  if (options->after && strcmp(options->after, "list") == 0) {
    list_passes(out);
    return true;
  }
  if (options->after && strcmp(options->after, "lower") == 0) {
    return print_lowered(arena, diag, options, out);
  }
  const char *after = options->after;  // NULL: all of them
  if (after && !known_pass(diag, after)) {
    return false;
  }
  jmp_buf escape;
  if (setjmp(escape)) {
    return escaped(arena, NULL, diag);
  }
  set_limits(arena, options, &escape);
  Front *f = ARENA_NEW(arena, Front);
  bool good = front_read(f, arena, diag, options) && front_rank(f, options->rank);
  if (good && options->program != PROGRAM_TRAIN) {  // says what is stored where, and what has copies
    Compilation *train = ARENA_NEW(arena, Compilation);
    *train = start(f, options, PROGRAM_TRAIN);
    good = run_passes(train, NULL);
    if (good) {
      keep_step(f, train);
    }
    if (good && options->program == PROGRAM_REFRESH && copies_refresh(train)) {
      graph_print(train->graph, out);
    }
  }
  if (good && options->program != PROGRAM_REFRESH) {
    Compilation *c = ARENA_NEW(arena, Compilation);
    *c = start(f, options, options->program);
    good = run_passes(c, after);
    if (good) {
      graph_print(c->graph, out);
    }
  }
  set_limits(arena, options, NULL);
  return good;
}
