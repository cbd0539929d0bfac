// attention_tile.cu: tiles of 16-bit elements in shared memory, and their products on tensor cores.
//
// A tile is rows of WIDTH elements (a multiple of 16), ROW elements apart; ROW / 8 is odd, so that eight rows at one
// column lie in different banks. Fragments are those of mma.m16n8k16: with g = lane / 4 and t = lane % 4, an
// accumulator holds (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
constexpr int DEPTH_PAD = (DEPTH + 15) / 16 * 16, VALUE_PAD = (VALUE_DEPTH + 15) / 16 * 16;
constexpr int ROW_K = DEPTH_PAD + 8, ROW_V = VALUE_PAD + 8;

// Rows of every tensor in memory begin at a multiple of 16 bytes.
__device__ __forceinline__ bool all_whole(const Slots &slots) {
  const u64 forward = slots.at[0] | slots.at[1] | slots.at[2] | slots.at[3];
  constexpr int TENSORS = BEHIND;  // 9 of the gradient, 7 of that of a captured one
  const u64 read = TENSORS > 5 ? forward | slots.at[5] : forward;
  const u64 all = TENSORS > 7 ? read | slots.at[6] | slots.at[7] | slots.at[8] : read;
  return WHOLE && (all & 15) == 0;
}

// Rows [0, rows) of `from`, the others zero, by all threads of the block. whole: 16 bytes at a time.
template <int ROWS, int WIDTH, int REAL, int ROW, int THREADS>
__device__ __forceinline__ void tile_load(u16 *to, const u16 *from, i64 stride, int rows, bool whole) {
  constexpr int CHUNKS = WIDTH / 8, TURNS = (ROWS * CHUNKS + THREADS - 1) / THREADS;
  if (whole && THREADS % CHUNKS == 0) {  // a thread stays in its column
    constexpr int STEP = THREADS / CHUNKS;
    const int r = (int)(threadIdx.x / CHUNKS), c = (int)(threadIdx.x % CHUNKS) * 8, last = c < REAL ? rows - r : 0;
    const SharedAddress base = shared_address(to) + (r * ROW + c) * 2;
    const u16 *const at = from + r * stride + c;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      if (ROWS % STEP == 0 || r + i * STEP < ROWS) {
        copy_later_16(base + i * STEP * ROW * 2, at + i * STEP * stride, i * STEP < last ? 16 : 0);
      }
    }
  } else if (whole) {
    const SharedAddress base = shared_address(to);
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      const int at = i * THREADS + (int)threadIdx.x, r = at / CHUNKS, c = at % CHUNKS * 8;
      if (ROWS * CHUNKS % THREADS == 0 || at < ROWS * CHUNKS) {
        copy_later_16(base + (r * ROW + c) * 2, from + r * stride + c, r < rows && c < REAL ? 16 : 0);
      }
    }
  } else {
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < ROWS * WIDTH; at += THREADS) {
      const int r = at / WIDTH, c = at % WIDTH;
      to[r * ROW + c] = r < rows && c < REAL ? from[r * stride + c] : 0;
    }
  }
}

// The 16 rows of a warp, written by tile_put, to memory.
template <int ROWS, int REAL, int ROW>
__device__ __forceinline__ void tile_store(u16 *to, i64 stride, const u16 *tile, int rows, bool whole) {
  const int lane = (int)threadIdx.x % 32;
  if (whole) {
    constexpr int CHUNKS = REAL / 8 > 0 ? REAL / 8 : 1;
#pragma unroll 4
    for (int at = lane; at < ROWS * CHUNKS; at += 32) {
      const int r = at / CHUNKS, c = at % CHUNKS * 8;
      if (r < rows) {
        *(uint4 *)(to + r * stride + c) = *(const uint4 *)(tile + r * ROW + c);
      }
    }
  } else {
#pragma unroll 1
    for (int at = lane; at < ROWS * REAL; at += 32) {
      const int r = at / REAL, c = at % REAL;
      if (r < rows) {
        to[r * stride + c] = tile[r * ROW + c];
      }
    }
  }
}

