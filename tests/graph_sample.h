// graph_sample.h: what the tests of graphs share: a graph as text with every op, and ways to read, print and compare.
#ifndef MDL_TESTS_GRAPH_SAMPLE_H
#define MDL_TESTS_GRAPH_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/ir/graph_text.h"
#include "compiler/ir/verify.h"

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
} Fixture;

static inline Fixture fixture_create(void) {
  Fixture fixture = {.arena = arena_create()};
  fixture.names = names_create(fixture.arena);
  fixture.diag = diag_create(fixture.arena);
  return fixture;
}

static inline Graph *parse(Fixture *fixture, const char *text) {
  int source = diag_add_source(fixture->diag, "graph", text, strlen(text));
  return graph_parse(fixture->arena, fixture->names, fixture->diag, source);
}

static inline const char *print(Fixture *fixture, const Graph *graph) {
  Buffer buffer = {0};
  graph_print(graph, &buffer);
  assert_false(buffer.failed);
  const char *text = arena_format(fixture->arena, "%s", buffer.text);
  buffer_free(&buffer);
  return text;
}

static inline const char *first_message(const Fixture *fixture) {
  return fixture->diag->all.count > 0 ? fixture->diag->all.at[0].message : "";
}

static inline void expect_good(Fixture *fixture, const Graph *graph) {
  graph_verify(graph, fixture->diag, "test");
  assert_string_equal(first_message(fixture), "");
}

