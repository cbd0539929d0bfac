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

DEVICE float shuffle_f32(float x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}

DEVICE double shuffle_f64(double x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}
#endif
