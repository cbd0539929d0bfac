// kernel_test.c: kernels as text, their equality and hash, and what kernel_verify refuses.
#include "tests/parts_cases.h"

typedef struct {
  Kernel kernel;
  KernelPort port[6];
  KernelInstruction code[12];
} Sample;

// y = x * rsqrt(mean of squares) * w over [4, 3 | 5]; the column sums of x; the total of the row sums.
static void sample_fill(Sample *s) {
  memset(s, 0, sizeof *s);
  s->kernel = (Kernel){.dim_count = 3, .inner_count = 1, .row_reductions = true, .size = {4, 3, 5}, .real = TYPE_F32};
  s->kernel.port = s->port;
  s->kernel.code = s->code;
  const KernelPort ports[] = {
      {.kind = PORT_INPUT, .type = TYPE_F32, .stride = {15, 5, 1}},
      {.kind = PORT_INPUT, .type = TYPE_BF16, .stride = {0, 0, 1}},
      {.kind = PORT_OUTPUT, .type = TYPE_F32, .stride = {15, 5, 1}},
      {.kind = PORT_OUTPUT, .type = TYPE_F32, .accumulate = true, .stride = {0, 0, 1}},
      {.kind = PORT_OUTPUT, .type = TYPE_F32},
      {.kind = PORT_STRIDES, .type = TYPE_INDEX, .stride = {3, 1, 0}},
  };
  const KernelInstruction code[] = {
      {.op = KERNEL_LOAD, .level = LEVEL_FULL, .a = -1, .b = -1, .c = -1, .port = 0},
      {.op = KERNEL_LOAD, .level = LEVEL_COLUMN, .a = -1, .b = -1, .c = -1, .port = 1},
      {.op = KERNEL_CONST, .level = LEVEL_SCALAR, .a = -1, .b = -1, .c = -1, .port = -1, .number = 0.2},
      {.op = KERNEL_MUL, .level = LEVEL_FULL, .a = 0, .b = 0, .c = -1, .port = -1},
      {.op = KERNEL_ROW_SUM, .level = LEVEL_ROW, .a = 3, .b = -1, .c = -1, .port = -1},
      {.op = KERNEL_MUL, .level = LEVEL_ROW, .a = 4, .b = 2, .c = -1, .port = -1},
      {.op = KERNEL_IOTA, .level = LEVEL_ROW, .integer = true, .a = -1, .b = -1, .c = -1, .port = 5, .constant = 7},
      {.op = KERNEL_MUL, .level = LEVEL_FULL, .a = 0, .b = 5, .c = -1, .port = -1},
      {.op = KERNEL_MUL, .level = LEVEL_FULL, .a = 7, .b = 1, .c = -1, .port = -1},
      {.op = KERNEL_STORE, .level = LEVEL_FULL, .a = 8, .b = -1, .c = -1, .port = 2},
      {.op = KERNEL_COLUMN_SUM, .level = LEVEL_COLUMN, .a = 0, .b = -1, .c = -1, .port = 3},
      {.op = KERNEL_TOTAL_SUM, .level = LEVEL_SCALAR, .a = 4, .b = -1, .c = -1, .port = 4},
  };
  memcpy(s->port, ports, sizeof ports);
  memcpy(s->code, code, sizeof code);
  s->kernel.port_count = 6;
  s->kernel.code_count = 12;
}

static void prints(void **state) {
  (void)state;
  Sample s;
  sample_fill(&s);
  Buffer text = {0};
  kernel_print(&s.kernel, &text);
  assert_string_equal(text.text,
                      "kernel f32 [4, 3 | 5] rows\n"
                      "  port 0 input f32 [15, 5, 1]\n"
                      "  port 1 input bf16 [0, 0, 1]\n"
                      "  port 2 output f32 [15, 5, 1]\n"
                      "  port 3 output f32 [0, 0, 1] accumulate\n"
                      "  port 4 output f32 [0, 0, 0]\n"
                      "  port 5 strides index [3, 1, 0]\n"
                      "  %0 = load port 0 : full real\n"
                      "  %1 = load port 1 : column real\n"
                      "  %2 = const 0.20000000000000001 : scalar real\n"
                      "  %3 = mul %0 %0 : full real\n"
                      "  %4 = row_sum %3 : row real\n"
                      "  %5 = mul %4 %2 : row real\n"
                      "  %6 = iota 7 port 5 : row int\n"
                      "  %7 = mul %0 %5 : full real\n"
                      "  %8 = mul %7 %1 : full real\n"
                      "  store %8 port 2 : full real\n"
                      "  column_sum %0 port 3 : column real\n"
                      "  total_sum %4 port 4 : scalar real\n");
  buffer_free(&text);
}

