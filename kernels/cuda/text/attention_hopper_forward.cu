// attention_hopper_forward.cu: attention of 16-bit elements on sm_90a, forward.
//
// A block is there for as long as there are tiles of queries, 64 for each consumer: it takes them there and back, the
// longest first. Of a tile, it goes over the keys that its queries see from the last to the first, in tiles of KEY_TILE.
// The products of scores of one tile of keys are under way while those before become powers (two groups of products in
// flight), and consumers take turns: one multiplies while the others are at their softmax. After Shah and others 2024.
// Shared: q, then STAGES of k, then of v, then barriers. Scratch, if HIDING: the table of attention_blocks.cu.
static_assert(QUERY_TILE == CONSUMERS * 64, "a tile is what all consumers have");
constexpr int ALL_TILES = LINES * TILES;
constexpr u32 Q_BYTES = CHUNKS_K * QUERY_TILE * LINE;
constexpr u32 K_BYTES = CHUNKS_K * KEY_TILE * LINE, V_BYTES = CHUNKS_V * KEY_TILE * LINE;
constexpr u32 K_BEGIN = Q_BYTES, V_BEGIN = K_BEGIN + STAGES * K_BYTES, PHASES = V_BEGIN + STAGES * V_BYTES;
enum { MAP_Q, MAP_K, MAP_V };
enum { Q_FULL, Q_EMPTY, K_FULL, K_EMPTY = K_FULL + STAGES, V_FULL = K_EMPTY + STAGES, V_EMPTY = V_FULL + STAGES,
       PHASE_COUNT = V_EMPTY + STAGES };

__device__ __forceinline__ SharedAddress phase_of(SharedAddress shared, int which) {
  return shared + PHASES + which * 8;
}

// Tiles of keys that the queries see, those of the second part first.
struct Seen {
  int last, count;   // last: of the last part
  const u32 *known;  // of the queries
};

// From a multiple of KEY_TILE on where there is a table.
__device__ __forceinline__ Keys keys_from(const Slots &slots, const Where &where, int part) {
  Keys keys = keys_seen(slots, where, part);
  keys.key -= HIDING ? (keys.key - part * PART_KEYS) % KEY_TILE : 0;
  return keys;
}

__device__ __forceinline__ int tiles_of(const Keys &keys) {
  return keys.key < keys.end ? (keys.end - keys.key + KEY_TILE - 1) / KEY_TILE : 0;
}

__device__ __forceinline__ Seen seen_of(const Slots &slots, const Where &where) {
  Seen seen;
  seen.last = tiles_of(keys_from(slots, where, KEY_PARTS - 1));
  seen.count = seen.last + (KEY_PARTS > 1 ? tiles_of(keys_from(slots, where, 0)) : 0);
  seen.known = HIDING ? known_row(slots, where.batch, tile_of(where)) : nullptr;
  return seen;
}

__device__ __forceinline__ Keys keys_tile(const Slots &slots, const Where &where, const Seen &seen, int i) {
  const bool last = i < seen.last;
  Keys keys = keys_from(slots, where, last ? KEY_PARTS - 1 : 0);
  keys.key += ((last ? seen.last : seen.count) - 1 - i) * KEY_TILE;
  return keys;
}

// The first tile from number i on that is not hidden.
__device__ __forceinline__ int seen_next(const Slots &slots, const Where &where, const Seen &seen, int i) {
  while (HIDING && i < seen.count && seen.known[column_of(keys_tile(slots, where, seen, i))] & KNOWN_HIDDEN) {
    i++;
  }
  return i;
}

// There and back; the last round has none for some blocks.
__device__ __forceinline__ int tile_number(int round) {
  const int grid = (int)gridDim.x, block = (int)blockIdx.x;
  return round * grid + (round % 2 ? grid - 1 - block : block);
}

