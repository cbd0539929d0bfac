// mutants_plan.c: plans that are wrong in one place.
//
// A collective that is left out keeps what its own rank has: to = from, its own block of from, or its own part for all.
// Doing a maximum, a gather or an exchange twice changes nothing, so these are not among the mutants.
#include <stdio.h>
#include <string.h>

#include "tests/mutants.h"

typedef struct {
  Arena *arena;
  const PlanSet *set;
  const Mutant *mutant;
} Change;

static Instruction *instruction_at(const Change *change) {
  const Mutant *mutant = change->mutant;
  return &change->set->plans[mutant->stage]->segments[mutant->segment].instructions[mutant->at];
}

// --- collectives and messages ---

// Makes room for `count` instructions behind one, and returns the first of them.
static Instruction *room_behind(const Change *change, int count) {
  PlanSegment *segment = &change->set->plans[change->mutant->stage]->segments[change->mutant->segment];
  Instruction *all = ARENA_ARRAY(change->arena, Instruction, segment->count + count);
  memcpy(all, segment->instructions, sizeof *all * (size_t)(change->mutant->at + 1));
  memcpy(all + change->mutant->at + 1 + count, segment->instructions + change->mutant->at + 1,
         sizeof *all * (size_t)(segment->count - change->mutant->at - 1));
  segment->instructions = all;
  segment->count += count;
  return all + change->mutant->at + 1;
}

// A copy on each rank: a collective of a group of one.
static Instruction copy_of(const Instruction *instruction, int64_t count) {
  Instruction copy = *instruction;
  copy.as.collective.kind = COLLECTIVE_ALL_REDUCE;
  copy.as.collective.mesh = 0;
  copy.as.collective.ranks = 1;
  copy.as.collective.count = count;
  return copy;
}

// Bytes that depend on the rank: `term`, and its number in the group of these mesh axes times `bytes`.
static int term_with(const Change *change, Plan *plan, int term, uint32_t mesh, int64_t bytes) {
  PlanTerm *terms = ARENA_ARRAY(change->arena, PlanTerm, plan->term_count + 1);
  memcpy(terms, plan->terms, sizeof *terms * (size_t)plan->term_count);
  terms[plan->term_count] = terms[term];
  for (int i = plan->mesh_count - 1; i >= 0; i--) {
    if (mesh >> i & 1) {
      terms[plan->term_count].stride[i] += bytes;
      bytes *= plan->mesh[i].size;
    }
  }
  plan->terms = terms;
  return plan->term_count++;
}

static void leave_out_collective(const Change *change) {
  Plan *plan = change->set->plans[change->mutant->stage];
  Instruction *instruction = instruction_at(change), whole = *instruction;
  Collective *collective = &instruction->as.collective;
  int64_t bytes = collective->count * element_type_bytes(collective->type);
  switch (collective->kind) {
    case COLLECTIVE_ALL_REDUCE:
    case COLLECTIVE_ROTATE:
      *instruction = copy_of(&whole, collective->count);
      break;
    case COLLECTIVE_ALL_TO_ALL:
      *instruction = copy_of(&whole, collective->count * collective->ranks);
      break;
    case COLLECTIVE_REDUCE_SCATTER:
      *instruction = copy_of(&whole, collective->count);
      collective->from.term = term_with(change, plan, collective->from.term, whole.as.collective.mesh, bytes);
      break;
    default: {
      int more = collective->ranks - 1;
      *instruction = copy_of(&whole, collective->count);
      Instruction *rest = room_behind(change, more);
      for (int i = 0; i < more; i++) {
        rest[i] = copy_of(&whole, whole.as.collective.count);
        rest[i].as.collective.to.offset += (i + 1) * bytes;
      }
    }
  }
}

