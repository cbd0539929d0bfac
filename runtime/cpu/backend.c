// backend.c: the CPU backend: arenas in memory, programs run instruction by instruction on a pool of threads.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/grouped.h"
#include "kernels/cpu/squares.h"
#include "kernels/cpu/take.h"
#include "runtime/cpu/collective.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/order.h"
#include "runtime/trace.h"

struct Device {
  const Plan *plan;
  Ranks *ranks;  // NULL: the only rank there is
  int64_t rank;
  int coordinate[PLAN_MAX_MESH];
  int64_t *term;  // what each term of the plan is on this rank
  Arena *arena;   // of what open prepared
  const Simd *simd;
  Blas blas;
  Pool *pool;
  char *memory[ARENA_CLASS_COUNT];
  PlanInstances runs[PROGRAM_COUNT];  // of instructions, as they are listed
  int *order[PROGRAM_COUNT];          // in which they are run; NULL: as they are listed
  int64_t *sent[PROGRAM_COUNT];       // by run of a SEND: which message of its channel it was; NULL: there are none
  Fused ***fused;                     // [segment][instruction]; NULL for instructions that are not kernels
  char **scratch;                     // [worker]
  char *shared;
  int64_t scratch_bytes, shared_bytes;
  bool tracing;
  TraceLog traced;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool out_of_memory(Error *error, int64_t bytes, const char *what) {
  char asked[UNITS_MAX], has[UNITS_MAX];
  return error_set(error, 3,
                   "out of memory: the CPU backend asked for %s for %s (the machine has %s); make the batch, the "
                   "sequence or the model smaller",
                   units_bytes(asked, (double)bytes), what, units_bytes(has, (double)memory_physical()));
}

static bool memories_open(Device *device, Error *error) {
  static const char *const names[] = {"persistent state", "the values of a step", "buffers of collectives",
                                      "inputs and outputs", "values that wait for the backward"};
  int64_t total = 0;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    const int64_t bytes = device->plan->arena_bytes[i];
    total = bytes > INT64_MAX - total ? INT64_MAX : total + bytes;
  }
  const int64_t all = device->ranks ? ranks_bytes(device->ranks) : total;
  if (memory_physical() > 0 && all > memory_physical()) {
    char what[64];
    snprintf(what, sizeof what, "the values of %" PRId64 " ranks", device->ranks ? ranks_count(device->ranks) : 1);
    return out_of_memory(error, all, device->ranks ? what : "the values of the plan");
  }
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    device->memory[i] = memory_create(device->plan->arena_bytes[i], device->pool);
    if (!device->memory[i]) {
      return out_of_memory(error, device->plan->arena_bytes[i], names[i]);
    }
  }
  return true;
}

static bool instruction_check(const Instruction *instruction, const Ranks *ranks, Error *error) {
  const char *name = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  const ElementType put = instruction->as.take.type, fold = instruction->as.window.type;
  switch (instruction->kind) {
    case INSTRUCTION_GEMM:
      return gemm_check(&instruction->as.gemm, name, error);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return grouped_check(&instruction->as.grouped, instruction->kind == INSTRUCTION_GROUPED_SUM, name, error);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return attention_check(&instruction->as.attention, name, error);
    case INSTRUCTION_PUT:
      return (put != TYPE_F16 && put != TYPE_BF16 && put != TYPE_E4M3 && put != TYPE_E5M2) ||
             error_set(error, 1, "%s: the CPU backend cannot add by index in %s", name, element_type_name(put));
    case INSTRUCTION_FOLD:
      return fold == TYPE_F32 || fold == TYPE_F64 ||
             error_set(error, 1, "%s: the CPU backend cannot fold windows of %s", name, element_type_name(fold));
    case INSTRUCTION_SEND:
    case INSTRUCTION_RECEIVE:
      return ranks || error_set(error, 1, "%s: a message, and there is no other rank", name);
    default:
      return true;
  }
}