// Accumulators of 16 rows times a factor for each half of them, as elements of a tile.
template <int WIDTH, int ROW>
__device__ __forceinline__ void tile_put(u16 *tile, const float (&x)[WIDTH / 8][4], float upper, float lower) {
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < WIDTH / 8; n++) {
    *(u32 *)(tile + g * ROW + n * 8 + t * 2) = Element::pack(x[n][0] * upper, x[n][1] * upper);
    *(u32 *)(tile + (g + 8) * ROW + n * 8 + t * 2) = Element::pack(x[n][2] * lower, x[n][3] * lower);
  }
}

// Accumulators times a factor of each row to f32 in memory, ADD: to what is there, times `kept`. whole: two at a time.
template <int BLOCKS, int WIDTH, int REAL, bool ADD>
__device__ __forceinline__ void wide_store(float *to, i64 stride, const float (&x)[BLOCKS][WIDTH / 8][4],
                                           const float (&factor)[BLOCKS][2], const float (&kept)[BLOCKS][2], int rows,
                                           bool whole) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = m * 16 + half * 8 + lane / 4;
      float *const at = to + row * stride + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < WIDTH / 8; n++) {
        const int left = row < rows ? REAL - n * 8 - lane % 4 * 2 : 0;
        float2 both = {x[m][n][2 * half] * factor[m][half], x[m][n][2 * half + 1] * factor[m][half]};
        if (whole && left > 0) {
          float2 *const there = (float2 *)(at + n * 8);
          if (ADD) {
            both.x += there->x * kept[m][half];
            both.y += there->y * kept[m][half];
          }
          *there = both;
        } else if (left > 0) {
          at[n * 8] = ADD ? at[n * 8] * kept[m][half] + both.x : both.x;
          if (left > 1) {
            at[n * 8 + 1] = ADD ? at[n * 8 + 1] * kept[m][half] + both.y : both.y;
          }
        }
      }
    }
  }
}

// What a warp has summed up, times a factor of each row, to its result: f32 if it is wide, which may be added to, else
// elements, by way of `tile`.
template <int BLOCKS, int WIDTH, int REAL, int ROW, bool ADD>
__device__ __forceinline__ void sums_store(Made *to, i64 stride, u16 *tile, const float (&x)[BLOCKS][WIDTH / 8][4],
                                           const float (&factor)[BLOCKS][2], const float (&kept)[BLOCKS][2], int rows,
                                           bool whole) {
  if constexpr (WIDE) {
    wide_store<BLOCKS, WIDTH, REAL, ADD>((float *)to, stride, x, factor, kept, rows, whole);
  } else {
#pragma unroll
    for (int m = 0; m < BLOCKS; m++) {
      tile_put<WIDTH, ROW>(tile + m * 16 * ROW, x[m], factor[m][0], factor[m][1]);
    }
    __syncwarp();
    tile_store<BLOCKS * 16, REAL, ROW>((u16 *)to, stride, tile, rows, whole);
  }
}

// Scores [queries][keys] of what a query does not see, and of keys past the limit: the first query is at `position`.
template <int BLOCKS, int COLUMNS>
__device__ __forceinline__ void mask(float (&s)[BLOCKS][COLUMNS / 8][4], float hidden, int position, const Keys &keys) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int at = keys.key + n * 8 + lane % 4 * 2 + e % 2;
        if (at >= keys.limit || (CAUSAL && at > position + m * 16 + lane / 4 + e / 2 * 8)) {
          s[m][n][e] = hidden;
        }
      }
    }
  }
}

// Dot products to scores as powers of two, with their biases. slope: of the head. ahead: by how much the position of
// the first key is ahead of the first query's. KEYS: rows are keys and columns queries, else the other way.
template <int BLOCKS, int COLUMNS, bool KEYS>
__device__ __forceinline__ void biases_add(float (&s)[BLOCKS][COLUMNS / 8][4], float slope, int ahead) {
  const int lane = (int)threadIdx.x % 32, across = lane % 4 * 2 - lane / 4;  // columns before rows
  const float first = (float)(KEYS ? ahead - across : ahead + across), step = slope * INVERSE_NATURAL;
#pragma unroll
  for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int on = n * 8 + e % 2 - m * 16 - e / 2 * 8;
        s[m][n][e] = s[m][n][e] * SCORE_POWER + step * (first + (float)(KEYS ? -on : on));
      }
    }
  }
}

