// attention_scores.c: see attention_scores.h.
#include "kernels/cuda/attention_scores.h"

#include <assert.h>
#include <inttypes.h>

#include "compiler/plan/score_masks.h"
#include "kernels/cuda/generate_internal.h"
#include "kernels/cuda/writer.h"

static int captured_of(const Kernel *kernel) {
  return kernel ? kernel->port_count - SCORE_CAPTURED : 0;
}

int attention_scores_ports(const AttentionScores *scores) {
  return captured_of(scores->score) + captured_of(scores->gradient);
}

bool attention_scores_hide(const AttentionScores *scores) {
  ScoreMasks masks = {0};
  if (scores->score) {
    score_masks(scores->score, &masks);
  }
  return masks.any && masks.beyond;
}

bool attention_scores_plain(const AttentionScores *scores, double *factor) {
  ScoreMasks masks = {0};
  bool part[KERNEL_MAX_CODE];
  if (scores->score) {
    score_masks(scores->score, &masks);
  }
  return scores->score && score_masks_only(scores->score, &masks, part, factor);
}

static const char *memory_type(ElementType type) {
  switch (type) {
    case TYPE_F64:
      return "double";
    case TYPE_F32:
      return "float";
    case TYPE_F16:
    case TYPE_BF16:
      return "u16";
    default:
      assert(type == TYPE_INT || type == TYPE_INDEX || type == TYPE_BOOL);
      return "int";
  }
}

// Where each captured tensor has its element of the first query and key of a (batch, head, group).
static void place_write(CudaText *text, const AttentionScores *scores, int first_slot) {
  const Kernel *const kernels[] = {scores->score, scores->gradient};
  Buffer fields = {0};
  int slot = first_slot;
  cuda_text(text, "struct ScoreAt {\n");
  buffer_text(&fields, "");
  for (int k = 0; k < 2; k++) {
    for (int p = SCORE_CAPTURED; kernels[k] && p < kernels[k]->port_count; p++, slot++) {
      const int64_t *stride = kernels[k]->port[p].stride;
      const char *type = memory_type(kernels[k]->port[p].type);
      cuda_text(text, "  const %s *from%d;\n", type, slot);
      buffer_format(&fields,
                    "  at.from%d = (const %s *)slots.at[%d] + (i64)batch * %" PRId64 "LL + (i64)head * %" PRId64
                    "LL + (i64)group * %" PRId64 "LL;\n",
                    slot, type, slot, stride[0], stride[1], stride[2]);
    }
  }
  cuda_text(text,
            "};\n\nDEVICE ScoreAt score_at(const Slots &slots, int batch, int head, int group) {\n  ScoreAt at;\n");
  cuda_text(text, "%s  return at;\n}\n", fields.text);
  buffer_free(&fields);
}

// What lies past the end is never used, and not read.
static void load_write(Generator *g, int at, int slot) {
  const KernelInstruction *code = &g->kernel->code[at];
  const KernelPort *port = &g->kernel->port[code->port];
  const char *query = port->stride[SCORE_DIM_QUERY] ? "(query < QUERIES ? query : QUERIES - 1)" : "0";
  const char *key = port->stride[SCORE_DIM_KEY] ? "(key < KEYS ? key : KEYS - 1)" : "0";
  const char *widen = port->type == TYPE_BF16 ? "bf16_float" : port->type == TYPE_F16 ? "f16_float" : "";
  cuda_text(&g->text, "const %s v%d = (%s)%s(at.from%d[(i64)%s * %" PRId64 "LL + (i64)%s * %" PRId64 "LL]);\n",
            value_type(code->integer), at, value_type(code->integer), widen, slot + code->port - SCORE_CAPTURED, query,
            port->stride[SCORE_DIM_QUERY], key, port->stride[SCORE_DIM_KEY]);
}

typedef struct {
  const char *name;
  const ScoreMasks *masks;
  bool whole;        // masks let everything through
  const bool *part;  // of which factors are left out; NULL: of none
  int slot;          // of what is captured
} Function;

static void code_write(Generator *g, const Function *function, int at) {
  const KernelInstruction *code = &g->kernel->code[at];
  const int open = function->masks->open[at];
  cuda_text(&g->text, "  ");
  if (function->whole && open) {
    cuda_text(&g->text, "const R v%d = v%d;\n", at, open == 1 ? code->b : code->c);
    return;
  }
  if (function->part && function->part[at] && code->op == KERNEL_MUL) {
    cuda_text(&g->text, "const R v%d = v%d;\n", at, function->part[code->a] ? code->a : code->b);
    return;
  }
  switch (code->op) {
    case KERNEL_LOAD:
      if (code->port >= SCORE_CAPTURED) {
        load_write(g, at, function->slot);
      } else {
        cuda_text(&g->text, "const R v%d = %s;\n", at, code->port == SCORE_DOT ? "dot" : "gradient");
      }
      break;
    case KERNEL_STORE:
      cuda_text(&g->text, "return v%d;\n", code->a);
      break;
    default:
      expression_emit(g, at, code->port == SCORE_KEY ? "key_position" : "query_position");
  }
}

