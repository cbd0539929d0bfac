// attention.c: chooses the tiles of attention and writes its constants.
#include "kernels/cuda/attention.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

enum { PORTS_ORIGINS = 2, PORTS_RING = 2, DEPTH_MOST = 256, PLAIN_SIDE = 64, PLAIN_THREADS = 256 };

// The maximum, or its power of two, of a query that has seen no key yet: less than that of any score, and not infinite,
// so that it subtracts to no NaN.
static const double LOWEST_SCORE = 1e30, LOWEST_POWER = 0x1p120;

typedef struct {  // of a kernel on tensor cores; see text/attention_half.cu and text/attention_grad.cu
  // Warps of a thread block, 16-row blocks of each warp, thread blocks that a multiprocessor shall hold, and the rows
  // of the tiles that a thread block goes over.
  int64_t warps, blocks, units, tile;
} Shape;

typedef struct {
  Shape forward, keys, queries;  // keys: dk and dv, queries: dq
  int64_t query_step;            // rows of a tile of `keys` that are computed at a time
  int64_t row_k, row_v;          // elements of a row in shared memory
  int64_t delta_lanes;
  bool together;  // dk and dv in one launch
} Tiles;

static int64_t part_count(const Attention *a) {
  return a->parts > 1 ? a->parts : 1;
}

static int64_t key_part_count(const Attention *a) {
  return a->key_parts > 1 ? a->key_parts : 1;
}

bool cuda_attention_rings(const Attention *a) {
  return a->ring || a->more || a->more_keys || a->key_end || a->key_parts > 1 || a->key_origin[0] ||
         a->key_origin_term[0];
}

static bool is_half(const Attention *a) {
  return a->type == TYPE_BF16 || a->type == TYPE_F16;
}

