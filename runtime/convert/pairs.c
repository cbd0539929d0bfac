// pairs.c: expands the lines of a mapping over layers and experts, and copies elements.
#include "runtime/convert/pairs.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "runtime/element.h"

static const int64_t EXPANDED_MAX = 1 << 22;  // tensors of one line

typedef struct {  // {axis} in a name
  const char *axis;
  int64_t size, at;
} Index;

typedef struct {
  Arena *arena;
  const Mapping *mapping;
  const MappingTensor *line;
  const ModelNumbers *numbers;
  const Weights *weights;
  int index_count;
  Index index[MAPPING_MAX_INDEXES];
  Error *error;
} Expansion;

// --- messages ---

void unfit_add(Unfit *unfit, const char *format, ...) {
  if (unfit->count++ < (unfit->most > 0 ? unfit->most : UNFIT_NAMED)) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    unfit->text = arena_format(unfit->arena, "%s%s%s", unfit->text ? unfit->text : "", unfit->text ? "; " : "", text);
  }
}

bool unfit_report(const Unfit *unfit, const char *what, Error *error) {
  if (unfit->count == 0) {
    return true;
  }
  char rest[64] = "";
  if (unfit->count > UNFIT_NAMED) {
    snprintf(rest, sizeof rest, "; and %d more", unfit->count - UNFIT_NAMED);
  }
  return error_set(error, 1, "%s: %.800s%s", what, unfit->text, rest);
}

const char *shape_text(Arena *arena, int count, const int64_t *size) {
  const char *text = "[";
  for (int i = 0; i < count; i++) {
    text = arena_format(arena, "%s%s%lld", text, i ? ", " : "", (long long)size[i]);
  }
  return arena_format(arena, "%s]", text);
}

// --- expanding ---

static bool wrong(const Expansion *x, const char *what, const char *name) {
  return error_set(x->error, 1, "%s:%d: %s '%.100s'", x->mapping->path, x->line->line, what, name);
}

static const Index *index_of(const Expansion *x, const char *axis) {
  for (int i = 0; i < x->index_count; i++) {
    if (strcmp(x->index[i].axis, axis) == 0) {
      return &x->index[i];
    }
  }
  return NULL;
}

static bool indexes_find(Expansion *x) {
  int64_t names = 1;
  x->index_count = 0;
  for (const char *open = strchr(x->line->name, '{'); open; open = strchr(open + 1, '{')) {
    const char *axis = arena_format(x->arena, "%.*s", (int)strcspn(open + 1, "}"), open + 1);
    const ModelNumber *number = model_number(x->numbers, axis);
    if (!number || !number->axis) {
      return wrong(x, "the model has no axis", axis);
    }
    if (__builtin_mul_overflow(names, (int64_t)number->value, &names) || names > EXPANDED_MAX) {
      return wrong(x, "the axes in { } make too many names of", x->line->name);
    }
    x->index[x->index_count++] = (Index){.axis = axis, .size = (int64_t)number->value};
  }
  return true;
}

// With numbers in place of {axis}. NULL, and an error: another axis.
static const char *expanded(const Expansion *x, const char *name) {
  const char *made = "";
  for (const char *at = name; *at;) {
    const size_t plain = strcspn(at, "{");
    made = arena_format(x->arena, "%s%.*s", made, (int)plain, at);
    at += plain;
    if (*at) {
      const size_t length = strcspn(at, "}");
      const Index *index = index_of(x, arena_format(x->arena, "%.*s", (int)length - 1, at + 1));
      if (!index) {
        wrong(x, "the name of the tensor does not have the axis of", name);
        return NULL;
      }
      made = arena_format(x->arena, "%s%lld", made, (long long)index->at);
      at += length + (at[length] == '}');
    }
  }
  return made;
}

