// scores.c: see scores.h.
//
// A few lines at a time go through the whole kernel, every value of which has a buffer in the first cache. A value that
// does not vary along a line is repeated: what is wanted is always a tile.
#include "kernels/cpu/scores.h"

#include <string.h>

#include "base/integer.h"

enum { LINES = 4, N = ATTENTION_QUERIES, ELEMENTS = LINES * N, REGISTER_BYTES = ELEMENTS * 8 };

int64_t scores_scratch_bytes(void) {
  return (int64_t)KERNEL_MAX_CODE * REGISTER_BYTES;
}

typedef struct {
  const ScoreTile *tile;
  const Simd *simd;
  const SimdReal *real;
  char *scratch;
  int64_t bytes;        // of the real type
  int64_t line, lines;  // of the tile
} Run;

static char *register_of(const Run *run, int at) {
  return run->scratch + (int64_t)at * REGISTER_BYTES;
}

static void load_captured(const Run *run, const KernelPort *port, const char *memory, bool integer, char *out) {
  const ScoreTile *t = run->tile;
  const int64_t *stride = port->stride, bytes = element_type_bytes(port->type);
  const int64_t first = t->batch * stride[0] + t->head * stride[1] + t->group * stride[2] +
                        (t->key + run->line) * stride[SCORE_DIM_KEY] + t->query * stride[SCORE_DIM_QUERY];
  for (int64_t r = 0; r < run->lines; r++) {
    const char *from = memory + (first + r * stride[SCORE_DIM_KEY]) * bytes;
    if (integer) {
      run->simd->integer->load((int32_t *)(void *)out + r * N, (const int32_t *)(const void *)from,
                               stride[SCORE_DIM_QUERY], t->queries);
    } else {
      run->real->load[port->type](out + r * N * run->bytes, from, stride[SCORE_DIM_QUERY], t->queries);
    }
  }
}

// Lanes without a query hold zeros.
static void load(const Run *run, const KernelInstruction *code, char *out) {
  const ScoreTile *t = run->tile;
  if (code->port < SCORE_CAPTURED) {
    const char *from = code->port == SCORE_DOT ? t->dot : t->gradient;
    memcpy(out, from + run->line * N * run->bytes, (size_t)(run->lines * N * run->bytes));
    return;
  }
  memset(out, 0, REGISTER_BYTES);
  load_captured(run, &t->kernel->port[code->port], t->captured[code->port], code->integer, out);
}

static void positions(const Run *run, const KernelInstruction *code, char *out) {
  const ScoreTile *t = run->tile;
  const bool key = code->port == SCORE_KEY;
  for (int64_t r = 0; r < run->lines; r++) {
    const int64_t first = key ? t->key_position + run->line + r : t->query_position;
    run->simd->integer->iota((int32_t *)(void *)out + r * N, code->constant + first, !key, N);
  }
}

static void fill(const Run *run, const KernelInstruction *code, char *out) {
  for (int64_t i = 0; i < run->lines * N; i++) {
    if (code->op == KERNEL_INTEGER) {
      ((int32_t *)(void *)out)[i] = (int32_t)code->constant;
    } else {
      tile_set(run->bytes, out, i, code->number);
    }
  }
}

static void compute(const Run *run, const KernelInstruction *code, char *out) {
  VectorCall call = {.out = out, .rows = 1, .columns = run->lines * N};
  int operand[3];
  kernel_operands(code, operand);
  for (int k = 0; k < kernel_op_operands(code->op); k++) {
    call.operand[k] = register_of(run, operand[k]);
  }
  const VectorFn fn = run->simd->integer->op[code->op];
  (fn ? fn : run->real->op[code->op])(&call);
}

static void run_lines(const Run *run) {
  const Kernel *kernel = run->tile->kernel;
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    char *out = register_of(run, i);
    switch (code->op) {
      case KERNEL_LOAD:
        load(run, code, out);
        break;
      case KERNEL_IOTA:
        positions(run, code, out);
        break;
      case KERNEL_CONST:
      case KERNEL_INTEGER:
        fill(run, code, out);
        break;
      case KERNEL_STORE:
        memcpy(run->tile->made + run->line * N * run->bytes, register_of(run, code->a),
               (size_t)(run->lines * N * run->bytes));
        break;
      default:
        compute(run, code, out);
    }
  }
}

void scores_run(const ScoreTile *tile, const Simd *simd, char *scratch) {
  const bool wide = tile->kernel->real == TYPE_F64;
  Run run = {
      .tile = tile, .simd = simd, .real = wide ? simd->f64 : simd->f32, .scratch = scratch, .bytes = wide ? 8 : 4};
  for (run.line = 0; run.line < tile->keys; run.line += LINES) {
    run.lines = min_i64(LINES, tile->keys - run.line);
    run_lines(&run);
  }
}
