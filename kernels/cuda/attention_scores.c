// attention_scores.c: see attention_scores.h.
#include "kernels/cuda/attention_scores.h"

#include <assert.h>
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"
#include "kernels/cuda/writer.h"

static int captured_of(const Kernel *kernel) {
  return kernel ? kernel->port_count - SCORE_CAPTURED : 0;
}

int attention_scores_ports(const AttentionScores *scores) {
  return captured_of(scores->score) + captured_of(scores->gradient);
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

static void code_write(Generator *g, int at, int slot) {
  const KernelInstruction *code = &g->kernel->code[at];
  cuda_text(&g->text, "  ");
  switch (code->op) {
    case KERNEL_LOAD:
      if (code->port >= SCORE_CAPTURED) {
        load_write(g, at, slot);
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

static void function_write(Generator *g, const char *name, int slot) {
  cuda_text(&g->text,
            "\nDEVICE R %s(const ScoreAt &at, R dot, R gradient, int query, int key, int query_position, int "
            "key_position) {\n",
            name);
  for (int i = 0; i < g->kernel->code_count; i++) {
    code_write(g, i, slot);
  }
  cuda_text(&g->text, "}\n");
}

void attention_scores_write(Buffer *text, const AttentionScores *scores, int first_slot, bool low, Arena *arena) {
  Generator *g = ARENA_NEW(arena, Generator);
  writer_size(text, "SCORED", scores->score != NULL);
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
    function_write(g, "made", first_slot);
  }
  if (scores->gradient) {
    g->kernel = scores->gradient;
    function_write(g, "derived", first_slot + captured_of(scores->score));
  }
  cuda_text(&g->text, "}  // namespace scores\n");
  buffer_text(text, g->text.text);
}