static int64_t rows_of(const Shape *shape) {
  return shape->warps * shape->blocks * 16;
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Bytes of shared memory, as the texts lay them out.
static int64_t forward_shared(const Tiles *t) {
  return 2 * (rows_of(&t->forward) * larger(t->row_k, t->row_v) + t->forward.tile * (t->row_k + t->row_v));
}

static int64_t keys_shared(const Tiles *t) {
  const int64_t both = t->row_k + t->row_v;
  return 2 * (rows_of(&t->keys) * both + 2 * t->keys.tile * (both + 4));
}

static int64_t queries_shared(const Tiles *t) {
  return 2 * (rows_of(&t->queries) + 2 * t->queries.tile) * (t->row_k + t->row_v);
}

// The best of those measured on an H200 (depths of 64 and 128) that suits the depth, the wider of the two, and the
// shared memory. The first of a depth wants the 163 KiB of sm_80, the last the 99 KiB of sm_86 and sm_89. Those up to
// 128 fit the registers of a thread. False if the GPU has less shared memory than any.
static bool tiles_of(const Attention *a, int64_t shared_bytes, Tiles *tiles) {
  static const struct {
    int64_t depth, step;  // depth: at most
    Shape forward, keys, backward;
  } table[] = {
      {64, 32, {4, 2, 3, 64}, {4, 2, 2, 64}, {4, 2, 3, 32}},
      {128, 64, {4, 2, 2, 64}, {8, 1, 1, 64}, {4, 2, 2, 32}},
      {128, 32, {4, 2, 1, 64}, {4, 1, 1, 32}, {4, 1, 1, 32}},
      {DEPTH_MOST, 32, {8, 1, 1, 64}, {4, 1, 1, 32}, {4, 1, 1, 32}},
      {DEPTH_MOST, 16, {4, 1, 1, 32}, {3, 1, 1, 16}, {4, 1, 1, 16}},
  };
  const int64_t depth = divide_up(a->depth, 16) * 16, value = divide_up(a->value_depth, 16) * 16;
  Tiles t = {.row_k = depth + 8, .row_v = value + 8, .together = depth + value <= 256};
  for (t.delta_lanes = 1; t.delta_lanes < 32 && t.delta_lanes * 8 < a->value_depth;) {
    t.delta_lanes *= 2;
  }
  for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
    t.query_step = table[row].step;
    t.forward = table[row].forward;
    t.keys = table[row].keys;
    t.queries = table[row].backward;
    if (table[row].depth >= larger(depth, value) &&
        larger(forward_shared(&t), larger(keys_shared(&t), queries_shared(&t))) <= shared_bytes) {
      *tiles = t;
      return true;
    }
  }
  return false;
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

// Tensors that a kernel is given in any case. Behind them comes what statistics have lost,
// or, backward, their gradient.
static int tensors_of(InstructionKind kind) {
  return kind == INSTRUCTION_ATTENTION ? 5 : kind == INSTRUCTION_ATTENTION_GRAD ? 9 : 7;
}

static int behind_of(const Attention *a, InstructionKind kind) {
  return kind == INSTRUCTION_ATTENTION ? a->large : a->seeded;
}

// All strides of one direction; true if every row of 16-bit elements begins at a multiple of 16 bytes.
static bool shapes_write(Buffer *text, const Attention *a, InstructionKind kind) {
  const bool gradient = kind != INSTRUCTION_ATTENTION;
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
  writer_size(text, "WINDOW", a->window);
  writer_size(text, "BIASED", a->biased);
  writer_size(text, "LARGE", a->large);
  writer_size(text, "SEEDED", gradient && a->seeded);
  writer_size(text, "BEHIND", tensors_of(kind));  // the slot of the gradient of statistics, or of what they have lost
  writer_size(text, "RING", cuda_attention_rings(a));
  writer_size(text, "KEY_PARTS", key_part_count(a));
  writer_size(text, "PART_KEYS", a->keys / key_part_count(a));
  writer_size(text, "KEY_END", a->key_end);
  writer_size(text, "MORE", a->more);
  writer_size(text, "MORE_KEYS", a->more_keys);
  if (kind == INSTRUCTION_ATTENTION_CAPTURED) {
    static const char *const strides[] = {"DC_BATCH", "DC_HEAD", "DC_GROUP", "DC_KEY", "DC_QUERY"};
    for (int i = 0; i < SCORE_DIMS; i++) {
      writer_stride(text, strides[i], a->stride_captured[i]);
    }
    buffer_format(text, "#define BY_KEY %d\n#define BY_PAIR %d\n", a->by == CAPTURED_BY_KEY, a->by == CAPTURED_BY_PAIR);
  }
  return whole;
}

static double captured_elements(const Attention *a) {
  const int64_t size[] = {a->batch, a->heads, a->groups, a->keys, a->queries};
  double elements = 1;
  for (int i = 0; i < SCORE_DIMS; i++) {
    elements *= a->stride_captured[i] ? (double)size[i] : 1;
  }
  return elements;
}

// Of a block of keys, the statistics and what is added to are read and written.
static double bytes_of(const Attention *a, InstructionKind kind) {
  const double element = (double)element_type_bytes(a->type), made = is_half(a) && a->wide ? 4 : element;
  const double statistic = a->type == TYPE_F64 ? 8 : 4, rows = (double)(a->batch * a->heads);
  const double queries = rows * (double)(a->groups * a->queries), keys = rows * (double)a->keys;
  const double deep = (double)a->depth, value = (double)a->value_depth;
  const double o = made * queries * value * (a->more ? 2 : 1), dq = made * queries * deep * (a->more ? 2 : 1);
  const double dk_dv = made * keys * (deep + value) * (a->more_keys ? 2 : 1);
  const double read = element * (queries * deep + keys * (deep + value));
  const double again = read + 2 * element * queries * value + statistic * queries;
  return kind == INSTRUCTION_ATTENTION_GRAD       ? again + dq + dk_dv
         : kind == INSTRUCTION_ATTENTION_CAPTURED ? again + statistic * captured_elements(a)
                                                  : read + o + statistic * queries * (a->more ? 2 : 1);
}

// Thread blocks of kernels whose blocks have `rows` queries, or keys, of one part.
static int64_t query_tiles(const Attention *a, int64_t rows) {
  return a->batch * a->heads * a->groups * part_count(a) * divide_up(a->queries / part_count(a), rows);
}

static int64_t key_tiles(const Attention *a, int64_t rows) {
  return a->batch * a->heads * key_part_count(a) * divide_up(a->keys / key_part_count(a), rows);
}

static const char *form_of(const Attention *a, InstructionKind kind, Arena *arena) {
  static const char *const captured[] = {" gradient of what is captured by query",
                                         " gradient of what is captured by key",
                                         " gradient of what is captured by pair"};
  const char *what = kind == INSTRUCTION_ATTENTION        ? ""
                     : kind == INSTRUCTION_ATTENTION_GRAD ? " gradient"
                                                          : captured[a->by];
  return arena_format(arena, "attention%s%s%s%s", what, a->causal ? ", causal" : "",
                      a->biased  ? ", linear biases"
                      : a->score ? ", scores of the text"
                                 : "",
                      cuda_attention_rings(a) ? ", a block of a ring" : "");
}

// --- tensor cores ---

// The four constants of a kernel's shape.
static void shape_write(Buffer *text, const Shape *shape, const char *rows, const char *tile) {
  const struct {
    const char *name;
    int64_t value;
  } constants[] = {{"WARPS", shape->warps}, {"BLOCKS", shape->blocks}, {"BLOCKS_PER_UNIT", shape->units}};
  char name[32];
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s_%s", rows, constants[i].name);
    writer_size(text, name, constants[i].value);
  }
  writer_size(text, tile, shape->tile);
}

