// unsound_instructions_test.c: fields of one instruction, each of them possible, that together say what no instruction
// may be: refused, each with the sentence that names it; and odd ones that are sound.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "compiler/plan/verify.h"
#include "tests/plan_whole.h"

static const int64_t most = INT64_C(1) << 56;

// SOUND: X(what is changed in the instruction, NULL); else part of what is said about it.
#define SOUND NULL

// Of one operand each 128 elements have a scale along k; c[4, 8] = a[4, 128] b[128, 8].
#define BLOCKS(X)                                                                              \
  X(g->square_b = true, "not made of")                                                         \
  X((g->block = 0, g->square_a = true), "square blocks of no size")                            \
  X((g->block = 0, g->square_b = true), "square blocks of no size")                            \
  X((g->block = 0, g->ld_scale_a = g->ld_scale_b = 0), SOUND)                                  \
  X(g->block = 64, "not made of")                                                              \
  X((g->type = g->type_b = g->type_c = TYPE_BF16), "not made of")                              \
  X((g->k = 192, g->lda = 192), "not made of")                                                 \
  X((g->n = g->ldb = g->ldc = 128, g->square_b = true), SOUND)                                 \
  X((g->n = g->ldb = g->ldc = g->m = 128, g->square_b = g->square_a = true), "not made of")    \
  X((g->m = 128, g->square_a = true), SOUND)                                                   \
  X((g->m = 64, g->square_a = true), "not made of")                                            \
  X(g->scale_a.offset = 4, "no whole vectors")                                                 \
  X(g->scale_b.offset = 8, "no whole vectors")                                                 \
  X(g->m = 3, "no whole vectors")                                                              \
  X(g->n = 7, "no whole vectors")                                                              \
  X(g->ld_scale_a = 5, "no whole vectors")                                                     \
  X(g->ld_scale_b = 9, "no whole vectors")                                                     \
  X(g->ld_scale_a = 0, "no whole vectors")                                                     \
  X(g->ld_scale_b = 4, "no whole vectors")                                                     \
  X((g->batch_count = 1, g->batch[0] = 1), "a batch, a bias or a fast sum")                    \
  X((g->type_c = TYPE_BF16, g->epilogue = EPILOGUE_BIAS), "a batch, a bias or a fast sum")     \
  X(g->fast = true, "a batch, a bias or a fast sum")                                           \
  X(g->type_b = TYPE_BF16, "do not go together")                                               \
  X(g->type = TYPE_BF16, "do not go together")                                                 \
  X((g->type = g->type_b = TYPE_E5M2), "do not go together")                                   \
  X(g->type = TYPE_E5M2, SOUND)                                                                \
  X(g->type_b = TYPE_E5M2, SOUND)                                                              \
  X(g->type_c = TYPE_F16, SOUND)                                                               \
  X(g->type_c = TYPE_E4M3, "no product of them in a wider format")                             \
  X(g->tf32 = true, "no product of them in a wider format")                                    \
  X((g->block = 0, g->epilogue = EPILOGUE_BIAS), "a bias in f32")                              \
  X((g->block = 0, g->type_c = TYPE_BF16, g->epilogue = EPILOGUE_BIAS, g->bias = g->c), SOUND) \
  X((g->block = 0, g->fast = true), SOUND)                                                     \
  X(g->lda = 127, "shorter than its rows")                                                     \
  X(g->ldb = 7, "shorter than its rows")                                                       \
  X((g->m = most, g->k = 256), "more elements")                                                \
  X((g->n = most, g->k = 256), "more elements")                                                \
  X((g->k = 1, g->m = most / 2, g->n = 4), "more elements")

// Products of two matrices, of a batch and with a bias.
#define PRODUCTS(X)                                                                  \
  X(p->transpose_a = true, SOUND)                                                    \
  X((p->transpose_a = true, p->lda = 3), "shorter than its rows")                    \
  X((p->transpose_b = false, p->ldb = 7), "shorter than its rows")                   \
  X((p->type = p->type_b = p->type_c = TYPE_INT), "its operands cannot give")        \
  X((p->type = p->type_b = p->type_c = TYPE_REAL), "its operands cannot give")       \
  X((p->type = p->type_b = TYPE_BF16), SOUND)                                        \
  X((p->type = p->type_b = TYPE_F64), "its operands cannot give")                    \
  X(p->type_b = TYPE_F64, "matrices of two types")                                   \
  X(p->fast = true, "sums with fewer bits")                                          \
  X(p->tf32 = true, SOUND)                                                           \
  X((p->type = p->type_b = p->type_c = TYPE_F64, p->tf32 = true), "what is not f32") \
  X(p->write = WRITE_ADD, SOUND)                                                     \
  X(p->epilogue = EPILOGUE_BIAS, "or to a batch")                                    \
  X((biased->write = WRITE_ADD), "what it does not store")

