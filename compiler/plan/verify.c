// verify.c: the extents of all operands of one plan.
#include "compiler/plan/verify.h"

#include <string.h>

#include "compiler/plan/check.h"

static bool kernel_holds(PlanCheck *v, const KernelCall *call) {
  return (call->kernel >= 0 && call->kernel < v->plan->kernel_count) ||
         check_fail(v, "calls a kernel that is not there");
}

static bool is_format(ElementType type) {
  return element_type_floating(type) && type != TYPE_REAL;
}

// What cuBLASLt takes of products with one scale for each block: no partial blocks, scales in whole vectors of 16
// bytes.
static bool blocks_hold(PlanCheck *v, const Gemm *gemm) {
  enum { VECTOR = 4 };
  if (gemm->block == 0) {
    return !(gemm->square_a || gemm->square_b) || check_fail(v, "has square blocks of no size");
  }
  if (gemm->block != SCALE_BLOCK || !gemm_scaled(gemm) || gemm->k % SCALE_BLOCK || (gemm->square_a && gemm->square_b) ||
      (gemm->square_a && gemm->m % SCALE_BLOCK) || (gemm->square_b && gemm->n % SCALE_BLOCK)) {
    return check_fail(v, "has scales for blocks that its operands are not made of");
  }
  enum { VECTOR_BYTES = 16 };
  if (gemm->scale_a.offset % VECTOR_BYTES || gemm->scale_b.offset % VECTOR_BYTES || gemm->m % VECTOR ||
      gemm->n % VECTOR || gemm->ld_scale_a % VECTOR || gemm->ld_scale_b % VECTOR ||
      gemm->ld_scale_a < gemm_scale_columns(gemm, true) || gemm->ld_scale_b < gemm_scale_columns(gemm, false)) {
    return check_fail(v, "has rows of scales that are no whole vectors");
  }
  return (gemm->batch_count == 0 && gemm->epilogue == EPILOGUE_NONE && !gemm->fast) ||
         check_fail(v, "has scales for blocks, and a batch, a bias or a fast sum");
}

static bool scaled_types_hold(PlanCheck *v, const Gemm *gemm) {
  const bool quarters = element_type_bytes(gemm->type) == 1 && element_type_bytes(gemm->type_b) == 1;
  if (!quarters || (gemm->type == TYPE_E5M2 && gemm->type_b == TYPE_E5M2)) {
    return check_fail(v, "multiplies formats of 8 bits that do not go together");
  }
  const bool half = gemm->type_c == TYPE_BF16 || gemm->type_c == TYPE_F16;
  if (gemm->tf32 || !(half || gemm->type_c == TYPE_F32)) {
    return check_fail(v, "makes of numbers of 8 bits what is no product of them in a wider format");
  }
  return gemm->epilogue == EPILOGUE_NONE || half || check_fail(v, "adds a bias in f32 to a product of 8 bits");
}

static bool gemm_types_hold(PlanCheck *v, const Gemm *gemm) {
  if (gemm_scaled(gemm)) {
    return scaled_types_hold(v, gemm);
  }
  if (gemm->fast) {
    return check_fail(v, "sums with fewer bits what has more than 8");
  }
  bool narrow = element_type_bytes(gemm->type) < element_type_bytes(TYPE_F32);
  if (!is_format(gemm->type) || gemm->type_b != gemm->type ||
      (gemm->type_c != gemm->type && !(narrow && gemm->type_c == TYPE_F32))) {
    return check_fail(v, "multiplies into a type that its operands cannot give");
  }
  return !gemm->tf32 || gemm->type == TYPE_F32 || check_fail(v, "rounds to TensorFloat-32 what is not f32");
}

