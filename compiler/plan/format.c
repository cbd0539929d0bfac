// format.c: one description of a plan that both writes and reads, so that the two cannot drift apart.
#include "compiler/plan/format.h"

#include <string.h>

#include "base/map.h"

// The distinct kernels of all plans, in the order in which they are met.
typedef struct {
  int count;
  Kernel **at;
  Map by_content;
  Arena *arena;
} KernelPool;

// The place of a kernel, or -1. `add`: one that has none gets one.
static int kernel_pool_find(KernelPool *pool, Kernel *kernel, bool add) {
  KernelContent content = {0};
  kernel_content(kernel, pool->arena, &content);
  const size_t bytes = sizeof *content.at * (size_t)content.count;
  int at = (int)map_get_bytes_or(&pool->by_content, content.at, bytes, -1);
  if (at < 0 && add) {
    at = pool->count++;
    pool->at[at] = kernel;
    map_put_bytes(&pool->by_content, content.at, bytes, at);
  }
  return at;
}

static void kernel_pool_fill(KernelPool *pool, Arena *arena, const PlanSet *set) {
  int most = 0;
  for (int p = 0; p < set->count; p++) {
    most += set->plans[p]->kernel_count;
  }
  *pool = (KernelPool){.at = ARENA_ARRAY(arena, Kernel *, most + 1), .by_content = map_create(arena), .arena = arena};
  for (int p = 0; p < set->count; p++) {
    for (int i = 0; i < set->plans[p]->kernel_count; i++) {
      kernel_pool_find(pool, set->plans[p]->kernels[i], true);
    }
  }
}

static void code_place(Codec *codec, Place *place) {
  CODE_ENUM(codec, place->arena, ArenaClass, ARENA_CLASS_COUNT);
  code_i64(codec, &place->offset);
  code_i64(codec, &place->slot_stride);
  code_i64(codec, &place->lane_stride);
  code_int(codec, &place->term);
}

static void code_span(Codec *codec, Span *span) {
  code_int(codec, &span->file);
  code_u32(codec, &span->begin);
  code_u32(codec, &span->end);
}

static void code_mesh_axes(Codec *codec, int *count, int *mesh) {
  code_count(codec, count, PLAN_MAX_MESH);
  for (int i = 0; i < *count; i++) {
    code_int(codec, &mesh[i]);
  }
}

static void code_cuts(Codec *codec, PlanCut *cut, int count) {
  for (int i = 0; i < count; i++) {
    code_mesh_axes(codec, &cut[i].count, cut[i].mesh);
    code_bool(codec, &cut[i].zigzag);
    code_i64(codec, &cut[i].local);
  }
}

static void code_type(Codec *codec, ElementType *type) {
  CODE_ENUM(codec, *type, ElementType, ELEMENT_TYPE_COUNT);
}

static void code_kernel(Codec *codec, Kernel *kernel) {
  code_count(codec, &kernel->dim_count, KERNEL_MAX_DIMS);
  code_int(codec, &kernel->inner_count);
  code_bool(codec, &kernel->row_reductions);
  code_sizes(codec, kernel->size, kernel->dim_count);
  code_i64(codec, &kernel->parts);
  code_type(codec, &kernel->real);
  CODE_ARRAY(codec, kernel->port, kernel->port_count, 9);
  for (int i = 0; i < kernel->port_count; i++) {
    KernelPort *port = &kernel->port[i];
    CODE_ENUM(codec, port->kind, PortKind, PORT_KIND_COUNT);
    code_type(codec, &port->type);
    code_bool(codec, &port->accumulate);
    code_sizes(codec, port->stride, kernel->dim_count);
  }
  CODE_ARRAY(codec, kernel->code, kernel->code_count, 33);
  for (int i = 0; i < kernel->code_count; i++) {
    KernelInstruction *at = &kernel->code[i];
    CODE_ENUM(codec, at->op, KernelOp, KERNEL_OP_COUNT);
    CODE_ENUM(codec, at->level, KernelLevel, LEVEL_FULL + 1);
    code_bool(codec, &at->integer);
    code_i16(codec, &at->a);
    code_i16(codec, &at->b);
    code_i16(codec, &at->c);
    code_i16(codec, &at->port);
    code_double(codec, &at->number);
    code_i64(codec, &at->constant);
  }
}

// The places of a kernel's ports.
static void code_ports(Codec *codec, const Plan *plan, int index, Place **places) {
  if (index < 0 || index >= plan->kernel_count) {
    codec->bad = true;
    return;
  }
  int ports = plan->kernels[index]->port_count;
  if (!codec->out) {
    *places = ARENA_ARRAY(codec->arena, Place, ports ? ports : 1);
  }
  for (int i = 0; i < ports; i++) {
    code_place(codec, &(*places)[i]);
  }
}

