// attention_hopper.c: see attention_hopper.h.
#include "kernels/cuda/attention_hopper.h"

#include <assert.h>

#include "base/integer.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/warpgroups.h"
#include "kernels/cuda/writer.h"

enum { CHUNK = 64, LINE = 128, ALIGNED = 1024, PHASE = 8, GROUP = 64 };  // a row of a tile: elements and bytes
enum { GRADIENT_QUERIES = 64, DEPTH_MOST = 256 };

typedef struct {  // of a kernel
  Warpgroups groups;
  int64_t keys;
  int64_t step, buffers;  // of the gradient: queries that scores are made of at a time; places for dq
  bool columns;           // each consumer has half the columns of dk and dv, else half the keys
} Shape;

typedef struct {
  int64_t depth, value;  // padded to 16
  int64_t chunks_k, chunks_v;
} Widths;

static Widths widths_of(const Attention *a) {
  const int64_t depth = round_up(a->depth, 16), value = round_up(a->value_depth, 16);
  return (Widths){depth, value, blocks_of(depth, CHUNK), blocks_of(value, CHUNK)};
}

static int64_t parts_of(const Attention *a) {
  return a->parts > 1 ? a->parts : 1;
}

// Three consumers where the depth leaves them the registers and short sequences do not end in much of a tile unused:
// on an H200, at a depth of 64, T 4096: 469 TFLOP/s, and 433 with two; T 1024: 287 and 319.
static Shape forward_shape(const Attention *a, const Widths *w) {
  if (w->chunks_k == 1 && w->chunks_v == 1 && a->queries / parts_of(a) > 1536) {
    return (Shape){{3, 2, 32, 160}, 128, 0, 0, false};
  }
  return (Shape){{2, 2, 24, 240}, w->value <= 128 ? 128 : 80, 0, 0, false};
}

// Bytes of shared memory, as the texts lay them out.
static int64_t forward_shared(const Widths *w, const Shape *s) {
  const int64_t tiles =
      s->groups.consumers * GROUP * w->chunks_k + s->groups.stages * s->keys * (w->chunks_k + w->chunks_v);
  return ALIGNED + tiles * LINE + (2 + 4 * s->groups.stages) * PHASE;
}

// Tiles of ds, and p, in shared memory.
static int64_t shared_scores(const Shape *s) {
  return s->columns ? 2 : s->buffers;
}

static int64_t gradient_shared(const Widths *w, const Shape *s) {
  const int64_t chunks = w->chunks_k + w->chunks_v, dq = s->buffers * GRADIENT_QUERIES * w->chunks_k * CHUNK * 4;
  const int64_t tiles = s->keys * (chunks + shared_scores(s)) + s->groups.stages * GRADIENT_QUERIES * chunks;
  return ALIGNED + tiles * LINE + dq + 2 * s->groups.stages * GRADIENT_QUERIES * 4 +
         (1 + 2 * s->buffers + 5 * s->groups.stages) * PHASE;
}

// Blocks of as many keys as registers hold dk and dv of: 240 of a thread, less 80 for the rest. With more stages than
// one where they fit.
static Shape gradient_shape(const Widths *w, const CudaTarget *target) {
  if (w->depth <= 128 && w->value <= 128) {
    return (Shape){{2, w->chunks_k == 1 && w->chunks_v == 1 ? 3 : 2, 24, 240}, 128, 64, 2, false};
  }
  Shape shape = {{2, 2, 24, 240}, 128, 32, 1, false};
  if (w->depth > 192 || w->depth + w->value > 320) {
    shape.keys = 64;
    shape.columns = true;
  }
  if (gradient_shared(w, &shape) > target->shared_bytes) {
    shape.groups.stages = 1;
  }
  return shape;
}

static int64_t query_tiles(const Attention *a, int64_t rows) {
  return parts_of(a) * blocks_of(a->queries / parts_of(a), rows);
}