// The whole channel: its messages are neither sent nor received.
static void leave_out_channel(const Change *change, int channel) {
  for (int p = 0; p < change->set->count; p++) {
    const Plan *plan = change->set->plans[p];
    for (int s = 0; s < plan->segment_count; s++) {
      for (int i = 0; i < plan->segments[s].count; i++) {
        Instruction *instruction = &plan->segments[s].instructions[i];
        bool transfer = instruction->kind == INSTRUCTION_SEND || instruction->kind == INSTRUCTION_RECEIVE;
        if (transfer && instruction->as.transfer.channel == channel) {
          Place place = {.arena = ARENA_TRANSIENT};
          *instruction = (Instruction){.kind = INSTRUCTION_COLLECTIVE, .name = instruction->name};
          instruction->as.collective = (Collective){.type = TYPE_F64, .ranks = 1, .from = place, .to = place};
        }
      }
    }
  }
}

static int add_kernel(const Change *change, Plan *plan, Kernel *kernel) {
  Kernel **kernels = ARENA_ARRAY(change->arena, Kernel *, plan->kernel_count + 1);
  memcpy(kernels, plan->kernels, sizeof *kernels * (size_t)plan->kernel_count);
  kernels[plan->kernel_count] = kernel;
  plan->kernels = kernels;
  return plan->kernel_count++;
}

// result = result * factor, by a kernel of its own.
static void scale(const Change *change, double factor) {
  Plan *plan = change->set->plans[change->mutant->stage];
  const Collective *collective = &instruction_at(change)->as.collective;
  Kernel *kernel = ARENA_NEW(change->arena, Kernel);
  kernel->dim_count = kernel->inner_count = 1;
  kernel->size[0] = collective->count;
  kernel->real = collective->type;
  kernel->port_count = 2;
  kernel->code_count = 4;
  kernel->port = ARENA_ARRAY(change->arena, KernelPort, 2);
  kernel->port[0] = (KernelPort){.kind = PORT_INPUT, .type = collective->type, .stride = {1}};
  kernel->port[1] = (KernelPort){.kind = PORT_OUTPUT, .type = collective->type, .stride = {1}};
  kernel->code = ARENA_ARRAY(change->arena, KernelInstruction, 4);
  kernel->code[0] = (KernelInstruction){.op = KERNEL_LOAD, .level = LEVEL_COLUMN, .a = -1, .b = -1, .c = -1, .port = 0};
  kernel->code[1] = (KernelInstruction){.op = KERNEL_CONST, .a = -1, .b = -1, .c = -1, .port = -1, .number = factor};
  kernel->code[2] = (KernelInstruction){.op = KERNEL_MUL, .level = LEVEL_COLUMN, .a = 0, .b = 1, .c = -1, .port = -1};
  kernel->code[3] = (KernelInstruction){.op = KERNEL_STORE, .level = LEVEL_COLUMN, .a = 2, .b = -1, .c = -1, .port = 1};
  Place *places = ARENA_ARRAY(change->arena, Place, 2);
  places[0] = places[1] = collective->to;
  Instruction scaled = *instruction_at(change);
  scaled.kind = INSTRUCTION_KERNEL;
  scaled.as.kernel = (KernelCall){.kernel = add_kernel(change, plan, kernel), .place = places};
  *room_behind(change, 1) = scaled;
}

static bool is_collective(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.ranks > 1;
}

static bool is_sum(const Instruction *instruction) {
  const Collective *collective = &instruction->as.collective;
  bool reduces = collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER;
  return is_collective(instruction) && reduces && collective->reduce == REDUCE_SUM && collective->type == TYPE_F64;
}

static void make_twice(const Change *change) {
  const Instruction again = *instruction_at(change);
  if (again.kind == INSTRUCTION_SEND) {
    *room_behind(change, 1) = again;
    return;
  }
  Instruction back = copy_of(&again, again.as.collective.count);  // what came out goes in once more
  back.as.collective.from = again.as.collective.to;
  back.as.collective.to = again.as.collective.from;
  Instruction *behind = room_behind(change, 2);
  behind[0] = back;
  behind[1] = again;
}

// --- places ---

typedef struct {
  Place *place;
  int64_t unit;  // bytes of an element; of numbers that are no addresses 1
  bool read;
} Part;

