// attention_test.c: attention and its gradient on the CPU backend against the definition in double.
#include "tests/cpu_support.h"

enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

// Dense tensors in double, [batch, position, head, group, depth], and the statistics.
typedef struct {
  Attention a;
  double *tensor[TENSORS], *statistics, *slopes;  // slopes: [head, group], read if biased
} Case;

static int64_t depth_of(const Attention *a, int tensor) {
  return tensor == V || tensor == O || tensor == D_O || tensor == DV ? a->value_depth : a->depth;
}

static bool is_key_side(int tensor) {
  return tensor == K || tensor == V || tensor == DK || tensor == DV;
}

static int64_t elements_of(const Attention *a, int tensor) {
  return a->batch * (is_key_side(tensor) ? a->keys : a->queries * a->groups) * a->heads * depth_of(a, tensor);
}

static int64_t index_of(const Attention *a, int tensor, int64_t b, int64_t position, int64_t h, int64_t g) {
  const bool key = is_key_side(tensor);
  const int64_t line = (b * (key ? a->keys : a->queries) + position) * a->heads + h;
  return (key ? line : line * a->groups + g) * depth_of(a, tensor);
}

static Case case_create(Attention a, uint64_t seed) {
  Case c = {.a = a};
  Draw random = {seed};
  for (int t = 0; t < TENSORS; t++) {
    c.tensor[t] = calloc((size_t)elements_of(&a, t), sizeof(double));
    for (int64_t i = 0; i < elements_of(&a, t) && (t <= V || t == D_O); i++) {
      const double x = draw_real(&random, -1.5, 1.5);
      char rounded[8];
      element_set_at(a.type, rounded, 0, x);
      c.tensor[t][i] = element_at(a.type, rounded, 0);
    }
  }
  c.statistics = calloc((size_t)(a.batch * a.heads * a.groups * a.queries), sizeof(double));
  c.slopes = calloc((size_t)(a.heads * a.groups), sizeof(double));
  for (int64_t i = 0; i < a.heads * a.groups; i++) {  // the same in all types; one goes the other way, one is none
    c.slopes[i] = i % 4 == 2 ? 0 : (i % 4 == 1 ? -1 : 1) / (double)(4 << i % 7);
  }
  return c;
}

static void case_destroy(Case *c) {
  for (int t = 0; t < TENSORS; t++) {
    free(c->tensor[t]);
  }
  free(c->statistics);
  free(c->slopes);
}

static double dot_of(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * y[i];
  }
  return sum;
}

// Probabilities of one query; returns how many keys it sees.
static int64_t reference_row(const Case *c, int64_t b, int64_t q, int64_t h, int64_t g, double *p, double *statistic) {
  const Attention *a = &c->a;
  const int64_t seen = a->causal && q + 1 < a->keys ? q + 1 : a->keys;
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < seen; k++) {
    p[k] = a->scale *
           dot_of(c->tensor[Q] + index_of(a, Q, b, q, h, g), c->tensor[K] + index_of(a, K, b, k, h, 0), a->depth);
    p[k] += a->biased ? c->slopes[h * a->groups + g] * (double)(k - q) : 0;
    max = fmax(max, p[k]);
  }
  for (int64_t k = 0; k < seen; k++) {
    sum += p[k] = exp(p[k] - max);
  }
  for (int64_t k = 0; k < seen; k++) {
    p[k] /= sum;
  }
  *statistic = max + log(sum);
  return seen;
}