static bool gemm_holds(PlanCheck *v, const Gemm *gemm) {
  const int64_t a[] = {gemm->m, gemm->k}, b[] = {gemm->k, gemm->n}, c[] = {gemm->m, gemm->n};
  if (!check_batch(v, a, 2, gemm->batch, gemm->batch_count) || !check_batch(v, b, 2, gemm->batch, gemm->batch_count) ||
      !check_batch(v, c, 2, gemm->batch, gemm->batch_count) || !gemm_types_hold(v, gemm) || !blocks_hold(v, gemm)) {
    return false;
  }
  if (gemm->lda < (gemm->transpose_a ? gemm->m : gemm->k) || gemm->ldb < (gemm->transpose_b ? gemm->k : gemm->n) ||
      gemm->ldc < gemm->n) {
    return check_fail(v, "has a leading dimension shorter than its rows");
  }
  return gemm->epilogue == EPILOGUE_NONE || (gemm->write == WRITE_STORE && gemm->batch_count == 0) ||
         check_fail(v, "adds a bias to what it does not store, or to a batch");
}

static bool take_holds(PlanCheck *v, const Take *take) {
  if (!check_sizes(v, take->size, take->dim_count) || !check_sizes(v, &take->extent, 1)) {
    return false;
  }
  if (take->type != take->type_out && !(is_format(take->type) && is_format(take->type_out))) {
    return check_fail(v, "moves elements of one type to another that they do not fit");
  }
  return take->x_elements >= 0 || check_fail(v, "clears fewer than no elements");
}

static bool window_holds(PlanCheck *v, const Window *window) {
  if (!check_batch(v, window->size, window->dim_count, &window->taps, 1)) {
    return false;
  }
  return (window->windowed >= 0 && window->windowed < window->dim_count) ||
         check_fail(v, "is windowed along a dimension that it does not have");
}

// In numbers that can be added; where they lie is another question.
static bool squares_hold(PlanCheck *v, const Squares *squares) {
  if (squares->type != TYPE_F32 && squares->type != TYPE_F64) {
    return check_fail(v, "squares what is neither f32 nor f64");
  }
  if (squares->part_count < 1) {
    return check_fail(v, "squares no parts");
  }
  for (int i = 0; i < squares->part_count; i++) {
    const PlanRange *part = &squares->part[i];
    if (part->first < 0 || part->count < 1 || part->first > PLAN_MOST_BYTES || part->count > PLAN_MOST_BYTES) {
      return check_fail(v, "squares an impossible part");
    }
  }
  return true;
}

// Where the queries, or the keys, stand.
static bool positions_hold(PlanCheck *v, int parts, int64_t size, const int64_t *first, const int *term) {
  if (parts < 0 || parts > 2 || size % (parts ? parts : 1)) {
    return check_fail(v, "has its queries or keys in impossible parts");
  }
  for (int i = 0; i < parts; i++) {
    Place origin = {.offset = first[i], .term = term[i]};
    if (!check_base(v, &origin)) {
      return false;
    }
  }
  return true;
}

// Is there a group of these mesh axes, none of them the pipeline's, with more than `step` ranks? 0: no mesh axes.
static bool group_holds(PlanCheck *v, uint32_t mesh, int step) {
  const Plan *plan = v->plan;
  int64_t ranks = 1;
  if (mesh >> plan->mesh_count != 0) {
    return check_fail(v, "is among mesh axes that are not there");
  }
  if (plan->pipeline >= 0 && mesh >> plan->pipeline & 1) {
    return check_fail(v, "is a collective of several stages, which do not run the same list");
  }
  for (int i = 0; i < plan->mesh_count; i++) {
    ranks *= mesh >> i & 1 ? plan->mesh[i].size : 1;
  }
  return (step >= 0 && step < ranks) || check_fail(v, "has the keys of a rank that is not in the ring");
}

