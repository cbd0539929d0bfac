// plan_set_test.c: plans of several ranks and stages: what is sound passes and survives its file, nothing else does.
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
#include <xxhash.h>

#include "compiler/pass/schedule.h"
#include "compiler/plan/artefact.h"
#include "compiler/plan/verify.h"
#include "runtime/inspect.h"
#include "runtime/io.h"

enum { HEADER = 32 };       // bytes of a file before the plans; its hash at 24
enum { PP, DP, TP, AXES };  // the mesh: 2 stages of 2 x 4 ranks
enum { SLOTS = 4, ROWS = 8, WIDTH = 16, BYTES = 1 << 14 };
enum { FORWARD, BACKWARD, APPLY, SEGMENTS };
enum { ACTIVATION, GRADIENT };  // channels
enum { EMBED, WEIGHT, MOMENTUM, STATES };

static char directory[64];

static Instruction *add(Plan *plan, int segment, InstructionKind kind) {
  PlanSegment *at = &plan->segments[segment];
  Instruction *instruction = &at->instructions[at->count++];
  *instruction = (Instruction){.kind = kind, .span = SPAN_NONE, .rule = SPAN_NONE, .name = "layers.0.x"};
  return instruction;
}

// 16 elements over tp, from the beginning of the transient arena.
static void add_collective(Plan *plan, CollectiveKind kind) {
  Instruction *instruction = add(plan, APPLY, INSTRUCTION_COLLECTIVE);
  instruction->why = "x is partial over tp";
  instruction->rule = (Span){0, 6, 9};
  instruction->as.collective = (Collective){.kind = kind,
                                            .type = TYPE_F32,
                                            .mesh = 1u << TP,
                                            .ranks = 4,
                                            .count = 16,
                                            .from = {.arena = ARENA_TRANSIENT},
                                            .to = {.arena = ARENA_TRANSIENT, .offset = 256}};
}

// Queries in a zigzag over tp, and the keys of the rank after the next.
static void add_ring(Plan *plan) {
  Attention *a = &add(plan, FORWARD, INSTRUCTION_ATTENTION)->as.attention;
  *a = (Attention){.type = TYPE_F32, .causal = true, .more = true, .scale = 1, .ring = 1u << TP, .ring_step = 3};
  a->parts = a->key_parts = 2;
  a->key_origin[1] = 28;
  a->key_end = 30;
  a->batch = a->heads = a->groups = 1;
  a->queries = a->keys = a->depth = a->value_depth = 8;
  a->stride_q[1] = a->stride_o[1] = a->stride_k[1] = a->stride_v[1] = 8;
  a->q.arena = a->k.arena = a->v.arena = a->o.arena = a->statistics.arena = ARENA_TRANSIENT;
}

// 256 elements of an arena of which each of 8 ranks has 40, the first 64 being of something else.
static void add_piece(Plan *plan) {
  add(plan, APPLY, INSTRUCTION_PIECE)->as.piece = (Piece){.type = TYPE_F32,
                                                          .first = 64,
                                                          .count = 256,
                                                          .piece = 40,
                                                          .mesh_count = 2,
                                                          .mesh = {DP, TP},
                                                          .from = {.arena = ARENA_TRANSIENT},
                                                          .to = {.arena = ARENA_PERSISTENT, .offset = BYTES - 160}};
}

static void add_message(Plan *plan, int segment, InstructionKind kind, int channel) {
  add(plan, segment, kind)->as.transfer =
      (Transfer){.type = TYPE_F32,
                 .channel = channel,
                 .peer = 1 - plan->stage,
                 .count = 64,
                 .place = {.arena = ARENA_TRANSIENT, .offset = 4096, .lane_stride = 256, .term = 1}};
}

static PlanState state_of(const char *name, StateRole role, int64_t offset) {
  PlanState state = {.name = name, .role = role, .type = TYPE_F32, .axis_count = 2, .offset = offset};
  state.axis[0] = "row";
  state.axis[1] = "column";
  state.size[0] = ROWS;
  state.size[1] = WIDTH;
  state.stride[0] = WIDTH;
  state.stride[1] = 1;
  return state;
}

