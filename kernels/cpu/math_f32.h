// math_f32.h: functions of one f32, without branches, so that loops over them become vector code.
//
// Errors against the exact value, measured by tests/cpu_math_test.c: exp, log, sigmoid, sin, cos, erf, tanh below 2
// ulp. The coefficients are minimax fits (Remez). sin and cos reduce their argument in double and are accurate to
// arguments of 1e6. Infinities, NaN and denormal results come out as in libm.
#ifndef MDL_KERNELS_CPU_MATH_F32_H
#define MDL_KERNELS_CPU_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double f64_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// e^x = 2^n e^r with |r| <= ln 2 / 2; 2^n in two factors, so that denormal results round once.
static inline float f32_exp(float x) {
  const float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = x > 110.0f ? 110.0f : x;
  x = x < -110.0f ? -110.0f : x;
  const float shifted = x * 1.44269504f + rounder;
  const float n = shifted - rounder;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.39505864e-3f;
  p = p * r + 8.36895322e-3f;
  p = p * r + 4.16662044e-2f;
  p = p * r + 1.66665183e-1f;
  p = p * r + 5.00000010e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t exponent = f32_bits(shifted) - f32_bits(rounder);
  const uint32_t half = (uint32_t)((int32_t)exponent >> 1);
  return p * f32_of_bits((half + 127) << 23) * f32_of_bits((exponent - half + 127) << 23);
}

// 1 / (1 + e^-x) by the exponential of -|x|, which cannot overflow.
static inline float f32_sigmoid(float x) {
  const float e = f32_exp(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float f32_tanh(float x) {
  const float size = fabsf(x), z = x * x;
  float p = 2.07102419e-3f;
  p = p * z - 8.09918184e-3f;
  p = p * z + 2.16693637e-2f;
  p = p * z - 5.39411296e-2f;
  p = p * z + 1.33331625e-1f;
  p = p * z - 3.33333297e-1f;
  const float small = p * z * size + size;
  const float large = 1.0f - 2.0f / (f32_exp(2.0f * size) + 1.0f);
  return copysignf(size < 0.625f ? small : large, x);
}

// ln x = e ln 2 + ln m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m + 1)), in double.
static inline float f32_log(float x) {
  const float normal = x < 1.17549435e-38f ? x * 8388608.0f : x;
  const uint32_t shifted = f32_bits(normal) - 0x3f3504f3u;
  const float m = f32_of_bits((shifted & 0x7fffffu) + 0x3f3504f3u);
  const int32_t exponent = ((int32_t)shifted >> 23) - (x < 1.17549435e-38f ? 23 : 0);
  const double s = ((double)m - 1.0) / ((double)m + 1.0), z = s * s;
  double p = 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  float result = (float)((double)exponent * 0.693147180559945309 + 2.0 * (s + s * z * p));
  result = x > 3.40282347e38f ? x : result;
  result = x == 0.0f ? -INFINITY : result;
  return x >= 0.0f ? result : NAN;
}

// sin(x + quarter_turns * pi / 2): reduced to r in [-pi/4, pi/4], then sine or cosine series.
static inline float f32_sin_turned(float x, uint64_t quarter_turns) {
  const double rounder = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = (double)x * 0.636619772367581343 + rounder;
  const double n = shifted - rounder;
  double r = (double)x - n * 1.57079632673412561417e+00;
  r = r - n * 6.07710050650619224932e-11;
  const uint64_t quadrant = f64_bits(shifted) + quarter_turns;
  const double z = r * r;
  double s = -1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = s * z * r + r;
  double c = 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = c * z + 1.0;
  const double value = (quadrant & 1) != 0 ? c : s;
  return (float)f64_of_bits(f64_bits(value) ^ (quadrant & 2) << 62);
}

static inline float f32_sin(float x) {
  return f32_sin_turned(x, 0);
}

static inline float f32_cos(float x) {
  return f32_sin_turned(x, 1);
}

// Below 1 an odd polynomial; above, 1 - erfc with erfc(x) = e^(-x^2) P(1 / (1 + x/2)).
static inline float f32_erf(float x) {
  const float size = fabsf(x), z = x * x;
  float p = -9.68011307e-6f;
  p = p * z + 1.12705359e-4f;
  p = p * z - 8.48471018e-4f;
  p = p * z + 5.22107478e-3f;
  p = p * z - 2.68654458e-2f;
  p = p * z + 1.12837827e-1f;
  p = p * z - 3.76126385e-1f;
  p = p * z + 1.28379167e-1f;
  const float small = p * size + size;
  const float bounded = size > 4.2f ? 4.2f : size;
  const float t = 1.0f / (1.0f + 0.5f * bounded);
  float q = 7.85340479e-3f;
  q = q * t - 2.58175118e-1f;
  q = q * t + 6.76326292e-1f;
  q = q * t - 9.49991686e-2f;
  q = q * t + 4.09995329e-1f;
  q = q * t + 2.56669870e-1f;
  q = q * t + 2.11167513e-3f;
  const float large = 1.0f - q * f32_exp(-bounded * bounded);
  const float value = size < 1.0f ? small : large;
  return x != x ? x : copysignf(value, x);
}

#endif