static void reference_query(Case *c, int64_t b, int64_t q, int64_t h, int64_t g, double *p) {
  const Attention *a = &c->a;
  double *o = c->tensor[O] + index_of(a, O, b, q, h, g);
  const double *d_o = c->tensor[D_O] + index_of(a, D_O, b, q, h, g), *query = c->tensor[Q] + index_of(a, Q, b, q, h, g);
  double *dq = c->tensor[DQ] + index_of(a, DQ, b, q, h, g);
  const int64_t seen =
      reference_row(c, b, q, h, g, p, &c->statistics[((b * a->heads + h) * a->groups + g) * a->queries + q]);
  for (int64_t k = 0; k < seen; k++) {
    for (int64_t d = 0; d < a->value_depth; d++) {
      o[d] += p[k] * c->tensor[V][index_of(a, V, b, k, h, 0) + d];
      c->tensor[DV][index_of(a, DV, b, k, h, 0) + d] += p[k] * d_o[d];
    }
  }
  const double delta = dot_of(o, d_o, a->value_depth);
  for (int64_t k = 0; k < seen; k++) {
    const double dp = dot_of(d_o, c->tensor[V] + index_of(a, V, b, k, h, 0), a->value_depth);
    const double ds = p[k] * (dp - delta) * a->scale;
    for (int64_t d = 0; d < a->depth; d++) {
      dq[d] += ds * c->tensor[K][index_of(a, K, b, k, h, 0) + d];
      c->tensor[DK][index_of(a, DK, b, k, h, 0) + d] += ds * query[d];
    }
  }
}

static void reference(Case *c) {
  const Attention *a = &c->a;
  double *p = malloc(sizeof(double) * (size_t)a->keys);
  for (int64_t b = 0; b < a->batch; b++) {
    for (int64_t h = 0; h < a->heads; h++) {
      for (int64_t g = 0; g < a->groups; g++) {
        for (int64_t q = 0; q < a->queries; q++) {
          reference_query(c, b, q, h, g, p);
        }
      }
    }
  }
  free(p);
}

// Strides of a tensor in memory: positions before heads, or heads before positions, with a gap between lines.
static int64_t strides_of(const Attention *a, int tensor, bool head_major, int64_t *stride) {
  const bool key = is_key_side(tensor);
  const int64_t line = depth_of(a, tensor) + 3, positions = key ? a->keys : a->queries, groups = key ? 1 : a->groups;
  const int64_t group = head_major ? line * positions : line, head = group * groups;
  stride[1] = head_major ? line : head * a->heads;
  stride[2] = head;
  stride[0] = head_major ? head * a->heads : stride[1] * positions;
  if (!key) {
    stride[3] = group;
  }
  return stride[0] * a->batch;
}

static int64_t memory_index(const Attention *a, int tensor, const int64_t *stride, int64_t at) {
  const int64_t depth = depth_of(a, tensor), groups = is_key_side(tensor) ? 1 : a->groups;
  const int64_t positions = is_key_side(tensor) ? a->keys : a->queries;
  const int64_t d = at % depth, g = at / depth % groups, h = at / depth / groups % a->heads;
  const int64_t p = at / depth / groups / a->heads % positions, b = at / depth / groups / a->heads / positions;
  return b * stride[0] + p * stride[1] + h * stride[2] + (groups > 1 ? g * stride[3] : 0) + d;
}

typedef struct {
  Bench *bench;
  Place *place[TENSORS];
  int64_t *stride[TENSORS];
  Place rounded;  // where it is wide: the right o as GRAD reads it, with the strides of o
} Layout;

