// bench_kernels.h: what each kernel of a training step reaches of the speed at which memory can be copied.
//
// The steps are traced; instructions that differ in the number of a layer alone are one row. A row's time is the median
// of all its calls. Its limit is what its bytes take at the rate of a copy, or its arithmetic at the chip's peak, if
// that is longer, and 4 us for the start and the end of a kernel; its share is the limit over the time.
#ifndef MDL_TESTS_BENCH_KERNELS_H
#define MDL_TESTS_BENCH_KERNELS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "tests/bench_copy.h"

enum { KERNELS_STEPS = 5, SHAPE_BYTES = 80, WORD_BYTES = 64, PLACE_BYTES = 96, CPU_COPY_ROUNDS = 5 };
static const double KERNEL_SECONDS = 4e-6;  // until all multiprocessors have work, and until the last is done

// --- the rate of a copy ---

static bool copy_rate_cpu(double *rate, Error *error) {
  const size_t bytes = (size_t)256 << 20;
  char *from = malloc(bytes), *to = malloc(bytes);
  *rate = 0;
  if (from && to) {
    memset(from, 1, bytes);
    for (int i = 0; i < CPU_COPY_ROUNDS; i++) {
      const double start = clock_seconds();
      memcpy(to, from, bytes);
      const double reached = 2 * (double)bytes / (clock_seconds() - start);
      *rate = reached > *rate && to[bytes - 1] == 1 ? reached : *rate;
    }
  }
  free(from);
  free(to);
  return *rate > 0 || error_set(error, 3, "no memory for a copy");
}

static bool copy_rate_gpu(double *rate, Error *error) {
  Cuda cuda;
  CudaDevice gpu;
  CudaStream stream = NULL;
  if (!cuda_open(&cuda, error)) {
    return false;
  }
  bool good = cuda_device_open(&cuda, 0, &gpu, error);
  if (good) {
    good = cuda_check(&cuda, cuda.stream_create(&stream, CUDA_STREAM_NON_BLOCKING), "making a stream", error) &&
           copy_rate(&cuda, stream, rate, error);
    if (stream) {
      cuda.stream_destroy(stream);
    }
    cuda_device_close(&cuda, &gpu);
  }
  cuda_close(&cuda);
  return good;
}

// Of the machine's first GPU, or of one thread of the processor.
static bool copy_rate_of(const Backend *backend, double *rate, Error *error) {
  return backend == &backend_cuda ? copy_rate_gpu(rate, error) : copy_rate_cpu(rate, error);
}

// --- which group a kernel belongs to ---

typedef struct {
  const char *name;
  char word[WORD_BYTES];  // the function that its text stands in
  const Kernel *kernel;
} Described;

// The function around a span: the name after the last `fn` that begins a line before it.
static void function_of(const Plan *plan, Span span, char word[WORD_BYTES]) {
  word[0] = '\0';
  if (span.file < 0 || span.file >= plan->source_count) {
    return;
  }
  const char *text = plan->sources[span.file].text;
  for (const char *line = text; line && line < text + span.begin;) {
    const char *at = strncmp(line, "composite ", 10) == 0 ? line + 10 : line;
    if (strncmp(at, "fn ", 3) == 0) {
      snprintf(word, WORD_BYTES, "%.*s", (int)strcspn(at + 3, "("), at + 3);
    }
    line = strchr(line, '\n');
    line = line ? line + 1 : NULL;
  }
}

static bool does(const Kernel *kernel, KernelOp op) {
  for (int i = 0; i < kernel->code_count; i++) {
    if (kernel->code[i].op == op) {
      return true;
    }
  }
  return false;
}

static bool does_only(const Kernel *kernel, const KernelOp *ops, int count) {
  for (int i = 0; i < kernel->code_count; i++) {
    bool known = kernel->code[i].op == KERNEL_LOAD || kernel->code[i].op == KERNEL_STORE;
    for (int k = 0; k < count; k++) {
      known = known || kernel->code[i].op == ops[k];
    }
    if (!known) {
      return false;
    }
  }
  return true;
}

