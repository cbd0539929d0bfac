// scaled_test.c: weights in 8 bits with a scale for each row, against their definition, and back without a loss.
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "kernels/cpu/convert.h"
#include "runtime/scaled.h"

enum { IN = 5, HEADS = 3, HD = 4, COUNT = IN * HEADS * HD };

static PlanState weight(void) {
  return (PlanState){.name = "q.w",
                     .role = STATE_PARAMETER,
                     .type = TYPE_E4M3,
                     .axis_count = 3,
                     .axis = {"heads", "in", "hd"},
                     .size = {HEADS, IN, HD}};
}

static PlanState scales_of(bool heads_first) {
  const int first = heads_first ? HEADS : HD, second = heads_first ? HD : HEADS;
  return (PlanState){.name = "scale.q.w",
                     .role = STATE_COPY,
                     .type = TYPE_F32,
                     .axis_count = 2,
                     .axis = {heads_first ? "heads" : "hd", heads_first ? "hd" : "heads"},
                     .size = {first, second}};
}

static void fill(uint16_t *dense) {
  uint32_t seed = 1;
  for (int i = 0; i < COUNT; i++) {
    seed = seed * 1664525u + 1013904223u;
    dense[i] = bf16_of_f32(ldexpf((float)(seed >> 8) / 0x1p23f - 1, (i / HD / IN) * 9 - 12));
  }
}

static void check_rows(bool heads_first) {
  const PlanState state = weight(), scales = scales_of(heads_first);
  uint16_t dense[COUNT], back[COUNT], twice[COUNT];
  uint8_t codes[COUNT];
  float scale[HEADS * HD];
  fill(dense);
  scaled_encode(&state, &scales, dense, codes, scale);
  scaled_decode(&state, &scales, codes, scale, back);
  for (int h = 0; h < HEADS; h++) {
    for (int d = 0; d < HD; d++) {
      const float own = scale[heads_first ? h * HD + d : d * HEADS + h];
      float most = 0;
      for (int i = 0; i < IN; i++) {
        const float x = f32_of_bf16(dense[(h * IN + i) * HD + d]), now = f32_of_bf16(back[(h * IN + i) * HD + d]);
        most = fabsf(x) > most ? fabsf(x) : most;
        assert_true(fabsf(x - now) <= fabsf(x) / 16 + own * 0x1p-10f);
        assert_true(f32_of_e4m3(codes[(h * IN + i) * HD + d]) * own == now);
      }
      assert_true(most <= 448 * own && most > 224 * own);
      assert_true(own == ldexpf(1, ilogbf(own)));
    }
  }
  scaled_encode(&state, &scales, back, codes, scale);
  scaled_decode(&state, &scales, codes, scale, twice);
  assert_memory_equal(back, twice, sizeof back);
}

static void test_rows_are_rounded_once(void **state) {
  (void)state;
  check_rows(true);
  check_rows(false);
}

// From f32 by way of 16 bits, but rounded once: the nearest of 8 bits, and the scale of the largest itself.
static void test_numbers_of_32_bits_are_rounded_once(void **state) {
  (void)state;
  const PlanState one = {.role = STATE_PARAMETER, .type = TYPE_E4M3, .axis_count = 1, .axis = {"in"}, .size = {8}};
  const PlanState scales = {.role = STATE_COPY, .type = TYPE_F32};
  // Beside the middle between two codes on either side, upon it, and beside the largest code.
  const float most[] = {448, 448.5f, -448.5f, 447.5f};
  for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
    const float numbers[] = {most[m], 17.001f, 16.999f, -17.001f, 17, 0x1.000002p-10f, 0x1p-140f, 19.001f};
    uint16_t dense[8], back[8];
    uint8_t codes[8];
    float scale;
    for (int i = 0; i < 8; i++) {
      dense[i] = bf16_of_f32(numbers[i]);
    }
    scaled_round_to_odd(TYPE_F32, numbers, 8, dense);
    scaled_encode(&one, &scales, dense, codes, &scale);
    scaled_decode(&one, &scales, codes, &scale, back);
    assert_true(scale == (fabsf(most[m]) > 448 ? 2.0f : 1.0f));
    for (int i = 0; i < 8; i++) {
      assert_true(f32_of_bf16(back[i]) == f32_of_e4m3(e4m3_of_f32(numbers[i] / scale)) * scale);
    }
  }
  const float odd[] = {INFINITY, NAN, -0.0f};
  uint16_t dense[] = {bf16_of_f32(INFINITY), bf16_of_f32(NAN), bf16_of_f32(-0.0f)}, before[3];
  memcpy(before, dense, sizeof dense);
  scaled_round_to_odd(TYPE_F32, odd, 3, dense);
  assert_memory_equal(before, dense, sizeof dense);
}

// The largest of a row is rounded down to 224 scales: another scale the second time, the same numbers.
static void test_the_same_numbers_with_another_scale(void **state) {
  (void)state;
  const PlanState one = {.role = STATE_PARAMETER, .type = TYPE_E4M3, .axis_count = 1, .axis = {"in"}, .size = {4}};
  const PlanState scales = {.role = STATE_COPY, .type = TYPE_F32};
  const float numbers[] = {228, -1, 0x1p-9f, 0};
  uint16_t dense[4], back[4], twice[4];
  uint8_t codes[4];
  float scale, again;
  for (int i = 0; i < 4; i++) {
    dense[i] = bf16_of_f32(numbers[i]);
  }
  scaled_encode(&one, &scales, dense, codes, &scale);
  scaled_decode(&one, &scales, codes, &scale, back);
  scaled_encode(&one, &scales, back, codes, &again);
  scaled_decode(&one, &scales, codes, &again, twice);
  assert_true(scale == 1 && again == 0.5f && f32_of_bf16(back[0]) == 224);
  assert_memory_equal(back, twice, sizeof back);
}

static void test_what_is_not_finite(void **state) {
  (void)state;
  const PlanState one = {.role = STATE_PARAMETER, .type = TYPE_E4M3, .axis_count = 1, .axis = {"in"}, .size = {4}};
  const PlanState scales = {.role = STATE_COPY, .type = TYPE_F32};
  const uint16_t dense[] = {bf16_of_f32(INFINITY), bf16_of_f32(1), bf16_of_f32(NAN), 0};
  uint16_t back[4];
  uint8_t codes[4];
  float scale;
  scaled_encode(&one, &scales, dense, codes, &scale);
  scaled_decode(&one, &scales, codes, &scale, back);
  assert_true(isnan(f32_of_bf16(back[0])) && isnan(f32_of_bf16(back[2])));
  assert_true(f32_of_bf16(back[1]) == 1 && back[3] == 0);
  const uint16_t zeros[4] = {0};
  scaled_encode(&one, &scales, zeros, codes, &scale);
  scaled_decode(&one, &scales, codes, &scale, back);
  assert_memory_equal(zeros, back, sizeof back);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_rounded_once), cmocka_unit_test(test_numbers_of_32_bits_are_rounded_once),
      cmocka_unit_test(test_the_same_numbers_with_another_scale), cmocka_unit_test(test_what_is_not_finite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
