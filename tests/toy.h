// toy.h: a plan built by hand and a backend that runs it: a table of bigrams, trained by gradient descent with
// momentum.
//
// It stands in for the compiler and a device in tests of the runtime. Every number is deterministic.
#ifndef MDL_TESTS_TOY_H
#define MDL_TESTS_TOY_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

enum { TOY_VOCAB = 256, TOY_STATE_BYTES = TOY_VOCAB * TOY_VOCAB * 4 };
enum { TOY_LOSS, TOY_NORM, TOY_LR, TOY_SKIPPED, TOY_OUTPUTS };

struct Device {
  const Plan *plan;
  char *arena[ARENA_CLASS_COUNT];
};

static PlanInput toy_input(const char *name, int64_t batch, int64_t sequence, int64_t bound, int64_t offset,
                           int slots) {
  (void)slots;
  PlanInput input = {.name = name, .type = bound ? TYPE_INDEX : TYPE_INT, .axis_count = 2, .bound = bound};
  input.axis[0] = "batch";
  input.axis[1] = "seq";
  input.size[0] = batch;
  input.size[1] = sequence;
  input.place = (Place){.arena = ARENA_HOST, .offset = offset, .slot_stride = batch * sequence * 4};
  return input;
}

static PlanState toy_state(const char *name, StateRole role, int64_t offset, bool turned) {
  PlanState state = {.name = name, .role = role, .type = TYPE_F32, .axis_count = 2, .offset = offset};
  state.axis[0] = "vocab";
  state.axis[1] = "next";
  state.size[0] = state.size[1] = TOY_VOCAB;
  state.stride[0] = turned ? 1 : TOY_VOCAB;
  state.stride[1] = turned ? TOY_VOCAB : 1;
  return state;
}

static PlanRun toy_plan_run(const char *data, int64_t batch, int64_t sequence) {
  return (PlanRun){.model = "toy",
                   .recipe = "small",
                   .optimizer = "momentum",
                   .data_kind = "text",
                   .data_path = data,
                   .data_base = ".",
                   .tokenizer = "bytes",
                   .validation_fraction = 0.1,
                   .batch = batch,
                   .sequence = sequence,
                   .steps = 40,
                   .eval_every = 10,
                   .save_every = 10,
                   .log_every = 5,
                   .seed = 7,
                   .parameters = TOY_VOCAB * TOY_VOCAB};
}

