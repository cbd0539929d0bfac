// take.cu: TAKE, and PUT where no two coordinates meet at one element of x.
//
// An item is PACK consecutive elements of out. A thread has EACH items, whose indices are all read before the first
// element of x, and whose elements before the first store. seek gives the offsets of an item, in elements. With PARTS,
// items of a part whose number in `chosen` is negative are left out. Of a TAKE that sums, sum_seek gives those that each
// of SUMMED coordinates adds, which are read AT_ONCE and added in their order.
constexpr int THREADS = 256;

#if SUMMED
extern "C" __global__ void __launch_bounds__(THREADS) take_sum(Slots slots) {
  const Item item = (Item)blockIdx.x * THREADS + threadIdx.x;
  i64 from, index, to;
  Real sum[PACK];
  if (item >= ITEMS) {
    return;
  }
  seek(item, from, index, to);
#pragma unroll
  for (int e = 0; e < PACK; e++) {
    sum[e] = 0;
  }
#pragma unroll 1
  for (int first = 0; first < SUMMED; first += AT_ONCE) {
    Pack<FormatX, PACK> x[AT_ONCE];
    i64 at[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      at[i] = -1;
      if (SUMMED % AT_ONCE == 0 || first + i < SUMMED) {
        i64 more, there;
        sum_seek((Item)(first + i), more, there);
        const int place = ((const int *)slots.at[1])[index + there];
        at[i] = place >= 0 && place < EXTENT ? from + more + place * AXIS : -1;
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      x[i] = at[i] >= 0 ? pack_load<FormatX, PACK>((const void *)slots.at[0], at[i]) : pack_zero<FormatX, PACK>();
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
#pragma unroll
      for (int e = 0; e < PACK; e++) {
        sum[e] += (Real)FormatX::load(x[i].at[e]);
      }
    }
  }
  Pack<FormatOut, PACK> made;
#pragma unroll
  for (int e = 0; e < PACK; e++) {
    made.at[e] = FormatOut::store((FormatOut::Real)sum[e]);
  }
  pack_store<FormatOut, PACK>((void *)slots.at[2], to, made);
}

#elif TAKES
extern "C" __global__ void __launch_bounds__(THREADS) take(Slots slots) {
  Pack<FormatX, PACK> x[EACH];
  i64 from[EACH], to[EACH];
  const Item first = (Item)blockIdx.x * (THREADS * EACH) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    to[i] = from[i] = -1;
    if (first + i * THREADS < ITEMS) {
      i64 base, index;
      seek(first + i * THREADS, base, index, to[i]);
      const int place = ((const int *)slots.at[1])[index];
      from[i] = place >= 0 && place < EXTENT ? base + place * AXIS : -1;
#if PARTS
      if (((const int *)slots.at[3])[(first + i * THREADS) / PART_ITEMS] < 0) {
        to[i] = from[i] = -1;
      }
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    x[i] = from[i] >= 0 ? pack_load<FormatX, PACK>((const void *)slots.at[0], from[i]) : pack_zero<FormatX, PACK>();
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
