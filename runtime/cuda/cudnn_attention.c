// cudnn_attention.c: attention as a graph of simple operations, which cuDNN's engines recognise as a whole.
//
// B: batch, H: heads of q (heads * groups), K: heads of k, S: queries, T: keys, D: depth. Scores p [B, H, S, T] are
// virtual. Forward:
//   p = scale * q k^T + slopes * (key - query) if biased, with -inf where key > query if causal; m = max p; e = exp(p -
//   m); z = sum e; statistics = m + log z; o = (e / z) v.
// Gradient, with w = exp(p - statistics):
//   delta = sum over depth of do * o; dv = w^T do; ds = scale * w * (do v^T - delta); dk = ds^T q; dq = ds k,
// where dk and dv are summed over the heads that share a head of k. delta and an f32 copy of dq, which the engine adds
// to from many blocks, lie in the workspace.
#include "runtime/cuda/cudnn_attention.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "kernels/cuda/attention.h"
#include "runtime/cuda/cudnn_graph.h"

enum { DEPTH_MOST = 256, DEPTH_MOST_OTHERS = 128, KEYS_PADDED_LAST = 91500 };
enum { VALUE_SCALE = CUDNN_SLOTS, VALUE_MASKED, VALUE_ONE, WORK_DELTA, WORK_DQ, BINDINGS };

struct CudnnAttention {
  CudnnAttention *next;  // of the library's plans
  Attention problem;     // without its places
  bool gradient;
  CudnnPlan plan;
  int64_t delta_at, dq_at, bytes;  // of the workspace, whose first part is the plan's
  int64_t extent;                  // bytes that hold any one tensor
  float scale, masked, one;
  int64_t number[BINDINGS];  // of the tensors; 0: none
  const char *form;
};

static int64_t aligned(int64_t bytes) {
  return round_up(bytes, PLAN_ALIGN);
}

// --- what is covered ---

// Heads and groups become one dim if their strides combine: its stride, or 0.
static int64_t heads_stride(const Attention *a, const int64_t *stride) {
  if (a->groups == 1) {
    return stride[2];
  }
  return a->heads == 1 || stride[2] == a->groups * stride[3] ? stride[3] : 0;
}

static bool strides_fit(const Attention *a, const int64_t *q, const int64_t *k) {
  const int64_t heads = heads_stride(a, q);
  return heads > 0 && heads % 8 == 0 && q[0] % 8 == 0 && q[1] % 8 == 0 && q[1] > 0 && k[0] % 8 == 0 && k[1] % 8 == 0 &&
         k[1] > 0 && k[2] % 8 == 0 && k[2] >= 0;
}

static bool place_fits(const Place *place) {
  return place->offset % CUDNN_ADDRESS_ALIGN == 0 && place->slot_stride % CUDNN_ADDRESS_ALIGN == 0 &&
         place->lane_stride % CUDNN_ADDRESS_ALIGN == 0;
}

static bool places_fit(const Attention *a, bool gradient) {
  const Place *const places[CUDNN_SLOTS] = {&a->q,   &a->k,  &a->v,  &a->o,  &a->statistics,
                                            &a->d_o, &a->dq, &a->dk, &a->dv, &a->slopes};
  const int count = gradient ? CUDNN_SLOT_SLOPES : CUDNN_SLOT_DO;
  for (int i = 0; i < count; i++) {
    if (!place_fits(places[i])) {
      return false;
    }
  }
  return !a->biased || place_fits(&a->slopes);
}