#define ROWS(X)                                                                                               \
  X((order->count = INT64_C(1) << 29, order->extent = INT64_C(1) << 29), "more elements")                     \
  X(order->count = INT64_C(1) << 32, "more than an index can count")                                          \
  X((grouped->rows = INT64_C(1) << 32), "no whole blocks")                                                    \
  X((grouped->extent = most), "more elements")                                                                \
  X((grouped->k = most / 12, grouped->extent = 1, grouped->n = 1), "more elements")                           \
  X((sums->n = most / 12, sums->extent = 1, sums->m = 1), "more elements")                                    \
  X((grouped->type = TYPE_E4M3), "numbers of 8 bits")                                                         \
  X((grouped->tf32 = true), SOUND)                                                                            \
  X((grouped->type = grouped->type_c = TYPE_BF16, grouped->tf32 = true), "what is not f32")                   \
  X((sums->k = 2), "sizes that it does not use")                                                              \
  X((grouped->extent = INT64_C(1) << 32), "more matrices than an index can count")                            \
  X((grouped->leaves = true), SOUND)                                                                          \
  X((grouped->ldc = 7), "shorter than its rows")                                                              \
  X((sums->ldb = 7), "shorter than its rows")                                                                 \
  X((grouped->transpose_b = false), "shorter than its rows")                                                  \
  X((grouped->transpose_b = false, grouped->ldb = 8), SOUND)                                                  \
  X((grouped->ldb = 12, grouped->stride = 4), SOUND) /* matrices within rows */                               \
  X((grouped->ldb = 11, grouped->stride = 4), "lie in each other")                                            \
  X((grouped->n = 1, grouped->stride = 4), SOUND)                                                             \
  X((grouped->extent = 1, grouped->stride = 0), SOUND)                                                        \
  X((grouped->extent = 1024, grouped->stride = most), "lie in each other") /* past 64 bits */                 \
  X((grouped->n = 2, grouped->k = 1, grouped->ldb = most - 1, grouped->extent = 128, grouped->stride = most), \
    "lie in each other")                                                                                      \
  X((grouped->k = 1, grouped->n = 1024, grouped->extent = 2, grouped->ldb = most, grouped->ldc = 1024,        \
     grouped->stride = 1),                                                                                    \
    "lie in each other")

#define MOVES(X)                                                                               \
  X((take->size[0] = take->size[1] = most), "more elements")                                   \
  X(put->parts = 2, "is not made of")                                                          \
  X((summed->parts = 5), "is not made of")                                                     \
  X((take->dim_count = 0), "is not made of")                                                   \
  X((take->dim_count = 0, take->parts = 0), SOUND)                                             \
  X((summed->type = TYPE_INT), "where that cannot be")                                         \
  X((summed->type_out = TYPE_INT), "where that cannot be")                                     \
  X((take->type = take->type_out = TYPE_INT), SOUND)                                           \
  X((take->type = TYPE_INT), "that they do not fit")                                           \
  X((take->type_out = TYPE_BF16), SOUND)                                                       \
  X((window->taps = 1 << 20, window->stride_x[0] = most), "taps beyond what can be counted")   \
  X((window->taps = 1 << 20, window->stride_out[0] = most), "taps beyond what can be counted") \
  X((window->taps = 1 << 20, window->stride_tap = most), "taps beyond what can be counted")    \
  X((window->size[0] = most), "more elements")                                                 \
  X((squares->type = TYPE_F64), SOUND)                                                         \
  X((squares->type = TYPE_F16), "neither f32 nor f64")                                         \
  X((piece->piece = 7), "cut into pieces")                                                     \
  X((piece->first = most, piece->count = most), "cut into pieces")                             \
  X((piece->mesh[0] = 0), "or is the pipeline's")                                              \
  X((offload->device.arena = ARENA_PERSISTENT), "from or to where it may not")                 \
  X((offload->host.arena = ARENA_TRANSIENT), "from or to where it may not")                    \
  X((fetch->bytes = 64), "what was never offloaded")                                           \
  X((fetch->host.slot_stride = 1), "what was never offloaded")

