// expression.c: the instructions of a kernel as expressions, and the functions of the device that they use.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

// R is the real type. Sine and cosine reduce in double, so that large angles need no table in local memory.
static const char prelude_f32[] =
    "typedef float R;\n"
    "#define R_INFINITY bits_float(0x7f800000u)\n"
    "DEVICE float larger(float a, float b) { return larger_f32(a, b); }\n"
    "DEVICE float smaller(float a, float b) { return smaller_f32(a, b); }\n"
    "DEVICE float shuffle(float x, int with) { return shuffle_f32(x, with); }\n"
    "DEVICE float real_floor(float x) { return floorf(x); }\n"
    "DEVICE float power_of_two(float x) {\n"
    "  int exponent;\n"
    "  const float part = fabsf(frexpf(x, &exponent));\n"
    "  return !(x - x == 0) || part <= 0.5f ? x : copysignf(ldexpf((float)1, exponent), x);\n"
    "}\n"
    "DEVICE float real_abs(float x) { return fabsf(x); }\n"
    "DEVICE float real_log(float x) { return logf(x); }\n"
    "DEVICE float real_sqrt(float x) { return sqrtf(x); }\n"
    "DEVICE float real_rsqrt(float x) { return rsqrtf(x); }\n"
    "DEVICE float real_pow(float x, float y) { return powf(x, y); }\n"
    "DEVICE float real_erf(float x) { return erff(x); }\n"
    "DEVICE float sine_turned(float x, unsigned turns) {\n"
    "  const double n = rint((double)x * 0.636619772367581343);\n"
    "  const double d = ((double)x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;\n"
    "  const unsigned quadrant = (unsigned)(long long)n + turns;\n"
    "  const float r = (float)d, z = r * r;\n"
    "  const float s = (((-1.95152831e-4f * z + 8.33216076e-3f) * z - 1.66666546e-1f) * z) * r + r;\n"
    "  const float c = (((2.44331570e-5f * z - 1.38873163e-3f) * z + 4.16666457e-2f) * z - 0.5f) * z + 1.0f;\n"
    "  const float y = (quadrant & 1u) ? c : s;\n"
    "  return x - x == 0.0f ? ((quadrant & 2u) ? -y : y) : x - x;\n"
    "}\n"
    "DEVICE float real_sin(float x) { return sine_turned(x, 0u); }\n"
    "DEVICE float real_cos(float x) { return sine_turned(x, 1u); }\n";

// Where all big operands and results are f32: errors of 2 ulp.
static const char prelude_exact[] =
    "DEVICE float real_exp(float x) { return expf(x); }\n"
    "DEVICE float real_sigmoid(float x) { return reciprocal_fast(1.0f + expf(-x)); }\n"
    "DEVICE float real_tanh(float x) {\n"
    "  const float size = fabsf(x), z = x * x;\n"
    "  float p = 2.07102419e-3f;\n"
    "  p = p * z - 8.09918184e-3f;\n"
    "  p = p * z + 2.16693637e-2f;\n"
    "  p = p * z - 5.39411296e-2f;\n"
    "  p = p * z + 1.33331625e-1f;\n"
    "  p = p * z - 3.33333297e-1f;\n"
    "  const float large = 1.0f - 2.0f * reciprocal_fast(expf(2.0f * size) + 1.0f);\n"
    "  return copysignf(size < 0.625f ? p * z * size + size : large, x);\n"
    "}\n";

// Where some are bf16 or f16: relative errors below 1e-5, a hundredth of what rounding to those does, in a third of the
// instructions.
static const char prelude_fast[] =
    "DEVICE float real_exp(float x) { return exp2_fast(1.44269504f * x); }\n"
    "DEVICE float real_sigmoid(float x) { return reciprocal_fast(1.0f + exp2_fast(-1.44269504f * x)); }\n"
    "DEVICE float real_tanh(float x) {\n"
    "  const float large = 1.0f - 2.0f * reciprocal_fast(1.0f + exp2_fast(2.88539008f * x));\n"
    "  return fabsf(x) < 0.03f ? x - x * x * x * 0.333333333f : large;\n"
    "}\n"
    "DEVICE float real_tanh_beside_one(float x) {\n"
    "  return 1.0f - 2.0f * reciprocal_fast(1.0f + exp2_fast(2.88539008f * x));\n"
    "}\n";

