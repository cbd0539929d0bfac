// fused_schedule.c: in which phase each node runs, where its value lives, and how the space is cut into tasks.
#include <string.h>

#include "kernels/cpu/fused_internal.h"

enum {
  TILE_BYTES = 4096,       // of one value in a tile
  TASK_ELEMENTS = 32768,   // of a task, where the space allows
  COLUMN_ROW_BLOCKS = 32,  // most blocks of rows whose column reductions are combined
  SLOT_SKEW = 192,         // bytes between buffers, so that they do not fall on the same cache sets
};

// Where a node stands in the order of execution.
static int key_of(const Program *program, int phase, int node) {
  return phase * (program->node_count + 1) + node + 1;
}

static int available(const Node *node) {
  return node->phase + (op_is_row_reduction(node->op) ? 1 : 0);
}

static bool is_source(const Node *node) {
  return node->operand_count == 0 || node->op == KERNEL_UNIFORM || node->op == KERNEL_NORMAL;
}

static void phases_earliest(Program *program) {
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    for (int k = 0; k < node->operand_count; k++) {
      node->phase = (int)max_i64(node->phase, available(&program->node[node->operand[k]]));
    }
  }
}

// Tile values made of sources only move to the phase of their first use, so that they need not outlive a phase.
static void phases_sink(Program *program) {
  int first_use[FUSED_MAX_NODES];
  for (int i = 0; i < program->node_count; i++) {
    first_use[i] = -1;
  }
  for (int i = program->node_count - 1; i >= 0; i--) {
    Node *node = &program->node[i];
    bool light = node->level == LEVEL_FULL && !op_is_output(node->op) && !op_is_row_reduction(node->op);
    for (int k = 0; k < node->operand_count; k++) {
      const Node *operand = &program->node[node->operand[k]];
      light = light && (operand->level != LEVEL_FULL || is_source(operand));
    }
    if (light && first_use[i] > node->phase) {
      node->phase = first_use[i];
    }
    for (int k = 0; k < node->operand_count; k++) {
      int *use = &first_use[node->operand[k]];
      *use = *use < 0 ? node->phase : (int)min_i64(*use, node->phase);
    }
  }
}

// The last (phase, node) that reads memory which `port` overwrites.
static int last_read_of(const Request *request, const Program *program, const Port *port, bool whole_phase) {
  int key = -1;
  for (int i = 0; i < program->node_count; i++) {
    const Node *load = &program->node[i];
    if (load->op != KERNEL_LOAD || load->port < 0 || !(load->level & LEVEL_COLUMN)) {  // those of rows come first
      continue;
    }
    const int input = program->port[load->port].index;
    if (request->shadowed[input] ||
        !ports_overlap(request->kernel, request->places, request->slots, port->index, input)) {
      continue;
    }
    for (int u = i; u < program->node_count; u++) {
      const Node *user = &program->node[u];
      bool uses = u == i;
      for (int k = 0; k < user->operand_count; k++) {
        uses |= user->operand[k] == i;
      }
      if (uses) {
        const int at = whole_phase ? key_of(program, user->phase + 1, -1) : key_of(program, user->phase, u);
        key = (int)max_i64(key, at);
      }
    }
  }
  return key;
}

// An output runs when its value is there and what it overwrites has been read.
static void outputs_place(const Request *request, Program *program, int *key) {
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    if (!op_is_output(node->op)) {
      continue;
    }
    const Node *operand = &program->node[node->operand[0]];
    key[i] = op_is_row_reduction(operand->op) ? key_of(program, operand->phase + 1, -1)
                                              : key_of(program, operand->phase, node->operand[0]);
    if (node->op == KERNEL_STORE) {
      const Port *port = &program->port[node->port];
      key[i] = (int)max_i64(key[i], last_read_of(request, program, port, node->level != LEVEL_FULL));
    }
    node->phase = key[i] / (program->node_count + 1);
  }
}

static void uses_find(Program *program) {
  program->phase_count = 1;
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    node->last_phase = node->phase;
    program->phase_count = (int)max_i64(program->phase_count, available(node) + 1);
    for (int k = 0; k < node->operand_count; k++) {
      Node *operand = &program->node[node->operand[k]];
      operand->last_phase = (int)max_i64(operand->last_phase, node->phase);
    }
  }
}

static void tasks_cut(Program *program) {
  const int64_t rows = program->outer.total, columns = program->inner.total;
  const int64_t tile = TILE_BYTES / program->real_bytes;
  const bool whole_rows = program->row_reductions > 0;
  program->chunk = min_i64(columns, tile);
  program->block_columns = whole_rows ? columns : min_i64(columns, TASK_ELEMENTS);
  program->column_blocks = blocks_of(columns, program->block_columns);
  program->group_rows = min_i64(rows, max_i64(1, tile / columns));
  int64_t block = round_up(max_i64(1, TASK_ELEMENTS / program->block_columns), program->group_rows);
  if (program->column_reductions > 0) {
    block = max_i64(block, round_up(blocks_of(rows, COLUMN_ROW_BLOCKS), program->group_rows));
  }
  program->block_rows = min_i64(block, rows);
  program->row_blocks = blocks_of(rows, program->block_rows);
}