enum { MOST_PARTS = KERNEL_MAX_PORTS + 16 };

static int add_part(Part *parts, int count, Place *place, ElementType type, bool read) {
  parts[count] = (Part){place, element_type_bytes(type), read};
  return count + 1;
}

static int kernel_parts(const Plan *plan, const KernelCall *call, Part *parts) {
  const Kernel *kernel = plan->kernels[call->kernel];
  for (int i = 0; i < kernel->port_count; i++) {
    add_part(parts, i, &call->place[i], kernel->port[i].type, kernel->port[i].kind != PORT_OUTPUT);
    parts[i].unit = kernel->port[i].kind == PORT_STRIDES ? 1 : parts[i].unit;
  }
  return kernel->port_count;
}

static int attention_parts(Attention *a, InstructionKind kind, ElementType real, Part *parts) {
  const bool grad = kind != INSTRUCTION_ATTENTION;
  ElementType written = a->wide ? real : a->type;
  int count = add_part(parts, 0, &a->q, a->type, true);
  count = add_part(parts, count, &a->k, a->type, true);
  count = add_part(parts, count, &a->v, a->type, true);
  count = add_part(parts, count, &a->o, written, grad);
  count = add_part(parts, count, &a->statistics, real, grad);
  if (a->biased) {
    count = add_part(parts, count, &a->slopes, real, true);
  }
  if (grad) {
    count = add_part(parts, count, &a->d_o, a->type, true);
  }
  if (kind == INSTRUCTION_ATTENTION_CAPTURED) {
    count = add_part(parts, count, &a->d_captured, real, false);
  } else if (grad) {
    count = add_part(parts, count, &a->dq, written, false);
    count = add_part(parts, count, &a->dk, written, false);
    count = add_part(parts, count, &a->dv, written, false);
  }
  return count;
}

// The operands and results of an instruction.
static int parts_of(const Plan *plan, Instruction *instruction, Part *parts) {
  int count;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return kernel_parts(plan, &instruction->as.kernel, parts);
    case INSTRUCTION_GEMM: {
      Gemm *gemm = &instruction->as.gemm;
      count = add_part(parts, 0, &gemm->a, gemm->type, true);
      count = add_part(parts, count, &gemm->b, gemm->type_b, true);
      count = add_part(parts, count, &gemm->c, gemm->type_c, false);
      return gemm->epilogue == EPILOGUE_BIAS ? add_part(parts, count, &gemm->bias, gemm->type_c, true) : count;
    }
    case INSTRUCTION_ORDER: {
      Order *order = &instruction->as.order;
      count = add_part(parts, 0, &order->index, TYPE_INDEX, true);
      count = add_part(parts, count, &order->place, TYPE_INDEX, false);
      count = add_part(parts, count, &order->from, TYPE_INDEX, false);
      return add_part(parts, count, &order->chosen, TYPE_INDEX, false);
    }
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM: {
      Grouped *grouped = &instruction->as.grouped;
      count = add_part(parts, 0, &grouped->a, grouped->type, true);
      count = add_part(parts, count, &grouped->b, grouped->type, true);
      count = add_part(parts, count, &grouped->c, grouped->type_c, false);
      return add_part(parts, count, &grouped->chosen, TYPE_INDEX, true);
    }
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT: {
      Take *take = &instruction->as.take;
      bool put = instruction->kind == INSTRUCTION_PUT;
      count = add_part(parts, 0, &take->x, take->type, !put);
      count = add_part(parts, count, &take->index, TYPE_INDEX, true);
      count = add_part(parts, count, &take->out, take->type_out, put);
      return take->parts > 0 ? add_part(parts, count, &take->chosen, TYPE_INDEX, true) : count;
    }
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD: {
      Window *window = &instruction->as.window;
      bool fold = instruction->kind == INSTRUCTION_FOLD;
      count = add_part(parts, 0, &window->x, window->type, !fold);
      return add_part(parts, count, &window->out, window->type, fold);
    }
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return attention_parts(&instruction->as.attention, instruction->kind, plan->real, parts);
    case INSTRUCTION_PIECE:
      count = add_part(parts, 0, &instruction->as.piece.from, instruction->as.piece.type, true);
      return add_part(parts, count, &instruction->as.piece.to, instruction->as.piece.type, false);
    case INSTRUCTION_SQUARES:
      count = add_part(parts, 0, &instruction->as.squares.from, instruction->as.squares.type, true);
      return add_part(parts, count, &instruction->as.squares.to, instruction->as.squares.type, false);
    case INSTRUCTION_COLLECTIVE:
      count = add_part(parts, 0, &instruction->as.collective.from, instruction->as.collective.type, true);
      return add_part(parts, count, &instruction->as.collective.to, instruction->as.collective.type, false);
    default:
      return 0;
  }
}

