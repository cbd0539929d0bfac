// check_fields.c: the bounds of each field of an instruction, as instructions.def has them.
#include <math.h>

#include "compiler/plan/check.h"

static bool number_within(PlanCheck *v, const char *field, int64_t value, int64_t least, int64_t most) {
  return (value >= least && value <= most) ||
         check_fail(v, arena_format(v->arena, "has an impossible %s, %lld", field, (long long)value));
}

static bool sizes_within(PlanCheck *v, const char *field, const int64_t *values, int count, int64_t least) {
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    good = number_within(v, field, values[i], least, PLAN_MOST_BYTES);
  }
  return good;
}

static bool terms_there(PlanCheck *v, const int *terms, int count) {
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    good = check_term(v, terms[i]);
  }
  return good;
}

static bool ranges_within(PlanCheck *v, const PlanRange *ranges, int count) {
  bool good = number_within(v, "number of parts", count, 1, INT32_MAX);
  for (int i = 0; good && i < count; i++) {
    good = number_within(v, "part", ranges[i].first, 0, PLAN_MOST_BYTES) &&
           number_within(v, "part", ranges[i].count, 1, PLAN_MOST_BYTES);
  }
  return good;
}

#define STEP (-PLAN_MOST_BYTES)
#define STRUCT(Struct, member)                                  \
  static bool fields_##member(PlanCheck *v, const Struct *at) { \
    const Plan *plan = v->plan;                                 \
    bool good = true;                                           \
    (void)plan;
#define TYPE(x) good = good && number_within(v, #x, at->x, 0, ELEMENT_TYPE_COUNT - 1);
#define NUMBER(x, least, most) good = good && number_within(v, #x, at->x, least, most);
#define SIZE(x, least) good = good && number_within(v, #x, at->x, least, PLAN_MOST_BYTES);
#define REAL(x) good = good && (isfinite(at->x) || check_fail(v, "has a " #x " that is no number"));
#define MESHES(x) \
  good = good && (at->x >> plan->mesh_count == 0 || check_fail(v, "is among mesh axes that are not there"));
#define CHOICE(x, Enum, most) good = good && number_within(v, #x, at->x, 0, (int64_t)(most)-1);
#define COUNT(x, most) good = good && number_within(v, #x, at->x, 0, most);
#define SIZES(x, most, count, least) good = good && sizes_within(v, #x, at->x, count, least);
#define TERMS(x, most, count) good = good && terms_there(v, at->x, count);
#define AXES(x, most, count)                                                          \
  for (int i = 0; good && i < (count); i++) {                                         \
    good = number_within(v, "mesh axis", at->x[i], 0, (int64_t)plan->mesh_count - 1); \
  }
#define SCORE(x) good = good && number_within(v, #x, at->x, 0, plan->kernel_count);
#define RANGES(x, count) good = good && ranges_within(v, at->x, at->count);
#define END(Struct) \
  return good;      \
  }
#include "compiler/plan/instructions.def"

bool check_fields(PlanCheck *v, const Instruction *instruction) {
  switch (instruction->kind) {
#define INSTRUCTION(KIND, text, Struct, member) \
  case INSTRUCTION_##KIND:                      \
    return fields_##member(v, &instruction->as.member);
#include "compiler/plan/instructions.def"
    case INSTRUCTION_KIND_COUNT:
      break;
  }
  return check_fail(v, "is an unknown instruction");
}
