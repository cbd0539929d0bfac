// attention_hopper_grad.cu: the gradient of attention of 16-bit elements on sm_90a, in one pass and a fixed order.
//
// A block has KEY_TILE keys, 64 for each of two consumers, and goes over the tiles of 64 queries that see them, from the
// last to the first, all groups of one after the other. With p = exp(scale q.k - statistic) and ds = p (do.v - delta):
// dv = p do, dk = ds q, and its part of dq = ds k, five products. The parts are added up in f32 in device memory, those
// of a tile of queries one block after the other, in the order of the keys. That is also the order in which blocks
// start, those with the most work first, and in which they reach the tile: they seldom wait. A block waits only for
// blocks of lower numbers.
// Scores are transposed, [keys][queries]: accumulators p and ds are operands of dv and dk as they are; ds goes through
// shared memory for dq, of which each consumer has one half of the depth. ADDERS warps bring dq to device memory.
// Scratch: dq, tiles of [2][SPLIT / 8][128 threads][4], statistics as powers of two and delta of each row, in tiles,
// and for each tile how many blocks have added to it; if HIDING the table of attention_blocks.cu.
static_assert(QUERY_TILE == 64 && KEY_TILE == 128, "what registers, and ranks of accumulators, are made for");
constexpr int ADDERS = 2;
constexpr int SPLIT = CHUNKS_K * 32;  // columns of dq of a consumer
constexpr u32 K_BYTES = CHUNKS_K * KEY_TILE * LINE, V_BYTES = CHUNKS_V * KEY_TILE * LINE;
constexpr u32 Q_BYTES = CHUNKS_K * QUERY_TILE * LINE, D_BYTES = CHUNKS_V * QUERY_TILE * LINE;
constexpr u32 S_BYTES = KEY_TILE * LINE, DQ_BYTES = 2 * SPLIT * QUERY_TILE * 4, NUMBER_BYTES = QUERY_TILE * 4;
constexpr u32 V_BEGIN = K_BYTES, Q_BEGIN = V_BEGIN + V_BYTES, D_BEGIN = Q_BEGIN + STAGES * Q_BYTES;
constexpr u32 S_BEGIN = D_BEGIN + STAGES * D_BYTES, DQ_BEGIN = S_BEGIN + 2 * S_BYTES;
constexpr u32 NUMBERS = DQ_BEGIN + ADDERS * DQ_BYTES, PHASES = NUMBERS + 2 * STAGES * NUMBER_BYTES;
constexpr int ROWS = LINES * TILES * QUERY_TILE;  // of statistics and delta
enum { MAP_Q, MAP_K, MAP_V, MAP_DO };
enum { KEYS_FULL, DQ_FULL, DQ_EMPTY = DQ_FULL + ADDERS, Q_FULL = DQ_EMPTY + ADDERS, Q_EMPTY = Q_FULL + STAGES,
       D_FULL = Q_EMPTY + STAGES, D_EMPTY = D_FULL + STAGES, PHASE_COUNT = D_EMPTY + STAGES };

struct Scratch {
  float *dq, *powers, *delta;
  u32 *counts;
};

__device__ __forceinline__ Scratch scratch_of(const Slots &slots) {
  Scratch scratch;
  scratch.dq = (float *)slots.at[SCRATCH];
  scratch.powers = scratch.dq + (i64)LINES * TILES * (DQ_BYTES / 4);
  scratch.delta = scratch.powers + ROWS;
  scratch.counts = (u32 *)(scratch.delta + ROWS);
  return scratch;
}

// --- delta = rowsum(do o), and what there is for each row ---