// The first mesh axis of several ranks with a stride in a term; -1: the same number on all ranks.
static int varies_over(const Plan *plan, int term) {
  for (int m = 0; m < plan->mesh_count; m++) {
    if (plan->terms[term].stride[m] && plan->mesh[m].size > 1 && m != plan->pipeline) {
      return m;
    }
  }
  return -1;
}

// One element more for each step of the rank's coordinate. No other place has the term.
static void move_on(const Change *change, int *term, int64_t unit) {
  Plan *plan = change->set->plans[change->mutant->stage];
  int mesh = varies_over(plan, *term);
  *term = term_with(change, plan, *term, 1u << mesh, unit);
}

// The four numbers of an attention that say where queries and keys begin.
static int *origin_of(Attention *a, int number) {
  return number < 2 ? &a->origin_term[number] : &a->key_origin_term[number - 2];
}

static void take_as_blocks(const Change *change, Attention *a, bool keys) {
  Plan *plan = change->set->plans[change->mutant->stage];
  int *term = keys ? a->key_origin_term : a->origin_term, mesh = varies_over(plan, term[0]);
  term[0] = term_with(change, plan, 0, 1u << mesh, keys ? a->keys : a->queries);
  *(keys ? &a->key_parts : &a->parts) = 1;
}

// --- microbatches ---

static WriteMode *write_of(Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GEMM  ? &instruction->as.gemm.write
         : instruction_multiplies(instruction)  ? &instruction->as.grouped.write
         : instruction->kind == INSTRUCTION_PUT ? &instruction->as.take.write
                                                : NULL;
}

static void stop_accumulating(const Change *change) {
  Plan *plan = change->set->plans[change->mutant->stage];
  KernelCall *call = &instruction_at(change)->as.kernel;
  Kernel *kernel = arena_copy(change->arena, plan->kernels[call->kernel], sizeof *kernel);
  kernel->port = arena_copy(change->arena, kernel->port, sizeof *kernel->port * (size_t)kernel->port_count);
  kernel->port[change->mutant->part].accumulate = false;
  call->kernel = add_kernel(change, plan, kernel);
}

// Does a segment run again in a step, so that what it adds up is more than one number?
static bool runs_again(const Plan *plan, int segment) {
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int i = 0; i < plan->programs[p].call_count; i++) {
      if (plan->programs[p].calls[i].segment == segment && !plan->programs[p].calls[i].first) {
        return true;
      }
    }
  }
  return false;
}

// --- lists ---

typedef struct {
  Arena *arena;
  const PlanSet *set;
  MutantList *found;
  int stage, segment, at;
} List;

static const Plan *plan_in(const List *list) {
  return list->set->plans[list->stage];
}

static void add(const List *list, MutantKind kind, int part, int way, const char *how) {
  const PlanSegment *segment = &plan_in(list)->segments[list->segment];
  const Instruction *instruction = &segment->instructions[list->at];
  bool collective = instruction->kind == INSTRUCTION_COLLECTIVE;
  Mutant mutant = {.kind = kind, .stage = list->stage, .segment = list->segment, .at = list->at};
  mutant.part = part;
  mutant.way = way;
  mutant.what = arena_format(
      list->arena, "stage %d, segment %s, instruction %d, %s '%s'%s%s%s: %s", list->stage, segment->name, list->at,
      collective ? collective_kind_name(instruction->as.collective.kind) : instruction_kind_name(instruction->kind),
      instruction->name ? instruction->name : "?", instruction->why ? " (" : "",
      instruction->why ? instruction->why : "", instruction->why ? ")" : "", how);
  array_push(list->arena, list->found, mutant);
}

