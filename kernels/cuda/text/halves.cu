// halves.cu: elements of 16 bits: pairs of them in words, their products on tensor cores, fragments from shared memory.
struct Element {
#if ELEMENT_F16
  static __device__ __forceinline__ u32 pack(float low, float high) {
    return pack_f16(low, high);
  }
  static __device__ __forceinline__ u16 one(float x) {
    return float_f16(x);
  }
  static __device__ __forceinline__ float real(u16 x) {
    return f16_float(x);
  }
  static __device__ __forceinline__ void both(u32 pair, float &low, float &high) {
    low = f16_float((u16)pair);
    high = f16_float((u16)(pair >> 16));
  }
  static __device__ __forceinline__ void product(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    product_f16(c, a, b0, b1);
  }
#else
  static __device__ __forceinline__ u32 pack(float low, float high) {
    return pack_bf16(low, high);
  }
  static __device__ __forceinline__ u16 one(float x) {
    return float_bf16(x);
  }
  static __device__ __forceinline__ float real(u16 x) {
    return bf16_float(x);
  }
  static __device__ __forceinline__ void both(u32 pair, float &low, float &high) {
    low = bits_float(pair << 16);
    high = bits_float(pair & 0xffff0000u);
  }
  static __device__ __forceinline__ void product(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    product_bf16(c, a, b0, b1);
  }
#endif
};

// The address a lane gives to load the 16 x 16 fragment A whose first element is `tile`.
template <int ROW>
__device__ __forceinline__ SharedAddress address_a(SharedAddress tile) {
  const int lane = (int)threadIdx.x % 32;
  return tile + (lane % 16 * ROW + lane / 16 * 8) * 2;
}

// For two fragments B (16 deep, 8 columns each) of a tile whose rows are the columns of B.
template <int ROW>
__device__ __forceinline__ SharedAddress address_b(SharedAddress tile) {
  const int lane = (int)threadIdx.x % 32;
  return tile + ((lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8) * 2;
}
