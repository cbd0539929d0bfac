// warpgroups.cu: what kernels of warpgroups share: a block has one that copies and CONSUMERS that multiply.
constexpr u32 LINE = 128, ALIGNED = 1024;  // bytes of a row, and what a tile begins at a multiple of
constexpr int COPIERS = 128, MULTIPLIERS = CONSUMERS * 128, THREADS = COPIERS + MULTIPLIERS;
static_assert(COPIERS * COPIER_REGISTERS + MULTIPLIERS * CONSUMER_REGISTERS <= 65536 / THREADS / 8 * 8 * THREADS,
              "more registers than a block begins with: warpgroups would wait for them for ever");

struct Maps {
  Map at[MAPS];
};

__device__ __forceinline__ SharedAddress shared_begin() {
  return (shared_address(shared_memory) + ALIGNED - 1) / ALIGNED * ALIGNED;
}

// A round of 4 x 4 words among four lanes: lane t gets word t of each, in their order.
__device__ __forceinline__ void words_turn(u32 (&w)[4]) {
  const u32 lane = threadIdx.x;
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool high = (lane & (u32)bit) != 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int low_at = bit == 1 ? i * 2 : i, high_at = low_at + bit;
      const u32 got = __shfl_xor_sync(0xffffffffu, high ? w[low_at] : w[high_at], bit);
      w[low_at] = high ? got : w[low_at];
      w[high_at] = high ? w[high_at] : got;
    }
  }
}
