// scores.c: see scores.h.
//
// A few lines at a time go through the whole kernel, every value of which has a buffer in the first cache. A value that
// does not vary along a line is repeated: what is wanted is always a tile. Where masks let everything through they are
// not looked at.
#include "kernels/cpu/scores.h"

#include <string.h>

#include "base/integer.h"

enum { LINES = 4, N = ATTENTION_QUERIES, ELEMENTS = LINES * N, REGISTER_BYTES = ELEMENTS * 8, SIDE = 64 };

int64_t scores_scratch_bytes(void) {
  return (int64_t)KERNEL_MAX_CODE * REGISTER_BYTES;
}

static int open_operand(const ScoreProgram *program, int at) {
  const KernelInstruction *code = &program->kernel->code[at];
  return program->masks.open[at] == 1 ? code->b : code->c;
}

void scores_prepare(const Kernel *kernel, ScoreProgram *program) {
  *program = (ScoreProgram){.kernel = kernel};
  if (!kernel) {
    return;
  }
  score_masks(kernel, &program->masks);
  for (int i = kernel->code_count - 1; i >= 0; i--) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    program->whole[i] |= op_is_output(code->op);
    for (int k = 0; k < kernel_op_operands(code->op) && program->whole[i]; k++) {
      program->whole[operand[k]] |= !program->masks.open[i] || operand[k] == open_operand(program, i);
    }
  }
}

static ScoreRange range_of(const ScoreTile *t, int port) {
  const KernelPort *at = &t->program->kernel->port[port];
  const bool by_key = score_by_key(t->program->kernel, port), by_query = score_by_query(t->program->kernel, port);
  const int64_t count = by_key ? t->keys : by_query ? t->queries : 1;
  const int64_t stride = by_key ? at->stride[SCORE_DIM_KEY] : at->stride[SCORE_DIM_QUERY];
  const int32_t *from = (const int32_t *)(const void *)t->captured[port] + t->batch * at->stride[0] +
                        (by_key ? t->key : t->query) * stride;
  ScoreRange range = {*from, *from};
  for (int64_t i = 1; i < count; i++) {
    range.low = min_i64(range.low, from[i * stride]);
    range.high = max_i64(range.high, from[i * stride]);
  }
  return range;
}

ScoresKnown scores_known(const ScoreTile *t) {
  const ScoreMasks *masks = &t->program->masks;
  ScoreBlock block = {.query = {t->query_position, t->query_position + t->queries - 1},
                      .key = {t->key_position, t->key_position + t->keys - 1}};
  if (!masks->any) {
    return SCORES_MIXED;
  }
  for (int i = 0; i < masks->ranged_count; i++) {
    block.captured[i] = range_of(t, masks->ranged[i]);
  }
  return score_block(t->program->kernel, masks, &block);
}

typedef struct {
  const ScoreTile *tile;
  const Simd *simd;
  const SimdReal *real;
  char *scratch;
  int64_t bytes;        // of the real type
  int64_t line, lines;  // of the tile
  bool whole;           // masks let all of these through
} Run;

static char *register_of(const Run *run, int at) {
  while (run->whole && run->tile->program->masks.open[at]) {
    at = open_operand(run->tile->program, at);
  }
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
  load_captured(run, &t->program->kernel->port[code->port], t->captured[code->port], code->integer, out);
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
  const ScoreProgram *program = run->tile->program;
  for (int i = 0; i < program->kernel->code_count; i++) {
    const KernelInstruction *code = &program->kernel->code[i];
    if (run->whole && (!program->whole[i] || program->masks.open[i])) {
      continue;
    }
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
  const bool wide = tile->program->kernel->real == TYPE_F64;
  Run run = {
      .tile = tile, .simd = simd, .real = wide ? simd->f64 : simd->f32, .scratch = scratch, .bytes = wide ? 8 : 4};
  for (int64_t side = 0; side < tile->keys; side += SIDE) {
    const int64_t end = min_i64(side + SIDE, tile->keys);
    ScoreTile part = *tile;
    part.key += side;
    part.key_position += side;
    part.keys = end - side;
    run.whole = scores_known(&part) == SCORES_WHOLE;
    for (run.line = side; run.line < end; run.line += LINES) {
      run.lines = min_i64(LINES, end - run.line);
      run_lines(&run);
    }
  }
}