static const char prelude_f64[] =
    "typedef double R;\n"
    "#define R_INFINITY bits_double(0x7ff0000000000000ull)\n"
    "DEVICE double larger(double a, double b) { return a > b || a != a ? a : b; }\n"
    "DEVICE double smaller(double a, double b) { return a < b || a != a ? a : b; }\n"
    "DEVICE double shuffle(double x, int with) { return shuffle_f64(x, with); }\n"
    "DEVICE double real_floor(double x) { return floor(x); }\n"
    "DEVICE double power_of_two(double x) {\n"
    "  int exponent;\n"
    "  const double part = fabs(frexp(x, &exponent));\n"
    "  return !(x - x == 0) || part <= 0.5 ? x : copysign(ldexp((double)1, exponent), x);\n"
    "}\n"
    "DEVICE double real_abs(double x) { return fabs(x); }\n"
    "DEVICE double real_exp(double x) { return exp(x); }\n"
    "DEVICE double real_log(double x) { return log(x); }\n"
    "DEVICE double real_sqrt(double x) { return sqrt(x); }\n"
    "DEVICE double real_rsqrt(double x) { return 1.0 / sqrt(x); }\n"
    "DEVICE double real_pow(double x, double y) { return pow(x, y); }\n"
    "DEVICE double real_erf(double x) { return erf(x); }\n"
    "DEVICE double real_sigmoid(double x) {\n"
    "  const double e = exp(-fabs(x));\n"
    "  return (x < 0.0 ? e : 1.0) / (1.0 + e);\n"
    "}\n"
    "DEVICE double real_tanh(double x) { return tanh(x); }\n"
    "DEVICE double real_sin(double x) { return sin(x); }\n"
    "DEVICE double real_cos(double x) { return cos(x); }\n";

static const char prelude_common[] =
    "DEVICE R fold_sum(R a, R b) { return a + b; }\n"
    "DEVICE double fold_wide(double a, double b) { return a + b; }\n"
    "DEVICE R fold_max(R a, R b) { return larger(a, b); }\n"
    "DEVICE R fold_min(R a, R b) { return smaller(a, b); }\n"
    "DEVICE int int_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }\n"
    "DEVICE int int_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }\n"
    "DEVICE int int_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }\n"
    "DEVICE int int_div(int a, int b) {\n"
    "  if (b == 0) return 0;\n"
    "  if (b == -1) return int_sub(0, a);\n"
    "  const int q = a / b;\n"
    "  return q - (a - q * b != 0 && (a < 0) != (b < 0));\n"
    "}\n"
    "DEVICE int int_mod(int a, int b) { return b == 0 ? 0 : int_sub(a, int_mul(int_div(a, b), b)); }\n"
    "DEVICE int real_to_int(R x) {\n"
    "  const R down = real_floor(x);\n"
    "  if (!(down >= (R)-2147483648.0)) return down == down ? -2147483647 - 1 : 0;\n"
    "  return down < (R)2147483648.0 ? (int)down : 2147483647;\n"
    "}\n";

// Philox-4x32-10; kernels/cpu/random.h says what is made of its words.
static const char prelude_random[] =
    "DEVICE void philox(unsigned *c, unsigned long long block, unsigned step, unsigned long long key) {\n"
    "  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);\n"
    "  c[0] = (unsigned)block;\n"
    "  c[1] = (unsigned)(block >> 32);\n"
    "  c[2] = step;\n"
    "  c[3] = 0u;\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 10; i++) {\n"
    "    const unsigned h0 = multiply_high(c[0], 0xD2511F53u), l0 = c[0] * 0xD2511F53u;\n"
    "    const unsigned h1 = multiply_high(c[2], 0xCD9E8D57u), l1 = c[2] * 0xCD9E8D57u;\n"
    "    c[0] = h1 ^ c[1] ^ k0;\n"
    "    c[1] = l1;\n"
    "    c[2] = h0 ^ c[3] ^ k1;\n"
    "    c[3] = l0;\n"
    "    k0 += 0x9E3779B9u;\n"
    "    k1 += 0xBB67AE85u;\n"
    "  }\n"
    "}\n"
    "DEVICE unsigned random_word(unsigned long long key, unsigned step, unsigned long long index) {\n"
    "  unsigned c[4];\n"
    "  philox(c, index >> 2, step, key);\n"
    "  const unsigned low = (index & 1u) ? c[1] : c[0], high = (index & 1u) ? c[3] : c[2];\n"
    "  return (index & 2u) ? high : low;\n"
    "}\n"
    "DEVICE R uniform_of(unsigned word) { return (R)(word >> 8) * (R)5.9604644775390625e-8; }\n"
    "DEVICE R random_normal(unsigned long long key, unsigned step, unsigned long long index) {\n"
    "  unsigned c[4];\n"
    "  philox(c, index >> 2, step, key);\n"
    "  const unsigned u = (index & 2u) ? c[2] : c[0], v = (index & 2u) ? c[3] : c[1];\n"
    "  const double radius = sqrt(-2.0 * log(((double)u + 1.0) * 2.3283064365386963e-10));\n"
    "  const double angle = (double)v * 4.6566128730773926e-10;\n"
    "  return (R)(radius * ((index & 1u) ? sinpi(angle) : cospi(angle)));\n"
    "}\n"
    // The words of `count` indices in a row: one block more than they fill, for those that begin inside one.
    "DEVICE void random_run(unsigned *w, int count, unsigned long long key, unsigned step, unsigned long long index) "
    "{\n"
    "  unsigned c[20];\n"
    "  const int skip = (int)(index & 3u);\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i += 4) philox(c + i, (index >> 2) + (unsigned)(i >> 2), step, key);\n"
    "  if (skip) philox(c + count, (index >> 2) + (unsigned)(count >> 2), step, key);\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i++) {\n"
    "    w[i] = skip == 0 ? c[i] : skip == 1 ? c[i + 1] : skip == 2 ? c[i + 2] : c[i + 3];\n"
    "  }\n"
    "}\n";