static void half_forward(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made, int64_t *rows,
                         int64_t *tile) {
  *rows = rows_of(&t->forward);
  *tile = t->forward.tile;
  shape_write(text, &t->forward, "QUERY", "KEY_TILE");
  buffer_text(text, cuda_text_attention_place);
  buffer_text(text, cuda_text_attention_score);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_softmax);
  buffer_text(text, cuda_text_attention_half);
  writer_launch(made, "attention_forward", query_tiles(a, rows_of(&t->forward)), (int)t->forward.warps * 32,
                forward_shared(t));
}

// What both gradients begin with.
static void half_again(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made) {
  const int64_t lines = a->batch * a->heads * a->groups;
  shape_write(text, &t->keys, "KEY", "QUERY_TILE");
  shape_write(text, &t->queries, "QUERY", "KEY_TILE");
  writer_size(text, "QUERY_STEP", t->query_step);
  writer_size(text, "DELTA_LANES", t->delta_lanes);
  buffer_format(text, "#define KEYS_TOGETHER %d\n", t->together);
  buffer_text(text, cuda_text_attention_place);
  buffer_text(text, cuda_text_attention_score);
  buffer_text(text, cuda_text_attention_tile);
  buffer_text(text, cuda_text_attention_delta);
  buffer_text(text, cuda_text_attention_walk);
  buffer_text(text, cuda_text_attention_again);
  writer_launch(made, "attention_delta", divide_up(lines * a->queries * t->delta_lanes, 256), 256, 0);
}

static void half_captured(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made, int64_t *rows,
                          int64_t *tile) {
  const bool by_key = a->by == CAPTURED_BY_KEY;
  const Shape *shape = by_key ? &t->keys : &t->queries;
  *rows = rows_of(shape);
  *tile = shape->tile;
  half_again(text, a, t, made);
  buffer_text(text, cuda_text_attention_pairs);
  buffer_text(text, cuda_text_attention_captured);
  writer_launch(made, "attention_captured", by_key ? key_tiles(a, *rows) : query_tiles(a, *rows),
                (int)shape->warps * 32, by_key ? keys_shared(t) : queries_shared(t));
}

static void half_gradient(Buffer *text, const Attention *a, const Tiles *t, CudaKernel *made, int64_t *rows,
                          int64_t *tile) {
  const int64_t key_blocks = key_tiles(a, rows_of(&t->keys));
  *rows = rows_of(&t->keys);
  *tile = t->keys.tile;
  half_again(text, a, t, made);
  buffer_text(text, cuda_text_attention_grad);
  if (t->together) {
    writer_launch(made, "attention_keys", key_blocks, (int)t->keys.warps * 32, keys_shared(t));
  } else {
    writer_launch(made, "attention_dv", key_blocks, (int)t->keys.warps * 32, keys_shared(t));
    writer_launch(made, "attention_dk", key_blocks, (int)t->keys.warps * 32, keys_shared(t));
  }
  writer_launch(made, "attention_dq", query_tiles(a, rows_of(&t->queries)), (int)t->queries.warps * 32,
                queries_shared(t));
}

