// rates.c: see rates.h. Where each figure is from stands in docs/performance.md, "Rates".
#include "compiler/plan/rates.h"

const PlanRates plan_rates = {.gpu = "H200",
                              .flops_8 = 1150e12,
                              .flops_16 = 700e12,
                              .flops_tf32 = 350e12,
                              .flops_32 = 50e12,
                              .attention_16 = 390e12,
                              .bytes = 4.0e12,
                              .host = 50e9,
                              .sent = 330e9,
                              .instruction = 2e-6,
                              .collective = 10e-6};

double instruction_sends(const Instruction *instruction) {
  if (instruction->kind == INSTRUCTION_SEND) {
    const Transfer *transfer = &instruction->as.transfer;
    return (double)transfer->count * (double)element_type_bytes(transfer->type);
  }
  if (instruction->kind != INSTRUCTION_COLLECTIVE) {
    return 0;
  }
  const Collective *collective = &instruction->as.collective;
  const double part = (double)collective->count * (double)element_type_bytes(collective->type);
  const double others = collective->ranks - 1;
  return collective->kind == COLLECTIVE_ROTATE       ? part
         : collective->kind == COLLECTIVE_ALL_REDUCE ? 2 * others / collective->ranks * part
                                                     : others * part;
}

static double rate_of(const PlanRates *rates, const Instruction *instruction) {
  const bool gemm = instruction->kind == INSTRUCTION_GEMM, product = instruction_multiplies(instruction);
  const bool attention = instruction_attends(instruction);
  const bool tf32 = gemm ? instruction->as.gemm.tf32 : product && instruction->as.grouped.tf32;
  const ElementType type = gemm        ? instruction->as.gemm.type
                           : product   ? instruction->as.grouped.type
                           : attention ? instruction->as.attention.type
                                       : TYPE_F32;
  const int64_t bytes = element_type_bytes(type);
  return attention && bytes < 4 ? rates->attention_16
         : bytes == 1           ? rates->flops_8
         : bytes < 4            ? rates->flops_16
         : tf32                 ? rates->flops_tf32
                                : rates->flops_32;
}

double rates_work(const PlanRates *rates, const Instruction *instruction) {
  const double arithmetic = instruction->flops / rate_of(rates, instruction);
  const double memory = instruction->bytes / rates->bytes;
  return !instruction_computes(instruction) ? 0 : arithmetic > memory ? arithmetic : memory;
}

double rates_seconds(const PlanRates *rates, const Instruction *instruction) {
  switch (instruction->kind) {
    case INSTRUCTION_COLLECTIVE:
      if (instruction->as.collective.ranks == 1) {
        return rates->instruction;
      }
      return rates->collective + instruction_sends(instruction) / rates->sent;
    case INSTRUCTION_SEND:
      return rates->collective + instruction_sends(instruction) / rates->sent;
    case INSTRUCTION_OFFLOAD:
    case INSTRUCTION_FETCH:
      return rates->instruction + (double)instruction->as.offload.bytes / rates->host;
    default:
      return rates->instruction + rates_work(rates, instruction);
  }
}