static int weight_find(const Weights *weights, const char *name) {
  for (int i = 0; i < weights->count; i++) {
    if (strcmp(weights->at[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

int64_t weight_count(const Weight *weight) {
  int64_t count = 1;
  for (int i = 0; i < weight->axis_count; i++) {
    count *= weight->size[i];
  }
  return count;
}

int64_t pair_count(const Pair *pair) {
  int64_t count = 1;
  for (int i = 0; i < pair->axis_count; i++) {
    count *= pair->size[i];
  }
  return count;
}

// Finds each axis of a parameter among the factors, or among the indexes of the tensor's name.
static bool part_fit(const Expansion *x, Pair *pair, int p) {
  const MappingTensor *line = x->line;
  const Weight *weight = &x->weights->at[pair->part[p]];
  bool placed[MAPPING_MAX_FACTORS] = {0};
  int64_t stride = 1;
  for (int a = weight->axis_count - 1; a >= 0; a--) {
    const Index *index = index_of(x, weight->axis[a]);
    int f = 0;
    while (f < line->factor_count && strcmp(line->factor[f].axis, weight->axis[a]) != 0) {
      f++;
    }
    if (f < line->factor_count) {
      if (placed[f] || (p > 0 && (pair->stride[f] != stride || pair->factor_size[f] != weight->size[a]))) {
        return wrong(x, "the parameters of one tensor are not alike:", weight->name);
      }
      if (line->factor[f].interleaved && weight->size[a] % 2 != 0) {
        return wrong(x, "an odd number of positions cannot be interleaved:", weight->axis[a]);
      }
      placed[f] = true;
      pair->stride[f] = stride;
      pair->factor_size[f] = weight->size[a];
    } else if (index && index->size == weight->size[a]) {
      pair->offset[p] += index->at * stride;
    } else {
      return wrong(x, "no dimension has the axis", arena_format(x->arena, "%s' of '%s", weight->axis[a], weight->name));
    }
    stride *= weight->size[a];
  }
  for (int f = 0; f < line->factor_count; f++) {
    if (!placed[f] && f != pair->parts_factor) {
      return wrong(x, "the parameter lacks the axis",
                   arena_format(x->arena, "%s': '%s", line->factor[f].axis, weight->name));
    }
  }
  return true;
}

static bool pair_make(const Expansion *x, Pairs *pairs) {
  const MappingTensor *line = x->line;
  Pair pair = {.factor_count = line->factor_count,
               .parts_factor = -1,
               .part_count = line->part_count,
               .axis_count = line->dimension_count};
  int there = 0;
  for (int f = 0; f < line->factor_count; f++) {
    pair.interleaved[f] = line->factor[f].interleaved;
    if (strcmp(line->factor[f].axis, "parts") == 0) {
      pair.parts_factor = f;
      pair.factor_size[f] = line->part_count;
    }
  }
  pair.name = expanded(x, line->name);
  for (int p = 0; pair.name && p < line->part_count; p++) {
    const char *name = expanded(x, line->part[p]);
    if (!name) {
      return false;
    }
    pair.part[p] = weight_find(x->weights, name);
    there += pair.part[p] >= 0;
  }
  if (!pair.name || there == 0) {  // the model has no such parameters
    return pair.name != NULL;
  }
  if (there < line->part_count) {
    return wrong(x, "the model has some of the parameters, but not all, of", pair.name);
  }
  for (int p = 0; p < line->part_count; p++) {
    if (!part_fit(x, &pair, p)) {
      return false;
    }
  }
  for (int i = 0; i < pair.axis_count; i++) {
    pair.size[i] = 1;
  }
  for (int f = 0; f < line->factor_count; f++) {
    pair.size[line->factor[f].dimension] *= pair.factor_size[f];
  }
  array_push(x->arena, pairs, pair);
  return true;
}

static bool line_expand(Expansion *x, Pairs *pairs) {
  if (!indexes_find(x)) {
    return false;
  }
  for (;;) {
    if (!pair_make(x, pairs)) {
      return false;
    }
    int i = x->index_count - 1;
    while (i >= 0 && ++x->index[i].at == x->index[i].size) {
      x->index[i--].at = 0;
    }
    if (i < 0) {
      return true;
    }
  }
}

bool pairs_make(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const Weights *weights, Pairs *pairs,
                Unfit *unsaid, Error *error) {
  Expansion x = {.arena = arena, .mapping = mapping, .numbers = numbers, .weights = weights, .error = error};
  *pairs = (Pairs){0};
  for (int i = 0; i < mapping->tensors.count; i++) {
    x.line = &mapping->tensors.at[i];
    if (!line_expand(&x, pairs)) {
      return false;
    }
  }
  int64_t *covered = ARENA_ARRAY(arena, int64_t, weights->count + 1);
  for (int i = 0; i < pairs->count; i++) {
    for (int p = 0; p < pairs->at[i].part_count; p++) {
      covered[pairs->at[i].part[p]] += pair_count(&pairs->at[i]) / pairs->at[i].part_count;
    }
  }
  Unfit unfit = {.arena = arena};
  for (int i = 0; i < weights->count; i++) {
    const Weight *weight = &weights->at[i];
    if (covered[i] != weight_count(weight)) {
      unfit_add(unsaid && covered[i] == 0 ? unsaid : &unfit, "'%.80s' %s", weight->name,
                shape_text(arena, weight->axis_count, weight->size));
    }
  }
  const char *what =
      arena_format(arena, "%s does not say where these parameters of the model stand, once each", mapping->path);
  return unfit_report(&unfit, what, error);
}

// --- elements ---

typedef struct {
  const Pair *pair;
  int part;
  int64_t bytes;
  const char *from;
  char *to;
  bool gives;
} Copy;

static int64_t place_of(const Pair *pair, int f, int64_t i) {
  const int64_t half = pair->factor_size[f] / 2;
  return (pair->interleaved[f] ? i / 2 + i % 2 * half : i) * pair->stride[f];
}

// The factors from f on; `there` and `here` are elements of the tensor and the parameter.
static void copy_factors(const Copy *c, int f, int64_t there, int64_t here) {
  const Pair *pair = c->pair;
  if (f == pair->factor_count) {
    memcpy(c->to + (c->gives ? there : here) * c->bytes, c->from + (c->gives ? here : there) * c->bytes,
           (size_t)c->bytes);
    return;
  }
  if (f == pair->parts_factor) {
    copy_factors(c, f + 1, there * pair->factor_size[f] + c->part, here);
    return;
  }
  const int64_t count = pair->factor_size[f], first = there * count;
  if (f + 1 < pair->factor_count || c->bytes != 4 || pair->interleaved[f]) {
    for (int64_t i = 0; i < count; i++) {
      copy_factors(c, f + 1, first + i, here + place_of(pair, f, i));
    }
    return;
  }
  const int64_t stride = pair->stride[f];
  const uint32_t *from = (const uint32_t *)c->from;
  uint32_t *to = (uint32_t *)c->to;
  for (int64_t i = 0; i < count; i++) {
    to[c->gives ? first + i : here + i * stride] = from[c->gives ? here + i * stride : first + i];
  }
}

void pair_take(const Pair *pair, int part, int64_t bytes, const void *tensor, void *parameter) {
  const Copy copy = {pair, part, bytes, tensor, parameter, false};
  copy_factors(&copy, 0, 0, pair->offset[part]);
}

void pair_give(const Pair *pair, int part, int64_t bytes, const void *parameter, void *tensor) {
  const Copy copy = {pair, part, bytes, parameter, tensor, true};
  copy_factors(&copy, 0, 0, pair->offset[part]);
}

static bool type_of_dtype(const char *dtype, ElementType *type) {
  static const ElementType types[] = {TYPE_F64, TYPE_F32, TYPE_F16, TYPE_BF16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(dtype, element_type_dtype(types[i])) == 0) {
      *type = types[i];
      return true;
    }
  }
  return false;
}

bool elements_convert(const char *from_dtype, const void *from, const char *to_dtype, void *to, int64_t count,
                      double *beyond) {
  ElementType a, b;
  *beyond = 0;
  if (!type_of_dtype(from_dtype, &a) || !type_of_dtype(to_dtype, &b)) {
    return false;
  }
  const char *in = from;
  char *out = to;
  const int64_t in_bytes = element_type_bytes(a), out_bytes = element_type_bytes(b);
  if (a == b) {
    memcpy(out, in, (size_t)(count * in_bytes));
    return true;
  }
  const double large = b == TYPE_F16 ? 65504 : 3.3e38;  // from here on it may become infinite
  for (int64_t i = 0; i < count; i++) {
    const double value = element_get(a, in + i * in_bytes);
    element_put(b, out + i * out_bytes, value);
    if (fabs(value) > large && isfinite(value) && !isfinite(element_get(b, out + i * out_bytes))) {
      *beyond = value;
    }
  }
  return true;
}

bool elements_take(const char *name, const char *from_dtype, const void *from, ElementType to_type, void *to,
                   int64_t count, Error *error) {
  double beyond;
  const char *to_dtype = element_type_dtype(to_type);
  if (!elements_convert(from_dtype, from, to_dtype, to, count, &beyond)) {
    return error_set(error, 1, "'%.100s' has elements of type %.20s", name, from_dtype);
  }
  return beyond == 0 || error_set(error, 1, "'%.100s' holds %g, more than %s can hold", name, beyond, to_dtype);
}

bool elements_fit(const char *name, ElementType from_type, const void *from, ElementType to_type, void *to,
                  int64_t count, Error *error) {
  return elements_take(name, element_type_dtype(from_type), from, to_type, to, count, error);
}