static ElementType real_of(ElementType type) {
  return type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

static ElementType type_of(const Attention *a, int tensor) {
  return a->wide && (tensor == O || tensor >= DQ) ? real_of(a->type) : a->type;
}

static void layout_fill(const Case *c, const Layout *layout, Place place, int tensor) {
  void *memory = bench_at(layout->bench, place);
  for (int64_t i = 0; i < elements_of(&c->a, tensor); i++) {
    element_set_at(c->a.type, memory, memory_index(&c->a, tensor, layout->stride[tensor], i), c->tensor[tensor][i]);
  }
}

static Layout layout_places(Case *c, bool head_major) {
  Attention *a = &c->a;
  Layout layout = {.bench = bench_create(),
                   .place = {&a->q, &a->k, &a->v, &a->o, &a->d_o, &a->dq, &a->dk, &a->dv},
                   .stride = {a->stride_q, a->stride_k, a->stride_v, a->stride_o, a->stride_do, a->stride_dq,
                              a->stride_dk, a->stride_dv}};
  for (int t = 0; t < TENSORS; t++) {
    const int64_t elements = strides_of(a, t, head_major, layout.stride[t]);
    *layout.place[t] = bench_place(layout.bench, elements * element_type_bytes(type_of(a, t)));
    if (t <= V || t == D_O) {
      layout_fill(c, &layout, *layout.place[t], t);
    }
    if (t == O && a->wide) {
      layout.rounded = bench_place(layout.bench, elements * element_type_bytes(a->type));
      layout_fill(c, &layout, layout.rounded, t);
    }
  }
  const int64_t statistic = element_type_bytes(real_of(a->type));
  a->statistics = bench_place(layout.bench, a->batch * a->heads * a->groups * a->queries * statistic);
  a->slopes = bench_place(layout.bench, a->heads * a->groups * statistic);
  for (int64_t i = 0; i < a->heads * a->groups; i++) {
    element_set_at(real_of(a->type), bench_at(layout.bench, a->slopes), i, c->slopes[i]);
  }
  return layout;
}

static Layout layout_create(Case *c, bool head_major) {
  Layout layout = layout_places(c, head_major);
  bench_add(layout.bench, INSTRUCTION_ATTENTION)->as.attention = c->a;
  bench_add(layout.bench, INSTRUCTION_ATTENTION_GRAD)->as.attention = c->a;
  return layout;
}

static double worst_difference(const Case *c, const Layout *layout, const char *after, int tensor) {
  double worst = 0, scale = 1e-3;
  const Attention *a = &c->a;
  for (int64_t i = 0; i < elements_of(a, tensor); i++) {
    const int64_t at = memory_index(a, tensor, layout->stride[tensor], i);
    const double got = element_at(type_of(a, tensor), after + layout->place[tensor]->offset, at);
    const double difference = fabs(got - c->tensor[tensor][i]);
    scale = fmax(scale, fabs(c->tensor[tensor][i]));
    worst = difference >= worst || isnan(difference) ? (isnan(difference) ? INFINITY : difference) : worst;
  }
  return worst / scale;
}

static void check(Attention a, bool head_major, uint64_t seed) {
  static const char *const names[] = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};
  Case c = case_create(a, seed);
  reference(&c);
  Layout layout = layout_create(&c, head_major);
  char *after = bench_run_threads(layout.bench);
  // The gradient reads o as the forward has rounded it.
  const double tolerance = a.type == TYPE_BF16 ? 1e-2 : a.type == TYPE_F32 ? 3e-6 : 1e-11;
  for (int t = O; t < TENSORS; t++) {
    const double worst = worst_difference(&c, &layout, after, t);
    if (worst > tolerance) {
      fail_msg("%s of batch %d queries %d keys %d heads %d groups %d depth %d/%d causal %d differs by %g", names[t],
               (int)a.batch, (int)a.queries, (int)a.keys, (int)a.heads, (int)a.groups, (int)a.depth, (int)a.value_depth,
               a.causal, worst);
    }
  }
  for (int64_t i = 0; i < a.batch * a.heads * a.groups * a.queries; i++) {
    const double got = element_at(real_of(a.type), after + c.a.statistics.offset, i);
    assert_true(real_near(got, c.statistics[i], a.type == TYPE_F64 ? 1e-11 : 3e-6));
  }
  free(after);
  bench_destroy(layout.bench);
  case_destroy(&c);
}

static Attention shape(ElementType type, int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t groups,
                       int64_t depth, int64_t value_depth, bool causal) {
  return (Attention){.type = type,
                     .causal = causal,
                     .scale = 1 / sqrt((double)depth),
                     .batch = batch,
                     .queries = queries,
                     .keys = keys,
                     .heads = heads,
                     .groups = groups,
                     .depth = depth,
                     .value_depth = value_depth};
}

