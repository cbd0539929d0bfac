// target.cu: what every text begins with: the names of widths, and what needs more than CUDA C.
//
// A header that emulates CUDA defines EMULATED, and the functions and macros here itself.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef EMULATED
#define DEVICE static __device__ __forceinline__
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define KERNEL_BLOCKS(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define SHARED_MEMORY extern __shared__ __align__(16) unsigned char dynamic_shared[]

typedef u32 SharedAddress;  // within the shared memory of the block

DEVICE SharedAddress shared_address(const void *at) {
  return (u32)__cvta_generic_to_shared(at);
}

DEVICE float bits_float(u32 bits) {
  return __uint_as_float(bits);
}

DEVICE u32 float_bits(float x) {
  return __float_as_uint(x);
}

DEVICE double bits_double(u64 bits) {
  return __longlong_as_double((i64)bits);
}

DEVICE u64 double_bits(double x) {
  return (u64)__double_as_longlong(x);
}

DEVICE u32 multiply_high(u32 a, u32 b) {
  return __umulhi(a, b);
}

// Four of the bytes of two words, from the lowest up: those that the digits of `which` name.
DEVICE u32 bytes_of(u32 low, u32 high, u32 which) {
  return __byte_perm(low, high, which);
}

// Two numbers in one word, the first in the lower half; all stores round to the nearest even.
DEVICE u32 pack_bf16(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

DEVICE u32 pack_f16(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

DEVICE u16 float_bf16(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

DEVICE u16 float_f16(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

// Formats of 8 bits, the first number in the lowest byte; what is too large, infinity too, becomes the largest number.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define PACK_QUARTERS(name, format)                                                                           \
  DEVICE u32 name(float a, float b, float c, float d) {                                                       \
    u32 y;                                                                                                    \
    asm("{\n  .reg .b16 low, high;\n  cvt.rn.satfinite." format "x2.f32 low, %2, %1;\n  cvt.rn.satfinite." format \
        "x2.f32 high, %4, %3;\n  mov.b32 %0, {low, high};\n}"                                                 \
        : "=r"(y)                                                                                             \
        : "f"(a), "f"(b), "f"(c), "f"(d));                                                                    \
    return y;                                                                                                 \
  }
#define READ_QUARTER(name, format)                                                                            \
  DEVICE float name(u8 x) {                                                                                   \
    float y;                                                                                                  \
    asm("{\n  .reg .b32 both;\n  .reg .b16 low, high;\n  cvt.rn.f16x2." format "x2 both, %1;\n"               \
        "  mov.b32 {low, high}, both;\n  cvt.f32.f16 %0, low;\n}"                                             \
        : "=f"(y)                                                                                             \
        : "h"((u16)x));                                                                                       \
    return y;                                                                                                 \
  }
PACK_QUARTERS(pack_e4m3, "e4m3")
PACK_QUARTERS(pack_e5m2, "e5m2")
READ_QUARTER(e4m3_float, "e4m3")
READ_QUARTER(e5m2_float, "e5m2")
#else  // kernels/cpu/convert.h says how
DEVICE u32 quarter_of(float x, int mantissa, int bias, float largest, float least, float rounder) {
  const u32 sign = __float_as_uint(x) >> 31 << 7;
  const float size = fminf(fabsf(x), largest);
  const int drop = 23 - mantissa;
  const u32 bits = __float_as_uint(size), odd = bits >> drop & 1u;
  const u32 small = __float_as_uint(size + rounder) - __float_as_uint(rounder);
  const u32 normal = (bits - ((u32)(127 - bias) << 23) + (1u << (drop - 1)) - 1u + odd) >> drop;
  return sign | (x != x ? 0x7fu : size < least ? small : normal);
}

#define E4M3(x) quarter_of(x, 3, 7, 448.0f, 0x1p-6f, 0x1p14f)
#define E5M2(x) quarter_of(x, 2, 15, 57344.0f, 0x1p-14f, 0x1p7f)

DEVICE u32 pack_e4m3(float a, float b, float c, float d) {
  return E4M3(a) | E4M3(b) << 8 | E4M3(c) << 16 | E4M3(d) << 24;
}

DEVICE u32 pack_e5m2(float a, float b, float c, float d) {
  return E5M2(a) | E5M2(b) << 8 | E5M2(c) << 16 | E5M2(d) << 24;
}

DEVICE float e4m3_float(u8 x) {
  const u32 size = x & 0x7fu, sign = (u32)(x >> 7) << 31;
  const float value = __uint_as_float(size << 20) * 0x1p120f;
  return __uint_as_float(sign | (size == 0x7fu ? 0x7fc00000u : __float_as_uint(value)));
}

DEVICE float e5m2_float(u8 x) {
  const u32 size = x & 0x7fu, sign = (u32)(x >> 7) << 31;
  const float value = __uint_as_float(size << 21) * 0x1p112f;
  const u32 special = size == 0x7cu ? 0x7f800000u : 0x7fc00000u;
  return __uint_as_float(sign | (size >= 0x7cu ? special : __float_as_uint(value)));
}
#endif

DEVICE float bf16_float(u16 x) {
  return bits_float((u32)x << 16);
}

DEVICE float f16_float(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

DEVICE float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float larger_f32(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

DEVICE float smaller_f32(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 16 or 4 bytes to shared memory, later; of them `bytes` (0 or all) are read and the others are zero.
DEVICE void copy_later_16(SharedAddress to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

DEVICE void copy_later_4(SharedAddress to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

DEVICE void copies_wait(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The same in groups, for rows ahead: COPIES_WAIT waits for all but the `later` groups that were closed last.
DEVICE void copy_ahead16(void *shared, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(from) : "memory");
}

DEVICE void copy_ahead4(void *shared, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(from) : "memory");
}

DEVICE void copy_ahead_part(void *shared, const void *from, int bytes) {
  copy_later_16(shared_address(shared), from, bytes < 0 ? 0 : bytes < 16 ? bytes : 16);
}

DEVICE void copies_close(void) {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

#define COPIES_WAIT(later) asm volatile("cp.async.wait_group " #later ";" ::: "memory")

DEVICE void group_barrier(u32 group, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1u), "r"(threads) : "memory");
}

// Counts the blocks that are done with what they wrote before: true in the last, which sees all of that. The counter
// begins with 0 and has it again afterwards.
#define COUNTER(name) static __device__ u32 name

DEVICE int counted_last(u32 *counter, u32 blocks) {
  __threadfence();
  const int last = atomicInc(counter, blocks - 1u) == blocks - 1u;
  __threadfence();
  return last;
}

DEVICE float shuffle_f32(float x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}

DEVICE double shuffle_f64(double x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}
#endif
