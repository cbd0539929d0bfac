// explain_part.h: the sections of explain.c, one file each, and what they share.
#ifndef MDL_COMPILER_REPORT_EXPLAIN_PART_H
#define MDL_COMPILER_REPORT_EXPLAIN_PART_H

#include "compiler/plan/exposure.h"
#include "compiler/report/explain.h"
#include "compiler/report/explain_table.h"
#include "compiler/report/explain_traffic.h"

void explain_parameters(const Explain *explain, Buffer *out);
void explain_products(const Explain *explain, Buffer *out);
void explain_experts(const Explain *explain, Buffer *out);
void explain_quantised(const Explain *explain, Buffer *out);
void explain_values(const Explain *explain, Buffer *out);
void explain_collectives(const Explain *explain, const TrafficList *traffic, Buffer *out);
void explain_totals(const Explain *explain, const TrafficList *traffic, Buffer *out);
void explain_compressed(const Explain *explain, Buffer *out);
void explain_overlap(const Explain *explain, Buffer *out);
void explain_splits(const Explain *explain, Buffer *out);
void explain_pipeline(const Explain *explain, Buffer *out);
void explain_memory(const Explain *explain, Buffer *out);

enum {
  NEED_PARAMETERS,
  NEED_STATE,
  NEED_COPIES,  // of parameters, in the format in which they are multiplied
  NEED_GRADIENTS,
  NEED_FLYING,
  NEED_SHARED,
  NEED_WORKING,
  NEED_HOST,
  NEED_OFFLOAD,  // beside the total: in the memory of the host
  NEED_COUNT
};

typedef struct {  // bytes on one rank of a stage
  double part[NEED_COUNT], total;
  int64_t stage;
  const char *peak;  // the segment with most values of its own
} Need;

Need explain_need(const Explain *explain, int stage);

// explain_overlap.c: of a rank of each stage, reckoned (exposure.h).
void explain_exposures(const Explain *explain, Exposure *of);

// Of a step, each segment once; of all stages together.
typedef struct {
  int64_t products;              // that are cut into parts by rows
  int64_t sums;                  // over more than two ranks, cut with such a product
  int64_t bucket_sums, buckets;  // over more than two ranks, cut into buckets; into how many in all
} Splits;

// explain_splits.c
Splits explain_splits_of(const Explain *explain);

typedef struct {
  int64_t instructions, products;
  int64_t batched;   // products of more than one pair of matrices
  int64_t split;     // of these, those that could be one of larger matrices, and are thin
  int64_t separate;  // the pairs of matrices that they are made of
  int64_t m, n, k;   // the least of all products
  int64_t copies;    // kernels that only move a value
  double copied;     // their bytes
  double moved;      // bytes that products, kernels and other moves on a rank read and write
  double ideal;      // the same without copies, and with no product split
} Work;

// explain_work.c: of a training step.
Work explain_work(const PlanSet *set);

static inline const Plan *explain_first(const Explain *explain) {
  return explain->set->plans[0];
}

// "0..3, 7" of numbers in ascending order.
const char *explain_numbers(Arena *arena, const int64_t *numbers, int count);

// The mesh axes as "dp, cp".
const char *explain_mesh(Arena *arena, const Plan *plan, uint32_t mesh);

// The line of a span as "file:line", the text of the library being std/nn.mdl; "" for none.
const char *explain_line(const Explain *explain, Span span);

#endif
