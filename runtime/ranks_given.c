// ranks_given.c: what ranks give to collectives and messages: noted for whoever compares, and made wrong for tests.
#include <stdlib.h>
#include <xxhash.h>

#include "runtime/ranks_internal.h"

static _Atomic int64_t gifts;  // of all ranks of the process, one after the other

// How often `count` elements lie where a rank gives them.
static int64_t blocks_given(const Instruction *instruction) {
  const Collective *collective = &instruction->as.collective;
  const bool each = instruction->kind == INSTRUCTION_COLLECTIVE &&
                    (collective->kind == COLLECTIVE_REDUCE_SCATTER || collective->kind == COLLECTIVE_ALL_TO_ALL);
  return each ? collective->ranks : 1;
}

static void add(RanksGivenList *list, RanksGiven given) {
  if (list->count == list->capacity) {
    const int64_t capacity = list->capacity ? 2 * list->capacity : 64;
    RanksGiven *at = realloc(list->at, (size_t)capacity * sizeof *at);
    if (!at) {
      list->failed = true;
      return;
    }
    list->at = at;
    list->capacity = capacity;
  }
  list->at[list->count++] = given;
}

void ranks_give(Ranks *ranks, int64_t rank, const Instruction *instruction, const void *memory, ElementType type,
                int64_t count) {
  const RanksFault *fault = &ranks->options.fault;
  if (fault->kind == RANKS_FLIP && fault->rank == rank && ranks->rank[rank].operations + 1 == fault->at && count > 0) {
    unsigned char *byte = (unsigned char *)(uintptr_t)memory;  // nothing else writes there now
    *byte ^= 1;
  }
  if (ranks->given) {
    const size_t bytes = (size_t)(count * element_type_bytes(type) * blocks_given(instruction));
    add(&ranks->given[rank], (RanksGiven){instruction, XXH3_64bits(memory, bytes), gifts++});
  }
}

void ranks_note(Ranks *ranks, RanksGivenList *lists) {
  ranks->given = lists;
}
