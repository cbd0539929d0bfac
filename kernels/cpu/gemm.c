// gemm.c: the tiles of a matrix product.
//
// a [m, k], b [k, n], c [m, n]; a tile of c is one call of the library with the whole of k, so every element is summed
// by one call, in the library's order. One core of a Xeon (Sapphire Rapids, 170 GFLOP/s at most in f32) reaches
// 150-160 with tiles of 512 x 768 to 512 x 1536 and 125-140 with 128 x 384.
#include "kernels/cpu/gemm.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/integer.h"

enum { TILE_M = 512, TILE_N = 1536, TILE_STEP = 16, WIDE_K = 512 };
#define SPLIT_FLOPS 4e6  // a product of more is worth two tasks
#define TASK_FLOPS 1e6   // small products of a batch share a task up to this

typedef struct {
  const Gemm *gemm;
  const Blas *blas;
  const Simd *simd;
  const char *a, *b, *bias;
  const float *scale_a, *scale_b;
  char *c;
  char *const *scratch;
  int64_t tile_m, tile_n, tiles_m, tiles_n;
  int64_t batch, group;  // products, and how many of them one task makes
  double alpha, beta;
} Job;

static bool is_wide(ElementType type) {
  return type == TYPE_F32 || type == TYPE_F64;
}

