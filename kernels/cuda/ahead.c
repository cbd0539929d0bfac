// ahead.c: the distinct texts of all plans, compiled and sorted.
#include "kernels/cuda/ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "kernels/cuda/compile_batch.h"
#include "kernels/cuda/instruction.h"

typedef struct {
  uint64_t hash;
  CudaJob job;
} Text;

typedef struct {
  Arena *arena;
  const CudaAhead *options;
  const char *target;  // the one at hand
  ARRAY(Text *) texts;
  Map by_text;
  const char *why;
} Ahead;

int cuda_targets_read(Arena *arena, const char *list, const char *targets[CUDA_AHEAD_TARGETS], const char **why) {
  int count = 0;
  for (const char *at = list; *at;) {
    const size_t length = strcspn(at, ",");
    const char *name = arena_format(arena, "%.*s", (int)length, at);
    CudaTarget figures;
    bool known = strcmp(name, "cpu") == 0;
    for (int i = 0; i < count; i++) {
      known |= strcmp(name, targets[i]) == 0;
    }
    if (!known && !cuda_target_find(name, &figures)) {
      *why = arena_format(arena, "'%s' is none of cpu, %s", name, CUDA_TARGET_NAMES);
      return -1;
    }
    if (!known) {
      if (count == CUDA_AHEAD_TARGETS) {
        *why = "too many targets";
        return -1;
      }
      targets[count++] = name;
    }
    at += length + (at[length] == ',');
  }
  return count;
}

static void text_add(Ahead *ahead, const CudaKernel *kernel, const Instruction *instruction) {
  if (map_get_bytes_or(&ahead->by_text, kernel->text, strlen(kernel->text), -1) >= 0) {
    return;
  }
  Text *text = ARENA_NEW(ahead->arena, Text);
  text->hash = cuda_text_hash(kernel->text);
  text->job.text = kernel->text;
  text->job.name = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  map_put_bytes(&ahead->by_text, kernel->text, strlen(kernel->text), ahead->texts.count);
  array_push(ahead->arena, &ahead->texts, text);
}

static bool plan_generate(Ahead *ahead, const Plan *plan, CudaTarget figures) {
  CudaKernels *kernels = cuda_kernels_create(plan, figures, ahead->arena);
  Map seen = map_create(ahead->arena);
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      const char *why = NULL;
      if (!cuda_instruction_generates(instruction->kind)) {
        continue;
      }
      const CudaKernel *kernel = cuda_instruction(kernels, instruction, &why);
      if (!kernel) {
        ahead->why = arena_format(ahead->arena, "%s: there is no CUDA kernel for this %s: %s",
                                  instruction->name ? instruction->name : "a value",
                                  instruction_kind_name(instruction->kind), why);
        return false;
      }
      if (map_get_or(&seen, map_key(kernel), -1) < 0) {
        map_put(&seen, map_key(kernel), 1);
        text_add(ahead, kernel, instruction);
      }
    }
  }
  return true;
}

static void texts_free(Ahead *ahead) {
  for (int i = 0; i < ahead->texts.count; i++) {
    cuda_binary_free(&ahead->texts.at[i]->job.binary);
  }
}

static int by_hash(const void *a, const void *b) {
  const Text *x = *(Text *const *)a, *y = *(Text *const *)b;
  return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static void progress_tell(void *context, int done, int count) {
  const Ahead *ahead = context;
  ahead->options->progress(ahead->options->context, ahead->target, done, count);
}

static bool texts_compile(Ahead *ahead, PlanTarget *made) {
  const int count = ahead->texts.count;
  char *version = ARENA_ARRAY(ahead->arena, char, 32);
  CudaJob **jobs = ARENA_ARRAY(ahead->arena, CudaJob *, count + 1);
  made->codes = ARENA_ARRAY(ahead->arena, PlanCode, count + 1);
  for (int i = 0; i < count; i++) {
    jobs[i] = &ahead->texts.at[i]->job;
  }
  const CudaBatch batch = {.target = ahead->target,
                           .cache = ahead->options->cache,
                           .progress = ahead->options->progress ? progress_tell : NULL,
                           .context = ahead};
  cuda_compile_batch(&batch, jobs, count, version);
  for (int i = 0; i < count; i++) {
    if (jobs[i]->failed) {
      ahead->why = arena_format(ahead->arena, "%s", jobs[i]->message);
      return false;
    }
  }
  if (count > 0) {
    qsort(ahead->texts.at, (size_t)count, sizeof *ahead->texts.at, by_hash);
  }
  for (int i = 0; i < count; i++) {
    const Text *text = ahead->texts.at[i];
    made->codes[i] = (PlanCode){.text = text->hash,
                                .code = arena_copy(ahead->arena, text->job.binary.code, text->job.binary.bytes),
                                .bytes = text->job.binary.bytes};
  }
  made->count = count;
  made->compiler = version;
  return true;
}

static bool target_compile(Ahead *ahead, const PlanSet *set, PlanTarget *made) {
  CudaTarget figures = {0};
  cuda_target_find(ahead->target, &figures);
  ahead->texts.count = 0;
  ahead->by_text = map_create(ahead->arena);
  *made = (PlanTarget){
      .target = ahead->target, .multiprocessors = figures.multiprocessors, .shared_bytes = figures.shared_bytes};
  for (int p = 0; p < set->count; p++) {
    if (!plan_generate(ahead, set->plans[p], figures)) {
      return false;
    }
  }
  const bool good = texts_compile(ahead, made);
  texts_free(ahead);
  return good;
}

static bool all_compile(Ahead *ahead, PlanSet *set, const char *const *targets, int count) {
  jmp_buf escape;
  if (setjmp(escape) != 0) {
    ahead->why = "no memory to compile kernels";
    return false;
  }
  arena_set_escape(ahead->arena, &escape);
  PlanTarget *made = ARENA_ARRAY(ahead->arena, PlanTarget, count + 1);
  for (int t = 0; t < count; t++) {
    ahead->target = targets[t];
    if (!target_compile(ahead, set, &made[t])) {
      return false;
    }
  }
  for (int p = 0; p < set->count; p++) {
    set->plans[p]->targets = made;
    set->plans[p]->target_count = count;
  }
  return true;
}

bool cuda_ahead(Arena *arena, PlanSet *set, const char *const *targets, int count, const CudaAhead *options,
                const char **why) {
  Ahead ahead = {.arena = arena, .options = options};
  const bool good = all_compile(&ahead, set, targets, count);
  arena_set_escape(arena, NULL);
  texts_free(&ahead);
  *why = ahead.why;
  return good;
}
