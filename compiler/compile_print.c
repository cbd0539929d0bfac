// compile_print.c: graphs and instructions as text, after any of the passes.
#include <string.h>

#include "base/options.h"
#include "base/stack.h"
#include "compiler/compile.h"
#include "compiler/front.h"
#include "compiler/ir/graph_text.h"

static void list_passes(Buffer *out) {
  passes_list(out);
  buffer_format(out, "%-15s %s\n", "lower", "the plan: instructions on memory");
}

// --- instructions ---

static void print_instructions(const char *name, const Instruction *instructions, int count, Buffer *out) {
  buffer_format(out, "segment %s: %d instructions\n", name, count);
  for (int i = 0; i < count; i++) {
    const Instruction *instruction = &instructions[i];
    buffer_format(out, "%5d %-14s %s", i, instruction_kind_name(instruction->kind), instruction->name);
    if (instruction->kind == INSTRUCTION_GEMM) {
      const Gemm *gemm = &instruction->as.gemm;
      buffer_format(out, "  m %lld n %lld k %lld %c%c%s%s", (long long)gemm->m, (long long)gemm->n, (long long)gemm->k,
                    gemm->transpose_a ? 't' : 'n', gemm->transpose_b ? 't' : 'n', gemm->batch_count ? " batched" : "",
                    gemm->epilogue == EPILOGUE_BIAS ? " + bias" : "");
    } else if (instruction_multiplies(instruction)) {
      const Grouped *grouped = &instruction->as.grouped;
      buffer_format(out, "  rows %lld m %lld n %lld k %lld %c of %lld%s", (long long)grouped->rows,
                    (long long)grouped->m, (long long)grouped->n, (long long)grouped->k,
                    grouped->transpose_b ? 't' : 'n', (long long)grouped->extent, grouped->leaves ? " leaves" : "");
    } else if (instruction->kind == INSTRUCTION_ORDER) {
      const Order *order = &instruction->as.order;
      buffer_format(out, "  %lld by %lld to %lld", (long long)order->count, (long long)order->extent,
                    (long long)order->capacity);
    } else if (instruction->kind == INSTRUCTION_TAKE && instruction->as.take.parts > 0) {
      buffer_format(out, "  in %lld parts", (long long)instruction->as.take.parts);
    } else if (instruction->kind == INSTRUCTION_KERNEL) {
      buffer_format(out, "  kernel %d", instruction->as.kernel.kernel);
    } else if (instruction->kind == INSTRUCTION_SQUARES) {
      buffer_format(out, "  of %d", instruction->as.squares.part_count);
    }
    buffer_format(out, "%s  %.3g MB\n", instruction->aside ? "  beside" : "", instruction->bytes / 1e6);
  }
}

static void print_kernels(Kernel *const *kernels, int count, Buffer *out) {
  for (int i = 0; i < count; i++) {
    buffer_format(out, "\nkernel %d\n", i);
    kernel_print(kernels[i], out);
  }
}

static void print_program(const Plan *plan, ProgramKind program, Buffer *out) {
  for (int i = 0; i < plan->programs[program].call_count; i++) {
    const PlanCall *call = &plan->programs[program].calls[i];
    if (call->slot == 0) {
      const PlanSegment *segment = &plan->segments[call->segment];
      print_instructions(segment->name, segment->instructions, segment->count, out);
    }
  }
  print_kernels(plan->kernels, plan->kernel_count, out);
}

// --- what lowering has found so far ---

static void print_states(const Lower *l, Buffer *out) {
  for (int i = 0; i < l->states->places.count; i++) {
    const StatePlace *place = &l->states->places.at[i];
    buffer_format(out, "%12lld  %s", (long long)place->offset, place->name);
    if (place->flat_piece > 0) {
      buffer_format(out, "  from element %lld on, in pieces of %lld", (long long)place->flat_first,
                    (long long)place->flat_piece);
    }
    buffer_text(out, "\n");
  }
}