static int slots_of(const Plan *plan) {
  int slots = 1;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int c = 0; c < plan->programs[p].call_count; c++) {
      slots = plan->programs[p].calls[c].slot >= slots ? plan->programs[p].calls[c].slot + 1 : slots;
    }
  }
  return slots;
}

static void scratch_need(Device *device, int64_t scratch, int64_t shared) {
  device->scratch_bytes = scratch > device->scratch_bytes ? scratch : device->scratch_bytes;
  device->shared_bytes = shared > device->shared_bytes ? shared : device->shared_bytes;
}

// The places of a kernel's ports on this rank: their terms are added.
static Place *places_here(Device *device, const KernelCall *call) {
  const int count = device->plan->kernels[call->kernel]->port_count;
  Place *places = ARENA_ARRAY(device->arena, Place, count + 1);
  for (int p = 0; p < count; p++) {
    places[p] = call->place[p];
    places[p].offset += device->term[places[p].term];
    places[p].term = 0;
  }
  return places;
}

static void terms_open(Device *device) {
  const Plan *plan = device->plan;
  device->term = ARENA_ARRAY(device->arena, int64_t, plan->term_count + 1);
  for (int i = 0; i < plan->term_count; i++) {
    device->term[i] = plan_term(plan, i, device->coordinate);
  }
}

// Run as they are listed, instructions wait for messages alone.
static void orders_open(Device *device, uint64_t seed) {
  Plan *plan = (Plan *)(uintptr_t)device->plan;  // nothing changes a plan
  const PlanSet alone = {1, &plan}, *set = device->ranks ? ranks_plans(device->ranks) : &alone;
  const PlanWaits *waits = plan->stages > 1 ? plan_waits(device->arena, plan) : NULL;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    PlanInstances *runs = &device->runs[p];
    *runs = plan_instances(device->arena, plan, waits, (ProgramKind)p);
    device->sent[p] = waits ? ARENA_ARRAY(device->arena, int64_t, runs->count + 1) : NULL;
  }
  if (seed) {
    orders_draw(device->arena, set, plan->stage, seed, device->order);
  }
}

// Prepares all kernels and finds how much scratch they and attention need.
static bool segments_open(Device *device, uint64_t order, Error *error) {
  const Plan *plan = device->plan;
  device->scratch = ARENA_ARRAY(device->arena, char *, pool_threads(device->pool));
  const int slots = slots_of(plan);
  terms_open(device);
  orders_open(device, order);
  device->fused = ARENA_ARRAY(device->arena, Fused **, plan->segment_count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    device->fused[s] = ARENA_ARRAY(device->arena, Fused *, segment->count + 1);
    for (int i = 0; i < segment->count; i++) {
      const Instruction *instruction = &segment->instructions[i];
      if (!instruction_check(instruction, device->ranks, error)) {
        return false;
      }
      if (instruction->kind == INSTRUCTION_KERNEL) {
        const KernelCall *call = &instruction->as.kernel;
        Fused *fused =
            fused_build(device->arena, device->simd, plan->kernels[call->kernel], places_here(device, call), slots);
        device->fused[s][i] = fused;
        scratch_need(device, fused_scratch_bytes(fused), fused_shared_bytes(fused));
      } else if (instruction->kind == INSTRUCTION_GEMM) {
        scratch_need(device, gemm_scratch_bytes(&instruction->as.gemm), 0);
      } else if (instruction_multiplies(instruction)) {
        const bool sums = instruction->kind == INSTRUCTION_GROUPED_SUM;
        scratch_need(device, grouped_scratch_bytes(&instruction->as.grouped, sums), 0);
      } else if (instruction->kind == INSTRUCTION_ORDER) {
        scratch_need(device, 0, order_shared_bytes(&instruction->as.order));
      } else if (instruction_attends(instruction)) {
        scratch_need(device, attention_scratch_bytes(&instruction->as.attention), 0);
      } else if (instruction->kind == INSTRUCTION_SQUARES) {
        scratch_need(device, 0, squares_shared_bytes(&instruction->as.squares));
      }
    }
  }
  return true;
}