static bool is_optimizer(const Described *d) {
  return strncmp(d->name, "adamw", 5) == 0 || strcmp(d->word, "adamw") == 0;
}

static bool is_gelu(const Described *d) {
  return does(d->kernel, KERNEL_TANH) || does(d->kernel, KERNEL_ERF);
}

static bool is_swiglu(const Described *d) {
  return does(d->kernel, KERNEL_SIGMOID);
}

static bool is_cross_entropy(const Described *d) {
  return strcmp(d->word, "cross_entropy") == 0 || (d->kernel->row_reductions && does(d->kernel, KERNEL_EXP));
}

static bool is_norm(const Described *d) {
  return strstr(d->word, "_norm") || strstr(d->name, "_norm.") || strstr(d->name, "ln_");
}

static bool is_norm_backward(const Described *d) {
  return is_norm(d) && strstr(d->name, ".gradient");
}

static bool is_rope(const Described *d) {
  return strcmp(d->word, "rope") == 0;
}

static bool is_cast(const Described *d) {
  return does_only(d->kernel, NULL, 0);
}

static bool is_residual(const Described *d) {
  static const KernelOp ops[] = {KERNEL_ADD};
  return does_only(d->kernel, ops, 1);
}

static bool is_bias_gradient(const Described *d) {
  return strstr(d->name, ".b.gradient") != NULL;
}

static bool is_clipping(const Described *d) {
  return does(d->kernel, KERNEL_TOTAL_SUM) || does(d->kernel, KERNEL_TOTAL_MAX);
}

static const struct {
  const char *name;
  bool (*has)(const Described *described);
} groups[] = {
    // the first that has a kernel
    {"optimizer", is_optimizer},
    {"GELU", is_gelu},
    {"SwiGLU", is_swiglu},
    {"cross-entropy", is_cross_entropy},
    {"RoPE", is_rope},
    {"norm backward", is_norm_backward},
    {"norm forward", is_norm},
    {"other format", is_cast},
    {"residual, bias", is_residual},
    {"bias gradient", is_bias_gradient},
    {"norm of gradients", is_clipping},
};

static const char *group_of(const Plan *plan, const Instruction *instruction, const char *name) {
  Described described = {.name = name};
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      described.kernel = plan->kernels[instruction->as.kernel.kernel];
      function_of(plan, instruction->span, described.word);
      for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (groups[i].has(&described)) {
          return groups[i].name;
        }
      }
      return "other kernels";
    case INSTRUCTION_GEMM:
      return "products";
    case INSTRUCTION_ATTENTION:
      return "attention forward";
    case INSTRUCTION_ATTENTION_GRAD:
      return "attention backward";
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return "products of chosen";
    case INSTRUCTION_ORDER:
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return "tables";
    case INSTRUCTION_SQUARES:
      return "norm of gradients";
    default:
      return "other";
  }
}

// --- rows ---

typedef struct {
  char name[TRACE_NAME_MAX], shape[SHAPE_BYTES], place[PLACE_BYTES];
  const char *group, *form;
  InstructionKind kind;
  double bytes, flops;
  double *seconds;  // of each call
  int count, capacity;
  double median, limit;
} KernelRow;

typedef struct {
  KernelRow *at;
  int count, capacity;
} KernelRows;

static void sizes_text(char *text, int count, const int64_t *size, const char *between) {
  size_t length = strlen(text);
  for (int i = 0; i < count && length < SHAPE_BYTES; i++) {
    length += (size_t)snprintf(text + length, SHAPE_BYTES - length, "%s%lld", i ? between : "", (long long)size[i]);
  }
}