#define ATTENTION(X)                                                                                      \
  X(a->depth = most, "more elements")                                                                     \
  X(a->value_depth = most, "more elements")                                                               \
  X((a->queries = 1, a->parts = 0, a->keys = most / 16), "more elements")                                 \
  X((a->queries = 1, a->parts = 0, a->depth = 1, a->keys = most / 16), "more elements")                   \
  X(a->type = TYPE_INT, "does not go with the statistics")                                                \
  X((a->type = TYPE_BF16, a->wide = true), SOUND)                                                         \
  X((a->type = TYPE_BF16, a->more = false, a->more_keys = true), "to what is rounded")                    \
  X((a->type = TYPE_BF16, a->more = false), SOUND)                                                        \
  X(a->parts = 0, SOUND)                                                                                  \
  X((a->origin[1] = most, a->origin_term[1] = 1), "begins at an impossible coordinate")                   \
  X((a->key_origin[0] = most, a->key_origin_term[0] = 1), "begins at an impossible coordinate")           \
  X(a->window = 2, "or a window without")                                                                 \
  X((a->ring = 2, a->ring_step = 1), SOUND)                                                               \
  X((a->ring = 2, a->ring_step = 2), "not in the ring")                                                   \
  X((a->ring = 1), "several stages")                                                                      \
  X(a->ring_step = 1, "keys that are nowhere")                                                            \
  X(c->window = 2, SOUND)                                                                                 \
  X(c->biased = true, "a scale besides scores of a kernel")                                               \
  X(c->scale = 0.5, "a scale besides scores of a kernel")                                                 \
  X(c->score = 0, "in a way that there is not")                                                           \
  X(c->score = 1, "does something else")                                                                  \
  X(c->score_gradient = 1, "does something else")                                                         \
  X((c->score = 0, c->score_gradient = 2), "in a way that there is not")                                  \
  X(c->score_gradient = 0, "in a way that there is not")                                                  \
  X(c->more = true, "in a way that there is not")                                                         \
  X((c->by = CAPTURED_BY_QUERY), "in a way that there is not")                                            \
  X((c->by = CAPTURED_BY_QUERY, apart(c)), "in a way that there is not")                                  \
  X((c->by = CAPTURED_BY_QUERY, apart(c), c->stride_captured[SCORE_DIM_KEY] = 0), SOUND)                  \
  X((c->by = CAPTURED_BY_QUERY, c->more = true, apart(c), c->stride_captured[SCORE_DIM_KEY] = 0), SOUND)  \
  X((c->by = CAPTURED_BY_KEY, apart(c)), "in a way that there is not")                                    \
  X((c->by = CAPTURED_BY_KEY, apart(c), c->stride_captured[SCORE_DIM_QUERY] = 0), SOUND)                  \
  X((c->by = CAPTURED_BY_KEY, apart(c), c->stride_captured[0] = c->stride_captured[SCORE_DIM_QUERY] = 0), \
    "in a way that there is not")

// A kernel of scores that makes something else.
#define SCORES(X)                                                               \
  X(score->dim_count = 4, "does something else")                                \
  X(score->size[4] = 2, "does something else")                                  \
  X(score->row_reductions = true, "does something else")                        \
  X((score->parts = 2, unread(score, PORT_CHOSEN)), "does something else")      \
  X((score->code[3].op = KERNEL_TOTAL_SUM, score->code[3].level = LEVEL_SCALAR, \
     memset(score->port[4].stride, 0, sizeof score->port[4].stride)),           \
    "something else")                                                           \
  X(few_ports(score), "does something else")                                    \
  X(score->real = TYPE_F64, "does something else")                              \
  X(unread(score, PORT_STRIDES), "something else")                              \
  X(score->port[5].type = TYPE_BF16, SOUND)                                     \
  X(score->port[1].kind = PORT_STRIDES, "something else")                       \
  X(score->port[4].accumulate = true, "something else")                         \
  X(score->port[0].type = TYPE_BF16, "something else")                          \
  X(draw(score, KERNEL_UNIFORM), "something else")                              \
  X(draw(score, KERNEL_NORMAL), "something else")

#define MESSAGES(X)                                                                                  \
  X(all->mesh = 0, "mesh axes that are not there")                                                   \
  X(all->mesh = 1, "several stages")                                                                 \
  X(all->ranks = 4, "another number of ranks")                                                       \
  X(all->count = most, "an impossible count")                                                        \
  X((plan->mesh[1].size = 1 << 19, all->ranks = 1 << 19, all->count = most), "an impossible count")  \
  X(send->peer = 0, "stage that is not there")                                                       \
  X((plan->pipeline = -1, plan->stages = 1, send->peer = 0), "stage that is not there")              \
  X(all->to.offset = 16, "receives where it sends from")                                             \
  X((all->kind = COLLECTIVE_ALL_REDUCE, all->to = all->from), SOUND)                                 \
  X((all->kind = COLLECTIVE_ALL_TO_ALL, all->to = all->from), "receives where it sends from")        \
  X((all->kind = COLLECTIVE_REDUCE_SCATTER, all->to = all->from), "receives where it sends from")    \
  X((all->kind = COLLECTIVE_REDUCE_SCATTER, all->to = all->from, all->to.term = 1), SOUND)           \
  X((all->kind = COLLECTIVE_REDUCE_SCATTER, all->to = all->from, all->to.term = all->from.term = 1), \
    "receives where it sends from")                                                                  \
  X((at[0].span.file = 1), "text that is not there")                                                 \
  X((at[0].span.file = -2), "text that is not there")                                                \
  X((at[0].span.begin = 8), "text that is not there")                                                \
  X((at[0].rule = (Span){0, 2, 14}), "text that is not there")                                       \
  X((at[0].span.file = -1), SOUND)                                                                   \
  X((at[0].name = NULL, at[0].kind = INSTRUCTION_KIND_COUNT), "an unknown instruction")