static int64_t lines_of(const Attention *a) {
  return a->batch * a->heads * a->groups;
}

bool attention_hopper_covers(const Attention *a, bool gradient, bool whole, const CudaTarget *target) {
  const Widths w = widths_of(a);
  const Shape shape = gradient ? gradient_shape(&w, target) : forward_shape(a, &w);
  if (!target->warpgroups || !whole || w.depth > DEPTH_MOST || w.value > DEPTH_MOST || (a->scale < 0 && !a->biased)) {
    return false;
  }
  return (gradient ? gradient_shared(&w, &shape) : forward_shared(&w, &shape)) <= target->shared_bytes;
}

// The widths of half the columns: of whole tiles, and of half of one.
static int64_t half_whole(int64_t chunks) {
  return chunks / 2 * CHUNK;
}

static int64_t half_middle(int64_t chunks) {
  return chunks % 2 * CHUNK / 2;
}

void attention_hopper_begin(Buffer *text, const Attention *a, bool gradient, const CudaTarget *target) {
  const Widths w = widths_of(a);
  const Shape shape = gradient ? gradient_shape(&w, target) : forward_shape(a, &w);
  const int64_t own[] = {shape.keys, w.value};
  const int64_t halves[] = {shape.step, half_whole(w.chunks_k), half_middle(w.chunks_k),
                            shape.columns ? half_whole(w.chunks_v) : w.value,
                            shape.columns ? half_middle(w.chunks_v) : w.depth};
  const char *type = a->type == TYPE_F16 ? "f16" : "bf16";
  if (gradient) {
    warpgroup_products(text, halves, 5, type);
  } else {
    warpgroup_products(text, own, 2, type);
  }
}

// --- the rest ---

// A tensor of [batch, rows, head, group] with `strides`, without groups for keys, in boxes of `box` rows.
static void map_add(CudaKernel *made, const Attention *a, int port, const int64_t *strides, bool keys, int64_t depth,
                    int64_t box) {
  const int64_t size[CUDA_MAP_DIMS] = {depth, keys ? a->keys : a->queries, a->heads, keys ? 1 : a->groups, a->batch};
  const int64_t stride[CUDA_MAP_DIMS] = {1, strides[1], strides[2], keys ? 0 : strides[3], strides[0]};
  CudaMap *map = &made->map[made->map_count++];
  assert(made->map_count <= CUDA_MAX_MAPS);
  *map = (CudaMap){.port = port, .f16 = a->type == TYPE_F16};
  for (int i = 0; i < CUDA_MAP_DIMS; i++) {
    map->size[i] = size[i];
    map->stride[i] = i > 0 && size[i] == 1 ? 8 : stride[i];
    map->box[i] = i == 0 ? CHUNK : i == 1 ? (int)box : 1;
  }
}

// Tiles of queries and keys, and the table of what is known of them, behind what else the scratch holds.
static void blocks_write(Buffer *text, const Attention *a, const AttentionScores *scores, int64_t queries, int64_t keys,
                         CudaKernel *made) {
  const int64_t key_parts = a->key_parts > 1 ? a->key_parts : 1;
  const int64_t rows = a->batch * query_tiles(a, queries), columns = key_parts * blocks_of(a->keys / key_parts, keys);
  writer_size(text, "QUERY_TILE", queries);
  writer_size(text, "KEY_TILE", keys);
  writer_size(text, "TABLE", made->scratch_bytes);
  buffer_text(text, cuda_text_attention_place);
  buffer_text(text, cuda_text_attention_blocks);
  if (attention_scores_hide(scores)) {
    made->scratch_bytes += rows * columns * 4;
    writer_launch(made, "attention_blocks", rows, 256, 0);
  }
}