// NULL, or why the problem is refused before cuDNN is asked.
static const char *refusal(const Cudnn *cudnn, const Attention *a, bool gradient) {
  const int64_t depth_most = cudnn->capability / 10 == 9 ? DEPTH_MOST : DEPTH_MOST_OTHERS;
  if (a->type != TYPE_F16 && a->type != TYPE_BF16) {
    return "not f16 or bf16";
  }
  if (cuda_attention_rings(a) || a->wide) {
    return "a block of keys of a ring";
  }
  if (a->seeded) {
    return "statistics that have a gradient";
  }
  if (a->score) {
    return "scores that are more than a scale, linear biases and a causal mask";
  }
  if (a->value_depth != a->depth) {
    return "the depth of the values differs";
  }
  if (a->depth % 8 || a->depth > depth_most) {
    return "the depth is not a multiple of 8, or too large";
  }
  if (a->causal && (a->parts > 1 || (a->parts == 1 && (a->origin[0] || a->origin_term[0])))) {
    return "the queries do not begin at position 0, or lie in parts";
  }
  if (a->causal && a->queries != a->keys) {
    return "causal, with another number of keys than of queries";
  }
  if (a->biased && !a->causal) {
    return "linear biases without a causal mask";
  }
  if (a->queries < 2 || a->keys < 2) {
    return "a single query or key";
  }
  if (!strides_fit(a, a->stride_q, a->stride_k) || !strides_fit(a, a->stride_o, a->stride_v)) {
    return "strides that cuDNN cannot take";
  }
  if (!places_fit(a, gradient)) {
    return "memory that is not aligned to 16 bytes";
  }
  if (!gradient) {
    return NULL;
  }
  if (!strides_fit(a, a->stride_dq, a->stride_dk) || !strides_fit(a, a->stride_do, a->stride_dv)) {
    return "strides that cuDNN cannot take";
  }
  if (cudnn->strict) {
    return "not reproducible";
  }
  // Older engines read past the keys where they do not fill the last block.
  return a->keys % 128 && cudnn->version <= KEYS_PADDED_LAST ? "this cuDNN needs a multiple of 128 keys" : NULL;
}

// What the plan depends on, with all bytes defined.
static Attention problem_of(const Attention *a, bool gradient) {
  Attention problem = {0};
  problem.type = a->type;
  problem.causal = a->causal;
  problem.biased = a->biased;
  problem.scale = a->scale;
  problem.batch = a->batch;
  problem.queries = a->queries;
  problem.keys = a->keys;
  problem.heads = a->heads;
  problem.groups = a->groups;
  problem.depth = a->depth;
  problem.value_depth = a->value_depth;
  memcpy(problem.stride_q, a->stride_q, sizeof a->stride_q);
  memcpy(problem.stride_o, a->stride_o, sizeof a->stride_o);
  memcpy(problem.stride_k, a->stride_k, sizeof a->stride_k);
  memcpy(problem.stride_v, a->stride_v, sizeof a->stride_v);
  if (gradient) {
    memcpy(problem.stride_dq, a->stride_dq, sizeof a->stride_dq);
    memcpy(problem.stride_do, a->stride_do, sizeof a->stride_do);
    memcpy(problem.stride_dk, a->stride_dk, sizeof a->stride_dk);
    memcpy(problem.stride_dv, a->stride_dv, sizeof a->stride_dv);
  }
  return problem;
}

// Of two that problem_of made.
static bool problem_same(const Attention *a, const Attention *b) {
#define SAME(member) (memcmp(a->member, b->member, sizeof a->member) == 0)
  return a->type == b->type && a->causal == b->causal && a->biased == b->biased && a->scale == b->scale &&
         a->batch == b->batch && a->queries == b->queries && a->keys == b->keys && a->heads == b->heads &&
         a->groups == b->groups && a->depth == b->depth && a->value_depth == b->value_depth && SAME(stride_q) &&
         SAME(stride_o) && SAME(stride_k) && SAME(stride_v) && SAME(stride_dq) && SAME(stride_do) && SAME(stride_dk) &&
         SAME(stride_dv);
#undef SAME
}

// --- graphs ---

typedef struct {
  CudnnGraph graph;
  CudnnAttention *attention;
  const Attention *a;
  CudnnType type;
  int64_t heads;  // of q
} Builder;

// The stride of a dim of size 1 means nothing, but has to look like one.
static CudnnTensor memory(Builder *b, int binding, CudnnType type, const int64_t *size, const int64_t *given) {
  int64_t stride[CUDNN_DIMS], extent = 1;
  for (int i = 0; i < CUDNN_DIMS; i++) {
    extent += (size[i] - 1) * given[i];
  }
  for (int i = 0; i < CUDNN_DIMS; i++) {
    stride[i] = size[i] == 1 && given[i] != 1 ? (extent + 7) / 8 * 8 : given[i];
  }
  const CudnnTensor tensor = cudnn_graph_memory(&b->graph, type, size, stride);
  b->attention->number[binding] = tensor.number;
  if (binding < CUDNN_SLOTS) {
    b->attention->extent = max_i64(b->attention->extent, extent * (type == CUDNN_F32 ? 4 : 2));
  }
  return tensor;
}

