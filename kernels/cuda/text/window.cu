// window.cu: WINDOW and FOLD, views that look back along an axis.
//
// An item of WINDOW is PACK elements of out, of FOLD PACK elements of x. PACK is above 1 only where the last dim is
// contiguous in both and not the windowed one; packs are used where the addresses allow it.
constexpr int THREADS = 256;

__device__ __forceinline__ bool aligned(const Slots &slots) {
  return ((slots.at[0] | slots.at[1]) & (PACK * sizeof(Format::Memory) - 1)) == 0;
}

#if FOLD
template <int WIDTH>
__device__ __forceinline__ void fold_items(const Slots &slots) {
  const Item first = ((Item)blockIdx.x * THREADS + threadIdx.x) * (PACK / WIDTH);
#pragma unroll
  for (int i = 0; i < PACK / WIDTH; i++) {
    const Item item = first + i;
    if (item < ITEMS / WIDTH) {
      i64 x, out, position;
      Format::Real sum[WIDTH];
      seek(item * WIDTH, x, out, position);
#pragma unroll
      for (int e = 0; e < WIDTH; e++) {
        sum[e] = 0;
      }
#pragma unroll 4
      for (int tap = 0; tap < TAPS; tap++) {
        const int ahead = TAPS - 1 - tap;
        if (position + ahead < POSITIONS) {
          const Pack<Format, WIDTH> pack =
              pack_load<Format, WIDTH>((const void *)slots.at[1], out + ahead * STEP_OUT + tap * STEP_TAP);
#pragma unroll
          for (int e = 0; e < WIDTH; e++) {
            sum[e] += Format::load(pack.at[e]);
          }
        }
      }
      Pack<Format, WIDTH> to;
#pragma unroll
      for (int e = 0; e < WIDTH; e++) {
        to.at[e] = Format::store(sum[e]);
      }
      pack_store<Format, WIDTH>((void *)slots.at[0], x, to);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) fold(Slots slots) {
  if (aligned(slots)) {
    fold_items<PACK>(slots);
  } else {
    fold_items<1>(slots);
  }
}
#else
template <int WIDTH>
__device__ __forceinline__ void window_items(const Slots &slots) {
  const Item first = ((Item)blockIdx.x * THREADS + threadIdx.x) * (PACK / WIDTH);
#pragma unroll
  for (int i = 0; i < PACK / WIDTH; i++) {
    const Item item = first + i;
    if (item < ITEMS / WIDTH) {
      i64 x, out, position, tap;
      seek(item * WIDTH, x, out, position, tap);
      const i64 back = TAPS - 1 - tap;
      pack_store<Format, WIDTH>((void *)slots.at[1], out,
                                position >= back
                                    ? pack_load<Format, WIDTH>((const void *)slots.at[0], x - back * STEP_X)
                                    : pack_zero<Format, WIDTH>());
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) window(Slots slots) {
  if (aligned(slots)) {
    window_items<PACK>(slots);
  } else {
    window_items<1>(slots);
  }
}
#endif
