// plan_play.c: see plan_play.h. Memory of devices is wrapped (CMakeLists.txt): it is as large as the plan says to the
// byte, so that the sanitizer sees what lies outside.
#include "tests/fuzz/plan_play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/blas.h"
#include "runtime/checkpoint.h"
#include "runtime/cpu/pool.h"
#include "runtime/element.h"
#include "runtime/feed.h"
#include "runtime/generate.h"
#include "runtime/inspect.h"
#include "tests/splitmix.h"

enum { RANKS_MOST = 16, TOKENS_MOST = 1 << 16, TEXT_BYTES = 20000 };
static const double bytes_most = 48e6;

typedef struct {
  Session session;
  uint64_t state;
  const char *directory;
  char data[IO_PATH_MAX];
} Play;

char *__wrap_memory_create(int64_t bytes, Pool *pool);
char *__wrap_memory_create(int64_t bytes, Pool *pool) {
  (void)pool;
  enum { ALIGN = 64 };
  if (bytes < 0 || (double)bytes > 2 * bytes_most) {
    return NULL;
  }
  char *memory = NULL;
  if (posix_memalign((void **)&memory, ALIGN, bytes ? (size_t)bytes : 1) != 0) {
    return NULL;
  }
  memset(memory, 0, bytes ? (size_t)bytes : 1);
  return memory;
}

void play_prepare(void) {
  static Blas blas;
  Error error;
  blas_open(&blas, 1, &error);
}

static uint64_t draw(Play *play, uint64_t below) {
  return splitmix64(&play->state) % below;
}

static double product(const int64_t *size, int count) {
  double all = 1;
  for (int i = 0; i < count; i++) {
    all *= (double)size[i];
  }
  return all;
}

static double instruction_work(const Plan *plan, const Instruction *instruction) {
  const Kernel *kernel = plan->kernels[instruction->kind == INSTRUCTION_KERNEL ? instruction->as.kernel.kernel : 0];
  const Gemm *gemm = &instruction->as.gemm;
  const Grouped *grouped = &instruction->as.grouped;
  const Take *take = &instruction->as.take;
  const Window *window = &instruction->as.window;
  const Attention *a = &instruction->as.attention;
  Operands operands;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return product(kernel->size, kernel->dim_count) * (4 + kernel->code_count);
    case INSTRUCTION_GEMM:
      return (double)gemm->m * (double)gemm->n * (double)gemm->k * product(gemm->batch, gemm->batch_count);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return (double)grouped->rows * (double)grouped->n * (double)grouped->m * (double)grouped->k +
             (double)grouped->extent * (double)grouped->n * (double)grouped->m;
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return product(take->size, take->dim_count) + (double)take->x_elements;
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return product(window->size, window->dim_count) * (double)window->taps;
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return (double)a->batch * (double)a->queries * (double)a->keys * (double)a->heads * (double)a->groups *
             (double)(a->depth + a->value_depth + 50);
    default: {
      double work = 0;
      instruction_touches(plan, instruction, &operands);
      for (int i = 0; i < operands.count; i++) {
        work += (double)(operands.at[i].extent.last - operands.at[i].extent.first + 1);
      }
      return work;
    }
  }
}

double play_work(const PlanSet *set) {
  double work = 0;
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    double ranks = (double)plan_ranks(plan) / set->count;
    for (int p = 0; p < PROGRAM_COUNT; p++) {
      for (int c = 0; c < plan->programs[p].call_count; c++) {
        const PlanSegment *segment = &plan->segments[plan->programs[p].calls[c].segment];
        for (int i = 0; i < segment->count; i++) {
          work += ranks * (50 + instruction_work(plan, &segment->instructions[i]));
        }
      }
    }
  }
  return work;
}

double play_bytes(const PlanSet *set) {
  double bytes = 0;
  for (int s = 0; s < set->count; s++) {
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      bytes += (double)set->plans[s]->arena_bytes[i] * (double)plan_ranks(set->plans[s]) / set->count;
    }
  }
  return bytes;
}

// --- inputs and outputs ---

static void input_draw(Play *play, int64_t rank, const PlanInput *input, int slots) {
  Error error;
  const int64_t bytes = plan_input_bytes(input), each = element_type_bytes(input->type);
  char *memory = malloc((size_t)bytes);
  for (int64_t slot = 0; memory && slot < (input->place.slot_stride ? slots : 1); slot++) {
    for (int64_t at = 0; at + each <= bytes; at += each) {
      const uint64_t any = draw(play, UINT64_MAX);
      if (any % 61 == 0) {
        memcpy(memory + at, &any, (size_t)each);
      } else if (input->type == TYPE_INDEX) {
        element_put(input->type, memory + at, (double)(any % (uint64_t)(input->bound > 0 ? input->bound : 40)));
      } else {
        element_put(input->type, memory + at, (double)(any % 2000) / 1000 - 1);
      }
    }
    play->session.backend->write(session_device(&play->session, rank), input->place.arena,
                                 input->place.offset + slot * input->place.slot_stride, memory, bytes, &error);
  }
  free(memory);
}

