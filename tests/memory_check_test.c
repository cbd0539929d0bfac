// memory_check_test.c: plans whose buffers have memory of others at a wrong time are refused.
//
// For training steps of several texts and layouts: a lifetime is cut short at either end, what lasts is taken for what
// one segment has, microbatches in flight get one copy, or a buffer is put on top of another one. The oracle runs the
// lists byte by byte: each byte knows which buffer, and which microbatch, has written it last. Every step of which a
// read finds something else must be refused, in words that name both; without a change none is. Nor may a kernel write
// over what a node behind it reads. Halves of a product beside another one are enough for who reads it, one is not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mix.h"
#include "base/ranges.h"
#include "compiler/compile.h"
#include "compiler/front.h"
#include "compiler/lower/emit.h"
#include "compiler/plan/strided.h"

typedef struct {
  const char *file, *layout;
} Subject;

static const Subject subjects[] = {
    {"gpt2.mdl", "single"},  {"llama.mdl", "tp2"},   {"llama.mdl", "d3"},    {"llama.mdl", "z3tp"},
    {"llama.mdl", "one4"},   {"llama.mdl", "z1pp"},  {"llama.mdl", "ring4"}, {"llama.mdl", "pp2dp2cp2"},
    {"alibi.mdl", "zb"},     {"alibi.mdl", "aside"}, {"alibi.mdl", "pp2tp"}, {"rules.mdl", "pp2i_uneven"},
    {"rules.mdl", "pad_z3"}, {"experts.mdl", "ep"},  {"steady.mdl", "z2o"},  {"biases.mdl", "stored4tp"},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects, EACH = 16, LEAST = 20 };

typedef enum { SHORT, LATE, LOCAL, ONE_COPY, ON_TOP, MUTANT_KINDS } MutantKind;

static const char *const words[] = {"a lifetime ends early", "a lifetime begins late",
                                    "what lasts taken for one segment's", "one copy for all microbatches",
                                    "a buffer on top of another"};
static struct { int made, wrong, refused, refused_in_vain; } counts[MUTANT_KINDS];

// --- the oracle ---

enum { NOBODY = 0, OUTSIDE = -1, SUMMED = -2 };

typedef struct {
  int buffer;  // 1 + its number; NOBODY: nothing was written
  int slot;    // the microbatch; OUTSIDE: none; SUMMED: several
} Byte;

typedef struct {
  Lower *l;
  Byte *memory[ARENA_CLASS_COUNT];
  int64_t bytes[ARENA_CLASS_COUNT];
  bool *looked_at;  // by buffer: by more than what adds to it
  bool wrong;
} Run;

static void term_range(const Lower *l, int term, int64_t *low, int64_t *high) {
  for (int m = 0; m < l->c->spec->mesh_count; m++) {
    const bool stage = l->c->tenancy && m == l->c->spec->pipeline.mesh;
    const int64_t stride = l->terms->at[term].stride[m];
    for (int64_t i = stage ? l->c->stage : 0; i < (stage ? l->c->stage + 1 : l->c->spec->mesh[m].size); i++) {
      // Strides are not below 0 where this runs.
      assert_true(stride >= 0);
      *high += i == (stage ? l->c->stage : l->c->spec->mesh[m].size - 1) ? stride * i : 0;
      *low += i == (stage ? l->c->stage : 0) ? stride * i : 0;
    }
  }
}

// Does an operand that is updated find nothing that matters?
static bool stores(const Instruction *instruction, bool first) {
  const WriteMode mode = instruction->kind == INSTRUCTION_KERNEL ? WRITE_ADD_AFTER_FIRST
                         : instruction->kind == INSTRUCTION_GEMM ? instruction->as.gemm.write
                         : instruction_multiplies(instruction)   ? instruction->as.grouped.write
                         : instruction->kind == INSTRUCTION_PUT  ? instruction->as.take.write
                                                                 : WRITE_ADD;
  return mode == WRITE_STORE || (mode == WRITE_ADD_AFTER_FIRST && first);
}