static void function_write(Generator *g, Function function) {
  for (int whole = 0; whole < 2; whole++) {
    function.whole = whole;
    cuda_text(&g->text,
              "\nDEVICE R %s%s(const ScoreAt &at, R dot, R gradient, int query, int key, int query_position, int "
              "key_position) {\n",
              function.name, whole ? "_whole" : "");
    for (int i = 0; i < g->kernel->code_count; i++) {
      code_write(g, &function, i);
    }
    cuda_text(&g->text, "}\n");
  }
}

// --- blocks ---

static int ranged_of(const ScoreMasks *masks, int port) {
  int i = 0;
  while (i < masks->ranged_count && masks->ranged[i] != port) {
    i++;
  }
  assert(i < masks->ranged_count);
  return i;
}

// first: the number of the first interval of this kernel's captured tensors.
static void range_write(CudaText *text, const Kernel *kernel, const ScoreMasks *masks, int first, int at) {
  const KernelInstruction *code = &kernel->code[at];
  int operand[3];
  kernel_operands(code, operand);
  switch (masks->kind[at]) {
    case RANGE_QUERY:
    case RANGE_KEY:
      cuda_text(text, "  const Range &r%d = block.%s;\n", at, masks->kind[at] == RANGE_KEY ? "key" : "query");
      break;
    case RANGE_NUMBER:
      cuda_text(text, "  const Range r%d = {(int)0x%08" PRIx32 "u, (int)0x%08" PRIx32 "u};\n", at,
                (uint32_t)(uint64_t)code->constant, (uint32_t)(uint64_t)code->constant);
      break;
    case RANGE_CAPTURED:
      cuda_text(text, "  const Range &r%d = block.captured[%d];\n", at, first + ranged_of(masks, code->port));
      break;
    case RANGE_MADE:
      cuda_text(text, "  const Range r%d = %s(", at, score_range_function(code->op));
      for (int k = 0; k < 3; k++) {
        const bool there = k < kernel_op_operands(code->op) && masks->kind[operand[k]] != RANGE_UNKNOWN;
        cuda_text(text, k ? ", " : "");
        cuda_text(text, there ? "r%d" : "ANYTHING", operand[k]);
      }
      cuda_text(text, ");\n");
      break;
    default:
      break;
  }
}

// hN: it is surely -infinity.
static void hidden_write(CudaText *text, const Kernel *kernel, const ScoreMasks *masks, int at) {
  const KernelInstruction *code = &kernel->code[at];
  if (code->integer && code->op != KERNEL_STORE) {
    return;
  }
  cuda_text(text, "  const bool h%d = ", at);
  switch (score_hidden(code)) {
    case HIDDEN_NEVER:
      cuda_text(text, "false;\n");
      break;
    case HIDDEN_ALWAYS:
      cuda_text(text, "true;\n");
      break;
    case HIDDEN_FIRST:
      cuda_text(text, "h%d;\n", code->a);
      break;
    case HIDDEN_EITHER:
      cuda_text(text, "h%d || h%d;\n", code->a, code->b);
      break;
    case HIDDEN_BOTH:
      cuda_text(text, "h%d && h%d;\n", code->a, code->b);
      break;
    case HIDDEN_CHOICE:
      if (masks->choice[at]) {
        cuda_text(text, "is_false(r%d) ? h%d : is_true(r%d) ? h%d : h%d && h%d;\n", code->a, code->c, code->a, code->b,
                  code->b, code->c);
      } else {
        cuda_text(text, "h%d && h%d;\n", code->b, code->c);
      }
  }
}

static void known_write(CudaText *text, const char *name, const Kernel *kernel, const ScoreMasks *masks, int first) {
  cuda_text(text, "\nDEVICE int %s(const Block &block) {\n", name);
  for (int i = 0; i < kernel->code_count; i++) {
    range_write(text, kernel, masks, first, i);
    hidden_write(text, kernel, masks, i);
  }
  cuda_text(text, "  return h%d ? BLOCK_HIDDEN : true", kernel->code_count - 1);
  for (int i = 0; i < kernel->code_count; i++) {
    if (masks->open[i]) {
      cuda_text(text, " && is_%s(r%d)", masks->open[i] == 1 ? "true" : "false", kernel->code[i].a);
    }
  }
  cuda_text(text, " ? BLOCK_WHOLE : BLOCK_MIXED;\n}\n");
}

