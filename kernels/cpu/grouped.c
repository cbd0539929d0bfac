// grouped.c: see grouped.h. a [rows, k or m], b [extent] of [k, n] or [rows, n], c [rows, n] or [extent] of [m, n].
#include "kernels/cpu/grouped.h"

#include <string.h>

#include "base/integer.h"

enum { ZERO_ROWS = 64 };

// The product of `rows` rows with one matrix, or of the columns of two operands along so many rows.
static Gemm product_of(const Grouped *grouped, bool sums, int64_t rows) {
  return (Gemm){.type = grouped->type,
                .type_b = grouped->type,
                .type_c = grouped->type_c,
                .tf32 = grouped->tf32,
                .transpose_a = sums,
                .transpose_b = grouped->transpose_b,
                .write = grouped->write,
                .m = sums ? grouped->m : rows,
                .n = grouped->n,
                .k = sums ? rows : grouped->k,
                .lda = grouped->lda,
                .ldb = grouped->ldb,
                .ldc = grouped->ldc};
}

bool grouped_check(const Grouped *grouped, bool sums, const char *name, Error *error) {
  const Gemm all = product_of(grouped, sums, grouped->rows);
  return gemm_check(&all, name, error);
}

int64_t grouped_scratch_bytes(const Grouped *grouped, bool sums) {
  const Gemm all = product_of(grouped, sums, grouped->rows);
  return gemm_scratch_bytes(&all);
}

typedef struct {
  char *at;
  int64_t rows, row_bytes, stride_bytes;
} Zeroes;

static void zero_task(void *context, int worker, int64_t task) {
  const Zeroes *zeroes = context;
  (void)worker;
  for (int64_t r = task * ZERO_ROWS; r < min_i64((task + 1) * ZERO_ROWS, zeroes->rows); r++) {
    memset(zeroes->at + r * zeroes->stride_bytes, 0, (size_t)zeroes->row_bytes);
  }
}

typedef struct {
  const Grouped *grouped;
  const Blas *blas;
  const Simd *simd;
  Pool *pool;
  const GroupedPorts *ports;
  bool sums, first;
  char *const *scratch;
} Run;

// The rows [row, row + rows), and the matrix number `index`; -1: none, so that the result is 0. rows 0: likewise.
static void run_rows(const Run *run, int64_t row, int64_t rows, int64_t index) {
  const Grouped *g = run->grouped;
  const int64_t bytes = element_type_bytes(g->type), bytes_c = element_type_bytes(g->type_c);
  char *c = (char *)run->ports->c + (run->sums ? index * g->stride : row * g->ldc) * bytes_c;
  if (index >= 0 && rows > 0) {
    const Gemm product = product_of(g, run->sums, rows);
    const GemmPorts ports = {
        .a = (const char *)run->ports->a + row * g->lda * bytes,
        .b = (const char *)run->ports->b + (run->sums ? row * g->ldb : index * g->stride) * bytes,
        .c = c,
    };
    gemm_run(&product, run->blas, run->simd, run->pool, &ports, run->first, run->scratch);
  } else if (!g->leaves && (g->write == WRITE_STORE || (g->write == WRITE_ADD_AFTER_FIRST && run->first))) {
    Zeroes zeroes = {c, run->sums ? g->m : rows, g->n * bytes_c, g->ldc * bytes_c};
    pool_run(run->pool, blocks_of(zeroes.rows, ZERO_ROWS), zero_task, &zeroes);
  }
}

// Blocks of one index that stand together are one product.
static void run_blocks(const Run *run) {
  const Grouped *g = run->grouped;
  const int32_t *chosen = run->ports->chosen;
  const int64_t blocks = g->rows / g->block;
  for (int64_t begin = 0, end; begin < blocks; begin = end) {
    for (end = begin + 1; end < blocks && chosen[end] == chosen[begin]; end++) {
    }
    const bool there = chosen[begin] >= 0 && chosen[begin] < g->extent;
    run_rows(run, begin * g->block, (end - begin) * g->block, there ? chosen[begin] : -1);
  }
}

static void run_sums(const Run *run) {
  const Grouped *g = run->grouped;
  const int32_t *chosen = run->ports->chosen;
  const int64_t blocks = g->rows / g->block;
  int64_t at = 0;
  for (int64_t index = 0; index < g->extent; index++) {
    while (at < blocks && chosen[at] < index) {
      at++;
    }
    const int64_t begin = at;
    while (at < blocks && chosen[at] == index) {
      at++;
    }
    run_rows(run, begin * g->block, (at - begin) * g->block, index);
  }
}

void grouped_run(const Grouped *grouped, bool sums, const Blas *blas, const Simd *simd, Pool *pool,
                 const GroupedPorts *ports, bool first, char *const *scratch) {
  const Run run = {grouped, blas, simd, pool, ports, sums, first, scratch};
  if (sums) {
    run_sums(&run);
  } else {
    run_blocks(&run);
  }
}

// --- the order ---

int64_t order_shared_bytes(const Order *order) {
  return order->extent * (int64_t)sizeof(int64_t);
}

static int64_t index_at(const Order *order, const int32_t *index, int64_t position) {  // -1: none
  return index[position] >= 0 && index[position] < order->extent ? index[position] : -1;
}

void order_run(const Order *order, const OrderPorts *ports, char *shared) {
  int64_t *next = (int64_t *)(void *)shared;  // of each index: how many positions, then the row of the next
  memset(next, 0, (size_t)order_shared_bytes(order));
  memset(ports->from, 0xff, (size_t)order->capacity * sizeof *ports->from);
  memset(ports->chosen, 0xff, (size_t)(order->capacity / order->block) * sizeof *ports->chosen);
  for (int64_t i = 0; i < order->count; i++) {
    const int64_t index = index_at(order, ports->index, i);
    next[index < 0 ? 0 : index] += index >= 0;
  }
  int64_t row = 0;
  for (int64_t index = 0; index < order->extent; index++) {
    const int64_t end = row + round_up(next[index], order->block);
    next[index] = row;
    for (; row < end; row += order->block) {
      if (row < order->capacity) {
        ports->chosen[row / order->block] = (int32_t)index;
      }
    }
  }
  for (int64_t i = 0; i < order->count; i++) {
    const int64_t index = index_at(order, ports->index, i);
    const int64_t to = index >= 0 ? next[index]++ : order->capacity;
    ports->place[i] = to < order->capacity ? (int32_t)to : -1;
    if (to < order->capacity) {
      ports->from[to] = (int32_t)i;
    }
  }
}