static void forward_write(Buffer *text, const Attention *a, const AttentionScores *scores, const Widths *w,
                          const Shape *shape, const CudaTarget *target, CudaKernel *made) {
  const int64_t rows = shape->groups.consumers * GROUP, tiles = lines_of(a) * query_tiles(a, rows);
  map_add(made, a, 0, a->stride_q, false, a->depth, rows);
  map_add(made, a, 1, a->stride_k, true, a->depth, shape->keys);
  map_add(made, a, 2, a->stride_v, true, a->value_depth, shape->keys);
  warpgroups_write(text, &shape->groups, made);
  writer_size(text, "QUERY_BLOCKS", 1);
  blocks_write(text, a, scores, rows, shape->keys, made);
  buffer_text(text, cuda_text_attention_score);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_softmax);
  buffer_text(text, cuda_text_warpgroups);
  buffer_text(text, cuda_text_attention_hopper);
  buffer_text(text, cuda_text_attention_hopper_forward);
  writer_launch(made, "attention_forward", min_i64(tiles, target->multiprocessors),
                (int)(shape->groups.consumers + 1) * 128, forward_shared(w, shape));
}

static void gradient_write(Buffer *text, const Attention *a, const AttentionScores *scores, const Widths *w,
                           const Shape *shape, CudaKernel *made) {
  const int64_t tiles = lines_of(a) * query_tiles(a, GRADIENT_QUERIES), rows = tiles * GRADIENT_QUERIES;
  const int64_t parts = a->key_parts > 1 ? a->key_parts : 1,
                key_tiles = parts * blocks_of(a->keys / parts, shape->keys);
  int64_t lanes = 1;
  while (lanes < 32 && lanes * 8 < a->value_depth) {
    lanes *= 2;
  }
  map_add(made, a, 0, a->stride_q, false, a->depth, GRADIENT_QUERIES);
  map_add(made, a, 1, a->stride_k, true, a->depth, shape->keys);
  map_add(made, a, 2, a->stride_v, true, a->value_depth, shape->keys);
  map_add(made, a, 5, a->stride_do, false, a->value_depth, GRADIENT_QUERIES);
  warpgroups_write(text, &shape->groups, made);
  writer_size(text, "DELTA_LANES", lanes);
  writer_size(text, "QUERY_STEP", shape->step);
  writer_size(text, "BUFFERS", shape->buffers);
  writer_size(text, "S_TILES", shared_scores(shape));
  made->scratch_bytes = 4 * (rows * (w->chunks_k * CHUNK + 2) + tiles);
  blocks_write(text, a, scores, GRADIENT_QUERIES, shape->keys, made);
  buffer_text(text, cuda_text_attention_score);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_delta);
  buffer_text(text, cuda_text_attention_walk);
  buffer_text(text, cuda_text_warpgroups);
  buffer_text(text, cuda_text_attention_hopper);
  buffer_text(text, cuda_text_attention_hopper_grad);
  buffer_text(text, shape->columns ? cuda_text_attention_hopper_columns : cuda_text_attention_hopper_keys);
  writer_launch(made, "attention_delta", blocks_of(rows * lanes, 256), 256, 0);
  writer_launch(made, "attention_keys", a->batch * a->heads * key_tiles, (int)(shape->groups.consumers + 1) * 128,
                gradient_shared(w, shape));
  writer_launch(made, "attention_dq", tiles, 256, 0);
}

void attention_hopper_write(Buffer *text, const Attention *a, bool gradient, const AttentionScores *scores,
                            const CudaTarget *target, CudaKernel *made, int64_t *rows, int64_t *tile) {
  const Widths w = widths_of(a);
  const Shape shape = gradient ? gradient_shape(&w, target) : forward_shape(a, &w);
  *rows = gradient ? shape.keys : shape.groups.consumers * GROUP;
  *tile = gradient ? GRADIENT_QUERIES : shape.keys;
  if (gradient) {
    gradient_write(text, a, scores, &w, &shape, made);
  } else {
    forward_write(text, a, scores, &w, &shape, target, made);
  }
}
