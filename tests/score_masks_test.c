// score_masks_test.c: what is said of a block of scores holds for each score of it, for masks drawn at random; and the
// plain masks are told.
#include "compiler/plan/score_masks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 24, DOC_QUERY = SCORE_CAPTURED, DOC_KEY, LENGTH, PORTS, DRAWN = 20000 };

typedef struct {
  Kernel kernel;
  KernelPort port[PORTS];
  KernelInstruction code[KERNEL_MAX_CODE];
  int doc_query[SIDE], doc_key[SIDE], length;
} Text;

static void text_start(Text *t) {
  memset(t, 0, sizeof *t);
  t->kernel =
      (Kernel){.dim_count = SCORE_DIMS, .real = TYPE_F32, .port_count = PORTS, .port = t->port, .code = t->code};
  t->port[DOC_QUERY] = (KernelPort){.type = TYPE_INT, .stride = {0, 0, 0, 0, 1}};
  t->port[DOC_KEY] = (KernelPort){.type = TYPE_INT, .stride = {0, 0, 0, 1, 0}};
  t->port[LENGTH] = (KernelPort){.type = TYPE_INT};
}

static int code(Text *t, KernelOp op, bool integer, int a, int b, int c) {
  const int at = t->kernel.code_count++;
  t->code[at] =
      (KernelInstruction){.op = op, .integer = integer, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c, .port = -1};
  return at;
}

static int port(Text *t, KernelOp op, int number, bool integer) {
  const int at = code(t, op, integer, -1, -1, -1);
  t->code[at].port = (int16_t)number;
  return at;
}

static int number(Text *t, double value) {
  const int at = code(t, KERNEL_CONST, false, -1, -1, -1);
  t->code[at].number = value;
  return at;
}

static int integer(Text *t, int64_t value) {
  const int at = code(t, KERNEL_INTEGER, true, -1, -1, -1);
  t->code[at].constant = value;
  return at;
}

static int op2(Text *t, KernelOp op, int a, int b) {
  return code(t, op, true, a, b, -1);
}

static int floor_of(int a, int b) {
  return b == 0 ? 0 : (int)floor((double)a / b);
}

// The score of a query and a key; opened: masks let everything through.
static double score(const Text *t, const ScoreMasks *masks, int query, int key, bool opened) {
  double value[KERNEL_MAX_CODE];
  for (int i = 0; i < t->kernel.code_count; i++) {
    const KernelInstruction *c = &t->code[i];
    const double a = c->a >= 0 ? value[c->a] : 0, b = c->b >= 0 ? value[c->b] : 0, e = c->c >= 0 ? value[c->c] : 0;
    switch (c->op) {
      case KERNEL_LOAD:
        value[i] = c->port == DOC_QUERY ? t->doc_query[query]
                   : c->port == DOC_KEY ? t->doc_key[key]
                   : c->port == LENGTH  ? t->length
                                        : 1.5 + query - key;
        break;
      case KERNEL_IOTA:
        value[i] = c->port == SCORE_QUERY ? query : key;
        break;
      case KERNEL_CONST:
        value[i] = c->number;
        break;
      case KERNEL_INTEGER:
        value[i] = (double)c->constant;
        break;
      case KERNEL_MUL:
        value[i] = a * b;
        break;
      case KERNEL_ADD:
      case KERNEL_INT_ADD:
        value[i] = a + b;
        break;
      case KERNEL_INT_SUB:
        value[i] = a - b;
        break;
      case KERNEL_INT_MUL:
        value[i] = a * b;
        break;
      case KERNEL_INT_DIV:
        value[i] = floor_of((int)a, (int)b);
        break;
      case KERNEL_INT_MOD:
        value[i] = a - b * floor_of((int)a, (int)b);
        break;
      case KERNEL_INT_MAX:
      case KERNEL_MAX:
        value[i] = fmax(a, b);
        break;
      case KERNEL_INT_MIN:
      case KERNEL_MIN:
        value[i] = fmin(a, b);
        break;
      case KERNEL_INT_LESS:
        value[i] = a < b;
        break;
      case KERNEL_INT_LESS_EQUAL:
        value[i] = a <= b;
        break;
      case KERNEL_INT_EQUAL:
        value[i] = a == b;
        break;
      case KERNEL_AND:
        value[i] = a != 0 && b != 0;
        break;
      case KERNEL_OR:
        value[i] = a != 0 || b != 0;
        break;
      case KERNEL_NOT:
        value[i] = a == 0;
        break;
      case KERNEL_WHERE:
        value[i] = opened && masks->open[i] ? (masks->open[i] == 1 ? b : e) : a != 0 ? b : e;
        break;
      case KERNEL_INT_WHERE:
        value[i] = a != 0 ? b : e;
        break;
      case KERNEL_STORE:
        return a;
      default:
        fail_msg("an operation without an oracle");
    }
  }
  return 0;
}