static void list_collective(const List *list, const Instruction *instruction) {
  const Collective *collective = &instruction->as.collective;
  bool sum = is_sum(instruction),
       reduces = collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER;
  add(list, MUTANT_LEFT_OUT, 0, 0, "left out");
  if (collective->kind == COLLECTIVE_ROTATE || (sum && collective->kind == COLLECTIVE_ALL_REDUCE)) {
    add(list, MUTANT_TWICE, 0, 0, "twice");
  }
  if (sum) {
    add(list, MUTANT_SCALED, 0, 0, "times its ranks");
    add(list, MUTANT_SCALED, 0, 1, "divided by its ranks");
  }
  if (reduces && collective->type == TYPE_F64) {
    add(list, MUTANT_WRONG_KIND, 0, 0, sum ? "the largest" : "the sum");
  }
}

// Where a query or a key is, of all of them.
static int64_t attended(const Plan *plan, const int *coordinate, int parts, const int64_t *origin, const int *term,
                        int64_t count, int64_t i) {
  int64_t part = parts ? i / (count / parts) : 0;
  return parts ? origin[part] + plan_term(plan, term[part], coordinate) + i - part * (count / parts) : i;
}

// Which keys each query sees on a rank, and with slopes from how far.
static int64_t sight(const Plan *plan, const Attention *a, int64_t rank, int64_t pair) {
  int coordinate[PLAN_MAX_MESH], there[PLAN_MAX_MESH];
  plan_coordinates(plan, rank, coordinate);
  plan_coordinates(plan, rank, there);
  if (a->ring) {
    plan_before(plan, a->ring, a->ring_step, coordinate, there);
  }
  int64_t query = attended(plan, coordinate, a->parts, a->origin, a->origin_term, a->queries, pair / a->keys);
  int64_t key = attended(plan, there, a->key_parts, a->key_origin, a->key_origin_term, a->keys, pair % a->keys);
  bool seen = (!a->causal || key <= query) && (a->key_end == 0 || key < a->key_end);
  return !seen ? INT64_MIN : a->biased ? key - query : 0;
}

static const char *seen_alike(const Plan *plan, const Attention *a, const Attention *b) {
  for (int64_t rank = 0; rank < plan_ranks(plan); rank++) {
    for (int64_t pair = 0; pair < a->queries * a->keys; pair++) {
      if (sight(plan, a, rank, pair) != sight(plan, b, rank, pair)) {
        return NULL;
      }
    }
  }
  return "on all ranks every query sees the same of these keys, from as far";
}

static void list_attention(const List *list, Attention *a) {
  const Mutant there = {.stage = list->stage};
  const Change change = {list->arena, list->set, &there};
  for (int i = 0; i < 4; i++) {
    bool used = i == 0 || i == 2 || (i == 1 ? a->parts > 1 : a->key_parts > 1);
    if (used && varies_over(plan_in(list), *origin_of(a, i)) >= 0) {
      Attention moved = *a;
      move_on(&change, origin_of(&moved, i), 1);
      add(list, MUTANT_PLACE, MOST_PARTS + i, 0, i < 2 ? "where its queries begin" : "where its keys begin");
      list->found->at[list->found->count - 1].equivalent = seen_alike(plan_in(list), a, &moved);
    }
  }
  for (int keys = 0; keys < 2; keys++) {
    if ((keys ? a->key_parts : a->parts) > 1) {
      Attention blocks = *a;
      take_as_blocks(&change, &blocks, keys);
      add(list, MUTANT_ZIGZAG, keys, 0, keys ? "its keys" : "its queries");
      list->found->at[list->found->count - 1].equivalent = seen_alike(plan_in(list), a, &blocks);
    }
  }
}

