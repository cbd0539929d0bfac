// compile.c: the driver: text, passes in the order of passes.def, plan.
//
//   text ─ parse, settings ─▶ for each program: elaborate ─ passes ─▶ graph ─ lowering ─▶ instructions on memory ─▶
//   plan
#include "compiler/compile.h"

#include <string.h>

#include "base/stack.h"
#include "compiler/front.h"
#include "compiler/lower/emit.h"
#include "compiler/plan/check.h"
#include "compiler/plan/verify.h"
#include "compiler/report/explain.h"

// From what is left of the training step.
static bool make_refresh(Front *f, Compilation *c, Plan *plan) {
  c->program = PROGRAM_REFRESH;
  if (!passes_run(c, NULL)) {
    return false;
  }
  Lower l = front_lower(f, c);
  if (!passes_lower(&l, NULL)) {
    return false;
  }
  emit_program(plan, &l, PROGRAM_REFRESH);
  return true;
}

static bool add_states(Front *f, Plan *plan, Lower *l) {
  const char *other = emit_states(plan, l);
  if (other) {
    Diagnostic *error = diag_error(f->diag, E070, SPAN_NONE,
                                   "under the precisions of this run training does not keep state alike: %s", other);
    diag_help(f->diag, error, "give the run one of them, and change it where a run is resumed: --resume --precision P");
  }
  return !other;
}

// Training steps of a plan have the tensors of a stage, write the copies and have the inputs that any of them has.
// Those that were compiled before one with more of them are compiled again, knowing these.
static bool known_before(Front *f, int64_t count, int64_t *least) {
  *least = *least < 0 ? count : *least;
  f->again = count > *least;
  return !f->again;
}

static bool passes_known(Front *f) {
  const bool held = known_before(f, f->tenancy.held, &f->least_held);
  if (!held) {
    front_start_again(f);
  }
  return held && known_before(f, (int64_t)f->copied.count, &f->least_copied);
}

static bool inputs_known(Front *f, const Lower *l) {
  inputs_note(l, f->arena, &f->given);
  return known_before(f, f->given.count, &f->least_given);
}

// The training step with other scales, or under another precision of the run. State that it has in common with those
// that were compiled before lies where they have it; what it has more lies behind.
static bool make_step(Front *f, const CompileOptions *options, ProgramKind kind, Plan *plan) {
  Compilation *c = front_program(f, options, kind);
  if (!c || !passes_known(f)) {
    return false;
  }
  front_note_products(f, c);
  Lower l = front_lower(f, c);
  if (!passes_lower(&l, NULL) || !inputs_known(f, &l)) {
    return false;
  }
  emit_program(plan, &l, kind);
  return c->cold || add_states(f, plan, &l);
}

static bool make_program(Front *f, const CompileOptions *options, ProgramKind program, Plan *plan) {
  if (program != PROGRAM_TRAIN && program_policy(program) >= 0) {
    return make_step(f, options, program, plan);
  }
  Compilation *c = front_program(f, options, program);
  if (!c || (program == PROGRAM_TRAIN && !passes_known(f))) {
    return false;
  }
  if (program == PROGRAM_TRAIN) {
    front_note_products(f, c);
    front_keep_step(f, c);
    f->logits = front_has_logits(c);
  }
  if (program == PROGRAM_TRAIN || program == PROGRAM_EVALUATE) {  // the later one: what evaluations say
    f->loss_unit = c->elaborator->loss_unit;
  }
  if (program == PROGRAM_GENERATE && c->nothing) {
    return true;  // no logits: nothing to generate from
  }
  Lower l = front_lower(f, c);
  if (!passes_lower(&l, NULL) || (program == PROGRAM_TRAIN && !inputs_known(f, &l))) {
    return false;
  }
  f->facts = program == PROGRAM_TRAIN ? c->facts : f->facts;
  emit_program(plan, &l, program);
  if (program == PROGRAM_TRAIN && options->view) {
    options->view->spec = &f->spec;
    view_keep(options->view, &l, plan->segment_count - l.segments.count);
  }
  if (program == PROGRAM_TRAIN && !add_states(f, plan, &l)) {
    return false;
  }
  return program != PROGRAM_TRAIN || !copies_wanted(&f->spec) || make_refresh(f, c, plan);
}