// DELTA_LANES lanes for each row; rows past the end of a part have p = 0.
extern "C" __global__ void __launch_bounds__(256) attention_delta(Slots slots) {
  const int at = (int)blockIdx.x * (256 / DELTA_LANES) + (int)threadIdx.x / DELTA_LANES;
  const int lane = (int)threadIdx.x % DELTA_LANES, tile = at / QUERY_TILE, inside = at % QUERY_TILE;
  const int part = tile % TILES / PART_TILES, row = tile % PART_TILES * QUERY_TILE + inside;
  const bool there = at < ROWS && row < PART_QUERIES;
  const Scratch scratch = scratch_of(slots);
  Where where;
  where.line = there ? tile / TILES : 0;
  where.group = where.line % GROUPS;
  where.head = where.line / GROUPS % HEADS;
  where.batch = where.line / GROUPS / HEADS;
  where.query = there ? part * PART_QUERIES + row : 0;
  const float sum = delta_of(slots, where, true);
  if (lane == 0 && at < ROWS) {
    const float statistic = there ? ((const float *)slots.at[4])[row_of(where)] : -INFINITE;
    scratch.powers[at] = there ? shift_of(statistic) : INFINITE;
    scratch.delta[at] = there ? sum : 0.0f;
    if (inside == 0) {
      scratch.counts[tile] = 0;
    }
  }
}

// --- the tiles of queries that see a block of keys ---

struct QueryTile {
  int group, tile, first;  // tile: of both parts; first: the last number that its first query sees
};

__device__ __forceinline__ QueryTile walk_tile(const Walk &walk, int i) {
  const int back = i / GROUPS, of_1 = PARTS > 1 ? walk.end_1 - walk.begin_1 : 0;
  const bool second = PARTS > 1 && back < of_1;
  const int tile = second ? walk.end_1 - 1 - back : walk.end_0 - 1 - (back - of_1);
  QueryTile made;
  made.group = i % GROUPS;
  made.tile = second ? PART_TILES + tile : tile;
  made.first = (second ? walk.first_1 : walk.first_0) + tile * QUERY_TILE;
  return made;
}

__device__ __forceinline__ u32 walk_known(const Walk &walk, const QueryTile &tile) {
  return walk.known[(i64)tile.tile * COLUMNS];
}

// The first tile from number i on that is not hidden; all groups of a tile are, or none.
__device__ __forceinline__ int walk_next(const Walk &walk, int i) {
  while (HIDING && i < walk.count && walk_known(walk, walk_tile(walk, i)) & KNOWN_HIDDEN) {
    i += GROUPS;
  }
  return i;
}

__device__ __forceinline__ SharedAddress phase_of(SharedAddress shared, int which) {
  return shared + PHASES + which * 8;
}

// How many blocks add to the dq of a tile before this one: those of earlier keys that it sees.
__device__ __forceinline__ int blocks_before(const Walk &walk, const QueryTile &tile, const Keys &keys) {
  if (HIDING) {
    return (int)(walk_known(walk, tile) >> KNOWN_BITS);
  }
  const int far = tile.first - (WINDOW - 1);
  return keys.key / KEY_TILE - (WINDOW && far > 0 ? far / KEY_TILE : 0);
}

// --- the copiers ---

__device__ __forceinline__ void copy_all(const Slots &slots, const Maps &maps, SharedAddress shared, Where where,
                                         const Keys &keys, const Walk &walk) {
  const Scratch scratch = scratch_of(slots);
  phase_expect(phase_of(shared, KEYS_FULL), K_BYTES + V_BYTES);
  rows_load<KEY_TILE, CHUNKS_K>(shared, &maps.at[MAP_K], phase_of(shared, KEYS_FULL), keys.key, where.head, 0,
                                where.batch);
  rows_load<KEY_TILE, CHUNKS_V>(shared + V_BEGIN, &maps.at[MAP_V], phase_of(shared, KEYS_FULL), keys.key, where.head,
                                0, where.batch);
  int here = walk_next(walk, 0);
  for (int i = 0; (HIDING ? here : i) < walk.count; i++) {
    const QueryTile tile = walk_tile(walk, HIDING ? here : i);
    const int stage = i % STAGES, parity = i / STAGES % 2 ^ 1;
    const SharedAddress q_full = phase_of(shared, Q_FULL + stage), d_full = phase_of(shared, D_FULL + stage);
    const int row = tile.tile / PART_TILES * PART_QUERIES + tile.tile % PART_TILES * QUERY_TILE;
    group_seek(where, tile.group);
    const i64 numbers = ((i64)where.line * TILES + tile.tile) * QUERY_TILE;
    phase_wait(phase_of(shared, Q_EMPTY + stage), parity);
    phase_expect(q_full, Q_BYTES + NUMBER_BYTES);
    rows_load<QUERY_TILE, CHUNKS_K>(shared + Q_BEGIN + stage * Q_BYTES, &maps.at[MAP_Q], q_full, row, where.head,
                                    tile.group, where.batch);
    bytes_load(shared + NUMBERS + 2 * stage * NUMBER_BYTES, scratch.powers + numbers, NUMBER_BYTES, q_full);
    phase_wait(phase_of(shared, D_EMPTY + stage), parity);
    phase_expect(d_full, D_BYTES + NUMBER_BYTES);
    rows_load<QUERY_TILE, CHUNKS_V>(shared + D_BEGIN + stage * D_BYTES, &maps.at[MAP_DO], d_full, row, where.head,
                                    tile.group, where.batch);
    bytes_load(shared + NUMBERS + (2 * stage + 1) * NUMBER_BYTES, scratch.delta + numbers, NUMBER_BYTES, d_full);
    here = walk_next(walk, here + 1);
  }
}

