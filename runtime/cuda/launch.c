// launch.c: the instructions of a program, put on the stream one after the other, or captured into CUDA graphs.
#include <limits.h>
#include <string.h>

#include "runtime/cuda/internal.h"

enum { GRAPH_NODES_MAX = 5000 };  // above it, instantiating and launching get slow

int64_t place_position(const Device *device, const Place *place, const PlanCall *call) {
  return place->offset + device->term[place->term] + call->slot * place->slot_stride + call->lane * place->lane_stride;
}

CudaAddress place_address(const Device *device, const Place *place, const PlanCall *call) {
  return device->memory[place->arena] + (uint64_t)place_position(device, place, call);
}

static void slots_fill(const Device *device, const Prepared *prepared, const PlanCall *call, uint64_t *slots) {
  for (int i = 0; i < prepared->slot_count; i++) {
    const Slot *slot = &prepared->slots[i];
    slots[i] = slot->kind == SLOT_NUMBER  ? (uint64_t)slot->number
               : slot->kind == SLOT_INDEX ? (uint64_t)place_position(device, slot->place, call)
                                          : place_address(device, slot->place, call);
  }
}

static bool launch_piece(Device *device, const Piece *piece, const PlanCall *call, Error *error) {
  const int64_t part = plan_part(device->plan, piece->mesh, piece->mesh_count, device->coordinate);
  const int64_t bytes = element_type_bytes(piece->type), low = part * piece->piece, high = low + piece->piece;
  const int64_t begin = piece->first > low ? piece->first : low;
  const int64_t last = piece->first + piece->count, end = last < high ? last : high;
  if (begin >= end) {
    return true;
  }
  const CudaAddress to = place_address(device, &piece->to, call) + (uint64_t)((begin - low) * bytes);
  const CudaAddress from = place_address(device, &piece->from, call) + (uint64_t)((begin - piece->first) * bytes);
  return cuda_check(&device->cuda, device->cuda.copy_within(to, from, (size_t)((end - begin) * bytes), device->stream),
                    "copying a piece", error);
}

static bool launch_shared(Device *device, const Instruction *instruction, const PlanCall *call, int queue,
                          CudaStream stream, Error *error) {
  const Collective *collective = &instruction->as.collective;
  CudaAddress from = 0, to = 0;
  if (instruction->kind == INSTRUCTION_COLLECTIVE) {
    from = place_address(device, &collective->from, call);
    to = place_address(device, &collective->to, call);
  } else {
    to = place_address(device, &instruction->as.transfer.place, call);
  }
  return comms_launch(device->comms, instruction, from, to, queue, stream, error);
}

static bool launch_offload(Device *device, const Instruction *instruction, const PlanCall *call, CudaStream stream,
                           Error *error) {
  const Offload *offload = &instruction->as.offload;
  return offload_launch(&device->cuda, instruction, place_address(device, &offload->device, call),
                        device->offloaded + place_position(device, &offload->host, call), stream, error);
}

static bool launch_instruction(Device *device, const Instruction *instruction, const Prepared *prepared,
                               const PlanCall *call, int queue, CudaStream stream, Error *error) {
  uint64_t slots[CUDA_MAX_PORTS];
  slots_fill(device, prepared, call, slots);
  switch (prepared->kind) {
    case PREPARED_KERNEL:
      return modules_launch(&device->cuda, prepared->as.loaded, slots, device->scratch, call->first, device->stream,
                            error);
    case PREPARED_GEMM:
      return gemm_launch(device->gemms, prepared->as.gemm, slots, call->first, device->scratch, device->stream, error);
    case PREPARED_ATTENTION:
      return attention_launch(&device->cuda, device->cudnn, prepared->as.attention, slots, device->scratch, call->first,
                              device->stream, error);
    case PREPARED_COPY:
      return launch_piece(device, &instruction->as.piece, call, error);
    case PREPARED_SHARED:
      return launch_shared(device, instruction, call, queue, stream, error);
    case PREPARED_OFFLOAD:
      return launch_offload(device, instruction, call, stream, error);
    default:
      return error_set(error, 1, "%s: not on this device", instruction->name ? instruction->name : "an instruction");
  }
}

// An instruction is at most about this many launches, and nodes of a graph. cuDNN says nothing of its own: a few.
static int launches_of(const Prepared *prepared) {
  return prepared->kind == PREPARED_KERNEL    ? prepared->as.loaded->kernel.launch_count
         : prepared->kind == PREPARED_GEMM    ? gemm_launches(prepared->as.gemm)
         : prepared->kind == PREPARED_OFFLOAD ? 1
                                              : 4;
}

static bool launch_call(Device *device, const PlanCall *call, int from, int to, Error *error) {
  const PlanSegment *segment = &device->plan->segments[call->segment];
  for (int i = from; i < to; i++) {
    const Instruction *instruction = &segment->instructions[i];
    const Prepared *prepared = &device->prepared[call->segment][i];
    int queue = 0;
    CudaStream stream = device->stream;
    if ((device->queues && !queues_enter(device->queues, call, i, &queue, &stream, error)) ||
        (prepared->lasting && !copies_hold(&device->copies, queue, stream, device->capturing, error)) ||
        (device->tracing && !timing_begin(device->timing, launches_of(prepared), device->stream, stream, error)) ||
        !launch_instruction(device, instruction, prepared, call, queue, stream, error) ||
        (device->tracing && !timing_end(device->timing, instruction, prepared->form, queue, stream, error)) ||
        (device->queues && !queues_leave(device->queues, call, i, error))) {
      return false;
    }
  }
  return true;
}

