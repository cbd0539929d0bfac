// compile.c: the driver: text, passes in the order of passes.def, lowering, plan.
//
//   text ─ parse, settings ─▶ for each program: elaborate ─ passes ─▶ graph ─ lower, memory ─▶ instructions ─▶ plan
#include "compiler/compile.h"

#include <setjmp.h>
#include <string.h>

#include "compiler/compilation.h"
#include "compiler/emit.h"
#include "compiler/graph_text.h"
#include "compiler/lower.h"
#include "compiler/plan_verify.h"
#include "compiler/verify.h"

enum { ALL = 0, TRAIN = 1 };

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
  return c->graph != NULL;
}

static bool run_passes(Compilation *c, const char *after) {
  c->differentiated = c->program != PROGRAM_TRAIN;
  for (int i = 0; i < PASS_COUNT; i++) {
    if (passes[i].programs == TRAIN && c->program != PROGRAM_TRAIN) {
      continue;
    }
    if (!passes[i].run(c) || !graph_verify(c->graph, c->diag, passes[i].name)) {
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
} Front;

static bool front_read(Front *f, Arena *arena, Diag *diag, const CompileOptions *options) {
  *f = (Front){.arena = arena, .diag = diag};
  f->names = names_create(arena);
  f->unit = (Unit){.arena = arena, .names = f->names, .diag = diag};
  return unit_load(&f->unit, options->file) && settings_read(arena, &f->unit, options, &f->spec);
}

static Compilation start(Front *f, const CompileOptions *options, ProgramKind program) {
  return (Compilation){.arena = f->arena,
                       .names = f->names,
                       .diag = f->diag,
                       .unit = &f->unit,
                       .spec = &f->spec,
                       .program = program,
                       .gradients = options->gradients};
}

static bool add_program(Front *f, const CompileOptions *options, ProgramKind program, StateMap *states,
                        KernelTable *kernels, Plan *plan) {
  Compilation *c = ARENA_NEW(f->arena, Compilation);
  *c = start(f, options, program);
  if (!run_passes(c, NULL)) {
    return false;
  }
  int errors = f->diag->errors;
  Lower l = {.c = c, .graph = c->graph, .states = states, .kernels = kernels};
  if (program == PROGRAM_TRAIN) {
    state_map_build(&l);
  }
  if (program == PROGRAM_GENERATE && c->graph->regions.at[0].nodes.count == 0) {
    return true;  // no logits: nothing to generate from
  }
  lower_program(&l);
  if (f->diag->errors > errors) {
    return false;
  }
  int64_t transient = assign_memory(&l);
  emit_program(plan, &l, transient);
  if (program == PROGRAM_TRAIN) {
    emit_states(plan, &l);
  }
  return true;
}

static Plan *plan_new(Front *f, const CompileOptions *options) {
  Plan *plan = ARENA_NEW(f->arena, Plan);
  plan->run = f->spec.run;
  plan->real = f->spec.real;
  StateMap states = {0};
  KernelTable kernels = {.by_hash = map_create(f->arena)};
  static const ProgramKind order[] = {PROGRAM_TRAIN, PROGRAM_INITIALISE, PROGRAM_EVALUATE, PROGRAM_GENERATE};
  for (int i = 0; i < PROGRAM_COUNT; i++) {
    if (!add_program(f, options, order[i], &states, &kernels, plan)) {
      return NULL;
    }
  }
  plan->kernel_count = kernels.all.count;
  plan->kernels = kernels.all.at;
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
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
  plan->resolved = settings_resolved(f->arena, &f->unit, &f->spec);
  plan->source_count = f->diag->sources.count;
  plan->sources = f->diag->sources.at;
  const char *wrong = plan_verify(f->arena, plan);
  if (wrong) {
    diag_error(f->diag, E099, SPAN_NONE, "the compiler made a wrong plan: %s", wrong);
    return NULL;
  }
  return plan;
}

static bool out_of_memory(Arena *arena, Diag *diag) {
  arena_set_escape(arena, NULL);
  diag_error(diag, E090, SPAN_NONE, "out of memory while compiling");
  return false;
}

bool compile_plan(Arena *arena, Diag *diag, const CompileOptions *options, Plan **plan) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return out_of_memory(arena, diag);
  }
  arena_set_escape(arena, &escape);
  Front *f = ARENA_NEW(arena, Front);
  *plan = front_read(f, arena, diag, options) ? plan_new(f, options) : NULL;
  arena_set_escape(arena, NULL);
  return *plan != NULL;
}

bool compile_check(Arena *arena, Diag *diag, const CompileOptions *options) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return out_of_memory(arena, diag);
  }
  arena_set_escape(arena, &escape);
  int errors = diag->errors;
  Front *f = ARENA_NEW(arena, Front);
  f->names = names_create(arena);
  f->arena = arena;
  f->diag = diag;
  f->unit = (Unit){.arena = arena, .names = f->names, .diag = diag};
  if (unit_load(&f->unit, options->file)) {
    Name recipes[64];
    int count = options->recipe ? 0 : settings_recipes(&f->unit, recipes, 64);
    for (int i = 0; i < (count ? count : 1); i++) {
      CompileOptions one = *options;
      one.recipe = count ? recipes[i] : options->recipe;
      bool good = settings_read(arena, &f->unit, &one, &f->spec);
      if (f->spec.model) {  // what is wrong with the model is said as well
        Compilation *c = ARENA_NEW(arena, Compilation);
        *c = start(f, &one, PROGRAM_TRAIN);
        if (run_passes(c, good ? "simplify_step" : "elaborate") && good) {
          *c = start(f, &one, PROGRAM_INITIALISE);
          run_passes(c, "simplify");
        }
      }
    }
  }
  arena_set_escape(arena, NULL);
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
        buffer_format(out, "  m %lld n %lld k %lld %c%c%s", (long long)gemm->m, (long long)gemm->n, (long long)gemm->k,
                      gemm->transpose_a ? 't' : 'n', gemm->transpose_b ? 't' : 'n',
                      gemm->batch_count ? " batched" : "");
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

static bool print_lowered(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  Plan *plan;
  if (!compile_plan(arena, diag, options, &plan)) {
    return false;
  }
  print_kernels(plan, options->program, out);
  return true;
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
  const char *after = options->after ? options->after : "arrange";
  if (!known_pass(diag, after)) {
    return false;
  }
  jmp_buf escape;
  if (setjmp(escape)) {
    return out_of_memory(arena, diag);
  }
  arena_set_escape(arena, &escape);
  Front *f = ARENA_NEW(arena, Front);
  bool good = front_read(f, arena, diag, options);
  if (good) {
    Compilation *c = ARENA_NEW(arena, Compilation);
    *c = start(f, options, options->program);
    good = run_passes(c, after);
    if (good) {
      graph_print(c->graph, out);
    }
  }
  arena_set_escape(arena, NULL);
  return good;
}