// A kernel of scores, over the space of the attention: its first ports are those of ScorePort, all others are read.
static bool score_holds(PlanCheck *v, const Attention *a, int score) {
  static const PortKind kinds[] = {PORT_INPUT, PORT_INPUT, PORT_STRIDES, PORT_STRIDES, PORT_OUTPUT};
  const int64_t size[SCORE_DIMS] = {a->batch, a->heads, a->groups, a->keys, a->queries};
  if (score < 0 || score > v->plan->kernel_count) {
    return check_fail(v, "makes scores by a kernel that is not there");
  }
  const Kernel *kernel = score ? v->plan->kernels[score - 1] : NULL;
  if (!kernel) {
    return true;
  }
  bool good = kernel->dim_count == SCORE_DIMS && memcmp(kernel->size, size, sizeof size) == 0 &&
              !kernel->row_reductions && kernel->port_count >= SCORE_CAPTURED && kernel->real == v->plan->real;
  for (int i = 0; good && i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    good = port->kind == (i < SCORE_CAPTURED ? kinds[i] : PORT_INPUT) && !port->accumulate &&
           (port->kind == PORT_STRIDES || i >= SCORE_CAPTURED || port->type == kernel->real);
  }
  for (int i = 0; good && i < kernel->code_count; i++) {
    const KernelOp op = kernel->code[i].op;
    good = op != KERNEL_UNIFORM && op != KERNEL_NORMAL && (!op_is_output(op) || op == KERNEL_STORE);
  }
  return good || check_fail(v, "makes scores by a kernel that does something else");
}

static bool attention_holds(PlanCheck *v, const Attention *a) {
  const int64_t queries[] = {a->batch, a->queries, a->heads, a->groups, a->depth};
  const int64_t values[] = {a->batch, a->queries, a->heads, a->groups, a->value_depth};
  const int64_t keys[] = {a->batch, a->keys, a->heads, a->depth},
                taken[] = {a->batch, a->keys, a->heads, a->value_depth};
  if (!check_sizes(v, queries, 5) || !check_sizes(v, values, 5) || !check_sizes(v, keys, 4) ||
      !check_sizes(v, taken, 4)) {
    return false;
  }
  if (!is_format(a->type) || (a->type == TYPE_F64) != (v->plan->real == TYPE_F64)) {
    return check_fail(v, "attends in a type that does not go with the statistics");
  }
  if (!positions_hold(v, a->parts, a->queries, a->origin, a->origin_term) ||
      !positions_hold(v, a->key_parts, a->keys, a->key_origin, a->key_origin_term) ||
      !group_holds(v, a->ring, a->ring ? a->ring_step : 0) || !score_holds(v, a, a->score) ||
      !score_holds(v, a, a->score_gradient)) {
    return false;
  }
  if (a->score ? a->biased || a->scale != 1 : a->window != 0) {
    return check_fail(v, "has biases or a scale besides scores of a kernel, or a window without");
  }
  if (a->key_end < 0 || a->window < 0 || (!a->ring && a->ring_step != 0)) {
    return check_fail(v, "has keys that are nowhere");
  }
  bool narrow = element_type_bytes(a->type) < element_type_bytes(TYPE_F32);
  return !((a->more || a->more_keys) && narrow && !a->wide) || check_fail(v, "adds a block of keys to what is rounded");
}

static bool piece_holds(PlanCheck *v, const Piece *piece) {
  uint32_t used = 0;
  int64_t end;
  if (!check_mesh_axes(v, piece->mesh_count, piece->mesh, &used)) {
    return false;
  }
  return (piece->first >= 0 && piece->count >= 1 && !__builtin_add_overflow(piece->first, piece->count, &end) &&
          parts_reach(plan_parts(v->plan, piece->mesh, piece->mesh_count), piece->piece, end)) ||
         check_fail(v, "lies outside the arena that is cut into pieces");
}

static bool collective_holds(PlanCheck *v, const Collective *collective) {
  const Plan *plan = v->plan;
  int64_t ranks = 1, all;
  for (int i = 0; i < plan->mesh_count; i++) {
    ranks *= collective->mesh >> i & 1 ? plan->mesh[i].size : 1;
  }
  if (collective->mesh == 0) {
    return check_fail(v, "is among mesh axes that are not there");
  }
  if (!group_holds(v, collective->mesh, 0)) {
    return false;
  }
  if (ranks != collective->ranks) {
    return check_fail(v, "is a collective of another number of ranks than its mesh axes have");
  }
  if (collective->count < 1 || __builtin_mul_overflow(collective->count, ranks, &all) || all > PLAN_MOST_BYTES) {
    return check_fail(v, "has an impossible count");
  }
  return true;
}

