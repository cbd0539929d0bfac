// attention_hopper_grad.cu: the gradient of attention of 16-bit elements on sm_90a, in one pass and a fixed order.
//
// A block has KEY_TILE keys and goes over the tiles of 64 queries that see them, from the last to the first, all groups
// of one after the other. With p = exp(scale q.k - statistic) and ds = p (do.v - delta): dv = p do, dk = ds q, and its
// part of dq = ds k, five products. The parts are added up in f32 in device memory, those of a tile of queries one block
// after the other, in the order of the keys. That is also the order in which blocks start, those with the most work
// first, and in which they reach the tile: they seldom wait. A block waits only for blocks of lower numbers.
// Scores are transposed, [keys][queries]; ds goes through shared memory for dq, of which each of the two consumers has
// one half of the depth. BUFFERS warps bring dq to device memory. How consumers share the rest is that of another text,
// by the depth: attention_hopper_keys.cu, attention_hopper_columns.cu.
// Scratch: dq, tiles of [2][SPLIT / 8][128 threads][4], statistics as powers of two and delta of each row, in tiles,
// and for each tile how many blocks have added to it; if HIDING the table of attention_blocks.cu.
static_assert(QUERY_TILE == 64 && CONSUMERS == 2, "what registers, and ranks of accumulators, are made for");
constexpr int SPLIT = CHUNKS_K * 32;  // columns of dq of a consumer
constexpr u32 K_BYTES = CHUNKS_K * KEY_TILE * LINE, V_BYTES = CHUNKS_V * KEY_TILE * LINE;
constexpr u32 Q_BYTES = CHUNKS_K * QUERY_TILE * LINE, D_BYTES = CHUNKS_V * QUERY_TILE * LINE;
constexpr u32 S_BYTES = KEY_TILE * LINE, DQ_BYTES = 2 * SPLIT * QUERY_TILE * 4, NUMBER_BYTES = QUERY_TILE * 4;
constexpr u32 STEP_BYTES = QUERY_STEP * LINE;
constexpr u32 V_BEGIN = K_BYTES, Q_BEGIN = V_BEGIN + V_BYTES, D_BEGIN = Q_BEGIN + STAGES * Q_BYTES;
constexpr u32 S_BEGIN = D_BEGIN + STAGES * D_BYTES, DQ_BEGIN = S_BEGIN + S_TILES * S_BYTES;
constexpr u32 NUMBERS = DQ_BEGIN + BUFFERS * DQ_BYTES, PHASES = NUMBERS + 2 * STAGES * NUMBER_BYTES;
constexpr int ROWS = LINES * TILES * QUERY_TILE;  // of statistics and delta
constexpr bool LIMITED = KEY_END || PART_KEYS % KEY_TILE != 0;  // tiles of keys may end in what is none
enum { MAP_Q, MAP_K, MAP_V, MAP_DO };
enum { KEYS_FULL, DQ_FULL, DQ_EMPTY = DQ_FULL + BUFFERS, Q_FULL = DQ_EMPTY + BUFFERS, Q_EMPTY = Q_FULL + STAGES,
       D_FULL = Q_EMPTY + STAGES, D_EMPTY = D_FULL + STAGES, PHASE_COUNT = D_EMPTY + STAGES };
constexpr u32 PLACES = PHASES + PHASE_COUNT * 8;  // which tile is in a stage, if HIDING

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
__device__ __forceinline__ int blocks_before(const Slots &slots, const Walk &walk, const QueryTile &tile,
                                             const Keys &keys) {
  if (HIDING) {
    return (int)(walk_known(walk, tile) >> KNOWN_BITS);
  }
  const int begin = keys.part * PART_KEYS, far = tile.first - (WINDOW - 1) - begin;
  int before = (keys.key - begin) / KEY_TILE - (WINDOW && far > 0 ? far / KEY_TILE : 0);
  if (KEY_PARTS > 1 && keys.part > 0) {  // and those of the first part
    const Keys others = keys_of_part(slots, 0);
    const int first = tile.first + keys.lead - others.lead, hidden = first - (WINDOW - 1);
    const int end = CAUSAL && first + QUERY_TILE < others.limit ? first + QUERY_TILE : others.limit;
    const int count = (end + KEY_TILE - 1) / KEY_TILE - (WINDOW && hidden > 0 ? hidden / KEY_TILE : 0);
    before += end > 0 && count > 0 ? count : 0;
  }
  return before;
}