// Is the segment called for another microbatch than the first, or another lane?
static bool is_called_for(const Plan *plan, int segment, bool slots) {
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int i = 0; i < plan->programs[p].call_count; i++) {
      const PlanCall *call = &plan->programs[p].calls[i];
      if (call->segment == segment && (slots ? call->slot : call->lane) > 0) {
        return true;
      }
    }
  }
  return false;
}

static void list_parts(const List *list, Instruction *instruction) {
  Part parts[MOST_PARTS];
  int count = parts_of(plan_in(list), instruction, parts);
  for (int i = 0; i < count; i++) {
    const Place *place = parts[i].place;
    if (varies_over(plan_in(list), place->term) >= 0) {
      add(list, MUTANT_PLACE, i, 0, parts[i].read ? "an operand" : "a result");
    }
    bool slots = place->slot_stride != 0, lanes = !slots && place->lane_stride != 0;
    if (parts[i].read && (slots || lanes) && is_called_for(plan_in(list), list->segment, slots)) {
      add(list, MUTANT_OTHER_SLOT, i, 0, slots ? "of the first microbatch" : "of another in flight");
    }
  }
}

static void list_writes(const List *list, Instruction *instruction) {
  const WriteMode *write = write_of(instruction);
  const Plan *plan = plan_in(list);
  if (write && *write == WRITE_ADD_AFTER_FIRST && runs_again(plan, list->segment)) {
    add(list, MUTANT_ACCUMULATE, 0, WRITE_STORE, "stored");
    add(list, MUTANT_ACCUMULATE, 0, WRITE_ADD, "added from the first on");
  }
  if (write && *write == WRITE_ADD) {
    add(list, MUTANT_ACCUMULATE, 0, WRITE_STORE, "stored");
  }
  if (instruction->kind != INSTRUCTION_KERNEL || !runs_again(plan, list->segment)) {
    return;
  }
  const Kernel *kernel = plan->kernels[instruction->as.kernel.kernel];
  for (int i = 0; i < kernel->port_count; i++) {
    if (kernel->port[i].accumulate) {
      add(list, MUTANT_ACCUMULATE, i, 0, "stored");
    }
  }
}

static void list_rows(const List *list, const Instruction *instruction) {
  MutantKind kind;
  Instruction changed = *instruction;
  const char *how = rows_mutate(plan_in(list), &changed, 0, &kind);
  for (int way = 0; how; how = rows_mutate(plan_in(list), &changed, ++way, &kind)) {
    add(list, kind, 0, way, how);
    changed = *instruction;
  }
}

static void list_instruction(const List *list, Instruction *instruction) {
  if (instruction->kind == INSTRUCTION_SEND) {
    add(list, MUTANT_LEFT_OUT, 0, 0, "left out");
    add(list, MUTANT_TWICE, 0, 0, "twice");
  } else if (is_collective(instruction)) {
    list_collective(list, instruction);
  } else if (instruction_attends(instruction)) {
    list_attention(list, &instruction->as.attention);
  } else if (instruction->kind == INSTRUCTION_PIECE) {
    add(list, MUTANT_PLACE, MOST_PARTS, 0, "the piece begins one element later");
  } else if (instruction->kind == INSTRUCTION_SQUARES && instruction->as.squares.part_count > 1) {
    add(list, MUTANT_PLACE, MOST_PARTS, 0, "the first part twice, and not the last");
  }
  list_parts(list, instruction);
  list_writes(list, instruction);
  list_rows(list, instruction);
}

static void list_inputs(const List *list) {
  const PlanProgram *programs = plan_in(list)->programs;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int i = 0; i < programs[p].input_count; i++) {
      const PlanInput *input = &programs[p].inputs[i];
      for (int a = 0; a < input->axis_count; a++) {
        if (!input->cut[a].zigzag) {
          continue;
        }
        Mutant mutant = {.kind = MUTANT_ZIGZAG, .stage = list->stage, .segment = -1, .at = i, .part = a, .way = p};
        mutant.what = arena_format(list->arena, "stage %d, input '%s' of %s, along '%s'", list->stage, input->name,
                                   program_kind_name((ProgramKind)p), input->axis[a]);
        array_push(list->arena, list->found, mutant);
      }
    }
  }
}