static void print_schedule(const Lower *l, Buffer *out) {
  const int chunks = l->schedule ? l->c->spec->pipeline.chunks : 0;
  if (!l->schedule) {
    buffer_text(out, "no pipeline: one microbatch after the other\n");
  }
  for (int i = 0; i < chunks; i++) {
    buffer_format(out, "chunk %d: %d microbatches in flight\n", i, l->lanes[i]);
  }
}

static void print_homes(const Lower *l, Buffer *out) {
  static const char *const words[] = {[HOME_CONCAT] = "a part of",
                                      [HOME_PAD] = "the beginning of",
                                      [HOME_BUNDLE] = "beside the others of bundle",
                                      [HOME_PACK] = "its pack",
                                      [HOME_ASSIGN] = "over the old",
                                      [HOME_HOST] = "the host",
                                      [HOME_RESULT] = "the sum over microbatches",
                                      [HOME_OVER] = "over"};
  for (ValueId value = 0; value < l->capacity; value++) {
    const Home *home = &l->home[value];
    if (home->kind == HOME_OWN) {
      continue;
    }
    buffer_format(out, "%%%d", value);
    const Name name = graph_value(l->graph, value)->name;
    buffer_format(out, "%s%s: %s", name ? " " : "", name ? name : "", words[home->kind]);
    if (home->kind == HOME_BUNDLE) {
      buffer_format(out, " %d", home->bundle);
    } else if (home->parent >= 0 && home->kind != HOME_HOST) {
      buffer_format(out, " %%%d", home->parent);
    }
    buffer_text(out, "\n");
  }
}

// Where buffers lie, those alone that something touches; of those of one segment its instructions from the first to the
// last that keep them.
static void print_memory(const Lower *l, Buffer *out) {
  static const char *const arenas[] = {"persistent", "transient", "host", "offload"};
  for (int i = 0; i < l->buffers.count; i++) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    if (buffer->segment == -2) {
      continue;
    }
    buffer_format(out, "%-10s %12lld %12lld bytes", arenas[buffer->arena], (long long)buffer->offset,
                  (long long)buffer->bytes);
    if (buffer->copies > 1) {
      buffer_format(out, " in %lld copies", (long long)buffer->copies);
    }
    if (buffer->segment >= 0) {
      buffer_format(out, "  %s %d..%d", l->segments.at[buffer->segment]->name, buffer->first, buffer->last);
    }
    buffer_format(out, "  %s\n", buffer->maker && buffer->maker->name ? buffer->maker->name : "");
  }
}

static void print_lowering(const Lower *l, const char *after, Buffer *out) {
  if (strcmp(after, "states") == 0) {
    print_states(l, out);
  } else if (strcmp(after, "schedule") == 0) {
    print_schedule(l, out);
  } else if (strcmp(after, "homes") == 0 || strcmp(after, "check_homes") == 0) {
    graph_print(l->graph, out);
    print_homes(l, out);
  } else if (strcmp(after, "memory") == 0 || strcmp(after, "check_memory") == 0) {
    print_memory(l, out);
  } else {
    for (int s = 0; s < l->segments.count; s++) {
      const LowerSegment *segment = l->segments.at[s];
      print_instructions(segment->name, segment->list.at, segment->list.count, out);
    }
    print_kernels(l->kernels->all.at, l->kernels->all.count, out);
  }
}

// --- of a rank ---

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

static bool print_plan(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  PlanSet *set;
  const Plan *plan = compile_plans(arena, diag, options, &set) ? compile_of_rank(diag, set, options->rank) : NULL;
  if (plan) {
    print_program(plan, options->program, out);
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
  const char *names[PASS_NAMES_MAX + 1];
  int count = passes_names(names);
  names[count++] = "lower";
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      return true;
    }
  }
  Diagnostic *error = diag_error(diag, E010, SPAN_NONE, "there is no pass '%s'", name);
  const char *closest = text_closest(name, names, count);
  if (closest) {
    diag_help(diag, error, "did you mean `%s`? `--after list` names them all", closest);
  } else {
    diag_help(diag, error, "`--after list` names them all");
  }
  return false;
}

