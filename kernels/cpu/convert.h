// convert.h: the 16- and 8-bit floating-point formats, one value at a time, rounding to the nearest even.
//
// What is too large for 8 bits, infinity too, becomes the largest finite value of its sign, as GPUs do it; NaN stays
// NaN. e4m3 has no infinity and one NaN of each sign (OCP OFP8). These two have no branches, so that loops become
// vector code.
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

static inline float f32_of_f16(uint16_t x) {
  const uint32_t sign = (uint32_t)x >> 15, e = (uint32_t)x >> 10 & 31u, m = x & 1023u;
  const float value = e == 31 ? (m ? NAN : INFINITY)
                      : e     ? ldexpf((float)(m | 1024u), (int)e - 25)
                              : ldexpf((float)m, -24);
  return sign ? -value : value;
}

static inline uint16_t f16_of_f32(float x) {
  const uint32_t sign = f32_bits(x) >> 31 << 15;
  const float size = fabsf(x);
  if (x != x) {
    return (uint16_t)(sign | 0x7fffu);
  }
  if (size >= 65520.0f) {
    return (uint16_t)(sign | 0x7c00u);
  }
  const int power = size < 0x1p-14f ? -14 : ilogbf(size);
  const uint32_t m = (uint32_t)nearbyintf(ldexpf(size, 10 - power));  // 2048: the next power of two
  return (uint16_t)(sign | (m < 1024 ? m : ((uint32_t)(power + 15) << 10) + (m - 1024)));
}

// By the bits of an f32 of another exponent: a factor moves that to its place, and gives the small ones their value.
static inline float f32_of_e4m3(uint8_t x) {
  const uint32_t size = x & 0x7fu, sign = (uint32_t)(x >> 7) << 31;
  const float value = f32_of_bits(size << 20) * 0x1p120f;
  return f32_of_bits(sign | (size == 0x7fu ? 0x7fc00000u : f32_bits(value)));
}

static inline float f32_of_e5m2(uint8_t x) {
  const uint32_t size = x & 0x7fu, sign = (uint32_t)(x >> 7) << 31;
  const float value = f32_of_bits(size << 21) * 0x1p112f;
  const uint32_t special = size == 0x7cu ? 0x7f800000u : 0x7fc00000u;
  return f32_of_bits(sign | (size >= 0x7cu ? special : f32_bits(value)));
}

// In `mantissa` bits, where the least normal number is `least` = 2^(1 - bias): below it, adding a number whose last
// place is that of the format rounds; above, what is added to the bits carries where the rest is more than half, or
// half of an odd number.
static inline uint8_t quarter_of_f32(float x, int mantissa, int bias, float largest, float least, float rounder) {
  const uint32_t sign = f32_bits(x) >> 31 << 7;
  float size = fabsf(x);
  size = size > largest ? largest : size;
  const int drop = 23 - mantissa;
  const uint32_t bits = f32_bits(size), odd = bits >> drop & 1u;
  const uint32_t small = f32_bits(size + rounder) - f32_bits(rounder);
  const uint32_t normal = (bits - ((uint32_t)(127 - bias) << 23) + (1u << (drop - 1)) - 1u + odd) >> drop;
  return (uint8_t)(sign | (x != x ? 0x7fu : size < least ? small : normal));
}

static inline uint8_t e4m3_of_f32(float x) {
  return quarter_of_f32(x, 3, 7, 448.0f, 0x1p-6f, 0x1p14f);
}

static inline uint8_t e5m2_of_f32(float x) {
  return quarter_of_f32(x, 2, 15, 57344.0f, 0x1p-14f, 0x1p7f);
}

#endif