// --- the copiers ---

__device__ __forceinline__ void copy_all(const Slots &slots, const Maps &maps, SharedAddress shared, Where where,
                                         const Keys &keys, const Walk &walk) {
  const Scratch scratch = scratch_of(slots);
  int here = walk_next(walk, 0), i = 0;
  if (here < walk.count) {
    phase_expect(phase_of(shared, KEYS_FULL), K_BYTES + V_BYTES);
    rows_load<KEY_TILE, CHUNKS_K>(shared, &maps.at[MAP_K], phase_of(shared, KEYS_FULL), keys.key, where.head, 0,
                                  where.batch);
    rows_load<KEY_TILE, CHUNKS_V>(shared + V_BEGIN, &maps.at[MAP_V], phase_of(shared, KEYS_FULL), keys.key, where.head,
                                  0, where.batch);
  }
  for (; (HIDING ? here : i) < walk.count; i++) {
    KEEP_IN_LOOP(shared);
    const QueryTile tile = walk_tile(walk, HIDING ? here : i);
    const int stage = i % STAGES, parity = i / STAGES % 2 ^ 1;
    const SharedAddress q_full = phase_of(shared, Q_FULL + stage), d_full = phase_of(shared, D_FULL + stage);
    const int row = tile.tile / PART_TILES * PART_QUERIES + tile.tile % PART_TILES * QUERY_TILE;
    group_seek(where, tile.group);
    const i64 numbers = ((i64)where.line * TILES + tile.tile) * QUERY_TILE;
    phase_wait(phase_of(shared, Q_EMPTY + stage), parity);
    if (HIDING) {
      shared_put(shared + PLACES + stage * 4, here);
    }
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
  if (HIDING) {  // the end
    const int stage = i % STAGES;
    phase_wait(phase_of(shared, Q_EMPTY + stage), i / STAGES % 2 ^ 1);
    shared_put(shared + PLACES + stage * 4, here);
    phase_arrive(phase_of(shared, Q_FULL + stage));
  }
}

// Parts of dq from shared to device memory, each when it is its turn, by one of BUFFERS threads: each has a
// place of its own in shared memory, since a barrier tells a phase from the next one only.
__device__ __forceinline__ void add_all(const Slots &slots, SharedAddress shared, Where where, const Keys &keys,
                                        const Walk &walk, int mine) {
  const Scratch scratch = scratch_of(slots);
  for (int at = walk_next(walk, 0), i = 0; at < walk.count; at = walk_next(walk, at + 1), i++) {
    if (i % BUFFERS != mine) {
      continue;
    }
    const QueryTile tile = walk_tile(walk, at);
    const u32 before = (u32)blocks_before(slots, walk, tile, keys);
    const SharedAddress from = shared + DQ_BEGIN + i % BUFFERS * DQ_BYTES;
    group_seek(where, tile.group);
    const i64 number = (i64)where.line * TILES + tile.tile;
    float *const to = scratch.dq + number * (DQ_BYTES / 4);
    while (before > 0 && count_read(scratch.counts + number) != before) {
    }
    phase_wait(phase_of(shared, DQ_FULL + i % BUFFERS), i / BUFFERS % 2);
    if (before == 0) {
      bytes_store(to, from, DQ_BYTES);
    } else {
      copies_follow();
      floats_add(to, from, DQ_BYTES);
    }
    stores_close();
    stores_read();
    phase_arrive(phase_of(shared, DQ_EMPTY + i % BUFFERS));
    stores_done();
    count_write(scratch.counts + number, before + 1);
  }
}

// --- the consumers ---

// Waits for k and v. What lies behind the end of all keys becomes 0: it may be no number.
__device__ __forceinline__ void keys_come(SharedAddress shared, const Keys &keys) {
  phase_wait(phase_of(shared, KEYS_FULL), 0);
  if (KEY_END && keys.key + KEY_TILE > keys.limit) {
    rows_clear<KEY_TILE, CHUNKS_K>(shared, keys.limit - keys.key);
    rows_clear<KEY_TILE, CHUNKS_V>(shared + V_BEGIN, keys.limit - keys.key);
    shared_publish();
    turn_sync(1, MULTIPLIERS);
  }
}

typedef float Scores[1][QUERY_STEP / 8][4];  // of a step: QUERY_STEP queries of a tile

template <bool WHOLE>
__device__ __forceinline__ void scored_powers(Scores &s, u32 (&p)[QUERY_STEP / 16][4], SharedAddress powers,
                                              const Keys &keys, const ScorePlace &place, const ScoreAt &score) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 shift = shared_floats(powers + (n * 8 + lane % 4 * 2) * 4);
    float power[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int query = n * 8 + lane % 4 * 2 + e % 2, key = e / 2 * 8 + lane / 4;
      const float dot = s[0][n][e], made = score_made<WHOLE>(score, dot, place, query, key);
      const bool hidden =
          (!(WHOLE && ONLY_MASKS) && made == -INFINITE) || (LIMITED && keys.key + key >= keys.limit);
      power[e] = hidden ? 0.0f : power_of(made, e % 2 ? shift.y : shift.x);
      s[0][n][e] = power[e] * score_slope<WHOLE>(score, dot, place, query, key, hidden);
    }
    p[n / 2][n % 2 * 2] = Element::pack(power[0], power[1]);
    p[n / 2][n % 2 * 2 + 1] = Element::pack(power[2], power[3]);
  }
}