// The same, where running out of memory is an error and not the end of the process.
static bool segments_open_safely(Device *device, uint64_t order, Error *error) {
  jmp_buf escape;
  if (setjmp(escape)) {
    arena_set_escape(device->arena, NULL);
    return out_of_memory(error, (int64_t)arena_used(device->arena), "the prepared plan, and more");
  }
  arena_set_escape(device->arena, &escape);
  const bool opened = segments_open(device, order, error);
  arena_set_escape(device->arena, NULL);
  return opened;
}

static bool workspaces_open(Device *device, Error *error) {
  for (int i = 0; i < pool_threads(device->pool); i++) {
    device->scratch[i] = memory_create(device->scratch_bytes, device->pool);
    if (!device->scratch[i]) {
      return out_of_memory(error, device->scratch_bytes, "the scratch of a thread");
    }
  }
  device->shared = memory_create(device->shared_bytes, device->pool);
  return device->shared || out_of_memory(error, device->shared_bytes, "partial sums");
}

static void cpu_close(Device *device) {
  if (!device) {
    return;
  }
  for (int i = 0; device->scratch && i < pool_threads(device->pool); i++) {
    free(device->scratch[i]);
  }
  free(device->shared);
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    free(device->memory[i]);
  }
  pool_destroy(device->pool);
  blas_close(&device->blas);
  trace_free(&device->traced);
  arena_destroy(device->arena);
  free(device);
}

static bool device_open(Device *device, const DeviceOptions *options, Error *error) {
  device->simd = simd_select();
  device->arena = arena_create();
  if (!device->arena) {
    return out_of_memory(error, (int64_t)sizeof(Device), "itself");
  }
  device->pool = pool_create(options ? options->threads : 0);
  if (!device->pool) {
    char count[32] = "one for each core";
    if (options && options->threads > 0) {
      snprintf(count, sizeof count, "%d", options->threads);
    }
    return error_set(error, 3, "the CPU backend could not start its threads (%s); ask for fewer with --threads", count);
  }
  return blas_open(&device->blas, pool_threads(device->pool), error) && memories_open(device, error) &&
         segments_open_safely(device, options ? options->order : 0, error) && workspaces_open(device, error);
}

static bool cpu_open(const Plan *plan, const DeviceOptions *options, Device **out, Error *error) {
  Device *device = calloc(1, sizeof *device);
  *out = NULL;
  if (!device) {
    return out_of_memory(error, (int64_t)sizeof *device, "itself");
  }
  device->plan = plan;
  device->ranks = options ? options->ranks : NULL;
  device->rank = device->ranks ? options->rank : 0;
  plan_coordinates(plan, device->rank, device->coordinate);
  if (!device->ranks && plan_ranks(plan) > 1) {
    cpu_close(device);
    return error_set(error, 1, "the plan is for %" PRId64 " ranks and was opened for one", plan_ranks(plan));
  }
  if (!device_open(device, options, error)) {
    cpu_close(device);
    return false;
  }
  *out = device;
  return true;
}

static bool range_check(const Device *device, ArenaClass arena, int64_t offset, int64_t bytes, Error *error) {
  const int64_t size = device->plan->arena_bytes[arena];
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
    return error_set(error, 1, "bytes %" PRId64 " to %" PRId64 " are outside an arena of %" PRId64 " bytes", offset,
                     offset + bytes, size);
  }
  return true;
}

static bool cpu_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes, Error *error) {
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  if (bytes > 0) {
    memcpy(device->memory[arena] + offset, data, (size_t)bytes);
  }
  return true;
}

static bool cpu_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  if (bytes > 0) {
    memcpy(data, device->memory[arena] + offset, (size_t)bytes);
  }
  return true;
}

