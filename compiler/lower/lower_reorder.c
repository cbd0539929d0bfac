// lower_reorder.c: arithmetic that can wait, or need not wait, goes beside collectives whose results are wanted at
// once.
//
// A collective lasts as long as plan/rates.h says, and what the list holds between it and the first instruction that
// touches its memory runs beside it. Where that is too little, first what stands shortly before the collective and is
// nothing that it needs goes behind it: the product of a weight's gradient, say, behind the sum of the data's. Then
// what comes after the first use and does not depend on it goes ahead of that. Neither may leave another collective
// alone that it stands beside. Instructions that touch the same bytes keep their order, so results stay the same to the
// bit; and so do collectives, messages and copies to the host among themselves. The product of a weight's gradient that
// lasts much longer than what it would hide is cut by rows into two: one half goes behind this collective, the other
// stays for another.
#include <string.h>

#include "compiler/lower/touches.h"
#include "compiler/plan/rates.h"

// Instructions, and products among them, that one may pass: what waits keeps its memory.
enum { BEHIND_MOST = 64, BEHIND_PRODUCTS = 16, AHEAD_MOST = 24 };

enum { HALF_ROWS = 2048, HALF_ALIGN = 128 };  // of half a product

static const double HALVED_SECONDS = 3e-4, HIDDEN_SECONDS = 3e-5;  // least, of a product that is cut, for so much

typedef struct {
  Instruction *instruction;
  TouchedList touched;
  double seconds;
  bool ordered;  // keeps its order among its like
  bool stays;    // a gather of what is stored, which lower_beside.c has put one layer ahead
} Item;

typedef struct {
  Lower *l;
  Arena *arena;
  Item *at;
  int count;
} Fill;

static bool is_product(const Item *item) {
  return instruction_multiplies(item->instruction) || instruction_attends(item->instruction);
}

static bool is_collective(const Item *item) {
  return item->instruction->kind == INSTRUCTION_COLLECTIVE && item->instruction->as.collective.ranks > 1;
}

static bool gathers_stored(const Lower *l, const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == COLLECTIVE_ALL_GATHER &&
         l->buffers.at[touches_buffer(&instruction->as.collective.from)].arena == ARENA_PERSISTENT;
}

static Item item_of(Lower *l, Instruction *instruction) {
  const bool computes = instruction_computes(instruction);
  return (Item){.instruction = instruction,
                .touched = touches_of(l, instruction),
                .seconds = computes ? rates_work(&plan_rates, instruction) : rates_seconds(&plan_rates, instruction),
                .ordered = !computes,
                .stays = gathers_stored(l, instruction)};
}

static bool conflict(const Fill *f, int i, int j) {
  return touches_conflict(&f->at[i].touched, &f->at[j].touched);
}

// Does an instruction before `end` wait for a collective, and is it behind `from`?
static bool used_between(const Fill *f, int at, int from, int end) {
  int use = at + 1;
  while (use < end && use < f->count && !conflict(f, at, use)) {
    use++;
  }
  return use > from && use < end && use < f->count;
}

// Seconds of a collective for which nothing stands beside it, once `gone` and those that go (NULL: none) have left it;
// not more than 0 if none are. Collectives right before it take their time first.
static double alone(const Fill *f, int at, int gone, const bool *goes) {
  double seconds = f->at[at].seconds;
  for (int i = at - 1; i >= 0 && is_collective(&f->at[i]); i--) {
    seconds += f->at[i].seconds;
  }
  for (int i = at + 1; i < f->count && seconds > 0 && !conflict(f, at, i); i++) {
    seconds -= f->at[i].ordered || i == gone || (goes && goes[i]) ? 0 : f->at[i].seconds;
  }
  return seconds;
}

// May instruction `i` leave, for a place behind `end` if that is behind it and else for one before `begin`, what
// collectives have beside them, if others leave it too?
static bool may_leave(const Fill *f, int i, int begin, int end, const bool *goes) {
  for (int d = i - 1; d >= begin && d > i - BEHIND_MOST; d--) {
    if (is_collective(&f->at[d]) && used_between(f, d, i, end) && alone(f, d, i, goes) > 0) {
      return false;
    }
  }
  return true;
}

// --- from before a collective to behind it ---

// What the collective needs, or what reads or writes what it needs before that: they stay.
static void find_needed(const Fill *f, int begin, int at, bool *needed) {
  needed[at] = true;
  for (int i = at - 1; i >= begin; i--) {
    needed[i] = false;
    for (int j = i + 1; j <= at && !needed[i]; j++) {
      needed[i] = needed[j] && conflict(f, i, j);
    }
  }
}

// What has to go with instruction `first`, marked in `goes`; false: it cannot go.
static bool go_with(const Fill *f, int first, int at, const bool *needed, bool *goes) {
  bool *more = ARENA_ARRAY(f->arena, bool, at - first + 1);
  more[0] = true;
  for (int i = first + 1; i < at; i++) {
    more[i - first] = goes[i];
    for (int j = first; j < i && !more[i - first]; j++) {
      more[i - first] = more[j - first] && conflict(f, i, j);
    }
    if (more[i - first] && (needed[i] || f->at[i].ordered)) {
      return false;
    }
  }
  for (int i = first; i < at; i++) {
    goes[i] |= more[i - first];
  }
  return true;
}

// Returns where the collective is afterwards.
static int put_behind(Fill *f, int begin, int at, const bool *goes) {
  Item *passed = ARENA_ARRAY(f->arena, Item, at - begin + 2);
  int kept = begin, count = 0;
  for (int i = begin; i <= at; i++) {
    if (i < at && goes[i]) {
      passed[count++] = f->at[i];
    } else {
      f->at[kept++] = f->at[i];
    }
  }
  memcpy(&f->at[kept], passed, sizeof *passed * (size_t)count);
  return kept - 1;
}

