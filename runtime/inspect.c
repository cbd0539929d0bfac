// inspect.c: looks at what a path is and says what is in it.
#include "runtime/inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/artefact.h"
#include "runtime/checkpoint.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/run.h"
#include "runtime/safetensors.h"

enum { LARGEST = 10 };

static const char *word(const char *text) {
  return text && *text ? text : "-";
}

static void inspect_programs(const Plan *plan, Buffer *out) {
  char flops[32], bytes[32];
  buffer_text(out, "\nprogram       calls  instructions  slots  flops of one run  transient memory\n");
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    int64_t instructions = plan_instructions(plan, (ProgramKind)p);
    if (program->call_count > 0) {
      buffer_format(out, "%-12s %6d %13lld %6d  %16s  %s\n", program_kind_name((ProgramKind)p), program->call_count,
                    (long long)instructions, program->slots, units_count(flops, program->flops),
                    units_bytes(bytes, (double)program->transient_bytes));
    }
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    for (int i = 0; i < program->input_count + program->output_count; i++) {
      bool input = i < program->input_count;
      const PlanInput *from = input ? &program->inputs[i] : NULL;
      const PlanOutput *to = input ? NULL : &program->outputs[i - program->input_count];
      buffer_format(out, "  %-10s %s %s %s[", program_kind_name((ProgramKind)p), input ? "input " : "output",
                    input ? from->name : to->name, element_type_name(input ? from->type : to->type));
      int count = input ? from->axis_count : to->axis_count;
      for (int a = 0; a < count; a++) {
        buffer_format(out, "%s%s %lld", a ? ", " : "", (input ? from->axis : to->axis)[a],
                      (long long)(input ? from->size : to->size)[a]);
      }
      buffer_text(out, "]\n");
    }
  }
}

static void inspect_instructions(const Plan *plan, Buffer *out) {
  char flops[32], bytes[32];
  buffer_format(out, "\nsegments %d, kernels %d\ninstruction       count   flops   bytes moved\n", plan->segment_count,
                plan->kernel_count);
  for (int kind = 0; kind < INSTRUCTION_KIND_COUNT; kind++) {
    int64_t count = 0;
    double flop_sum = 0, byte_sum = 0;
    for (int s = 0; s < plan->segment_count; s++) {
      for (int i = 0; i < plan->segments[s].count; i++) {
        const Instruction *instruction = &plan->segments[s].instructions[i];
        if ((int)instruction->kind == kind) {
          count++;
          flop_sum += instruction->flops;
          byte_sum += instruction->bytes;
        }
      }
    }
    if (count > 0) {
      buffer_format(out, "%-16s %6lld  %6s   %s\n", instruction_kind_name((InstructionKind)kind), (long long)count,
                    units_count(flops, flop_sum), units_bytes(bytes, byte_sum));
    }
  }
}

static double state_bytes(const PlanState *state) {
  double bytes = (double)element_type_bytes(state->type);
  for (int i = 0; i < state->axis_count; i++) {
    bytes *= (double)state->size[i];
  }
  return bytes;
}

static int by_bytes(const void *a, const void *b) {
  double x = state_bytes(*(const PlanState *const *)a), y = state_bytes(*(const PlanState *const *)b);
  return x > y ? -1 : x < y;
}

static void inspect_states(const Plan *plan, Buffer *out) {
  static const char *const roles[] = {"parameters", "optimizer state", "model state"};
  char bytes[32];
  buffer_text(out, "\n");
  for (int role = 0; role < 3; role++) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < plan->state_count; i++) {
      if ((int)plan->states[i].role == role) {
        sum += state_bytes(&plan->states[i]);
        count++;
      }
    }
    if (count > 0) {
      buffer_format(out, "%-16s %5d tensor%s, %s\n", roles[role], count, count == 1 ? "" : "s",
                    units_bytes(bytes, sum));
    }
  }
  const PlanState **order = calloc((size_t)plan->state_count + 1, sizeof *order);
  if (!order || plan->state_count == 0) {
    free(order);
    return;
  }
  for (int i = 0; i < plan->state_count; i++) {
    order[i] = &plan->states[i];
  }
  qsort(order, (size_t)plan->state_count, sizeof *order, by_bytes);
  buffer_text(out, "the largest\n");
  for (int i = 0; i < plan->state_count && i < LARGEST; i++) {
    buffer_format(out, "  %10s  %s %s[", units_bytes(bytes, state_bytes(order[i])), order[i]->name,
                  element_type_name(order[i]->type));
    for (int a = 0; a < order[i]->axis_count; a++) {
      buffer_format(out, "%s%s %lld", a ? ", " : "", order[i]->axis[a], (long long)order[i]->size[a]);
    }
    buffer_text(out, "]\n");
  }
  free(order);
}

void inspect_plan(const Plan *plan, Buffer *out) {
  static const char *const arenas[] = {"persistent", "transient", "communication", "host"};
  const PlanRun *run = &plan->run;
  char count[32], bytes[32];
  buffer_format(out, "model %s, recipe %s, layout %s, precision %s, optimizer %s\n", word(run->model),
                word(run->recipe), word(run->layout), word(run->precision), word(run->optimizer));
  buffer_format(out, "%s parameters; batch %lld of %lld tokens, %lld steps, seed %llu; state %016llx\n",
                units_count(count, run->parameters), (long long)run->batch, (long long)run->sequence,
                (long long)run->steps, (unsigned long long)run->seed, (unsigned long long)plan->state_hash);
  buffer_format(out, "data %s %s, tokenizer %s\n", word(run->data_kind), word(run->data_path), word(run->tokenizer));
  buffer_text(out, "\nmemory\n");
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (plan->arena_bytes[i] > 0) {
      buffer_format(out, "  %-14s %s\n", arenas[i], units_bytes(bytes, (double)plan->arena_bytes[i]));
    }
  }
  inspect_programs(plan, out);
  inspect_instructions(plan, out);
  inspect_states(plan, out);
}

