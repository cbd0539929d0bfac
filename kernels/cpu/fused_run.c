// fused_run.c: carries out what fused_build.c decided.
#include <math.h>
#include <string.h>

#include "kernels/cpu/fused_internal.h"

typedef struct {
  Binding binding;
  char *const *scratch;
  char *columns;   // partial column reductions: [reduction][row block][total, lost][column]
  double *totals;  // partial totals: [total][task]
} Job;

// One task at work: the tile it is at, and where the values are.
typedef struct {
  const Job *job;
  const Program *program;
  char *scratch;
  double *accumulator;  // [row reduction][row of the group]
  int64_t row_block, column_begin;
  int64_t row, rows, column, columns;  // the tile
  double total[KERNEL_MAX_PORTS], total_lost[KERNEL_MAX_PORTS];
  char *at[FUSED_MAX_NODES];
  int64_t stride[FUSED_MAX_NODES];
  int64_t port_row[KERNEL_MAX_PORTS];  // element offset of the group's first row in each port of FULL values
} Task;

static void values_fixed(Task *task) {
  const Program *program = task->program;
  for (int i = 0; i < program->node_count; i++) {
    const Node *node = &program->node[i];
    task->at[i] = task->scratch + node->offset;
    task->stride[i] = node->home == HOME_ROW ? 1 : 0;
  }
}

// Addresses of the values that move with the tile.
static void values_move(Task *task, const Phase *phase) {
  const Program *program = task->program;
  const int64_t inside = task->column - task->column_begin;
  for (int k = 0; k < phase->value_count; k++) {
    const int i = phase->value[k];
    const Node *node = &program->node[i];
    if (node->home == HOME_TILE) {
      task->at[i] = task->scratch + node->offset;
      task->stride[i] = task->columns;
    } else if (node->home == HOME_WHOLE) {
      task->at[i] = task->scratch + node->offset + inside * node->bytes;
      task->stride[i] = program->block_columns;
    } else {
      const Port *port = &program->port[node->home_port];
      char *memory = task->job->binding.ports[port->index];
      task->at[i] = memory + (task->port_row[node->home_port] + task->column) * port->bytes;
      task->stride[i] = port->row_step;
    }
  }
}

// Asks for the memory that the next tile will touch first in this phase, a few cache lines before each node, so that
// it arrives while this tile is computed. The hardware alone begins anew at each tile and at each page.
typedef struct {
  int64_t row, rows, column, bytes_left;
  int value;  // index into the phase's values
  int64_t line;
  const char *at;
  int64_t quota;
} Prefetch;

enum { CACHE_LINE = 64 };

static bool prefetch_wants(const Program *program, int number, int at) {
  const Node *node = &program->node[at];
  return node->home == HOME_PORT && node->phase == number;
}

// Next line of elements that the next tile reads; false: there is none.
static bool prefetch_advance(const Task *task, int number, Prefetch *next) {
  const Program *program = task->program;
  const Phase *phase = &program->phase[number];
  next->line++;
  while (next->line >= next->rows || next->value < 0 || !prefetch_wants(program, number, phase->value[next->value])) {
    next->line = 0;
    if (++next->value >= phase->value_count) {
      return false;
    }
  }
  const Port *port = &program->port[program->node[phase->value[next->value]].home_port];
  const int64_t row = next->row - task->row + next->line;
  const int64_t at = task->port_row[program->node[phase->value[next->value]].home_port] + row * port->row_step;
  next->at = (const char *)task->job->binding.ports[port->index] + (at + next->column) * port->bytes;
  next->bytes_left = program->chunk * port->bytes;
  return true;
}

static void prefetch_begin(const Task *task, int number, int64_t row_end, int64_t column_end, Prefetch *next) {
  const Program *program = task->program;
  const Phase *phase = &program->phase[number];
  *next = (Prefetch){.row = task->row, .column = task->column + program->chunk, .value = -1};
  if (next->column >= column_end) {
    next->row += program->group_rows;
    next->column = task->column_begin;
  }
  next->rows = min_i64(program->group_rows, row_end - next->row);
  int64_t ports = 0;
  for (int k = 0; k < phase->value_count; k++) {
    ports += prefetch_wants(program, number, phase->value[k]);
  }
  const int64_t lines = ports * (program->group_rows * program->chunk * program->real_bytes / CACHE_LINE + 1);
  next->quota = next->rows > 0 ? lines / max_i64(1, phase->tile_count) + 1 : 0;
}