static void all_types(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t groups, int64_t depth,
                      int64_t value_depth, bool causal) {
  static const ElementType types[] = {TYPE_F32, TYPE_F64, TYPE_BF16};
  for (int i = 0; i < 6; i++) {
    check(shape(types[i % 3], batch, queries, keys, heads, groups, depth, value_depth, causal), i / 3,
          (uint64_t)(7 + i));
  }
}

static void small_shapes(void **state) {
  (void)state;
  all_types(1, 1, 1, 1, 1, 4, 4, false);
  all_types(2, 5, 7, 3, 2, 6, 3, false);
  all_types(2, 7, 7, 2, 3, 5, 9, true);
  all_types(1, 9, 4, 2, 1, 8, 8, true);   // more queries than keys
  all_types(1, 4, 11, 2, 1, 8, 8, true);  // keys that no query sees
}

static void block_edges(void **state) {
  (void)state;
  all_types(2, 63, 65, 2, 2, 16, 16, false);
  all_types(1, 64, 64, 4, 1, 64, 64, true);
  all_types(3, 129, 129, 4, 1, 32, 24, true);
  all_types(1, 130, 200, 9, 1, 17, 33, false);
}

static Attention biased(Attention a) {
  a.biased = true;
  return a;
}

static void biases(void **state) {
  (void)state;
  static const ElementType types[] = {TYPE_F32, TYPE_F64, TYPE_BF16};
  for (int i = 0; i < 6; i++) {
    const ElementType type = types[i % 3];
    check(biased(shape(type, 2, 7, 7, 2, 3, 5, 9, true)), i / 3, 21);
    check(biased(shape(type, 1, 64, 64, 4, 1, 64, 64, true)), i / 3, 22);
    check(biased(shape(type, 1, 130, 200, 3, 2, 17, 33, false)), i / 3, 23);
    check(biased(shape(type, 1, 1300, 1300, 1, 1, 8, 8, true)), i / 3, 24);
  }
  Attention a = biased(shape(TYPE_F32, 1, 40, 40, 2, 1, 8, 8, true));
  a.scale = -0.7;
  check(a, false, 25);
}

// More keys than one chunk, and so few (batch, head) pairs that the backward takes two passes.
static void long_sequences(void **state) {
  (void)state;
  check(shape(TYPE_F64, 1, 70, 1300, 1, 1, 8, 8, false), false, 1);
  check(shape(TYPE_F32, 1, 70, 1300, 1, 2, 8, 8, false), true, 2);
  check(shape(TYPE_F64, 1, 1300, 1300, 1, 1, 8, 8, true), false, 3);
  check(shape(TYPE_F64, 2, 200, 1100, 4, 1, 8, 4, true), false, 4);
  check(shape(TYPE_F64, 1, 700, 700, 2, 2, 8, 4, true), true, 5);
  check(shape(TYPE_BF16, 1, 1300, 1300, 1, 2, 8, 8, true), true, 6);
  check(shape(TYPE_BF16, 2, 70, 1300, 5, 1, 8, 4, false), false, 7);
}

static void large_scores(void **state) {
  (void)state;
  Attention a = shape(TYPE_F32, 1, 40, 40, 2, 1, 8, 8, true);
  a.scale = 60;  // e^score would overflow
  Case c = case_create(a, 5);
  reference(&c);
  Layout layout = layout_create(&c, false);
  char *after = bench_run_threads(layout.bench);
  assert_true(worst_difference(&c, &layout, after, O) < 1e-4);
  free(after);
  bench_destroy(layout.bench);
  case_destroy(&c);
  a.scale = -0.7;
  check(a, false, 6);
}