static CudnnTensor value(Builder *b, int binding) {
  const CudnnTensor tensor = cudnn_graph_value(&b->graph);
  b->attention->number[binding] = tensor.number;
  return tensor;
}

// [B, H, S, D]
static CudnnTensor like_queries(Builder *b, int binding, const int64_t *stride) {
  const int64_t size[CUDNN_DIMS] = {b->a->batch, b->heads, b->a->queries, b->a->depth};
  const int64_t strides[CUDNN_DIMS] = {stride[0], heads_stride(b->a, stride), stride[1], 1};
  return memory(b, binding, b->type, size, strides);
}

// [B, K, T, D], or with the last two dims changed, as products take a second operand that is transposed
static CudnnTensor like_keys(Builder *b, int binding, const int64_t *stride, bool transposed) {
  const Attention *a = b->a;
  const int64_t size[CUDNN_DIMS] = {a->batch, a->heads, transposed ? a->depth : a->keys,
                                    transposed ? a->keys : a->depth};
  const int64_t strides[CUDNN_DIMS] = {stride[0], stride[2], transposed ? 1 : stride[1], transposed ? stride[1] : 1};
  return memory(b, binding, b->type, size, strides);
}

// f32 [B, H, S, depth], dense
static CudnnTensor dense(Builder *b, int binding, int64_t depth) {
  const int64_t size[CUDNN_DIMS] = {b->a->batch, b->heads, b->a->queries, depth};
  const int64_t stride[CUDNN_DIMS] = {b->heads * size[2] * depth, size[2] * depth, depth, 1};
  return memory(b, binding, CUDNN_F32, size, stride);
}

static CudnnTensor scores(Builder *b, CudnnType type) {
  const int64_t size[CUDNN_DIMS] = {b->a->batch, b->heads, b->a->queries, b->a->keys};
  return cudnn_graph_virtual(&b->graph, type, size);
}

static CudnnTensor row(Builder *b) {  // f32 [B, H, S, 1], virtual
  const int64_t size[CUDNN_DIMS] = {b->a->batch, b->heads, b->a->queries, 1};
  return cudnn_graph_virtual(&b->graph, CUDNN_F32, size);
}

static void compute(Builder *b, CudnnPointwiseMode mode, const CudnnTensor *x, const CudnnTensor *other,
                    const CudnnTensor *y) {
  const CudnnPointwise operation = {.mode = mode, .precision = CUDNN_F32, .x = x, .b = other, .y = y};
  cudnn_graph_pointwise(&b->graph, &operation);
}

static CudnnTensor on_scores(Builder *b, CudnnPointwiseMode mode, const CudnnTensor *x, const CudnnTensor *other) {
  const CudnnTensor y = scores(b, CUDNN_F32);
  compute(b, mode, x, other, &y);
  return y;
}

static CudnnTensor position(Builder *b, const CudnnTensor *p, int64_t axis, CudnnType precision) {
  const CudnnTensor y = scores(b, CUDNN_I32);
  const CudnnPointwise operation = {.mode = CUDNN_INDEX, .precision = precision, .axis = axis, .x = p, .y = &y};
  cudnn_graph_pointwise(&b->graph, &operation);
  return y;
}

// p with the linear biases of the heads
static CudnnTensor biased(Builder *b, const CudnnTensor *p) {
  if (!b->a->biased) {
    return *p;
  }
  const int64_t size[CUDNN_DIMS] = {1, b->heads, 1, 1}, stride[CUDNN_DIMS] = {b->heads, 1, 1, 1};
  const CudnnTensor slopes = memory(b, CUDNN_SLOT_SLOPES, CUDNN_F32, size, stride);
  const CudnnTensor query = position(b, p, 2, CUDNN_I32), key = position(b, p, 3, CUDNN_I32);
  const CudnnTensor distance = scores(b, CUDNN_I32);
  const CudnnPointwise subtract = {
      .mode = CUDNN_SUBTRACT, .precision = CUDNN_I32, .x = &key, .b = &query, .y = &distance};
  cudnn_graph_pointwise(&b->graph, &subtract);
  const CudnnTensor bias = on_scores(b, CUDNN_MULTIPLY, &distance, &slopes);
  return on_scores(b, CUDNN_ADD, p, &bias);
}