typedef struct {
  void (*change)(Sample *s);
  const char *why;  // NULL: still legal, but another kernel
} Change;

#define CHANGE(name, statement) \
  static void name(Sample *s) { \
    statement;                  \
  }

CHANGE(other_size, s->kernel.size[0] = 8)
CHANGE(other_type, s->port[0].type = TYPE_F64)
CHANGE(other_stride, s->port[0].stride[0] = 30)
CHANGE(other_real, s->kernel.real = TYPE_F64)
CHANGE(other_accumulate, s->port[3].accumulate = false)
CHANGE(other_op, s->code[3].op = KERNEL_ADD)
CHANGE(other_operand, s->code[7].b = 4)
CHANGE(other_number, s->code[2].number = 0.3)
CHANGE(other_constant, s->code[6].constant = 8)
CHANGE(other_level, s->code[6].level = LEVEL_FULL)
CHANGE(fewer, s->kernel.code_count = 11)
CHANGE(dims_negative, s->kernel.dim_count = -1)
CHANGE(dims_many, s->kernel.dim_count = 9)
CHANGE(inner_many, s->kernel.inner_count = 4)
CHANGE(size_zero, s->kernel.size[1] = 0)
CHANGE(size_huge, s->kernel.size[1] = (int64_t)1 << 60)
CHANGE(real_int, s->kernel.real = TYPE_INT)
CHANGE(type_real, s->port[0].type = TYPE_REAL)
CHANGE(type_none, s->port[0].type = (ElementType)99)
CHANGE(input_accumulates, s->port[0].accumulate = true)
CHANGE(ports_many, s->kernel.port_count = KERNEL_MAX_PORTS + 1)
CHANGE(code_many, s->kernel.code_count = KERNEL_MAX_CODE + 1)
CHANGE(op_none, s->code[3].op = KERNEL_OP_COUNT)
CHANGE(level_none, s->code[3].level = (KernelLevel)7)
CHANGE(class_wrong, s->code[3].integer = true)
CHANGE(operand_later, s->code[3].a = 3)
CHANGE(operand_missing, s->code[3].b = -1)
CHANGE(operand_extra, s->code[3].c = 0)
CHANGE(operand_output, s->code[10].a = 9)
CHANGE(operand_class, s->code[7].a = 6)
CHANGE(level_dropped, s->code[7].level = LEVEL_ROW)
CHANGE(port_none, s->code[0].port = 6)
CHANGE(port_negative, s->code[0].port = -1)
CHANGE(port_unwanted, s->code[3].port = 0)
CHANGE(port_kind, s->code[0].port = 2)
CHANGE(port_class, s->port[0].type = TYPE_INDEX)
CHANGE(port_wide, s->port[1].stride[0] = 5)
CHANGE(rows_unsaid, s->kernel.row_reductions = false)
CHANGE(reduction_level, s->code[4].level = LEVEL_FULL)
CHANGE(store_level, s->code[9].level = LEVEL_ROW)
CHANGE(column_level, s->code[10].level = LEVEL_FULL)
CHANGE(total_level, s->code[11].level = LEVEL_ROW)
CHANGE(const_level, s->code[2].level = LEVEL_ROW)
CHANGE(written_twice, s->code[10] = s->code[9])
CHANGE(positions_far, s->port[5].stride[0] = INT64_MAX / 2)
CHANGE(positions_sum, s->port[5].stride[0] = s->port[5].stride[1] = INT64_C(1) << 55)
CHANGE(begins_far, s->code[6].constant = INT64_MAX)
CHANGE(begins_before, s->code[6].constant = INT64_MIN)
CHANGE(output_narrow, s->port[2].stride[1] = 0)