// Adds a dimension to `offsets`.
static int64_t *repeat(Arena *arena, int64_t *offsets, int64_t *count, int64_t size, int64_t stride) {
  int64_t *made = ARENA_ARRAY(arena, int64_t, *count * size + 1);
  for (int64_t i = 0; i < *count * size; i++) {
    made[i] = offsets[i / size] + i % size * stride;
  }
  *count *= size;
  return made;
}

// Which of [low, high) are read, on whatever rank.
static bool *which_are_read(const Run *run, Arena *arena, const Operand *operand, int64_t base, int64_t low,
                            int64_t high) {
  const Compilation *c = run->l->c;
  bool *read = ARENA_ARRAY(arena, bool, high - low + 1);
  int64_t count = 1, *offsets = ARENA_ARRAY(arena, int64_t, 1);
  if (operand->extent.whole) {
    memset(read, true, (size_t)(high - low));
    return read;
  }
  offsets[0] = base - low;
  for (int d = 0; d < operand->extent.dim_count; d++) {
    offsets = repeat(arena, offsets, &count, operand->extent.size[d], operand->extent.stride[d] * operand->bytes);
  }
  for (int m = 0; m < c->spec->mesh_count; m++) {
    const int64_t stride = run->l->terms->at[operand->place->term].stride[m];
    const bool stage = c->tenancy && m == c->spec->pipeline.mesh;
    for (int64_t i = 0; i < count && stage; i++) {
      offsets[i] += c->stage * stride;
    }
    offsets = stage || stride == 0 ? offsets : repeat(arena, offsets, &count, c->spec->mesh[m].size, stride);
  }
  for (int64_t i = 0; i < count; i++) {
    assert_true(offsets[i] >= 0 && offsets[i] + operand->bytes <= high - low);
    memset(&read[offsets[i]], true, (size_t)operand->bytes);
  }
  return read;
}

static void touch(Run *run, const PlanCall *call, const Instruction *instruction, const Operand *operand, bool write) {
  const Place *place = operand->place;
  const int number = (int)place->slot_stride;
  const MemoryBuffer *buffer = &run->l->buffers.at[number];
  const SegmentKind kind = run->l->segments.at[call->segment]->kind;
  const int slot = kind == SEGMENT_PREPARE || kind == SEGMENT_APPLY ? OUTSIDE : call->slot;
  int64_t low = 0, high = 0;
  term_range(run->l, place->term, &low, &high);
  const int64_t base =
      buffer->offset + place->offset + call->lane * buffer->lane_stride + call->slot * buffer->slot_stride;
  const bool updates = operand->access == UPDATES;
  const bool reads = operand->access & READS && !(updates && stores(instruction, call->first));
  low += base + operand->extent.first * operand->bytes;
  high += base + (operand->extent.last + 1) * operand->bytes;
  if (low < 0 || high > run->bytes[buffer->arena]) {
    run->wrong = true;
    return;
  }
  Arena *arena = arena_create();
  const bool *read = write ? NULL : which_are_read(run, arena, operand, base, low, high);
  for (int64_t i = low; i < high; i++) {
    Byte *byte = &run->memory[buffer->arena][i];
    const bool mine = byte->buffer == 1 + number;
    const bool other = slot >= 0 && byte->slot != slot && byte->slot != OUTSIDE;
    if (!write && reads && run->looked_at[number] && read[i - low]) {
      run->wrong |= !mine || (other && !updates);
    } else if (write) {
      *byte = (Byte){1 + number, reads && mine && other ? SUMMED : slot};
    }
  }
  arena_destroy(arena);
}

// To the memory of the host and back go the bytes as they are, also those that nobody wrote.
static void copy_bytes(Run *run, const PlanCall *call, const Instruction *instruction) {
  const Offload *copy = &instruction->as.offload;
  const bool out = instruction->kind == INSTRUCTION_OFFLOAD;
  const Place *places[] = {out ? &copy->device : &copy->host, out ? &copy->host : &copy->device};
  Byte *at[2];
  for (int i = 0; i < 2; i++) {
    const MemoryBuffer *buffer = &run->l->buffers.at[places[i]->slot_stride];
    at[i] = &run->memory[buffer->arena][buffer->offset + places[i]->offset + call->lane * buffer->lane_stride +
                                        call->slot * buffer->slot_stride];
  }
  for (int64_t i = 0; i < copy->bytes; i++) {
    const bool there = at[0][i].buffer == 1 + (int)places[0]->slot_stride;
    at[1][i] = (Byte){there ? 1 + (int)places[1]->slot_stride : 0, at[0][i].slot};
  }
}