static void shape_text(const Plan *plan, const Instruction *instruction, char text[SHAPE_BYTES]) {
  text[0] = '\0';
  if (instruction->kind == INSTRUCTION_KERNEL) {
    const Kernel *kernel = plan->kernels[instruction->as.kernel.kernel];
    const int outer = kernel->dim_count - kernel->inner_count;
    sizes_text(text, outer, kernel->size, "x");
    snprintf(text + strlen(text), SHAPE_BYTES - strlen(text), " | ");
    sizes_text(text, kernel->inner_count, kernel->size + outer, "x");
  } else if (instruction->kind == INSTRUCTION_GEMM) {
    const Gemm *gemm = &instruction->as.gemm;
    sizes_text(text, gemm->batch_count, gemm->batch, "x");
    snprintf(text + strlen(text), SHAPE_BYTES - strlen(text), "%s%lldx%lldx%lld", gemm->batch_count ? " of " : "",
             (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
  } else if (instruction_multiplies(instruction)) {
    const Grouped *grouped = &instruction->as.grouped;
    snprintf(text, SHAPE_BYTES, "%lld of %lldx%lldx%lld", (long long)grouped->extent, (long long)grouped->rows,
             (long long)(grouped->m * grouped->k), (long long)grouped->n);
  } else if (instruction_attends(instruction)) {
    const Attention *attention = &instruction->as.attention;
    snprintf(text, SHAPE_BYTES, "%lld of %lldx%lld, %lld/%lld heads of %lld", (long long)attention->batch,
             (long long)attention->queries, (long long)attention->keys,
             (long long)(attention->heads * attention->groups), (long long)attention->heads,
             (long long)attention->depth);
  } else if (instruction->kind == INSTRUCTION_TAKE || instruction->kind == INSTRUCTION_PUT) {
    sizes_text(text, instruction->as.take.dim_count, instruction->as.take.size, "x");
  }
}

static bool kernel_rows_same(const KernelRow *a, const KernelRow *b) {
  return a->kind == b->kind && a->bytes == b->bytes && strcmp(a->name, b->name) == 0 && strcmp(a->form, b->form) == 0 &&
         strcmp(a->shape, b->shape) == 0 && strcmp(a->place, b->place) == 0;
}

static KernelRow *kernel_row_of(KernelRows *rows, const Plan *plan, const TraceSpan *span) {
  const Instruction *instruction = span->instruction;
  KernelRow row = {.kind = instruction->kind,
                   .form = span->form ? span->form : "",
                   .bytes = instruction->bytes,
                   .flops = instruction->flops};
  trace_name(instruction, row.name);
  shape_text(plan, instruction, row.shape);
  plan_source(plan, instruction->span, row.place, sizeof row.place);
  for (int i = 0; i < rows->count; i++) {
    if (kernel_rows_same(&rows->at[i], &row)) {
      return &rows->at[i];
    }
  }
  if (rows->count == rows->capacity) {
    const int capacity = rows->capacity ? rows->capacity * 2 : 64;
    KernelRow *longer = realloc(rows->at, sizeof *longer * (size_t)capacity);
    if (!longer) {
      return NULL;
    }
    rows->at = longer;
    rows->capacity = capacity;
  }
  row.group = group_of(plan, instruction, row.name);
  rows->at[rows->count] = row;
  return &rows->at[rows->count++];
}

static bool kernel_row_add(KernelRows *rows, const Plan *plan, const TraceSpan *span) {
  KernelRow *row = kernel_row_of(rows, plan, span);
  if (row && row->count == row->capacity) {
    const int capacity = row->capacity ? row->capacity * 2 : 16;
    double *longer = realloc(row->seconds, sizeof *longer * (size_t)capacity);
    row->seconds = longer ? longer : row->seconds;
    row->capacity = longer ? capacity : row->capacity;
  }
  if (!row || row->count == row->capacity) {
    return false;
  }
  row->seconds[row->count++] = span->end - span->begin;
  return true;
}

static int compare_seconds(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double row_total(const KernelRow *row) {
  return row->median * row->count;
}

static int compare_rows(const void *a, const void *b) {
  const double x = row_total(a), y = row_total(b);
  return x < y ? 1 : x > y ? -1 : strcmp(((const KernelRow *)a)->name, ((const KernelRow *)b)->name);
}

// --- the tables ---

static void kernels_print(const KernelRows *rows) {
  printf("%10s %6s %10s %10s %8s %6s  %-18s %s\n", "a call, us", "calls", "a step, ms", "bytes, MB", "GB/s", "share",
         "group", "name, form, shape, where in the text");
  for (int i = 0; i < rows->count; i++) {
    const KernelRow *row = &rows->at[i];
    printf("%10.1f %6.0f %10.3f %10.2f %8.0f %5.0f%%  %-18s %s; %s%s%s; %s; %s\n", row->median * 1e6,
           (double)row->count / KERNELS_STEPS, row_total(row) / KERNELS_STEPS * 1e3, row->bytes / 1e6,
           row->bytes / row->median / 1e9, 100 * row->limit / row->median, row->group, row->name,
           instruction_kind_name(row->kind), *row->form ? ", " : "", row->form, row->shape, row->place);
  }
}

static void groups_print(const KernelRows *rows, double step_seconds) {
  double left = 0, all = 0;
  printf("\n%10s %6s %6s  %s\n", "a step, ms", "share", "of all", "group: limits of its kernels over their times");
  for (int i = 0; i < rows->count; i++) {
    const char *group = rows->at[i].group;
    double total = 0, limit = 0;
    bool first = true;
    for (int k = 0; k < rows->count; k++) {
      const KernelRow *row = &rows->at[k];
      if (strcmp(row->group, group) == 0) {
        first = first && k >= i;
        total += row_total(row) / KERNELS_STEPS;
        limit += row->limit * row->count / KERNELS_STEPS;
      }
    }
    if (first) {
      printf("%10.3f %5.0f%% %5.1f%%  %s\n", total * 1e3, 100 * limit / total, 100 * total / step_seconds, group);
      all += total;
      left += limit;
    }
  }
  printf("%10.3f %5.0f%%         all kernels; %.3f ms is the median step without a trace\n", all * 1e3,
         100 * left / all, step_seconds * 1e3);
}

static bool kernels_gather(Session *session, KernelRows *rows, Error *error) {
  int64_t before = 0, count = 0;
  session_trace(session, true);
  for (int step = 0; step <= KERNELS_STEPS; step++) {
    if (!session_run(session, PROGRAM_TRAIN, 1000 + step, error)) {
      session_trace(session, false);
      return false;
    }
    if (step == 0) {  // makes what tracing needs: it is left out
      session->backend->traced(session->device, &before);
    }
  }
  session_trace(session, false);
  const TraceSpan *spans = session->backend->traced(session->device, &count);
  for (int64_t i = before; spans && i < count; i++) {
    if (!kernel_row_add(rows, session->plan, &spans[i])) {
      return error_set(error, 3, "no memory for a table of kernels");
    }
  }
  return count > before || error_set(error, 1, "nothing was traced");
}

// Both tables of a session that has run its training program. rate: of a copy, bytes read and written a second.
// step_seconds: of a step without a trace.
static bool kernels_table(Session *session, double rate, double step_seconds, Error *error) {
  KernelRows rows = {0};
  DeviceFacts facts;
  session->backend->facts(session->device, &facts);
  const bool good = kernels_gather(session, &rows, error);
  for (int i = 0; good && i < rows.count; i++) {
    KernelRow *row = &rows.at[i];
    qsort(row->seconds, (size_t)row->count, sizeof *row->seconds, compare_seconds);
    row->median = row->seconds[row->count / 2];
    row->limit = fmax(row->bytes / rate, isnan(facts.peak_flops) ? 0 : row->flops / facts.peak_flops) + KERNEL_SECONDS;
  }
  if (good) {
    qsort(rows.at, (size_t)rows.count, sizeof *rows.at, compare_rows);
    printf("medians of %d steps; a copy reads and writes %.2f TB/s\n", KERNELS_STEPS, rate / 1e12);
    kernels_print(&rows);
    groups_print(&rows, step_seconds);
  }
  for (int i = 0; i < rows.count; i++) {
    free(rows.at[i].seconds);
  }
  free(rows.at);
  return good;
}

#endif