static CudnnTensor mask(Builder *b, const CudnnTensor *p) {
  if (!b->a->causal) {
    return *p;
  }
  const CudnnTensor query = position(b, p, 2, CUDNN_F32), key = position(b, p, 3, CUDNN_F32);
  const CudnnTensor seen = scores(b, CUDNN_BOOL), masked = value(b, VALUE_MASKED), y = scores(b, CUDNN_F32);
  const CudnnPointwise compare = {.mode = CUDNN_NOT_LESS, .precision = CUDNN_BOOL, .x = &query, .b = &key, .y = &seen};
  const CudnnPointwise choose = {
      .mode = CUDNN_SELECT, .precision = CUDNN_F32, .x = p, .b = &masked, .t = &seen, .y = &y};
  cudnn_graph_pointwise(&b->graph, &compare);
  cudnn_graph_pointwise(&b->graph, &choose);
  return y;
}

static void describe_forward(Builder *b) {
  const Attention *a = b->a;
  const CudnnTensor q = like_queries(b, CUDNN_SLOT_Q, a->stride_q);
  const CudnnTensor k = like_keys(b, CUDNN_SLOT_K, a->stride_k, true);
  const CudnnTensor v = like_keys(b, CUDNN_SLOT_V, a->stride_v, false);
  const CudnnTensor o = like_queries(b, CUDNN_SLOT_O, a->stride_o);
  const CudnnTensor statistics = dense(b, CUDNN_SLOT_STATISTICS, 1);
  const CudnnTensor product = scores(b, CUDNN_F32), scale = value(b, VALUE_SCALE);
  cudnn_graph_matmul(&b->graph, &q, &k, &product);
  const CudnnTensor scaled = on_scores(b, CUDNN_MULTIPLY, &product, &scale);
  const CudnnTensor with_bias = biased(b, &scaled), p = mask(b, &with_bias);
  const CudnnTensor most = row(b), sum = row(b), log_sum = row(b), weight = scores(b, b->type);
  cudnn_graph_reduce(&b->graph, CUDNN_MAX, &p, &most);
  const CudnnTensor below = on_scores(b, CUDNN_SUBTRACT, &p, &most);
  const CudnnTensor e = on_scores(b, CUDNN_EXP, &below, NULL);
  cudnn_graph_reduce(&b->graph, CUDNN_SUM, &e, &sum);
  compute(b, CUDNN_LOG, &sum, NULL, &log_sum);
  compute(b, CUDNN_ADD, &most, &log_sum, &statistics);
  compute(b, CUDNN_DIVIDE, &e, &sum, &weight);
  cudnn_graph_matmul(&b->graph, &weight, &v, &o);
}

// gradient [B, K, T, D] = the sum over the heads that share one of scores^T x
static void add_keys(Builder *b, const CudnnTensor *of, const CudnnTensor *x, const CudnnTensor *gradient) {
  const CudnnTensor transposed = cudnn_graph_transposed(&b->graph, b->type, of);
  cudnn_graph_reshape(&b->graph, of, &transposed);
  if (b->a->groups == 1) {
    cudnn_graph_matmul(&b->graph, &transposed, x, gradient);
    return;
  }
  const int64_t size[CUDNN_DIMS] = {b->a->batch, b->heads, b->a->keys, b->a->depth};
  const CudnnTensor all = cudnn_graph_virtual(&b->graph, b->type, size);
  cudnn_graph_matmul(&b->graph, &transposed, x, &all);
  cudnn_graph_reduce(&b->graph, CUDNN_SUM, &all, gradient);
}

