// grouped.c: chooses the tiles of products of rows with chosen matrices, and writes their constants.
#include "kernels/cuda/grouped.h"

#include <limits.h>

#include "base/integer.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/warpgroups.h"
#include "kernels/cuda/writer.h"

enum { PORTS = 4, TABLE_THREADS = 1024, WORK_BYTES = 16 };
enum {
  TILE_M = 128,
  TILE_K = 64,
  CHUNK = 64,
  LINE = 128,
  ALIGNED = 1024,
  PHASE = 8,
  TILE_N_MOST = 256,
  STAGES_MOST = 8
};
enum { HALF_TILE_N = 128, HALF_DEEP = 32, HALF_THREADS = 256, HALF_STAGES = 3, HALF_PAD = 8 };
enum { PLAIN_TILE = 64, PLAIN_DEEP = 16, PLAIN_THREADS = 256 };

typedef struct {
  const Grouped *g;
  bool sums, half;
  int alignment;
  const CudaTarget *target;
} Product;

typedef struct {  // of a kernel of warpgroups
  Warpgroups groups;
  int64_t tile_n, cluster;
} Shape;

static bool is_half(ElementType type) {
  return type == TYPE_BF16 || type == TYPE_F16;
}

static const char *problem_of(const Grouped *g) {
  if (element_type_bytes(g->type) < 2 || !element_type_floating(g->type)) {
    return "a product of chosen matrices of 8 bits or of integers";
  }
  const int64_t sizes[] = {g->rows, g->m, g->n, g->k, g->extent, g->block};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] < 1 || sizes[i] > INT_MAX / 2) {
      return "a product of chosen matrices with a size past 2^30";
    }
  }
  return NULL;
}

static int64_t height_of(const Product *p) {
  return p->sums ? p->g->m : p->g->rows;
}

// k is that of the rows of b in memory.
static bool columns_of_b(const Product *p) {
  return p->sums || !p->g->transpose_b;
}

// --- warpgroups ---

static int64_t stage_bytes(const Product *p, int64_t tile_n) {
  return (TILE_M + (columns_of_b(p) ? round_up(tile_n, CHUNK) / CHUNK * TILE_K : tile_n)) * LINE;
}

static int64_t hopper_shared(const Product *p, const Shape *s) {
  return ALIGNED + s->groups.stages * (stage_bytes(p, s->tile_n) + 2 * PHASE);
}

// As wide as tiles of 256 columns at most divide them; two thread blocks share b where that gives work to both.
static Shape shape_of(const Product *p) {
  const CudaForm *form = p->target->form;
  const int64_t n = p->g->n, tiles = blocks_of(n, TILE_N_MOST);
  Shape s = {{2, STAGES_MOST, 40, 232}, round_up(blocks_of(n, tiles), 16), height_of(p) > TILE_M ? 2 : 1};
  s.cluster = form && form->cluster ? form->cluster : s.cluster;
  s.tile_n = form && form->columns ? form->columns : s.tile_n;
  s.groups.stages = form && form->stages ? form->stages : s.groups.stages;
  while (s.groups.stages > 2 && hopper_shared(p, &s) > p->target->shared_bytes) {
    s.groups.stages--;
  }
  return s;
}

static int64_t hopper_pairs(const Product *p, const Shape *s) {
  return blocks_of(blocks_of(height_of(p), TILE_M), s->cluster);
}

static int64_t hopper_tiles(const Product *p, const Shape *s) {
  return (p->sums ? p->g->extent : 1) * hopper_pairs(p, s) * blocks_of(p->g->n, s->tile_n);
}

static bool whole(int64_t elements, ElementType type) {
  return elements * element_type_bytes(type) % 16 == 0;
}

static bool hopper_covers(const Product *p) {
  const Grouped *g = p->g;
  const Shape s = shape_of(p);
  return p->half && p->target->warpgroups && p->alignment >= 16 && g->block % TILE_M == 0 && g->n % 8 == 0 &&
         whole(g->lda, g->type) && whole(g->ldb, g->type) && whole(g->ldc, g->type_c) &&
         (g->extent == 1 || whole(g->stride, p->sums ? g->type_c : g->type)) && hopper_tiles(p, &s) < INT_MAX / 8 &&
         hopper_shared(p, &s) <= p->target->shared_bytes;
}

static void element_write(Buffer *text, const Grouped *g) {
  buffer_format(text, "#define ELEMENT_F16 %d\n#define C_F32 %d\n", g->type == TYPE_F16, g->type_c == TYPE_F32);
  buffer_text(text, cuda_text_halves);
}

