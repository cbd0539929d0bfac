// element.c: one element in memory as a number, and back.
#include "runtime/element.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"

double element_get(ElementType type, const void *at) {
  double wide;
  float single;
  uint16_t half;
  uint8_t byte;
  int32_t integer;
  switch (type) {
    case TYPE_F64:
      memcpy(&wide, at, sizeof wide);
      return wide;
    case TYPE_F32:
      memcpy(&single, at, sizeof single);
      return (double)single;
    case TYPE_BF16:
    case TYPE_F16:
      memcpy(&half, at, sizeof half);
      return (double)(type == TYPE_BF16 ? f32_of_bf16(half) : f32_of_f16(half));
    case TYPE_E4M3:
    case TYPE_E5M2:
      memcpy(&byte, at, sizeof byte);
      return (double)(type == TYPE_E4M3 ? f32_of_e4m3(byte) : f32_of_e5m2(byte));
    case TYPE_INT:
    case TYPE_INDEX:
    case TYPE_BOOL:
      memcpy(&integer, at, sizeof integer);
      return integer;
    default:
      return NAN;
  }
}

bool element_put(ElementType type, void *at, double value) {
  const float single = (float)value;
  uint16_t half;
  uint8_t byte;
  int32_t integer;
  switch (type) {
    case TYPE_F64:
      memcpy(at, &value, sizeof value);
      return true;
    case TYPE_F32:
      memcpy(at, &single, sizeof single);
      return true;
    case TYPE_BF16:
    case TYPE_F16:
      half = type == TYPE_BF16 ? bf16_of_f32(single) : f16_of_f32(single);
      memcpy(at, &half, sizeof half);
      return true;
    case TYPE_E4M3:
    case TYPE_E5M2:
      byte = type == TYPE_E4M3 ? e4m3_of_f32(single) : e5m2_of_f32(single);
      memcpy(at, &byte, sizeof byte);
      return true;
    case TYPE_INT:
    case TYPE_INDEX:
    case TYPE_BOOL:
      integer = value >= INT32_MAX ? INT32_MAX : value > INT32_MIN ? (int32_t)value : isnan(value) ? 0 : INT32_MIN;
      memcpy(at, &integer, sizeof integer);
      return true;
    default:
      return false;
  }
}
