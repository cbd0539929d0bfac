// order.cu: ORDER: rows of blocks of one index each, by a stable sort in one pass (sort.cu).
//
// Ports: index, place, from, chosen. What is no index is the last digit, and has no row. Scratch: the counts.
constexpr int ROWS_BLOCKS = CAPACITY / ALIGN;

__device__ __forceinline__ u32 *counts_of(const Slots &slots) {
  return (u32 *)slots.at[SCRATCH];
}

template <int PASS>
__device__ __forceinline__ u32 key_at(const Slots &slots, int i) {
  const int index = ((const int *)slots.at[0])[i];
  return index >= 0 && index < EXTENT ? (u32)index : (u32)EXTENT;
}

template <int PASS>
__device__ __forceinline__ void placed(const Slots &slots, int i, u32 key, u32 to) {
  const bool there = key < EXTENT && to < CAPACITY;
  ((int *)slots.at[1])[i] = there ? (int)to : -1;
  if (there) {
    ((int *)slots.at[2])[to] = i;
  }
}

// Each thread block names some of the blocks of rows.
__device__ __forceinline__ void digit_begins(const Slots &slots, int digit, u32 first, u32 count) {
  const u32 end = (first + count + ALIGN - 1) / ALIGN;
  for (u32 i = first / ALIGN + blockIdx.x; digit < EXTENT && i < end && i < ROWS_BLOCKS; i += BLOCKS) {
    ((int *)slots.at[3])[i] = digit;
  }
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) order_count(Slots slots) {
  const int step = (int)gridDim.x * SORT_THREADS, first = (int)blockIdx.x * SORT_THREADS + (int)threadIdx.x;
  for (int i = first; i < CAPACITY; i += step) {
    ((int *)slots.at[2])[i] = -1;
  }
  for (int i = first; i < ROWS_BLOCKS; i += step) {
    ((int *)slots.at[3])[i] = -1;
  }
  sort_count<0>(slots);
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) order_place(Slots slots) {
  sort_place<0>(slots);
}