static void code_ints(Codec *codec, int *numbers, int count) {
  for (int i = 0; i < count; i++) {
    code_int(codec, &numbers[i]);
  }
}

static void code_ranges(Codec *codec, PlanRange *ranges, int count) {
  for (int i = 0; i < count; i++) {
    code_i64(codec, &ranges[i].first);
    code_i64(codec, &ranges[i].count);
  }
}

#define is(KIND) (kind == INSTRUCTION_##KIND)
#define STRUCT(Struct, member)                                                                     \
  static void code_as_##member(Codec *codec, const Plan *plan, InstructionKind kind, Struct *at) { \
    (void)plan;                                                                                    \
    (void)kind;
#define TYPE(x) code_type(codec, &at->x);
#define FLAG(x) code_bool(codec, &at->x);
#define NUMBER(x, least, most) code_int(codec, &at->x);
#define SIZE(x, least) code_i64(codec, &at->x);
#define REAL(x) code_double(codec, &at->x);
#define MESHES(x) code_u32(codec, &at->x);
#define CHOICE(x, Enum, most) CODE_ENUM(codec, at->x, Enum, most);
#define COUNT(x, most) code_count(codec, &at->x, most);
#define SIZES(x, most, count, least) code_sizes(codec, at->x, count);
#define TERMS(x, most, count) code_ints(codec, at->x, count);
#define AXES(x, most, count) code_ints(codec, at->x, count);
#define PLACE(x, bytes, does, present, ...) \
  if (present) {                            \
    code_place(codec, &at->x);              \
  }
#define PORTS(x) code_ports(codec, plan, at->kernel, &at->x);
#define SCORE(x)                                        \
  code_int(codec, &at->x);                              \
  if (at->x > 0) {                                      \
    code_ports(codec, plan, at->x - 1, &at->x##_place); \
  }
#define RANGES(x, count)                   \
  CODE_ARRAY(codec, at->x, at->count, 16); \
  code_ranges(codec, at->x, at->count);
#define END(Struct) }
#include "compiler/plan/instructions.def"

static void code_instruction(Codec *codec, Instruction *instruction, const Plan *plan) {
  CODE_ENUM(codec, instruction->kind, InstructionKind, INSTRUCTION_KIND_COUNT);
  code_span(codec, &instruction->span);
  code_string(codec, &instruction->name);
  code_string(codec, &instruction->why);
  code_span(codec, &instruction->rule);
  code_double(codec, &instruction->flops);
  code_double(codec, &instruction->bytes);
  code_bool(codec, &instruction->aside);
  switch (instruction->kind) {
#define INSTRUCTION(KIND, text, Struct, member)                                \
  case INSTRUCTION_##KIND:                                                     \
    code_as_##member(codec, plan, instruction->kind, &instruction->as.member); \
    break;
#include "compiler/plan/instructions.def"
    case INSTRUCTION_KIND_COUNT:
      codec->bad = true;
  }
}

static void code_axes(Codec *codec, int *count, const char **axis, int64_t *size) {
  code_count(codec, count, PLAN_MAX_AXES);
  for (int i = 0; i < *count; i++) {
    code_name(codec, &axis[i]);
  }
  code_sizes(codec, size, *count);
}

static void code_state(Codec *codec, PlanState *state) {
  code_name(codec, &state->name);
  CODE_ENUM(codec, state->role, StateRole, STATE_COPY + 1);
  code_type(codec, &state->type);
  code_axes(codec, &state->axis_count, state->axis, state->size);
  code_cuts(codec, state->cut, state->axis_count);
  code_sizes(codec, state->stride, state->axis_count);
  code_i64(codec, &state->offset);
  code_i64(codec, &state->flat_first);
  code_i64(codec, &state->flat_piece);
  code_mesh_axes(codec, &state->flat_count, state->flat_mesh);
  code_bool(codec, &state->frozen);
  code_bool(codec, &state->owner);
}

static void code_input(Codec *codec, PlanInput *input) {
  code_name(codec, &input->name);
  code_type(codec, &input->type);
  code_axes(codec, &input->axis_count, input->axis, input->size);
  code_cuts(codec, input->cut, input->axis_count);
  code_i64(codec, &input->bound);
  code_place(codec, &input->place);
}

static void code_output(Codec *codec, PlanOutput *output) {
  code_name(codec, &output->name);
  code_type(codec, &output->type);
  CODE_ENUM(codec, output->weighing, PlanWeighing, WEIGH_COUNTED + 1);
  code_axes(codec, &output->axis_count, output->axis, output->size);
  code_sizes(codec, output->stride, output->axis_count);
  code_place(codec, &output->place);
}

static void code_program(Codec *codec, PlanProgram *program) {
  CODE_ARRAY(codec, program->calls, program->call_count, 13);
  for (int i = 0; i < program->call_count; i++) {
    code_int(codec, &program->calls[i].segment);
    code_int(codec, &program->calls[i].slot);
    code_int(codec, &program->calls[i].lane);
    code_bool(codec, &program->calls[i].first);
  }
  CODE_ARRAY(codec, program->inputs, program->input_count, 20);
  for (int i = 0; i < program->input_count; i++) {
    code_input(codec, &program->inputs[i]);
  }
  CODE_ARRAY(codec, program->outputs, program->output_count, 21);
  for (int i = 0; i < program->output_count; i++) {
    code_output(codec, &program->outputs[i]);
  }
  code_int(codec, &program->slots);
  code_i64(codec, &program->transient_bytes);
  code_double(codec, &program->flops);
  CODE_ARRAY(codec, program->values, program->value_count, 24);
  for (int i = 0; i < program->value_count; i++) {
    code_name(codec, &program->values[i].name);
    code_span(codec, &program->values[i].span);
    code_i64(codec, &program->values[i].bytes);
    code_i64(codec, &program->values[i].count);
  }
  code_string(codec, &program->missing);
}

static void code_run(Codec *codec, PlanRun *run) {
  const char **words[] = {&run->model,     &run->recipe,    &run->layout,    &run->precision,  &run->optimizer,
                          &run->data_kind, &run->data_path, &run->data_base, &run->data_given, &run->tokenizer};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    code_string(codec, words[i]);
  }
  code_double(codec, &run->validation_fraction);
  int64_t *numbers[] = {&run->batch,      &run->sequence,  &run->steps,       &run->eval_every,
                        &run->save_every, &run->log_every, &run->eval_batches};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    code_i64(codec, numbers[i]);
  }
  code_u64(codec, &run->seed);
  code_double(codec, &run->parameters);
  CODE_ARRAY(codec, run->skip, run->skip_count, 16);
  for (int i = 0; i < run->skip_count; i++) {
    code_i64(codec, &run->skip[i].first);
    code_i64(codec, &run->skip[i].count);
  }
  CODE_ENUM(codec, run->loss_unit, LossUnit, LOSS_UNIT_COUNT);
  code_bool(codec, &run->strict);
}

