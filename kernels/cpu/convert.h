// convert.h: the 16- and 8-bit floating-point formats, one value at a time, rounding to the nearest even.
#ifndef MDL_KERNELS_CPU_CONVERT_H
#define MDL_KERNELS_CPU_CONVERT_H

#include "kernels/cpu/math_f32.h"

static inline float f32_of_bf16(uint16_t x) {
  return f32_of_bits((uint32_t)x << 16);
}

static inline uint16_t bf16_of_f32(float x) {
  const uint32_t bits = f32_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)(x != x ? (bits >> 16) | 0x40u : rounded);
}

// A format of `exponent` + `mantissa` + sign bits, IEEE-like; e4m3 has no infinity: its largest value is 448.
static inline float small_float_decode(uint32_t x, int exponent, int mantissa, int finite) {
  const uint32_t sign = x >> (exponent + mantissa), top = (1u << exponent) - 1;
  const uint32_t e = (x >> mantissa) & top, m = x & ((1u << mantissa) - 1);
  const int bias = (int)(top >> 1);
  float value;
  if (e == top && (!finite || m == (1u << mantissa) - 1)) {
    value = m != 0 ? NAN : INFINITY;
  } else if (e == 0) {
    value = ldexpf((float)m, 1 - bias - mantissa);
  } else {
    value = ldexpf((float)(m | 1u << mantissa), (int)e - bias - mantissa);
  }
  return sign ? -value : value;
}

static inline uint32_t small_float_encode(float x, int exponent, int mantissa, int finite) {
  const uint32_t sign = f32_bits(x) >> 31 << (exponent + mantissa), top = (1u << exponent) - 1;
  const int bias = (int)(top >> 1);
  const float size = fabsf(x);
  if (x != x) {
    return sign | top << mantissa | ((1u << mantissa) - 1);
  }
  const int power = size == 0.0f ? 1 - bias : ilogbf(size < 1e-30f ? 1e-30f : size > 1e30f ? 1e30f : size);
  int e = power < 1 - bias ? 1 - bias : power;
  float scaled = size > 1e30f ? 1e30f : ldexpf(size, mantissa - e);
  uint32_t m = scaled > 1e9f ? 1u << 30 : (uint32_t)nearbyintf(scaled);
  if (m >= 2u << mantissa) {
    m >>= 1;
    e++;
  }
  const uint32_t code = m < 1u << mantissa ? m : ((uint32_t)(e + bias) << mantissa) + (m - (1u << mantissa));
  const uint32_t infinity = finite ? (top << mantissa | ((1u << mantissa) - 1)) : top << mantissa;
  return sign | (m >= 2u << mantissa || code >= infinity ? infinity : code);
}

static inline float f32_of_f16(uint16_t x) {
  return small_float_decode(x, 5, 10, 0);
}

static inline uint16_t f16_of_f32(float x) {
  return (uint16_t)small_float_encode(x, 5, 10, 0);
}

static inline float f32_of_e4m3(uint8_t x) {
  return small_float_decode(x, 4, 3, 1);
}

static inline uint8_t e4m3_of_f32(float x) {
  return (uint8_t)small_float_encode(x, 4, 3, 1);
}

static inline float f32_of_e5m2(uint8_t x) {
  return small_float_decode(x, 5, 2, 0);
}

static inline uint8_t e5m2_of_f32(float x) {
  return (uint8_t)small_float_encode(x, 5, 2, 0);
}

#endif