// Does this rank's block of a sum come to lie where it was?
static bool leaves_its_block(const Plan *plan, const Collective *collective) {
  Place block = collective->from;
  int64_t stride = collective->count * element_type_bytes(collective->type);
  bool same = collective->from.term == 0;
  for (int m = plan->mesh_count - 1; m >= 0; m--) {
    const bool among = collective->mesh >> m & 1;
    same &= plan->terms[collective->to.term].stride[m] == (among ? stride : 0);
    stride *= among ? plan->mesh[m].size : 1;
  }
  block.term = collective->to.term;
  return same && memcmp(&block, &collective->to, sizeof block) == 0;
}

// Once its operands are inside their arenas.
static bool apart_holds(PlanCheck *v, const Operands *operands) {
  const Operand *from = &operands->at[0], *to = &operands->at[1];
  const Collective *collective = &v->instruction->as.collective;
  // Each rank writes what it alone reads.
  const bool in_place = memcmp(from->place, to->place, sizeof *from->place) == 0;
  return (in_place && from->extent.last == to->extent.last && collective->kind == COLLECTIVE_ALL_REDUCE) ||
         (collective->kind == COLLECTIVE_REDUCE_SCATTER && leaves_its_block(v->plan, collective)) ||
         !places_meet(v, from->place, (from->extent.last + 1) * from->bytes, to->place,
                      (to->extent.last + 1) * to->bytes) ||
         check_fail(v, "receives where it sends from");
}

static bool transfer_holds(PlanCheck *v, const Transfer *transfer) {
  const Plan *plan = v->plan;
  if (plan->pipeline < 0 || transfer->peer < 0 || transfer->peer >= plan->stages || transfer->peer == plan->stage) {
    return check_fail(v, "is a message to or from a stage that is not there");
  }
  if (transfer->channel < 0 || transfer->channel >= PLAN_MOST_CHANNELS) {
    return check_fail(v, "has an impossible channel");
  }
  return transfer->count >= 1 || check_fail(v, "is a message without elements");
}

static bool offloaded_somewhere(const Plan *plan, const Offload *fetch) {
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      if (at->kind == INSTRUCTION_OFFLOAD && at->as.offload.bytes == fetch->bytes &&
          places_same(&at->as.offload.host, &fetch->host)) {
        return true;
      }
    }
  }
  return false;
}

static bool offload_holds(PlanCheck *v, const Offload *copy, bool fetches) {
  if (copy->bytes < 1 || copy->bytes > PLAN_MOST_BYTES) {
    return check_fail(v, "is an impossible copy");
  }
  if (copy->device.arena != ARENA_TRANSIENT || copy->host.arena != ARENA_OFFLOAD) {
    return check_fail(v, "copies from or to where it may not");
  }
  return !fetches || offloaded_somewhere(v->plan, copy) || check_fail(v, "fetches what was never offloaded");
}

static bool span_holds(const Plan *plan, Span span) {
  return span.file == -1 || (span.file >= 0 && span.file < plan->source_count && span.begin <= span.end &&
                             span.end <= plan->sources[span.file].length);
}

// Whether it is possible by itself; where its operands lie is another question.
static bool is_possible(PlanCheck *v, const Instruction *instruction) {
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return kernel_holds(v, &instruction->as.kernel);
    case INSTRUCTION_GEMM:
      return gemm_holds(v, &instruction->as.gemm);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return take_holds(v, &instruction->as.take);
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return window_holds(v, &instruction->as.window);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      return attention_holds(v, &instruction->as.attention);
    case INSTRUCTION_PIECE:
      return piece_holds(v, &instruction->as.piece);
    case INSTRUCTION_SQUARES:
      return squares_hold(v, &instruction->as.squares);
    case INSTRUCTION_COLLECTIVE:
      return collective_holds(v, &instruction->as.collective);
    case INSTRUCTION_SEND:
    case INSTRUCTION_RECEIVE:
      return transfer_holds(v, &instruction->as.transfer);
    case INSTRUCTION_OFFLOAD:
    case INSTRUCTION_FETCH:
      return offload_holds(v, &instruction->as.offload, instruction->kind == INSTRUCTION_FETCH);
    case INSTRUCTION_KIND_COUNT:
      break;
  }
  return check_fail(v, "is an unknown instruction");
}