// Every op of ops.def, every field of a graph.
static const char all_ops[] =
    "graph tiny slots 2 {\n"
    "  axis b = 4 global 8;\n"
    "  axis s = 6;\n"
    "  axis e = 8;\n"
    "  axis h = 2;\n"
    "  axis d = 4;\n"
    "  axis vocab = 10;\n"
    "  axis f = 8;\n"
    "  axis half = 3;\n"
    "  axis half.2 = 3;\n"
    "  axis k = 3;\n"
    "  axis all.2 = 82;\n"
    "  axis \"a-b\" = 1;\n"
    "  axis t.blocks = 2;\n"
    "  axis t.block = 128;\n"
    "  scope 1 = 0 \"linear\" \"layers.3.q\" index 3;\n"
    "  scope 2 = 1 none \"\";\n"
    "  parameter \"table\" : real[vocab; e] group 0 scope 1 %1;\n"
    "  parameter \"bias\" : real[h | e;] %2;\n"
    "  state \"count\" : int initial 1 %3;\n"
    "  optimizer_state \"table.m\" : f32[vocab | ; e] like \"table\" initial -0.1 %4;\n"
    "  state \"gone\" : real;\n"
    "  state \"many\" : real[vocab, e, h] %117;\n"
    "  %0 = input \"tokens\" : index(vocab)[b, s] input\n"
    "  %1 = param \"table\" : real[vocab, e] parameter scope 1\n"
    "  %2 = param \"bias\" : real[h, e] none parameter\n"
    "  %3 = state \"count\" : int state\n"
    "  %4 = state \"table.m\" : f32[vocab, e] \"m\" optimizer_state\n"
    "  %5 = const 0.1 : real\n"
    "  %6 = integer 7 : int\n"
    "  %7 = position along s integer 1 : index(s)[s]\n"
    "  %8 = uniform \"dropout\"(%3) over [b, s] integer -5 : real[b, s]\n"
    "  %9 = normal \"noise\"(%3) over [b, e] integer 3 : real[b, e]\n"
    "  %10 = take(%1, %0) along vocab : real[e, s, b] \"x\" @embed stage 1 {s:cp zigzag pad 2, b:dp | partial tp}\n"
    "  %11 = add(%10, %9) : real[b, s, e] {| partial tp, \"a b\"} recomputed\n"
    "  %12 = sub(%11, %5) : real[b, s, e] gradient backward\n"
    "  %13 = mul(%12, %8) : real[b, s, e] recomputed backward\n"
    "  %14 = div(%6, %3) : int\n"
    "  %15 = mod(%14, %3) : int {}\n"
    "  %16 = max(%13, %5) : real[b, s, e]\n"
    "  %17 = min(%16, %5) : real[b, s, e]\n"
    "  %18 = pow(%17, %5) : real[b, s, e]\n"
    "  %19 = neg(%18) : real[b, s, e]\n"
    "  %20 = abs(%19) : real[b, s, e]\n"
    "  %21 = sign(%20) : real[b, s, e]\n"
    "  %22 = floor(%21) : real[b, s, e]\n"
    "  %23 = exp(%22) : real[b, s, e]\n"
    "  %24 = log(%23) : real[b, s, e]\n"
    "  %25 = sqrt(%24) : real[b, s, e]\n"
    "  %26 = rsqrt(%25) : real[b, s, e]\n"
    "  %27 = reciprocal(%26) : real[b, s, e]\n"
    "  %28 = sin(%27) : real[b, s, e]\n"
    "  %29 = cos(%28) : real[b, s, e]\n"
    "  %30 = tanh(%29) : real[b, s, e]\n"
    "  %31 = sigmoid(%30) : real[b, s, e]\n"
    "  %32 = erf(%31) : real[b, s, e]\n"
    "  %33 = is_finite(%32) : bool[b, s, e]\n"
    "  %34 = less(%32, %5) : bool[b, s, e]\n"
    "  %35 = less_equal(%7, %6) : bool[s]\n"
    "  %36 = equal(%0, %6) : bool[b, s]\n"
    "  %37 = and(%34, %35) : bool[b, s, e]\n"
    "  %38 = or(%36, %37) : bool[b, s, e]\n"
    "  %39 = not(%38) : bool[b, s, e]\n"
    "  %40 = where(%39, %32, %5) : real[b, s, e]\n"
    "  %41 = to_real(%0) : real[b, s]\n"
    "  %42 = to_int(%41) : int[b, s]\n"
    "  %43 = as_index(%42) along vocab : index(vocab)[b, s]\n"
    "  %44 = broadcast(%41) over [h, b, s] : real[h, b, s]\n"
    "  %45 = stop(%44) : real[h, b, s]\n"
    "  %46 = sum(%45) over [h] : real[b, s]\n"
    "  %47 = reduce_max(%46) over [s, b] : real\n"
    "  %48 = reduce_min(%46) over [s] : real[b]\n"
    "  %49 = dot(%10, %2) over [e] : real[b, s, h] update\n"
    "  %50 = put(%10, %0) over [vocab, e] along vocab : real[vocab, e]\n"
    "  %51 = rename(%40) along e to f : real[b, s, f]\n"
    "  %52 = split(%40) over [h, d] along e : real[b, s, h, d]\n"
    "  %53 = merge(%52) over [h, d] to f : real[b, s, f]\n"
    "  %54 = slice(%40) along s to half integer 3 : real[b, half, e]\n"
    "  %55 = slice(%40) along s integer 5 : real[b, e]\n"
    "  %56 = pad(%54) along half to s integer 3 : real[b, s, e]\n"
    "  %57 = pad(%55) to half.2 : real[b, half.2, e]\n"
    "  %58 = concat(%54, %57) over [half, half.2] to s : real[b, s, e]\n"
    "  %59 = window(%40) along s to k : real[b, s, e, k]\n"
    "  %60 = fold(%59) along s to k : real[b, s, e]\n"
    "  %61 = pack(%1, %5, %47) along all.2 : real[all.2]\n"
    "  %62, %63 = composite \"attention\"(%40, %2) over [b, s, e] along s to h integer 1 number 0.5 {\n"
    "    (%64 : real[b, s, e], %65 : real[e, h] \"w\" @w parameter)\n"
    "    %66 = dot(%64, %65) over [e] : real[b, s, h]\n"
    "    %67 = composite \"inner\"(%66) {\n"
    "      (%68 : real[s, b, h])\n"
    "      %69 = exp(%68) : real[b, s, h]\n"
    "      return %69\n"
    "    } : real[b, s, h]\n"
    "    return %67, %64\n"
    "  } : real[b, s, h] \"y\", real[b, s, e] scope 2\n"
    "  %70 = microbatch integer 2 {\n"
    "    %71 = sum(%62) over [b, s, h] : real\n"
    "    output \"loss\"(%71)\n"
    "    return %71\n"
    "  } : real\n"
    "  %72 = group over [b] integer 1 {\n"
    "    %73 = mul(%70, %5) : real\n"
    "    return %73\n"
    "  } : real\n"
    "  %74, %75 = dots(%40, %1, %2) over [e] : real[b, s, vocab], real[b, s, h]\n"
    "  %76 = dot_sum(%40, %1, %40, %1) over [b, s, vocab] : real[b, s, vocab]\n"
    "  %77 = copy(%76) over [vocab, b, s] : real[vocab, b, s]\n"
    "  %78 = const -inf over [b] : real\n"
    "  %79 = coordinate \"tp\" integer 1 : int\n"
    "  %80 = part(%61) over [vocab, e] along all.2 : real[vocab, e]\n"
    "  %81 = all_reduce \"dp, tp\"(%40) integer 3 number 1 : real[b, s, e]\n"
    "  %82 = shard \"tp\"(%81) along e to d integer 2 : real[b, s, d] {d:tp}\n"
    "  %83 = all_to_all \"tp\"(%82) over [e, half] along d to s integer 2 number 1 : real[b, half, e]\n"
    "  %84 = all_gather \"tp\"(%82) along d to e integer 2 : real[b, s, e]\n"
    "  %85 = reduce_scatter \"tp\"(%84) along e to d integer 2 number 1 : real[b, s, d] {d:tp}\n"
    "  %86 = receive \"from stage 1\" over [b, s] integer 4 number 1 : real[b, s]\n"
    "  %87 = segment integer 1 {\n"
    "    %88 = neg(%86) : real[b, s]\n"
    "    send \"to stage 1\"(%88) over [b, s] integer 5 number 1\n"
    "    return %88\n"
    "  } : real[b, s]\n"
    "  %89 = cast \"bf16\"(%4) : bf16[vocab, e]\n"
    "  %90 = sum(%1) over [e] : real[vocab]\n"
    "  %91 = sum(%2) over [e] : real[h]\n"
    "  %92, %93 = biased_dots(%40, %1, %2, %90, %91) over [e] : real[b, s, vocab], real[b, s, h]\n"
    "  %94 = chunks(%40) over [h] along s to half {\n"
    "    (%95 : real[b, half, e])\n"
    "    %96 = neg(%95) : real[b, half, e]\n"
    "    return %96\n"
    "  } : real[b, s, e]\n"
    "  %97 = sum(%4) over [vocab, e] : f32\n"
    "  %98 = quantise \"e4m3\"(%89, %97) over [vocab] : e4m3[e, vocab]\n"
    "  %99 = quantise \"e5m2\"(%4, %97) : e5m2[vocab, e]\n"
    "  %100 = scaled_dot(%98, %99, %97, %97) over [e] : f32[vocab]\n"
    "  %101 = sum(%4) over [vocab] : f32[e]\n"
    "  %102 = quantise \"e4m3\"(%101, %97) : e4m3[e]\n"
    "  %103, %104 = scaled_dots(%99, %98, %102, %97, %97) over [e] : f32[vocab], f32[vocab]\n"
    "  %105 = scaled_biased_dots(%98, %102, %97, %97, %97) over [e] : f32[vocab]\n"
    "  %106 = scaled_dot_sum(%99, %98, %99, %98, %97, %97) over [vocab] : f32[vocab]\n"
    "  %107 = power_of_two(%106) : f32[vocab]\n"
    "  %108 = broadcast(%97) over [t.blocks, t.block] : f32[t.blocks, t.block]\n"
    "  %109 = reduce_max(%108) over [t.block] : f32[t.blocks]\n"
    "  %110 = quantise \"e4m3\"(%108, %109) over [t.block] : e4m3[t.blocks, t.block]\n"
    "  %111 = scaled_dot(%110, %110, %109, %109) over [t.blocks, t.block] : f32\n"
    "  %112 = part(%61) along all.2 integer 1 : real\n"
    "  %113 = scan(%5) along s {\n"
    "    (%114 : real[b, s])\n"
    "    %115 = neg(%114) : real[b, s]\n"
    "    return %115\n"
    "  } : real[b, s]\n"
    "  %116 = input \"who\" : index(vocab)[b] input\n"
    "  %117 = state \"many\" : real[vocab, e, h] state\n"
    "  %118 = chosen_dot(%40, %117, %116) over [e] along vocab integer 1 : real[b, s, h]\n"
    "  %119 = chosen_sum(%40, %118, %116) over [vocab, e, h] along vocab : real[vocab, e, h]\n"
    "  %120 = inside(%118, %116) along vocab integer 2 : real[b, s, h]\n"
    "  %121, %122, %123 = order(%116) over [b, h, half] along vocab to s : "
    "index(s)[b], int[h, half], index(vocab)[h]\n"
    "  %124 = take_sum(%10, %121) over [b] along s : real[e]\n"
    "  %125 = chosen_dots(%40, %117, %40, %117, %116) over [b, s, h] along vocab integer 1 : real[b, s, h]\n"
    "  %126 = limit 1.5(%116) over [b] along vocab : int[b]\n"
    "  assign(%1, %50) backward\n"
    "  assign(%3, %6)\n"
    "  output \"said \\\"so\\\"\\x0a\"(%49) over [b, s] integer 1\n"
    "}\n";

// Equal texts, or the first line that differs.
static inline void expect_text(const char *found, const char *expected) {
  size_t line = 0;
  for (size_t i = 0; found[i] == expected[i]; i++) {
    if (found[i] == '\0') {
      return;
    }
    line = found[i] == '\n' ? i + 1 : line;
  }
  fail_msg("found\n%.*s\nexpected\n%.*s", (int)strcspn(found + line, "\n"), found + line,
           (int)strcspn(expected + line, "\n"), expected + line);
}

// The text of a case: a leading @ stands for these declarations.
static const char declarations[] =
    "graph m slots 1 {\n"
    "  axis a = 2; axis b = 3; axis c = 3;\n"
    "  parameter \"p\" : real[a] %0; parameter \"q\" : real[b] %1;\n"
    "  %0 = param \"p\" : real[a] %1 = param \"q\" : real[b] %2 = const 1 : real\n";

static inline const char *case_text(Fixture *fixture, const char *text) {
  return text[0] == '@' ? arena_format(fixture->arena, "%s%s\n}\n", declarations, text + 1) : text;
}

#endif