static void each_operand(Run *run, const PlanCall *call, bool look) {
  const LowerSegment *segment = run->l->segments.at[call->segment];
  for (int i = 0; i < segment->list.count; i++) {
    Operands operands;
    const InstructionKind kind = segment->list.at[i].kind;
    if (!look && (kind == INSTRUCTION_OFFLOAD || kind == INSTRUCTION_FETCH)) {
      copy_bytes(run, call, &segment->list.at[i]);
      continue;
    }
    lower_operands(run->l, &segment->list.at[i], &operands);
    for (int write = 0; write < 2; write++) {
      for (int o = 0; o < operands.count; o++) {
        const Operand *operand = &operands.at[o];
        const int number = (int)operand->place->slot_stride;
        if (look) {
          run->looked_at[number] |= operand->access == READS;
        } else if (run->l->buffers.at[number].arena != ARENA_PERSISTENT && operand->access & (write ? WRITES : READS)) {
          touch(run, call, &segment->list.at[i], operand, write);
        }
      }
    }
  }
}

static bool runs_wrong(Lower *l) {
  Arena *arena = arena_create();
  Run run = {.l = l, .bytes = {0, l->transient_bytes, l->host_bytes, l->offload_bytes}};
  PlanCall *calls;
  const int count = emit_calls(l, arena, &calls);
  run.looked_at = ARENA_ARRAY(arena, bool, l->buffers.count + 1);
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    run.memory[a] = ARENA_ARRAY(arena, Byte, run.bytes[a] + 1);
  }
  for (int i = 0; i < l->inputs.count; i++) {
    const int number = (int)l->inputs.at[i].place.slot_stride;
    for (int64_t b = 0; b < l->buffers.at[number].bytes; b++) {
      run.memory[ARENA_HOST][l->buffers.at[number].offset + b] = (Byte){1 + number, OUTSIDE};
    }
  }
  for (int look = 1; look >= 0; look--) {
    for (int i = 0; i < count; i++) {
      each_operand(&run, &calls[i], look);
    }
  }
  arena_destroy(arena);
  return run.wrong;
}

// --- one step ---

typedef struct {
  const Subject *subject;
  Lower *l;
  MemoryBuffer *before;  // with their lifetimes, without places
} Step;

static bool is_refused(const Step *step, const char **said) {
  Diag *diag = step->l->c->diag;
  const DiagMark mark = diag_mark(diag);
  check_memory(step->l);
  const bool refused = diag->errors > mark.errors;
  *said = refused ? diag->all.at[mark.count].message : "";
  diag_rewind(diag, mark);
  return refused;
}

static bool is_own(const MemoryBuffer *buffer) {
  return buffer->arena == ARENA_TRANSIENT && buffer->segment >= 0 && !buffer->message && buffer->bytes > 0;
}

// Changes what is known of a buffer before it is placed; false: that is no change.
static bool change_lifetime(const Step *step, MutantKind kind, MemoryBuffer *buffer, uint64_t drawn) {
  const int length = buffer->last - buffer->first;
  switch (kind) {
    case SHORT:
      buffer->last -= length > 0 ? 1 + (int)(drawn % (uint64_t)length) : 0;
      return is_own(buffer) && length > 0;
    case LATE:
      buffer->first += length > 0 ? 1 + (int)(drawn % (uint64_t)length) : 0;
      return is_own(buffer) && length > 0;
    case LOCAL: {
      const bool lasts = buffer->arena == ARENA_TRANSIENT && buffer->segment == -1 && buffer->bytes > 0;
      buffer->segment = lasts ? (int)(drawn % (uint64_t)step->l->segments.count) : buffer->segment;
      const int count = lasts ? step->l->segments.at[buffer->segment]->list.count : 0;
      buffer->first = lasts ? 0 : buffer->first;
      buffer->last = lasts ? count - 1 : buffer->last;
      return lasts && !buffer->message && count > 0;
    }
    default:
      return true;
  }
}