static bool check_instruction(PlanCheck *v, const Instruction *instruction) {
  v->what = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  if (!span_holds(v->plan, instruction->span) || !span_holds(v->plan, instruction->rule)) {
    return check_fail(v, "points at text that is not there");
  }
  if (!is_possible(v, instruction)) {
    return false;
  }
  Operands operands;
  instruction_touches(v->plan, instruction, &operands);
  for (int i = 0; i < operands.count; i++) {
    if (!check_operand(v, &operands.at[i])) {
      return false;
    }
  }
  return instruction->kind != INSTRUCTION_COLLECTIVE || apart_holds(v, &operands);
}

static bool kernels_hold(PlanCheck *v) {
  for (int i = 0; i < v->plan->kernel_count; i++) {
    v->what = arena_format(v->arena, "kernel %d", i);
    const char *why = kernel_verify(v->plan->kernels[i]);
    if (why) {
      return check_fail(v, why);
    }
  }
  return true;
}

// A state that is cut as a part of an arena: `last` is its last element there, counted from its first.
static bool flat_holds(PlanCheck *v, const PlanState *state, int64_t last, uint32_t *used) {
  int64_t end;
  if (!check_mesh_axes(v, state->flat_count, state->flat_mesh, used)) {
    return false;
  }
  if (state->flat_first < 0 || __builtin_add_overflow(state->flat_first, last, &end) ||
      !parts_reach(plan_parts(v->plan, state->flat_mesh, state->flat_count), state->flat_piece, end + 1)) {
    return check_fail(v, "lies outside the arena that is cut into pieces");
  }
  return check_dense(v, (Place){.arena = ARENA_PERSISTENT, .offset = state->offset}, state->flat_piece, state->type);
}

static bool state_holds(PlanCheck *v, const PlanState *state) {
  uint32_t used = 0;
  int64_t local[PLAN_MAX_AXES];
  Extent extent = {0};
  if (!check_sizes(v, state->size, state->axis_count) ||
      !check_cuts(v, state->cut, state->size, state->axis_count, &used, local)) {
    return false;
  }
  for (int a = 0; a < state->axis_count; a++) {
    if (state->stride[a] < 0 || (state->stride[a] == 0 && local[a] > 1)) {
      return check_fail(v, "has two elements in one place");
    }
    extent_add(&extent, local[a], state->stride[a]);
  }
  if (state->flat_piece != 0) {
    return extent.overflow ? check_fail(v, "lies outside its arena") : flat_holds(v, state, extent.last, &used);
  }
  if (state->flat_count != 0) {
    return check_fail(v, "is cut over mesh axes into no pieces");
  }
  Place place = {.arena = ARENA_PERSISTENT, .offset = state->offset};
  return check_place(v, place, extent, element_type_bytes(state->type));
}

static bool states_hold(PlanCheck *v) {
  bool good = true;
  for (int i = 0; good && i < v->plan->state_count; i++) {
    v->what = v->plan->states[i].name;
    good = state_holds(v, &v->plan->states[i]);
  }
  return good;
}

static bool input_holds(PlanCheck *v, const PlanInput *input) {
  Extent extent = {0};
  int64_t elements = 1, local[PLAN_MAX_AXES];
  uint32_t used = 0;
  if (!check_sizes(v, input->size, input->axis_count) ||
      !check_cuts(v, input->cut, input->size, input->axis_count, &used, local)) {
    return false;
  }
  for (int a = 0; a < input->axis_count; a++) {
    extent.overflow |= __builtin_mul_overflow(elements, local[a], &elements);
  }
  if (extent.overflow || elements > PLAN_MOST_BYTES / (v->slots > 0 ? v->slots : 1)) {
    return check_fail(v, "has more elements than there can be");
  }
  extent.last = elements - 1;
  return check_place(v, input->place, extent, element_type_bytes(input->type));
}

