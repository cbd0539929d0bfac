// check.c: see plan_check.h.
#include "compiler/plan/check.h"

bool check_fail(PlanCheck *v, const char *why) {
  if (!v->why) {
    v->why = arena_format(v->arena, "'%s' %s", v->what ? v->what : "?", why);
  }
  return false;
}

// Adds what count steps of a stride can add to the ends of a range of bytes.
static bool range_add(int64_t *low, int64_t *high, int64_t stride, int64_t count) {
  int64_t reach;
  bool overflow = __builtin_mul_overflow(stride, count - 1, &reach);
  return overflow | __builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high);
}

// Of a coordinate of the ranks of this plan: on the axis of the pipeline there is one.
static int64_t coordinates(const Plan *plan, int axis, int64_t *first) {
  *first = axis == plan->pipeline ? plan->stage : 0;
  return axis == plan->pipeline ? 1 : plan->mesh[axis].size;
}

// Adds everything that moves a place from call to call and rank to rank. True: overflow.
static bool range_move(const PlanCheck *v, const Place *place, int64_t *low, int64_t *high) {
  const PlanTerm *term = &v->plan->terms[place->term];
  bool overflow = __builtin_add_overflow(*low, place->offset, low);
  overflow |= __builtin_add_overflow(*high, place->offset, high);
  overflow |= range_add(low, high, place->slot_stride, v->slots);
  overflow |= range_add(low, high, place->lane_stride, v->lanes);
  for (int i = 0; i < v->plan->mesh_count; i++) {
    int64_t first, count = coordinates(v->plan, i, &first), shift;
    overflow |= __builtin_mul_overflow(term->stride[i], first, &shift);
    overflow |= __builtin_add_overflow(*low, shift, low);
    overflow |= __builtin_add_overflow(*high, shift, high);
    overflow |= range_add(low, high, term->stride[i], count);
  }
  return overflow;
}

bool check_term(PlanCheck *v, int term) {
  return (term >= 0 && term < v->plan->term_count) || check_fail(v, "has a term that is not there");
}

static bool place_aligned(const Plan *plan, const Place *place, int64_t bytes) {
  bool aligned = place->offset % bytes == 0 && place->slot_stride % bytes == 0 && place->lane_stride % bytes == 0;
  for (int i = 0; i < plan->mesh_count; i++) {
    aligned &= plan->terms[place->term].stride[i] % bytes == 0;
  }
  return aligned;
}

// As numbers; where that is, is another question.
static bool place_possible(PlanCheck *v, const Place *place) {
  const int64_t strides[] = {place->slot_stride, place->lane_stride};
  for (int i = 0; i < 2; i++) {
    if (strides[i] < -PLAN_MOST_BYTES || strides[i] > PLAN_MOST_BYTES) {
      return check_fail(v, "has slots or lanes that are too far apart");
    }
  }
  return ((unsigned)place->arena < ARENA_CLASS_COUNT || check_fail(v, "is in an arena that is not there")) &&
         check_term(v, place->term);
}

bool check_place(PlanCheck *v, Place place, Extent extent, int64_t bytes) {
  int64_t low, high;
  bool overflow = extent.overflow;
  if (!place_possible(v, &place)) {
    return false;
  }
  overflow |= __builtin_mul_overflow(extent.first, bytes, &low);
  overflow |= __builtin_mul_overflow(extent.last, bytes, &high);
  overflow |= __builtin_add_overflow(high, bytes, &high);
  overflow |= range_move(v, &place, &low, &high);
  if (overflow || low < 0 || high > v->plan->arena_bytes[place.arena]) {
    return check_fail(v, "lies outside its arena");
  }
  v->range[0] = low;
  v->range[1] = high;
  if (place.arena == ARENA_OFFLOAD &&
      !(v->instruction && (v->instruction->kind == INSTRUCTION_OFFLOAD || v->instruction->kind == INSTRUCTION_FETCH))) {
    return check_fail(v, "is not a copy, and uses the memory where values wait");
  }
  return (bytes >= 1 && place_aligned(v->plan, &place, bytes)) || check_fail(v, "is not aligned to its element type");
}

bool check_operand(PlanCheck *v, const Operand *operand) {
  return operand->memory ? check_place(v, *operand->place, operand->extent, operand->bytes)
                         : check_base(v, operand->place);
}

bool check_base(PlanCheck *v, const Place *place) {
  int64_t low = 0, high = 0;
  if (!place_possible(v, place)) {
    return false;
  }
  bool overflow = range_move(v, place, &low, &high);
  return (!overflow && low >= -PLAN_MOST_BYTES && high <= PLAN_MOST_BYTES) ||
         check_fail(v, "begins at an impossible coordinate");
}

