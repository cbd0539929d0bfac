// take.cu: TAKE, and PUT where no two coordinates meet at one element of x.
//
// An item is PACK consecutive elements of out. A thread has EACH items, whose loads are all on their way before the
// first store. seek gives the offsets of an item, in elements.
constexpr int THREADS = 256, EACH = 4;

#if TAKES
extern "C" __global__ void __launch_bounds__(THREADS) take(Slots slots) {
  Pack<FormatX, PACK> x[EACH];
  i64 to[EACH];
  const Item first = (Item)blockIdx.x * (THREADS * EACH) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    to[i] = -1;
    if (first + i * THREADS < ITEMS) {
      i64 from, index;
      seek(first + i * THREADS, from, index, to[i]);
      const int place = ((const int *)slots.at[1])[index];
      x[i] = place >= 0 && place < EXTENT ? pack_load<FormatX, PACK>((const void *)slots.at[0], from + place * AXIS)
                                          : pack_zero<FormatX, PACK>();
    }
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    if (to[i] >= 0) {
      pack_store<FormatOut, PACK>((void *)slots.at[2], to[i], pack_convert<FormatX, FormatOut, PACK>(x[i]));
    }
  }
}

#else

__device__ __forceinline__ bool adds(const Slots &slots) {
  return WRITE_ADDS || (WRITE_ADDS_AFTER_FIRST && !(slots.at[FLAGS] & 1));
}

// 16 bytes at a time where the address allows it.
extern "C" __global__ void __launch_bounds__(THREADS) put_zero(Slots slots) {
  typedef FormatX::Memory Memory;
  constexpr i64 WIDTH = 16 / (int)sizeof(Memory), WHOLE = ZERO_WHOLE ? X_ELEMENTS / WIDTH : 0;
  if (adds(slots)) {
    return;
  }
  const i64 first = (i64)blockIdx.x * (THREADS * EACH) + threadIdx.x;
  Memory *const x = (Memory *)slots.at[0];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const i64 at = first + i * THREADS;
    if (at < WHOLE) {
      ((uint4 *)x)[at] = uint4{0, 0, 0, 0};
    } else if (at - WHOLE < X_ELEMENTS - WHOLE * WIDTH) {
      x[WHOLE * WIDTH + at - WHOLE] = 0;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) put_direct(Slots slots) {
  const Item first = (Item)blockIdx.x * (THREADS * EACH) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    if (first + i * THREADS < ITEMS) {
      i64 to, index, from;
      seek(first + i * THREADS, to, index, from);
      const int place = ((const int *)slots.at[1])[index];
      if (place >= 0 && place < EXTENT) {
        const Pack<FormatOut, PACK> source = pack_load<FormatOut, PACK>((const void *)slots.at[2], from);
        Pack<FormatX, PACK> x = pack_load<FormatX, PACK>((const void *)slots.at[0], to + place * AXIS);
#pragma unroll
        for (int e = 0; e < PACK; e++) {
          x.at[e] = FormatX::store(FormatX::load(x.at[e]) + (FormatX::Real)FormatOut::load(source.at[e]));
        }
        pack_store<FormatX, PACK>((void *)slots.at[0], to + place * AXIS, x);
      }
    }
  }
}
#endif
