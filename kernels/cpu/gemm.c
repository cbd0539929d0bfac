// gemm.c: the tiles of a matrix product.
//
// a [m, k], b [k, n], c [m, n]; a tile of c is one call of the library with the whole of k, so every element is summed
// by one call, in the library's order. One core of a Xeon (Sapphire Rapids, 170 GFLOP/s at most in f32) reaches
// 150-160 with tiles of 512 x 768 to 512 x 1536 and 125-140 with 128 x 384.
#include "kernels/cpu/gemm.h"

#include <inttypes.h>
#include <limits.h>

enum { TILE_M = 512, TILE_N = 1536, TILE_STEP = 16 };
#define SPLIT_FLOPS 4e6  // a product of more is worth two tasks
#define TASK_FLOPS 1e6   // small products of a batch share a task up to this

typedef struct {
  const Gemm *gemm;
  const Blas *blas;
  const char *a, *b;
  char *c;
  int64_t tile_m, tile_n, tiles_m, tiles_n;
  int64_t batch, group;  // products, and how many of them one task makes
  double beta;
} Job;

bool gemm_check(const Gemm *gemm, const char *name, Error *error) {
  if (gemm->type != TYPE_F32 && gemm->type != TYPE_F64) {
    return error_set(error, 1, "%s: the CPU backend multiplies matrices of f32 and f64, not of %s", name,
                     element_type_name(gemm->type));
  }
  const int64_t size[] = {gemm->m, gemm->n, gemm->k, gemm->lda, gemm->ldb, gemm->ldc};
  for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
    if (size[i] < 1 || size[i] > INT_MAX) {
      return error_set(error, 1, "%s: a matrix product with a size of %" PRId64 "; sizes are 1 to %d", name, size[i],
                       INT_MAX);
    }
  }
  return true;
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Splits n into equal parts of at most `most`, each a multiple of TILE_STEP but the last.
static int64_t tile_of(int64_t n, int64_t parts) {
  return ceil_div(ceil_div(n, parts), TILE_STEP) * TILE_STEP;
}

static void run_product(const Job *job, int64_t product, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const Gemm *gemm = job->gemm;
  int64_t a = 0, b = 0, c = 0;
  for (int i = gemm->batch_count - 1; i >= 0; i--) {
    const int64_t at = product % gemm->batch[i];
    product /= gemm->batch[i];
    a += at * gemm->stride_a[i];
    b += at * gemm->stride_b[i];
    c += at * gemm->stride_c[i];
  }
  a += gemm->transpose_a ? row : row * gemm->lda;
  b += gemm->transpose_b ? column * gemm->ldb : column;
  c += row * gemm->ldc + column;
  const int64_t bytes = element_type_bytes(gemm->type);
  const BlasGemm call = {.type = gemm->type,
                         .transpose_a = gemm->transpose_a,
                         .transpose_b = gemm->transpose_b,
                         .m = rows,
                         .n = columns,
                         .k = gemm->k,
                         .lda = gemm->lda,
                         .ldb = gemm->ldb,
                         .ldc = gemm->ldc,
                         .alpha = 1.0,
                         .beta = job->beta};
  blas_gemm(job->blas, &call, job->a + a * bytes, job->b + b * bytes, job->c + c * bytes);
}

static void run_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Gemm *gemm = job->gemm;
  (void)worker;
  const int64_t tiles = job->tiles_m * job->tiles_n, tile = task % tiles, group = task / tiles;
  const int64_t row = tile % job->tiles_m * job->tile_m, column = tile / job->tiles_m * job->tile_n;
  const int64_t rows = gemm->m - row < job->tile_m ? gemm->m - row : job->tile_m;
  const int64_t columns = gemm->n - column < job->tile_n ? gemm->n - column : job->tile_n;
  const int64_t end = (group + 1) * job->group < job->batch ? (group + 1) * job->group : job->batch;
  for (int64_t product = group * job->group; product < end; product++) {
    run_product(job, product, row, rows, column, columns);
  }
}

void gemm_run(const Gemm *gemm, const Blas *blas, Pool *pool, const void *a, const void *b, void *c, bool first) {
  const bool adds = gemm->write == WRITE_ADD || (gemm->write == WRITE_ADD_AFTER_FIRST && !first);
  Job job = {.gemm = gemm, .blas = blas, .a = a, .b = b, .c = c, .batch = 1, .group = 1, .beta = adds ? 1.0 : 0.0};
  for (int i = 0; i < gemm->batch_count; i++) {
    job.batch *= gemm->batch[i];
  }
  const double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
  int64_t parts_m = ceil_div(gemm->m, TILE_M), parts_n = ceil_div(gemm->n, TILE_N);
  if (parts_m * parts_n * job.batch == 1 && flops > SPLIT_FLOPS) {
    *(gemm->m >= gemm->n ? &parts_m : &parts_n) = 2;
  }
  job.tile_m = tile_of(gemm->m, parts_m);
  job.tile_n = tile_of(gemm->n, parts_n);
  job.tiles_m = ceil_div(gemm->m, job.tile_m);
  job.tiles_n = ceil_div(gemm->n, job.tile_n);
  if (job.tiles_m * job.tiles_n == 1 && flops < TASK_FLOPS) {
    job.group = (int64_t)(TASK_FLOPS / (flops + 1.0)) + 1;
  }
  pool_run(pool, job.tiles_m * job.tiles_n * ceil_div(job.batch, job.group), run_task, &job);
}