// What interval number `first` and on are of: an element of each key, of each query, or one for all.
static void ranged_write(CudaText *text, const Kernel *kernel, const ScoreMasks *masks, int first, int slot) {
  for (int i = 0; i < masks->ranged_count; i++) {
    const int port = masks->ranged[i];
    const int64_t *stride = kernel->port[port].stride;
    const bool by_key = score_by_key(kernel, port);
    cuda_text(text,
              "\ntemplate <>\nstruct Ranged<%d> {\n  static constexpr bool OF_KEYS = %s;\n"
              "  static __device__ __forceinline__ int at(const Slots &slots, int batch, int number) {\n"
              "    return ((const int *)slots.at[%d])[(i64)batch * %" PRId64 "LL + (i64)number * %" PRId64
              "LL];\n  }\n};\n",
              first + i, by_key ? "true" : "false", slot + port - SCORE_CAPTURED, stride[0],
              by_key ? stride[SCORE_DIM_KEY] : stride[SCORE_DIM_QUERY]);
  }
}

static const char blocks_text[] =
    "constexpr Range ANYTHING = {-2147483647 - 1, 2147483647};\n"
    "enum { BLOCK_MIXED, BLOCK_HIDDEN, BLOCK_WHOLE };\n";

static void blocks_write(CudaText *text, const AttentionScores *scores, const ScoreMasks masks[2], int slot) {
  const int first = masks[0].ranged_count, count = first + masks[1].ranged_count;
  cuda_text(text, "\n%s%s", score_ranges_text, blocks_text);
  cuda_text(text, "constexpr bool MASKED = %s, ALONE = %s;\n", masks[0].any ? "true" : "false",
            masks[0].alone ? "true" : "false");
  cuda_text(text, "constexpr int RANGED = %d;\n\nstruct Block {\n  Range query, key, captured[%d];\n};\n", count,
            count > 0 ? count : 1);
  cuda_text(text, "\ntemplate <int I>\nstruct Ranged;\n");
  ranged_write(text, scores->score, &masks[0], 0, slot);
  known_write(text, "made_known", scores->score, &masks[0], 0);
  if (scores->gradient) {
    ranged_write(text, scores->gradient, &masks[1], first, slot + captured_of(scores->score));
    known_write(text, "derived_known", scores->gradient, &masks[1], first);
  }
}

void attention_scores_write(Buffer *text, const AttentionScores *scores, int first_slot, bool low, bool plain,
                            Arena *arena) {
  Generator *g = ARENA_NEW(arena, Generator);
  ScoreMasks *masks = ARENA_ARRAY(arena, ScoreMasks, 2);
  bool part[KERNEL_MAX_CODE];
  double factor;
  masks[0] = masks[1] = (ScoreMasks){0};
  const bool hiding = attention_scores_hide(scores), gradient = scores->gradient && !plain;
  const AttentionScores written = {scores->score, gradient ? scores->gradient : NULL};
  writer_size(text, "SCORED", scores->score != NULL);
  writer_size(text, "HIDING", hiding);
  buffer_format(text, "#define SCORED_TEXT %d\n#define SLOPED_TEXT %d\n#define HIDING_TEXT %d\n", scores->score != NULL,
                gradient, hiding);
  writer_size(text, "CAPTURED", attention_scores_ports(scores));
  *g = (Generator){.arena = arena, .kernel = scores->score, .low = low, .text = {.arena = arena}};
  cuda_text(&g->text, "namespace scores {\n");
  if (scores->score) {
    expression_prelude(g);
  } else {
    cuda_text(&g->text, "typedef float R;\n");
  }
  place_write(&g->text, scores, first_slot);
  if (scores->score) {
    score_masks(scores->score, &masks[0]);
    score_masks_only(scores->score, &masks[0], part, &factor);
    function_write(g, (Function){.name = "made", .masks = &masks[0], .part = plain ? part : NULL, .slot = first_slot});
  }
  if (gradient) {
    g->kernel = scores->gradient;
    score_masks(scores->gradient, &masks[1]);
    function_write(g,
                   (Function){.name = "derived", .masks = &masks[1], .slot = first_slot + captured_of(scores->score)});
  }
  if (scores->score) {
    blocks_write(&g->text, &written, masks, first_slot);
  }
  cuda_text(&g->text, "}  // namespace scores\n");
  buffer_text(text, g->text.text);
}