bool gemm_check(const Gemm *gemm, const char *name, Error *error) {
  const ElementType types[] = {gemm->type, gemm->type_b, gemm->type_c};
  for (int i = 0; i < 3; i++) {
    const bool quarter = i < 2 && element_type_bytes(types[i]) == 1;
    if (!is_wide(types[i]) && types[i] != TYPE_BF16 && types[i] != TYPE_F16 && !quarter) {
      return error_set(error, 1,
                       "%s: the CPU backend multiplies matrices of f64, f32, bf16, f16, e4m3 and e5m2 into wider ones, "
                       "not of %s",
                       name, element_type_name(types[i]));
    }
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

// Splits n into equal parts of at most `most`, each a multiple of TILE_STEP but the last.
static int64_t tile_of(int64_t n, int64_t parts) {
  return blocks_of(blocks_of(n, parts), TILE_STEP) * TILE_STEP;
}

// Where one product of the batch, and a tile of it, lie in the three matrices; in elements.
typedef struct {
  int64_t a, b, c, row, bias, rows, columns;
} Tile;

static Tile tile_at(const Gemm *gemm, int64_t product, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  Tile tile = {.row = row, .bias = column, .rows = rows, .columns = columns};
  for (int i = gemm->batch_count - 1; i >= 0; i--) {
    const int64_t at = product % gemm->batch[i];
    product /= gemm->batch[i];
    tile.a += at * gemm->stride_a[i];
    tile.b += at * gemm->stride_b[i];
    tile.c += at * gemm->stride_c[i];
  }
  tile.a += gemm->transpose_a ? row : row * gemm->lda;
  tile.b += gemm->transpose_b ? column * gemm->ldb : column;
  tile.c += row * gemm->ldc + column;
  return tile;
}

// Makes every row of a tile the bias: what the product is then added to.
static void begin_with_bias(const Job *job, const Tile *tile) {
  const int64_t bytes = element_type_bytes(job->gemm->type_c);
  for (int64_t i = 0; i < tile->rows; i++) {
    memmove(job->c + (tile->c + i * job->gemm->ldc) * bytes, job->bias + tile->bias * bytes,
            (size_t)(tile->columns * bytes));
  }
}

static void run_product(const Job *job, const Tile *tile) {
  const Gemm *gemm = job->gemm;
  const int64_t bytes = element_type_bytes(gemm->type);
  if (job->bias) {
    begin_with_bias(job, tile);
  }
  const BlasGemm call = {.type = gemm->type,
                         .transpose_a = gemm->transpose_a,
                         .transpose_b = gemm->transpose_b,
                         .m = tile->rows,
                         .n = tile->columns,
                         .k = gemm->k,
                         .lda = gemm->lda,
                         .ldb = gemm->ldb,
                         .ldc = gemm->ldc,
                         .alpha = 1.0,
                         .beta = job->beta};
  blas_gemm(job->blas, &call, job->a + tile->a * bytes, job->b + tile->b * bytes, job->c + tile->c * bytes);
}

// Lines of a matrix of any floating-point type, as lines of f32 without gaps.
static void widen(const Job *job, ElementType type, float *to, const char *from, int64_t stride, int64_t lines,
                  int64_t count) {
  for (int64_t i = 0; i < lines; i++) {
    job->simd->f32->load[type](to + i * count, from + i * stride * element_type_bytes(type), 1, count);
  }
}

// The scales of one operand of a tile, from k on, into what was widened.
static void scale_blocks(const Job *job, const Tile *tile, bool of_a, float *piece, int64_t k, int64_t count) {
  const Gemm *gemm = job->gemm;
  const int64_t first = of_a ? tile->row : tile->bias, outer = of_a ? tile->rows : tile->columns;
  const int64_t ld = of_a ? gemm->ld_scale_a : gemm->ld_scale_b;
  const bool square = of_a ? gemm->square_a : gemm->square_b;
  const bool neighbours = of_a ? !gemm->transpose_a : gemm->transpose_b;  // along k
  const float *scale = of_a ? job->scale_a : job->scale_b;
  for (int64_t i = 0; i < outer; i++) {
    for (int64_t j = 0; j < count; j++) {
      const int64_t block = (k + j) / gemm->block, at = first + i;
      piece[neighbours ? i * count + j : j * outer + i] *=
          square ? scale[at / gemm->block * ld + block] : scale[block * ld + at];
    }
  }
}

// The same in f32, whatever the types: k goes by pieces, whose operands are widened into the scratch of the worker.
static void run_wide_product(const Job *job, int worker, const Tile *tile) {
  const Gemm *gemm = job->gemm;
  const int64_t rows = tile->rows, columns = tile->columns, bytes = element_type_bytes(gemm->type);  // of b, too
  const int64_t bytes_c = element_type_bytes(gemm->type_c), longest = min_i64(gemm->k, WIDE_K);
  float *a = (float *)(void *)job->scratch[worker], *b = a + job->tile_m * longest, *sums = b + job->tile_n * longest;
  char *c = job->c + tile->c * bytes_c;
  const bool direct = gemm->type_c == TYPE_F32;
  BlasGemm call = {.type = TYPE_F32,
                   .transpose_a = gemm->transpose_a,
                   .transpose_b = gemm->transpose_b,
                   .m = rows,
                   .n = columns,
                   .ldc = direct ? gemm->ldc : columns,
                   .alpha = job->alpha,
                   .beta = job->beta};
  if (direct && job->bias) {
    begin_with_bias(job, tile);
  } else if (job->bias) {
    widen(job, gemm->type_c, sums, job->bias + tile->bias * bytes_c, 0, rows, columns);
  } else if (!direct && job->beta != 0.0) {
    widen(job, gemm->type_c, sums, c, gemm->ldc, rows, columns);
  }
  for (int64_t k = 0; k < gemm->k; k += WIDE_K) {
    call.k = min_i64(gemm->k - k, WIDE_K);
    call.lda = gemm->transpose_a ? rows : call.k;
    call.ldb = gemm->transpose_b ? call.k : columns;
    widen(job, gemm->type, a, job->a + (tile->a + (gemm->transpose_a ? k * gemm->lda : k)) * bytes, gemm->lda,
          gemm->transpose_a ? call.k : rows, call.lda);
    widen(job, gemm->type_b, b, job->b + (tile->b + (gemm->transpose_b ? k : k * gemm->ldb)) * bytes, gemm->ldb,
          gemm->transpose_b ? columns : call.k, call.ldb);
    if (gemm->block) {
      scale_blocks(job, tile, true, a, k, call.k);
      scale_blocks(job, tile, false, b, k, call.k);
    }
    blas_gemm(job->blas, &call, a, b, direct ? (void *)c : sums);
    call.beta = 1.0;
  }
  for (int64_t i = 0; !direct && i < rows; i++) {
    job->simd->f32->store[gemm->type_c](c + i * gemm->ldc * bytes_c, 1, sums + i * columns, columns);
  }
}

static void run_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Gemm *gemm = job->gemm;
  const bool wide = is_wide(gemm->type) && gemm->type == gemm->type_c;
  const int64_t tiles = job->tiles_m * job->tiles_n, tile = task % tiles, group = task / tiles;
  const int64_t row = tile % job->tiles_m * job->tile_m, column = tile / job->tiles_m * job->tile_n;
  const int64_t rows = gemm->m - row < job->tile_m ? gemm->m - row : job->tile_m;
  const int64_t columns = gemm->n - column < job->tile_n ? gemm->n - column : job->tile_n;
  const int64_t end = (group + 1) * job->group < job->batch ? (group + 1) * job->group : job->batch;
  for (int64_t product = group * job->group; product < end; product++) {
    const Tile at = tile_at(gemm, product, row, rows, column, columns);
    if (wide) {
      run_product(job, &at);
    } else {
      run_wide_product(job, worker, &at);
    }
  }
}

// Tiles whose size depends on the shapes only.
static void cut_tiles(Job *job) {
  const Gemm *gemm = job->gemm;
  job->batch = 1;
  for (int i = 0; i < gemm->batch_count; i++) {
    job->batch *= gemm->batch[i];
  }
  const double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
  int64_t parts_m = blocks_of(gemm->m, TILE_M), parts_n = blocks_of(gemm->n, TILE_N);
  if (parts_m * parts_n * job->batch == 1 && flops > SPLIT_FLOPS) {
    *(gemm->m >= gemm->n ? &parts_m : &parts_n) = 2;
  }
  job->tile_m = tile_of(gemm->m, parts_m);
  job->tile_n = tile_of(gemm->n, parts_n);
  job->tiles_m = blocks_of(gemm->m, job->tile_m);
  job->tiles_n = blocks_of(gemm->n, job->tile_n);
  job->group = 1;
  if (job->tiles_m * job->tiles_n == 1 && flops < TASK_FLOPS) {
    job->group = (int64_t)(TASK_FLOPS / (flops + 1.0)) + 1;
  }
}

int64_t gemm_scratch_bytes(const Gemm *gemm) {
  if (is_wide(gemm->type) && gemm->type == gemm->type_c) {
    return 0;
  }
  const int64_t m = min_i64(round_up(gemm->m, TILE_STEP), TILE_M), n = min_i64(round_up(gemm->n, TILE_STEP), TILE_N);
  const int64_t longest = min_i64(gemm->k, WIDE_K);
  return 4 * (m * longest + n * longest + m * n);
}

void gemm_run(const Gemm *gemm, const Blas *blas, const Simd *simd, Pool *pool, const GemmPorts *ports, bool first,
              char *const *scratch) {
  const bool adds = gemm->write == WRITE_ADD || (gemm->write == WRITE_ADD_AFTER_FIRST && !first);
  Job job = {.gemm = gemm,
             .blas = blas,
             .simd = simd,
             .a = ports->a,
             .b = ports->b,
             .bias = ports->bias,
             .c = ports->c,
             .scratch = scratch,
             .scale_a = ports->scale_a,
             .scale_b = ports->scale_b,
             .alpha = gemm_scaled(gemm) && !gemm->block ? (double)*ports->scale_a * (double)*ports->scale_b : 1.0,
             .beta = adds || ports->bias ? 1.0 : 0.0};
  cut_tiles(&job);
  pool_run(pool, job.tiles_m * job.tiles_n * blocks_of(job.batch, job.group), run_task, &job);
}