static const Change changes[] = {
    {other_size, NULL},
    {other_type, NULL},
    {other_stride, NULL},
    {other_real, NULL},
    {other_accumulate, NULL},
    {other_op, NULL},
    {other_operand, NULL},
    {other_number, NULL},
    {other_constant, NULL},
    {other_level, NULL},
    {fewer, NULL},
    {dims_negative, "a kernel has between 0 and 8 dims"},
    {dims_many, "a kernel has between 0 and 8 dims"},
    {inner_many, "the inner dims are more than the dims"},
    {size_zero, "the size of a dim is not positive, or the space is too large"},
    {size_huge, "the size of a dim is not positive, or the space is too large"},
    {real_int, "the real type of a kernel is f32 or f64"},
    {type_real, "the element type of a port was not chosen"},
    {type_none, "a port has no such kind or type"},
    {input_accumulates, "only an output accumulates"},
    {ports_many, "too many ports"},
    {code_many, "too many instructions"},
    {op_none, "there is no such operation or level"},
    {level_none, "there is no such operation or level"},
    {class_wrong, "an instruction has the wrong class"},
    {operand_later, "an operand is not the result of an earlier instruction"},
    {operand_missing, "an operand is not the result of an earlier instruction"},
    {operand_extra, "an operand that the operation does not take is not -1"},
    {operand_output, "an operand is an output, which has no result"},
    {operand_class, "an operand has the wrong class"},
    {level_dropped, "an operand varies over more than the result"},
    {port_none, "there is no such port"},
    {port_negative, "there is no such port"},
    {port_unwanted, "the operation has no port"},
    {port_kind, "the port is of another kind than the operation"},
    {port_class, "the port's element type is of another class than the value"},
    {port_wide, "the port has a stride on a dim that its value does not vary over"},
    {rows_unsaid, "a row reduction in a kernel that says it has none"},
    {reduction_level, "a row reduction gives a row value"},
    {store_level, "the port has a stride on a dim that its value does not vary over"},
    {column_level, "a column reduction gives a column value"},
    {total_level, "a total is a scalar"},
    {const_level, "a constant is a scalar"},
    {written_twice, "two instructions write one port"},
    {positions_far, "positions are beyond what can be counted"},
    {positions_sum, "positions are beyond what can be counted"},
    {begins_far, "a position begins beyond what can be counted"},
    {begins_before, "a position begins beyond what can be counted"},
    {output_narrow, "an output has no stride on a dim that its value varies over"},
};

static void verifies(void **state) {
  (void)state;
  Sample s;
  sample_fill(&s);
  assert_null(kernel_verify(&s.kernel));
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    sample_fill(&s);
    changes[i].change(&s);
    const char *why = kernel_verify(&s.kernel);
    if (changes[i].why) {
      assert_non_null(why);
      assert_string_equal(why, changes[i].why);
    } else {
      assert_null(why);
    }
  }
}

static void spoil_parts(Kernel *kernel, int which) {
  switch (which) {
    case 0:
      kernel->parts = 7;  // of 48 rows
      break;
    case 1:
      kernel->parts = 0;
      break;
    case 2:
      kernel->port[3].kind = PORT_INPUT;
      break;
    case 3:
      kernel->port[3].type = TYPE_INT;
      break;
    case 4:
      kernel->port[3].stride[0] = 1;
      break;
    case 5:
      kernel->port[kernel->port_count++] = kernel->port[3];
      break;
    case 6:  // the sum of a row, of all rows alike
      kernel->port[4].stride[0] = 0;
      break;
    case 7:
      kernel->inner_count = 2;
      break;
    case 8:
      kernel->code[kernel->code_count - 2] =
          (KernelInstruction){.op = KERNEL_TOTAL_SUM, .level = LEVEL_SCALAR, .a = 4, .b = -1, .c = -1, .port = 4};
      kernel->port[4].stride[0] = 0;
      break;
    default:
      kernel->code[0].port = 3;
  }
}