static void code_source(Codec *codec, Source *source) {
  code_name(codec, &source->path);
  code_name(codec, &source->text);
  if (!codec->out) {
    source->length = (uint32_t)strlen(source->text);
  }
}

static void code_mesh(Codec *codec, Plan *plan) {
  code_count(codec, &plan->mesh_count, PLAN_MAX_MESH);
  for (int i = 0; i < plan->mesh_count; i++) {
    code_name(codec, &plan->mesh[i].name);
    code_i64(codec, &plan->mesh[i].size);
  }
  code_int(codec, &plan->pipeline);
  code_int(codec, &plan->stage);
  code_int(codec, &plan->stages);
  CODE_ARRAY(codec, plan->terms, plan->term_count, 64);
  for (int i = 0; i < plan->term_count; i++) {
    code_sizes(codec, plan->terms[i].stride, PLAN_MAX_MESH);
  }
}

static void code_segments(Codec *codec, Plan *plan) {
  CODE_ARRAY(codec, plan->segments, plan->segment_count, 16);
  for (int s = 0; s < plan->segment_count; s++) {
    PlanSegment *segment = &plan->segments[s];
    code_string(codec, &segment->name);
    CODE_ENUM(codec, segment->kind, SegmentKind, SEGMENT_KIND_COUNT);
    code_int(codec, &segment->chunk);
    CODE_ARRAY(codec, segment->instructions, segment->count, 52);
    for (int i = 0; i < segment->count && !codec->bad; i++) {
      code_instruction(codec, &segment->instructions[i], plan);
    }
  }
}

// Kernels of a plan are numbers of those of the file.
static void code_kernels(Codec *codec, Plan *plan, KernelPool *pool) {
  CODE_ARRAY(codec, plan->kernels, plan->kernel_count, 4);
  for (int i = 0; i < plan->kernel_count && !codec->bad; i++) {
    int at = codec->out ? kernel_pool_find(pool, plan->kernels[i], false) : 0;
    code_int(codec, &at);
    if (at < 0 || at >= pool->count) {
      codec->bad = true;
      return;
    }
    CODE_SET(codec, plan->kernels[i], pool->at[at]);
  }
}