#define CHANGES(X) BLOCKS(X) PRODUCTS(X) ROWS(X) MOVES(X) ATTENTION(X) SCORES(X) MESSAGES(X)

// Sums of each head, group and query of its own.
static void apart(Attention *captured) {
  static const int64_t stride[] = {16, 8, 4, 1, 1};
  memcpy(captured->stride_captured, stride, sizeof stride);
}

// The last port is of another kind, and nothing reads it.
static void unread(Kernel *score, PortKind kind) {
  score->port[5].kind = kind;
  score->port[5].type = kind == PORT_CHOSEN ? TYPE_INDEX : TYPE_F32;
  score->code[1].port = 0;
  memset(score->port[5].stride, 0, sizeof score->port[5].stride);
}

// What it makes is its last port but one.
static void few_ports(Kernel *score) {
  score->port_count = 4;
  score->port[3].kind = PORT_OUTPUT;
  score->code[1].port = 0;
  score->code[3].port = 3;
}

static void draw(Kernel *score, KernelOp op) {
  score->code[0] = (KernelInstruction){KERNEL_INTEGER, LEVEL_SCALAR, true, -1, -1, -1, -1, 0, 1};
  score->code[1] = (KernelInstruction){op, LEVEL_FULL, false, 0, -1, -1, 3, 0, 1};
  score->code[2].a = 1;
}

// The whole plan, with products of blocks that have scales, and a second term.
static Plan *plan_make(Arena *arena) {
  Plan *plan = whole_plan(arena);
  Gemm *gemm = &plan->segments[0].instructions[AT_SCALED].as.gemm;
  gemm->k = gemm->lda = gemm->block = 128;
  gemm->ld_scale_a = 4;
  gemm->ld_scale_b = 8;
  plan->arena_bytes[ARENA_TRANSIENT] = 1 << 17;
  plan->terms = ARENA_ARRAY(arena, PlanTerm, 2);
  plan->terms[1].stride[1] = 32;  // a block of the collective
  plan->term_count = 2;
  return plan;
}

#define NAME_CASE(change, part) {#change, part},
static const struct { const char *change, *part; } changes[] = {CHANGES(NAME_CASE)};

static void change_one(Plan *plan, int which) {
  Instruction *at = plan->segments[0].instructions;
  Gemm *g = &at[AT_SCALED].as.gemm, *p = &at[1].as.gemm, *biased = &at[9].as.gemm;
  Take *take = &at[2].as.take, *put = &at[3].as.take, *summed = &at[14].as.take;
  Window *window = &at[4].as.window;
  Attention *a = &at[5].as.attention, *c = &at[AT_CAPTURED].as.attention;
  Offload *offload = &at[7].as.offload, *fetch = &at[8].as.offload;
  Squares *squares = &at[10].as.squares;
  Order *order = &at[11].as.order;
  Grouped *grouped = &at[12].as.grouped, *sums = &at[13].as.grouped;
  Piece *piece = &at[AT_PIECE].as.piece;
  Collective *all = &at[AT_COLLECTIVE].as.collective;
  Transfer *send = &at[AT_SEND].as.transfer;
  Kernel *score = plan->kernels[1];
  int n = 0;
#define RUN_CASE(change, part) \
  if (n++ == which) {          \
    (void)(change);            \
  }
  CHANGES(RUN_CASE)
}

static void test_fields_that_do_not_go_together(void **state) {
  (void)state;
  for (int which = 0; which < (int)(sizeof changes / sizeof *changes); which++) {
    Arena *arena = arena_create();
    Plan *plan = plan_make(arena);
    assert_null(plan_verify(arena, plan));
    change_one(plan, which);
    const char *why = plan_verify(arena, plan), *part = changes[which].part;
    if (part ? !why || !strstr(why, part) : why != NULL) {
      fail_msg("%s: %s", changes[which].change, why ? why : "not found");
    }
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields_that_do_not_go_together)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
