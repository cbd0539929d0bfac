// rates.h: how long instructions are supposed to take: the one table of that, for what places collectives beside
// arithmetic (lower_reorder.c, lower_parts.c) and for what reckons steps (simulate.c).
//
// It need not be right: what is asked is whether arithmetic lasts as long as the collective beside it, and which of two
// layouts communicates more. It predicts no GPU.
#ifndef MDL_COMPILER_PLAN_RATES_H
#define MDL_COMPILER_PLAN_RATES_H

#include "compiler/plan/plan.h"

// A second of a GPU and of what joins it to the others.
typedef struct {
  const char *gpu;
  double flops_8, flops_16, flops_tf32, flops_32;  // of products in formats of 8 and 16 bits, in TF32, in f32 or f64
  double attention_16;                             // of attention in 16 bits
  double bytes;                                    // of memory, read and written
  double host;                                     // copied to or from the memory of the host
  double sent;                                     // by one rank, in one direction
  double instruction, collective;                  // seconds that one takes at least
} PlanRates;

extern const PlanRates plan_rates;

// Bytes that a rank sends for it, collectives as rings: an all-reduce of S bytes among n ranks sends 2 (n - 1) / n S,
// an all-gather to, a reduce-scatter from, an all-to-all of S bytes (n - 1) / n S, a rotation all of them.
double instruction_sends(const Instruction *instruction);

// Of one run that waits for nothing; of a message until it has arrived.
double rates_seconds(const PlanRates *rates, const Instruction *instruction);

// Of these the seconds in which it computes: without its beginning, so that what is to hide a collective is rather more
// than less.
double rates_work(const PlanRates *rates, const Instruction *instruction);

#endif