static void add_states(Arena *arena, Plan *plan) {
  plan->states = ARENA_ARRAY(arena, PlanState, STATES);
  plan->state_count = STATES;
  plan->states[EMBED] = state_of("embed", STATE_PARAMETER, 0);  // on both stages
  plan->states[EMBED].owner = plan->stage == 0;
  PlanState *weight = &plan->states[WEIGHT];  // cut by its columns
  *weight = state_of(plan->stage ? "layers.1.w" : "layers.0.w", STATE_PARAMETER, 512);
  weight->cut[1] = (PlanCut){.count = 1, .mesh = {TP}, .local = WIDTH / 4};
  weight->stride[0] = WIDTH / 4;
  PlanState *momentum = &plan->states[MOMENTUM];  // cut by its columns, and once more as elements 10 to 42 of an arena
  *momentum = state_of(plan->stage ? "momentum.layers.1.w" : "momentum.layers.0.w", STATE_OPTIMIZER, 1024);
  momentum->cut[1] = weight->cut[1];
  momentum->stride[0] = WIDTH / 4;
  momentum->flat_first = 10;
  momentum->flat_piece = 21;
  momentum->flat_count = 1;
  momentum->flat_mesh[0] = DP;
}

static void add_train(Arena *arena, Plan *plan) {
  PlanProgram *program = &plan->programs[PROGRAM_TRAIN];
  Schedule *schedule = schedule_make(arena, SCHEDULE_ONE_F_ONE_B, 2, 1, SLOTS, NULL);
  const ActionList *actions = &schedule->action[plan->stage];
  int lanes = schedule_lanes(schedule, plan->stage, 0);
  program->slots = SLOTS;
  program->calls = ARENA_ARRAY(arena, PlanCall, actions->count + 1);
  for (int i = 0; i < actions->count; i++) {
    const Action *action = &actions->at[i];
    program->calls[program->call_count++] = (PlanCall){.segment = action->kind == ACTION_FORWARD ? FORWARD : BACKWARD,
                                                       .slot = action->microbatch,
                                                       .lane = action->microbatch % lanes,
                                                       .first = action->microbatch == 0};
  }
  program->calls[program->call_count++] = (PlanCall){.segment = APPLY, .first = true};
  program->inputs = ARENA_NEW(arena, PlanInput);
  program->input_count = 1;
  program->inputs[0] = (PlanInput){.name = "tokens", .type = TYPE_INDEX, .axis_count = 2, .bound = 256};
  PlanInput *tokens = &program->inputs[0];
  tokens->axis[0] = "batch";
  tokens->axis[1] = "seq";
  tokens->size[0] = 4;
  tokens->size[1] = 30;  // in 8 blocks of 4: the last two are padding
  tokens->cut[0] = (PlanCut){.count = 1, .mesh = {DP}, .local = 2};
  tokens->cut[1] = (PlanCut){.count = 1, .mesh = {TP}, .zigzag = true, .local = 8};
  tokens->place = (Place){.arena = ARENA_HOST, .slot_stride = 64};
}

static Plan *stage_of(Arena *arena, int stage) {
  static const char *const names[] = {"pp", "dp", "tp"};
  Plan *plan = ARENA_NEW(arena, Plan);
  *plan = (Plan){.real = TYPE_F32, .mesh_count = AXES, .pipeline = PP, .stage = stage, .stages = 2, .term_count = 2};
  for (int i = 0; i < AXES; i++) {
    plan->mesh[i] = (PlanMesh){names[i], i == TP ? 4 : 2};
  }
  plan->terms = ARENA_ARRAY(arena, PlanTerm, 2);
  plan->terms[1].stride[TP] = 1024;
  plan->terms[1].stride[PP] = 512;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    plan->arena_bytes[i] = i == ARENA_HOST ? 256 : BYTES;
  }
  plan->resolved = "model x {}\n";
  plan->source_count = 1;
  plan->sources = ARENA_NEW(arena, Source);
  plan->sources[0] = (Source){"x.mdl", "model x {}\n", 11, false};
  plan->segment_count = SEGMENTS;
  plan->segments = ARENA_ARRAY(arena, PlanSegment, SEGMENTS);
  for (int i = 0; i < SEGMENTS; i++) {
    plan->segments[i] = (PlanSegment){.name = "segment", .instructions = ARENA_ARRAY(arena, Instruction, 8)};
    plan->segments[i].kind = i == FORWARD ? SEGMENT_FORWARD : i == BACKWARD ? SEGMENT_BACKWARD : SEGMENT_APPLY;
  }
  if (stage == 0) {
    add_message(plan, FORWARD, INSTRUCTION_SEND, ACTIVATION);
    add_message(plan, BACKWARD, INSTRUCTION_RECEIVE, GRADIENT);
  } else {
    add_message(plan, FORWARD, INSTRUCTION_RECEIVE, ACTIVATION);
    add_message(plan, BACKWARD, INSTRUCTION_SEND, GRADIENT);
  }
  for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
    add_collective(plan, (CollectiveKind)kind);
  }
  add_piece(plan);
  add_ring(plan);
  add_states(arena, plan);
  add_train(arena, plan);
  return plan;
}

