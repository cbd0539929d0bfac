// fused_memory.c: values of a fused kernel between memory and tiles, where a tile cannot use the memory as it lies.
#include "kernels/cpu/fused_internal.h"

int64_t side_offset(const Side *side, const int64_t *stride, int64_t at) {
  int64_t offset = 0;
  for (int i = side->count - 1; i > 0; i--) {
    offset += at % side->size[i] * stride[i];
    at /= side->size[i];
  }
  return side->count > 0 ? offset + at * stride[0] : 0;
}

// Walks `n` coordinates of a side from `at` in runs along its last dim.
typedef struct {
  const Side *side;
  const int64_t *stride;
  int64_t coordinate[KERNEL_MAX_DIMS];
  int64_t offset, left;
  int64_t run, step;  // the present run: elements and distance between them
} Walk;

static void walk_run(Walk *walk) {
  const Side *side = walk->side;
  const int last = side->count - 1;
  walk->run = last < 0 ? 1 : min_i64(side->size[last] - walk->coordinate[last], walk->left);
  walk->step = last < 0 ? 1 : walk->stride[last];
}

static void walk_begin(Walk *walk, const Side *side, const int64_t *stride, int64_t at, int64_t n) {
  walk->side = side;
  walk->stride = stride;
  walk->left = n;
  walk->offset = 0;
  for (int i = side->count - 1; i >= 0; i--) {
    walk->coordinate[i] = i > 0 ? at % side->size[i] : at;
    at /= side->size[i];
    walk->offset += walk->coordinate[i] * stride[i];
  }
  walk_run(walk);
}

static bool walk_next(Walk *walk) {
  walk->left -= walk->run;
  if (walk->left <= 0) {
    return false;
  }
  int i = walk->side->count - 1;
  walk->offset += walk->run * walk->stride[i];
  walk->coordinate[i] += walk->run;
  for (; i > 0 && walk->coordinate[i] == walk->side->size[i]; i--) {
    walk->offset += walk->stride[i - 1] - walk->coordinate[i] * walk->stride[i];
    walk->coordinate[i] = 0;
    walk->coordinate[i - 1]++;
  }
  walk_run(walk);
  return true;
}

// One run of a source: n elements whose offsets in the port begin at `offset`.
static void source_run(const Binding *binding, const Node *node, uint32_t step, char *out, int64_t offset,
                       int64_t stride, int64_t n) {
  const Program *program = binding->program;
  const Port *port = &program->port[node->port];
  const char *memory = binding->ports[port->index];
  const RandomKey key = {(uint64_t)node->constant, step};
  switch (node->op) {
    case KERNEL_LOAD:
      if (node->integer) {
        program->simd->integer->load((int32_t *)(void *)out, (const int32_t *)(const void *)memory + offset, stride, n);
      } else {
        program->real->load[port->type](out, memory + offset * port->bytes, stride, n);
      }
      return;
    case KERNEL_IOTA:
      program->simd->integer->iota((int32_t *)(void *)out, node->constant + (int64_t)(intptr_t)memory + offset, stride,
                                   n);
      return;
    case KERNEL_UNIFORM:
      program->real->uniform(out, key, (int64_t)(intptr_t)memory + offset, stride, n);
      return;
    default:
      program->real->normal(out, key, (int64_t)(intptr_t)memory + offset, stride, n);
      return;
  }
}

static void source_line(const Binding *binding, const Node *node, uint32_t step, char *out, const Side *side,
                        const int64_t *stride, int64_t base, int64_t at, int64_t n) {
  Walk walk;
  walk_begin(&walk, side, stride, at, n);
  do {
    source_run(binding, node, step, out, base + walk.offset, walk.step, walk.run);
    out += walk.run * node->bytes;
  } while (walk_next(&walk));
}

void source_fill(const Binding *binding, const Node *node, uint32_t step, void *out, int64_t out_stride, int64_t row,
                 int64_t rows, int64_t column, int64_t columns) {
  const Program *program = binding->program;
  const Port *port = &program->port[node->port];
  if (node->level == LEVEL_ROW) {
    source_line(binding, node, step, out, &program->outer, port->row, 0, row, rows);
    return;
  }
  if (node->level == LEVEL_SCALAR) {
    source_run(binding, node, step, out, 0, 1, 1);
    return;
  }
  const int64_t lines = node->level == LEVEL_COLUMN ? 1 : rows;
  for (int64_t r = 0; r < lines; r++) {
    const int64_t base = node->level == LEVEL_COLUMN ? 0 : side_offset(&program->outer, port->row, row + r);
    char *line = (char *)out + r * out_stride * node->bytes;
    source_line(binding, node, step, line, &program->inner, port->column, base, column, columns);
  }
}

static void store_run(const Binding *binding, const Port *port, bool integer, const char *x, int64_t offset,
                      int64_t stride, int64_t n) {
  const Program *program = binding->program;
  char *memory = (char *)binding->ports[port->index] + offset * port->bytes;
  const bool adds = port->accumulate && !binding->first;
  if (integer) {
    const SimdInteger *table = program->simd->integer;
    (adds ? table->add : table->store)((int32_t *)(void *)memory, stride, (const int32_t *)(const void *)x, n);
  } else {
    (adds ? program->real->add : program->real->store)[port->type](memory, stride, x, n);
  }
}

// True if the coordinate `at` is 0 on every dim on which the port does not move.
static bool is_first_visit(const Side *side, const int64_t *stride, int64_t at) {
  for (int i = side->count - 1; i >= 0; i--) {
    if (stride[i] == 0 && at % side->size[i] != 0) {
      return false;
    }
    at /= side->size[i];
  }
  return true;
}

static void store_line(const Binding *binding, const Port *port, bool integer, const char *x, const Side *side,
                       const int64_t *stride, bool repeats, int64_t base, int64_t at, int64_t n) {
  const int64_t bytes = integer ? 4 : binding->program->real_bytes;
  if (repeats) {
    for (int64_t i = 0; i < n; i++) {
      if (is_first_visit(side, stride, at + i)) {
        store_run(binding, port, integer, x + i * bytes, base + side_offset(side, stride, at + i), 1, 1);
      }
    }
    return;
  }
  Walk walk;
  walk_begin(&walk, side, stride, at, n);
  do {
    store_run(binding, port, integer, x, base + walk.offset, walk.step, walk.run);
    x += walk.run * bytes;
  } while (walk_next(&walk));
}

void port_store(const Binding *binding, const Port *port, KernelLevel level, bool integer, const void *x,
                int64_t x_stride, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const Program *program = binding->program;
  const int64_t bytes = integer ? 4 : program->real_bytes;
  if (level == LEVEL_ROW) {
    store_line(binding, port, integer, x, &program->outer, port->row, port->rows_repeat, 0, row, rows);
    return;
  }
  const int64_t lines = level == LEVEL_COLUMN ? 1 : rows;
  for (int64_t r = 0; r < lines; r++) {
    if (level == LEVEL_FULL && port->rows_repeat && !is_first_visit(&program->outer, port->row, row + r)) {
      continue;
    }
    const int64_t base = level == LEVEL_COLUMN ? 0 : side_offset(&program->outer, port->row, row + r);
    const char *line = (const char *)x + r * x_stride * bytes;
    store_line(binding, port, integer, line, &program->inner, port->column, port->columns_repeat, base, column,
               columns);
  }
}