bool check_dense(PlanCheck *v, Place place, int64_t count, ElementType type) {
  return check_place(v, place, (Extent){.last = count - 1, .whole = true}, element_type_bytes(type));
}

bool product_fits(const int64_t *size, int count, int64_t *all) {
  for (int i = 0; i < count; i++) {
    if (__builtin_mul_overflow(*all, size[i], all) || *all > PLAN_MOST_BYTES) {
      return false;
    }
  }
  return true;
}

bool check_batch(PlanCheck *v, const int64_t *size, int count, const int64_t *batch, int batch_count) {
  int64_t all = 1;
  for (int i = 0; i < count + batch_count; i++) {
    if ((i < count ? size[i] : batch[i - count]) < 1) {
      return check_fail(v, "has a size below 1");
    }
  }
  return (product_fits(size, count, &all) && product_fits(batch, batch_count, &all)) ||
         check_fail(v, "has more elements than there can be");
}

bool check_sizes(PlanCheck *v, const int64_t *size, int count) {
  return check_batch(v, size, count, NULL, 0);
}

bool check_strided(PlanCheck *v, Place place, ElementType type, int count, const int64_t *size, const int64_t *stride) {
  Extent extent = {0};
  for (int i = 0; i < count; i++) {
    extent_add(&extent, size[i], stride[i]);
  }
  return check_place(v, place, extent, element_type_bytes(type));
}

bool check_mesh_axes(PlanCheck *v, int count, const int *mesh, uint32_t *used) {
  if (count < 0 || count > v->plan->mesh_count) {
    return check_fail(v, "is cut over more mesh axes than there are");
  }
  for (int i = 0; i < count; i++) {
    if (mesh[i] < 0 || mesh[i] >= v->plan->mesh_count || mesh[i] == v->plan->pipeline) {
      return check_fail(v, "is cut over a mesh axis that is not there, or is the pipeline's");
    }
    if (*used & 1u << mesh[i]) {
      return check_fail(v, "is cut twice over one mesh axis");
    }
    *used |= 1u << mesh[i];
  }
  return true;
}

bool parts_reach(int64_t parts, int64_t part, int64_t end) {
  int64_t all;
  return part >= 1 && !__builtin_mul_overflow(parts, part, &all) && all >= end && all <= PLAN_MOST_BYTES;
}

bool check_cuts(PlanCheck *v, const PlanCut *cut, const int64_t *size, int count, uint32_t *used, int64_t *local) {
  for (int a = 0; a < count; a++) {
    local[a] = cut[a].count > 0 ? cut[a].local : size[a];
    if (!check_mesh_axes(v, cut[a].count, cut[a].mesh, used)) {
      return false;
    }
    if (cut[a].count == 0) {
      if (cut[a].zigzag || (cut[a].local != 0 && cut[a].local != size[a])) {
        return check_fail(v, "has a part of an axis that is not cut");
      }
      continue;
    }
    if (!parts_reach(plan_parts(v->plan, cut[a].mesh, cut[a].count), cut[a].local, size[a])) {
      return check_fail(v, "has parts that are less than the whole");
    }
    if (cut[a].zigzag && plan_parts(v->plan, cut[a].mesh + 1, cut[a].count - 1) * cut[a].local % 2) {
      return check_fail(v, "is cut in a zigzag, but its part has no half");
    }
  }
  return true;
}

// What a stride that differs between two places adds to their distance.
static void distance_add(int64_t *low, int64_t *high, int64_t a, int64_t b, int64_t first, int64_t count) {
  if (first + count > 1) {  // else neither is ever taken, and they may be anything
    *low += (a - b) * first;
    *high += (a - b) * first;
    range_add(low, high, a - b, count);
  }
}

bool places_meet(const PlanCheck *v, const Place *a, int64_t a_bytes, const Place *b, int64_t b_bytes) {
  int64_t low = a->offset - b->offset, high = low;  // of a - b
  distance_add(&low, &high, a->slot_stride, b->slot_stride, 0, v->slots);
  distance_add(&low, &high, a->lane_stride, b->lane_stride, 0, v->lanes);
  for (int i = 0; i < v->plan->mesh_count; i++) {
    int64_t first, count = coordinates(v->plan, i, &first);
    distance_add(&low, &high, v->plan->terms[a->term].stride[i], v->plan->terms[b->term].stride[i], first, count);
  }
  return a->arena == b->arena && low < b_bytes && high > -a_bytes;
}

bool places_same(const Place *a, const Place *b) {
  return a->arena == b->arena && a->offset == b->offset && a->slot_stride == b->slot_stride &&
         a->lane_stride == b->lane_stride && a->term == b->term;
}