// The gradients against differences of the forward: sum(o * do) when one input moves.
static void finite_differences(void **state) {
  (void)state;
  static const int inputs[] = {Q, K, V}, gradients[] = {DQ, DK, DV};
  const Attention a = shape(TYPE_F64, 1, 6, 6, 2, 2, 3, 4, true);
  Case c = case_create(a, 11);
  reference(&c);
  for (int n = 0; n < 3; n++) {
    for (int64_t i = 0; i < elements_of(&a, inputs[n]); i += 5) {
      double side[2];
      for (int s = 0; s < 2; s++) {
        const double keep = c.tensor[inputs[n]][i];
        c.tensor[inputs[n]][i] = keep + (s ? 1e-6 : -1e-6);
        Layout layout = layout_create(&c, false);
        char *after = bench_run(layout.bench, 1);
        side[s] = 0;
        for (int64_t k = 0; k < elements_of(&a, O); k++) {
          const int64_t at = memory_index(&a, O, layout.stride[O], k);
          side[s] += element_at(TYPE_F64, after + layout.place[O]->offset, at) * c.tensor[D_O][k];
        }
        free(after);
        bench_destroy(layout.bench);
        c.tensor[inputs[n]][i] = keep;
      }
      assert_true(fabs((side[1] - side[0]) / 2e-6 - c.tensor[gradients[n]][i]) < 1e-7);
    }
  }
  case_destroy(&c);
}

// --- blocks of keys, as they come around a ring ---

typedef struct {
  int ranks;
  bool zigzag, padded;  // padded: the last rank's last key is none
} Ring;

// Where the position of the whole stands in memory, in which the queries or keys of the ranks come one after the other.
static int64_t ring_slot(const Ring *ring, int64_t positions, int64_t at) {
  const int64_t half = positions / ring->ranks / 2, block = ring->zigzag ? at / half : 0;
  if (!ring->zigzag) {
    return at;
  }
  return block < ring->ranks ? block * 2 * half + at % half
                             : (2 * ring->ranks - 1 - block) * 2 * half + half + at % half;
}

// The same numbers with the positions in the order of memory.
static Case ring_order(const Case *c, const Ring *ring) {
  Case made = case_create(c->a, 1);
  const Attention *a = &c->a;
  for (int t = 0; t < TENSORS; t++) {
    const int64_t positions = is_key_side(t) ? a->keys : a->queries, groups = is_key_side(t) ? 1 : a->groups;
    const int64_t row = a->heads * groups * depth_of(a, t);
    for (int64_t i = 0; i < a->batch * positions; i++) {
      const int64_t to = i / positions * positions + ring_slot(ring, positions, i % positions);
      memcpy(made.tensor[t] + to * row, c->tensor[t] + i * row, sizeof(double) * (size_t)row);
    }
  }
  return made;
}

// One rank's queries and the block of keys of another.
static Attention ring_part(const Layout *layout, const Attention *whole, const Ring *ring, int rank, int owner,
                           Place statistics) {
  Attention a = *whole;
  for (int t = 0; t < TENSORS; t++) {
    const int64_t first = is_key_side(t) ? owner * (a.keys / ring->ranks) : rank * (a.queries / ring->ranks);
    Place *const place[TENSORS] = {&a.q, &a.k, &a.v, &a.o, &a.d_o, &a.dq, &a.dk, &a.dv};
    place[t]->offset += first * layout->stride[t][1] * element_type_bytes(type_of(&a, t));
  }
  a.statistics = statistics;
  a.queries /= ring->ranks;
  a.keys /= ring->ranks;
  a.parts = a.key_parts = ring->zigzag ? 2 : 1;
  const int64_t query = a.queries / a.parts, key = a.keys / a.parts;
  a.origin[0] = rank * query;
  a.origin[1] = (2 * ring->ranks - 1 - rank) * query;
  a.key_origin[0] = owner * key;
  a.key_origin[1] = (2 * ring->ranks - 1 - owner) * key;
  a.key_end = ring->padded ? whole->keys - 1 : 0;
  return a;
}

