// formats.cu: loads and stores of any storage format as the type that is computed with.
//
// A format names its memory type (Memory) and its arithmetic type (Real).
template <typename T>
struct Plain {
  typedef T Memory;
  typedef T Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return x;
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return x;
  }
};

template <float (*WIDEN)(u16), u16 (*NARROW)(float)>
struct Half {
  typedef u16 Memory;
  typedef float Real;
  static __device__ __forceinline__ Real load(Memory x) {
    return WIDEN(x);
  }
  static __device__ __forceinline__ Memory store(Real x) {
    return NARROW(x);
  }
};

typedef Plain<double> F64;
typedef Plain<float> F32;
typedef Half<f16_float, float_f16> F16;
typedef Half<bf16_float, float_bf16> BF16;
typedef Plain<u32> I32;  // sums wrap around
typedef Plain<u8> I8;    // only moved

// Of more than 16 bytes several words, aligned as one.
template <typename Format, int COUNT>
struct __align__(sizeof(typename Format::Memory) * COUNT < 16 ? sizeof(typename Format::Memory) * COUNT : 16) Pack {
  typename Format::Memory at[COUNT];
};

// COUNT consecutive elements, aligned as a pack is.
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
