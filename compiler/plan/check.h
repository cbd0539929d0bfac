// check.h: what plan_verify is made of: extents, places and cuts, in arithmetic that cannot overflow.
#ifndef MDL_COMPILER_PLAN_CHECK_H
#define MDL_COMPILER_PLAN_CHECK_H

#include "base/array.h"
#include "compiler/plan/operands.h"

// Of what is possible; far above what is sensible, and low enough that sums of a few do not overflow.
#define PLAN_MOST_BYTES (INT64_C(1) << 56)
enum { PLAN_MOST_RANKS = 1 << 20, PLAN_MOST_SLOTS = 1 << 20, PLAN_MOST_CHANNELS = 1 << 16, PLAN_MOST_CHUNKS = 1 << 12 };

typedef struct {
  Arena *arena;
  const Plan *plan;
  int slots, lanes;                // of the calls of the segment at hand
  const Instruction *instruction;  // at hand, or NULL
  int64_t range[2];                // bytes of the place that was checked last, in its arena
  const char *what;                // the thing at hand
  const char *why;                 // the first thing wrong
} PlanCheck;

bool check_fail(PlanCheck *v, const char *why);  // false

// What an instruction touches of one operand: v->range.
bool check_operand(PlanCheck *v, const Operand *operand);

// Elements [first, last] of `bytes` bytes each at a place, in every slot and lane, on every rank.
bool check_place(PlanCheck *v, Place place, Extent extent, int64_t bytes);
bool check_dense(PlanCheck *v, Place place, int64_t count, ElementType type);
bool check_strided(PlanCheck *v, Place place, ElementType type, int count, const int64_t *size, const int64_t *stride);

// Where coordinates begin: no memory, but a number all the same.
bool check_base(PlanCheck *v, const Place *place);

// Whether two places may be the same memory in one call on one rank. Both have passed check_place.
bool places_meet(const PlanCheck *v, const Place *a, int64_t a_bytes, const Place *b, int64_t b_bytes);

// plan_set_owners.c: what a program leaves in a tensor of several stages is on each of them what its owner has written
// last: NULL, or a sentence. Of plans that fit together otherwise.
const char *owners_agree(Arena *arena, const PlanSet *set, ProgramKind program);

bool places_same(const Place *a, const Place *b);

// check_fields.c: each field of the instruction's structure within its bounds, which instructions.def has.
bool check_fields(PlanCheck *v, const Instruction *instruction);

// verify_instruction.c.
bool check_instruction(PlanCheck *v, const Instruction *instruction);

// check_steps.c: whether the training programs read and write alike outside of a plan, and each phase has one.
bool check_steps(PlanCheck *v);

// verify_run.c: the run that a plan is for; and its names, which become paths, JSON and words on a screen.
bool check_run(PlanCheck *v);
bool check_names(PlanCheck *v);

// check_states.c: whether no two states share memory. Of states that are inside their arena.
bool check_states_apart(PlanCheck *v);

bool check_term(PlanCheck *v, int term);
// At least 1, and together no more elements than there can be: what has strides of 0 is in no arena's bounds.
bool check_sizes(PlanCheck *v, const int64_t *size, int count);
bool check_batch(PlanCheck *v, const int64_t *size, int count, const int64_t *batch, int batch_count);  // of both

// Multiplies *all, which fits, by sizes that are not negative. False: more than PLAN_MOST_BYTES.
bool product_fits(const int64_t *size, int count, int64_t *all);

// Mesh axes that cut something, none of them in *used before.
bool check_mesh_axes(PlanCheck *v, int count, const int *mesh, uint32_t *used);

// Whether `parts` parts of `part` reach from 0 to the end; without overflow.
bool parts_reach(int64_t parts, int64_t part, int64_t end);

// The cuts of all axes of a value, and how much of each is on one rank.
bool check_cuts(PlanCheck *v, const PlanCut *cut, const int64_t *size, int count, uint32_t *used, int64_t *local);

#endif
