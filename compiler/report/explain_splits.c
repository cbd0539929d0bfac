// explain_splits.c: which sums a step may make otherwise than with `overlap = false`.
//
// What stands beside arithmetic is reordered and cut. Reordering leaves every sum as it is, and so does cutting by
// rows, as far as plans say it. But libraries go by sizes: that of products may have another algorithm for fewer rows,
// and NCCL adds what ranks have in an order that goes by the size of a message and the place in it. Two ranks have one
// order only, and of maxima it does not matter.
#include <string.h>

#include "compiler/report/explain_part.h"

enum { MOST_PARTS = 64 };  // far more than lower_parts.c makes

static bool is_sum(const Instruction *instruction) {
  const Collective *collective = &instruction->as.collective;
  return instruction->kind == INSTRUCTION_COLLECTIVE && collective->reduce == REDUCE_SUM && collective->ranks > 2 &&
         element_type_floating(collective->type) &&
         (collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER);
}

// Sums of which a segment has several parts that are no rows of a product.
static void add_buckets(const Explain *explain, const PlanSegment *segment, Splits *out) {
  int *parts = ARENA_ARRAY(explain->arena, int, segment->count + 1);
  for (int i = 0; i < segment->count; i++) {
    const Instruction *at = &segment->instructions[i];
    const bool part = is_sum(at) && at->parts == 0;
    parts[at->number] += part;
    out->bucket_sums += part && parts[at->number] == 2;
    out->buckets += !part ? 0 : parts[at->number] == 2 ? 2 : parts[at->number] > 2;
  }
}

Splits explain_splits_of(const Explain *explain) {
  int products[MOST_PARTS] = {0}, sums[MOST_PARTS] = {0};
  Splits splits = {0};
  for (int p = 0; p < explain->set->count; p++) {
    const Plan *plan = explain->set->plans[p];
    const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
    bool *seen = ARENA_ARRAY(explain->arena, bool, plan->segment_count + 1);
    for (int c = 0; c < train->call_count; c++) {
      const PlanSegment *segment = &plan->segments[train->calls[c].segment];
      for (int i = 0; i < segment->count && !seen[train->calls[c].segment]; i++) {
        const Instruction *at = &segment->instructions[i];
        products[at->parts] += at->kind == INSTRUCTION_GEMM;
        sums[at->parts] += is_sum(at);
      }
      if (!seen[train->calls[c].segment]) {
        add_buckets(explain, segment, &splits);
      }
      seen[train->calls[c].segment] = true;
    }
  }
  for (int parts = 2; parts < MOST_PARTS; parts++) {
    splits.products += products[parts] / parts;
    splits.sums += sums[parts] / parts;
  }
  return splits;
}

static void add_line(Buffer *out, int64_t count, const char *what, const char *why) {
  if (count > 0) {
    buffer_format(out, "  %lld %s: %s\n", (long long)count, what, why);
  }
}

void explain_splits(const Explain *explain, Buffer *out) {
  static const char *const nccl = "with more than two ranks NCCL adds in an order that goes by size and place";
  const Splits splits = explain_splits_of(explain);
  if (!explain->view->spec->overlap) {
    return;
  }
  if (splits.products + splits.sums + splits.buckets == 0) {
    buffer_text(out, "\nwith overlap = false all sums are the same\n");
    return;
  }
  buffer_text(out, "\nwhat may be summed otherwise than with overlap = false, where libraries go by size\n");
  add_line(out, splits.products, "products in parts by rows",
           "the library of products may have another algorithm for fewer rows");
  add_line(out, splits.sums, "sums over ranks in parts by rows", nccl);
  add_line(out, splits.bucket_sums,
           arena_format(explain->arena, "sums over ranks in %lld buckets", (long long)splits.buckets), nccl);
}