// From where on instructions may go behind another.
static int begin_behind(const Fill *f, int at) {
  int begin = at;
  for (int products = 0; begin > 0 && at - begin < BEHIND_MOST && products < BEHIND_PRODUCTS; begin--) {
    products += is_product(&f->at[begin - 1]);
  }
  return begin;
}

// Is a product to be cut by rows into two, of which one hides what is left of a collective?
static bool has_halves(const Fill *f, const Item *item, double left) {
  const Gemm *gemm = &item->instruction->as.gemm;
  const int64_t forced = f->l->c->part_rows, rows = forced > 0 ? forced : HALF_ROWS;
  const bool pays =
      forced > 0 || (item->seconds >= HALVED_SECONDS && left >= HIDDEN_SECONDS && item->seconds >= 2 * left);
  return pays && item->instruction->kind == INSTRUCTION_GEMM && gemm->transpose_a && gemm->batch_count == 0 &&
         gemm->epilogue == EPILOGUE_NONE && !gemm_scaled(gemm) && item->instruction->parts == 0 &&
         gemm->m % (forced > 0 ? 2 : 2 * HALF_ALIGN) == 0 && gemm->m / 2 >= rows;
}

static Item half_of(const Fill *f, const Item *whole, int number) {
  Instruction *half = ARENA_NEW(f->arena, Instruction);
  *half = *whole->instruction;
  Gemm *gemm = &half->as.gemm;
  const double of_b = (double)(gemm->n * gemm->k * element_type_bytes(gemm->type));  // which both read
  gemm->m /= 2;
  gemm->a.offset += number * gemm->m * element_type_bytes(gemm->type);
  gemm->c.offset += number * gemm->m * gemm->ldc * element_type_bytes(gemm->type_c);
  half->parts = 2;
  half->flops /= 2;
  half->bytes = (half->bytes - of_b) / 2 + of_b;
  return item_of(f->l, half);
}

// Cuts an instruction into two that follow each other.
static void halve(Fill *f, int at) {
  const Item whole = f->at[at];
  memmove(&f->at[at + 2], &f->at[at + 1], sizeof whole * (size_t)(f->count - at - 1));
  f->at[at] = half_of(f, &whole, 0);
  f->at[at + 1] = half_of(f, &whole, 1);
  f->count++;
}

// Returns where the collective is afterwards.
static int fill_from_before(Fill *f, int at) {
  const int begin = begin_behind(f, at);
  double left = alone(f, at, at, NULL);
  if (left <= 0) {
    return at;
  }
  bool *needed = ARENA_ARRAY(f->arena, bool, 2 * f->count + 1), *goes = ARENA_ARRAY(f->arena, bool, 2 * f->count + 1);
  find_needed(f, begin, at, needed);
  for (int others = 0; others < 2; others++) {  // products first
    for (int i = at - 1; i >= begin && left > 0; i--) {
      const Item *item = &f->at[i];
      const bool may = !needed[i] && !goes[i] && !item->ordered && is_product(item) == !others;
      if (!may || !may_leave(f, i, 0, at + 1, goes)) {
        continue;
      }
      if (has_halves(f, item, left)) {
        halve(f, i);
        memmove(&needed[i + 1], &needed[i], sizeof *needed * (size_t)(at - i + 1));
        memmove(&goes[i + 1], &goes[i], sizeof *goes * (size_t)(at - i));
        at++;
        i++;
      }
      if (go_with(f, i, at, needed, goes)) {
        left -= f->at[i].seconds;
      }
    }
  }
  return put_behind(f, begin, at, goes);
}

// --- from behind the first use to before it ---

static bool may_pass(const Fill *f, int i, int use) {
  bool may = true;
  for (int j = use; j < i && may; j++) {
    may = !conflict(f, i, j) && !(f->at[i].ordered && f->at[j].ordered);
  }
  return may;
}

// Returns where the collective is, which has not moved.
static int fill_from_behind(Fill *f, int at) {
  double left = alone(f, at, at, NULL);
  int use = at + 1;
  while (left > 0 && use < f->count && !conflict(f, at, use)) {
    use++;
  }
  for (int i = use + 1; i < f->count && i < at + AHEAD_MOST && left > 0; i++) {
    const bool moves = !f->at[i].ordered || (is_collective(&f->at[i]) && !f->at[i].stays);
    if (moves && may_leave(f, i, use, i + AHEAD_MOST, NULL) && may_pass(f, i, use)) {
      const Item item = f->at[i];
      memmove(&f->at[use + 1], &f->at[use], sizeof item * (size_t)(i - use));
      f->at[use++] = item;
      left -= item.ordered ? 0 : item.seconds;
    }
  }
  return at;
}

void lower_reorder(Lower *l) {
  for (int s = 0; s < l->segments.count; s++) {
    InstructionList *list = &l->segments.at[s]->list;
    Fill f = {l, l->c->arena, ARENA_ARRAY(l->c->arena, Item, 2 * list->count + 1), list->count};
    for (int i = 0; i < f.count; i++) {
      f.at[i] = item_of(l, &list->at[i]);
    }
    for (int i = 0; i < f.count; i++) {
      i = is_collective(&f.at[i]) && !f.at[i].stays ? fill_from_behind(&f, fill_from_before(&f, i)) : i;
    }
    InstructionList made = {0};
    for (int i = 0; i < f.count; i++) {
      array_push(l->c->arena, &made, *f.at[i].instruction);
    }
    *list = made;
  }
}