static bool change_place(const Step *step, MutantKind kind, MemoryBuffer *buffer, uint64_t drawn) {
  const MemoryBuffer *other = &step->l->buffers.at[drawn % (uint64_t)step->l->buffers.count];
  switch (kind) {
    case ONE_COPY: {
      const bool several = buffer->copies > 1;
      buffer->lane_stride = buffer->slot_stride = several ? 0 : buffer->slot_stride;
      buffer->copies = several ? 1 : buffer->copies;
      return several;
    }
    case ON_TOP: {
      const bool placed = buffer->segment != -2 && buffer->bytes > 0 && other->segment != -2 && other->bytes > 0;
      const bool fits =
          placed && buffer->copies <= 1 && buffer->arena == other->arena && buffer->offset != other->offset;
      buffer->offset = fits ? other->offset : buffer->offset;
      return fits && buffer->arena == ARENA_TRANSIENT && buffer->offset + buffer->bytes <= step->l->transient_bytes;
    }
    default:
      return true;
  }
}

static void restore(const Step *step) {
  memcpy(step->l->buffers.at, step->before, sizeof *step->before * (size_t)step->l->buffers.count);
}

static void try_mutant(const Step *step, MutantKind kind, int number, uint64_t drawn) {
  MemoryBuffer *buffer = &step->l->buffers.at[number];
  const char *said;
  restore(step);
  if (!change_lifetime(step, kind, buffer, drawn)) {
    return;
  }
  memory_place(step->l);
  if (!change_place(step, kind, buffer, drawn)) {
    return;
  }
  const bool wrong = runs_wrong(step->l), refused = is_refused(step, &said);
  counts[kind].made++;
  counts[kind].wrong += wrong;
  counts[kind].refused += wrong && refused;
  counts[kind].refused_in_vain += refused && !wrong;
  if (wrong && !refused) {
    fail_msg("%s, layout %s: buffer %d: %s, and nobody notices", step->subject->file, step->subject->layout, number,
             words[kind]);
  }
  assert_true(!refused || strncmp(said, "the compiler made a wrong plan: in 'train' ", 43) == 0);
}

static void try_step(const Subject *subject, Lower *l) {
  Step step = {.subject = subject, .l = l};
  const char *said;
  memory_lifetimes(l);
  step.before = arena_copy(l->c->arena, l->buffers.at, sizeof *l->buffers.at * (size_t)l->buffers.count);
  memory_place(l);
  assert_false(runs_wrong(l));
  if (is_refused(&step, &said)) {
    fail_msg("%s, layout %s: %s", subject->file, subject->layout, said);
  }
  for (int kind = 0; kind < MUTANT_KINDS; kind++) {
    const int before = counts[kind].made;
    for (int i = 0; i < 40 * EACH && counts[kind].made < before + EACH; i++) {
      const uint64_t drawn = mix_word(mix_word((uint64_t)kind, (uint64_t)i), 7);
      try_mutant(&step, (MutantKind)kind, (int)(drawn % (uint64_t)l->buffers.count), drawn >> 20);
    }
  }
}

static CompileOptions options_of(Arena *arena, const Subject *subject) {
  return (CompileOptions){.file = arena_format(arena, "%s/tests/layouts/%s", MDL_SOURCE_DIR, subject->file),
                          .layout = strcmp(subject->layout, "single") == 0 ? NULL : subject->layout,
                          .precision = "fp32"};
}

// The graph of a training step, of a stage, after all passes on it.
static Compilation *step_of(Arena *arena, Diag *diag, const CompileOptions *options, int stage, Front **front) {
  Front *f = *front = ARENA_NEW(arena, Front);
  Compilation *c = ARENA_NEW(arena, Compilation);
  assert_true(front_read(f, arena, diag, options));
  f->stage = stage;
  front_start_plan(f);
  *c = front_start(f, options, PROGRAM_TRAIN);
  assert_true(passes_run(c, NULL));
  return c;
}