// A matrix of `lines` lines, or `count` of them, in boxes of `box` lines of 64 elements.
static void map_add(CudaKernel *made, const Grouped *g, int port, int64_t line, int64_t lines, int64_t ld,
                    int64_t count, int64_t box) {
  const int64_t size[CUDA_MAP_DIMS] = {line, lines, count, 1, 1}, stride[CUDA_MAP_DIMS] = {1, ld, g->stride, 0, 0};
  CudaMap *map = &made->map[made->map_count++];
  *map = (CudaMap){.port = port, .f16 = g->type == TYPE_F16};
  for (int i = 0; i < CUDA_MAP_DIMS; i++) {
    map->size[i] = size[i];
    map->stride[i] = i > 0 && size[i] == 1 ? 8 : stride[i];
    map->box[i] = i == 0 ? CHUNK : i == 1 ? (int)box : 1;
  }
}

static void hopper_write(Buffer *text, const Product *p, const Shape *s, CudaKernel *made) {
  const Grouped *g = p->g;
  const int64_t part_n = s->tile_n / s->cluster;
  if (p->sums) {
    map_add(made, g, 0, g->m, g->rows, g->lda, 1, TILE_K);
    map_add(made, g, 1, g->n, g->rows, g->ldb, 1, TILE_K);
  } else {
    map_add(made, g, 0, g->k, g->rows, g->lda, 1, TILE_M);
    map_add(made, g, 1, g->transpose_b ? g->k : g->n, g->transpose_b ? g->n : g->k, g->ldb, g->extent,
            g->transpose_b ? part_n : TILE_K);
  }
  warpgroups_write(text, &s->groups, made);
  writer_size(text, "TILE_N", s->tile_n);
  writer_size(text, "CLUSTER", s->cluster);
  element_write(text, g);
  if (s->cluster > 1) {
    buffer_format(text, "#define CLUSTERED __cluster_dims__(%d, 1, 1)\n", (int)s->cluster);
  } else {
    buffer_text(text, "#define CLUSTERED\n");
  }
  buffer_text(text, cuda_text_warpgroups);
  buffer_text(text, cuda_text_grouped_hopper);
  const int64_t most = p->target->multiprocessors / s->cluster, tiles = hopper_tiles(p, s);
  writer_launch(made, "grouped", min_i64(tiles, max_i64(most, 1)) * s->cluster, 384, hopper_shared(p, s));
  made->launch[made->launch_count - 1].cluster = (uint32_t)s->cluster;
}

// --- tensor cores ---

static int64_t half_rows(const Product *p) {
  return height_of(p) > HALF_TILE_N / 2 && (p->sums || p->g->block % HALF_TILE_N == 0) ? HALF_TILE_N : HALF_TILE_N / 2;
}

// Bytes, as the text lays them out.
static int64_t half_shared(const Product *p) {
  const int64_t rows = half_rows(p);
  const int64_t a = p->sums ? HALF_DEEP * (rows + HALF_PAD) : rows * (HALF_DEEP + HALF_PAD);
  const int64_t b =
      columns_of_b(p) ? HALF_DEEP * (HALF_TILE_N + HALF_PAD) : HALF_TILE_N * (int64_t)(HALF_DEEP + HALF_PAD);
  return HALF_STAGES * (a + b) * 2;
}

static int64_t half_tiles(const Product *p) {
  return (p->sums ? p->g->extent : 1) * blocks_of(height_of(p), half_rows(p)) * blocks_of(p->g->n, HALF_TILE_N);
}

static bool half_covers(const Product *p) {
  const Grouped *g = p->g;
  const int64_t width = p->sums ? g->m : g->k;
  return p->half && p->alignment >= 16 && (p->sums || g->block % (HALF_TILE_N / 2) == 0) && width % 8 == 0 &&
         g->n % 8 == 0 && whole(g->lda, g->type) && whole(g->ldb, g->type) && g->ldc % 2 == 0 &&
         (g->extent == 1 || (p->sums ? g->stride % 2 == 0 : whole(g->stride, g->type))) &&
         half_tiles(p) < INT_MAX / 2 && half_shared(p) <= p->target->shared_bytes;
}

static void half_write(Buffer *text, const Product *p, CudaKernel *made) {
  element_write(text, p->g);
  writer_size(text, "TILE_M", half_rows(p));
  writer_size(text, "STAGES", HALF_STAGES);
  buffer_text(text, cuda_text_grouped_half);
  writer_launch(made, "grouped", half_tiles(p), HALF_THREADS, half_shared(p));
}

// --- multiply-add ---

// Rows of a tile share a matrix.
static int64_t plain_rows(const Product *p) {
  int64_t rows = PLAIN_TILE;
  while (!p->sums && p->g->block % rows) {
    rows /= 2;
  }
  return rows;
}