static PlanSet *sample(Arena *arena) {
  PlanSet *set = ARENA_NEW(arena, PlanSet);
  set->count = 2;
  set->plans = ARENA_ARRAY(arena, Plan *, 2);
  set->plans[0] = stage_of(arena, 0);
  set->plans[1] = stage_of(arena, 1);
  return set;
}

static Attention *ring_at(Plan *plan) {
  PlanSegment *forward = &plan->segments[FORWARD];
  return &forward->instructions[forward->count - 1].as.attention;
}

static Collective *collective_at(Plan *plan, CollectiveKind kind) {
  PlanSegment *apply = &plan->segments[APPLY];
  for (int i = 0; i < apply->count; i++) {
    if (apply->instructions[i].kind == INSTRUCTION_COLLECTIVE && apply->instructions[i].as.collective.kind == kind) {
      return &apply->instructions[i].as.collective;
    }
  }
  return NULL;
}

static Piece *piece_at(Plan *plan) {
  return &plan->segments[APPLY].instructions[plan->segments[APPLY].count - 1].as.piece;
}

// What comes from the other stage lies where something was sent from that it has not received yet.
static void has_one_lane(Plan *plan) {
  for (int i = 0; i < plan->programs[PROGRAM_TRAIN].call_count; i++) {
    plan->programs[PROGRAM_TRAIN].calls[i].lane = 0;
  }
}

static void swap_calls(Plan *plan, int i, int j) {
  PlanCall *calls = plan->programs[PROGRAM_TRAIN].calls, call = calls[i];
  calls[i] = calls[j];
  calls[j] = call;
}