__device__ __forceinline__ void copy_all(const Slots &slots, const Maps &maps, SharedAddress shared) {
  int at = 0, turn = 0;
  for (int round = 0; tile_number(round) < ALL_TILES; round++) {
    const Where where = where_tile<QUERY_TILE>(slots, tile_number(round));
    const Seen seen = seen_of(slots, where);
    bool first = true;
    for (int i = seen_next(slots, where, seen, 0); i < seen.count; i = seen_next(slots, where, seen, i + 1), at++) {
      const int stage = at % STAGES, parity = at / STAGES % 2 ^ 1;
      const Keys keys = keys_tile(slots, where, seen, i);
      phase_wait(phase_of(shared, K_EMPTY + stage), parity);
      phase_expect(phase_of(shared, K_FULL + stage), K_BYTES);
      rows_load<KEY_TILE, CHUNKS_K>(shared + K_BEGIN + stage * K_BYTES, &maps.at[MAP_K],
                                    phase_of(shared, K_FULL + stage), keys.key, where.head, 0, where.batch);
      if (first) {
        first = false;
        phase_wait(phase_of(shared, Q_EMPTY), turn % 2 ^ 1);
        phase_expect(phase_of(shared, Q_FULL), Q_BYTES);
        rows_load<QUERY_TILE, CHUNKS_K>(shared, &maps.at[MAP_Q], phase_of(shared, Q_FULL), where.query, where.head,
                                        where.group, where.batch);
        turn++;
      }
      phase_wait(phase_of(shared, V_EMPTY + stage), parity);
      phase_expect(phase_of(shared, V_FULL + stage), V_BYTES);
      rows_load<KEY_TILE, CHUNKS_V>(shared + V_BEGIN + stage * V_BYTES, &maps.at[MAP_V],
                                    phase_of(shared, V_FULL + stage), keys.key, where.head, 0, where.batch);
    }
  }
}

// Waits for the values of tile number `at`. What lies behind the end of all keys becomes 0: it may be no number.
__device__ __forceinline__ void values_come(SharedAddress shared, int at, const Keys &keys) {
  phase_wait(phase_of(shared, V_FULL + at % STAGES), at / STAGES % 2);
  if (KEY_END && keys.key + KEY_TILE > keys.limit) {
    rows_clear<KEY_TILE, CHUNKS_V>(shared + V_BEGIN + at % STAGES * V_BYTES, keys.limit - keys.key);
    shared_publish();
    turn_sync(CONSUMERS + threadIdx.x / 128, 128);
  }
}

// row: the first of the warp.
__device__ __forceinline__ bool powers_make(Scores &s, Running &running, Factors &factor, const Where &where,
                                            const Seen &seen, const Keys &keys, int row, float slope,
                                            const ScoreAt &score) {
  const int position = where.position - keys.lead + row;
  if (SCORED) {
    const ScorePlace place = {where.query + row, where.position + row, keys.key, keys.key + keys.lead};
    if (HIDING ? (seen.known[column_of(keys)] & KNOWN_WHOLE) != 0
               : whole_here(place.query_position, 16, place.key_position, KEY_TILE)) {
      scores_make<false, true>(s, score, place);
    } else {
      scores_make<false>(s, score, place);
    }
  } else if (BIASED) {
    biases_add<1, KEY_TILE, false>(s, slope, keys.key - position);
  }
  if (keys.key + KEY_TILE > keys.limit || (CAUSAL && keys.key + KEY_TILE - 1 > position)) {
    mask<1, KEY_TILE>(s, -INFINITE, position, keys);
  }
  return softmax_make(s, running, factor);
}

