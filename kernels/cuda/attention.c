// attention.c: chooses the tiles of attention and writes its constants.
#include "kernels/cuda/attention.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

enum { PORTS_FORWARD = 7, PORTS_GRADIENT = 11, DEPTH_MOST = 256, PLAIN_SIDE = 64, PLAIN_THREADS = 256 };

typedef struct {  // of the kernels on tensor cores; see text/attention_half.cu and text/attention_grad.cu
  int64_t depth_pad, value_pad, row_k, row_v;
  // Warps of a thread block, 16-row blocks of each warp, and thread blocks that a multiprocessor shall hold.
  int64_t warps, blocks, units;  // forward
  int64_t key_tile;
  int64_t key_warps, key_blocks, key_units, query_tile;         // dk and dv
  int64_t query_warps, query_blocks, query_units, keys_a_time;  // dq
  int64_t delta_lanes;
  bool together;  // dk and dv in one launch
} Tiles;

static int64_t part_count(const Attention *a) {
  return a->parts > 1 ? a->parts : 1;
}

static bool is_half(const Attention *a) {
  return a->type == TYPE_BF16 || a->type == TYPE_F16;
}

// What fits the registers (255 a thread) without spilling, by the wider of the two depths.
static Tiles tiles_of(const Attention *a) {
  static const struct {
    int64_t most;
    Tiles tiles;
  } table[] = {
      {64,
       {.warps = 4,
        .blocks = 2,
        .units = 3,
        .key_tile = 64,
        .key_warps = 4,
        .key_blocks = 2,
        .key_units = 2,
        .query_tile = 32,
        .query_warps = 4,
        .query_blocks = 2,
        .query_units = 3,
        .keys_a_time = 32}},
      {128,
       {.warps = 4,
        .blocks = 2,
        .units = 2,
        .key_tile = 64,
        .key_warps = 8,
        .key_blocks = 1,
        .key_units = 1,
        .query_tile = 64,
        .query_warps = 4,
        .query_blocks = 2,
        .query_units = 2,
        .keys_a_time = 32}},
      {DEPTH_MOST,
       {.warps = 8,
        .blocks = 1,
        .units = 1,
        .key_tile = 64,
        .key_warps = 4,
        .key_blocks = 1,
        .key_units = 1,
        .query_tile = 32,
        .query_warps = 4,
        .query_blocks = 1,
        .query_units = 1,
        .keys_a_time = 32}},
  };
  int row = 0;
  while (table[row].most < a->depth || table[row].most < a->value_depth) {
    row++;
  }
  Tiles t = table[row].tiles;
  t.depth_pad = divide_up(a->depth, 16) * 16;
  t.value_pad = divide_up(a->value_depth, 16) * 16;
  t.row_k = t.depth_pad + 8;
  t.row_v = t.value_pad + 8;
  t.together = t.depth_pad + t.value_pad <= 256;
  for (t.delta_lanes = 1; t.delta_lanes < 32 && t.delta_lanes * 8 < a->value_depth;) {
    t.delta_lanes *= 2;
  }
  return t;
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// --- constants ---

static void strides_write(Buffer *text, const char *name, const int64_t *stride, const int64_t *size, int count,
                          const char *second) {
  const char *const dims[] = {"BATCH", second, "HEAD", "GROUP"};
  for (int d = 0; d < count; d++) {
    char full[32];
    snprintf(full, sizeof full, "%s_%s", name, dims[d]);
    writer_stride(text, full, size[d] > 1 ? stride[d] : 0);
  }
}

static bool strides_whole(const int64_t *stride, const int64_t *size, int count) {
  for (int d = 0; d < count; d++) {
    if (size[d] > 1 && stride[d] % 8 != 0) {
      return false;
    }
  }
  return true;
}

// All strides of one direction; true if every row of 16-bit elements begins at a multiple of 16 bytes.
static bool shapes_write(Buffer *text, const Attention *a, bool gradient) {
  const int64_t query[] = {a->batch, a->queries, a->heads, a->groups}, key[] = {a->batch, a->keys, a->heads};
  const struct {
    const char *name;
    const int64_t *stride;
    bool of_keys, of_gradient;
  } tensors[] = {{"Q", a->stride_q, false, false}, {"K", a->stride_k, true, false},   {"V", a->stride_v, true, false},
                 {"O", a->stride_o, false, false}, {"DO", a->stride_do, false, true}, {"DQ", a->stride_dq, false, true},
                 {"DK", a->stride_dk, true, true}, {"DV", a->stride_dv, true, true}};
  bool whole = a->depth % 8 == 0 && a->value_depth % 8 == 0;
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    if (gradient || !tensors[i].of_gradient) {
      const int64_t *size = tensors[i].of_keys ? key : query;
      const int count = tensors[i].of_keys ? 3 : 4;
      strides_write(text, tensors[i].name, tensors[i].stride, size, count, tensors[i].of_keys ? "KEY" : "QUERY");
      whole = whole && strides_whole(tensors[i].stride, size, count);
    }
  }
  writer_size(text, "BATCH", a->batch);
  writer_size(text, "QUERIES", a->queries);
  writer_size(text, "KEYS", a->keys);
  writer_size(text, "HEADS", a->heads);
  writer_size(text, "GROUPS", a->groups);
  writer_size(text, "DEPTH", a->depth);
  writer_size(text, "VALUE_DEPTH", a->value_depth);
  writer_size(text, "PARTS", part_count(a));
  writer_size(text, "PART_QUERIES", a->queries / part_count(a));
  writer_size(text, "CAUSAL", a->causal);
  return whole;
}