static void what_is_wrong_is_refused(void **state) {
  const Subject *subject = *state;
  for (int stage = 0, stages = 1; stage < stages; stage++) {
    Arena *arena = arena_create();
    Diag *diag = diag_create(arena);
    Front *f;
    CompileOptions options = options_of(arena, subject);
    Compilation *c = step_of(arena, diag, &options, stage, &f);
    Lower l = front_lower(f, c);
    stages = f->pipeline ? (int)f->spec.mesh[f->spec.pipeline.mesh].size : 1;
    assert_true(passes_lower(&l, "squares"));
    try_step(subject, &l);
    arena_destroy(arena);
  }
}

static void each_kind_was_wrong_often(void **state) {
  (void)state;
  printf("%-36s %6s %6s %8s %8s\n", "", "made", "wrong", "refused", "in vain");
  for (int kind = 0; kind < MUTANT_KINDS; kind++) {
    printf("%-36s %6d %6d %8d %8d\n", words[kind], counts[kind].made, counts[kind].wrong, counts[kind].refused,
           counts[kind].refused_in_vain);
  }
  for (int kind = 0; kind < MUTANT_KINDS; kind++) {
    assert_true(counts[kind].wrong >= LEAST);
    assert_int_equal(counts[kind].refused, counts[kind].wrong);
    assert_true(kind > LATE || 20 * counts[kind].refused_in_vain <= counts[kind].refused);
  }
}

// --- values over values ---

// The first node of a list behind `at` that reads a value directly; -1: none does.
static int reader_behind(const Graph *graph, const NodeList *nodes, int at, ValueId value) {
  for (int i = at + 1; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = node->op == OP_ASSIGN ? 1 : 0; j < node->operand_count; j++) {
      if (node->operands[j] == value && !op_alias(node->op)) {
        return i;
      }
    }
  }
  return -1;
}

static bool homes_refused(Lower *l, ValueId value, Home home) {
  const Home before = l->home[value];
  const DiagMark mark = diag_mark(l->c->diag);
  l->home[value] = home;
  check_homes(l);
  const bool refused = l->c->diag->errors > mark.errors;
  diag_rewind(l->c->diag, mark);
  l->home[value] = before;
  return refused;
}

// Kernels of a list write over an operand, or a tensor, that something behind them still reads. Returns how many.
static int write_over_what_is_read(Lower *l, const NodeList *nodes, bool top) {
  const Graph *graph = l->graph;
  int made = 0;
  for (int i = 0; i < nodes->count && made < EACH; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op != OP_GROUP || l->home[node->first_result].kind != HOME_OWN) {
      continue;
    }
    for (int j = 0; j < nodes->count; j++) {
      const Node *other = graph_node(graph, nodes->at[j]);
      const bool tensor = op_leaf(other->op) && (other->op == OP_PARAM || other->op == OP_STATE);
      const bool value = j < i && (other->op == OP_GROUP || other->op == OP_DOT);
      if ((value || (tensor && top)) && reader_behind(graph, nodes, i, other->first_result) >= 0) {
        const Home home = {.kind = tensor ? HOME_ASSIGN : HOME_OVER, .parent = other->first_result};
        assert_true(homes_refused(l, node->first_result, home));
        made++;
        break;
      }
    }
  }
  return made;
}

static void what_is_read_may_not_be_overwritten(void **state) {
  (void)state;
  static const Subject some[] = {
      {"gpt2.mdl", "single"}, {"llama.mdl", "tp2"}, {"llama.mdl", "one4"}, {"llama.mdl", "z3tp"}};
  int made = 0;
  for (size_t s = 0; s < sizeof some / sizeof *some; s++) {
    Arena *arena = arena_create();
    Diag *diag = diag_create(arena);
    Front *f;
    CompileOptions options = options_of(arena, &some[s]);
    Compilation *c = step_of(arena, diag, &options, 0, &f);
    Lower l = front_lower(f, c);
    assert_true(passes_lower(&l, "check_homes"));
    const NodeList *nodes = &c->graph->regions.at[0].nodes;
    made += write_over_what_is_read(&l, nodes, true);
    for (int i = 0; i < nodes->count; i++) {
      const Node *node = graph_node(c->graph, nodes->at[i]);
      if (node->op == OP_MICROBATCH) {
        made += write_over_what_is_read(&l, &c->graph->regions.at[node->region].nodes, false);
      }
    }
    arena_destroy(arena);
  }
  assert_true(made >= LEAST);
}

