// lower_parts.c: products and the collectives that they wait for, or that wait for them, in parts: the collective of
// one part runs beside the product of another.
//
// Of a gather whose result is multiplied, part c is the c-th part of every rank's rows. The gathered parts lie one
// after the other, each with the blocks of its ranks, which nobody sees but these products: they read a part as it
// lies, and write its blocks where they belong, as a batch. A product whose rows are summed over ranks and scattered is
// cut likewise: part c holds the c-th part of the rows of every rank, so that scattering it gives a rank the c-th part
// of its rows. A sum that all ranks keep is cut by rows simply. Nothing is copied, and no row is multiplied or summed
// otherwise than in the whole.
//
// What already has enough arithmetic beside it (lower_reorder.c) stays whole, and so does what takes longer in parts by
// the times of touches.h.
#include "base/integer.h"
#include "compiler/lower/touches.h"
#include "compiler/plan/rates.h"

enum { LEAST_ROWS = 2048, MOST_PARTS = 4 };  // of a product in parts

// A library's kernel makes a tile on each unit of a GPU at a time.
enum { TILE_ROWS = 128, TILE_COLUMNS = 256, UNITS = 132 };

static const double PART_SECONDS = 8e-6;  // what each part takes more: it begins, and ends with idle units

typedef struct {
  int parts, ranks;
  int64_t part;    // rows of a rank's block, or of the whole sum, in each
  bool batch;      // of ranks' blocks
  bool collected;  // the rows of the product come in that order, else they are made in it
} Cut;

typedef struct {
  Lower *l;
  BufferTouches *of;  // by buffer
  const InstructionList *list;
  int segment;
  Cut *cut;   // by instruction of the list
  int *with;  // of a collective behind a product: which
} Parts;

static bool is_product(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GEMM;
}

// Rows without gaps; a batch would have to become one more.
static bool is_plain(const Gemm *gemm) {
  return gemm->batch_count == 0 && gemm->write == WRITE_STORE && gemm->block == 0;
}

// Seconds of a collective for which nothing stands beside it.
static double alone(const Parts *p, int at) {
  const TouchedList own = touches_of(p->l, &p->list->at[at]);
  double seconds = rates_seconds(&plan_rates, &p->list->at[at]);
  for (int i = at + 1; i < p->list->count && seconds > 0; i++) {
    const TouchedList other = touches_of(p->l, &p->list->at[i]);
    if (touches_conflict(&own, &other)) {
      break;
    }
    seconds -= rates_work(&plan_rates, &p->list->at[i]);
  }
  return seconds;
}

// How often all units make a tile, for a product of `blocks` times so many rows.
static double rounds(const Gemm *gemm, int64_t rows, int64_t blocks) {
  return (double)blocks_of(blocks * blocks_of(rows, TILE_ROWS) * blocks_of(gemm->n, TILE_COLUMNS), UNITS);
}

// In how many parts a product of `blocks` blocks of rows takes the least time, beside a collective that has nothing
// else beside it for `alone` seconds; 1: in none.
static int best_parts(const Parts *p, const Instruction *product, int64_t blocks, double alone) {
  const Gemm *gemm = &product->as.gemm;
  const int64_t forced = p->l->c->part_rows, least = forced > 0 ? forced : LEAST_ROWS, rows = gemm->m / blocks;
  const double whole = rates_work(&plan_rates, product);
  double best_time = whole + alone;
  int best = 1;
  for (int parts = 2; parts <= MOST_PARTS; parts++) {
    const double made = whole * parts * rounds(gemm, rows / parts, blocks) / rounds(gemm, rows, blocks);
    const double shorter = made < alone ? made : alone, longer = made + alone - shorter;
    const double time = longer + shorter / parts + parts * PART_SECONDS;
    if (rows % parts == 0 && rows / parts * blocks >= least && (forced > 0 || time < 0.98 * best_time)) {
      best_time = time;
      best = parts;
    }
  }
  return best;
}

// --- collectives behind products ---