// What all texts of 16-bit elements begin with.
static void half_constants(Buffer *text, const Attention *a, bool gradient, bool whole) {
  // With biases the texts scale the scores themselves, and their power is 1.
  const double scale = a->biased ? M_LN2 : fabs(a->scale) > 1e-30 ? a->scale : 1e-30;
  writer_size(text, "WHOLE", whole);
  writer_float(text, "SCALE", a->scale);
  writer_float(text, "SCORE_POWER", a->scale / M_LN2);
  writer_float(text, "POWER", (gradient ? scale : fabs(scale)) / M_LN2);
  writer_float(text, "NATURAL", M_LN2);
  writer_float(text, "INVERSE_NATURAL", 1 / M_LN2);
  writer_float(text, "LOWEST", a->large ? -FLT_MAX : -LOWEST_POWER / fmax(fabs(scale) / M_LN2, 1));
  writer_size(text, "WIDE", a->wide);
  buffer_format(text, "typedef %s Made;\n", a->wide ? "float" : "u16");
  buffer_format(text, "#define NEGATIVE %d\n#define ELEMENT_F16 %d\n", scale < 0, a->type == TYPE_F16);
  buffer_text(text, cuda_text_halves);
}

// --- multiply-add ---

static void plain_write(Buffer *text, const Attention *a, InstructionKind kind, Arena *arena, CudaKernel *made) {
  const bool captured = kind == INSTRUCTION_ATTENTION_CAPTURED;
  const int64_t real = a->type == TYPE_F64 ? 8 : 4, shared = 2 * PLAIN_SIDE * (PLAIN_SIDE + 4) * real;
  const int64_t sums = divide_up(a->depth, PLAIN_SIDE) + divide_up(a->value_depth, PLAIN_SIDE);
  const bool together = sums * real <= 4 * 4;
  const int64_t lines = a->batch * a->heads * a->groups;
  const int64_t query_blocks = query_tiles(a, PLAIN_SIDE);
  const int64_t key_blocks = key_tiles(a, PLAIN_SIDE);
  writer_real(text, "SCALE", a->scale);
  writer_real(text, "LOWEST", !a->large ? -LOWEST_SCORE : real == 8 ? -DBL_MAX : -FLT_MAX);
  buffer_format(text, "#define KEYS_TOGETHER %d\n", together);
  buffer_text(text, cuda_text_formats);
  writer_format(text, "Format", a->type);
  buffer_format(text, "#define BACKWARD %d\n", kind == INSTRUCTION_ATTENTION ? 0 : captured ? 2 : 1);
  buffer_text(text, cuda_text_attention_place);
  buffer_text(text, cuda_text_attention_score);
  if (captured) {
    buffer_text(text, cuda_text_attention_pairs);
  }
  buffer_text(text, cuda_text_attention_plain);
  if (kind == INSTRUCTION_ATTENTION) {
    writer_launch(made, "attention_forward", query_blocks, PLAIN_THREADS, shared);
  } else {
    writer_launch(made, "attention_delta", divide_up(lines * a->queries * 32, PLAIN_THREADS), PLAIN_THREADS, 0);
  }
  if (captured) {
    writer_launch(made, "attention_captured", a->by == CAPTURED_BY_KEY ? key_blocks : query_blocks, PLAIN_THREADS,
                  shared);
  } else if (kind == INSTRUCTION_ATTENTION_GRAD) {
    if (together) {
      writer_launch(made, "attention_keys", key_blocks, PLAIN_THREADS, shared);
    } else {
      writer_launch(made, "attention_dv", key_blocks, PLAIN_THREADS, shared);
      writer_launch(made, "attention_dk", key_blocks, PLAIN_THREADS, shared);
    }
    writer_launch(made, "attention_dq", query_blocks, PLAIN_THREADS, shared);
  }
  made->form = arena_format(arena, "%s, multiply-add, %s, tiles of 64 x 64", form_of(a, kind, arena),
                            element_type_name(a->type));
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
  if ((a->more || a->more_keys) && is_half(a) && !a->wide) {
    return "attention cannot add a block of keys to what is in 16 bits";
  }
  if (a->depth > DEPTH_MOST || a->value_depth > DEPTH_MOST) {
    return "attention with heads deeper than 256";
  }
  if (a->parts > 2 || a->queries % part_count(a) != 0) {
    return "attention whose queries are not in one or two equal parts";
  }
  if (a->key_parts > 2 || a->keys % key_part_count(a) != 0 || a->key_end > INT_MAX / 2) {
    return "attention whose keys are not in one or two equal parts, or too many";
  }
  const double lines = (double)a->batch * (double)a->heads * (double)a->groups;
  if (lines * (double)larger(a->queries, a->keys) > INT_MAX) {
    return "attention with more than 2^31 rows";
  }
  return NULL;
}