static int64_t plain_tiles(const Product *p) {
  return (p->sums ? p->g->extent : 1) * blocks_of(height_of(p), plain_rows(p)) * blocks_of(p->g->n, PLAIN_TILE);
}

static void plain_write(Buffer *text, const Product *p, CudaKernel *made) {
  const int64_t rows = plain_rows(p), real = p->g->type == TYPE_F64 ? 8 : 4;
  buffer_text(text, cuda_text_formats);
  writer_format(text, "Format", p->g->type);
  writer_format(text, "FormatC", p->g->type_c);
  writer_size(text, "TILE_M", rows);
  buffer_text(text, cuda_text_grouped_plain);
  writer_launch(made, "grouped", plain_tiles(p), PLAIN_THREADS, PLAIN_DEEP * (rows + 1 + PLAIN_TILE + 4) * real);
}

// --- both ---

static void constants_write(Buffer *text, const Product *p) {
  const Grouped *g = p->g;
  buffer_format(text, "#define SUMS %d\n", p->sums);
  writer_size(text, "ROWS", g->rows);
  writer_size(text, "BLOCK", g->block);
  writer_size(text, "EXTENT", g->extent);
  writer_size(text, "M", g->m);
  writer_size(text, "N", g->n);
  writer_size(text, "K", g->k);
  writer_stride(text, "LDA", g->lda);
  writer_stride(text, "LDB", g->ldb);
  writer_stride(text, "LDC", g->ldc);
  writer_stride(text, "STRIDE", g->stride);
  writer_size(text, "TURNED", g->transpose_b);
  writer_size(text, "LEAVES", g->leaves);
  writer_size(text, "WRITE_ADDS", g->write == WRITE_ADD);
  writer_size(text, "WRITE_ADDS_AFTER_FIRST", g->write == WRITE_ADD_AFTER_FIRST);
  buffer_text(text, cuda_text_grouped);
}

static double bytes_of(const Product *p) {
  const Grouped *g = p->g;
  const double rows = (double)g->rows, matrices = (double)g->extent * (double)g->n;
  const double narrow = (double)element_type_bytes(g->type), wide = (double)element_type_bytes(g->type_c);
  return p->sums ? rows * (double)(g->m + g->n) * narrow + matrices * (double)g->m * wide
                 : rows * ((double)g->k * narrow + (double)g->n * wide) + matrices * (double)g->k * narrow;
}

bool cuda_grouped(const Grouped *grouped, bool sums, int alignment, const CudaTarget *target, Arena *arena,
                  CudaKernel *made, const char **why) {
  const Product p = {grouped, sums, is_half(grouped->type), alignment, target};
  Buffer text = {0};
  *why = problem_of(grouped);
  if (*why) {
    return false;
  }
  const bool hopper = hopper_covers(&p), half = !hopper && half_covers(&p);
  if (!hopper && !half && plain_tiles(&p) > INT_MAX / 2) {
    *why = "a product of chosen matrices of more than 2^30 tiles";
    return false;
  }
  const Shape shape = shape_of(&p);
  *made = (CudaKernel){.port_count = PORTS, .bytes = bytes_of(&p)};
  writer_target(&text);
  if (hopper) {
    warpgroup_products(&text, &shape.tile_n, 1, grouped->type == TYPE_F16 ? "f16" : "bf16");
  }
  writer_slots(&text, PORTS);
  constants_write(&text, &p);
  if (sums) {
    made->scratch_bytes = (grouped->extent <= TABLE_THREADS ? 2 : 1) * grouped->extent * WORK_BYTES;
    writer_launch(made, "grouped_table", 1, TABLE_THREADS, TABLE_THREADS * 4);
  }
  const char *type = element_type_name(grouped->type);
  if (hopper) {
    hopper_write(&text, &p, &shape, made);
    made->form = arena_format(arena, "warpgroups, %s, tiles of %d x %d, %d stages, clusters of %d", type, TILE_M,
                              (int)shape.tile_n, (int)shape.groups.stages, (int)shape.cluster);
  } else if (half) {
    half_write(&text, &p, made);
    made->form = arena_format(arena, "tensor cores, %s, tiles of %d x %d", type, (int)half_rows(&p), HALF_TILE_N);
  } else {
    plain_write(&text, &p, made);
    made->form = arena_format(arena, "multiply-add, %s, tiles of %d x %d", type, (int)plain_rows(&p), PLAIN_TILE);
  }
  made->form =
      arena_format(arena, "%s, %s", sums ? "sums of products by choice" : "products with chosen matrices", made->form);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}