static void describe_gradient(Builder *b) {
  const Attention *a = b->a;
  const CudnnTensor q = like_queries(b, CUDNN_SLOT_Q, a->stride_q);
  const CudnnTensor k = like_keys(b, CUDNN_SLOT_K, a->stride_k, true);
  const CudnnTensor v = like_keys(b, CUDNN_SLOT_V, a->stride_v, true);
  const CudnnTensor o = like_queries(b, CUDNN_SLOT_O, a->stride_o);
  const CudnnTensor statistics = dense(b, CUDNN_SLOT_STATISTICS, 1);
  const CudnnTensor d_o = like_queries(b, CUDNN_SLOT_DO, a->stride_do);
  const CudnnTensor dq = like_queries(b, CUDNN_SLOT_DQ, a->stride_dq);
  const CudnnTensor dk = like_keys(b, CUDNN_SLOT_DK, a->stride_dk, false);
  const CudnnTensor dv = like_keys(b, CUDNN_SLOT_DV, a->stride_dv, false);
  const CudnnTensor scale = value(b, VALUE_SCALE), one = value(b, VALUE_ONE);

  // The factor 1 stands where dropout's would: the engines look for it.
  const CudnnTensor both = cudnn_graph_virtual(&b->graph, CUDNN_F32, q.size);
  const CudnnTensor summed = row(b), delta = dense(b, WORK_DELTA, 1);
  compute(b, CUDNN_MULTIPLY, &d_o, &o, &both);
  cudnn_graph_reduce(&b->graph, CUDNN_SUM, &both, &summed);
  compute(b, CUDNN_MULTIPLY, &summed, &one, &delta);

  const CudnnTensor product = scores(b, CUDNN_F32);
  cudnn_graph_matmul(&b->graph, &q, &k, &product);
  const CudnnTensor scaled = on_scores(b, CUDNN_MULTIPLY, &product, &scale);
  const CudnnTensor with_bias = biased(b, &scaled), below = on_scores(b, CUDNN_SUBTRACT, &with_bias, &statistics);
  const CudnnTensor p = mask(b, &below);
  const CudnnTensor weight = on_scores(b, CUDNN_EXP, &p, NULL);
  add_keys(b, &weight, &d_o, &dv);

  const CudnnTensor d_weight = scores(b, CUDNN_F32);
  cudnn_graph_matmul(&b->graph, &d_o, &v, &d_weight);
  const CudnnTensor centred = on_scores(b, CUDNN_SUBTRACT, &d_weight, &delta);
  const CudnnTensor d_p = on_scores(b, CUDNN_MULTIPLY, &centred, &weight);
  const CudnnTensor ds = on_scores(b, CUDNN_MULTIPLY, &d_p, &scale);
  add_keys(b, &ds, &q, &dk);

  const CudnnTensor keys = cudnn_graph_transposed(&b->graph, b->type, &k), sum = dense(b, WORK_DQ, a->depth);
  cudnn_graph_reshape(&b->graph, &k, &keys);
  cudnn_graph_matmul(&b->graph, &ds, &keys, &sum);
  compute(b, CUDNN_IDENTITY, &sum, NULL, &dq);
}

// --- preparation and launch ---

// Runs the plan once, with all tensors in the same memory: what comes out does not matter.
static const char *load(Cudnn *cudnn, const CudnnAttention *attention, Arena *arena) {
  const Cuda *cuda = cudnn->cuda;
  const int64_t extent = aligned(attention->extent);
  CudaAddress address = 0;
  CudaStream stream = NULL;
  Error error;
  const char *why = NULL;
  if (cuda->memory_allocate(&address, (size_t)(extent + attention->bytes)) != 0) {
    return NULL;
  }
  uint64_t slots[CUDNN_SLOTS];
  for (int i = 0; i < CUDNN_SLOTS; i++) {
    slots[i] = address;
  }
  if (!cuda_check(cuda, cuda->stream_create(&stream, CUDA_STREAM_NON_BLOCKING), "making a stream", &error) ||
      !cudnn_attention_launch(cudnn, attention, slots, address + (CudaAddress)extent, stream, &error) ||
      !cuda_check(cuda, cuda->stream_synchronize(stream), "running attention once", &error)) {
    why = arena_format(arena, "%s", error.text);
  }
  if (stream) {
    cuda->stream_destroy(stream);
  }
  cuda->memory_free(address);
  return why;
}