__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared) {
  const int warp = (int)(threadIdx.x - COPIERS) / 32, mine = warp / 4, next = (mine + 1) % CONSUMERS, row = warp * 16;
  const bool tells = threadIdx.x % 32 == 0;
  const SharedAddress q = shared + mine * 64 * LINE;
  int at = 0, turn = 0;
  if (mine == CONSUMERS - 1) {
    turn_arrive(1, 256);  // the first consumer begins
  }
  for (int round = 0; tile_number(round) < ALL_TILES; round++) {
    const Where where = where_tile<QUERY_TILE>(slots, tile_number(round));
    const Seen seen = seen_of(slots, where);
    const float slope = slope_of<float>(slots, where, where.group);
    const ScoreAt score = score_at(slots, where.batch, where.head, where.group);
    Running running;
    Factors factor, kept;
    Sums o;
    running_begin(running);
    clear(o);
    const int first = seen_next(slots, where, seen, 0);
    if (first < seen.count) {
      Scores s;
      u32 p[KEY_TILE / 16][4];
      phase_wait(phase_of(shared, Q_FULL), turn++ % 2);
      phase_wait(phase_of(shared, K_FULL + at % STAGES), at / STAGES % 2);
      turn_sync(1 + mine, 256);
      products_begin();
      rows_multiply<DEPTH_PAD, QUERY_TILE, KEY_TILE>(s[0], q, shared + K_BEGIN + at % STAGES * K_BYTES);
      products_close();
      turn_arrive(1 + next, 256);
      products_wait<0>();
      products_hold(s[0]);
      if (tells) {
        phase_arrive(phase_of(shared, K_EMPTY + at % STAGES));
      }
      powers_make(s, running, factor, where, seen, keys_tile(slots, where, seen, first), row, slope, score);
      fragments_of<KEY_TILE>(p, s[0]);
      int before = first;
#pragma unroll 1
      for (int i = seen_next(slots, where, seen, first + 1); i < seen.count; i = seen_next(slots, where, seen, i + 1)) {
        const int last = at++, stage = at % STAGES;
        phase_wait(phase_of(shared, K_FULL + stage), at / STAGES % 2);
        turn_sync(1 + mine, 256);
        products_begin();
        rows_multiply<DEPTH_PAD, QUERY_TILE, KEY_TILE>(s[0], q, shared + K_BEGIN + stage * K_BYTES);
        products_close();
        values_come(shared, last, keys_tile(slots, where, seen, before));
        before = i;
        columns_multiply<KEY_TILE, KEY_TILE>(o[0], p, shared + V_BEGIN + last % STAGES * V_BYTES);
        products_close();
        turn_arrive(1 + next, 256);
        products_wait<1>();
        products_hold(s[0]);
        if (tells) {
          phase_arrive(phase_of(shared, K_EMPTY + stage));
        }
        const bool grown = powers_make(s, running, factor, where, seen, keys_tile(slots, where, seen, i), row, slope, score);
        products_wait<0>();
        products_hold(o[0]);
        if (tells) {
          phase_arrive(phase_of(shared, V_EMPTY + last % STAGES));
        }
        if (grown) {
          sums_scale(o, factor);
        }
        fragments_of<KEY_TILE>(p, s[0]);
      }
      if (tells) {
        phase_arrive(phase_of(shared, Q_EMPTY));
      }
      values_come(shared, at, keys_tile(slots, where, seen, before));
      products_begin();
      columns_multiply<KEY_TILE, KEY_TILE>(o[0], p, shared + V_BEGIN + at % STAGES * V_BYTES);
      products_close();
      products_wait<0>();
      products_hold(o[0]);
      if (tells) {
        phase_arrive(phase_of(shared, V_EMPTY + at % STAGES));
      }
      at++;
    }
    if (!MORE || first < seen.count) {
      statistics_store(slots, where, running, row, factor, kept);
      result_store<VALUE_PAD, VALUE_DEPTH, MORE>(QUERY_AT((Made *)slots.at[3], O, row), O_QUERY, o, factor, kept,
                                                 where.rows - row);
    }
  }
  if (mine == 0) {
    turn_sync(1, 256);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_forward(Slots slots, const __grid_constant__ Maps maps) {
  const SharedAddress shared = shared_begin();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < PHASE_COUNT; i++) {
      const bool full = i == Q_FULL || (i >= K_FULL && i < K_EMPTY) || (i >= V_FULL && i < V_EMPTY);
      phase_init(phase_of(shared, i), full ? 1 : CONSUMERS * 4);
    }
    phases_ready();
  }
  __syncthreads();
  if (threadIdx.x < COPIERS) {
    registers_fewer<COPIER_REGISTERS>();
    if (threadIdx.x == 0) {
      copy_all(slots, maps, shared);
    }
  } else {
    registers_more<CONSUMER_REGISTERS>();
    multiply_all(slots, shared);
  }
}