static bool sources_equal(const Plan *a, const Plan *b) {
  bool equal = a->source_count == b->source_count;
  for (int i = 0; equal && i < a->source_count; i++) {
    equal = strcmp(a->sources[i].path, b->sources[i].path) == 0 && strcmp(a->sources[i].text, b->sources[i].text) == 0;
  }
  return equal;
}

static bool texts_equal(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

// The texts are those of the first plan, or its own.
static void code_texts(Codec *codec, Plan *plan, const Plan *first) {
  bool same = codec->out && first && texts_equal(plan->resolved, first->resolved) && sources_equal(plan, first);
  code_bool(codec, &same);
  if (same && !first) {
    codec->bad = true;
  } else if (same) {
    CODE_SET(codec, plan->resolved, first->resolved);
    CODE_SET(codec, plan->source_count, first->source_count);
    CODE_SET(codec, plan->sources, first->sources);
  } else {
    code_string(codec, &plan->resolved);
    CODE_ARRAY(codec, plan->sources, plan->source_count, 8);
    for (int i = 0; i < plan->source_count; i++) {
      code_source(codec, &plan->sources[i]);
    }
  }
}

static void code_phases(Codec *codec, Plan *plan) {
  code_count(codec, &plan->phase_count, PLAN_MAX_PHASES);
  for (int i = 0; i < plan->phase_count && !codec->bad; i++) {
    code_i64(codec, &plan->phases[i].first);
    code_int(codec, &plan->phases[i].policy);
    code_name(codec, &plan->phases[i].precision);
  }
}

static void code_plan(Codec *codec, Plan *plan, KernelPool *pool, const Plan *first) {
  code_run(codec, &plan->run);
  code_type(codec, &plan->real);
  code_type(codec, &plan->coarsest);
  code_mesh(codec, plan);
  code_kernels(codec, plan, pool);
  if (codec->bad) {
    return;
  }
  code_segments(codec, plan);
  CODE_ARRAY(codec, plan->states, plan->state_count, 20);
  for (int i = 0; i < plan->state_count; i++) {
    code_state(codec, &plan->states[i]);
  }
  for (int i = 0; i < PROGRAM_COUNT; i++) {
    code_program(codec, &plan->programs[i]);
  }
  code_phases(codec, plan);
  code_sizes(codec, plan->arena_bytes, ARENA_CLASS_COUNT);
  code_texts(codec, plan, first);
  code_u64(codec, &plan->state_hash);
}

static void code_target(Codec *codec, PlanTarget *target) {
  code_name(codec, &target->target);
  code_name(codec, &target->compiler);
  code_int(codec, &target->multiprocessors);
  code_int(codec, &target->shared_bytes);
  CODE_ARRAY(codec, target->codes, target->count, 16);
  for (int i = 0; i < target->count && !codec->bad; i++) {
    code_u64(codec, &target->codes[i].text);
    code_data(codec, &target->codes[i].code, &target->codes[i].bytes);
  }
}

// Once for all plans: they are those of the first.
static void code_targets(Codec *codec, PlanSet *set) {
  int count = set->count > 0 && codec->out ? set->plans[0]->target_count : 0;
  PlanTarget *targets = count > 0 ? set->plans[0]->targets : NULL;
  CODE_ARRAY(codec, targets, count, 20);
  for (int i = 0; i < count && !codec->bad; i++) {
    code_target(codec, &targets[i]);
  }
  for (int s = 0; s < set->count && !codec->bad; s++) {
    CODE_SET(codec, set->plans[s]->target_count, count);
    CODE_SET(codec, set->plans[s]->targets, targets);
  }
}

void code_plan_set(Codec *codec, PlanSet *set) {
  KernelPool pool = {0};
  if (codec->out) {
    kernel_pool_fill(&pool, codec->arena, set);
  }
  CODE_ARRAY(codec, pool.at, pool.count, 20);
  for (int i = 0; i < pool.count && !codec->bad; i++) {
    CODE_SET(codec, pool.at[i], ARENA_NEW(codec->arena, Kernel));
    code_kernel(codec, pool.at[i]);
  }
  CODE_ARRAY(codec, set->plans, set->count, 20);
  for (int i = 0; i < set->count && !codec->bad; i++) {
    CODE_SET(codec, set->plans[i], ARENA_NEW(codec->arena, Plan));
    Plan copy = *set->plans[i];  // writing changes nothing, not even in passing
    code_plan(codec, codec->out ? &copy : set->plans[i], &pool, i > 0 ? set->plans[0] : NULL);
  }
  code_targets(codec, set);
}