// X(what is spoiled in the first or second plan of a sound set, part of what is said about it)
#define SPOILED(X)                                                                                           \
  X(a->mesh[TP].size = 0, "impossible mesh")                                                                 \
  X(a->mesh[TP].size = INT64_MAX, "impossible mesh")                                                         \
  X(a->mesh[TP].size = 1 << 19, "impossible mesh")                                                           \
  X(a->mesh[TP].name = "dp", "two mesh axes of one name")                                                    \
  X(a->pipeline = AXES, "mesh axis that is not there")                                                       \
  X(a->pipeline = -2, "mesh axis that is not there")                                                         \
  X(a->pipeline = -1, "stage that is not there")                                                             \
  X(a->stages = 3, "stage that is not there")                                                                \
  X(b->stage = 2, "stage that is not there")                                                                 \
  X(a->terms[0].stride[DP] = 4, "no first term that is 0")                                                   \
  X(a->term_count = 0, "no first term that is 0")                                                            \
  X(a->arena_bytes[ARENA_TRANSIENT] = INT64_MAX, "impossible size")                                          \
  X(b->terms[1].stride[TP] = 4096, "outside its arena")                                                      \
  X(b->terms[1].stride[TP] = -2048, "outside its arena")                                                     \
  X(b->terms[1].stride[TP] = INT64_MAX, "beyond what can be counted")                                        \
  X(b->terms[1].stride[PP] = BYTES, "outside its arena")                                                     \
  X(a->terms[1].stride[DP] = 2, "not aligned")                                                               \
  X(a->segments[FORWARD].instructions[0].as.transfer.place.term = 2, "term that is not there")               \
  X(a->segments[FORWARD].instructions[0].as.transfer.place.term = -1, "term that is not there")              \
  X(a->segments[FORWARD].instructions[0].as.transfer.place.lane_stride = BYTES, "outside its arena")         \
  X(a->segments[FORWARD].instructions[0].as.transfer.place.lane_stride = -8192, "outside its arena")         \
  X(a->segments[FORWARD].instructions[0].as.transfer.place.lane_stride = 2, "not aligned")                   \
  X(a->segments[FORWARD].instructions[0].as.transfer.count = 0, "impossible count")                          \
  X(a->segments[FORWARD].instructions[0].as.transfer.peer = 0, "stage that is not there")                    \
  X(a->segments[FORWARD].instructions[0].as.transfer.peer = 2, "an impossible")                              \
  X(a->segments[FORWARD].instructions[0].as.transfer.channel = -1, "impossible channel")                     \
  X(a->segments[FORWARD].instructions[0].as.transfer.channel = 1 << 30, "impossible channel")                \
  X(a->segments[FORWARD].chunk = -1, "impossible chunk")                                                     \
  X(a->segments[APPLY].instructions[0].rule.end = 12, "text that is not there")                              \
  X(a->programs[PROGRAM_TRAIN].calls[0].lane = -1, "lane that is not there")                                 \
  X(a->programs[PROGRAM_TRAIN].calls[0].lane = SLOTS, "lane that is not there")                              \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->mesh = 0, "mesh axes that are not there")                       \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->mesh |= 8, "mesh axes that are not there")                      \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->mesh = 1u << 31, "mesh axes that are not there")                \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->mesh |= 1, "several stages")                                    \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->mesh |= 2, "another number of ranks")                           \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->ranks = 1 << 30, "an impossible")                               \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->count = 0, "impossible count")                                  \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->count = INT64_MAX / 2, "impossible count")                      \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->type = TYPE_REAL, "not aligned")                                \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->to.offset = 60, "receives where it sends from")                 \
  X(collective_at(a, COLLECTIVE_ALL_REDUCE)->to.offset = BYTES - 60, "outside its arena")                    \
  X(collective_at(a, COLLECTIVE_ALL_GATHER)->to.offset = BYTES - 252, "outside its arena")                   \
  X(collective_at(a, COLLECTIVE_ALL_GATHER)->from.offset = 256, "receives where it sends from")              \
  X(collective_at(a, COLLECTIVE_REDUCE_SCATTER)->from.offset = BYTES - 252, "outside its arena")             \
  X(collective_at(a, COLLECTIVE_REDUCE_SCATTER)->from.offset = 4, "receives where it sends from")            \
  X(collective_at(a, COLLECTIVE_ALL_TO_ALL)->to.offset = 252, "receives where it sends from")                \
  X(collective_at(a, COLLECTIVE_ALL_TO_ALL)->from.offset = BYTES - 252, "outside its arena")                 \
  X(collective_at(a, COLLECTIVE_ROTATE)->to.offset = 60, "receives where it sends from")                     \
  X(collective_at(a, COLLECTIVE_ROTATE)->from.offset = BYTES - 60, "outside its arena")                      \
  X(ring_at(a)->ring = 1u << PP, "several stages")                                                           \
  X(ring_at(a)->ring = 8, "mesh axes that are not there")                                                    \
  X(ring_at(a)->ring = 0, "keys that are nowhere")                                                           \
  X(ring_at(a)->ring = 1u << DP, "not in the ring")                                                          \
  X(ring_at(a)->ring_step = 4, "not in the ring")                                                            \
  X(ring_at(a)->ring_step = -1, "an impossible")                                                             \
  X(ring_at(a)->key_end = -1, "an impossible")                                                               \
  X(ring_at(a)->key_parts = 3, "an impossible")                                                              \
  X(ring_at(a)->keys = 7, "impossible parts")                                                                \
  X(ring_at(a)->key_origin_term[1] = 2, "term that is not there")                                            \
  X(ring_at(a)->key_origin[0] = INT64_MAX, "an impossible")                                                  \
  X(piece_at(a)->mesh_count = 1, "cut into pieces")                                                          \
  X(piece_at(a)->mesh[1] = DP, "twice over one mesh axis")                                                   \
  X(piece_at(a)->mesh[1] = PP, "or is the pipeline's")                                                       \
  X(piece_at(a)->mesh[1] = 3, "an impossible")                                                               \
  X(piece_at(a)->piece = 39, "cut into pieces")                                                              \
  X(piece_at(a)->piece = 0, "an impossible")                                                                 \
  X(piece_at(a)->piece = 41, "outside its arena")                                                            \
  X(piece_at(a)->first = -1, "an impossible")                                                                \
  X(piece_at(a)->first = INT64_MAX, "an impossible")                                                         \
  X(piece_at(a)->count = 0, "impossible count")                                                              \
  X(piece_at(a)->from.offset = BYTES, "outside its arena")                                                   \
  X(a->states[WEIGHT].cut[1].local = 3, "less than the whole")                                               \
  X(a->states[WEIGHT].cut[1].local = INT64_MAX, "less than the whole")                                       \
  X(a->states[WEIGHT].cut[1].local = -4, "less than the whole")                                              \
  X(a->states[WEIGHT].cut[1].mesh[0] = 8, "mesh axis that is not there")                                     \
  X(a->states[WEIGHT].cut[1].mesh[0] = PP, "or is the pipeline's")                                           \
  X(a->states[WEIGHT].cut[1].count = 4, "more mesh axes than there are")                                     \
  X((a->states[WEIGHT].cut[0] = a->states[WEIGHT].cut[1]), "twice over one mesh axis")                       \
  X(a->states[WEIGHT].cut[0].local = 5, "axis that is not cut")                                              \
  X(a->states[WEIGHT].offset = BYTES - 124, "outside its arena")                                             \
  X(a->states[MOMENTUM].flat_piece = 20, "cut into pieces")                                                  \
  X(a->states[MOMENTUM].flat_piece = -1, "cut into pieces")                                                  \
  X(a->states[MOMENTUM].flat_piece = 0, "into no pieces")                                                    \
  X(a->states[MOMENTUM].flat_first = -1, "cut into pieces")                                                  \
  X(a->states[MOMENTUM].flat_first = INT64_MAX, "cut into pieces")                                           \
  X(a->states[MOMENTUM].flat_mesh[0] = TP, "twice over one mesh axis")                                       \
  X(a->states[MOMENTUM].flat_count = 0, "cut into pieces")                                                   \
  X(a->states[MOMENTUM].offset = BYTES - 80, "outside its arena")                                            \
  X((a->programs[PROGRAM_TRAIN].inputs[0].cut[1].local = 9, a->arena_bytes[ARENA_HOST] = 4096), "no half")   \
  X(a->programs[PROGRAM_TRAIN].inputs[0].cut[0].local = 1, "less than the whole")                            \
  X(a->programs[PROGRAM_TRAIN].inputs[0].place.slot_stride = 68, "outside its arena")                        \
  X(set->count = 1, "plan 0 of 1 is of stage 0 of 2")                                                        \
  X(set->count = 0, "no plan")                                                                               \
  X(set->plans[0] = b, "of stage 1 of 2")                                                                    \
  X((a->mesh[DP].name = "fsdp"), "another mesh")                                                             \
  X(b->programs[PROGRAM_TRAIN].call_count = 0, "do not run the same program")                                \
  X(b->coarsest = TYPE_BF16, "different types")                                                              \
  X(b->states[EMBED].owner = true, "held by 2 stages and owned by 2")                                        \
  X(a->states[EMBED].owner = false, "held by 2 stages and owned by 0")                                       \
  X(b->states[EMBED].size[0] = 4, "'embed' is not the same in stages 0 and 1")                               \
  X(b->states[WEIGHT].name = "embed", "twice in stage 1")                                                    \
  X(b->programs[PROGRAM_TRAIN].inputs[0].bound = 255, "'tokens' is not the same")                            \
  X(b->segments[FORWARD].instructions[0].as.transfer.count = 32, "sends 64 elements of f32 and receives 32") \
  X(b->segments[FORWARD].instructions[0].as.transfer.type = TYPE_INT, "receives 64 of int")                  \
  X(b->segments[FORWARD].instructions[0].as.transfer.channel = 7, "waits for stage")                         \
  X(b->segments[FORWARD].instructions[0].as.transfer.channel = GRADIENT, "uses channel")                     \
  X(b->segments[FORWARD].instructions[0].kind = INSTRUCTION_SEND, "uses channel 0 from stage 1 to 0")        \
  X(b->segments[FORWARD].count = 0, "never ends: stage 0 waits for stage 1 to receive")                      \
  X(a->segments[BACKWARD].count = 0, "never ends: stage 1 waits for stage 0 to receive")                     \
  X(a->segments[BACKWARD].instructions[0].kind = INSTRUCTION_SEND, "uses channel")                           \
  X(b->segments[BACKWARD].count = 0, "never ends: stage 0 waits for stage 1 to send")                        \
  X(b->programs[PROGRAM_TRAIN].calls[0].slot = 1, "sent by microbatch 0 and received by 1")                  \
  X((swap_calls(a, 1, 2), swap_calls(b, 1, 2)), "never ends")                                                \
  X(a->programs[PROGRAM_TRAIN].calls[2].lane = 1, "never ends: stage 0 waits for stage 1 to receive")        \
  X(has_one_lane(a), "never ends: stage 0 waits for stage 1 to receive")

