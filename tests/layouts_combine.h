// layouts_combine.h: every combination of kinds of parallelism that a program says it can take, up to 8 ranks.
//
// A program of tests/layouts says so in a line of its own, with what it has of these:
//
//   // combine: batch = 8; pp = layers; tp = heads, ffn; sp = @resid: seq; cp = seq; ulysses = attention: heads;
//   //   ring = attention: key; axis = embed; part = attention; slots = 1; ep = experts;
//
// ep: cut over a mesh axis of its own, which cuts the batch too. axis: along which ZeRO may cut; part: what may be
// computed again besides all of pp, which may be offloaded too; slots = 1: no microbatches. Axes that tp and ulysses
// cut are multiples of 4, seq of 16, layers are 4.
#ifndef MDL_TESTS_LAYOUTS_COMBINE_H
#define MDL_TESTS_LAYOUTS_COMBINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COMBINE_RANKS = 8, COMBINE_WORDS = 128 };

typedef struct {  // what a program says; "": it has none
  char batch[COMBINE_WORDS], pp[COMBINE_WORDS], tp[COMBINE_WORDS], sp[COMBINE_WORDS], cp[COMBINE_WORDS];
  char ulysses[COMBINE_WORDS], ring[COMBINE_WORDS], axis[COMBINE_WORDS], part[COMBINE_WORDS], slots[COMBINE_WORDS];
  char ep[COMBINE_WORDS];
} Combine;

typedef enum {
  CONTEXT_GATHER,
  CONTEXT_ZIGZAG,
  CONTEXT_ULYSSES,
  CONTEXT_RING,
  CONTEXT_RING_ZIGZAG,
  CONTEXT_COUNT
} ContextKind;
typedef enum { ZERO_OFF, ZERO_1, ZERO_2, ZERO_3, ZERO_1_AXIS, ZERO_3_AXIS, ZERO_COUNT } ZeroKind;
typedef enum { PIPE_1F1B, PIPE_GPIPE, PIPE_INTERLEAVED, PIPE_ZERO_BUBBLE, PIPE_UNEVEN, PIPE_COUNT } PipeKind;

typedef struct {
  int dp, ep, tp, cp, pp, microbatches;
  int recompute;  // 0 nothing, 1 a part, 2 the layers; 3 nothing, but layers are offloaded, 4 both
  bool sp;
  ContextKind context;
  ZeroKind zero;
  PipeKind pipe;
} Combination;

typedef struct {
  char name[64], text[1024];
} CombinedLayout;

static inline bool combine_word(const char *text, const char *key, char *value) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, " %s = ", key);
  const char *at = strstr(text, wanted);
  value[0] = '\0';
  if (!at) {
    return false;
  }
  at += strlen(wanted);
  size_t length = strcspn(at, ";\n");
  length = length < COMBINE_WORDS - 1 ? length : COMBINE_WORDS - 1;
  memcpy(value, at, length);
  value[length] = '\0';
  return true;
}

static inline bool combine_read(const char *text, Combine *combine) {
  const char *line = strstr(text, "// combine:"), *end = strstr(text, "\nimport");
  char said[1024];
  if (!line || !end || line > end) {
    return false;
  }
  snprintf(said, sizeof said, "%.*s", (int)(end - line), line);
  line = said;
  combine_word(line, "batch", combine->batch);
  combine_word(line, "pp", combine->pp);
  combine_word(line, "tp", combine->tp);
  combine_word(line, "sp", combine->sp);
  combine_word(line, "cp", combine->cp);
  combine_word(line, "ulysses", combine->ulysses);
  combine_word(line, "ring", combine->ring);
  combine_word(line, "axis", combine->axis);
  combine_word(line, "part", combine->part);
  combine_word(line, "slots", combine->slots);
  combine_word(line, "ep", combine->ep);
  return true;
}

static inline bool combine_legal(const Combine *have, const Combination *c) {
  int ranks = c->dp * c->ep * c->tp * c->cp * c->pp;
  bool one = ranks == 1 && c->microbatches == 1 && c->recompute == 0;
  return ranks <= COMBINE_RANKS && !one && (c->dp == 1 || have->batch[0]) && (c->microbatches == 1 || have->batch[0]) &&
         (c->pp == 1 ? c->pipe == 0 : have->pp[0] != '\0') && (c->tp == 1 || have->tp[0]) &&
         (!c->sp || (c->tp > 1 && have->sp[0])) && (c->cp == 1 ? c->context == 0 : have->cp[0] != '\0') &&
         (c->context != CONTEXT_ULYSSES || (have->ulysses[0] && c->tp * c->cp <= 4)) &&
         (c->context < CONTEXT_RING || have->ring[0]) && (c->zero == 0 || c->dp > 1) &&
         (c->zero < ZERO_1_AXIS || have->axis[0]) && c->dp * c->ep * c->microbatches <= 8 &&
         (c->ep == 1 || have->ep[0]) && (c->pp < 4 || (c->pipe != PIPE_INTERLEAVED && c->pipe != PIPE_UNEVEN)) &&
         (c->recompute != 1 || have->part[0]) && (c->recompute < 2 || have->pp[0]) &&
         (have->slots[0] ? c->microbatches == 1 && c->pipe != PIPE_INTERLEAVED
          : c->pp == 1   ? c->microbatches <= 2
                         : c->microbatches == (c->dp * c->ep == 4 ? 2 : 4));
}