static bool is_direct(const Program *program, const Node *node, const Port *port) {
  const bool same_type =
      node->integer ? port->bytes == 4 : port->type == (program->real_bytes == 4 ? TYPE_F32 : TYPE_F64);
  return same_type && port->columns_dense && (program->group_rows == 1 || port->rows_even);
}

// A tile value that is stored may be computed where it is stored to.
static int store_target(const Request *request, const Program *program, int at) {
  for (int u = at + 1; u < program->node_count; u++) {
    const Node *store = &program->node[u];
    if (store->op != KERNEL_STORE || store->operand[0] != at || store->level != LEVEL_FULL) {
      continue;
    }
    const Port *port = &program->port[store->port];
    if (!port->accumulate && !port->rows_repeat && !port->columns_repeat && is_direct(program, store, port) &&
        last_read_of(request, program, port, false) <= key_of(program, program->node[at].phase, at)) {
      return u;
    }
  }
  return -1;
}

static void homes_choose(const Request *request, Program *program) {
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    node->home_port = node->port;
    const bool direct =
        node->op == KERNEL_LOAD && node->port >= 0 && is_direct(program, node, &program->port[node->port]);
    if (op_is_output(node->op)) {
      node->home = HOME_NONE;
    } else if (node->level == LEVEL_SCALAR || node->level == LEVEL_ROW) {
      node->home = node->level == LEVEL_ROW ? HOME_ROW : HOME_SCALAR;
    } else if (direct) {
      node->home = HOME_PORT;
    } else if (node->level == LEVEL_COLUMN) {
      node->home = HOME_COLUMN;
    } else {
      node->home = node->last_phase > node->phase ? HOME_WHOLE : HOME_TILE;
      const int store = store_target(request, program, i);
      if (store >= 0) {
        node->home = HOME_PORT;
        node->home_port = program->node[store].port;
        program->node[store].operand_count = 0;  // nothing left to do
      }
    }
  }
}

static void phase_append(Program *program, Phase *phase, int at) {
  const Node *node = &program->node[at];
  if (op_is_output(node->op) && node->operand_count == 0) {
    return;
  }
  const bool by_row = op_is_row_reduction(node->op) ? false : node->level == LEVEL_ROW;
  if (node->home == HOME_PORT && node->op == KERNEL_LOAD && node->home_port == node->port) {
    return;
  }
  if (by_row) {
    phase->row[phase->row_count++] = (int16_t)at;
  } else {
    phase->tile[phase->tile_count++] = (int16_t)at;
  }
}

// Loads of row values come before everything else, so that no output can overwrite what they read.
static bool is_row_load(const Node *node) {
  return node->op == KERNEL_LOAD && node->port >= 0 && node->level == LEVEL_ROW;
}

static void phase_fill(Program *program, int number, const int *key) {
  Phase *phase = &program->phase[number];
  for (int i = 0; number == 0 && i < program->node_count; i++) {
    if (is_row_load(&program->node[i])) {
      phase_append(program, phase, i);
    }
  }
  for (int i = -1; i < program->node_count; i++) {
    const Node *node = i >= 0 ? &program->node[i] : NULL;
    const bool listed = node && (node->level == LEVEL_FULL || node->level == LEVEL_ROW) && !op_is_output(node->op);
    if (listed && node->phase == number && !is_row_load(node)) {
      phase_append(program, phase, i);
    }
    for (int u = 0; u < program->node_count; u++) {
      if (op_is_output(program->node[u].op) && key[u] == key_of(program, number, i)) {
        phase_append(program, phase, u);
      }
    }
    if (node && node->level == LEVEL_FULL && !op_is_output(node->op) && node->phase <= number &&
        node->last_phase >= number) {
      phase->value[phase->value_count++] = (int16_t)i;
    }
  }
}

static void phases_list(Arena *arena, Program *program, const int *key) {
  program->phase = ARENA_ARRAY(arena, Phase, program->phase_count);
  program->scalar = ARENA_ARRAY(arena, int16_t, program->node_count);
  program->column = ARENA_ARRAY(arena, int16_t, program->node_count);
  for (int i = 0; i < program->node_count; i++) {
    const Node *node = &program->node[i];
    if (node->level == LEVEL_SCALAR && !op_is_output(node->op)) {
      program->scalar[program->scalar_count++] = (int16_t)i;
    }
    if (node->level == LEVEL_COLUMN && node->home == HOME_COLUMN) {
      program->column[program->column_count++] = (int16_t)i;
    }
  }
  for (int p = 0; p < program->phase_count; p++) {
    program->phase[p].row = ARENA_ARRAY(arena, int16_t, program->node_count);
    program->phase[p].tile = ARENA_ARRAY(arena, int16_t, program->node_count);
    program->phase[p].value = ARENA_ARRAY(arena, int16_t, program->node_count);
    phase_fill(program, p, key);
  }
}