static void inputs_draw(Play *play, ProgramKind kind) {
  for (int64_t rank = 0; rank < play->session.ranks; rank++) {
    const PlanProgram *program = &session_plan(&play->session, rank)->programs[kind];
    for (int i = 0; i < program->input_count; i++) {
      input_draw(play, rank, &program->inputs[i], program->slots);
    }
  }
}

static void outputs_read(Play *play, ProgramKind kind) {
  Error error;
  double value;
  for (int i = 0; i < play->session.plan->programs[kind].output_count; i++) {
    session_scalar(&play->session, kind, play->session.plan->programs[kind].outputs[i].name, &value, &error);
  }
}

// As `train` does it: from a text.
static void feed(Play *play) {
  Error error;
  int64_t rows = 0, sequence = 0;
  const PlanProgram *train = &play->session.plan->programs[PROGRAM_TRAIN];
  if (!feed_shape(play->session.set, PROGRAM_TRAIN, &rows, &sequence) ||
      (double)rows * (double)sequence * train->slots > TOKENS_MOST) {
    return;
  }
  DataOptions options = {.kind = "text",
                         .path = play->data,
                         .base = ".",
                         .tokenizer = "bytes",
                         .validation_fraction = 0.1,
                         .sequence = sequence,
                         .seed = 1};
  Data *data = NULL;
  Feed *feeds = NULL;
  if (data_open(&options, &data, &error) && feed_create(play->session.set, PROGRAM_TRAIN, data, &feeds, &error)) {
    feed_train(feeds, &play->session, 1 + (int64_t)draw(play, 40), &error);
  }
  feed_destroy(feeds);
  if (data) {
    data_close(data);
  }
}

static void save_and_load(Play *play) {
  Error error;
  CheckpointFacts facts = {.step = 7, .seed = 1}, found;
  Io io = {0};
  char at[IO_PATH_MAX], step[IO_PATH_MAX];
  snprintf(at, sizeof at, "%.3000s/saved", play->directory);
  snprintf(step, sizeof step, "%.3000s/saved/step-00000007", play->directory);
  io_remove_tree(at);
  if (io_make_path(at, &error) &&
      checkpoint_save(&io, &play->session, at, &facts, &(CheckpointKeep){.newest = 1}, &error)) {
    checkpoint_load(&play->session, step, true, &found, &error);
    checkpoint_load(&play->session, step, false, &found, &error);
  }
}

static bool say_nothing(void *context, const char *bytes, size_t length) {
  (void)context;
  (void)bytes;
  (void)length;
  return true;
}

static void generate(Play *play) {
  Error error;
  const GenerateOptions options = {.prompt = "ab", .tokens = 3, .temperature = 0.8, .top_k = 5, .seed = 1};
  const PlanProgram *program = &play->session.plan->programs[PROGRAM_GENERATE];
  if (program->call_count > 0 && generate_possible(play->session.set)) {
    generate_run(&play->session, &options, say_nothing, NULL, &error);
  }
}

static bool data_write(const char *path) {
  FILE *file = fopen(path, "w");
  for (int i = 0; file && i < TEXT_BYTES; i++) {
    fputc('a' + i * 7 % 26, file);
  }
  return file && fclose(file) == 0;
}

static void programs_run(Play *play) {
  Error error;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int times = p == PROGRAM_TRAIN ? 2 : 1; times > 0 && session_has(&play->session, (ProgramKind)p); times--) {
      inputs_draw(play, (ProgramKind)p);
      if (p == PROGRAM_TRAIN && times == 1) {
        feed(play);
      }
      if (!session_run(&play->session, (ProgramKind)p, 3 - times, &error)) {
        return;
      }
      outputs_read(play, (ProgramKind)p);
    }
  }
}

Played play_plan(const PlanSet *set, uint64_t seed, const char *directory) {
  Error error = {0};
  Buffer said = {0};
  Play play = {.state = seed, .directory = directory};
  snprintf(play.data, sizeof play.data, "%.3000s/data.txt", directory);
  inspect_plans(set, &said);
  buffer_free(&said);
  const bool small = plan_ranks(set->plans[0]) <= RANKS_MOST && play_bytes(set) <= bytes_most;
  const SessionOptions options = {.threads = 1, .deadline_seconds = 5, .order = seed % 2 ? seed : 0};
  if (!small) {
    return PLAY_LARGE;
  }
  if ((access(play.data, R_OK) != 0 && !data_write(play.data)) ||
      !session_open_ranks(&play.session, set, &backend_cpu, &options, &error)) {
    session_close(&play.session);
    return PLAY_REFUSED;
  }
  programs_run(&play);
  if (seed % 4 < 2) {
    save_and_load(&play);
  }
  generate(&play);
  session_close(&play.session);
  return PLAY_DONE;
}