static ScoreBlock block_of(const Text *t, const ScoreMasks *masks, int query, int queries, int key, int keys) {
  ScoreBlock block = {{query, query + queries - 1}, {key, key + keys - 1}, {{0, 0}}};
  for (int i = 0; i < masks->ranged_count; i++) {
    const int p = masks->ranged[i];
    const int *from = p == DOC_QUERY ? t->doc_query + query : p == DOC_KEY ? t->doc_key + key : &t->length;
    const int count = p == DOC_QUERY ? queries : p == DOC_KEY ? keys : 1;
    ScoreRange *range = &block.captured[i];
    *range = (ScoreRange){from[0], from[0]};
    for (int k = 1; k < count; k++) {
      range->low = from[k] < range->low ? from[k] : range->low;
      range->high = from[k] > range->high ? from[k] : range->high;
    }
  }
  return block;
}

static ScoresKnown check_block(const Text *t, const ScoreMasks *masks, int query, int queries, int key, int keys) {
  const ScoreBlock block = block_of(t, masks, query, queries, key, keys);
  const ScoresKnown known = score_block(&t->kernel, masks, &block);
  for (int q = query; q < query + queries; q++) {
    for (int k = key; k < key + keys; k++) {
      const double made = score(t, masks, q, k, false);
      assert_true(known != SCORES_HIDDEN || made == -INFINITY);
      assert_true(known != SCORES_WHOLE || made == score(t, masks, q, k, true));
    }
  }
  return known;
}

// --- drawn masks ---

static uint64_t draw_state = 5;

static int draw(int most) {
  draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
  return (int)(draw_state >> 33) % most;
}

static int draw_integer(Text *t, int depth);

static int draw_condition(Text *t, int depth) {
  static const KernelOp compare[] = {KERNEL_INT_LESS, KERNEL_INT_LESS_EQUAL, KERNEL_INT_EQUAL};
  const int which = depth > 0 ? draw(6) : 0;
  if (which >= 3) {
    const int a = draw_condition(t, depth - 1);
    return which == 5 ? code(t, KERNEL_NOT, true, a, -1, -1)
                      : op2(t, which == 3 ? KERNEL_AND : KERNEL_OR, a, draw_condition(t, depth - 1));
  }
  const int a = draw_integer(t, 2);
  return op2(t, compare[draw(3)], a, draw_integer(t, 2));
}

static int draw_integer(Text *t, int depth) {
  static const KernelOp ops[] = {KERNEL_INT_ADD, KERNEL_INT_SUB, KERNEL_INT_MUL, KERNEL_INT_DIV,
                                 KERNEL_INT_MOD, KERNEL_INT_MAX, KERNEL_INT_MIN};
  if (depth > 0 && draw(3) == 0) {
    const int a = draw_integer(t, depth - 1);
    return op2(t, ops[draw(7)], a, draw(2) ? integer(t, draw(9) - 2) : draw_integer(t, depth - 1));
  }
  if (depth > 0 && draw(8) == 0) {
    const int condition = draw_condition(t, 0), a = draw_integer(t, 0);
    return code(t, KERNEL_INT_WHERE, true, condition, a, draw_integer(t, 0));
  }
  switch (draw(6)) {
    case 0:
      return port(t, KERNEL_LOAD, DOC_QUERY, true);
    case 1:
      return port(t, KERNEL_LOAD, DOC_KEY, true);
    case 2:
      return port(t, KERNEL_LOAD, LENGTH, true);
    case 3:
      return integer(t, draw(SIDE));
    default:
      return port(t, KERNEL_IOTA, draw(2) ? SCORE_QUERY : SCORE_KEY, true);
  }
}

static void text_draw(Text *t) {
  text_start(t);
  int made = port(t, KERNEL_LOAD, SCORE_DOT, false);
  for (int masks = 1 + draw(2); masks > 0; masks--) {
    const int condition = draw_condition(t, 2), hidden = number(t, draw(8) ? -INFINITY : 0);
    const bool added = draw(3) == 0, turned = draw(2) == 0;
    const int through = added ? number(t, 0.25) : made;
    const int chosen = code(t, KERNEL_WHERE, false, condition, turned ? hidden : through, turned ? through : hidden);
    made = added ? code(t, KERNEL_ADD, false, made, chosen, -1) : chosen;
    made = draw(3) ? made : code(t, KERNEL_MUL, false, number(t, 0.5 + draw(2)), made, -1);
  }
  code(t, KERNEL_STORE, false, made, -1, -1);
  for (int i = 0; i < SIDE; i++) {
    t->doc_query[i] = draw(3) ? i / 6 : draw(5);
    t->doc_key[i] = draw(3) ? i / 6 : draw(5);
  }
  t->length = draw(SIDE);
}