static void *cpu_host(Device *device, ArenaClass arena, int64_t offset) {
  return device->memory[arena] + offset;
}

// Where a place is from the beginning of its arena, on this rank in this call.
static int64_t position(const Device *device, const Place *place, const PlanCall *call) {
  return place->offset + device->term[place->term] + call->slot * place->slot_stride + call->lane * place->lane_stride;
}

static void *address(const Device *device, const Place *place, const PlanCall *call) {
  return device->memory[place->arena] + position(device, place, call);
}

static void run_kernel(Device *device, const Fused *fused, const KernelCall *call, const PlanCall *plan_call) {
  const Kernel *kernel = device->plan->kernels[call->kernel];
  void *ports[KERNEL_MAX_PORTS];
  for (int p = 0; p < kernel->port_count; p++) {
    const Place *place = &call->place[p];
    if (kernel->port[p].kind == PORT_STRIDES) {  // no memory: the index at which its coordinates begin
      ports[p] = (void *)(intptr_t)position(device, place, plan_call);
    } else {
      ports[p] = address(device, place, plan_call);
    }
  }
  fused_run(fused, device->pool, ports, plan_call->first, device->scratch, device->shared);
}

static void run_gemm(Device *device, const Gemm *gemm, const PlanCall *call) {
  const GemmPorts ports = {
      .a = address(device, &gemm->a, call),
      .b = address(device, &gemm->b, call),
      .bias = gemm->epilogue == EPILOGUE_BIAS ? address(device, &gemm->bias, call) : NULL,
      .c = address(device, &gemm->c, call),
      .scale_a = gemm_scaled(gemm) ? address(device, &gemm->scale_a, call) : NULL,
      .scale_b = gemm_scaled(gemm) ? address(device, &gemm->scale_b, call) : NULL,
  };
  gemm_run(gemm, &device->blas, device->simd, device->pool, &ports, call->first, device->scratch);
}

static void run_grouped(Device *device, const Grouped *grouped, bool sums, const PlanCall *call) {
  const GroupedPorts ports = {
      .a = address(device, &grouped->a, call),
      .b = address(device, &grouped->b, call),
      .c = address(device, &grouped->c, call),
      .chosen = address(device, &grouped->chosen, call),
  };
  grouped_run(grouped, sums, &device->blas, device->simd, device->pool, &ports, call->first, device->scratch);
}

static void run_order(Device *device, const Order *order, const PlanCall *call) {
  const OrderPorts ports = {
      .index = address(device, &order->index, call),
      .place = address(device, &order->place, call),
      .from = address(device, &order->from, call),
      .chosen = address(device, &order->chosen, call),
  };
  order_run(order, &ports, device->shared);
}

// Where a kernel of scores finds what it captures.
static const Kernel *score_ports(Device *device, int score, const Place *place, const PlanCall *call, char **captured) {
  const Kernel *kernel = score ? device->plan->kernels[score - 1] : NULL;
  for (int p = SCORE_CAPTURED; kernel && p < kernel->port_count; p++) {
    captured[p] = address(device, &place[p], call);
  }
  return kernel;
}

