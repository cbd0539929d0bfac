// attention_softmax.cu: the softmax of attention over keys that come in tiles: with the running maximum and sum of
// Milakov and Gimelshein 2018. Rows are those of a warp: QUERY_BLOCKS times 16.
typedef float Scores[QUERY_BLOCKS][KEY_TILE / 8][4];
typedef float Sums[QUERY_BLOCKS][VALUE_PAD / 8][4];
typedef float Factors[QUERY_BLOCKS][2];  // of the rows g and g + 8 of each 16

struct Running {
  Factors high, sum;
};

__device__ __forceinline__ void running_begin(Running &running) {
  fill(running.high, LOWEST);
  fill(running.sum, 0.0f);
}

// Scores to powers of two of their distance to the maximum. A maximum that has grown by less than 2^SLACK stays, and
// with it the scale of o and of the sums: after the first tiles few rows need a new one. True: o is to be multiplied by
// `factor`.
__device__ __forceinline__ bool softmax_make(Scores &s, Running &running, Factors &factor) {
  constexpr float SLACK = 8.0f;
  Factors high;
  bool grown = false;
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float most = running.high[m][half];
#pragma unroll
      for (int n = 0; n < KEY_TILE / 8; n++) {
        most = fmaxf(most, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      high[m][half] = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      grown = grown || (high[m][half] - running.high[m][half]) * POWER > SLACK;
    }
  }
  grown = __any_sync(0xffffffffu, grown);
  if (grown) {
#pragma unroll
    for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        factor[m][half] = exp2_fast((running.high[m][half] - high[m][half]) * POWER);
        running.high[m][half] = high[m][half];
        running.sum[m][half] *= factor[m][half];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float shift = LARGE ? running.high[m][half] : running.high[m][half] * POWER;
      float sum = running.sum[m][half];
#pragma unroll
      for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          s[m][n][e] = power_of(s[m][n][e], shift);
          sum += s[m][n][e];
        }
      }
      running.sum[m][half] = sum;
    }
  }
  return grown;
}

__device__ __forceinline__ void sums_scale(Sums &o, const Factors &factor) {
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < VALUE_PAD / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        o[m][n][e] *= factor[m][e / 2];
      }
    }
  }
}

// The statistics of a warp's rows, from row `row` on, to memory; and what o is to be multiplied by, and with MORE what
// is in memory of it. Rows that have seen no key have o = 0 and the statistic -infinity.
__device__ __forceinline__ void statistics_store(const Slots &slots, const Where &where, const Running &running,
                                                 int row, Factors &factor, Factors &kept) {
  float *const statistics = (float *)slots.at[4] + row_of(where);
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = running.sum[m][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int at = row + m * 16 + half * 8 + (int)threadIdx.x % 32 / 4;
      const bool none = sum == 0.0f;
      factor[m][half] = none ? 0.0f : 1.0f / sum;
      kept[m][half] = 1.0f;
      if constexpr (LARGE) {
        large_store(slots, row_of(where) + at, at < where.rows, threadIdx.x % 4 == 0, none, running.high[m][half],
                    log2f(sum) * NATURAL, kept[m][half], factor[m][half]);
        continue;
      }
      const float before = MORE && at < where.rows ? statistics[at] : -INFINITE;
      float made = none ? before : (running.high[m][half] * POWER + log2f(sum)) * NATURAL;
      if (MORE) {
        __syncwarp();  // all that share the row have read it
        made = none ? made : statistics_join(before, made, kept[m][half], factor[m][half]);
      }
      if (threadIdx.x % 4 == 0 && at < where.rows) {
        statistics[at] = made;
      }
    }
  }
}