#define NAME_CASE(change, part) {#change, part},
static const struct { const char *change, *part; } spoiled[] = {SPOILED(NAME_CASE)};

static void spoil(PlanSet *set, int which) {
  Plan *a = set->plans[0], *b = set->plans[1];
  int at = 0;
#define RUN_CASE(change, part) \
  if (at++ == which) {         \
    (void)(change);            \
  }
  SPOILED(RUN_CASE)
}

static void test_spoiled(void **state) {
  (void)state;
  for (int which = 0; which < (int)(sizeof spoiled / sizeof *spoiled); which++) {
    Arena *arena = arena_create();
    PlanSet *set = sample(arena);
    spoil(set, which);
    const char *why = plan_set_verify(arena, set);
    if (!why || !strstr(why, spoiled[which].part)) {
      fail_msg("%s: %s", spoiled[which].change, why ? why : "not found");
    }
    arena_destroy(arena);
  }
}

// A scatter may leave each rank's block where it was, and nowhere else in what it reads.
static void test_blocks_stay(void **state) {
  (void)state;
  for (int off = 0; off < 3; off++) {
    Arena *arena = arena_create();
    PlanSet *set = sample(arena);
    for (int s = 0; s < set->count; s++) {
      Plan *plan = set->plans[s];
      Collective *scatter = collective_at(plan, COLLECTIVE_REDUCE_SCATTER);
      PlanTerm *terms = ARENA_ARRAY(arena, PlanTerm, 3);
      const int64_t block = scatter->count * 4;
      memcpy(terms, plan->terms, sizeof *terms * 2);
      terms[2].stride[TP] = off == 1 ? block / 2 : block;
      terms[2].stride[DP] = off == 2 ? -block : 0;
      plan->terms = terms;
      plan->term_count = 3;
      scatter->from.offset = off == 2 ? block : 0;
      scatter->to = scatter->from;
      scatter->to.term = 2;
    }
    const char *why = plan_set_verify(arena, set);
    assert_true(off ? why && strstr(why, "receives where it sends from") : !why);
    arena_destroy(arena);
  }
}

