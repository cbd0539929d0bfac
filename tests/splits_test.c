// splits_test.c: which sums `mdlc explain` says may be made otherwise than with `overlap = false`.
//
// The oracle compares the lists of both plans: a product that one of them has and the other has not, of that name and
// those sizes, was cut, and so was a sum over ranks of which the other plan adds another number of elements at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "compiler/report/explain_part.h"

typedef struct {
  const char *layout;
  bool products, sums, buckets;  // whether some are cut
} Case;

static const Case cases[] = {
    {"mesh tp = 4; kv_heads, ffn, vocab -> tp; @resid: seq -> tp;", true, true, false},
    {"mesh tp = 4; kv_heads, ffn, vocab -> tp;", true, true, false},
    {"mesh tp = 2; kv_heads, ffn, vocab -> tp; @resid: seq -> tp;", true, false, false},
    {"mesh dp = 4; batch -> dp;", true, false, true},
    {"mesh dp = 2; batch -> dp;", true, false, false},
    {"mesh dp = 4; batch -> dp; microbatches = 2;", false, false, true},
    {"mesh dp = 4; batch -> dp; param, grad, state -> dp;", true, false, false},
    {"mesh cp = 4; seq -> cp(zigzag); attention: key -> cp(ring);", true, false, true},
    {"mesh pp = 2, dp = 4; layers -> pp; batch -> dp; microbatches = 2;", false, false, true},
};

typedef struct {
  Arena *arena;
  CompileView view;
  Explain explain;
} Compiled;

static char *text_of(Arena *arena, const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = ARENA_ARRAY(arena, char, 1 << 16);
  assert_non_null(file);
  assert_true(fread(text, 1, (1 << 16) - 1, file) < (1 << 16) - 1);
  fclose(file);
  return text;
}

static Compiled *compile(const char *layout, const char *more) {
  static const char *const sizes[] = {"batch=16", "seq=512", "embed=128", "ffn=512", "vocab=256", "hd=32", "layers=2"};
  char path[] = "/tmp/mdl-splits-XXXXXX";
  Arena *arena = arena_create();
  Compiled *made = ARENA_NEW(arena, Compiled);
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  fprintf(out, "%s\nlayout here { %s %s }\n", text_of(arena, MDL_SOURCE_DIR "/tests/layouts/llama.mdl"), layout, more);
  fclose(out);
  Diag *diag = diag_create(arena);
  CompileOptions options = {.file = path,
                            .layout = "here",
                            .precision = "fp32",
                            .set = sizes,
                            .set_count = sizeof sizes / sizeof *sizes,
                            .part_rows = 64,
                            .bucket_bytes = 1 << 16,
                            .view = &made->view};
  PlanSet *set;
  const bool good = compile_plans(arena, diag, &options, &set);
  unlink(path);
  if (!good) {
    diag_print(diag, stderr, false);
    fail_msg("this does not compile: %s %s", layout, more);
  }
  made->arena = arena;
  made->explain = (Explain){.arena = arena, .diag = diag, .set = set, .view = &made->view};
  return made;
}

// --- the oracle ---

static bool same_product(const Instruction *a, const Instruction *b) {
  const Gemm *x = &a->as.gemm, *y = &b->as.gemm;
  return a->kind == INSTRUCTION_GEMM && b->kind == INSTRUCTION_GEMM && strcmp(a->name, b->name) == 0 && x->m == y->m &&
         x->n == y->n && x->k == y->k && x->batch_count == y->batch_count && x->transpose_a == y->transpose_a;
}

// Of a sum over ranks the elements that are added at once: those of its first part.
static bool same_sum(const Instruction *a, const Instruction *b) {
  const Collective *x = &a->as.collective, *y = &b->as.collective;
  return a->number == b->number && x->kind == y->kind && x->mesh == y->mesh && x->count == y->count;
}

static bool adds(const Instruction *at) {
  const Collective *collective = &at->as.collective;
  return at->kind == INSTRUCTION_COLLECTIVE && collective->reduce == REDUCE_SUM && collective->ranks > 2 &&
         (collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER);
}

typedef struct {
  int64_t products, sums;
} Missing;

static int count_like(const PlanSegment *segment, const Instruction *like, bool sum) {
  int count = 0;
  for (int i = 0; i < segment->count; i++) {
    const Instruction *at = &segment->instructions[i];
    count += sum ? adds(at) && same_sum(at, like) : same_product(at, like);
  }
  return count;
}

// What one list has that the other has not.
static void add_missing(const PlanSegment *of, const PlanSegment *in, Missing *missing) {
  for (int i = 0; i < of->count; i++) {
    const Instruction *at = &of->instructions[i];
    missing->products += at->kind == INSTRUCTION_GEMM && count_like(in, at, false) == 0;
    missing->sums += adds(at) && count_like(in, at, true) == 0;
  }
}

static Missing missing_of(const PlanSet *off, const PlanSet *on) {
  Missing missing = {0};
  for (int p = 0; p < off->count; p++) {
    const PlanProgram *train = &off->plans[p]->programs[PROGRAM_TRAIN];
    for (int c = 0; c < train->call_count; c++) {
      const int segment = train->calls[c].segment;
      bool again = false;
      for (int d = 0; d < c; d++) {
        again |= train->calls[d].segment == segment;
      }
      if (!again) {
        add_missing(&off->plans[p]->segments[segment], &on->plans[p]->segments[segment], &missing);
      }
    }
  }
  return missing;
}

// --- cases ---

static void splits_are_those_of_the_lists(void **state) {
  const Case *at = *state;
  Compiled *on = compile(at->layout, ""), *off = compile(at->layout, "overlap = false;");
  const Splits found = explain_splits_of(&on->explain), none = explain_splits_of(&off->explain);
  const Missing missing = missing_of(off->explain.set, on->explain.set);
  Buffer said = {0}, nothing = {0};
  assert_int_equal(found.products, missing.products);
  assert_int_equal(found.sums + found.bucket_sums, missing.sums);
  assert_true((found.products > 0) == at->products && (found.sums > 0) == at->sums);
  assert_true((found.bucket_sums > 0) == at->buckets && found.buckets >= 2 * found.bucket_sums);
  assert_int_equal(none.products + none.sums + none.bucket_sums, 0);
  explain_splits(&on->explain, &said);
  explain_splits(&off->explain, &nothing);
  assert_int_equal(nothing.length, 0);
  assert_true((strstr(said.text, "products in parts by rows: ") != NULL) == at->products);
  assert_true((strstr(said.text, "sums over ranks in parts by rows: ") != NULL) == at->sums);
  assert_true((strstr(said.text, " buckets: ") != NULL) == at->buckets);
  assert_true((strstr(said.text, "all sums are the same") != NULL) == !(at->products || at->sums || at->buckets));
  buffer_free(&said);
  buffer_free(&nothing);
  arena_destroy(on->arena);
  arena_destroy(off->arena);
}

int main(void) {
  enum { CASES = sizeof cases / sizeof *cases };
  static struct CMUnitTest tests[CASES];
  for (int i = 0; i < CASES; i++) {
    tests[i] =
        (struct CMUnitTest){cases[i].layout, splits_are_those_of_the_lists, NULL, NULL, (void *)(uintptr_t)&cases[i]};
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