static void run_attention(Device *device, const Attention *attention, InstructionKind kind, const PlanCall *call) {
  AttentionPorts ports = {
      .q = address(device, &attention->q, call),
      .k = address(device, &attention->k, call),
      .v = address(device, &attention->v, call),
      .o = address(device, &attention->o, call),
      .statistics = address(device, &attention->statistics, call),
      .slopes = attention->biased ? address(device, &attention->slopes, call) : NULL,
  };
  char *captured[KERNEL_MAX_PORTS], *by_gradient[KERNEL_MAX_PORTS];
  ports.score = score_ports(device, attention->score, attention->score_place, call, captured);
  ports.score_gradient =
      score_ports(device, attention->score_gradient, attention->score_gradient_place, call, by_gradient);
  ports.captured = captured;
  ports.captured_by_gradient = by_gradient;
  int owner[PLAN_MAX_MESH];  // of the keys
  plan_before(device->plan, attention->ring, attention->ring_step, device->coordinate, owner);
  for (int p = 0; p < 2; p++) {
    ports.first[p] = attention->origin[p] + device->term[attention->origin_term[p]];
    ports.key_first[p] = attention->key_origin[p] + plan_term(device->plan, attention->key_origin_term[p], owner);
  }
  ports.d_o = kind == INSTRUCTION_ATTENTION ? NULL : address(device, &attention->d_o, call);
  ports.lost = attention->large && kind == INSTRUCTION_ATTENTION ? address(device, &attention->lost, call) : NULL;
  ports.d_statistics = attention->seeded ? address(device, &attention->d_statistics, call) : NULL;
  if (kind == INSTRUCTION_ATTENTION_CAPTURED) {
    ports.d_captured = address(device, &attention->d_captured, call);
    attention_captured_run(attention, device->simd, device->pool, &ports, device->scratch);
  } else if (kind == INSTRUCTION_ATTENTION_GRAD) {
    ports.dq = address(device, &attention->dq, call);
    ports.dk = address(device, &attention->dk, call);
    ports.dv = address(device, &attention->dv, call);
    attention_grad_run(attention, device->simd, device->pool, &ports, device->scratch);
  } else {
    attention_run(attention, device->simd, device->pool, &ports, device->scratch);
  }
}

static void run_piece(Device *device, const Piece *piece, const PlanCall *call) {
  const int64_t part = plan_part(device->plan, piece->mesh, piece->mesh_count, device->coordinate);
  piece_run(piece, part, address(device, &piece->from, call), address(device, &piece->to, call));
}

static void run_instruction(Device *device, const Instruction *instruction, const Fused *fused, const PlanCall *call) {
  const Take *take = &instruction->as.take;
  const Window *window = &instruction->as.window;
  const Offload *offload = &instruction->as.offload;
  const Squares *squares = &instruction->as.squares;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      run_kernel(device, fused, &instruction->as.kernel, call);
      break;
    case INSTRUCTION_GEMM:
      run_gemm(device, &instruction->as.gemm, call);
      break;
    case INSTRUCTION_ORDER:
      run_order(device, &instruction->as.order, call);
      break;
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      run_grouped(device, &instruction->as.grouped, instruction->kind == INSTRUCTION_GROUPED_SUM, call);
      break;
    case INSTRUCTION_TAKE:
      take_run(take, device->simd, device->pool, address(device, &take->x, call), address(device, &take->index, call),
               take->parts > 0 ? address(device, &take->chosen, call) : NULL, address(device, &take->out, call));
      break;
    case INSTRUCTION_PUT:
      put_run(take, device->simd, device->pool, address(device, &take->x, call), address(device, &take->index, call),
              address(device, &take->out, call), call->first);
      break;
    case INSTRUCTION_WINDOW:
      window_run(window, device->pool, address(device, &window->x, call), address(device, &window->out, call));
      break;
    case INSTRUCTION_FOLD:
      fold_run(window, device->pool, address(device, &window->x, call), address(device, &window->out, call));
      break;
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      run_attention(device, &instruction->as.attention, instruction->kind, call);
      break;
    case INSTRUCTION_PIECE:
      run_piece(device, &instruction->as.piece, call);
      break;
    case INSTRUCTION_SQUARES:
      squares_run(squares, device->pool, address(device, &squares->from, call), address(device, &squares->to, call),
                  device->shared);
      break;
    case INSTRUCTION_OFFLOAD:
      memcpy(address(device, &offload->host, call), address(device, &offload->device, call), (size_t)offload->bytes);
      break;
    case INSTRUCTION_FETCH:
      memcpy(address(device, &offload->device, call), address(device, &offload->host, call), (size_t)offload->bytes);
      break;
    default:
      break;
  }
}