// Scores, [keys][queries], to probabilities, p as an operand. keys: of the warp. Where scores are of the model's text,
// s becomes p times what gradients of scores are multiplied by.
__device__ __forceinline__ void powers_make(Scores &s, u32 (&p)[QUERY_STEP / 16][4], SharedAddress powers,
                                            const Keys &keys, const Walk &walk, const QueryTile &tile, int step,
                                            float slope, const ScoreAt &score) {
  const int lane = (int)threadIdx.x % 32, begin = step * QUERY_STEP, first = tile.first + begin;
  if (SCORED) {
    const int query = tile.tile / PART_TILES * PART_QUERIES + tile.tile % PART_TILES * QUERY_TILE + begin;
    const ScorePlace place = {query, first + keys.lead, keys.key, keys.key + keys.lead};
    if (HIDING ? (walk_known(walk, tile) & KNOWN_WHOLE) != 0
               : whole_here(place.query_position, QUERY_STEP, place.key_position, 16)) {
      scored_powers<true>(s, p, powers, keys, place, score);
    } else {
      scored_powers<false>(s, p, powers, keys, place, score);
    }
    return;
  }
  if (BIASED) {
    biases_add<1, QUERY_STEP, true>(s, slope, keys.key - first);
  }
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 shift = shared_floats(powers + (n * 8 + lane % 4 * 2) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      s[0][n][e] = power_of(s[0][n][e], e % 2 ? shift.y : shift.x);
    }
  }
  if ((CAUSAL && keys.key + 15 > first) || (LIMITED && keys.key + 16 > keys.limit)) {
#pragma unroll
    for (int n = 0; n < QUERY_STEP / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int query = n * 8 + lane % 4 * 2 + e % 2, key = keys.key + e / 2 * 8 + lane / 4;
        if ((CAUSAL && key > first + query) || (LIMITED && key >= keys.limit)) {
          s[0][n][e] = 0.0f;
        }
      }
    }
  }
  fragments_of<QUERY_STEP>(p, s[0]);
}