static inline void combine_say(const Combine *have, const Combination *c, CombinedLayout *to) {
  static const char *const contexts[] = {"g", "z", "u", "r", "rz"}, *const zeros[] = {"",    "_z1",  "_z2",
                                                                                      "_z3", "_z1a", "_z3a"};
  static const char *const pipes[] = {"", "g", "i", "b", "u"}, *const again[] = {"", "_ra", "_rl", "_ol", "_rol"};
  static const char *const stored[] = {"", "state", "grad, state", "param, grad, state", "state", "param, grad, state"};
  char *text = to->text;
  size_t size = sizeof to->text;
  char ep[16] = "", mesh[24] = "";
  if (c->ep > 1) {
    snprintf(ep, sizeof ep, "_ep%d", c->ep);
    snprintf(mesh, sizeof mesh, " ep = %d,", c->ep);
  }
  snprintf(to->name, sizeof to->name, "dp%d%s_tp%d%s_cp%d%s%s_pp%d%s_m%d%s", c->dp, zeros[c->zero], c->tp,
           c->sp ? "s" : "", c->cp, c->cp > 1 ? contexts[c->context] : "", ep, c->pp, pipes[c->pipe], c->microbatches,
           again[c->recompute]);
  int n = snprintf(text, size, "layout %s { mesh pp = %d, dp = %d,%s cp = %d, tp = %d; microbatches = %d;", to->name,
                   c->pp, c->dp, mesh, c->cp, c->tp, c->microbatches);
#define SAY(condition, ...) n += (condition) ? snprintf(text + n, size - (size_t)n, __VA_ARGS__) : 0
  SAY(c->pp > 1, " %s -> pp%s;", have->pp, c->pipe == PIPE_UNEVEN ? "(1, 3)" : "");
  SAY(c->pipe == PIPE_GPIPE, " schedule gpipe;");
  SAY(c->pipe == PIPE_INTERLEAVED, " schedule interleaved(chunks = 2);");
  SAY(c->pipe == PIPE_ZERO_BUBBLE, " schedule zero_bubble;");
  SAY(c->dp > 1 || c->ep > 1, " batch ->%s%s%s;", c->dp > 1 ? " dp" : "", c->dp > 1 && c->ep > 1 ? "," : "",
      c->ep > 1 ? " ep" : "");
  SAY(c->ep > 1, " %s -> ep;", have->ep);
  SAY(c->zero, " %s%s%s -> dp;", stored[c->zero], c->zero >= ZERO_1_AXIS ? ": " : "",
      c->zero >= ZERO_1_AXIS ? have->axis : "");
  SAY(c->tp > 1, " %s -> tp;", have->tp);
  SAY(c->sp, " %s -> tp;", have->sp);
  bool zigzag = c->context == CONTEXT_ZIGZAG || c->context == CONTEXT_RING_ZIGZAG;
  SAY(c->cp > 1, " %s -> cp%s;", have->cp, zigzag ? "(zigzag)" : "");
  SAY(c->cp > 1 && c->context >= CONTEXT_RING, " %s -> cp(ring);", have->ring);
  SAY(c->cp > 1 && c->context == CONTEXT_ULYSSES, " %s -> cp;", have->ulysses);
  SAY(c->recompute && c->recompute != 3, " recompute %s;", c->recompute == 1 ? have->part : have->pp);
  SAY(c->recompute >= 3, " offload %s;", have->pp);
  SAY(true, " }\n");
#undef SAY
}

typedef void CombineVisit(void *context, const CombinedLayout *layout);

// Calls back for every legal combination, in the same order each time.
static inline void combine_all(const Combine *have, CombineVisit *visit, void *context) {
  static const int sizes[] = {1, 2, 4};
  const int limits[] = {3, 3, 3, 3, 3, 2, 5, CONTEXT_COUNT, ZERO_COUNT, PIPE_COUNT, 3};  // of the digits of `at`
  enum { DIGITS = sizeof limits / sizeof *limits };
  int64_t all = 1;
  for (int i = 0; i < DIGITS; i++) {
    all *= limits[i];
  }
  for (int64_t number = 0; number < all; number++) {
    int at[DIGITS];
    int64_t rest = number;
    for (int i = 0; i < DIGITS; i++) {
      at[i] = (int)(rest % limits[i]);
      rest /= limits[i];
    }
    Combination c = {.dp = sizes[at[0]],
                     .tp = sizes[at[1]],
                     .cp = sizes[at[2]],
                     .pp = sizes[at[3]],
                     .microbatches = sizes[at[4]],
                     .sp = at[5] == 1,
                     .recompute = at[6],
                     .context = (ContextKind)at[7],
                     .zero = (ZeroKind)at[8],
                     .pipe = (PipeKind)at[9],
                     .ep = sizes[at[10]]};
    if (combine_legal(have, &c)) {
      CombinedLayout layout;
      combine_say(have, &c, &layout);
      visit(context, &layout);
    }
  }
}

#endif
