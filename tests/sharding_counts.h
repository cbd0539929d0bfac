// sharding_counts.h: what a layer sends under a layout, and what is outside of the layers.
//
// A Llama of two and of three layers is compiled under each layout; what the third layer adds is what a layer costs,
// what remains of two is outside of the layers.
#ifndef MDL_TESTS_SHARDING_COUNTS_H
#define MDL_TESTS_SHARDING_COUNTS_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "compiler/pass/schedule.h"
#include "compiler/report/explain_traffic.h"

enum { REDUCE = COLLECTIVE_ALL_REDUCE, GATHER = COLLECTIVE_ALL_GATHER };
enum { SCATTER = COLLECTIVE_REDUCE_SCATTER, EXCHANGE = COLLECTIVE_ALL_TO_ALL, ROTATE = COLLECTIVE_ROTATE };

static const char model[] =
    "import std.nn;\n"
    "model m {\n"
    "  axis batch, seq;\n"
    "  axis vocab = 32, layers = 2, embed = 16, kv_heads = 4, group = 2, hd = 4, ffn = 32;\n"
    "  axis key like seq;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  x = embedding(tokens over vocab to embed, name = table) @resid;\n"
    "  repeat layers {\n"
    "    h = rms_norm(x over embed, name = attn_norm);\n"
    "    q = rope(linear(h over embed to kv_heads, group, hd) over hd, seq);\n"
    "    k = rope(linear(h over embed to kv_heads, hd) over hd, seq);\n"
    "    v = linear(h over embed to kv_heads, hd);\n"
    "    o = attention(q, k[seq -> key], v[seq -> key] over hd, seq, key, causal = true);\n"
    "    x = x + linear(o over kv_heads, group, hd to embed, name = out) @resid;\n"
    "    h = rms_norm(x over embed, name = mlp_norm);\n"
    "    x = x + swiglu(h over embed to ffn, name = mlp) @resid;\n"
    "  }\n"
    "  logits = linear(rms_norm(x over embed, name = final_norm) over embed to vocab, name = head);\n"
    "  loss = mean(cross_entropy(logits, targets over vocab));\n"
    "}\n"
    "recipe r {\n"
    "  model m();\n"
    "  data text(\"none.txt\", tokenizer = bytes);\n"
    "  batch = 8; seq = 16; steps = 20;\n"
    "  optimizer adamw(lr = 0.01);\n"
    "}\n"
    "precision thrifty { base bf16; gradient bf16; }\n";

typedef struct {  // a program and what its ranks send in a training step
  Arena *arena;
  PlanSet *set;
  CompileView view;
  TrafficList traffic;
} Program;

static inline void write_model(const char *path, const char *layout) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fprintf(file, "%slayout l { %s }\n", model, layout);
  fclose(file);
}

static inline Program *program_open_as(const char *layout, int layers, const char *setting, const CompileOptions *as) {
  char path[] = "/tmp/sharding-table-XXXXXX", text[32];
  int made = mkstemp(path);
  assert_true(made >= 0);
  close(made);
  write_model(path, layout);
  Arena *arena = arena_create();
  Program *program = ARENA_NEW(arena, Program);
  Diag *diag = diag_create(arena);
  snprintf(text, sizeof text, "layers=%d", layers);
  const char *set[] = {text, setting};
  CompileOptions options = *as;
  options.file = path;
  options.layout = "l";
  options.set = set;
  options.set_count = setting ? 2 : 1;
  options.view = &program->view;
  program->arena = arena;
  bool good = compile_plans(arena, diag, &options, &program->set);
  unlink(path);
  if (!good) {
    diag_print(diag, stderr, false);
    fail_msg("this does not compile: %s", layout);
  }
  program->traffic = traffic_collect(arena, program->set, &program->view);
  return program;
}

static inline Program *program_open(const char *layout, int layers, const char *setting) {
  return program_open_as(layout, layers, setting, &(CompileOptions){0});
}

static inline void program_close(Program *program) {
  arena_destroy(program->arena);
}

// --- counting ---

typedef struct {
  int layer, rest;  // what one layer does, and what is outside of the layers
} Count;

typedef struct {
  const char *layout, *setting;
  Program *two, *three;
} Trial;