static bool inspect_artefact(const char *path, Buffer *out, Error *error) {
  const char *why = NULL;
  Arena *arena = arena_create();
  Plan *plan = arena ? artefact_read(arena, path, &why) : NULL;
  if (plan) {
    buffer_format(out, "%s: a plan\n", path);
    inspect_plan(plan, out);
  } else {
    error_set(error, arena ? 1 : 3, "%s", arena ? why : "no memory");
  }
  arena_destroy(arena);
  return plan != NULL;
}

static void inspect_tensors(const Safetensors *file, Buffer *out) {
  char bytes[32];
  for (int i = 0; i < safetensors_count(file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(file, i);
    buffer_format(out, "  %10s  %s %s[", units_bytes(bytes, (double)(tensor->end - tensor->begin)), tensor->name,
                  tensor->dtype);
    for (int a = 0; a < tensor->axis_count; a++) {
      buffer_format(out, "%s%lld", a ? ", " : "", (long long)tensor->size[a]);
    }
    buffer_text(out, "]\n");
  }
}

static bool inspect_safetensors(const char *path, Buffer *out, Error *error) {
  Safetensors *file;
  char bytes[32];
  if (!safetensors_open(path, &file, error)) {
    return false;
  }
  double elements = 0, total = 0;
  for (int i = 0; i < safetensors_count(file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(file, i);
    double size = (double)(tensor->end - tensor->begin);
    total += size;
    elements += size * 8 / (double)safetensors_dtype_bits(tensor->dtype);
  }
  char count[32];
  buffer_format(out, "%s: %d tensor%s, %s elements, %s\n", path, safetensors_count(file),
                safetensors_count(file) == 1 ? "" : "s", units_count(count, elements), units_bytes(bytes, total));
  inspect_tensors(file, out);
  safetensors_close(file);
  return true;
}

static bool inspect_checkpoint(const char *path, Buffer *out, Error *error) {
  CheckpointFacts facts;
  char model[IO_PATH_MAX], optimizer[IO_PATH_MAX], tokens[32];
  if (!checkpoint_facts(path, &facts, error) || !io_path(model, error, "%s/model.safetensors", path) ||
      !io_path(optimizer, error, "%s/optimizer.safetensors", path)) {
    return false;
  }
  buffer_format(out, "%s: a checkpoint after step %lld, %s tokens, %lld steps skipped, seed %llu, state %016llx\n",
                path, (long long)facts.step, units_count(tokens, (double)facts.tokens), (long long)facts.skipped,
                (unsigned long long)facts.seed, (unsigned long long)facts.state_hash);
  return inspect_safetensors(model, out, error) &&
         (!io_is_file(optimizer) || inspect_safetensors(optimizer, out, error));
}

static bool inspect_run(const char *path, Buffer *out, Error *error) {
  Run run;
  char file[IO_PATH_MAX];
  MetricsPoint *points = NULL;
  int64_t count = 0;
  if (!run_open(&run, path, error)) {
    return false;
  }
  buffer_format(out, "%s: a run\n", path);
  if (!run_file(&run, "metrics.jsonl", file, error)) {
    return false;
  }
  if (io_is_file(file) && !metrics_read(file, &points, &count, error)) {
    return false;
  }
  double validation = NAN;
  for (int64_t i = 0; i < count; i++) {
    validation = isfinite(points[i].val_loss) ? points[i].val_loss : validation;
  }
  if (count > 0) {
    buffer_format(out, "step %.0f: loss %.4f", points[count - 1].step, points[count - 1].loss);
    if (isfinite(validation)) {
      buffer_format(out, ", newest validation loss %.4f", validation);
    }
    buffer_text(out, "\n");
  }
  free(points);
  if (run.checkpoint[0]) {
    buffer_format(out, "newest checkpoint %s\n", run.checkpoint);
  } else {
    buffer_text(out, "no checkpoint yet\n");
  }
  buffer_text(out, "\n");
  return run_file(&run, "plan.mdlx", file, error) && inspect_artefact(file, out, error);
}

static bool has_file(const char *directory, const char *name) {
  char path[IO_PATH_MAX];
  Error ignored;
  return io_path(path, &ignored, "%s/%s", directory, name) && io_is_file(path);
}

bool inspect_path(const char *path, Buffer *out, Error *error) {
  size_t length = strlen(path);
  if (io_is_directory(path)) {
    return has_file(path, "manifest.json") ? inspect_checkpoint(path, out, error)
           : has_file(path, "plan.mdlx")
               ? inspect_run(path, out, error)
               : error_set(error, 1, "the directory %s is neither a run (plan.mdlx) nor a checkpoint (manifest.json)",
                           path);
  }
  if (!io_is_file(path)) {
    return error_set(error, 1, "there is no file %s", path);
  }
  if (artefact_is(path)) {
    return inspect_artefact(path, out, error);
  }
  if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0) {
    return inspect_safetensors(path, out, error);
  }
  return error_set(error, 1, "%s is neither a plan (.mdlx), a checkpoint, a .safetensors file nor a run", path);
}