// `batch` windows in `slots` microbatches. With `mask` the programs have an input of that name.
static Plan *toy_plan(Arena *arena, const char *data, int64_t batch, int64_t sequence, int slots, bool mask) {
  Plan *plan = ARENA_NEW(arena, Plan);
  int64_t rows = batch / slots, bytes = batch * sequence * 4;
  plan->run = toy_plan_run(data, batch, sequence);
  plan->real = plan->coarsest = TYPE_F32;
  plan->pipeline = -1;
  plan->stages = 1;
  plan->term_count = 1;
  plan->terms = ARENA_NEW(arena, PlanTerm);
  plan->resolved = "model toy {}\n";
  plan->state_hash = 42;
  plan->segment_count = 1;
  plan->segments = ARENA_NEW(arena, PlanSegment);
  plan->segments[0].name = "all";
  plan->segments[0].instructions = ARENA_NEW(arena, Instruction);
  plan->state_count = 2;
  plan->states = ARENA_ARRAY(arena, PlanState, 2);
  plan->states[0] = toy_state("table", STATE_PARAMETER, 0, false);
  plan->states[1] = toy_state("momentum.table", STATE_OPTIMIZER, TOY_STATE_BYTES, true);
  plan->arena_bytes[ARENA_PERSISTENT] = 2 * TOY_STATE_BYTES;
  plan->arena_bytes[ARENA_HOST] = 4 * TOY_OUTPUTS + 4 + 4 * bytes + sequence * 4 + sequence * TOY_VOCAB * 4;
  int64_t inputs = 4 * TOY_OUTPUTS + 4;
  for (int p = 0; p < PROGRAM_TRAIN_COLD; p++) {  // it has no scales
    PlanProgram *program = &plan->programs[p];
    program->call_count = program->slots = p == PROGRAM_TRAIN || p == PROGRAM_EVALUATE ? slots : 1;
    program->calls = ARENA_ARRAY(arena, PlanCall, program->slots);
    for (int i = 0; i < program->slots; i++) {
      program->calls[i] = (PlanCall){.slot = i, .first = i == 0};
    }
    program->inputs = ARENA_ARRAY(arena, PlanInput, 5);
    program->outputs = ARENA_ARRAY(arena, PlanOutput, TOY_OUTPUTS);
    program->flops = 1e6;
    if (p == PROGRAM_TRAIN || p == PROGRAM_EVALUATE) {
      program->inputs[program->input_count++] = toy_input("tokens", rows, sequence, TOY_VOCAB, inputs, slots);
      program->inputs[program->input_count++] = toy_input("targets", rows, sequence, TOY_VOCAB, inputs + bytes, slots);
      if (mask) {
        program->inputs[program->input_count++] = toy_input("mask", rows, sequence, 0, inputs + 2 * bytes, slots);
        program->inputs[program->input_count++] = toy_input("doc", rows, sequence, 0, inputs + 3 * bytes, slots);
      }
      static const char *const names[] = {"loss", "grad_norm", "lr", "skipped"};
      program->output_count = p == PROGRAM_TRAIN ? TOY_OUTPUTS : 1;
      for (int i = 0; i < program->output_count; i++) {
        program->outputs[i] = (PlanOutput){.name = names[i],
                                           .weighing = mask ? WEIGH_COUNTED : WEIGH_SAMPLES,
                                           .type = i == TOY_SKIPPED ? TYPE_BOOL : TYPE_F32,
                                           .place = {.arena = ARENA_HOST, .offset = 4 * i}};
      }
    }
    if (p == PROGRAM_TRAIN) {
      PlanInput step = {.name = "step", .type = TYPE_INT, .place = {.arena = ARENA_HOST, .offset = 4 * TOY_OUTPUTS}};
      program->inputs[program->input_count++] = step;
    }
    if (p == PROGRAM_GENERATE) {
      int64_t tokens = inputs + 4 * bytes;
      program->inputs[program->input_count++] = toy_input("tokens", 1, sequence, TOY_VOCAB, tokens, 1);
      PlanOutput logits = {.name = "logits", .type = TYPE_F32, .axis_count = 3};
      logits.axis[0] = "vocab";  // scores first, positions last: strides say so
      logits.axis[1] = "seq";
      logits.axis[2] = "batch";
      logits.size[0] = TOY_VOCAB;
      logits.size[1] = sequence;
      logits.size[2] = 1;
      logits.stride[0] = sequence;
      logits.stride[1] = 1;
      logits.stride[2] = TOY_VOCAB * sequence;
      logits.place = (Place){.arena = ARENA_HOST, .offset = tokens + sequence * 4};
      program->outputs[program->output_count++] = logits;
    }
  }
  return plan;
}

static void toy_close(Device *device) {
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    free(device->arena[i]);
  }
  free(device);
}

static bool toy_open(const Plan *plan, const DeviceOptions *options, Device **device, Error *error) {
  (void)options;
  Device *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->plan = plan;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    made->arena[i] = calloc(1, (size_t)plan->arena_bytes[i] + 1);
    if (!made->arena[i]) {
      toy_close(made);
      return error_set(error, 3, "no memory");
    }
  }
  *device = made;
  return true;
}

static bool toy_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes, Error *error) {
  if (offset < 0 || offset + bytes > device->plan->arena_bytes[arena]) {
    return error_set(error, 1, "outside the arena");
  }
  memcpy(device->arena[arena] + offset, data, (size_t)bytes);
  return true;
}

static bool toy_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  if (offset < 0 || offset + bytes > device->plan->arena_bytes[arena]) {
    return error_set(error, 1, "outside the arena");
  }
  memcpy(data, device->arena[arena] + offset, (size_t)bytes);
  return true;
}

// Mean cross-entropy of a batch; with `gradient` also its gradient by the table.
static double toy_loss(Device *device, const PlanProgram *program, float *gradient) {
  const float *table = (const float *)(void *)device->arena[ARENA_PERSISTENT];
  const PlanInput *tokens = &program->inputs[0], *targets = &program->inputs[1];
  const PlanInput *mask =
      program->input_count > 2 && strcmp(program->inputs[2].name, "mask") == 0 ? &program->inputs[2] : NULL;
  int64_t count = tokens->size[0] * tokens->size[1] * program->slots, used = 0;
  double loss = 0;
  for (int64_t i = 0; i < count; i++) {
    int32_t from, to, on = 1;
    memcpy(&from, device->arena[ARENA_HOST] + tokens->place.offset + i * 4, 4);
    memcpy(&to, device->arena[ARENA_HOST] + targets->place.offset + i * 4, 4);
    if (mask) {
      memcpy(&on, device->arena[ARENA_HOST] + mask->place.offset + i * 4, 4);
    }
    if (!on) {
      continue;
    }
    double sum = 0;
    const float *row = table + from * TOY_VOCAB;
    for (int j = 0; j < TOY_VOCAB; j++) {
      sum += exp((double)row[j]);
    }
    loss += log(sum) - (double)row[to];
    used++;
    for (int j = 0; gradient && j < TOY_VOCAB; j++) {
      gradient[from * TOY_VOCAB + j] += (float)(exp((double)row[j]) / sum - (j == to)) / (float)count;
    }
  }
  return loss / (double)(used ? used : 1);
}