static double bytes_of(const Attention *a, bool gradient) {
  const double element = (double)element_type_bytes(a->type);
  const double statistic = a->type == TYPE_F64 ? 8 : 4, rows = (double)(a->batch * a->heads);
  const double queries = rows * (double)(a->groups * a->queries), keys = rows * (double)a->keys;
  const double deep = (double)a->depth, value = (double)a->value_depth;
  const double forward = element * (queries * (deep + value) + keys * (deep + value)) + statistic * queries;
  return gradient ? 2 * element * (queries * (deep + value) + keys * (deep + value)) + statistic * queries : forward;
}

// --- tensor cores ---

static void half_forward(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made) {
  const int64_t queries = t->warps * t->blocks * 16;
  const int64_t tiles = part_count(a) * divide_up(a->queries / part_count(a), queries);
  const int64_t shared = 2 * (queries * larger(t->row_k, t->row_v) + t->key_tile * t->row_k + t->key_tile * t->row_v);
  writer_size(text, "WARPS", t->warps);
  writer_size(text, "WARP_BLOCKS", t->blocks);
  writer_size(text, "KEY_TILE", t->key_tile);
  writer_size(text, "BLOCKS_PER_UNIT", t->units);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_half);
  writer_launch(made, "attention_forward", a->batch * a->heads * a->groups * tiles, (int)t->warps * 32, shared);
}

static void half_gradient(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made) {
  const int64_t both = t->row_k + t->row_v, lines = a->batch * a->heads * a->groups;
  const int64_t key_rows = t->key_warps * t->key_blocks * 16, query_rows = t->query_warps * t->query_blocks * 16;
  const int64_t key_shared = 2 * (key_rows * both + 2 * (t->query_tile * both + t->query_tile * 4));
  const int64_t query_shared = 2 * (query_rows * both + 2 * t->keys_a_time * both);
  const int64_t key_blocks = a->batch * a->heads * divide_up(a->keys, key_rows);
  const int64_t tiles = part_count(a) * divide_up(a->queries / part_count(a), query_rows);
  writer_size(text, "KEY_WARPS", t->key_warps);
  writer_size(text, "KEY_BLOCKS", t->key_blocks);
  writer_size(text, "QUERY_TILE", t->query_tile);
  writer_size(text, "KEY_BLOCKS_PER_UNIT", t->key_units);
  writer_size(text, "QUERY_WARPS", t->query_warps);
  writer_size(text, "QUERY_BLOCKS", t->query_blocks);
  writer_size(text, "KEY_TILE", t->keys_a_time);
  writer_size(text, "QUERY_BLOCKS_PER_UNIT", t->query_units);
  writer_size(text, "DELTA_LANES", t->delta_lanes);
  buffer_format(text, "#define KEYS_TOGETHER %d\n", t->together);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_grad);
  writer_launch(made, "attention_delta", divide_up(lines * a->queries * t->delta_lanes, 256), 256, 0);
  if (t->together) {
    writer_launch(made, "attention_keys", key_blocks, (int)t->key_warps * 32, key_shared);
  } else {
    writer_launch(made, "attention_dv", key_blocks, (int)t->key_warps * 32, key_shared);
    writer_launch(made, "attention_dk", key_blocks, (int)t->key_warps * 32, key_shared);
  }
  writer_launch(made, "attention_dq", lines * tiles, (int)t->query_warps * 32, query_shared);
}