// Parts of dq from shared to device memory, each when it is its turn, by one of ADDERS threads: each has a
// place of its own in shared memory, since a barrier tells a phase from the next one only.
__device__ __forceinline__ void add_all(const Slots &slots, SharedAddress shared, Where where, const Keys &keys,
                                        const Walk &walk, int mine) {
  const Scratch scratch = scratch_of(slots);
  for (int at = walk_next(walk, 0), i = 0; at < walk.count; at = walk_next(walk, at + 1), i++) {
    if (i % ADDERS != mine) {
      continue;
    }
    const QueryTile tile = walk_tile(walk, at);
    const u32 before = (u32)blocks_before(walk, tile, keys);
    const SharedAddress from = shared + DQ_BEGIN + i % ADDERS * DQ_BYTES;
    group_seek(where, tile.group);
    const i64 number = (i64)where.line * TILES + tile.tile;
    float *const to = scratch.dq + number * (DQ_BYTES / 4);
    while (before > 0 && count_read(scratch.counts + number) != before) {
    }
    phase_wait(phase_of(shared, DQ_FULL + i % ADDERS), i / ADDERS % 2);
    if (before == 0) {
      bytes_store(to, from, DQ_BYTES);
    } else {
      copies_follow();
      floats_add(to, from, DQ_BYTES);
    }
    stores_close();
    stores_read();
    phase_arrive(phase_of(shared, DQ_EMPTY + i % ADDERS));
    stores_done();
    count_write(scratch.counts + number, before + 1);
  }
}

// --- the consumers ---

typedef float Scores[1][QUERY_TILE / 8][4];
typedef float Deep[1][DEPTH_PAD / 8][4];
typedef float Values[1][VALUE_PAD / 8][4];

template <bool WHOLE>
__device__ __forceinline__ void scored_powers(Scores &s, u32 (&p)[QUERY_TILE / 16][4], SharedAddress powers,
                                              const Keys &keys, const ScorePlace &place, const ScoreAt &score) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < QUERY_TILE / 8; n++) {
    const float2 shift = shared_floats(powers + (n * 8 + lane % 4 * 2) * 4);
    float power[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int query = n * 8 + lane % 4 * 2 + e % 2, key = e / 2 * 8 + lane / 4;
      const float dot = s[0][n][e], made = score_made<WHOLE>(score, dot, place, query, key);
      const bool hidden =
          (!(WHOLE && ONLY_MASKS) && made == -INFINITE) || (KEY_END && keys.key + key >= keys.limit);
      power[e] = hidden ? 0.0f : exp2_fast(made * POWER - (e % 2 ? shift.y : shift.x));
      s[0][n][e] = power[e] * score_slope<WHOLE>(score, dot, place, query, key, hidden);
    }
    p[n / 2][n % 2 * 2] = Element::pack(power[0], power[1]);
    p[n / 2][n % 2 * 2 + 1] = Element::pack(power[2], power[3]);
  }
}