static void prefetch_some(const Task *task, int number, Prefetch *next) {
  for (int64_t i = 0; i < next->quota; i++) {
    if (next->bytes_left <= 0 && !prefetch_advance(task, number, next)) {
      next->quota = 0;
      return;
    }
    __builtin_prefetch(next->at, 0, 2);
    next->at += CACHE_LINE;
    next->bytes_left -= CACHE_LINE;
  }
}

// Column values: their part for the tile, or for the whole task when they are computed.
static void columns_move(Task *task) {
  const Program *program = task->program;
  for (int i = 0; i < program->node_count; i++) {
    const Node *node = &program->node[i];
    if (node->level != LEVEL_COLUMN) {
      continue;
    }
    if (node->home == HOME_COLUMN) {
      task->at[i] = task->scratch + node->offset + (task->column - task->column_begin) * node->bytes;
    } else if (node->home == HOME_PORT) {
      const Port *port = &program->port[node->home_port];
      task->at[i] = (char *)task->job->binding.ports[port->index] + task->column * port->bytes;
    }
  }
}

static void run_elementwise(const Task *task, int at, const Node *node, int64_t rows, int64_t columns) {
  VectorCall call = {.out = task->at[at], .rows = rows, .columns = columns, .out_stride = task->stride[at]};
  call.single = node->single;
  bool flat = rows > 1 && call.out_stride == columns;
  for (int k = 0; k < node->operand_count; k++) {
    const int operand = node->operand[k];
    call.operand[k] = task->at[operand];
    call.stride[k] = task->stride[operand];
    flat = flat && call.stride[k] == ((node->single >> k & 1) != 0 ? 0 : columns);
  }
  if (flat) {
    call.columns *= call.rows;
    call.rows = 1;
  }
  node->fn(&call);
}

static void run_source(const Task *task, int at, const Node *node, int64_t rows, int64_t columns) {
  const bool random = node->op == KERNEL_UNIFORM || node->op == KERNEL_NORMAL;
  uint32_t step = 0;
  if (random) {
    memcpy(&step, task->at[node->operand[0]], sizeof step);
  }
  source_fill(&task->job->binding, node, step, task->at[at], task->stride[at], task->row, rows, task->column, columns);
}

static void run_row_reduction(const Task *task, const Node *node) {
  const SimdReal *real = task->program->real;
  const char *x = task->at[node->operand[0]];
  const int64_t step = task->stride[node->operand[0]] * task->program->real_bytes;
  double *accumulator = task->accumulator + node->reduction * task->program->group_rows;
  const bool first = task->column == task->column_begin;
  for (int64_t r = 0; r < task->rows; r++) {
    if (node->op == KERNEL_ROW_SUM) {
      accumulator[r] = (first ? 0.0 : accumulator[r]) + real->sum(x + r * step, task->columns);
      continue;
    }
    const bool largest = node->op == KERNEL_ROW_MAX;
    const double value = (largest ? real->max : real->min)(x + r * step, task->columns);
    const double before = first ? value : accumulator[r];
    const bool keep = before != before || (largest ? before > value : before < value);
    accumulator[r] = keep ? before : value;
  }
}

static void finish_row_reductions(const Task *task, const Phase *phase) {
  for (int k = 0; k < phase->tile_count; k++) {
    const Node *node = &task->program->node[phase->tile[k]];
    if (!op_is_row_reduction(node->op)) {
      continue;
    }
    const double *accumulator = task->accumulator + node->reduction * task->program->group_rows;
    char *out = task->at[phase->tile[k]];
    for (int64_t r = 0; r < task->rows; r++) {
      if (task->program->real_bytes == 4) {
        ((float *)(void *)out)[r] = (float)accumulator[r];
      } else {
        ((double *)(void *)out)[r] = accumulator[r];
      }
    }
  }
}

static char *column_partial(const Job *job, int64_t reduction, int64_t row_block, int part) {
  const Program *program = job->binding.program;
  const int64_t line = (reduction * program->row_blocks + row_block) * 2 + part;
  return job->columns + line * program->inner.total * program->real_bytes;
}