static inline Trial trial_open(const char *layout, const char *setting) {
  return (Trial){layout, setting, program_open(layout, 2, setting), program_open(layout, 3, setting)};
}

// Each layer is a bucket of its own.
static inline Trial trial_open_buckets(const char *layout) {
  const CompileOptions small = {.bucket_bytes = 1024};
  return (Trial){layout, NULL, program_open_as(layout, 2, NULL, &small), program_open_as(layout, 3, NULL, &small)};
}

static inline void trial_close(Trial *trial) {
  program_close(trial->two);
  program_close(trial->three);
}

// Of the size of values, or of a number for each token; scalars are left out.
typedef enum { OF_VALUES, OF_TOKENS, OF_PACKS } What;

static inline bool counted(const Traffic *traffic, TrafficPhase phase, int kind, What what) {
  const Instruction *instruction = traffic->instruction;
  if (instruction->kind != INSTRUCTION_COLLECTIVE || traffic->phase != phase) {
    return false;
  }
  double elements = traffic->payload / 4;
  bool tokens = elements <= 8 * 16, scalar = elements <= 8;
  return (int)instruction->as.collective.kind == kind && !scalar && traffic->pack == (what == OF_PACKS) &&
         (what == OF_PACKS || tokens == (what == OF_TOKENS));
}

static inline int count_in(const Program *program, TrafficPhase phase, int kind, What what) {
  int count = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    count += counted(&program->traffic.at[i], phase, kind, what) ? program->traffic.at[i].calls : 0;
  }
  return count;
}

static inline Count count(const Trial *trial, TrafficPhase phase, int kind, What what) {
  int two = count_in(trial->two, phase, kind, what), three = count_in(trial->three, phase, kind, what);
  return (Count){three - two, two - 2 * (three - two)};
}

static inline void expect(const Trial *trial, TrafficPhase phase, int kind, int layer, int rest) {
  Count found = count(trial, phase, kind, OF_VALUES);
  if (found.layer != layer || found.rest != rest) {
    fail_msg("%s: %s %s: %d in a layer and %d outside, not %d and %d", trial->layout, traffic_phase_name(phase),
             collective_kind_name((CollectiveKind)kind), found.layer, found.rest, layer, rest);
  }
}

static inline void expect_packs(const Trial *trial, TrafficPhase phase, int kind, int layer, int rest) {
  Count found = count(trial, phase, kind, OF_PACKS);
  if (found.layer != layer || found.rest != rest) {
    fail_msg("%s: %s of packs, %s: %d in a layer and %d outside, not %d and %d", trial->layout,
             traffic_phase_name(phase), collective_kind_name((CollectiveKind)kind), found.layer, found.rest, layer,
             rest);
  }
}

// Nothing else of the size of a value in this phase.
static inline void expect_nothing_but(const Trial *trial, TrafficPhase phase, int first, int second) {
  for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
    if (kind != first && kind != second) {
      expect(trial, phase, kind, 0, 0);
    }
  }
}

// Three numbers for each token: the maximum, the sum and the logit of the target.
static inline void expect_cross_entropy(const Trial *trial) {
  Count found = count(trial, PHASE_FORWARD, REDUCE, OF_TOKENS);
  assert_int_equal(found.rest, 3);
  assert_int_equal(found.layer, 0);
  found = count(trial, PHASE_BACKWARD, REDUCE, OF_TOKENS);
  assert_int_equal(found.rest, 0);
  assert_int_equal(found.layer, 0);
}

// Over which mesh axes the gradients of these parameters are summed, by the name of a parameter.
static inline uint32_t summed_over(const Program *program, bool norms) {
  uint32_t mesh = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    double elements = traffic->payload / 4;
    bool small = elements <= 8 * 16;  // norms of two layers have 5 x 16 elements
    if (traffic->phase == PHASE_GRADIENTS && traffic->pack && small == norms) {
      mesh |= traffic->mesh;
    }
  }
  return mesh;
}

static inline double wire_of(const Program *program, TrafficPhase phase) {
  double bytes = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    bytes += traffic->phase == phase ? traffic->wire * traffic->calls : 0;
  }
  return bytes;
}

#endif