// Graphs are much larger than what a plan keeps of them: each has an arena of its own, which goes when it is lowered.
static bool add_program(Front *f, const CompileOptions *options, ProgramKind program, Plan *plan) {
  f->scratch = arena_create();
  if (!f->scratch) {
    longjmp(*f->escape, 1);
  }
  front_limit(f->scratch, options, f->escape);
  bool good = make_program(f, options, program, plan);
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

// On all stages, for what the first has found of the whole step.
static bool is_left_out(const Front *f, ProgramKind kind, PlanProgram *program) {
  const WholeProgram *whole = &f->whole[kind];
  if (!f->shares || whole->c || !whole->missing) {
    return false;
  }
  *program = (PlanProgram){.missing = whole->missing};
  return true;
}

// Adds a program to the plan, or why the plan does not have it.
static bool try_program(Front *f, const CompileOptions *options, ProgramKind kind, Plan *plan) {
  const DiagMark mark = diag_mark(f->diag);
  PlanProgram *program = &plan->programs[kind];
  if (is_left_out(f, kind, program) || add_program(f, options, kind, plan)) {
    return true;
  }
  *program = (PlanProgram){0};
  const bool good = front_leave_out(f, options, kind, mark, &program->missing);
  f->whole[kind].missing = program->missing;
  return good;
}

// Text is generated without them as well.
static bool add_decoding(Front *f, const CompileOptions *options, Plan *plan) {
  static const ProgramKind both[] = {PROGRAM_PREFILL, PROGRAM_DECODE};
  for (size_t i = 0; i < sizeof both / sizeof *both && plan->programs[PROGRAM_GENERATE].call_count > 0; i++) {
    const DiagMark mark = diag_mark(f->diag);
    PlanProgram *program = &plan->programs[both[i]];
    if (is_left_out(f, both[i], program)) {
      return true;
    }
    if (!add_program(f, options, both[i], plan)) {
      const bool said = f->diag->all.count > mark.count;
      const Diagnostic first = said ? f->diag->all.at[mark.count] : (Diagnostic){.span = SPAN_NONE};
      int line, column;
      diag_position(f->diag, first.span, &line, &column);
      const char *path = first.span.file >= 0 ? f->diag->sources.at[first.span.file].path : "the text";
      const char *why = said ? first.message : "it does not compile";
      *program = (PlanProgram){.missing = arena_format(f->arena, "%s:%d: %s", path, line, why)};
      f->whole[both[i]].missing = program->missing;
      diag_rewind(f->diag, mark);
      return true;
    }
  }
  return true;
}

static bool add_programs(Front *f, const CompileOptions *options, Plan *plan) {
  static const ProgramKind others[] = {PROGRAM_INITIALISE, PROGRAM_EVALUATE, PROGRAM_GENERATE};
  for (int policy = 0; policy < f->spec.policies.count; policy++) {
    front_choose_policy(f, policy);
    if ((front_has_histories(&f->spec) && !try_program(f, options, plan_train_program(policy, true), plan)) ||
        !try_program(f, options, plan_train_program(policy, false), plan)) {
      return false;
    }
  }
  front_choose_policy(f, 0);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (!try_program(f, options, others[i], plan)) {
      return false;
    }
  }
  return !options->decode || add_decoding(f, options, plan);
}

static bool add_all_programs(Front *f, const CompileOptions *options, Plan *plan) {
  const Plan none = *plan;
  const CompileView seen = options->view ? *options->view : (CompileView){0};
  Map copied = map_create(f->arena);
  GivenInputs given = {0};
  bool good;
  do {
    *plan = none;
    if (options->view) {  // what was kept of a step that is compiled again is that step no more
      *options->view = seen;
    }
    front_start_plan(f);
    f->copied = copied;
    f->given = given;
    good = add_programs(f, options, plan);
    copied = f->copied;
    given = f->given;
  } while (f->again);
  return good;
}

