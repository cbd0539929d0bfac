// grouped_hopper.cu: GROUPED and GROUPED_SUM of 16-bit elements on sm_90a.
//
// A block is there for as long as there are tiles of c, 128 rows of TILE_N columns; each of its two consumers has 64 of
// the rows. One thread copies: tiles of a and b of TILE_K, STAGES of them ahead, also of the next tile while the last
// one is stored. CLUSTER blocks have tiles one below the other. Of an operand b that they share, each copies a part to
// all. Of a tile of GROUPED_SUM k are the rows of one matrix. Shared: STAGES of a, then b; then barriers.
static_assert(CONSUMERS == 2 && TILE_N % 16 == 0 && BLOCK % 128 == 0, "how a tile is divided");
constexpr int TILE_M = 128, TILE_K = 64, CHUNK = 64, PART_N = TILE_N / CLUSTER;
constexpr bool COLUMNS_A = SUMS, COLUMNS_B = SUMS || !TURNED;  // k is that of the rows of a tile
constexpr int CHUNKS_N = (TILE_N + CHUNK - 1) / CHUNK;
constexpr u32 CHUNK_BYTES = TILE_K * LINE, A_BYTES = TILE_M * LINE;
constexpr u32 B_BYTES = COLUMNS_B ? CHUNKS_N * CHUNK_BYTES : TILE_N * LINE, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr u32 PHASES = STAGES * STAGE_BYTES;
constexpr int HEIGHT = SUMS ? M : ROWS, LINES = (HEIGHT + TILE_M - 1) / TILE_M, TILES_N = (N + TILE_N - 1) / TILE_N;
constexpr int PAIRS = (LINES + CLUSTER - 1) / CLUSTER;
constexpr int AREA = PAIRS * TILES_N, ALL_TILES = SUMS ? EXTENT * AREA : AREA;
enum { MAP_A, MAP_B };
enum { FULL, EMPTY = FULL + STAGES, PHASE_COUNT = EMPTY + STAGES };

__device__ __forceinline__ SharedAddress phase_of(SharedAddress shared, int which) {
  return shared + PHASES + which * 8;
}

__device__ __forceinline__ int rank_here() {
  return CLUSTER > 1 ? (int)cluster_rank() : 0;
}

// --- which tile ---

// There and back; the last round has none for some blocks.
__device__ __forceinline__ int tile_number(int round) {
  const int grid = (int)gridDim.x / CLUSTER, block = (int)blockIdx.x / CLUSTER;
  return round * grid + (round % 2 ? grid - 1 - block : block);
}

__device__ __forceinline__ Corner corner_of(int number, int rank) {
  Corner corner = corner_in<PAIRS, TILES_N, 16 / CLUSTER>(number % AREA);
  corner.line = corner.line * CLUSTER + rank;
  return corner;
}

// What memory says of a tile: read ahead, for it takes its time. Of GROUPED the matrices that the tiles of both blocks
// of the cluster have chosen; of GROUPED_SUM the matrix and its blocks of rows.
struct Known {
  int own, other, count;
};

__device__ __forceinline__ Known known_of(const Slots &slots, int number, int rank) {
  Known known = {-1, -1, 0};
  if (number < ALL_TILES) {
#if SUMS
    const Work work = works_of(slots)[number / AREA];
    known = Known{work.matrix, work.begin, work.count};
#else
    const int line = corner_of(number, rank).line, beside = line ^ 1;
    known.own = line < LINES ? matrix_of(slots, line / (BLOCK / TILE_M)) : -1;
    known.other = CLUSTER == 1 ? known.own : beside < LINES ? matrix_of(slots, beside / (BLOCK / TILE_M)) : -1;
#endif
  }
  return known;
}

struct Tile {
  int row, column, matrix, first, steps;  // first: row of k; steps: of TILE_K
  bool shared, dead;                      // b is that of all blocks of the cluster; c is 0 but for k
};

__device__ __forceinline__ Tile tile_of(int number, int rank, const Known &known) {
  const Corner corner = corner_of(number, rank);
  Tile tile;
  tile.row = corner.line * TILE_M;
  tile.column = corner.column * TILE_N;
  if (SUMS) {
    tile.matrix = known.own;
    tile.first = known.other * BLOCK;
    tile.steps = known.count * (BLOCK / TILE_K);
    tile.shared = true;
    tile.dead = false;
  } else {  // a tile without a matrix keeps step with the one beside it
    const int here = known.own >= 0 ? known.own : known.other, there = known.other >= 0 ? known.other : known.own;
    tile.matrix = here;
    tile.first = 0;
    tile.steps = here >= 0 ? (K + TILE_K - 1) / TILE_K : 0;
    tile.shared = here == there;
    tile.dead = known.own < 0;
  }
  return tile;
}

struct Turn {
  int stage;
  u32 parity;
};

__device__ __forceinline__ void turn_next(Turn &turn) {
  turn.stage = turn.stage + 1 == STAGES ? 0 : turn.stage + 1;
  turn.parity ^= turn.stage == 0 ? 1 : 0;
}

