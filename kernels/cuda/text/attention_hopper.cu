// attention_hopper.cu: attention of 16-bit elements on sm_90a: what both directions share.
//
// Tiles are those of hopper.cu, as many as the depth takes 64 elements: the last may end in zeros.
constexpr int CHUNKS_K = (DEPTH_PAD + 63) / 64, CHUNKS_V = (VALUE_PAD + 63) / 64;

// ROWS rows of one (batch, head, group) of a tensor, all of its depth.
template <int ROWS, int CHUNKS>
__device__ __forceinline__ void rows_load(SharedAddress to, const Map *map, SharedAddress barrier, int row, int head,
                                          int group, int batch) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) {
    box_load(to + c * ROWS * LINE, map, barrier, c * 64, row, head, group, batch);
  }
}

// Rows from number `from` on become 0, by a warpgroup, or by several that each do all of it.
template <int ROWS, int CHUNKS>
__device__ __forceinline__ void rows_clear(SharedAddress tile, int from) {
  const float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int at = from * 8 + (int)threadIdx.x % 128; at < ROWS * 8; at += 128) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      shared_store(tile + c * ROWS * LINE + at * 16, none);
    }
  }
}

// c (+)= the sum over WIDTH of a[m][.] b[n][.]; rows of both are contracted. a, b: their first tiles of ROWS_x rows.
template <int WIDTH, int ROWS_A, int ROWS_B, int N>
__device__ __forceinline__ void rows_multiply(float (&c)[N][4], SharedAddress a, SharedAddress b) {
  const Operand left = operand_at(a, 0), right = operand_at(b, 0);
#pragma unroll
  for (int k = 0; k < WIDTH / 16; k++) {
    warpgroup_product<0, 0>(c, operand_on(left, k / 4 * ROWS_A * LINE + k % 4 * 32),
                            operand_on(right, k / 4 * ROWS_B * LINE + k % 4 * 32), k > 0);
  }
}

// c += the sum over DEEP of p[m][k] b[k][.]: p is accumulators rounded to elements, and b tiles of ROWS_B rows.
template <int DEEP, int ROWS_B, int N>
__device__ __forceinline__ void columns_multiply(float (&c)[N][4], const u32 (&p)[DEEP / 16][4], SharedAddress b) {
  const Operand right = operand_at(b, ROWS_B * LINE);
#pragma unroll
  for (int k = 0; k < DEEP / 16; k++) {
    warpgroup_product<0, 1>(c, p[k], operand_on(right, k * 16 * LINE), 1);
  }
}

// The 16 rows of a warp to memory, times a factor for each half of them: elements of 16 bits, 16 bytes at a time.
template <int WIDTH, int REAL>
__device__ __forceinline__ void elements_store(u16 *to, i64 stride, const float (&x)[WIDTH / 8][4],
                                               const float (&factor)[2], int rows) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = half * 8 + lane / 4;
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n += 4) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const bool there = n + i < WIDTH / 8;
        words[i] = there ? Element::pack(x[there ? n + i : 0][2 * half] * factor[half],
                                         x[there ? n + i : 0][2 * half + 1] * factor[half])
                         : 0u;
      }
      words_turn(words);
      const int column = (n + lane % 4) * 8;
      if (row < rows && column < REAL) {
        *(uint4 *)(to + row * stride + column) = uint4{words[0], words[1], words[2], words[3]};
      }
    }
  }
}

template <int WIDTH, int REAL, bool ADD>
__device__ __forceinline__ void result_store(Made *to, i64 stride, const float (&x)[1][WIDTH / 8][4],
                                             const float (&factor)[1][2], const float (&kept)[1][2], int rows) {
  if constexpr (WIDE) {
    wide_store<1, WIDTH, REAL, ADD>((float *)to, stride, x, factor, kept, rows, true);
  } else {
    elements_store<WIDTH, REAL>((u16 *)to, stride, x[0], factor[0], rows);
  }
}