static Plan *plan_new(Front *f, const CompileOptions *options) {
  Plan *plan = ARENA_NEW(f->arena, Plan);
  plan->run = f->spec.run;
  plan->real = f->spec.real;
  plan->coarsest = f->spec.formats.tf32 ? TYPE_F16 : f->spec.formats.dot;
  plan->pipeline = f->pipeline ? f->spec.pipeline.mesh : -1;
  plan->stage = f->stage;
  plan->stages = f->pipeline ? (int)f->spec.mesh[f->spec.pipeline.mesh].size : 1;
  plan->mesh_count = f->spec.mesh_count;
  for (int i = 0; i < plan->mesh_count; i++) {
    plan->mesh[i] = (PlanMesh){f->spec.mesh[i].name, f->spec.mesh[i].size};
  }
  plan->phase_count = f->spec.phase_count;
  memcpy(plan->phases, f->spec.phases, sizeof plan->phases);
  if (!add_all_programs(f, options, plan)) {
    return NULL;
  }
  plan->term_count = f->terms.count;
  plan->terms = f->terms.at;
  plan->kernel_count = f->kernels.all.count;
  plan->kernels = f->kernels.all.at;
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
  plan->run.loss_unit = f->loss_unit;
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

static bool make_plans(Arena *arena, Diag *diag, const CompileOptions *options, PlanSet **set) {
  jmp_buf escape;
  Front *volatile front = NULL;
  const int errors = diag->errors;
  *set = NULL;
  if (setjmp(escape)) {
    return front_escaped(arena, front, diag);
  }
  front_limit(arena, options, &escape);
  Front *f = ARENA_NEW(arena, Front);
  front = f;
  PlanSet *made = ARENA_NEW(arena, PlanSet);
  bool good = front_read(f, arena, diag, options);
  int stages = good && f->pipeline ? (int)f->spec.mesh[f->spec.pipeline.mesh].size : 1;
  made->plans = ARENA_ARRAY(arena, Plan *, stages);
  f->escape = &escape;
  f->shares = stages > 1 && !options->watch;
  for (f->stage = 0; good && f->stage < stages; f->stage++) {
    Plan *plan = plan_new(f, options);
    good = plan != NULL;
    made->plans[made->count++] = plan;
  }
  front_drop(f);
  if (good) {
    front_check_products(f);
    front_check_frozen(f);
    if (!options
             ->values) {  // a step that shows all of them computes, keeps and sends others than the one that is trained
      front_check_offloads(f);
      front_check_compress(f);
    }
    good = diag->errors == errors;
  }
  const char *wrong = good ? plan_set_verify(arena, made) : NULL;
  if (wrong) {
    diag_error(diag, E099, SPAN_NONE, "the compiler made plans that do not go together: %s", wrong);
    good = false;
  }
  *set = good ? made : NULL;
  front_limit(arena, options, NULL);
  return good;
}

// What the thread with the deep stack is given.
typedef struct {
  Arena *arena;
  Diag *diag;
  const CompileOptions *options;
  PlanSet **set;
  bool good;
} Call;

static void call_plans(void *context) {
  Call *call = context;
  call->good = make_plans(call->arena, call->diag, call->options, call->set);
}

bool compile_plans(Arena *arena, Diag *diag, const CompileOptions *options, PlanSet **set) {
  Call call = {arena, diag, options, set, false};
  stack_deep(call_plans, &call);
  return call.good;
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
    *c = front_start(f, options, others[i]);
    if (!passes_run(c, "simplify") && !front_leave_out(f, options, others[i], mark, &missing)) {
      return;
    }
  }
}

// Under the precisions of the run but the first.
static bool check_policies(Front *f, const CompileOptions *options) {
  bool good = true;
  for (int policy = 1; good && policy < f->spec.policies.count; policy++) {
    Compilation *c = ARENA_NEW(f->arena, Compilation);
    front_choose_policy(f, policy);
    *c = front_start(f, options, PROGRAM_TRAIN);
    good = passes_run(c, NULL);
  }
  front_choose_policy(f, 0);
  return good;
}

static bool check_text(Arena *arena, Diag *diag, const CompileOptions *options) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return front_escaped(arena, NULL, diag);
  }
  front_limit(arena, options, &escape);
  int errors = diag->errors;
  Front *f = ARENA_NEW(arena, Front);
  f->names = names_create(arena);
  f->arena = arena;
  front_start_plan(f);
  f->diag = diag;
  f->unit = front_unit(f, options);
  if (unit_load(&f->unit, options->file)) {
    Name recipes[64];
    int count = options->recipe ? 0 : settings_recipes(&f->unit, recipes, 64);
    for (int i = 0; i < (count ? count : 1); i++) {
      CompileOptions one = *options;
      one.recipe = count ? recipes[i] : options->recipe;
      const DiagMark mark = diag_mark(diag);
      bool good = settings_read(arena, &f->unit, &one, &f->spec);
      f->pipeline = good && front_has_stages(&f->spec);
      f->tenancy = (Tenancy){.index = map_create(arena)};
      f->tensors = (ModelTensors){.arena = arena, .index = map_create(arena)};
      f->compresses = ARENA_ARRAY(arena, CompressUse, f->spec.compress.count + 1);
      if (!good) {
        front_check_model(f, &one, mark);
      } else {
        Compilation *c = ARENA_NEW(arena, Compilation);
        *c = front_start(f, &one, PROGRAM_TRAIN);
        if (passes_run(c, one.brief ? "elaborate" : NULL) && !one.brief && check_policies(f, &one)) {
          f->logits = front_has_logits(c);
          check_others(f, &one);
          if (!f->pipeline) {  // of which this is the first stage alone
            front_check_compress(f);
          }
        }
      }
    }
  }
  front_limit(arena, options, NULL);
  return diag->errors == errors;
}

static void call_check(void *context) {
  Call *call = context;
  call->good = check_text(call->arena, call->diag, call->options);
}

bool compile_check(Arena *arena, Diag *diag, const CompileOptions *options) {
  Call call = {arena, diag, options, NULL, false};
  stack_deep(call_check, &call);
  return call.good;
}