static void verifies_parts(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Buffer text = {0};
  for (int which = 0; which < PARTS_CASES; which++) {
    assert_null(kernel_verify(parts_kernel(arena, (PartsCase)which, 40)));
  }
  kernel_print(parts_kernel(arena, PARTS_SUMS, 40), &text);
  assert_non_null(strstr(text.text, "kernel f32 [48 | 40] rows in 6 parts\n"));
  assert_non_null(strstr(text.text, "  port 3 chosen index [0, 0]\n"));
  for (int which = 0; which < 10; which++) {
    Kernel *kernel = parts_kernel(arena, PARTS_SUMS, 40);
    spoil_parts(kernel, which);
    if (!kernel_verify(kernel)) {
      fail_msg("case %d was not found", which);
    }
  }
  buffer_free(&text);
  arena_destroy(arena);
}

// Parts that are chosen are what they are without parts, and the others stay as they are.
static void leaves_parts_out(void **state) {
  (void)state;
  static const int64_t columns[] = {1, 40, 1000};
  for (int i = 0; i < 3 * PARTS_CASES; i++) {
    const PartsMade made = parts_make((PartsCase)(i % PARTS_CASES), columns[i / PARTS_CASES]);
    Kernel all = *made.kernel;
    char *got = bench_run_threads(made.bench);
    all.parts = 0;
    made.bench->kernel[0] = &all;
    char *whole = bench_run(made.bench, 1);
    for (int p = 0; p < all.port_count; p++) {
      const int64_t bytes = parts_elements(&all, p) * element_type_bytes(all.port[p].type);
      const int64_t used =
          all.port[p].stride[0] * all.size[0] / PARTS * PARTS_IN_USE * element_type_bytes(all.port[p].type);
      const char *at = got + made.place[p].offset;
      if (all.port[p].kind != PORT_OUTPUT) {
        continue;
      }
      assert_memory_equal(at, whole + made.place[p].offset, (size_t)used);
      assert_memory_equal(at + used, (char *)bench_at(made.bench, made.place[p]) + used, (size_t)(bytes - used));
      assert_true(memcmp(at, whole + made.place[p].offset, (size_t)bytes) != 0);
    }
    free(got);
    free(whole);
    bench_destroy(made.bench);
  }
}

static bool same_content(const Kernel *a, const Kernel *b) {
  Arena *arena = arena_create();
  KernelContent of_a = {0}, of_b = {0};
  kernel_content(a, arena, &of_a);
  kernel_content(b, arena, &of_b);
  bool same = of_a.count == of_b.count && memcmp(of_a.at, of_b.at, sizeof *of_a.at * (size_t)of_a.count) == 0;
  arena_destroy(arena);
  return same;
}

static void tells_kernels_apart(void **state) {
  (void)state;
  Sample a, b;
  sample_fill(&a);
  sample_fill(&b);
  b.port[0].stride[3] = 77;  // beyond the dims: not part of the content
  assert_true(same_content(&a.kernel, &b.kernel));
  for (size_t i = 0; i < sizeof changes / sizeof changes[0] && !changes[i].why; i++) {
    sample_fill(&b);
    changes[i].change(&b);
    assert_false(same_content(&a.kernel, &b.kernel));
  }
}

static void ops_have_names(void **state) {
  (void)state;
  assert_string_equal(kernel_op_name(KERNEL_LOAD), "load");
  assert_string_equal(kernel_op_name(KERNEL_TOTAL_MIN), "total_min");
  assert_int_equal(kernel_op_operands(KERNEL_WHERE), 3);
  assert_int_equal(kernel_op_operands(KERNEL_IOTA), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prints),
      cmocka_unit_test(verifies),
      cmocka_unit_test(verifies_parts),
      cmocka_unit_test(leaves_parts_out),
      cmocka_unit_test(tells_kernels_apart),
      cmocka_unit_test(ops_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