// All ranks of a ring, one after the other; `order` is that of the plans: backward the rank's own keys come last.
static void ring_add(const Layout *layout, const Attention *whole, const Ring *ring) {
  Place statistics[8];
  const int64_t rows = whole->batch * whole->heads * whole->groups * whole->queries / ring->ranks;
  for (int rank = 0; rank < ring->ranks; rank++) {
    statistics[rank] = bench_place(layout->bench, rows * element_type_bytes(real_of(whole->type)));
    for (int step = 0; step < ring->ranks; step++) {
      const int owner = (rank + ring->ranks - step) % ring->ranks;
      Attention a = ring_part(layout, whole, ring, rank, owner, statistics[rank]);
      a.more = step > 0;
      bench_add(layout->bench, INSTRUCTION_ATTENTION)->as.attention = a;
    }
  }
  for (int step = 1; step <= ring->ranks; step++) {
    for (int rank = 0; rank < ring->ranks; rank++) {
      const int owner = (rank + ring->ranks - step % ring->ranks) % ring->ranks;
      Attention a = ring_part(layout, whole, ring, rank, owner, statistics[rank]);
      a.more = a.more_keys = step > 1;
      if (a.wide) {
        a.o = layout->rounded;
        a.o.offset += rank * a.queries * layout->stride[O][1] * element_type_bytes(a.type);
      }
      bench_add(layout->bench, INSTRUCTION_ATTENTION_GRAD)->as.attention = a;
    }
  }
}

// Whatever lies in the padding of keys and values is not read.
static void spoil_padding(const Case *c, const Layout *layout) {
  const Attention *a = &c->a;
  for (int t = K; t <= V; t++) {
    void *memory = bench_at(layout->bench, *layout->place[t]);
    for (int64_t b = 0; b < a->batch; b++) {
      const int64_t first = index_of(a, t, b, a->keys - 1, 0, 0);
      for (int64_t i = 0; i < a->heads * depth_of(a, t); i++) {
        element_set_at(a->type, memory, memory_index(a, t, layout->stride[t], first + i), NAN);
      }
    }
  }
}

// What is right, with a key more at the end that nobody sees.
static Case with_padding(const Case *c) {
  Attention a = c->a;
  a.keys++;
  Case made = case_create(a, 1);
  for (int t = 0; t < TENSORS; t++) {
    const int64_t had = elements_of(&c->a, t) / a.batch, has = elements_of(&a, t) / a.batch;
    memset(made.tensor[t], 0, sizeof(double) * (size_t)(has * a.batch));
    for (int64_t b = 0; b < a.batch; b++) {
      memcpy(made.tensor[t] + b * has, c->tensor[t] + b * had, sizeof(double) * (size_t)had);
    }
  }
  return made;
}

static void check_ring(Attention a, Ring ring, uint64_t seed) {
  a.keys -= ring.padded;
  a.wide = a.type == TYPE_BF16;
  Case real = case_create(a, seed);
  reference(&real);
  Case whole = ring.padded ? with_padding(&real) : real, ordered = ring_order(&whole, &ring);
  Layout layout = layout_places(&ordered, seed % 2);
  if (ring.padded) {
    spoil_padding(&ordered, &layout);
    case_destroy(&real);
  }
  ring_add(&layout, &ordered.a, &ring);
  char *after = bench_run_threads(layout.bench);
  for (int t = O; t < TENSORS; t++) {
    const double worst = t == D_O ? 0 : worst_difference(&ordered, &layout, after, t);
    // Sums in the real type are as good as its own, but for what the rounded o does to gradients.
    const double tolerance = a.wide && t > O ? 1e-2 : a.type == TYPE_F64 ? 1e-11 : 4e-6;
    if (worst > tolerance) {
      fail_msg("tensor %d of a ring of %d%s%s differs by %g", t, ring.ranks, ring.zigzag ? ", zigzag" : "",
               a.causal ? ", causal" : "", worst);
    }
  }
  free(after);
  bench_destroy(layout.bench);
  case_destroy(&ordered);
  case_destroy(&whole);
}