static bool program_holds(PlanCheck *v, const PlanProgram *program) {
  v->slots = program->slots;
  if (program->call_count > 0 && (program->slots < 1 || program->slots > PLAN_MOST_SLOTS)) {
    return check_fail(v, program->slots < 1 ? "has no slots" : "has more slots than a plan may have");
  }
  if (program->transient_bytes > v->plan->arena_bytes[ARENA_TRANSIENT]) {
    return check_fail(v, "needs more transient memory than there is");
  }
  for (int i = 0; i < program->input_count; i++) {
    v->what = program->inputs[i].name;
    if (!input_holds(v, &program->inputs[i])) {
      return false;
    }
  }
  for (int i = 0; i < program->output_count; i++) {
    const PlanOutput *output = &program->outputs[i];
    v->what = output->name;
    if (output->place.arena != ARENA_HOST) {
      return check_fail(v, "is an output, and not where the host reads it");
    }
    if (!check_sizes(v, output->size, output->axis_count) ||
        !check_strided(v, output->place, output->type, output->axis_count, output->size, output->stride)) {
      return false;
    }
  }
  return true;
}

// Each segment is checked once, with the highest slot and lane that any call gives it.
static bool segments_hold(PlanCheck *v) {
  const Plan *plan = v->plan;
  int *slots = ARENA_ARRAY(v->arena, int, plan->segment_count + 1);
  int *lanes = ARENA_ARRAY(v->arena, int, plan->segment_count + 1);
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    v->what = program_kind_name((ProgramKind)p);
    for (int i = 0; i < program->call_count; i++) {
      const PlanCall *call = &program->calls[i];
      if (call->segment < 0 || call->segment >= plan->segment_count || call->slot < 0 || call->slot >= program->slots) {
        return check_fail(v, "calls a segment or a slot that is not there");
      }
      if (call->lane < 0 || call->lane >= program->slots) {
        return check_fail(v, "calls a lane that is not there");
      }
      slots[call->segment] = call->slot + 1 > slots[call->segment] ? call->slot + 1 : slots[call->segment];
      lanes[call->segment] = call->lane + 1 > lanes[call->segment] ? call->lane + 1 : lanes[call->segment];
    }
  }
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    v->what = segment->name;
    v->slots = slots[s] > 0 ? slots[s] : 1;
    v->lanes = lanes[s] > 0 ? lanes[s] : 1;
    if (segment->chunk < 0 || segment->chunk >= PLAN_MOST_CHUNKS) {
      return check_fail(v, "is of an impossible chunk");
    }
    for (int i = 0; i < segment->count; i++) {
      v->instruction = &segment->instructions[i];
      if (!check_instruction(v, v->instruction)) {
        return false;
      }
    }
    v->instruction = NULL;
  }
  return true;
}

// --- queues ---

// In one program a communicator has one queue.
static bool queues_hold(PlanCheck *v, const PlanProgram *program) {
  enum { UNKNOWN, WITH_ARITHMETIC, BESIDE };
  uint8_t known[1 << PLAN_MAX_MESH] = {UNKNOWN};
  int count = 0;
  bool *called = ARENA_ARRAY(v->arena, bool, v->plan->segment_count + 1);
  for (int c = 0; c < program->call_count; c++) {
    called[program->calls[c].segment] = true;
  }
  for (int s = 0; s < v->plan->segment_count; s++) {
    for (int i = 0; called[s] && i < v->plan->segments[s].count; i++) {
      const Instruction *instruction = &v->plan->segments[s].instructions[i];
      const uint32_t over = instruction->as.collective.mesh;
      v->what = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
      if (instruction->kind != INSTRUCTION_COLLECTIVE) {
        if (instruction->aside) {
          return check_fail(v, "is no collective, and runs beside arithmetic");
        }
        continue;
      }
      const uint8_t queue = instruction->aside ? BESIDE : WITH_ARITHMETIC;
      count += queue == BESIDE && known[over] == UNKNOWN;
      if (count > PLAN_MAX_ASIDE) {
        return check_fail(v, "is of more communicators that run beside arithmetic than there may be");
      }
      if (known[over] != UNKNOWN && known[over] != queue) {
        return check_fail(v, "is on another queue than others of its communicator");
      }
      known[over] = queue;
    }
  }
  return true;
}