// Which product alone makes what a collective reads, rows without gaps from the beginning of the buffer; -1: none does.
// What a sum reads may be read afterwards.
static int product_before(const Parts *p, int at) {
  const Collective *collective = &p->list->at[at].as.collective;
  const BufferTouches *touches = &p->of[touches_buffer(&collective->from)];
  const bool sum = collective->kind == COLLECTIVE_ALL_REDUCE;
  int made = -1;
  for (int i = 0; i < touches->count; i++) {
    const BufferTouch *touch = &touches->at[i];
    if (touch->segment != p->segment || (touch->at > at && !sum) || (touch->at < at && made >= 0)) {
      return -1;
    }
    made = touch->at < at ? touch->at : made;
  }
  if (made < 0 || !is_product(&p->list->at[made])) {
    return -1;
  }
  const Gemm *gemm = &p->list->at[made].as.gemm;
  const int64_t blocks = collective->kind == COLLECTIVE_REDUCE_SCATTER ? collective->ranks : 1;
  const bool whole = is_plain(gemm) && gemm->ldc == gemm->n && gemm->m * gemm->n == collective->count * blocks &&
                     gemm->m % blocks == 0 && gemm->type_c == collective->type &&
                     touches_buffer(&gemm->c) == touches_buffer(&collective->from) &&
                     gemm->c.offset == collective->from.offset && gemm->c.term == 0 && collective->from.term == 0 &&
                     (blocks == 1 || gemm->epilogue == EPILOGUE_NONE);
  return whole ? made : -1;
}

// Whether nothing between them touches what the collective writes.
static bool can_begin_behind(const Parts *p, int product, int at) {
  const TouchedList own = touches_of(p->l, &p->list->at[at]);
  for (int i = product + 1; i < at; i++) {
    const TouchedList other = touches_of(p->l, &p->list->at[i]);
    if (touches_conflict(&own, &other)) {
      return false;
    }
  }
  return true;
}

static void cut_behind(Parts *p, int at) {
  const Collective *collective = &p->list->at[at].as.collective;
  const bool sum = collective->kind == COLLECTIVE_ALL_REDUCE;
  const int product = product_before(p, at);
  if (product < 0 || p->cut[product].parts > 1 || !can_begin_behind(p, product, at)) {
    return;
  }
  const Gemm *gemm = &p->list->at[product].as.gemm;
  const int blocks = sum ? 1 : collective->ranks;
  const int parts = best_parts(p, &p->list->at[product], blocks, alone(p, at));
  if (parts > 1) {
    p->cut[product] = p->cut[at] = (Cut){parts, blocks, gemm->m / blocks / parts, !sum, false};
    p->with[product] = at;
  }
}

// --- gathers before products ---

// Whether an instruction multiplies what a collective gathers, its rows as they lie, and does nothing else with it.
static bool multiplies(const Instruction *instruction, const Collective *gather) {
  const Gemm *gemm = &instruction->as.gemm;
  return is_product(instruction) && is_plain(gemm) && gemm->epilogue == EPILOGUE_NONE && !gemm->transpose_a &&
         gemm->lda == gemm->k && gemm->m * gemm->k == gather->count * gather->ranks && gemm->m % gather->ranks == 0 &&
         gemm->type == gather->type && gemm->a.offset == gather->to.offset && gemm->a.term == 0 &&
         touches_buffer(&gemm->a) == touches_buffer(&gather->to) &&
         touches_buffer(&gemm->b) != touches_buffer(&gather->to) &&
         touches_buffer(&gemm->c) != touches_buffer(&gather->to);
}

// Of what a rank gives, as a product has them; of the collective itself 0.
static int64_t rows_of_block(const Parts *p, int at, const Collective *gather) {
  const Instruction *instruction = &p->list->at[at];
  return is_product(instruction) ? instruction->as.gemm.m / gather->ranks : 0;
}

static void cut_before(Parts *p, int at) {
  const Collective *gather = &p->list->at[at].as.collective;
  const BufferTouches *touches = &p->of[touches_buffer(&gather->to)];
  int first = p->list->count;
  bool good = gather->to.term == 0 && gather->from.term == 0;
  for (int i = 0; i < touches->count && good; i++) {
    const BufferTouch *touch = &touches->at[i];
    const bool reads = touch->segment == p->segment && touch->at > at && p->cut[touch->at].parts <= 1 &&
                       multiplies(&p->list->at[touch->at], gather);
    good = (touch->segment == p->segment && touch->at == at) || reads;
    first = reads && touch->at < first ? touch->at : first;
  }
  if (!good || first == p->list->count) {
    return;
  }
  // Products may take what is gathered as different rows, such as one of two positions and of both as one.
  const int parts = best_parts(p, &p->list->at[first], gather->ranks, alone(p, at));
  bool whole = true;
  for (int i = 0; i < touches->count; i++) {
    whole &= rows_of_block(p, touches->at[i].at, gather) % parts == 0;
  }
  for (int i = 0; i < touches->count && parts > 1 && whole; i++) {
    const int64_t rows = rows_of_block(p, touches->at[i].at, gather);
    p->cut[touches->at[i].at] = (Cut){parts, gather->ranks, rows / parts, true, true};
  }
}

