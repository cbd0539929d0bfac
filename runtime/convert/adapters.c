// adapters.c: finds adapters by the patterns of a mapping, and adds them to weights.
#include "runtime/convert/adapters.h"

#include <math.h>
#include <string.h>

bool pattern_fits(const char *pattern, const char *name, const char **stem, size_t *length) {
  const size_t head = strcspn(pattern, "*"), tail = strlen(pattern + head + 1), all = strlen(name);
  *stem = name + head;
  *length = all > head + tail ? all - head - tail : 0;
  return *length > 0 && strncmp(pattern, name, head) == 0 && strcmp(pattern + head + 1, name + all - tail) == 0;
}

const char *pattern_name(Arena *arena, const char *pattern, const char *stem, size_t length) {
  const size_t head = strcspn(pattern, "*");
  return arena_format(arena, "%.*s%.*s%s", (int)head, pattern, (int)length, stem, pattern + head + 1);
}

bool adapter_names(const Mapping *mapping, const char *name) {
  const char *stem;
  size_t length;
  for (int i = 0; i < mapping->adapters.count; i++) {
    const MappingAdapter *line = &mapping->adapters.at[i];
    if (pattern_fits(line->factor[0], name, &stem, &length) || pattern_fits(line->factor[1], name, &stem, &length)) {
      return true;
    }
  }
  return false;
}

// --- finding ---

typedef struct {
  Arena *arena;
  const Mapping *mapping;
  const MappingAdapter *line;
  const Weights *weights;
  double scale;
  Error *error;
} Search;

static bool wrong(const Search *s, const char *name, const char *what) {
  return error_set(s->error, 1, "%s:%d: '%.100s' %s", s->mapping->path, s->line->line, name, what);
}

static int axis_find(const Weight *weight, const char *axis) {
  for (int i = 0; i < weight->axis_count; i++) {
    if (strcmp(weight->axis[i], axis) == 0) {
      return i;
    }
  }
  return -1;
}

static void adapter_axis(const Search *s, Adapter *adapter, const char *axis, int64_t size) {
  const int at = adapter->axis_count++;
  adapter->size[at] = size;
  for (int f = 0; f < 2; f++) {
    const Weight *factor = &s->weights->at[adapter->factor[f]];
    const int found = axis_find(factor, axis);
    int64_t stride = found >= 0;
    for (int i = found + 1; found >= 0 && i < factor->axis_count; i++) {
      stride *= factor->size[i];
    }
    adapter->stride[f][at] = stride;
  }
}

// Every axis of `into` is one of a factor's, every other axis of a factor one of both.
static bool adapter_fits(const Search *s, const Adapter *adapter) {
  const Weight *into = &s->weights->at[adapter->into];
  for (int a = 0; a < into->axis_count; a++) {
    if (adapter->stride[0][a] == 0 && adapter->stride[1][a] == 0) {
      return wrong(s, into->name, "has an axis that neither factor of its adapter has");
    }
  }
  for (int f = 0; f < 2; f++) {
    const Weight *factor = &s->weights->at[adapter->factor[f]], *other = &s->weights->at[adapter->factor[1 - f]];
    for (int a = 0; a < factor->axis_count; a++) {
      const int in = axis_find(into, factor->axis[a]), there = axis_find(other, factor->axis[a]);
      if ((in < 0 && there < 0) || (in >= 0 && into->size[in] != factor->size[a]) ||
          (there >= 0 && other->size[there] != factor->size[a])) {
        return wrong(
            s, factor->name,
            arena_format(s->arena, "has an axis '%s' that does not fit: one of '%s' or of both factors is wanted",
                         factor->axis[a], into->name));
      }
    }
  }
  return true;
}

static bool adapter_make(const Search *s, Adapter *adapter) {
  const Weight *into = &s->weights->at[adapter->into], *first = &s->weights->at[adapter->factor[0]];
  for (int a = 0; a < into->axis_count; a++) {
    adapter_axis(s, adapter, into->axis[a], into->size[a]);
  }
  adapter->kept = adapter->axis_count;
  for (int a = 0; a < first->axis_count; a++) {
    if (axis_find(into, first->axis[a]) < 0) {
      adapter_axis(s, adapter, first->axis[a], first->size[a]);
    }
  }
  return adapter_fits(s, adapter);
}

