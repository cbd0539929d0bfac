// sort.cu: a pass of a stable sort of KEYS keys by a digit: every one of BLOCKS blocks counts its part, then places it.
//
// Who uses it says what the keys are (key_at), what is known where a digit begins, once in every block (digit_begins), and
// what to do with a key whose place is found (placed). Digits begin at multiples of ALIGN. What is counted lies in memory
// as [BLOCKS][DIGITS] (counts_of).
constexpr int WARPS = SORT_THREADS / 32, OWN = (DIGITS + SORT_THREADS - 1) / SORT_THREADS;  // digits of one thread
constexpr int WARP_TILE = SORT_TILE / WARPS, AHEAD = WARP_TILE / 32 < 8 ? WARP_TILE / 32 : 8;  // keys that are read at once
static_assert(WARP_TILE % 32 == 0, "a part of a warp is whole rounds");

template <int PASS>
__device__ __forceinline__ u32 key_at(const Slots &slots, int i);
template <int PASS>
__device__ __forceinline__ void placed(const Slots &slots, int i, u32 key, u32 to);
__device__ __forceinline__ void digit_begins(const Slots &slots, int digit, u32 first, u32 count);
__device__ __forceinline__ u32 *counts_of(const Slots &slots);

template <int PASS>
__device__ __forceinline__ u32 digit_of(u32 key) {
  return key >> (PASS * DIGIT_BITS) & DIGIT_MASK;
}

// Where the part of this warp begins and ends.
__device__ __forceinline__ void part_of_warp(int &begin, int &end) {
  begin = (int)blockIdx.x * SORT_TILE + (int)threadIdx.x / 32 * WARP_TILE;
  end = begin + WARP_TILE < KEYS ? begin + WARP_TILE : KEYS;
}

// The keys that a lane has from a round of its warp on.
template <int PASS>
__device__ __forceinline__ void keys_ahead(const Slots &slots, u32 (&key)[AHEAD], int round, int end) {
#pragma unroll
  for (int u = 0; u < AHEAD; u++) {
    const int i = round + u * 32 + (int)threadIdx.x % 32;
    key[u] = i < end ? key_at<PASS>(slots, i) : 0;
  }
}

template <int PASS>
__device__ __forceinline__ void keys_count(const Slots &slots, u32 *counts) {
  int begin, end;
  part_of_warp(begin, end);
  for (int round = begin; round < end; round += AHEAD * 32) {
    u32 key[AHEAD];
    keys_ahead<PASS>(slots, key, round, end);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      if (round + u * 32 + (int)threadIdx.x % 32 < end) {
        atomicAdd(&counts[digit_of<PASS>(key[u])], 1u);
      }
    }
  }
}

template <int PASS>
__device__ __forceinline__ void sort_count(const Slots &slots) {
  u32 *const counts = (u32 *)shared_memory;
  for (int d = (int)threadIdx.x; d < DIGITS; d += SORT_THREADS) {
    counts[d] = 0;
  }
  __syncthreads();
  keys_count<PASS>(slots, counts);
  __syncthreads();
  for (int d = (int)threadIdx.x; d < DIGITS; d += SORT_THREADS) {
    counts_of(slots)[(i64)blockIdx.x * DIGITS + d] = counts[d];
  }
}

// first[warp][digit]: how many keys of each warp's part there are becomes where they begin.
__device__ __forceinline__ void sort_scan(const Slots &slots, u32 *first, u32 *warp_sums) {
  const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
  u32 before[OWN], total[OWN], sum = 0;
#pragma unroll
  for (int o = 0; o < OWN; o++) {
    const int d = thread * OWN + o;
    before[o] = total[o] = 0;
    if (d < DIGITS) {
#pragma unroll 16
      for (int b = 0; b < BLOCKS; b++) {
        const u32 here = counts_of(slots)[(i64)b * DIGITS + d];
        before[o] += b < (int)blockIdx.x ? here : 0;
        total[o] += here;
      }
    }
    sum += (total[o] + ALIGN - 1) / ALIGN * ALIGN;
  }
  u32 running = sum;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const u32 other = __shfl_up_sync(0xffffffffu, running, by);
    running += lane >= by ? other : 0;
  }
  if (lane == 31) {
    warp_sums[warp] = running;
  }
  __syncthreads();
  u32 base = running - sum;
  for (int w = 0; w < warp; w++) {
    base += warp_sums[w];
  }
#pragma unroll
  for (int o = 0; o < OWN; o++) {
    const int d = thread * OWN + o;
    if (d < DIGITS) {
      u32 at = base + before[o];
      digit_begins(slots, d, base, total[o]);
      for (int w = 0; w < WARPS; w++) {
        const u32 here = first[w * DIGITS + d];
        first[w * DIGITS + d] = at;
        at += here;
      }
    }
    base += (total[o] + ALIGN - 1) / ALIGN * ALIGN;
  }
}

template <int PASS>
__device__ __forceinline__ void sort_place(const Slots &slots) {
  u32 *const warp_sums = (u32 *)shared_memory, *const first = warp_sums + WARPS;
  const int lane = (int)threadIdx.x % 32;
  u32 *const own = first + (int)threadIdx.x / 32 * DIGITS;
  int begin, end;
  part_of_warp(begin, end);
  for (int i = (int)threadIdx.x; i < WARPS * DIGITS; i += SORT_THREADS) {
    first[i] = 0;
  }
  __syncthreads();
  keys_count<PASS>(slots, own);
  __syncthreads();
  sort_scan(slots, first, warp_sums);
  __syncthreads();
  for (int round = begin; round < end; round += AHEAD * 32) {
    u32 key[AHEAD];
    keys_ahead<PASS>(slots, key, round, end);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int i = round + u * 32 + lane;
      const u32 digit = i < end ? digit_of<PASS>(key[u]) : DIGITS;
      const u32 same = __match_any_sync(0xffffffffu, digit), earlier = __popc(same & ((1u << lane) - 1));
      const u32 to = i < end ? own[digit] + earlier : 0;
      __syncwarp();
      if (i < end) {
        if (earlier == 0) {
          own[digit] += __popc(same);
        }
        placed<PASS>(slots, i, key[u], to);
      }
      __syncwarp();
    }
  }
}