// Gradients of probabilities to those of scores, or of dot products.
__device__ __forceinline__ void gradients_make(Scores &d, const Scores &p, SharedAddress delta) {
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 of = shared_floats(delta + (n * 8 + (int)threadIdx.x % 4 * 2) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      d[0][n][e] = p[0][n][e] * (d[0][n][e] - (e % 2 ? of.y : of.x));
    }
  }
}

// The 16 rows of a warp of p or ds, [keys][queries of a step], as rows of a tile.
__device__ __forceinline__ void fragments_share(SharedAddress tile, const u32 (&ds)[QUERY_STEP / 16][4], int step) {
  const int lane = (int)threadIdx.x % 32, row = lane % 16;
#pragma unroll
  for (int k = 0; k < QUERY_STEP / 16; k++) {
    const int at = (step * (QUERY_STEP / 16) + k) * 2 + lane / 16;
    matrices_store(tile + row * LINE + (at ^ row % 8) * 16, ds[k][0], ds[k][1], ds[k][2], ds[k][3]);
  }
}

// The place in the walk of what comes as tile number i: found by the copier, if HIDING, which a consumer waits for.
__device__ __forceinline__ int tile_come(SharedAddress shared, int i) {
  if (HIDING) {
    phase_wait(phase_of(shared, Q_FULL + i % STAGES), i / STAGES % 2);
    return shared_get(shared + PLACES + i % STAGES * 4);
  }
  return i;
}

// Of a step of tile number i. there: else the tile holds what came before, and nobody reads what is made of it.
__device__ __forceinline__ void scores_begin(Scores &s, SharedAddress shared, SharedAddress k, int i, int step, bool there) {
  const int stage = i % STAGES;
  if (there) {
    phase_wait(phase_of(shared, Q_FULL + stage), i / STAGES % 2);
  }
  products_begin();
  rows_multiply<DEPTH_PAD, KEY_TILE, QUERY_TILE>(s[0], k, shared + Q_BEGIN + stage * Q_BYTES + step * STEP_BYTES);
  products_close();
}

// --- a consumer's half of the columns of tiles: whole tiles of 64, and half of the one in the middle ---

template <int CHUNKS>
struct Half {
  static constexpr int WHOLE = CHUNKS / 2 * 64, HALF = CHUNKS % 2 * 32;
  static constexpr int MIDDLE = CHUNKS / 2 * 64, LATER = (CHUNKS + 1) / 2 * 64;  // where the half, and the second's, begin
  float whole[1][WHOLE ? WHOLE / 8 : 1][4], half[1][HALF ? HALF / 8 : 1][4];
};

template <int CHUNKS>
__device__ __forceinline__ void half_hold(Half<CHUNKS> &x) {
  if constexpr (Half<CHUNKS>::WHOLE > 0) {
    products_hold(x.whole[0]);
  }
  if constexpr (Half<CHUNKS>::HALF > 0) {
    products_hold(x.half[0]);
  }
}

// x (+)= the sum over DEEP of a[m][.] b[.][n], of this consumer's columns. COLUMNS_A: rows of `a` are contracted; b: its
// first tile of ROWS_B rows.
template <int COLUMNS_A, int DEEP, int N>
__device__ __forceinline__ void tiles_multiply(float (&x)[N][4], Operand a, Operand b, bool add) {
#pragma unroll
  for (int i = 0; i < DEEP / 16; i++) {
    warpgroup_product<COLUMNS_A, 1>(x, operand_on(a, i * (COLUMNS_A ? 16 * LINE : 32)), operand_on(b, i * 16 * LINE),
                                    add || i > 0);
  }
}