// --- the copier ---

__device__ __forceinline__ void a_copy(const Maps &maps, SharedAddress to, SharedAddress full, const Tile &tile,
                                       int k) {
  if constexpr (COLUMNS_A) {
#pragma unroll
    for (int c = 0; c < TILE_M / CHUNK; c++) {
      box_load(to + c * CHUNK_BYTES, &maps.at[MAP_A], full, tile.row + c * CHUNK, tile.first + k, 0, 0, 0);
    }
  } else {
    box_load(to, &maps.at[MAP_A], full, k, tile.row, 0, 0, 0);
  }
}

// Part number `part` of b, to this block or to all.
template <bool ALL>
__device__ __forceinline__ void b_copy(const Maps &maps, SharedAddress to, SharedAddress full, const Tile &tile, int k,
                                       int part) {
  const u16 blocks = (1 << CLUSTER) - 1;
  if constexpr (COLUMNS_B) {
#pragma unroll
    for (int c = 0; c < CHUNKS_N; c++) {
      const SharedAddress at = to + c * CHUNK_BYTES;
      const int column = tile.column + c * CHUNK, row = tile.first + k, matrix = SUMS ? 0 : tile.matrix;
      if (c % CLUSTER != part) {
        continue;
      }
      if constexpr (ALL) {
        box_share(at, &maps.at[MAP_B], full, blocks, column, row, matrix, 0, 0);
      } else {
        box_load(at, &maps.at[MAP_B], full, column, row, matrix, 0, 0);
      }
    }
  } else {
    const SharedAddress at = to + part * PART_N * LINE;
    if constexpr (ALL) {
      box_share(at, &maps.at[MAP_B], full, blocks, k, tile.column + part * PART_N, tile.matrix, 0, 0);
    } else {
      box_load(at, &maps.at[MAP_B], full, k, tile.column + part * PART_N, tile.matrix, 0, 0);
    }
  }
}

__device__ __forceinline__ void copy_all(const Slots &slots, const Maps &maps, SharedAddress shared) {
  const int rank = rank_here();
  Turn turn = {0, 1};
  Known known = known_of(slots, tile_number(0), rank);
#pragma unroll 1
  for (int round = 0; tile_number(round) < ALL_TILES; round++) {
    const Tile tile = tile_of(tile_number(round), rank, known);
    known = known_of(slots, tile_number(round + 1), rank);
#pragma unroll 1
    for (int i = 0; i < tile.steps; i++) {
      const SharedAddress to = shared + turn.stage * STAGE_BYTES, full = phase_of(shared, FULL + turn.stage);
      phase_wait(phase_of(shared, EMPTY + turn.stage), turn.parity);
      phase_expect(full, STAGE_BYTES);
      a_copy(maps, to, full, tile, i * TILE_K);
      if (CLUSTER > 1 && tile.shared) {
        b_copy<true>(maps, to + A_BYTES, full, tile, i * TILE_K, rank);
      } else {
#pragma unroll
        for (int part = 0; part < CLUSTER; part++) {
          b_copy<false>(maps, to + A_BYTES, full, tile, i * TILE_K, part);
        }
      }
      turn_next(turn);
    }
  }
}

// --- the consumers ---

typedef float Sums[TILE_N / 8][4];

// The two rows of a thread to c, 16 bytes at a time: lane t of four gets the columns of block n + t.
template <bool ADD>
__device__ __forceinline__ void halves_store(u16 *to, const Sums &c, const bool (&there)[2], int columns) {
  const int lane = (int)threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; half++) {
#pragma unroll
    for (int n = 0; n < TILE_N / 8; n += 4) {
      u32 words[4], more[4];
      const int column = (n + lane) * 8;
      const bool stored = there[half] && column < TILE_N && column < columns;
      u16 *const at = to + (i64)half * 8 * LDC + column;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const bool made = n + i < TILE_N / 8;
        const float low = made ? c[made ? n + i : 0][2 * half] : 0, high = made ? c[made ? n + i : 0][2 * half + 1] : 0;
        words[i] = ADD ? float_bits(low) : Element::pack(low, high);
        more[i] = float_bits(high);
      }
      words_turn(words);
      if (ADD) {
        words_turn(more);
        const uint4 old = stored ? *(const uint4 *)at : uint4{0, 0, 0, 0};
        const u32 before[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float low, high;
          Element::both(before[i], low, high);
          words[i] = Element::pack(low + bits_float(words[i]), high + bits_float(more[i]));
        }
      }
      if (stored) {
        *(uint4 *)at = uint4{words[0], words[1], words[2], words[3]};
      }
    }
  }
}

