// attention_delta.cu: delta = rowsum(do o) of a query, for both gradients of 16-bit elements. SEEDED: less what the
// gradient of its statistic is, since that grows with a score as the probability of its key.
//
// By DELTA_LANES lanes for each row, all of which get the sum. whole: 16 bytes at a time.
__device__ __forceinline__ float delta_of(const Slots &slots, const Where &where, bool whole) {
  const u16 *o = QUERY_AT((const u16 *)slots.at[3], O, 0), *d = QUERY_AT((const u16 *)slots.at[5], DO, 0);
  float sum = 0.0f;
  for (int c = (int)threadIdx.x % DELTA_LANES * 8; c < VALUE_DEPTH; c += DELTA_LANES * 8) {
    union {
      uint4 all;
      u16 one[8];
    } left, right;
    if (whole) {
      left.all = *(const uint4 *)(o + c);
      right.all = *(const uint4 *)(d + c);
    } else {
#pragma unroll
      for (int e = 0; e < 8; e++) {
        left.one[e] = c + e < VALUE_DEPTH ? o[c + e] : 0;
        right.one[e] = c + e < VALUE_DEPTH ? d[c + e] : 0;
      }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) {
      sum += Element::real(left.one[e]) * Element::real(right.one[e]);
    }
  }
#pragma unroll
  for (int by = DELTA_LANES / 2; by > 0; by /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, by);
  }
  if (SEEDED) {
    const i64 line = ((i64)where.batch * HEADS + where.head) * GROUPS + where.group;
    sum -= ((const float *)slots.at[BEHIND])[line * QUERIES + where.query];
  }
  return sum;
}