static const char *file_in(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

// What `mdl inspect` says of it.
static void inspected(const PlanSet *set) {
  static const char *const said[] = {"mesh pp 2 x dp 2 x tp 4: 16 ranks; 2 stages along pp, each of 8 ranks",
                                     "tokens index[batch 4 over dp, seq 30 over tp in a zigzag]",
                                     "all_to_all     over tp",
                                     "stage 1  to stage            0               4",
                                     "stage 0  messages sent to stage 1, channel 0       4",
                                     "stage 0  messages received",
                                     "512 pp + 1024 tp",
                                     "[row 8, column 16 over tp], in even pieces over dp: 64 bytes on a rank",
                                     "384 parameters;",
                                     "parameters           3 tensors"};
  Buffer text = {0};
  inspect_plans(set, &text);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    if (!strstr(text.text, said[i])) {
      fail_msg("'%s' is not in\n%s", said[i], text.text);
    }
  }
  buffer_free(&text);
}

static void test_round_trip(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  PlanSet *set = sample(arena);
  why = plan_set_verify(arena, set);
  if (why) {
    fail_msg("%s", why);
  }
  assert_true(artefact_write(arena, set, file_in("a.mdlx"), &why));
  PlanSet *back = artefact_read(arena, file_in("a.mdlx"), &why);
  if (!back) {
    fail_msg("%s", why);
  }
  assert_int_equal(back->count, 2);
  const Plan *a = back->plans[0], *b = back->plans[1];
  assert_string_equal(b->mesh[TP].name, "tp");
  assert_int_equal(b->terms[1].stride[TP], 1024);
  assert_int_equal(b->stage, 1);
  assert_ptr_equal(a->resolved, b->resolved);  // written once
  assert_ptr_equal(a->sources, b->sources);
  assert_true(a->programs[PROGRAM_TRAIN].inputs[0].cut[1].zigzag);
  assert_int_equal(a->programs[PROGRAM_TRAIN].calls[1].lane, 1);
  assert_int_equal(a->states[MOMENTUM].flat_piece, 21);
  assert_true(a->states[EMBED].owner && !b->states[EMBED].owner);
  assert_int_equal(a->segments[BACKWARD].kind, SEGMENT_BACKWARD);
  assert_string_equal(a->segments[APPLY].instructions[0].why, "x is partial over tp");
  assert_int_equal(a->segments[APPLY].instructions[0].rule.end, 9);
  assert_int_equal(a->segments[FORWARD].instructions[0].as.transfer.place.lane_stride, 256);
  inspected(back);
  assert_true(artefact_write(arena, back, file_in("b.mdlx"), &why));
  Error error;
  char *bytes = NULL, *again = NULL;
  size_t size, again_size;
  assert_true(io_read_file(file_in("a.mdlx"), 1 << 24, &bytes, &size, &error));
  assert_true(io_read_file(file_in("b.mdlx"), 1 << 24, &again, &again_size, &error));
  assert_int_equal(size, again_size);
  assert_memory_equal(bytes, again, size);
  free(bytes);
  free(again);
  arena_destroy(arena);
}