// The same in f32: of two blocks the even lane gets four columns of the first, the odd one of the second.
template <bool ADD>
__device__ __forceinline__ void floats_store(float *to, const Sums &c, const bool (&there)[2], int columns) {
  const int lane = (int)threadIdx.x % 4, odd = lane % 2;
#pragma unroll
  for (int half = 0; half < 2; half++) {
#pragma unroll
    for (int n = 0; n < TILE_N / 8; n += 2) {
      const int column = (n + odd) * 8 + lane / 2 * 4;
      const bool stored = there[half] && column < columns;
      float4 *const at = (float4 *)(to + (i64)half * 8 * LDC + column);
      const float x = c[n][2 * half], y = c[n][2 * half + 1], z = c[n + 1][2 * half], w = c[n + 1][2 * half + 1];
      const float got = shuffle_f32(odd ? x : z, 1), more = shuffle_f32(odd ? y : w, 1);
      float4 made = odd ? float4{got, more, z, w} : float4{x, y, got, more};
      if (ADD && stored) {
        const float4 old = *at;
        made = float4{old.x + made.x, old.y + made.y, old.z + made.z, old.w + made.w};
      }
      if (stored) {
        *at = made;
      }
    }
  }
}

template <bool ADD>
__device__ __forceinline__ void tile_store(const Slots &slots, const Tile &tile, const Sums &c) {
  const int row = tile.row + (int)(threadIdx.x - COPIERS) / 32 * 16 + (int)threadIdx.x % 32 / 4;
  const i64 at = (SUMS ? (i64)tile.matrix * STRIDE : 0) + (i64)row * LDC + tile.column;
  const bool there[2] = {row < HEIGHT, row + 8 < HEIGHT};
#if C_F32
  floats_store<ADD>((float *)slots.at[2] + at, c, there, N - tile.column);
#else
  halves_store<ADD>((u16 *)slots.at[2] + at, c, there, N - tile.column);
#endif
}

__device__ __forceinline__ void sums_clear(Sums &c) {
#pragma unroll
  for (int n = 0; n < TILE_N / 8; n++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      c[n][e] = 0.0f;
    }
  }
}

// In all blocks that write there.
__device__ __forceinline__ void stage_free(SharedAddress shared, int stage) {
  const int lane = (int)threadIdx.x % 32;
  if (CLUSTER > 1) {
    if (lane < CLUSTER) {
      phase_arrive_at(phase_of(shared, EMPTY + stage), (u32)lane);
    }
  } else if (lane == 0) {
    phase_arrive(phase_of(shared, EMPTY + stage));
  }
}

__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared) {
  const int rank = rank_here(), mine = (int)(threadIdx.x - COPIERS) / 128;
  const bool add = adds(slots);
  Turn turn = {0, 0};
  Known known = known_of(slots, tile_number(0), rank);
#pragma unroll 1
  for (int round = 0; tile_number(round) < ALL_TILES; round++) {
    const Tile tile = tile_of(tile_number(round), rank, known);
    known = known_of(slots, tile_number(round + 1), rank);
    Sums c;
    sums_clear(c);
    int last = 0;
#pragma unroll 1
    for (int i = 0; i < tile.steps; i++) {
      const SharedAddress stage = shared + turn.stage * STAGE_BYTES;
      const Operand a = operand_at(stage + mine * 64 * LINE, CHUNK_BYTES), b = operand_at(stage + A_BYTES, CHUNK_BYTES);
      phase_wait(phase_of(shared, FULL + turn.stage), turn.parity);
      products_begin();
#pragma unroll
      for (int k = 0; k < TILE_K / 16; k++) {
        warpgroup_product<COLUMNS_A, COLUMNS_B>(c, operand_on(a, COLUMNS_A ? k * 16 * LINE : k * 32),
                                                operand_on(b, COLUMNS_B ? k * 16 * LINE : k * 32), 1);
      }
      products_close();
      products_wait<1>();
      if (i > 0) {
        stage_free(shared, last);
      }
      last = turn.stage;
      turn_next(turn);
    }
    products_wait<0>();
    products_hold(c);
    if (tile.steps > 0) {
      stage_free(shared, last);
    }
    if (tile.dead) {
      sums_clear(c);
    }
    if (LEAVES && (tile.dead || tile.steps == 0)) {
      continue;
    }
    if (!add) {
      tile_store<false>(slots, tile, c);
    } else if (!tile.dead && tile.steps > 0) {
      tile_store<true>(slots, tile, c);
    }
  }
}

extern "C" __global__ void CLUSTERED __launch_bounds__(THREADS, 1)
    grouped(Slots slots, const __grid_constant__ Maps maps) {
  const SharedAddress shared = shared_begin();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < PHASE_COUNT; i++) {
      phase_init(phase_of(shared, i), i < EMPTY ? 1 : CLUSTER * CONSUMERS * 4);
    }
    phases_ready();
  }
  if (CLUSTER > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < COPIERS) {
    registers_fewer<COPIER_REGISTERS>();
    if (threadIdx.x == 0) {
      copy_all(slots, maps, shared);
    }
  } else {
    registers_more<CONSUMER_REGISTERS>();
    multiply_all(slots, shared);
  }
  if (CLUSTER > 1) {
    cluster_sync();  // none ends while another writes into its shared memory
  }
}