bool cuda_attention(const Attention *attention, InstructionKind kind, int alignment, const AttentionScores *scores,
                    const CudaTarget *target, Arena *arena, CudaKernel *made, const char **why) {
  const bool gradient = kind != INSTRUCTION_ATTENTION, captured = kind == INSTRUCTION_ATTENTION_CAPTURED;
  Buffer text = {0}, shapes = {0};
  Tiles tiles;
  *why = problem_of(attention);
  if (*why) {
    return false;
  }
  if (is_half(attention) && !tiles_of(attention, target->shared_bytes, &tiles)) {
    *why = "attention of 16-bit elements on a GPU with less than 99 KiB of shared memory for a block";
    return false;
  }
  const bool whole = shapes_write(&shapes, attention, kind);
  const bool hopper =
      is_half(attention) && !captured && attention_hopper_covers(attention, gradient, whole && alignment >= 16, target);
  *made =
      (CudaKernel){.port_count = tensors_of(kind) + PORTS_ORIGINS + behind_of(attention, kind) + attention->biased +
                                 attention_scores_ports(scores) + (cuda_attention_rings(attention) ? PORTS_RING : 0)};
  made->bytes = bytes_of(attention, kind);
  if (gradient && !hopper) {
    made->scratch_bytes = attention->batch * attention->heads * attention->groups * attention->queries *
                          (attention->type == TYPE_F64 ? 8 : 4);
  }
  writer_target(&text);
  if (hopper) {
    attention_hopper_begin(&text, attention, gradient, target);
  }
  writer_slots(&text, made->port_count);
  buffer_format(&text, "%s", shapes.text);
  buffer_free(&shapes);
  Attention scaled = *attention;
  const bool plain = is_half(attention) && !captured && attention_scores_plain(scores, &scaled.scale);
  scaled.scale = plain ? scaled.scale : attention->scale;
  attention_scores_write(&text, scores, tensors_of(kind) + behind_of(attention, kind), is_half(attention), plain,
                         arena);
  if (is_half(attention)) {
    half_constants(&text, &scaled, gradient, whole);
    int64_t rows = 0, tile = 0;
    if (hopper) {
      attention_hopper_write(&text, attention, gradient, scores, target, made, &rows, &tile);
    } else if (captured) {
      half_captured(&text, attention, &tiles, made, &rows, &tile);
    } else if (gradient) {
      half_gradient(&text, attention, &tiles, made, &rows, &tile);
    } else {
      half_forward(&text, attention, &tiles, made, &rows, &tile);
    }
    made->form =
        arena_format(arena, "%s, %s, %s, tiles of %d x %d", form_of(attention, kind, arena),
                     hopper ? "warpgroups" : "tensor cores", element_type_name(attention->type), (int)rows, (int)tile);
  } else {
    plain_write(&text, attention, kind, arena, made);
  }
  writer_end(&text, arena, made);
  if (!made->text) {
    *why = "no memory";
  }
  return made->text != NULL;
}