static void run_column_reduction(const Task *task, const Node *node) {
  const Program *program = task->program;
  const SimdReal *real = program->real;
  const int64_t skip = task->column * program->real_bytes;
  char *total = column_partial(task->job, node->reduction, task->row_block, 0) + skip;
  const char *x = task->at[node->operand[0]];
  const int64_t stride = task->stride[node->operand[0]];
  if (node->op == KERNEL_COLUMN_SUM) {
    char *lost = column_partial(task->job, node->reduction, task->row_block, 1) + skip;
    real->column_sum(total, lost, x, task->rows, stride, task->columns);
  } else {
    (node->op == KERNEL_COLUMN_MAX ? real->column_max : real->column_min)(total, x, task->rows, stride, task->columns);
  }
}

static double combine(KernelOp op, double a, double b, double *lost) {
  if (op == KERNEL_TOTAL_SUM) {
    const double y = b - *lost, sum = a + y;
    *lost = isfinite(sum) ? (sum - a) - y : 0.0;  // infinities lose nothing
    return sum;
  }
  return a != a || (op == KERNEL_TOTAL_MAX ? a > b : a < b) ? a : b;
}

static double identity(KernelOp op) {
  if (op == KERNEL_TOTAL_SUM || op == KERNEL_COLUMN_SUM) {
    return 0.0;
  }
  return op == KERNEL_TOTAL_MAX || op == KERNEL_COLUMN_MAX ? -INFINITY : INFINITY;
}

static void run_total(Task *task, const Node *node, int64_t rows, int64_t columns) {
  const SimdReal *real = task->program->real;
  const char *x = task->at[node->operand[0]];
  const int64_t step = task->stride[node->operand[0]] * task->program->real_bytes;
  for (int64_t r = 0; r < rows; r++) {
    const char *line = x + r * step;
    const double value = node->op == KERNEL_TOTAL_SUM   ? real->sum(line, columns)
                         : node->op == KERNEL_TOTAL_MAX ? real->max(line, columns)
                                                        : real->min(line, columns);
    const int k = node->reduction;
    task->total[k] = combine(node->op, task->total[k], value, &task->total_lost[k]);
  }
}

static void run_row_node(Task *task, int at) {
  const Node *node = &task->program->node[at];
  if (node->op == KERNEL_STORE) {
    const Port *port = &task->program->port[node->port];
    port_store(&task->job->binding, port, LEVEL_ROW, node->integer, task->at[node->operand[0]], 0, task->row,
               task->rows, 0, 1);
  } else if (op_is_total(node->op)) {
    run_total(task, node, 1, task->rows);
  } else if (node->fn) {
    run_elementwise(task, at, node, 1, task->rows);
  } else {
    run_source(task, at, node, task->rows, 1);
  }
}

static void run_tile_node(Task *task, int at) {
  const Node *node = &task->program->node[at];
  if (node->fn) {
    run_elementwise(task, at, node, task->rows, task->columns);
  } else if (op_is_row_reduction(node->op)) {
    run_row_reduction(task, node);
  } else if (op_is_column_reduction(node->op)) {
    run_column_reduction(task, node);
  } else if (op_is_total(node->op)) {
    run_total(task, node, task->rows, task->columns);
  } else if (node->op == KERNEL_STORE) {
    const int operand = node->operand[0];
    port_store(&task->job->binding, &task->program->port[node->port], LEVEL_FULL, node->integer, task->at[operand],
               task->stride[operand], task->row, task->rows, task->column, task->columns);
  } else {
    run_source(task, at, node, task->rows, task->columns);
  }
}

// Scalars, and column values for all columns of the task.
static void run_prologue(Task *task, int64_t columns) {
  const Program *program = task->program;
  for (int k = 0; k < program->scalar_count; k++) {
    const int at = program->scalar[k];
    if (program->node[at].fn) {
      run_elementwise(task, at, &program->node[at], 1, 1);
    } else if (program->node[at].op == KERNEL_CONST) {
      const double number = program->node[at].number;
      const float narrow = (float)number;
      memcpy(task->at[at], program->real_bytes == 4 ? (const void *)&narrow : &number, (size_t)program->real_bytes);
    } else if (program->node[at].op == KERNEL_INTEGER) {
      const int32_t value = (int32_t)program->node[at].constant;
      memcpy(task->at[at], &value, sizeof value);
    } else {
      run_source(task, at, &program->node[at], 1, 1);
    }
  }
  task->column = task->column_begin;
  columns_move(task);
  for (int k = 0; k < program->column_count; k++) {
    const int at = program->column[k];
    if (program->node[at].fn) {
      run_elementwise(task, at, &program->node[at], 1, columns);
    } else {
      run_source(task, at, &program->node[at], 1, columns);
    }
  }
}