// Scores, [keys][queries], to probabilities, p as an operand. keys: of the warp. Where scores are of the model's text,
// s becomes p times what gradients of scores are multiplied by.
__device__ __forceinline__ void powers_make(Scores &s, u32 (&p)[QUERY_TILE / 16][4], SharedAddress powers,
                                            const Keys &keys, const Walk &walk, const QueryTile &tile, float slope,
                                            const ScoreAt &score) {
  const int lane = (int)threadIdx.x % 32, first = tile.first;
  if (SCORED) {
    const int query = tile.tile / PART_TILES * PART_QUERIES + tile.tile % PART_TILES * QUERY_TILE;
    const ScorePlace place = {query, first + keys.lead, keys.key, keys.key + keys.lead};
    if (HIDING ? (walk_known(walk, tile) & KNOWN_WHOLE) != 0
               : whole_here(place.query_position, QUERY_TILE, place.key_position, 16)) {
      scored_powers<true>(s, p, powers, keys, place, score);
    } else {
      scored_powers<false>(s, p, powers, keys, place, score);
    }
    return;
  }
  if (BIASED) {
    biases_add<1, QUERY_TILE, true>(s, slope, keys.key - first);
  }
#pragma unroll
  for (int n = 0; n < QUERY_TILE / 8; n++) {
    const float2 shift = shared_floats(powers + (n * 8 + lane % 4 * 2) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      s[0][n][e] = exp2_fast(s[0][n][e] * POWER - (e % 2 ? shift.y : shift.x));
    }
  }
  if ((CAUSAL && keys.key + 15 > first) || (KEY_END && keys.key + 16 > keys.limit)) {
#pragma unroll
    for (int n = 0; n < QUERY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int query = n * 8 + lane % 4 * 2 + e % 2, key = keys.key + e / 2 * 8 + lane / 4;
        if ((CAUSAL && key > first + query) || (KEY_END && key >= keys.limit)) {
          s[0][n][e] = 0.0f;
        }
      }
    }
  }
  fragments_of<QUERY_TILE>(p, s[0]);
}

// Gradients of probabilities to those of scores, or of dot products.
__device__ __forceinline__ void gradients_make(Scores &d, const Scores &p, SharedAddress delta) {
#pragma unroll
  for (int n = 0; n < QUERY_TILE / 8; n++) {
    const float2 of = shared_floats(delta + (n * 8 + (int)threadIdx.x % 4 * 2) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      d[0][n][e] = p[0][n][e] * (d[0][n][e] - (e % 2 ? of.y : of.x));
    }
  }
}

// The 16 rows of a warp of ds, [keys][queries], as rows of a tile.
__device__ __forceinline__ void gradients_share(SharedAddress tile, const u32 (&ds)[QUERY_TILE / 16][4]) {
  const int lane = (int)threadIdx.x % 32, row = lane % 16;
#pragma unroll
  for (int k = 0; k < QUERY_TILE / 16; k++) {
    matrices_store(tile + row * LINE + ((k * 2 + lane / 16) ^ row % 8) * 16, ds[k][0], ds[k][1], ds[k][2], ds[k][3]);
  }
}

// there: else the tile holds what came before, and nobody reads what is made of it.
__device__ __forceinline__ void scores_begin(Scores &s, SharedAddress shared, SharedAddress k, int i, bool there) {
  const int stage = i % STAGES;
  if (there) {
    phase_wait(phase_of(shared, Q_FULL + stage), i / STAGES % 2);
  }
  products_begin();
  rows_multiply<DEPTH_PAD, KEY_TILE, QUERY_TILE>(s[0], k, shared + Q_BEGIN + stage * Q_BYTES);
  products_close();
}

// This consumer's half of a tile's dq.
__device__ __forceinline__ void queries_multiply(float (&dq)[SPLIT / 8][4], SharedAddress ds, SharedAddress k, int mine) {
  const u32 column = (u32)mine * SPLIT;
  const Operand left = operand_at(ds, 0), right = operand_at(k + column / 64 * KEY_TILE * LINE + column % 64 * 2, 0);
#pragma unroll
  for (int i = 0; i < KEY_TILE / 16; i++) {
    warpgroup_product<1, 1>(dq, operand_on(left, i * 16 * LINE), operand_on(right, i * 16 * LINE), i > 0);
  }
}