static const Instruction *instruction_of(const Device *device, ProgramKind program, int run) {
  const PlanInstance *at = &device->runs[program].at[run];
  const PlanCall *call = &device->plan->programs[program].calls[at->call];
  return &device->plan->segments[call->segment].instructions[at->instruction];
}

// Until what it waits for is received.
static bool wait_for_messages(Device *device, ProgramKind program, const PlanInstance *at, Error *error) {
  const int64_t *sent = device->sent[program];
  bool good = true;
  for (int w = 0; sent && w < at->wait_count && good; w++) {
    const int other = at->wait[w];
    good = sent[other] == 0 ||
           ranks_sent(device->ranks, device->rank, instruction_of(device, program, other), sent[other], error);
  }
  return good;
}

static bool run_one(Device *device, ProgramKind program, int run, Error *error) {
  const PlanInstance *at = &device->runs[program].at[run];
  const PlanCall *call = &device->plan->programs[program].calls[at->call];
  const Instruction *instruction = instruction_of(device, program, run);
  const Collective *collective = &instruction->as.collective;
  const Place *message = &instruction->as.transfer.place;
  const double before = device->tracing ? now() : 0;
  bool good = wait_for_messages(device, program, at, error);
  if (instruction->kind == INSTRUCTION_COLLECTIVE) {
    good =
        good && collective_run(instruction, device->ranks, device->rank, at->call,
                               address(device, &collective->from, call), address(device, &collective->to, call), error);
  } else if (instruction->kind == INSTRUCTION_SEND) {
    good = good && ranks_send(device->ranks, device->rank, instruction, address(device, message, call),
                              &device->sent[program][run], error);
  } else if (instruction->kind == INSTRUCTION_RECEIVE) {
    good = good && receive_run(instruction, device->ranks, device->rank, address(device, message, call), error);
  } else if (good) {
    run_instruction(device, instruction, device->fused[call->segment][at->instruction], call);
  }
  if (device->tracing && good) {
    trace_add(&device->traced, (TraceSpan){.instruction = instruction, .begin = before, .end = now()});
  }
  return good;
}

static bool run_calls(Device *device, ProgramKind program, Error *error) {
  bool good = true;
  for (int i = 0; i < device->runs[program].count && good; i++) {
    good = run_one(device, program, device->order[program] ? device->order[program][i] : i, error);
  }
  return good;
}

static bool cpu_run(Device *device, ProgramKind program, Error *error) {
  const PlanProgram *calls = &device->plan->programs[program];
  if (calls->call_count == 0) {
    return error_set(error, 1, "the plan has no program '%s'", program_kind_name(program));
  }
  if (!device->ranks) {
    return run_calls(device, program, error);
  }
  return ranks_begin(device->ranks, device->rank, program, error) && run_calls(device, program, error) &&
         ranks_end(device->ranks, device->rank, error);
}

static bool cpu_wait(Device *device, int behind, Error *error) {
  (void)device;
  (void)behind;
  (void)error;
  return true;  // a run is done when cpu_run returns
}

static void cpu_facts(const Device *device, DeviceFacts *facts) {
  (void)device;
  *facts = (DeviceFacts){.name = "cpu", .peak_flops = NAN, .peak_bytes = NAN, .memory_bytes = -1, .gap_seconds = NAN};
}

static void cpu_trace(Device *device, bool on) {
  device->tracing = on;
}

static const TraceSpan *cpu_traced(Device *device, int64_t *count) {
  *count = device->traced.count;
  return device->traced.at;
}

const Backend backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .write = cpu_write,
    .read = cpu_read,
    .run = cpu_run,
    .wait = cpu_wait,
    .facts = cpu_facts,
    .trace = cpu_trace,
    .traced = cpu_traced,
    .host = cpu_host,
};