static bool mesh_holds(PlanCheck *v) {
  const Plan *plan = v->plan;
  int64_t ranks = 1;
  if (plan->mesh_count < 0 || plan->mesh_count > PLAN_MAX_MESH) {
    return check_fail(v, "has an impossible mesh");
  }
  for (int i = 0; i < plan->mesh_count; i++) {
    for (int j = 0; j < i; j++) {
      if (strcmp(plan->mesh[i].name, plan->mesh[j].name) == 0) {
        return check_fail(v, "has two mesh axes of one name");
      }
    }
    if (plan->mesh[i].size < 1 || plan->mesh[i].size > PLAN_MOST_RANKS ||
        (ranks *= plan->mesh[i].size) > PLAN_MOST_RANKS) {
      return check_fail(v, "has an impossible mesh");
    }
  }
  if (plan->pipeline < -1 || plan->pipeline >= plan->mesh_count) {
    return check_fail(v, "has its pipeline along a mesh axis that is not there");
  }
  if (plan->stages != (plan->pipeline < 0 ? 1 : plan->mesh[plan->pipeline].size) || plan->stage < 0 ||
      plan->stage >= plan->stages) {
    return check_fail(v, "is of a stage that is not there");
  }
  static const PlanTerm nothing;
  return (plan->term_count >= 1 && memcmp(&plan->terms[0], &nothing, sizeof nothing) == 0) ||
         check_fail(v, "has no first term that is 0");
}

// The tables of an ELF file end inside of it, so that a driver that believes its header stays inside.
static bool is_elf(const uint8_t *code, size_t bytes) {
  uint64_t offset[2];           // of the programs' table, and of the sections'
  uint16_t each[2], number[2];  // bytes and count of their entries
  if (bytes < 64 || memcmp(code,
                           "\x7f"
                           "ELF\2\1",
                           6) != 0) {
    return false;
  }
  memcpy(offset, code + 32, sizeof offset);
  for (int i = 0; i < 2; i++) {
    memcpy(&each[i], code + 54 + 4 * i, sizeof each[i]);
    memcpy(&number[i], code + 56 + 4 * i, sizeof number[i]);
    if (offset[i] > bytes || (uint64_t)each[i] * number[i] > bytes - offset[i]) {
      return false;
    }
  }
  return true;
}

static bool targets_hold(PlanCheck *v) {
  for (int t = 0; t < v->plan->target_count; t++) {
    const PlanTarget *target = &v->plan->targets[t];
    const bool text = strncmp(target->target, "compute_", 8) == 0;
    v->what = target->target;
    if (target->multiprocessors < 1 || target->shared_bytes < 1) {
      return check_fail(v, "is a kind of GPU with nothing in it");
    }
    for (int i = 0; i < target->count; i++) {
      const PlanCode *code = &target->codes[i];
      if (i > 0 && target->codes[i - 1].text >= code->text) {
        return check_fail(v, "has its kernels in no order");
      }
      if (text ? code->bytes < 1 || code->code[code->bytes - 1] != 0 : !is_elf(code->code, code->bytes)) {
        return check_fail(v, "has a kernel that is neither machine code nor text");
      }
    }
  }
  return true;
}

const char *plan_verify(Arena *arena, const Plan *plan) {
  PlanCheck v = {.arena = arena, .plan = plan, .slots = 1, .lanes = 1, .what = "plan"};
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (plan->arena_bytes[i] < 0 || plan->arena_bytes[i] > PLAN_MOST_BYTES) {
      check_fail(&v, "has an arena of impossible size");
      return v.why;
    }
  }
  bool good = mesh_holds(&v) && check_names(&v) && check_run(&v) && kernels_hold(&v) && states_hold(&v) &&
              check_states_apart(&v);
  for (int i = 0; good && i < PROGRAM_COUNT; i++) {
    v.what = program_kind_name((ProgramKind)i);
    good = program_holds(&v, &plan->programs[i]);
  }
  good = good && check_steps(&v) && segments_hold(&v);
  for (int i = 0; good && i < PROGRAM_COUNT; i++) {
    good = queues_hold(&v, &plan->programs[i]);
  }
  good = good && targets_hold(&v);
  return good ? NULL : v.why;
}