static const char in_parts[] =
    "import std.nn;\n"
    "model m {\n"
    "  axis batch, seq = 3, a = 12, v = 12;\n"
    "  input x: real[batch, seq, a];\n"
    "  input targets: index(v)[batch, seq];\n"
    "  param p: [a] = 0.7;\n"
    "  param q: [v, a] ~ normal(0.5);\n"
    "  loss = mean(tanh(cross_entropy(dot(x * p, q over a), targets over v)));\n"
    "}\n"
    "layout four { microbatches = 4; }\n"
    "recipe r { model m(); batch = 8; optimizer sgd(lr = 0.05); }\n";

// Values that `mdl diff` asks for, of logits in parts: the gradient of the loss reads what a part makes, so
// microbatches may not add it up where it lies.
static void values_in_parts_are_not_summed_in_place(void **state) {
  (void)state;
  char path[] = "/tmp/mdl-memory-XXXXXX";
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CompiledValues values = {.arena = arena};
  CompileOptions options = {.file = path, .layout = "four", .precision = "fp64", .chunk_bytes = 1, .values = &values};
  Plan *plan;
  const int file = mkstemp(path);
  assert_true(file >= 0 && write(file, in_parts, sizeof in_parts - 1) == sizeof in_parts - 1);
  close(file);
  const bool good = compile_plan(arena, diag, &options, &plan);
  unlink(path);
  if (!good) {
    fail_msg("%s", diag->all.at[0].message);
  }
  arena_destroy(arena);
}

// --- rows with gaps ---

// Leaves out an instruction that is half of a product with a result among others; false: there is none.
static bool leave_out_half(Lower *l, int number) {
  for (int s = 0; s < l->segments.count; s++) {
    InstructionList *list = &l->segments.at[s]->list;
    for (int i = 0; i < list->count; i++) {
      const Instruction *at = &list->at[i];
      if (at->kind == INSTRUCTION_GEMM && at->parts == 2 && at->as.gemm.ldc > at->as.gemm.n && number-- == 0) {
        memmove(&list->at[i], &list->at[i + 1], sizeof *at * (size_t)(list->count - i - 1));
        list->count--;
        return true;
      }
    }
  }
  return false;
}

// number -1: none is left out.
static bool half_is_refused(int number) {
  const Subject subject = {"side_by_side.mdl", "d8"};
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  Front *f;
  CompileOptions options = options_of(arena, &subject);
  options.part_rows = 1;
  Compilation *c = step_of(arena, diag, &options, 0, &f);
  Lower l = front_lower(f, c);
  assert_true(passes_lower(&l, "squares"));
  assert_true(number < 0 || leave_out_half(&l, number));
  memory_lifetimes(&l);
  memory_place(&l);
  const Step step = {.l = &l};
  const char *said;
  const bool refused = is_refused(&step, &said);
  assert_true(!refused || strstr(said, "before anything has written it"));
  assert_int_equal(refused, runs_wrong(&l));
  arena_destroy(arena);
  return refused;
}

static void halves_leave_what_is_beside_them(void **state) {
  (void)state;
  assert_false(half_is_refused(-1));
  assert_true(half_is_refused(0));
  assert_true(half_is_refused(1));
}