static void fill_real(const Program *program, char *x, int64_t n, double value) {
  for (int64_t i = 0; i < n; i++) {
    if (program->real_bytes == 4) {
      ((float *)(void *)x)[i] = (float)value;
    } else {
      ((double *)(void *)x)[i] = value;
    }
  }
}

static void partials_begin(Task *task, int64_t columns) {
  const Program *program = task->program;
  const int64_t skip = task->column_begin * program->real_bytes;
  for (int k = 0; k < program->column_reductions; k++) {
    const double value = identity(program->node[program->column_node[k]].op);
    fill_real(program, column_partial(task->job, k, task->row_block, 0) + skip, columns, value);
    fill_real(program, column_partial(task->job, k, task->row_block, 1) + skip, columns, 0.0);
  }
  for (int k = 0; k < program->totals; k++) {
    task->total[k] = identity(program->node[program->total_node[k]].op);
    task->total_lost[k] = 0.0;
  }
}

static void run_group(Task *task, int64_t row_end, int64_t column_end) {
  const Program *program = task->program;
  for (int p = 0; p < program->port_count; p++) {
    task->port_row[p] = side_offset(&program->outer, program->port[p].row, task->row);
  }
  for (int p = 0; p < program->phase_count; p++) {
    const Phase *phase = &program->phase[p];
    for (int k = 0; k < phase->row_count; k++) {
      run_row_node(task, phase->row[k]);
    }
    if (phase->tile_count == 0) {
      continue;
    }
    for (task->column = task->column_begin; task->column < column_end; task->column += program->chunk) {
      task->columns = min_i64(program->chunk, column_end - task->column);
      values_move(task, phase);
      columns_move(task);
      Prefetch next;
      prefetch_begin(task, p, row_end, column_end, &next);
      for (int k = 0; k < phase->tile_count; k++) {
        prefetch_some(task, p, &next);
        run_tile_node(task, phase->tile[k]);
      }
    }
    finish_row_reductions(task, phase);
  }
}

// The next rows or columns of parts that are computed, from `at` to before `end`: so far as they go on. parted: it is
// these that have parts. False: there are none.
static bool next_run(const Job *job, bool parted, int64_t at, int64_t end, int64_t *first, int64_t *last) {
  const Program *program = job->binding.program;
  const Side *side = program->outer.count > 0 ? &program->outer : &program->inner;
  *first = at;
  *last = end;
  if (parted && program->parts > 0) {
    const int32_t *chosen = job->binding.ports[program->chosen];
    const int64_t each = side->total / program->parts;
    while (*first < end && chosen[*first / each] < 0) {
      *first = (*first / each + 1) * each;
    }
    for (*last = *first; *last < end && chosen[*last / each] >= 0;) {
      *last = min_i64((*last / each + 1) * each, end);
    }
  }
  return *first < end;
}

static void run_task(void *context, int worker, int64_t number) {
  const Job *job = context;
  const Program *program = job->binding.program;
  Task task;
  task.job = job;
  task.program = program;
  task.scratch = job->scratch[worker];
  task.accumulator = (double *)(void *)(task.scratch + program->accumulator_offset);
  task.row_block = number / program->column_blocks;
  const int64_t column_begin = number % program->column_blocks * program->block_columns;
  const int64_t column_end = min_i64(column_begin + program->block_columns, program->inner.total);
  const int64_t row_begin = task.row_block * program->block_rows;
  const int64_t row_end = min_i64(row_begin + program->block_rows, program->outer.total);
  const bool rows = program->outer.count > 0;
  int64_t row, first_row, last;
  for (int64_t at = column_begin; next_run(job, !rows, at, column_end, &task.column_begin, &last); at = last) {
    task.row = row_begin;
    task.rows = 1;
    values_fixed(&task);
    run_prologue(&task, last - task.column_begin);
    partials_begin(&task, last - task.column_begin);
    int64_t last_row;
    for (row = row_begin; next_run(job, rows, row, row_end, &first_row, &last_row); row = last_row) {
      for (task.row = first_row; task.row < last_row; task.row += program->group_rows) {
        task.rows = min_i64(program->group_rows, last_row - task.row);
        run_group(&task, last_row, last);
      }
    }
  }
  for (int k = 0; k < program->totals; k++) {
    job->totals[k * program->row_blocks * program->column_blocks + number] = task.total[k];
  }
}