// --- the parts ---

static Instruction product_part(const Instruction *whole, const Cut *cut, int number) {
  Instruction out = *whole;
  Gemm *gemm = &out.as.gemm;
  const int64_t row_a = gemm->transpose_a ? 1 : gemm->lda, bytes = element_type_bytes(gemm->type);
  const int64_t bytes_c = element_type_bytes(gemm->type_c);
  const int64_t apart = gemm->m / cut->ranks;               // the rows of a block
  const double of_b = (double)(gemm->n * gemm->k * bytes);  // which every part reads
  gemm->m = cut->part;
  out.parts = cut->parts;
  out.flops /= cut->parts;
  out.bytes = (out.bytes - of_b) / cut->parts + of_b;
  if (!cut->batch) {
    gemm->a.offset += number * cut->part * row_a * bytes;
    gemm->c.offset += number * cut->part * gemm->ldc * bytes_c;
    return out;
  }
  const int64_t together = number * cut->part * cut->ranks, spread = number * cut->part;
  gemm->batch_count = 1;
  gemm->batch[0] = cut->ranks;
  gemm->stride_a[0] = (cut->collected ? cut->part : apart) * row_a;
  gemm->stride_b[0] = 0;
  gemm->stride_c[0] = (cut->collected ? apart : cut->part) * gemm->ldc;
  gemm->a.offset += (cut->collected ? together : spread) * row_a * bytes;
  gemm->c.offset += (cut->collected ? spread : together) * gemm->ldc * bytes_c;
  return out;
}

static Instruction collective_part(const Instruction *whole, const Cut *cut, int number) {
  Instruction out = *whole;
  Collective *collective = &out.as.collective;
  const int64_t bytes = element_type_bytes(collective->type);
  collective->count /= cut->parts;
  const int64_t own = number * collective->count * bytes, all = own * (cut->batch ? cut->ranks : 1);
  collective->from.offset += collective->kind == COLLECTIVE_ALL_GATHER ? own : all;
  collective->to.offset += collective->kind == COLLECTIVE_REDUCE_SCATTER ? own : all;
  out.bytes /= cut->parts;
  out.parts = cut->parts;
  return out;
}

static InstructionList list_of_parts(const Parts *p) {
  Arena *arena = p->l->c->arena;
  InstructionList made = {0};
  for (int i = 0; i < p->list->count; i++) {
    const Instruction *whole = &p->list->at[i];
    const Cut *cut = &p->cut[i];
    if (cut->parts <= 1) {
      array_push(arena, &made, *whole);
      continue;
    }
    const bool before = whole->kind == INSTRUCTION_COLLECTIVE && !cut->collected;  // all parts but its last are there
    for (int number = before ? cut->parts - 1 : 0; number < cut->parts; number++) {
      array_push(arena, &made,
                 whole->kind == INSTRUCTION_COLLECTIVE ? collective_part(whole, cut, number)
                                                       : product_part(whole, cut, number));
      if (whole->kind == INSTRUCTION_GEMM && !cut->collected && number + 1 < cut->parts) {
        array_push(arena, &made, collective_part(&p->list->at[p->with[i]], cut, number));
      }
    }
  }
  return made;
}

void lower_parts(Lower *l) {
  Parts p = {.l = l, .of = touches_by_buffer(l)};
  for (int s = 0; s < l->segments.count; s++) {
    InstructionList *list = &l->segments.at[s]->list;
    p.list = list;
    p.segment = s;
    p.cut = ARENA_ARRAY(l->c->arena, Cut, list->count + 1);
    p.with = ARENA_ARRAY(l->c->arena, int, list->count + 1);
    for (int i = 0; i < list->count; i++) {
      const Collective *collective = &list->at[i].as.collective;
      const bool several = list->at[i].kind == INSTRUCTION_COLLECTIVE && collective->ranks > 1;
      if (several && (collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER)) {
        cut_behind(&p, i);
      } else if (several && collective->kind == COLLECTIVE_ALL_GATHER) {
        cut_before(&p, i);
      }
    }
    *list = list_of_parts(&p);
  }
}