// What is in flight fits the registers: of dv, dk, s, d and dq, and p and ds as operands, at most 224.
__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared, Where where, Keys keys,
                                             const Walk &walk) {
  const int thread = (int)threadIdx.x - COPIERS, mine = thread / 128, warp = thread / 32;
  const bool tells = threadIdx.x % 32 == 0;
  Deep dk;
  Values dv;
  clear(dk);
  clear(dv);
  keys.key += warp * 16;  // of the warp
  int here = walk_next(walk, 0);
  if (here < walk.count) {
    Scores s, d;
    phase_wait(phase_of(shared, KEYS_FULL), 0);
    scores_begin(s, shared, shared + mine * 64 * LINE, 0, true);
    products_wait<0>();
    products_hold(s[0]);
#pragma unroll 1
    for (int i = 0; (HIDING ? here : i) < walk.count; i++) {
      KEEP_IN_LOOP(shared);
      const int at = HIDING ? here : i, next = walk_next(walk, at + 1);
      const int stage = i % STAGES;
      const SharedAddress k = shared + mine * 64 * LINE, v = shared + V_BEGIN + mine * 64 * LINE;
      const SharedAddress q = shared + Q_BEGIN + stage * Q_BYTES, d_o = shared + D_BEGIN + stage * D_BYTES;
      const SharedAddress numbers = shared + NUMBERS + 2 * stage * NUMBER_BYTES, ds = shared + S_BEGIN + i % 2 * S_BYTES;
      const QueryTile tile = walk_tile(walk, at);
      u32 p[QUERY_TILE / 16][4], g[QUERY_TILE / 16][4];
      float dq[SPLIT / 8][4];
      phase_wait(phase_of(shared, D_FULL + stage), i / STAGES % 2);
      products_begin();
      rows_multiply<VALUE_PAD, KEY_TILE, QUERY_TILE>(d[0], v, d_o);
      products_close();
      powers_make(s, p, numbers, keys, walk, tile, slope_of<float>(slots, where, tile.group),
                  score_at(slots, where.batch, where.head, tile.group));
      products_begin();
      columns_multiply<QUERY_TILE, QUERY_TILE>(dv[0], p, d_o);
      products_close();
      products_wait<1>();
      products_hold(d[0]);
      gradients_make(d, s, numbers + NUMBER_BYTES);
      fragments_of<QUERY_TILE>(g, d[0]);
      gradients_share(ds + warp * 16 * LINE, g);
      shared_publish();
      products_begin();
      columns_multiply<QUERY_TILE, QUERY_TILE>(dk[0], g, q);
      products_close();
      turn_sync(1, MULTIPLIERS);  // ds is there
      products_begin();
      queries_multiply(dq, ds, shared, mine);
      products_close();
      products_wait<1>();
      products_hold(dv[0]);
      products_hold(dk[0]);
      if (tells) {
        phase_arrive(phase_of(shared, Q_EMPTY + stage));
        phase_arrive(phase_of(shared, D_EMPTY + stage));
      }
      scores_begin(s, shared, k, i + 1, next < walk.count);
      products_wait<1>();
      products_hold(dq);
      phase_wait(phase_of(shared, DQ_EMPTY + i % ADDERS), i / ADDERS % 2 ^ 1);
#pragma unroll
      for (int j = 0; j < SPLIT / 8; j++) {
        shared_store(shared + DQ_BEGIN + i % ADDERS * DQ_BYTES + ((mine * (SPLIT / 8) + j) * 128 + thread % 128) * 16, dq[j]);
      }
      shared_publish();
      __syncwarp();
      if (tells) {
        phase_arrive(phase_of(shared, DQ_FULL + i % ADDERS));
      }
      products_wait<0>();
      products_hold(s[0]);
      here = next;
    }
  }
  const float scale[1][2] = {{SCALE, SCALE}}, one[1][2] = {{1.0f, 1.0f}};
  const int rows = keys.end - keys.key;
  result_store<DEPTH_PAD, DEPTH, MORE_KEYS>(KEY_AT((Made *)slots.at[7], DK, keys.key), DK_KEY, dk, scale, one, rows);
  result_store<VALUE_PAD, VALUE_DEPTH, MORE_KEYS>(KEY_AT((Made *)slots.at[8], DV, keys.key), DV_KEY, dv, one, one,
                                                  rows);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_keys(Slots slots, const __grid_constant__ Maps maps) {
  const SharedAddress shared = shared_begin();
  const int line = (int)blockIdx.x % (BATCH * HEADS);
  Keys keys = keys_of_part(slots, 0);
  Where where;
  where.head = line % HEADS;
  where.batch = line / HEADS;
  keys.key += (int)blockIdx.x / (BATCH * HEADS) * KEY_TILE;
  Walk walk = walk_of(slots, keys, KEY_TILE);
  walk.known = HIDING ? known_row(slots, where.batch, 0) + column_of(keys) : nullptr;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < PHASE_COUNT; i++) {
      const bool empty = (i >= DQ_FULL && i < DQ_EMPTY) || (i >= Q_EMPTY && i < D_FULL) || i >= D_EMPTY;
      phase_init(phase_of(shared, i), empty ? CONSUMERS * 4 : 1);
    }
    phases_ready();
  }
  __syncthreads();
  if (threadIdx.x < COPIERS) {
    registers_fewer<COPIER_REGISTERS>();
    if (walk_next(walk, 0) >= walk.count) {
      return;
    }
    if (threadIdx.x == 0) {
      copy_all(slots, maps, shared, where, keys, walk);
    } else if (threadIdx.x % 32 == 0 && threadIdx.x <= ADDERS * 32) {
      add_all(slots, shared, where, keys, walk, (int)threadIdx.x / 32 - 1);
    }
  } else {
    registers_more<CONSUMER_REGISTERS>();
    multiply_all(slots, shared, where, keys, walk);
  }
}