enum { COMBINE_COLUMNS = 1024 };

// Adds up the partial column reductions of one block of columns in order of row blocks, and stores them.
static void run_combine(void *context, int worker, int64_t number) {
  const Job *job = context;
  const Program *program = job->binding.program;
  const int64_t begin = number * COMBINE_COLUMNS, columns = min_i64(COMBINE_COLUMNS, program->inner.total - begin);
  const int64_t skip = begin * program->real_bytes;
  (void)worker;
  for (int k = 0; k < program->column_reductions; k++) {
    const Node *node = &program->node[program->column_node[k]];
    char *total = column_partial(job, k, 0, 0) + skip, *lost = column_partial(job, k, 0, 1) + skip;
    for (int64_t b = 1; b < program->row_blocks; b++) {
      const char *part = column_partial(job, k, b, 0) + skip;
      if (node->op == KERNEL_COLUMN_SUM) {
        program->real->column_sum(total, lost, part, 1, columns, columns);
      } else {
        (node->op == KERNEL_COLUMN_MAX ? program->real->column_max : program->real->column_min)(total, part, 1, columns,
                                                                                                columns);
      }
    }
    port_store(&job->binding, &program->port[node->port], LEVEL_COLUMN, false, total, 0, 0, 1, begin, columns);
  }
}

static void store_totals(const Job *job) {
  const Program *program = job->binding.program;
  const int64_t tasks = program->row_blocks * program->column_blocks;
  for (int k = 0; k < program->totals; k++) {
    const Node *node = &program->node[program->total_node[k]];
    double total = identity(node->op), lost = 0.0;
    for (int64_t i = 0; i < tasks; i++) {
      total = combine(node->op, total, job->totals[k * tasks + i], &lost);
    }
    const float narrow = (float)total;
    const void *x = program->real_bytes == 4 ? (const void *)&narrow : &total;
    const int64_t zero[KERNEL_MAX_DIMS] = {0};
    Port port = program->port[node->port];
    port.rows_repeat = port.columns_repeat = false;
    memcpy(port.row, zero, sizeof zero);
    memcpy(port.column, zero, sizeof zero);
    port_store(&job->binding, &port, LEVEL_FULL, false, x, 0, 0, 1, 0, 1);
  }
}

static Job job_of(const Program *program, void *const *ports, bool first, char *const *scratch, char *shared) {
  const int64_t columns = program->column_reductions * program->row_blocks * program->inner.total * 2;
  Job job = {.binding = {program, ports, first}, .scratch = scratch, .columns = shared};
  job.totals = (double *)(void *)(shared + round_up(columns * program->real_bytes, 64));
  return job;
}

void fused_run(const Fused *fused, Pool *pool, void *const *places, bool first, char *const *scratch, char *shared) {
  void *ports[KERNEL_MAX_PORTS];
  memcpy(ports, places, sizeof *ports * (size_t)fused->port_count);
  for (int i = 0; i < fused->shadow_count; i++) {
    const Shadow *shadow = &fused->shadow[i];
    memcpy(shared + shadow->offset, (char *)ports[shadow->port] + shadow->first, (size_t)shadow->bytes);
    ports[shadow->port] = shared + shadow->offset - shadow->first;
  }
  char *partials = shared;
  for (int i = 0; i < fused->program_count; i++) {
    const Program *program = &fused->program[i];
    Job job = job_of(program, ports, first, scratch, partials);
    partials += round_up(program->shared_bytes, 64);
    if (program->node_count > 0) {
      pool_run(pool, program->row_blocks * program->column_blocks, run_task, &job);
    }
  }
  partials = shared;
  for (int i = 0; i < fused->program_count; i++) {
    const Program *program = &fused->program[i];
    Job job = job_of(program, ports, first, scratch, partials);
    partials += round_up(program->shared_bytes, 64);
    if (program->column_reductions > 0) {
      pool_run(pool, blocks_of(program->inner.total, COMBINE_COLUMNS), run_combine, &job);
    }
    store_totals(&job);
  }
}

int64_t fused_scratch_bytes(const Fused *fused) {
  return fused->scratch_bytes;
}

int64_t fused_shared_bytes(const Fused *fused) {
  return fused->shared_bytes;
}