static bool is_low(const Kernel *kernel) {
  for (int p = 0; p < kernel->port_count; p++) {
    if (kernel->port[p].type == TYPE_BF16 || kernel->port[p].type == TYPE_F16) {
      return kernel->real == TYPE_F32;
    }
  }
  return false;
}

void expression_prelude(Generator *g) {
  bool random = false;
  for (int i = 0; i < g->kernel->code_count; i++) {
    random |= g->kernel->code[i].op == KERNEL_UNIFORM || g->kernel->code[i].op == KERNEL_NORMAL;
  }
  if (g->kernel->real == TYPE_F32) {
    cuda_text(&g->text, "%s%s", prelude_f32, g->low || is_low(g->kernel) ? prelude_fast : prelude_exact);
  } else {
    cuda_text(&g->text, "%s", prelude_f64);
  }
  cuda_text(&g->text, "%s%s", prelude_common, random ? prelude_random : "");
  cuda_text(&g->text, "typedef unsigned long long Long;\ntypedef %s Index;\n", g->wide ? "Long" : "unsigned");
}

const char *value_type(bool integer) {
  return integer ? "int" : "R";
}

const char *fold_function(KernelOp op) {
  const bool largest = op == KERNEL_ROW_MAX || op == KERNEL_COLUMN_MAX || op == KERNEL_TOTAL_MAX;
  return op_is_sum(op) ? "fold_sum" : largest ? "fold_max" : "fold_min";
}

const char *fold_identity(KernelOp op) {
  const bool largest = op == KERNEL_ROW_MAX || op == KERNEL_COLUMN_MAX || op == KERNEL_TOTAL_MAX;
  return op_is_sum(op) ? "(R)0" : largest ? "-R_INFINITY" : "R_INFINITY";
}

// With A, B and C in place of the operands.
static const char *const patterns[KERNEL_OP_COUNT] = {
    [KERNEL_ADD] = "A + B",
    [KERNEL_SUB] = "A - B",
    [KERNEL_MUL] = "A * B",
    [KERNEL_DIV] = "A / B",
    [KERNEL_MAX] = "larger(A, B)",
    [KERNEL_MIN] = "smaller(A, B)",
    [KERNEL_POW] = "real_pow(A, B)",
    [KERNEL_NEG] = "-A",
    [KERNEL_ABS] = "real_abs(A)",
    [KERNEL_SIGN] = "A > (R)0 ? (R)1 : A < (R)0 ? (R)-1 : A",
    [KERNEL_FLOOR] = "real_floor(A)",
    [KERNEL_POWER_OF_TWO] = "power_of_two(A)",
    [KERNEL_EXP] = "real_exp(A)",
    [KERNEL_LOG] = "real_log(A)",
    [KERNEL_SQRT] = "real_sqrt(A)",
    [KERNEL_RSQRT] = "real_rsqrt(A)",
    [KERNEL_RECIPROCAL] = "(R)1 / A",
    [KERNEL_SIN] = "real_sin(A)",
    [KERNEL_COS] = "real_cos(A)",
    [KERNEL_TANH] = "real_tanh(A)",
    [KERNEL_SIGMOID] = "real_sigmoid(A)",
    [KERNEL_ERF] = "real_erf(A)",
    [KERNEL_IS_FINITE] = "A - A == (R)0",
    [KERNEL_LESS] = "A < B",
    [KERNEL_LESS_EQUAL] = "A <= B",
    [KERNEL_EQUAL] = "A == B",
    [KERNEL_WHERE] = "A ? B : C",
    [KERNEL_INT_ADD] = "int_add(A, B)",
    [KERNEL_INT_SUB] = "int_sub(A, B)",
    [KERNEL_INT_MUL] = "int_mul(A, B)",
    [KERNEL_INT_DIV] = "int_div(A, B)",
    [KERNEL_INT_MOD] = "int_mod(A, B)",
    [KERNEL_INT_MAX] = "A > B ? A : B",
    [KERNEL_INT_MIN] = "A < B ? A : B",
    [KERNEL_INT_LESS] = "A < B",
    [KERNEL_INT_LESS_EQUAL] = "A <= B",
    [KERNEL_INT_EQUAL] = "A == B",
    [KERNEL_INT_WHERE] = "A ? B : C",
    [KERNEL_AND] = "A != 0 && B != 0",
    [KERNEL_OR] = "A != 0 || B != 0",
    [KERNEL_NOT] = "A == 0",
    [KERNEL_TO_REAL] = "(R)A",
    [KERNEL_TO_INT] = "real_to_int(A)",
};