// The compilation of a program after a pass; training, which other programs are made after, in full.
static bool print_after(Front *f, const CompileOptions *options, Compilation *c, Buffer *out) {
  const bool lowers = options->after && passes_is_lowering(options->after);
  if (!passes_run(c, options->after)) {
    return false;
  }
  if (!lowers) {
    graph_print(c->graph, out);
    return true;
  }
  Lower l = front_lower(f, c);
  if (!passes_lower(&l, options->after)) {
    return false;
  }
  print_lowering(&l, options->after, out);
  return true;
}

// Says what is stored where, and what has copies.
static bool train_before(Front *f, const CompileOptions *options, Compilation *train) {
  *train = front_start(f, options, PROGRAM_TRAIN);
  if (!passes_run(train, NULL)) {
    return false;
  }
  front_keep_step(f, train);
  Lower l = front_lower(f, train);
  const bool good = passes_lower(&l, "states");
  f->facts = train->facts;
  return good;
}

// The run is such that its plan does not have it.
static bool no_program(Front *f, ProgramKind program) {
  const char *why = program == PROGRAM_REFRESH ? "no copies of parameters are kept beside them"
                    : program_is_cold(program) ? "no scales of this precision come from histories"
                                               : "the run has fewer precisions";
  diag_error(f->diag, E052, SPAN_NONE, "the plan has no program '%s': %s", program_kind_name(program), why);
  return false;
}

static bool print_program_after(Front *f, const CompileOptions *options, Buffer *out) {
  Compilation *c = ARENA_NEW(f->arena, Compilation);
  front_start_plan(f);
  const int policy = program_policy(options->program);
  for (int i = 0; i < policy && policy < f->spec.policies.count; i++) {  // the places of state are theirs
    if (!train_before(f, options, c)) {
      return false;
    }
    front_choose_policy(f, i + 1);
  }
  if (policy > 0 || program_is_cold(options->program)) {
    c = ARENA_NEW(f->arena, Compilation);
    *c = front_start(f, options, PROGRAM_TRAIN);
    c->cold = program_is_cold(options->program);
    const bool there = policy < f->spec.policies.count && (!c->cold || front_has_histories(&f->spec));
    return there ? print_after(f, options, c, out) : no_program(f, options->program);
  }
  if (options->program != PROGRAM_TRAIN && !train_before(f, options, c)) {
    return false;
  }
  if (options->program == PROGRAM_REFRESH) {
    c->program = PROGRAM_REFRESH;
    return copies_wanted(&f->spec) ? print_after(f, options, c, out) : no_program(f, options->program);
  }
  Compilation *made = ARENA_NEW(f->arena, Compilation);
  *made = front_start(f, options, options->program);
  return print_after(f, options, made, out);
}

static bool print_text(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  if (options->after && strcmp(options->after, "list") == 0) {
    list_passes(out);
    return true;
  }
  if (options->after && strcmp(options->after, "lower") == 0) {
    return print_plan(arena, diag, options, out);
  }
  if (options->after && !known_pass(diag, options->after)) {
    return false;
  }
  jmp_buf escape;
  if (setjmp(escape)) {
    return front_escaped(arena, NULL, diag);
  }
  front_limit(arena, options, &escape);
  Front *f = ARENA_NEW(arena, Front);
  const bool good =
      front_read(f, arena, diag, options) && front_rank(f, options->rank) && print_program_after(f, options, out);
  front_limit(arena, options, NULL);
  return good;
}

typedef struct {
  Arena *arena;
  Diag *diag;
  const CompileOptions *options;
  Buffer *out;
  bool good;
} Call;

static void call_print(void *context) {
  Call *call = context;
  call->good = print_text(call->arena, call->diag, call->options, call->out);
}

bool compile_print(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out) {
  Call call = {arena, diag, options, out, false};
  stack_deep(call_print, &call);
  return call.good;
}