static void strided_is_as_an_array(void **state) {
  (void)state;
  enum { NUMBERS = 400, TIMES = 4000, DIMS = 4 };
  int some = 0;
  for (int t = 0; t < TIMES; t++) {
    bool has[NUMBERS] = {false}, next[NUMBERS];
    uint64_t drawn = mix_word(23, (uint64_t)t);
    const int dims = (int)(drawn % DIMS), run = 1 + (int)((drawn >> 8) % 4);
    Strided strided = {.first = NUMBERS / 2, .run = run};
    memset(&has[NUMBERS / 2], true, (size_t)run);
    for (int d = 0; d < dims; d++) {
      drawn = mix_word(drawn, (uint64_t)d);
      const int size = 1 + (int)(drawn % 4), stride = (int)((drawn >> 8) % 41) - 20;
      assert_true(strided_repeat(&strided, size, stride));
      memset(next, false, sizeof next);
      for (int i = 0; i < size; i++) {
        for (int n = 0; n < NUMBERS; n++) {
          const int from = n - i * stride;
          next[n] |= from >= 0 && from < NUMBERS && has[from];
        }
      }
      memcpy(has, next, sizeof has);
    }
    strided_close(&strided);
    for (int i = 0; i < 100; i++) {
      drawn = mix_word(drawn, (uint64_t)i);
      const int first = (int)(drawn % NUMBERS), last = first + (int)((drawn >> 16) % 12);
      const bool meets = first < last && memchr(&has[first], true, (size_t)((last < NUMBERS ? last : NUMBERS) - first));
      assert_int_equal(strided_meets(&strided, first, last), meets);
      some += meets && strided.count > 0;
    }
  }
  assert_true(some > TIMES);
}

// --- ranges ---

static void ranges_are_as_an_array(void **state) {
  (void)state;
  enum { NUMBERS = 96, TIMES = 20000 };
  int owner[NUMBERS];
  Arena *arena = arena_create();
  Ranges ranges = {0};
  memset(owner, -1, sizeof owner);
  for (int t = 0; t < TIMES; t++) {
    const uint64_t drawn = mix_word(11, (uint64_t)t);
    const int first = (int)(drawn % NUMBERS), end = first + (int)((drawn >> 8) % 24), who = (int)((drawn >> 16) % 5);
    const int last = end < NUMBERS ? end : NUMBERS;
    ranges_put(arena, &ranges, first, last, who);
    for (int i = first; i < last; i++) {
      owner[i] = who;
    }
    for (int i = 0; i < NUMBERS; i++) {
      const int at = ranges_find(&ranges, i);
      const bool has = at < ranges.count && ranges.at[at].first <= i;
      assert_int_equal(has ? ranges.at[at].owner : -1, owner[i]);
    }
    for (int i = 0; i + 1 < ranges.count; i++) {
      const Range *a = &ranges.at[i], *b = a + 1;
      assert_true(a->first < a->end && a->end <= b->first && (a->end < b->first || a->owner != b->owner));
    }
  }
  arena_destroy(arena);
}

int main(void) {
  static struct CMUnitTest tests[SUBJECTS + 6];
  static char names[SUBJECTS][64];
  tests[0] = (struct CMUnitTest){"ranges", ranges_are_as_an_array, NULL, NULL, NULL};
  for (int i = 0; i < SUBJECTS; i++) {
    snprintf(names[i], sizeof names[i], "%s %s", subjects[i].file, subjects[i].layout);
    tests[i + 1] = (struct CMUnitTest){names[i], what_is_wrong_is_refused, NULL, NULL, (void *)(uintptr_t)&subjects[i]};
  }
  tests[SUBJECTS + 1] = (struct CMUnitTest){"enough", each_kind_was_wrong_often, NULL, NULL, NULL};
  tests[SUBJECTS + 2] = (struct CMUnitTest){"homes", what_is_read_may_not_be_overwritten, NULL, NULL, NULL};
  tests[SUBJECTS + 3] =
      (struct CMUnitTest){"values in parts", values_in_parts_are_not_summed_in_place, NULL, NULL, NULL};
  tests[SUBJECTS + 4] = (struct CMUnitTest){"halves", halves_leave_what_is_beside_them, NULL, NULL, NULL};
  tests[SUBJECTS + 5] = (struct CMUnitTest){"strided", strided_is_as_an_array, NULL, NULL, NULL};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