// Positions of every part of every cut, on every rank: what the runtime asks of a plan that has loaded.
static void positions(const Plan *plan, const PlanCut *cut, int count) {
  for (int64_t rank = 0; rank < plan_ranks(plan) && rank < 64; rank++) {
    int coordinate[PLAN_MAX_MESH];
    plan_coordinates(plan, rank, coordinate);
    assert_int_equal(plan_rank(plan, coordinate), rank);
    for (int i = 0; i < count; i++) {
      assert_true(plan_position(plan, &cut[i], coordinate, 0) >= 0);
      assert_true(cut[i].count == 0 || plan_position(plan, &cut[i], coordinate, cut[i].local - 1) >= 0);
    }
  }
}

// Bytes changed at random under a hash that fits: read or refused, never a crash; what is read can be asked.
static void test_damaged(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  Error error;
  char *bytes = NULL;
  size_t size;
  assert_true(artefact_write(arena, sample(arena), file_in("a.mdlx"), &why));
  assert_true(io_read_file(file_in("a.mdlx"), 1 << 24, &bytes, &size, &error));
  char *copy = arena_alloc(arena, size);
  uint32_t random = 1;
  int refused = 0;
  for (int round = 0; round < 5000; round++) {
    memcpy(copy, bytes, size);
    for (int change = 0; change <= round % 3; change++) {
      random = random * 1664525u + 1013904223u;
      size_t at = HEADER + (random >> 8) % (size - HEADER);
      random = random * 1664525u + 1013904223u;
      copy[at] = (char)(round % 2 ? random >> 24 : (uint8_t)copy[at] ^ 1u << (random >> 29));
    }
    uint64_t hash = XXH3_64bits(copy + HEADER, size - HEADER);
    memcpy(copy + 24, &hash, sizeof hash);
    assert_true(io_replace_file(NULL, file_in("c.mdlx"), copy, size, &error));
    Arena *scratch = arena_create();
    PlanSet *set = artefact_read(scratch, file_in("c.mdlx"), &why);
    refused += set == NULL;
    for (int i = 0; set && i < set->count; i++) {
      const Plan *plan = set->plans[i];
      for (int j = 0; j < plan->state_count; j++) {
        positions(plan, plan->states[j].cut, plan->states[j].axis_count);
      }
      const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
      for (int j = 0; j < train->input_count; j++) {
        positions(plan, train->inputs[j].cut, train->inputs[j].axis_count);
      }
    }
    arena_destroy(scratch);
  }
  assert_true(refused > 1000 && refused < 5000);
  free(bytes);
  arena_destroy(arena);
}

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-plans-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_spoiled),
      cmocka_unit_test(test_blocks_stay),
      cmocka_unit_test(test_damaged),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