// c[m][n] += sum over WIDTH of a[m][.] b[n][.]: rows of both tiles are contracted.
template <int BLOCKS, int COLUMNS, int WIDTH, int ROW_A, int ROW_B>
__device__ __forceinline__ void product_rows(float (&c)[BLOCKS][COLUMNS / 8][4], const u16 *a, const u16 *b) {
  const SharedAddress at_a = address_a<ROW_A>(shared_address(a)), at_b = address_b<ROW_B>(shared_address(b));
#pragma unroll
  for (int k = 0; k < WIDTH / 16; k++) {
    u32 left[BLOCKS][4];
#pragma unroll
    for (int m = 0; m < BLOCKS; m++) {
      matrices_load(left[m], at_a + (m * 16 * ROW_A + k * 16) * 2);
    }
#pragma unroll
    for (int n = 0; n < COLUMNS / 16; n++) {
      u32 right[4];
      matrices_load(right, at_b + (n * 16 * ROW_B + k * 16) * 2);
#pragma unroll
      for (int m = 0; m < BLOCKS; m++) {
        Element::product(c[m][2 * n], left[m], right[0], right[1]);
        Element::product(c[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c[m][n] += sum over k of p[m][k] b[k][n]: p is accumulators rounded to elements, [BLOCKS][DEEP / 16].
template <int BLOCKS, int DEEP, int WIDTH, int ROW_B>
__device__ __forceinline__ void product_columns(float (&c)[BLOCKS][WIDTH / 8][4], const u32 (&p)[BLOCKS][DEEP / 16][4],
                                                const u16 *b) {
  const SharedAddress at_b = address_a<ROW_B>(shared_address(b));  // transposed on the way, the lanes' rows are those of an A
#pragma unroll
  for (int k = 0; k < DEEP / 16; k++) {
#pragma unroll
    for (int n = 0; n < WIDTH / 16; n++) {
      u32 right[4];
      matrices_load_transposed(right, at_b + (k * 16 * ROW_B + n * 16) * 2);
#pragma unroll
      for (int m = 0; m < BLOCKS; m++) {
        Element::product(c[m][2 * n], p[m][k], right[0], right[1]);
        Element::product(c[m][2 * n + 1], p[m][k], right[2], right[3]);
      }
    }
  }
}

// Accumulators [16][COLUMNS] as the fragments A of a product over the columns.
template <int COLUMNS>
__device__ __forceinline__ void fragments_of(u32 (&p)[COLUMNS / 16][4], const float (&x)[COLUMNS / 8][4]) {
#pragma unroll
  for (int k = 0; k < COLUMNS / 16; k++) {
    p[k][0] = Element::pack(x[2 * k][0], x[2 * k][1]);
    p[k][1] = Element::pack(x[2 * k][2], x[2 * k][3]);
    p[k][2] = Element::pack(x[2 * k + 1][0], x[2 * k + 1][1]);
    p[k][3] = Element::pack(x[2 * k + 1][2], x[2 * k + 1][3]);
  }
}

template <int A, int B>
__device__ __forceinline__ void clear(float (&x)[A][B][4]) {
#pragma unroll
  for (int i = 0; i < A; i++) {
#pragma unroll
    for (int j = 0; j < B; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        x[i][j][e] = 0.0f;
      }
    }
  }
}

template <int BLOCKS>
__device__ __forceinline__ void fill(float (&factor)[BLOCKS][2], float x) {
#pragma unroll
  for (int m = 0; m < BLOCKS; m++) {
    factor[m][0] = factor[m][1] = x;
  }
}

// What scores are made less by before they become powers of two; of a query that has seen no key, they become 0.
__device__ __forceinline__ float shift_of(float statistic) {
  return SCORED && statistic == -INFINITE ? INFINITE : LARGE ? statistic : statistic * INVERSE_NATURAL;
}

// LARGE: scores may be so large that they lose all digits when they are multiplied, so they are made less first.
__device__ __forceinline__ float power_of(float score, float shift) {
  return exp2_fast(LARGE ? (score - shift) * POWER : score * POWER - shift);
}
