// attention_score.cu: scores of the model's text, made of the dot products of a tile where they lie.
//
// A generator writes namespace `scores`, if SCORED (attention_scores.c): what a score is of a dot product and of where
// its query and its key are, and the gradient of the dot product, which is linear in that of the score.
using scores::ScoreAt;
using scores::score_at;

// Numbers in memory and positions of a tile's first query, and of its first key.
struct ScorePlace {
  int query, query_position, key, key_position;
};

// WHOLE: masks let all of the tile through (attention_blocks.cu).
template <bool WHOLE = false, typename Real>
__device__ __forceinline__ Real score_made(const ScoreAt &at, Real dot, const ScorePlace &first, int query, int key) {
#if SCORED_TEXT
  return (WHOLE ? scores::made_whole : scores::made)(at, dot, (Real)0, first.query + query, first.key + key,
                                                     first.query_position + query, first.key_position + key);
#else
  return dot;
#endif
}

// By what the gradient of a score is multiplied. hidden: nobody sees the key.
template <bool WHOLE = false, typename Real>
__device__ __forceinline__ Real score_slope(const ScoreAt &at, Real dot, const ScorePlace &first, int query, int key,
                                            bool hidden) {
#if SLOPED_TEXT
  return hidden ? (Real)0
                : (WHOLE ? scores::derived_whole : scores::derived)(
                      at, dot, (Real)1, first.query + query, first.key + key, first.query_position + query,
                      first.key_position + key);
#else
  return (Real)1;
#endif
}

// Calls each(m, n, e, query, key) for every element of a tile, as the accumulators of 16 x 8 products have them. KEYS:
// rows are keys and columns queries, else the other way.
template <bool KEYS, int BLOCKS, int N, typename Each>
__device__ __forceinline__ void elements_each(const float (&)[BLOCKS][N][4], const Each &each) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = m * 16 + lane / 4 + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
        each(m, n, e, KEYS ? column : row, KEYS ? row : column);
      }
    }
  }
}

// The dot products of a tile to scores; slopes: by what gradients of scores are multiplied.
template <bool KEYS, bool WHOLE = false, int BLOCKS, int N>
__device__ __forceinline__ void scores_make(float (&s)[BLOCKS][N][4], const ScoreAt &at, const ScorePlace &first) {
  elements_each<KEYS>(s, [&](int m, int n, int e, int query, int key) {
    s[m][n][e] = score_made<WHOLE>(at, s[m][n][e], first, query, key);
  });
}

template <bool KEYS, int BLOCKS, int N>
__device__ __forceinline__ void slopes_make(float (&s)[BLOCKS][N][4], float (&slopes)[BLOCKS][N][4], const ScoreAt &at,
                                            const ScorePlace &first) {
  elements_each<KEYS>(s, [&](int m, int n, int e, int query, int key) {
    const float dot = s[m][n][e];
    s[m][n][e] = score_made(at, dot, first, query, key);
    slopes[m][n][e] = score_slope(at, dot, first, query, key, s[m][n][e] == -INFINITE);
  });
}

template <int BLOCKS, int N>
__device__ __forceinline__ void slopes_take(float (&s)[BLOCKS][N][4], const float (&slopes)[BLOCKS][N][4]) {
  elements_each<false>(s, [&](int m, int n, int e, int, int) { s[m][n][e] *= slopes[m][n][e]; });
}