static const char *build(Cudnn *cudnn, CudnnAttention *attention, Arena *arena) {
  const Attention *a = &attention->problem;
  Builder builder = {.graph.cudnn = cudnn,
                     .attention = attention,
                     .a = a,
                     .type = a->type == TYPE_F16 ? CUDNN_F16 : CUDNN_BF16,
                     .heads = a->heads * a->groups};
  if (attention->gradient) {
    describe_gradient(&builder);
  } else {
    describe_forward(&builder);
  }
  if (!cudnn_graph_plan(&builder.graph, &attention->plan)) {
    return arena_format(arena, "%s", builder.graph.error.text);
  }
  const int64_t rows = a->batch * builder.heads * a->queries;
  attention->delta_at = aligned(attention->plan.workspace);
  attention->dq_at = attention->delta_at + (attention->gradient ? aligned(4 * rows) : 0);
  attention->bytes = attention->dq_at + (attention->gradient ? aligned(4 * rows * a->depth) : 0);
  attention->form = arena_format(arena, "cuDNN %d.%d.%d, engine %lld", cudnn->version / 10000,
                                 cudnn->version / 100 % 100, cudnn->version % 100, (long long)attention->plan.engine);
  return cudnn->handle ? load(cudnn, attention, arena) : NULL;
}

bool cudnn_attention_prepare(Cudnn *cudnn, const Attention *attention, bool gradient, Arena *arena,
                             CudnnAttention **out, const char **why) {
  *why = refusal(cudnn, attention, gradient);
  if (*why) {
    return false;
  }
  const Attention problem = problem_of(attention, gradient);
  for (CudnnAttention *made = cudnn->attentions; made; made = made->next) {
    if (made->gradient == gradient && problem_same(&made->problem, &problem)) {
      *out = made;
      return true;
    }
  }
  CudnnAttention *made = ARENA_NEW(arena, CudnnAttention);
  made->problem = problem;
  made->gradient = gradient;
  made->scale = (float)attention->scale;
  made->masked = -INFINITY;
  made->one = 1;
  *why = build(cudnn, made, arena);
  if (*why) {
    return false;
  }
  made->next = cudnn->attentions;
  cudnn->attentions = made;
  *out = made;
  return true;
}

int64_t cudnn_attention_workspace(const CudnnAttention *attention) {
  return attention->bytes;
}

const char *cudnn_attention_form(const CudnnAttention *attention) {
  return attention->form;
}

static void *pointer_of(CudaAddress address) {
  void *pointer = NULL;
  memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

bool cudnn_attention_launch(Cudnn *cudnn, const CudnnAttention *attention, const uint64_t *slots, CudaAddress workspace,
                            CudaStream stream, Error *error) {
  const CudnnSlot last = attention->gradient ? CUDNN_SLOT_SLOPES : CUDNN_SLOT_DO;  // where the slopes are given
  float scale = attention->scale, masked = attention->masked, one = attention->one;
  void *addresses[BINDINGS] = {[VALUE_SCALE] = &scale,
                               [VALUE_MASKED] = &masked,
                               [VALUE_ONE] = &one,
                               [WORK_DELTA] = pointer_of(workspace + (CudaAddress)attention->delta_at),
                               [WORK_DQ] = pointer_of(workspace + (CudaAddress)attention->dq_at)};
  int64_t numbers[BINDINGS];
  int count = 0;
  for (int i = 0; i < BINDINGS; i++) {
    if (attention->number[i] == 0) {
      continue;
    }
    const uint64_t *const slot = i < CUDNN_SLOTS ? &slots[i == CUDNN_SLOT_SLOPES ? last : (CudnnSlot)i] : NULL;
    if (slot && *slot % CUDNN_ADDRESS_ALIGN) {
      return error_set(error, 1, "attention: memory that is not aligned to %d bytes", CUDNN_ADDRESS_ALIGN);
    }
    numbers[count] = attention->number[i];
    addresses[count++] = slot ? pointer_of(*slot) : addresses[i];
  }
  return cudnn_plan_run(cudnn, &attention->plan, numbers, addresses, count, workspace, stream, error);
}