static int weight_named(const Search *s, const char *pattern, const char *stem, size_t length) {
  const char *name = pattern_name(s->arena, pattern, stem, length);
  for (int i = 0; i < s->weights->count; i++) {
    if (strcmp(s->weights->at[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

static bool line_find(Search *s, Adapters *adapters) {
  for (int i = 0; i < s->weights->count; i++) {
    const char *stem, *name = s->weights->at[i].name;
    size_t length;
    if (!pattern_fits(s->line->factor[0], name, &stem, &length)) {
      continue;
    }
    Adapter adapter = {.scale = s->scale, .factor[0] = i};
    adapter.into = weight_named(s, s->line->into, stem, length);
    adapter.factor[1] = weight_named(s, s->line->factor[1], stem, length);
    if (adapter.into < 0 || adapter.factor[1] < 0) {
      const char *pattern = adapter.into < 0 ? s->line->into : s->line->factor[1];
      return wrong(s, name,
                   arena_format(s->arena, "is a factor of an adapter, but there is no '%s'",
                                pattern_name(s->arena, pattern, stem, length)));
    }
    if (!adapter_make(s, &adapter)) {
      return false;
    }
    array_push(s->arena, adapters, adapter);
  }
  return true;
}

bool adapters_find(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const Weights *weights,
                   Adapters *adapters, Error *error) {
  Search s = {.arena = arena, .mapping = mapping, .weights = weights, .error = error};
  *adapters = (Adapters){0};
  for (int i = 0; i < mapping->adapters.count; i++) {
    Value value = {.kind = VALUE_NUMBER, .number = 1};
    s.line = &mapping->adapters.at[i];
    const int before = adapters->count;
    if (!line_find(&s, adapters)) {
      return false;
    }
    if (adapters->count == before) {
      continue;  // of a model without them the formula may be one over 0
    }
    if (s.line->scale && (!config_number(arena, mapping, s.line->scale, numbers, &value, error) ||
                          (value.kind != VALUE_NUMBER &&
                           !error_set(error, 1, "%s:%d: the scale is no number", mapping->path, s.line->line)))) {
      return false;
    }
    for (int a = before; a < adapters->count; a++) {
      adapters->at[a].scale = value.number;
    }
  }
  return true;
}

bool adapters_merged(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, ModelNumbers *merged,
                     Error *error) {
  *merged = *numbers;
  merged->at = arena_copy(arena, numbers->at, sizeof *numbers->at * (size_t)numbers->count);
  for (int i = 0; i < mapping->merged.count; i++) {
    const MappingLine *line = &mapping->merged.at[i];
    Value value;
    ModelNumber *number = NULL;
    for (int n = 0; n < merged->count; n++) {
      number = strcmp(merged->at[n].name, line->name) == 0 ? &merged->at[n] : number;
    }
    if (!number) {
      return error_set(error, 1, "%s: the model %s has no axis and no constant '%.80s'", mapping->path, numbers->model,
                       line->name);
    }
    if (!config_number(arena, mapping, line->formula, numbers, &value, error)) {
      return false;
    }
    if (value.kind != VALUE_NUMBER && value.kind != VALUE_TRUTH) {
      return error_set(error, 1, "%s: `merged %s` is no number", mapping->path, line->name);
    }
    number->value = value.number;
  }
  return true;
}

// --- adding ---

int64_t adapter_row(const Adapter *adapter) {
  return adapter->kept > 0 ? adapter->size[adapter->kept - 1] : 1;
}

// What axes [from, to) at position `index` mean for each factor; the last of them the fastest.
static void place_of(const Adapter *adapter, int from, int to, int64_t index, int64_t place[2]) {
  for (int a = to - 1; a >= from; a--) {
    const int64_t at = index % adapter->size[a];
    index /= adapter->size[a];
    place[0] += at * adapter->stride[0][a];
    place[1] += at * adapter->stride[1][a];
  }
}

static int64_t extent(const Adapter *adapter, int from, int to) {
  int64_t count = 1;
  for (int a = from; a < to; a++) {
    count *= adapter->size[a];
  }
  return count;
}

// The sum for all positions along the last axis of `into`.
static void row_sum(const Adapter *adapter, const double *first, const double *second, int64_t index, double *row) {
  const int last = adapter->kept > 0 ? adapter->kept - 1 : 0;
  const int64_t width = adapter_row(adapter), terms = extent(adapter, adapter->kept, adapter->axis_count);
  const int64_t step[2] = {adapter->kept > 0 ? adapter->stride[0][last] : 0,
                           adapter->kept > 0 ? adapter->stride[1][last] : 0};
  int64_t base[2] = {0, 0};
  memset(row, 0, sizeof *row * (size_t)width);
  place_of(adapter, 0, last, index, base);
  for (int64_t t = 0; t < terms; t++) {
    int64_t place[2] = {base[0], base[1]};
    place_of(adapter, adapter->kept, adapter->axis_count, t, place);
    const double *a = first + place[0], *b = second + place[1];
    if (step[0] == 0 && step[1] == 1) {  // the factor that varies lies in a row: vector code
      for (int64_t i = 0; i < width; i++) {
        row[i] += *a * b[i];
      }
    } else {
      for (int64_t i = 0; i < width; i++) {
        row[i] += a[i * step[0]] * b[i * step[1]];
      }
    }
  }
}

bool adapter_add(const Adapter *adapter, const double *first, const double *second, ElementType type, void *into,
                 double *row) {
  const int64_t width = adapter_row(adapter), rows = extent(adapter, 0, adapter->kept) / width;
  bool holds = true;
  for (int64_t r = 0; r < rows; r++) {
    row_sum(adapter, first, second, r, row);
    for (int64_t i = 0; i < width; i++) {
      const int64_t at = r * width + i;
      const double was = type == TYPE_F64 ? ((double *)into)[at] : (double)((float *)into)[at];
      const double sum = was + adapter->scale * row[i];
      const double kept = type == TYPE_F64 ? sum : (double)(float)sum;
      holds &= isfinite(kept) || !isfinite(was) || !isfinite(row[i]);
      if (type == TYPE_F64) {
        ((double *)into)[at] = kept;
      } else {
        ((float *)into)[at] = (float)kept;
      }
    }
  }
  return holds;
}