void plan_mutants(Arena *arena, const PlanSet *set, MutantList *found) {
  List list = {.arena = arena, .set = set, .found = found};
  for (list.stage = 0; list.stage < set->count; list.stage++) {
    const Plan *plan = plan_in(&list);
    list_inputs(&list);
    for (list.segment = 0; list.segment < plan->segment_count; list.segment++) {
      const PlanSegment *segment = &plan->segments[list.segment];
      for (list.at = 0; list.at < segment->count; list.at++) {
        list_instruction(&list, &segment->instructions[list.at]);
      }
    }
  }
}

// --- one of them ---

static void change_place(const Change *change) {
  Instruction *instruction = instruction_at(change);
  Plan *plan = change->set->plans[change->mutant->stage];
  Part parts[MOST_PARTS];
  int part = change->mutant->part;
  if (part < MOST_PARTS) {
    parts_of(plan, instruction, parts);
    move_on(change, &parts[part].place->term, parts[part].unit);
  } else if (instruction->kind == INSTRUCTION_PIECE) {
    instruction->as.piece.first++;
  } else if (instruction->kind == INSTRUCTION_SQUARES) {
    Squares *squares = &instruction->as.squares;
    squares->part = arena_copy(change->arena, squares->part, sizeof *squares->part * (size_t)squares->part_count);
    squares->part[squares->part_count - 1] = squares->part[0];
  } else {
    move_on(change, origin_of(&instruction->as.attention, part - MOST_PARTS), 1);
  }
}

static void change_zigzag(const Change *change) {
  const Mutant *mutant = change->mutant;
  if (mutant->segment < 0) {
    change->set->plans[mutant->stage]->programs[mutant->way].inputs[mutant->at].cut[mutant->part].zigzag = false;
  } else {
    take_as_blocks(change, &instruction_at(change)->as.attention, mutant->part == 1);
  }
}

static void change_slot(const Change *change) {
  Part parts[MOST_PARTS];
  parts_of(change->set->plans[change->mutant->stage], instruction_at(change), parts);
  parts[change->mutant->part].place->slot_stride = 0;
  parts[change->mutant->part].place->lane_stride = 0;
}

void plan_mutate(Arena *arena, const PlanSet *set, const Mutant *mutant) {
  const Change change = {arena, set, mutant};
  Instruction *instruction = mutant->segment < 0 ? NULL : instruction_at(&change);
  MutantKind kind;
  switch (mutant->kind) {
    case MUTANT_LEFT_OUT:
      if (instruction->kind == INSTRUCTION_COLLECTIVE) {
        leave_out_collective(&change);
      } else {
        leave_out_channel(&change, instruction->as.transfer.channel);
      }
      break;
    case MUTANT_TWICE:
      make_twice(&change);
      break;
    case MUTANT_SCALED:
      scale(&change, mutant->way ? 1.0 / instruction->as.collective.ranks : instruction->as.collective.ranks);
      break;
    case MUTANT_WRONG_KIND:
      instruction->as.collective.reduce = instruction->as.collective.reduce == REDUCE_SUM ? REDUCE_MAX : REDUCE_SUM;
      break;
    case MUTANT_PLACE:
      change_place(&change);
      break;
    case MUTANT_ZIGZAG:
      change_zigzag(&change);
      break;
    case MUTANT_OTHER_SLOT:
      change_slot(&change);
      break;
    case MUTANT_COUNTED:
    case MUTANT_ROWS:
      rows_mutate(set->plans[mutant->stage], instruction, mutant->way, &kind);
      break;
    default:  // MUTANT_ACCUMULATE
      if (instruction->kind == INSTRUCTION_KERNEL) {
        stop_accumulating(&change);
      } else {
        *write_of(instruction) = (WriteMode)mutant->way;
      }
  }
}