// One step of descent. The plan's optimizer "nan" makes every loss after step 5 a NaN, "skip" skips every step after 5,
// "poison" leaves an infinity in step 25 where no token of a text looks, and "rate" has an infinite rate in step 25.
static void toy_train(Device *device, const PlanProgram *program) {
  float *table = (float *)(void *)device->arena[ARENA_PERSISTENT], *momentum = table + TOY_VOCAB * TOY_VOCAB;
  static _Thread_local float gradient[TOY_VOCAB * TOY_VOCAB];
  memset(gradient, 0, sizeof gradient);
  float outputs[TOY_OUTPUTS] = {0};
  int32_t step, skipped = 0;
  memcpy(&step, device->arena[ARENA_HOST] + 4 * TOY_OUTPUTS, 4);
  double norm = 0, loss = toy_loss(device, program, gradient);
  float rate = 40.0f / (1 + (float)step * 0.01f);
  if (strcmp(device->plan->run.optimizer, "nan") == 0 && step > 5) {
    loss = NAN;
  }
  skipped = strcmp(device->plan->run.optimizer, "skip") == 0 && step > 5;
  for (int i = 0; i < TOY_VOCAB * TOY_VOCAB && !skipped; i++) {
    int turned = i % TOY_VOCAB * TOY_VOCAB + i / TOY_VOCAB;
    norm += (double)gradient[i] * (double)gradient[i];
    momentum[turned] = 0.5f * momentum[turned] + gradient[i];
    table[i] -= rate * momentum[turned];
  }
  if (strcmp(device->plan->run.optimizer, "poison") == 0 && step == 25) {
    table[1] = INFINITY;
  }
  if (strcmp(device->plan->run.optimizer, "rate") == 0 && step == 25) {
    rate = INFINITY;
  }
  outputs[TOY_LOSS] = (float)loss;
  outputs[TOY_NORM] = (float)sqrt(norm);
  outputs[TOY_LR] = rate;
  memcpy(device->arena[ARENA_HOST], outputs, sizeof outputs);
  memcpy(device->arena[ARENA_HOST] + 4 * TOY_SKIPPED, &skipped, 4);
}

static bool toy_run(Device *device, ProgramKind kind, Error *error) {
  (void)error;
  const PlanProgram *program = &device->plan->programs[kind];
  float *table = (float *)(void *)device->arena[ARENA_PERSISTENT];
  if (kind == PROGRAM_INITIALISE) {
    for (int i = 0; i < TOY_VOCAB * TOY_VOCAB; i++) {
      table[i] = (float)(((unsigned)i * 2654435761u) >> 8 & 1023) * 1e-5f;
    }
  } else if (kind == PROGRAM_TRAIN) {
    toy_train(device, program);
  } else if (kind == PROGRAM_EVALUATE) {
    float loss = (float)toy_loss(device, program, NULL);
    memcpy(device->arena[ARENA_HOST], &loss, 4);
  } else {
    const PlanInput *tokens = &program->inputs[0];
    for (int64_t t = 0; t < tokens->size[1]; t++) {
      int32_t from;
      memcpy(&from, device->arena[ARENA_HOST] + tokens->place.offset + t * 4, 4);
      for (int64_t j = 0; j < TOY_VOCAB; j++) {
        int64_t at = program->outputs[0].place.offset + (j * tokens->size[1] + t) * 4;
        memcpy(device->arena[ARENA_HOST] + at, &table[from * TOY_VOCAB + j], 4);
      }
    }
  }
  return true;
}

static void toy_trace(Device *device, bool on) {
  (void)device;
  (void)on;
}

static const TraceSpan *toy_traced(Device *device, int64_t *count) {
  (void)device;
  *count = 0;
  return NULL;
}

static bool toy_wait(Device *device, int behind, Error *error) {  // runs are done when toy_run returns
  (void)device;
  (void)behind;
  (void)error;
  return true;
}

static void toy_facts(const Device *device, DeviceFacts *facts) {
  (void)device;
  *facts = (DeviceFacts){.name = "toy", .peak_flops = NAN, .peak_bytes = NAN, .memory_bytes = -1, .gap_seconds = NAN};
}

static const Backend toy_backend = {
    .name = "toy",
    .open = toy_open,
    .close = toy_close,
    .write = toy_write,
    .read = toy_read,
    .run = toy_run,
    .wait = toy_wait,
    .facts = toy_facts,
    .trace = toy_trace,
    .traced = toy_traced,
};

#endif