// A block at the wrong positions, or one that is forgotten, must not pass.
static void notices_wrong_rings(void **state) {
  (void)state;
  for (int wrong = 0; wrong < 3; wrong++) {
    const Ring ring = {.ranks = 2, .zigzag = true};
    Case c = case_create(shape(TYPE_F64, 1, 16, 16, 2, 1, 4, 4, true), 4);
    reference(&c);
    Case ordered = ring_order(&c, &ring);
    Layout layout = layout_places(&ordered, false);
    ring_add(&layout, &ordered.a, &ring);
    PlanSegment *segment = &layout.bench->segment;
    for (int i = 0; i < segment->count; i++) {
      Attention *a = &segment->instructions[i].as.attention;
      a->more = wrong != 0 && a->more;
      a->more_keys = wrong != 1 && a->more_keys;
      a->key_origin[1] += wrong == 2;
    }
    char *after = bench_run(layout.bench, 1);
    assert_true(worst_difference(&ordered, &layout, after, wrong == 1 ? DK : O) > 1e-3);
    free(after);
    bench_destroy(layout.bench);
    case_destroy(&ordered);
    case_destroy(&c);
  }
}

static void rings(void **state) {
  (void)state;
  static const ElementType types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F64};
  for (int i = 0; i < 16; i++) {
    const ElementType type = types[i % 4];
    const Ring blocks = {.ranks = 3}, zigzag = {.ranks = 4, .zigzag = true}, padded = {.ranks = 2, .padded = true};
    const bool causal = i / 4 % 2;
    check_ring(shape(type, 2, 12, 12, 2, 2, 6, 3, causal), blocks, (uint64_t)i);
    check_ring(shape(type, 1, 48, 48, 2, 1, 8, 8, causal), zigzag, (uint64_t)i);
    check_ring(shape(type, 2, 24, 32, 2, 3, 5, 9, false), zigzag, (uint64_t)i);
    check_ring(shape(type, 2, 10, 10, 2, 1, 4, 4, false), padded, (uint64_t)i);
    check_ring(shape(type, 1, 10, 10, 2, 1, 4, 4, true), (Ring){.ranks = 1}, (uint64_t)i);
    check_ring(biased(shape(type, 1, 48, 48, 2, 2, 8, 8, causal)), zigzag, (uint64_t)i);
  }
  check_ring(shape(TYPE_F64, 1, 520, 520, 9, 1, 8, 8, true), (Ring){.ranks = 4, .zigzag = true}, 3);
  check_ring(shape(TYPE_F64, 1, 2400, 2400, 1, 2, 8, 4, true), (Ring){.ranks = 2, .zigzag = true}, 5);
  check_ring(shape(TYPE_F32, 1, 1800, 1800, 1, 1, 8, 8, true), (Ring){.ranks = 3}, 6);
  check_ring(shape(TYPE_BF16, 1, 2400, 2400, 1, 1, 8, 4, true), (Ring){.ranks = 2, .zigzag = true}, 7);
  check_ring(shape(TYPE_BF16, 1, 520, 520, 9, 1, 8, 8, true), (Ring){.ranks = 4, .zigzag = true}, 8);
}

// A mask or biases left out, or a wrong slope must not pass.
static void notices_errors(void **state) {
  (void)state;
  Attention a = biased(shape(TYPE_F64, 1, 20, 20, 2, 1, 8, 8, true));
  for (int error = 0; error < 3; error++) {
    Case right = case_create(a, 3), wrong = case_create(a, 3);
    reference(&right);
    wrong.a.causal = error != 0;
    wrong.a.biased = error != 1;
    wrong.slopes[0] += error == 2 ? 0.1 : 0;
    Layout layout = layout_create(&wrong, false);
    char *after = bench_run(layout.bench, 1);
    for (int t = O; t < TENSORS; t++) {
      assert_true(t == D_O || worst_difference(&right, &layout, after, t) > 1e-3);
    }
    free(after);
    bench_destroy(layout.bench);
    case_destroy(&right);
    case_destroy(&wrong);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_shapes), cmocka_unit_test(block_edges),         cmocka_unit_test(long_sequences),
      cmocka_unit_test(large_scores), cmocka_unit_test(finite_differences),  cmocka_unit_test(notices_errors),
      cmocka_unit_test(rings),        cmocka_unit_test(notices_wrong_rings), cmocka_unit_test(biases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