// --- dq in its own order and type ---

extern "C" __global__ void __launch_bounds__(256) attention_dq(Slots slots) {
  const Scratch scratch = scratch_of(slots);
  const int tile = (int)blockIdx.x % TILES, half = (int)threadIdx.x / 128, thread = (int)threadIdx.x % 128;
  const int inside = tile % PART_TILES * QUERY_TILE + thread / 32 * 16;
  const float4 *const from = (const float4 *)scratch.dq + (i64)blockIdx.x * (DQ_BYTES / 16) + half * (SPLIT / 8) * 128;
  const bool added = scratch.counts[blockIdx.x] > 0;
  const float scale[1][2] = {{SCALE, SCALE}}, one[1][2] = {{1.0f, 1.0f}};
  float x[1][SPLIT / 8][4];
  Where where;
  where.line = (int)blockIdx.x / TILES;
  where.group = where.line % GROUPS;
  where.head = where.line / GROUPS % HEADS;
  where.batch = where.line / GROUPS / HEADS;
  where.query = tile / PART_TILES * PART_QUERIES + inside;
#pragma unroll
  for (int j = 0; j < SPLIT / 8; j++) {
    const float4 four = added ? from[j * 128 + thread] : float4{0.0f, 0.0f, 0.0f, 0.0f};
    x[0][j][0] = four.x;
    x[0][j][1] = four.y;
    x[0][j][2] = four.z;
    x[0][j][3] = four.w;
  }
  Made *const to = QUERY_AT((Made *)slots.at[6], DQ, 0);
  constexpr int LEFT = DEPTH < SPLIT ? DEPTH : SPLIT;
  if (half == 0) {
    result_store<SPLIT, LEFT, MORE>(to, DQ_QUERY, x, scale, one, PART_QUERIES - inside);
  } else {
    result_store<SPLIT, DEPTH - LEFT, MORE>(to + SPLIT, DQ_QUERY, x, scale, one, PART_QUERIES - inside);
  }
}