template <int COLUMNS_A, int DEEP, int ROWS_B, int CHUNKS>
__device__ __forceinline__ void whole_multiply(Half<CHUNKS> &x, SharedAddress a, SharedAddress b, int mine, bool add) {
  if constexpr (Half<CHUNKS>::WHOLE > 0) {
    const SharedAddress begin = b + mine * (Half<CHUNKS>::LATER / 64) * ROWS_B * LINE;
    tiles_multiply<COLUMNS_A, DEEP>(x.whole[0], operand_at(a, 0), operand_at(begin, ROWS_B * LINE), add);
  }
}

template <int COLUMNS_A, int DEEP, int ROWS_B, int CHUNKS>
__device__ __forceinline__ void middle_multiply(Half<CHUNKS> &x, SharedAddress a, SharedAddress b, int mine, bool add) {
  if constexpr (Half<CHUNKS>::HALF > 0) {
    const SharedAddress begin = b + Half<CHUNKS>::MIDDLE / 64 * ROWS_B * LINE + mine * 64;
    tiles_multiply<COLUMNS_A, DEEP>(x.half[0], operand_at(a, 0), operand_at(begin, 0), add);
  }
}

template <int COLUMNS_A, int DEEP, int ROWS_B, int CHUNKS>
__device__ __forceinline__ void half_multiply(Half<CHUNKS> &x, SharedAddress a, SharedAddress b, int mine, bool add) {
  whole_multiply<COLUMNS_A, DEEP, ROWS_B>(x, a, b, mine, add);
  middle_multiply<COLUMNS_A, DEEP, ROWS_B>(x, a, b, mine, add);
}

// In the order of columns, to [columns / 8][128 threads][4] of this consumer.
template <int CHUNKS>
__device__ __forceinline__ void whole_share(SharedAddress to, const Half<CHUNKS> &x, int mine) {
#pragma unroll
  for (int j = 0; j < Half<CHUNKS>::WHOLE / 8; j++) {
    shared_store(to + ((mine ? Half<CHUNKS>::HALF / 8 : 0) + j) * 128 * 16, x.whole[0][j]);
  }
}

template <int CHUNKS>
__device__ __forceinline__ void middle_share(SharedAddress to, const Half<CHUNKS> &x, int mine) {
#pragma unroll
  for (int j = 0; j < Half<CHUNKS>::HALF / 8; j++) {
    shared_store(to + ((mine ? 0 : Half<CHUNKS>::WHOLE / 8) + j) * 128 * 16, x.half[0][j]);
  }
}

// Where this thread's part of dq goes, when the one before has left the buffer.
__device__ __forceinline__ SharedAddress queries_place(SharedAddress shared, int i, int mine) {
  phase_wait(phase_of(shared, DQ_EMPTY + i % BUFFERS), i / BUFFERS % 2 ^ 1);
  return shared + DQ_BEGIN + i % BUFFERS * DQ_BYTES + mine * (DQ_BYTES / 2) + (u32)threadIdx.x % 128 * 16;
}

// dq is there.
__device__ __forceinline__ void queries_tell(SharedAddress shared, int i) {
  shared_publish();
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    phase_arrive(phase_of(shared, DQ_FULL + i % BUFFERS));
  }
}

__device__ __forceinline__ void queries_share(SharedAddress shared, const Half<CHUNKS_K> &dq, int i, int mine) {
  const SharedAddress to = queries_place(shared, i, mine);
  whole_share(to, dq, mine);
  middle_share(to, dq, mine);
  queries_tell(shared, i);
}

// Of another text.
__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared, Where where, Keys keys,
                                             const Walk &walk);

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_keys(Slots slots, const __grid_constant__ Maps maps) {
  const SharedAddress shared = shared_begin();
  Where where;
  const Keys keys = where_keys<KEY_TILE>(slots, where);
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
    if (threadIdx.x == 0) {
      copy_all(slots, maps, shared, where, keys, walk);
    } else if (threadIdx.x % 32 == 0 && threadIdx.x <= BUFFERS * 32) {
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
  if (MORE && !added) {
    return;
  }
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
