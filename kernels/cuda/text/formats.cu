// formats.cu: loads and stores of any storage format as the type that is computed with.
//
// A format names its memory type (Memory) and its arithmetic type (Real).
struct F64 {
  typedef double Memory;
  typedef double Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return x;
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return x;
  }
};

struct F32 {
  typedef float Memory;
  typedef float Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return x;
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return x;
  }
};

struct F16 {
  typedef u16 Memory;
  typedef float Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return f16_float(x);
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return float_f16(x);
  }
};

struct BF16 {
  typedef u16 Memory;
  typedef float Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return bf16_float(x);
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return float_bf16(x);
  }
};

struct I32 {  // sums wrap around
  typedef u32 Memory;
  typedef u32 Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return x;
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return x;
  }
};

struct I8 {  // only moved
  typedef u8 Memory;
  typedef u8 Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return x;
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return x;
  }
};

template <typename Format, int COUNT>
struct __align__(sizeof(typename Format::Memory) * COUNT) Pack {
  typename Format::Memory at[COUNT];
};

// COUNT consecutive elements, aligned to all of them together.
template <typename Format, int COUNT>
__device__ __forceinline__ Pack<Format, COUNT> pack_load(const void *base, i64 element) {
  return *(const Pack<Format, COUNT> *)((const typename Format::Memory *)base + element);
}

template <typename Format, int COUNT>
__device__ __forceinline__ void pack_store(void *base, i64 element, const Pack<Format, COUNT> &pack) {
  *(Pack<Format, COUNT> *)((typename Format::Memory *)base + element) = pack;
}

template <typename From, typename To, int COUNT>
__device__ __forceinline__ Pack<To, COUNT> pack_convert(const Pack<From, COUNT> &from) {
  Pack<To, COUNT> to;
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    to.at[i] = To::store((typename To::Real)From::load(from.at[i]));
  }
  return to;
}

template <typename Format, int COUNT>
__device__ __forceinline__ Pack<Format, COUNT> pack_zero() {
  Pack<Format, COUNT> pack;
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    pack.at[i] = 0;
  }
  return pack;
}