static bool check_only(const Text *t, const ScoreMasks *masks) {
  bool part[KERNEL_MAX_CODE];
  double factor;
  if (!score_masks_only(&t->kernel, masks, part, &factor)) {
    return false;
  }
  for (int q = 0; q < SIDE; q++) {
    for (int k = 0; k < SIDE; k++) {
      const double made = score(t, masks, q, k, false);
      assert_true(made == -INFINITY || made == factor * (1.5 + q - k));
    }
  }
  return true;
}

static void drawn_masks_are_told_right(void **state) {
  int told[3] = {0}, only = 0;
  (void)state;
  for (int i = 0; i < DRAWN; i++) {
    Text t;
    ScoreMasks masks;
    text_draw(&t);
    score_masks(&t.kernel, &masks);
    only += check_only(&t, &masks);
    for (int b = 0; b < 4; b++) {
      const int query = draw(SIDE), key = draw(SIDE);
      told[check_block(&t, &masks, query, 1 + draw(SIDE - query), key, 1 + draw(SIDE - key))]++;
    }
  }
  for (int i = 0; i < 3; i++) {
    assert_true(told[i] > DRAWN / 10);
  }
  assert_true(only > DRAWN / 10);
}

// --- plain masks ---

typedef enum { CAUSAL, DOCUMENTS, PREFIX, PADDED, BLOCKS } Plain;

static void plain(Text *t, Plain which) {
  text_start(t);
  const int dot = port(t, KERNEL_LOAD, SCORE_DOT, false);
  const int query = port(t, KERNEL_IOTA, SCORE_QUERY, true), key = port(t, KERNEL_IOTA, SCORE_KEY, true);
  int sees = op2(t, KERNEL_INT_LESS_EQUAL, key, query);
  if (which == DOCUMENTS) {
    const int a = port(t, KERNEL_LOAD, DOC_QUERY, true), b = port(t, KERNEL_LOAD, DOC_KEY, true);
    sees = op2(t, KERNEL_AND, sees, op2(t, KERNEL_INT_EQUAL, a, b));
  } else if (which == PREFIX) {
    sees = op2(t, KERNEL_OR, sees, op2(t, KERNEL_INT_LESS, key, integer(t, 8)));
  } else if (which == PADDED) {
    sees = op2(t, KERNEL_INT_LESS, key, port(t, KERNEL_LOAD, LENGTH, true));
  } else if (which == BLOCKS) {
    const int a = op2(t, KERNEL_INT_DIV, query, integer(t, 8)), b = op2(t, KERNEL_INT_DIV, key, integer(t, 8));
    sees = op2(t, KERNEL_INT_EQUAL, a, b);
  }
  const int chosen = code(t, KERNEL_WHERE, false, sees, dot, number(t, -INFINITY));
  code(t, KERNEL_STORE, false, chosen, -1, -1);
  for (int i = 0; i < SIDE; i++) {
    t->doc_query[i] = t->doc_key[i] = i / 8;
  }
  t->length = 12;
}

// Of blocks of 8 queries by 8 keys.
static void plain_masks_are_told(void **state) {
  static const struct {
    Plain which;
    bool beyond;
    const char *known[3];  // M: mixed, H: hidden, W: whole
  } cases[] = {{CAUSAL, false, {"MHH", "WMH", "WWM"}},
               {DOCUMENTS, true, {"MHH", "HMH", "HHM"}},
               {PREFIX, true, {"WHH", "WMH", "WWM"}},
               {PADDED, true, {"WMH", "WMH", "WMH"}},
               {BLOCKS, true, {"WHH", "HWH", "HHW"}}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    Text t;
    ScoreMasks masks;
    plain(&t, cases[c].which);
    score_masks(&t.kernel, &masks);
    assert_true(masks.any);
    assert_int_equal(masks.beyond, cases[c].beyond);
    for (int i = 0; i < 9; i++) {
      assert_int_equal("MHW"[check_block(&t, &masks, i / 3 * 8, 8, i % 3 * 8, 8)], cases[c].known[i / 3][i % 3]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_masks_are_told_right),
                                     cmocka_unit_test(plain_masks_are_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