// Gives tile values buffers, reusing those whose value was used for the last time. Returns the number of buffers.
static int slots_assign(Program *program, Phase *phase) {
  int last[FUSED_MAX_NODES], count = 0, free_count = 0, free_slot[FUSED_MAX_NODES];
  memset(last, -1, sizeof last);
  for (int t = 0; t < phase->tile_count; t++) {
    const Node *node = &program->node[phase->tile[t]];
    last[phase->tile[t]] = t;
    for (int k = 0; k < node->operand_count; k++) {
      last[node->operand[k]] = t;
    }
  }
  for (int t = 0; t < phase->tile_count; t++) {
    Node *node = &program->node[phase->tile[t]];
    int ended[3], ended_count = 0;
    bool in_place = true;
    for (int k = 0; k < node->operand_count; k++) {
      const int operand = node->operand[k];
      if (program->node[operand].home == HOME_TILE && last[operand] == t) {
        ended[ended_count++] = program->node[operand].slot;
        in_place &= program->node[operand].bytes == node->bytes;
        last[operand] = -1;
      }
    }
    for (int e = 0; in_place && e < ended_count; e++) {
      free_slot[free_count++] = ended[e];
    }
    if (node->home == HOME_TILE) {
      node->slot = free_count > 0 ? free_slot[--free_count] : count++;
    }
    for (int e = 0; !in_place && e < ended_count; e++) {
      free_slot[free_count++] = ended[e];
    }
    if (node->home == HOME_TILE && last[phase->tile[t]] == t) {
      free_slot[free_count++] = node->slot;
    }
  }
  return count;
}

// Whole-row buffers are reused from phase to phase.
static int whole_assign(Program *program) {
  int busy_until[FUSED_MAX_NODES], count = 0;
  for (int p = 0; p < program->phase_count; p++) {
    for (int i = 0; i < program->node_count; i++) {
      Node *node = &program->node[i];
      if (node->home != HOME_WHOLE || node->phase != p) {
        continue;
      }
      int slot = 0;
      while (slot < count && busy_until[slot] >= p) {
        slot++;
      }
      count += slot == count;
      busy_until[slot] = node->last_phase;
      node->slot = slot;
    }
  }
  return count;
}

static int64_t take(int64_t *offset, int64_t bytes) {
  const int64_t at = *offset;
  *offset += round_up(bytes, 64);
  return at;
}

static void scratch_lay_out(Program *program) {
  int tiles = 0;
  for (int p = 0; p < program->phase_count; p++) {
    tiles = (int)max_i64(tiles, slots_assign(program, &program->phase[p]));
  }
  const int wholes = whole_assign(program);
  const int64_t tile = round_up(program->group_rows * program->chunk * program->real_bytes, 64) + SLOT_SKEW;
  const int64_t whole = round_up(program->group_rows * program->block_columns * program->real_bytes, 64) + SLOT_SKEW;
  int64_t end = 0;
  const int64_t tile_begin = take(&end, tiles * tile), whole_begin = take(&end, wholes * whole);
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    switch (node->home) {
      case HOME_TILE:
        node->offset = tile_begin + node->slot * tile;
        break;
      case HOME_WHOLE:
        node->offset = whole_begin + node->slot * whole;
        break;
      case HOME_ROW:
        node->offset = take(&end, program->group_rows * node->bytes);
        break;
      case HOME_COLUMN:
        node->offset = take(&end, program->block_columns * node->bytes + SLOT_SKEW);
        break;
      case HOME_SCALAR:
        node->offset = take(&end, node->bytes);
        break;
      default:
        break;
    }
  }
  program->accumulator_offset = take(&end, program->row_reductions * program->group_rows * 8);
  program->scratch_bytes = end;
}

static void reductions_number(Arena *arena, Program *program) {
  program->column_node = ARENA_ARRAY(arena, int16_t, program->node_count);
  program->total_node = ARENA_ARRAY(arena, int16_t, program->node_count);
  for (int i = 0; i < program->node_count; i++) {
    Node *node = &program->node[i];
    if (op_is_row_reduction(node->op)) {
      node->reduction = program->row_reductions++;
    } else if (op_is_column_reduction(node->op)) {
      program->column_node[program->column_reductions] = (int16_t)i;
      node->reduction = program->column_reductions++;
    } else if (op_is_total(node->op)) {
      program->total_node[program->totals] = (int16_t)i;
      node->reduction = program->totals++;
    }
  }
}

void program_schedule(Arena *arena, const Request *request, Program *program) {
  int *key = ARENA_ARRAY(arena, int, program->node_count + 1);
  phases_earliest(program);
  phases_sink(program);
  outputs_place(request, program, key);
  uses_find(program);
  reductions_number(arena, program);
  tasks_cut(program);
  homes_choose(request, program);
  phases_list(arena, program, key);
  scratch_lay_out(program);
  const int64_t columns = program->column_reductions * program->row_blocks * program->inner.total * 2;
  const int64_t totals = program->totals * program->row_blocks * program->column_blocks;
  program->shared_bytes = round_up(columns * program->real_bytes, 64) + totals * 8;
}
