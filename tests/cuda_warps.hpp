// cuda_warps.hpp: stands in for target.cu and intrinsics.cu of kernels/cuda/text where a text is compiled for the host.
//
// What all lanes of a warp do together (shuffles, matrices) goes through hooks of cuda_warps.h. Copies that come later
// are made when they are waited for, and poison their place until then.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_warps_hooks.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef u64 SharedAddress;

extern "C" WarpsHooks *warps_hooks;
WarpsHooks *warps_hooks;

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx warps_hooks->thread
#define blockIdx warps_hooks->block
#define gridDim warps_hooks->grid
#define INFINITE INFINITY
#define shared_memory (warps_hooks->shared)

struct __align__(8) float2 {
  float x, y;
};

struct __align__(16) uint4 {
  u32 x, y, z, w;
};

static inline void __syncthreads() {
  warps_hooks->barrier();
}

// What each lane gave, in the order of the lanes.
template <typename T>
struct Lanes {
  const WarpsValue *values;
  explicit Lanes(const T &mine) {
    WarpsValue value = {};
    static_assert(sizeof(T) <= sizeof value, "too much for one exchange");
    memcpy(&value, &mine, sizeof mine);
    values = warps_hooks->exchange(&value);
  }
  T of(int lane) const {
    T value;
    memcpy(&value, &values[lane], sizeof value);
    return value;
  }
};

static inline int lane_here() {
  return (int)(threadIdx.x % 32);
}

static inline void __syncwarp() {
  Lanes<int>(0);
}

template <typename T>
static inline T __shfl_xor_sync(u32, T x, int by) {
  return Lanes<T>(x).of(lane_here() ^ by);
}

template <typename T>
static inline T __shfl_up_sync(u32, T x, int by) {
  return Lanes<T>(x).of(lane_here() < by ? lane_here() : lane_here() - by);
}

static inline int __any_sync(u32, bool x) {
  const Lanes<int> lanes(x);
  int any = 0;
  for (int i = 0; i < 32; i++) {
    any |= lanes.of(i);
  }
  return any;
}

static inline u32 __match_any_sync(u32, u32 x) {
  const Lanes<u32> lanes(x);
  u32 same = 0;
  for (int i = 0; i < 32; i++) {
    same |= (u32)(lanes.of(i) == x) << i;
  }
  return same;
}

static inline int __popc(u32 x) {
  return __builtin_popcount(x);
}

static inline u32 atomicAdd(u32 *at, u32 x) {
  const u32 before = *at;
  *at += x;
  return before;
}

static inline SharedAddress shared_address(const void *at) {
  return (u64)at;
}

static inline float bits_float(u32 bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float exp2_fast(float x) {
  return exp2f(x);
}

static inline float bf16_float(u16 x) {
  return bits_float((u32)x << 16);
}

static inline u16 float_bf16(float x) {
  u32 bits;
  memcpy(&bits, &x, sizeof bits);
  return x != x ? 0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f16_float(u16 x) {
  _Float16 half;
  memcpy(&half, &x, sizeof half);
  return (float)half;
}

static inline u16 float_f16(float x) {
  const _Float16 half = (_Float16)x;
  u16 bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}

static inline u32 pack_bf16(float low, float high) {
  return float_bf16(low) | (u32)float_bf16(high) << 16;
}

static inline u32 pack_f16(float low, float high) {
  return float_f16(low) | (u32)float_f16(high) << 16;
}

static inline void copy_later_16(SharedAddress to, const void *from, int bytes) {
  warps_hooks->copy_later((void *)to, from, bytes, 16);
}

static inline void copy_later_4(SharedAddress to, const void *from, int bytes) {
  warps_hooks->copy_later((void *)to, from, bytes, 4);
}

static inline void copies_wait() {
  warps_hooks->copies_wait();
}

// Lane l gets elements (l / 4, l % 4 * 2) and the next of each 8 x 8 matrix, whose row r is at the address of lane
// 8 * matrix + r; transposed: those of the transposed matrix.
static inline void matrices_get(u32 (&to)[4], SharedAddress at, bool transposed) {
  const Lanes<SharedAddress> rows(at);
  if (at % 16 != 0) {
    abort();
  }
  for (int matrix = 0; matrix < 4; matrix++) {
    u16 pair[2];
    for (int e = 0; e < 2; e++) {
      const int row = lane_here() / 4, column = lane_here() % 4 * 2 + e;
      const u16 *line = (const u16 *)rows.of(matrix * 8 + (transposed ? column : row));
      pair[e] = line[transposed ? row : column];
    }
    to[matrix] = pair[0] | (u32)pair[1] << 16;
  }
}

static inline void matrices_load(u32 (&to)[4], SharedAddress at) {
  matrices_get(to, at, false);
}

static inline void matrices_load_transposed(u32 (&to)[4], SharedAddress at) {
  matrices_get(to, at, true);
}

struct ProductOperands {
  u32 a[4], b[2];
};

// mma.m16n8k16: a(i, k) is in lane i % 8 * 4 + k % 8 / 2, word i / 8 + k / 8 * 2; b(k, j) in lane j * 4 + k % 8 / 2,
// word k / 8; half k % 2 of it.
template <float (*REAL)(u16)>
static inline void product_of(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const Lanes<ProductOperands> lanes({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  for (int e = 0; e < 4; e++) {
    const int i = lane_here() / 4 + e / 2 * 8, j = lane_here() % 4 * 2 + e % 2;
    for (int k = 0; k < 16; k++) {
      const u32 left = lanes.of(i % 8 * 4 + k % 8 / 2).a[i / 8 + k / 8 * 2],
                right = lanes.of(j * 4 + k % 8 / 2).b[k / 8];
      c[e] += REAL((u16)(left >> k % 2 * 16)) * REAL((u16)(right >> k % 2 * 16));
    }
  }
}

static inline void product_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  product_of<bf16_float>(c, a, b0, b1);
}

static inline void product_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  product_of<f16_float>(c, a, b0, b1);
}