const char *random_key_text(const Generator *g, int at) {
  return g->key_slot[at] ? arena_format(g->arena, "s.at[%d]", g->key_slot[at])
                         : arena_format(g->arena, "0x%016" PRIx64 "ull", (uint64_t)g->kernel->code[at].constant);
}

static bool is_one(const Kernel *kernel, int at) {
  return kernel->code[at].op == KERNEL_CONST && kernel->code[at].number == 1.0;
}

// A value all of whose uses add it to one or take it from one, perhaps after squaring: there its absolute error counts.
static bool is_beside_one(const Kernel *kernel, int at, bool squares) {
  for (int i = at + 1; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3], uses = 0;
    kernel_operands(code, operand);
    for (int k = 0; k < kernel_op_operands(code->op); k++) {
      uses += operand[k] == at;
    }
    const bool square = squares && uses == 2 && code->op == KERNEL_MUL && is_beside_one(kernel, i, false);
    const bool sum = uses == 1 && ((code->op == KERNEL_ADD && is_one(kernel, code->a == at ? code->b : code->a)) ||
                                   (code->op == KERNEL_SUB && code->b == at && is_one(kernel, code->a)));
    if (uses > 0 && !square && !sum) {
      return false;
    }
  }
  return true;
}

static const char *pattern_of(const Generator *g, int at) {
  const Kernel *kernel = g->kernel;
  const KernelOp op = kernel->code[at].op;
  return op == KERNEL_TANH && (g->low || is_low(kernel)) && is_beside_one(kernel, at, true) ? "real_tanh_beside_one(A)"
                                                                                            : patterns[op];
}

void expression_emit(Generator *g, int at, const char *index) {
  const KernelInstruction *code = &g->kernel->code[at];
  CudaText *text = &g->text;
  int operand[3];
  kernel_operands(code, operand);
  cuda_text(text, "const %s v%d = ", value_type(code->integer), at);
  switch (code->op) {
    case KERNEL_CONST:
      cuda_literal(text, g->kernel->real, code->number);
      break;
    case KERNEL_INTEGER:
      cuda_text(text, "(int)0x%08" PRIx32 "u", (uint32_t)(uint64_t)code->constant);
      break;
    case KERNEL_IOTA:
      cuda_text(text, "(int)(0x%08" PRIx32 "u + (unsigned)(%s))", (uint32_t)(uint64_t)code->constant, index);
      break;
    case KERNEL_UNIFORM:
      cuda_text(text, "uniform_of(random_word(%s, (unsigned)v%d, %s))", random_key_text(g, at), code->a, index);
      break;
    case KERNEL_NORMAL:
      cuda_text(text, "random_normal(%s, (unsigned)v%d, %s)", random_key_text(g, at), code->a, index);
      break;
    default:
      for (const char *c = pattern_of(g, at); *c; c++) {
        const int which = *c - 'A';
        if (which >= 0 && which <= 2 && (c[1] < 'a' || c[1] > 'z')) {
          cuda_text(text, "v%d", operand[which]);
        } else {
          cuda_text(text, "%c", *c);
        }
      }
  }
  cuda_text(text, ";\n");
}