// What the queues of a run begin behind.
static bool run_begin(Device *device, ProgramKind kind, Error *error) {
  copies_run(&device->copies);
  return (!device->comms || comms_begin(device->comms, kind, queues_count(device->queues), device->stream, error)) &&
         queues_begin(device->queues, error);
}

bool device_launch_program(Device *device, ProgramKind kind, Error *error) {
  const PlanProgram *program = &device->plan->programs[kind];
  if (!run_begin(device, kind, error)) {
    return false;
  }
  for (int c = 0; c < program->call_count; c++) {
    const PlanCall *call = &program->calls[c];
    if (!launch_call(device, call, 0, device->plan->segments[call->segment].count, error)) {
      return false;
    }
  }
  return queues_join(device->queues, error);
}

// One instruction on what the memory holds, if nobody has timed its like.
static bool tune_instruction(Device *device, const Prepared *prepared, const PlanCall *call, Error *error) {
  uint64_t slots[CUDA_MAX_PORTS];
  if (prepared->kind == PREPARED_GEMM && !gemm_tuned(prepared->as.gemm)) {
    slots_fill(device, prepared, call, slots);
    return gemm_tune(device->gemms, prepared->as.gemm, slots, device->scratch, device->stream, error);
  }
  if (prepared->kind == PREPARED_ATTENTION && !prepared->as.attention->tuned) {
    Tuning *tuning = gemms_tuning(device->gemms);
    attention_find(prepared->as.attention, tuning);
    slots_fill(device, prepared, call, slots);
    return prepared->as.attention->tuned || attention_tune(&device->cuda, device->cudnn, prepared->as.attention, slots,
                                                           device->scratch, device->stream, tuning, error);
  }
  return true;
}

// What was chosen, in words.
static void attention_ways(Device *device) {
  for (int s = 0; s < device->plan->segment_count; s++) {
    for (int i = 0; i < device->plan->segments[s].count; i++) {
      Prepared *prepared = &device->prepared[s][i];
      if (prepared->kind != PREPARED_ATTENTION) {
        continue;
      }
      const AttentionChoice *choice = prepared->as.attention;
      const bool gradient = device->plan->segments[s].instructions[i].kind == INSTRUCTION_ATTENTION_GRAD;
      AttentionWay *way = &device->attention[gradient];
      prepared->form = attention_form(choice);
      way->own |= choice->takes_own;
      way->library = way->library || choice->takes_own ? way->library : prepared->form;
    }
  }
}

// Where the first call of each is.
bool device_tune(Device *device, bool *adopted, Error *error) {
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &device->plan->programs[p];
    for (int c = 0; c < program->call_count; c++) {
      const PlanCall *call = &program->calls[c];
      for (int i = 0; i < device->plan->segments[call->segment].count; i++) {
        if (!tune_instruction(device, &device->prepared[call->segment][i], call, error)) {
          return false;
        }
      }
    }
  }
  if (!gemms_keep(device->gemms, adopted, error)) {
    return false;
  }
  for (int i = 0; i < device->choices.count && *adopted; i++) {
    attention_find(device->choices.at[i], gemms_tuning(device->gemms));
  }
  attention_ways(device);
  return true;
}

static bool part_end(Device *device, ProgramGraphs *graphs, Error *error) {
  const Cuda *cuda = &device->cuda;
  CudaGraph graph = NULL;
  CudaGraphExec exec = NULL;
  size_t nodes = 0;
  bool good = queues_join(device->queues, error) &&
              cuda_check(cuda, cuda->capture_end(device->stream, &graph), "capturing a program", error) &&
              cuda_check(cuda, cuda->graph_nodes(graph, NULL, &nodes), "counting the nodes of a graph", error);
  if (good && nodes > 0) {
    good = cuda_check(cuda, cuda->graph_instantiate(&exec, graph, 0), "making a graph", error) &&
           cuda_check(cuda, cuda->graph_upload(exec, device->stream), "uploading a graph", error);
  }
  if (exec) {
    array_push(device->arena, &graphs->parts, exec);
    graphs->nodes += (int64_t)nodes;
  }
  if (graph) {
    cuda->graph_destroy(graph);
  }
  return good;
}

static bool part_begin(Device *device, Error *error) {
  copies_run(&device->copies);
  return cuda_check(&device->cuda, device->cuda.capture_begin(device->stream, CUDA_CAPTURE_THREAD_LOCAL),
                    "capturing a program", error);
}

static bool program_capture(Device *device, ProgramKind kind, Error *error) {
  const PlanProgram *program = &device->plan->programs[kind];
  ProgramGraphs *graphs = &device->graphs[kind];
  // A graph ends when all that it sent is received, so with messages a cut could wait for what is behind it.
  const int most = device->comms && comms_transfers(device->comms) ? INT_MAX : GRAPH_NODES_MAX;
  int nodes = 0;
  if (!part_begin(device, error) || !run_begin(device, kind, error)) {
    return false;
  }
  for (int c = 0; c < program->call_count; c++) {
    const PlanCall *call = &program->calls[c];
    const int count = device->plan->segments[call->segment].count;
    for (int i = 0; i < count; i++) {
      const int more = launches_of(&device->prepared[call->segment][i]);
      if (nodes > most - more) {
        if (!part_end(device, graphs, error) || !part_begin(device, error) || !queues_begin(device->queues, error)) {
          return false;
        }
        nodes = 0;
      }
      nodes += more;
      if (!launch_call(device, call, i, i + 1, error)) {
        return false;
      }
    }
  }
  return part_end(device, graphs, error);
}

bool device_capture(Device *device, ProgramKind kind, Error *error) {
  device->capturing = true;
  const bool done = program_capture(device, kind, error);
  device->capturing = false;
  return done;
}