static void half_write(Buffer *text, const Attention *a, bool gradient, bool whole, Arena *arena, CudaKernel *made) {
  const Tiles t = tiles_of(a);
  const double scale = fabs(a->scale) > 1e-30 ? a->scale : 1e-30;
  writer_size(text, "WHOLE", whole);
  writer_float(text, "SCALE", a->scale);
  writer_float(text, "POWER", (gradient ? scale : fabs(scale)) / M_LN2);
  writer_float(text, "NATURAL", M_LN2);
  writer_float(text, "INVERSE_NATURAL", 1 / M_LN2);
  buffer_format(text, "#define NEGATIVE %d\n#define ELEMENT_F16 %d\n", scale < 0, a->type == TYPE_F16);
  if (gradient) {
    half_gradient(text, a, &t, made);
  } else {
    half_forward(text, a, &t, made);
  }
  made->form = arena_format(arena, "attention%s%s, tensor cores, %s, tiles of %d x %d", gradient ? " gradient" : "",
                            a->causal ? ", causal" : "", element_type_name(a->type),
                            (int)(gradient ? t.key_warps * t.key_blocks * 16 : t.warps * t.blocks * 16),
                            (int)(gradient ? t.query_tile : t.key_tile));
}

// --- multiply-add ---

static void plain_write(Buffer *text, const Attention *a, bool gradient, Arena *arena, CudaKernel *made) {
  const int64_t real = a->type == TYPE_F64 ? 8 : 4, shared = 2 * PLAIN_SIDE * (PLAIN_SIDE + 4) * real;
  const int64_t sums = divide_up(a->depth, PLAIN_SIDE) + divide_up(a->value_depth, PLAIN_SIDE);
  const bool together = sums * real <= 4 * 4;
  const int64_t lines = a->batch * a->heads * a->groups;
  const int64_t tiles = part_count(a) * divide_up(a->queries / part_count(a), PLAIN_SIDE);
  const int64_t key_blocks = a->batch * a->heads * divide_up(a->keys, PLAIN_SIDE);
  writer_real(text, "SCALE", a->scale);
  buffer_format(text, "#define KEYS_TOGETHER %d\n", together);
  buffer_text(text, cuda_text_formats);
  writer_format(text, "Format", a->type);
  buffer_text(text, gradient ? "#define GRADIENT 1\n" : "#define GRADIENT 0\n");
  buffer_text(text, cuda_text_attention_plain);
  if (!gradient) {
    writer_launch(made, "attention_forward", lines * tiles, PLAIN_THREADS, shared);
  } else {
    writer_launch(made, "attention_delta", divide_up(lines * a->queries * 32, PLAIN_THREADS), PLAIN_THREADS, 0);
    if (together) {
      writer_launch(made, "attention_keys", key_blocks, PLAIN_THREADS, shared);
    } else {
      writer_launch(made, "attention_dv", key_blocks, PLAIN_THREADS, shared);
      writer_launch(made, "attention_dk", key_blocks, PLAIN_THREADS, shared);
    }
    writer_launch(made, "attention_dq", lines * tiles, PLAIN_THREADS, shared);
  }
  made->form = arena_format(arena, "attention%s%s, multiply-add, %s, tiles of 64 x 64", gradient ? " gradient" : "",
                            a->causal ? ", causal" : "", element_type_name(a->type));
}

static const char *problem_of(const Attention *a) {
  const int64_t size[] = {a->batch, a->queries, a->keys, a->heads, a->groups, a->depth, a->value_depth};
  if (!is_half(a) && a->type != TYPE_F32 && a->type != TYPE_F64) {
    return "attention is for f64, f32, f16 and bf16";
  }
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    if (size[i] < 1 || size[i] > INT_MAX / 2) {
      return "attention over a size that is not between 1 and 2^30";
    }
  }
  if (a->depth > DEPTH_MOST || a->value_depth > DEPTH_MOST) {
    return "attention with heads deeper than 256";
  }
  if (a->parts > 2 || a->queries % part_count(a) != 0) {
    return "attention whose queries are not in one or two equal parts";
  }
  const double lines = (double)a->batch * (double)a->heads * (double)a->groups;
  if (lines * (double)larger(a->queries, a->keys) > INT_MAX) {
    return "attention with more than 2^31 rows";
  }
  return NULL;
}

bool cuda_attention(const Attention *attention, bool gradient, Arena *arena, CudaKernel *made, const char **why) {
  Buffer text = {0};
  *why = problem_of(attention);
  if (*why) {
    return false;
  }
  *made = (CudaKernel){.port_count = gradient ? PORTS_GRADIENT : PORTS_FORWARD};
  made->bytes = bytes_of(attention, gradient);
  if (gradient) {
    made->scratch_bytes = attention->batch * attention->heads * attention->groups * attention->queries *
                          (attention->type == TYPE_F64 ? 8 : 4);
  }
  writer_begin(&text, made->port_count);
  const bool whole = shapes_write(&text, attention, gradient);
  if (is_half(attention)) {
    half_write(&text, attention, gradient, whole, arena, made);
  } else {
    plain_write(&text, attention, gradient, arena, made);
  }
  writer_end(&text, arena, made);
  if (!made->text) {
    *why = "no memory";
  }
  return made->text != NULL;
}
