// reshard_test.c: tensors and batches between the ranks and the whole: a checkpoint is the same bytes under every
// layout, each rank holds what its cuts say, and a row of a batch goes to the ranks that have it.
#include "tests/ranks_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/feed.h"
#include "runtime/snapshot.h"

enum { STATES = 6 };

typedef struct {
  const char *name;
  StateRole role;
  ElementType type;
  int axis_count;
  int64_t size[3];
} Tensor;

static const Tensor tensors[STATES] = {
    {"layers.2.w", STATE_PARAMETER, TYPE_F32, 2, {10, 6}}, {"layers.10.w", STATE_PARAMETER, TYPE_F64, 3, {3, 34, 37}},
    {"gain", STATE_PARAMETER, TYPE_F32, 1, {24}},          {"m.w", STATE_OPTIMIZER, TYPE_F32, 2, {10, 6}},
    {"count", STATE_OPTIMIZER, TYPE_INT, 0, {0}},          {"table", STATE_MODEL, TYPE_BF16, 2, {41, 67}},
};

typedef struct {  // how a test cuts its tensors
  const char *name;
  int mesh_count, pipeline;
  int64_t mesh[4];
  PlanCut cut[STATES][3];  // local is computed
  int flat_count;          // of mesh axes; all tensors but the scalar are flat
  int flat_mesh[2];
  bool turned;              // memory in the reverse order of the axes
  unsigned stages[STATES];  // bits: the stages that have it; 0: all
} Cutting;

static const Cutting cuttings[] = {
    {.name = "one rank"},
    {.name = "one rank, turned", .turned = true},
    {.name = "blocks with padding",
     .mesh_count = 1,
     .mesh = {4},
     .pipeline = -1,
     .cut = {{{1, {0}, false, 0}},
             {{0}, {0}, {1, {0}, false, 0}},
             {{1, {0}, false, 0}},
             {{0}, {1, {0}, false, 0}},
             {{0}},
             {{1, {0}, false, 0}}}},
    {.name = "two mesh axes on one axis, in both orders",
     .mesh_count = 3,
     .mesh = {2, 1, 3},
     .pipeline = -1,
     .turned = true,
     .cut = {{{2, {0, 2}, false, 0}},
             {{0}, {2, {2, 0}, false, 0}},
             {{2, {2, 0}, false, 0}},
             {{1, {2}, false, 0}, {1, {0}, false, 0}}}},
    {.name = "zigzag",
     .mesh_count = 2,
     .mesh = {3, 2},
     .pipeline = -1,
     .cut = {{{0}, {1, {0}, true, 0}}, {{0}}, {{2, {0, 1}, true, 0}}, {{1, {0}, true, 0}, {1, {1}, true, 0}}}},
    {.name = "flat", .mesh_count = 2, .mesh = {2, 4}, .pipeline = -1, .flat_count = 1, .flat_mesh = {1}},
    {.name = "flat over both, major last",
     .mesh_count = 2,
     .mesh = {2, 3},
     .pipeline = -1,
     .flat_count = 2,
     .flat_mesh = {1, 0},
     .turned = true},
    {.name = "flat and cut",
     .mesh_count = 2,
     .mesh = {2, 3},
     .pipeline = -1,
     .flat_count = 1,
     .flat_mesh = {0},
     .cut = {{{1, {1}, false, 0}}, {{0}, {1, {1}, false, 0}}, {{1, {1}, true, 0}}, {{0}, {1, {1}, false, 0}}}},
    {.name = "stages",
     .mesh_count = 3,
     .mesh = {2, 3, 2},
     .pipeline = 1,
     .stages = {1, 2, 5, 1, 7, 4},
     .flat_count = 1,
     .flat_mesh = {0},
     .cut = {{{1, {2}, false, 0}}, {{0}, {0}, {1, {2}, false, 0}}}},
};
enum { CUTTINGS = sizeof cuttings / sizeof *cuttings };

static int64_t parts_of(const Plan *plan, const PlanCut *cut) {
  return plan_parts(plan, cut->mesh, cut->count) * (cut->zigzag ? 2 : 1);
}

// Adds tensor `t` to a stage; returns how many elements of a flat arena it has.
static int64_t add_state(World *world, int stage, const Cutting *cutting, int t, int64_t flat_first) {
  static const char *const axes[] = {"x", "y", "z"};
  Plan *plan = world->plan[stage];
  const Tensor *tensor = &tensors[t];
  PlanState *state = &plan->states[plan->state_count++];
  *state = (PlanState){.name = tensor->name, .role = tensor->role, .type = tensor->type};
  state->axis_count = tensor->axis_count;
  const unsigned stages = cutting->stages[t] ? cutting->stages[t] : ~0u;
  state->owner = (stages & -stages) == 1u << stage || stages == ~0u;
  int64_t count = 1;
  for (int i = 0; i < tensor->axis_count; i++) {
    state->axis[i] = axes[i];
    state->size[i] = tensor->size[i];
    state->cut[i] = cutting->cut[t][i];
    const int64_t parts = parts_of(plan, &state->cut[i]);
    state->cut[i].local = (tensor->size[i] + parts - 1) / parts * (state->cut[i].zigzag ? 2 : 1);
  }
  for (int i = 0; i < tensor->axis_count; i++) {
    const int at = cutting->turned ? i : tensor->axis_count - 1 - i;
    state->stride[at] = count;
    count *= state->cut[at].local;
  }
  if (cutting->flat_count > 0 && tensor->axis_count > 0 && tensor->type == TYPE_F32) {
    state->flat_first = flat_first;
    state->flat_count = cutting->flat_count;
    memcpy(state->flat_mesh, cutting->flat_mesh, sizeof cutting->flat_mesh);
    return count;
  }
  state->offset = plan->arena_bytes[ARENA_PERSISTENT];
  plan->arena_bytes[ARENA_PERSISTENT] += (count * element_type_bytes(tensor->type) + 15) / 8 * 8;
  return 0;
}

static World world_cut(const Cutting *cutting) {
  World world = world_make(cutting->mesh, cutting->mesh_count, cutting->mesh_count ? cutting->pipeline : -1);
  for (int s = 0; s < world.set.count; s++) {
    Plan *plan = world.plan[s];
    int64_t flat = 3;  // the arena begins with something else
    plan->states = ARENA_ARRAY(world.arena, PlanState, STATES);
    for (int t = 0; t < STATES; t++) {
      if (!cutting->stages[t] || cutting->stages[t] >> s & 1) {
        flat += add_state(&world, s, cutting, t, flat);
      }
    }
    const int64_t parts = plan_parts(plan, cutting->flat_mesh, cutting->flat_count), piece = (flat + parts - 1) / parts;
    for (int i = 0; i < plan->state_count; i++) {
      if (plan->states[i].flat_count > 0) {
        plan->states[i].flat_piece = piece;
        plan->states[i].offset = plan->arena_bytes[ARENA_PERSISTENT];
      }
    }
    plan->arena_bytes[ARENA_PERSISTENT] += piece * 4;
  }
  return world;
}

// Element `at` of tensor `t`, `size` bytes of which none is 0.
static void element_of(int t, int64_t at, int64_t size, char *bytes) {
  for (int64_t i = 0; i < size; i++) {
    bytes[i] = (char)(1 + (at * 29 + t * 101 + i * 7 + at / 13) % 255);
  }
}

// Position of a local one by the definition of a cut: the blocks of an axis, dealt out.
static int64_t position_of(const Plan *plan, const PlanCut *cut, const int *coordinate, int64_t local) {
  int64_t part = 0, parts = 1;
  for (int i = 0; i < cut->count; i++) {
    part = part * plan->mesh[cut->mesh[i]].size + coordinate[cut->mesh[i]];
    parts *= plan->mesh[cut->mesh[i]].size;
  }
  if (!cut->zigzag) {
    return part * cut->local + local;
  }
  // The two blocks of the major coordinate, laid one after the other and cut into the minor parts.
  const int64_t majors = plan->mesh[cut->mesh[0]].size, minors = parts / majors, major = part / minors;
  const int64_t block = cut->local * minors / 2, inside = part % minors * cut->local + local;
  return inside < block ? major * block + inside : (2 * majors - 1 - major) * block + inside - block;
}

// Each element on each rank is what the cuts say, and 0 where they pad.
static void check_rank(const World *world, Session *session, int64_t rank) {
  const Plan *plan = session_plan(session, rank);
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(plan, rank, coordinate);
  for (int s = 0; s < plan->state_count; s++) {
    const PlanState *state = &plan->states[s];
    const int64_t size = element_type_bytes(state->type);
    int64_t count = 1;
    int t = 0;
    while (strcmp(tensors[t].name, state->name) != 0) {
      t++;
    }
    for (int i = 0; i < state->axis_count; i++) {
      count *= state->cut[i].local;
    }
    for (int64_t n = 0; n < count; n++) {
      int64_t rest = n, memory = 0, whole = 0, scale = 1;
      bool inside = true;
      for (int i = state->axis_count - 1; i >= 0; i--) {
        const int64_t at = rest % state->cut[i].local, position = position_of(plan, &state->cut[i], coordinate, at);
        rest /= state->cut[i].local;
        memory += at * state->stride[i];
        whole += position * scale;
        scale *= state->size[i];
        inside &= position < state->size[i];
      }
      if (state->flat_piece > 0) {
        const int64_t element = state->flat_first + memory;
        int64_t part = 0;
        for (int i = 0; i < state->flat_count; i++) {
          part = part * plan->mesh[state->flat_mesh[i]].size + coordinate[state->flat_mesh[i]];
        }
        if (element / state->flat_piece != part) {
          continue;
        }
        memory = element % state->flat_piece;
      }
      char is[8], wanted[8] = {0};
      if (inside) {
        element_of(t, whole, size, wanted);
      }
      world_read(world, session, rank, (Place){.arena = ARENA_PERSISTENT, .offset = state->offset + memory * size}, is,
                 size);
      if (memcmp(is, wanted, (size_t)size) != 0) {
        fail_msg("'%s' on rank %lld, element %lld of its part", state->name, (long long)rank, (long long)n);
      }
    }
  }
}

static char *file_bytes(const char *directory, int step, const char *name, size_t *size) {
  char path[IO_PATH_MAX], *bytes = NULL;
  Error error;
  if (!io_path(path, &error, "%s/step-%08d/%s", directory, step, name) ||
      !io_read_file(path, 1 << 24, &bytes, size, &error)) {
    fail_msg("%s", error.text);
  }
  return bytes;
}

static void same_file(const char *directory, int a, int b, const char *name) {
  size_t m = 0, n = 0;
  char *x = file_bytes(directory, a, name, &m), *y = file_bytes(directory, b, name, &n);
  assert_int_equal(m, n);
  assert_memory_equal(x, y, m);
  free(x);
  free(y);
}

static void must(bool done, const Error *error) {
  if (!done) {
    fail_msg("%s", error->text);
  }
}

// Some rows of a tensor are those of the whole.
static void check_rows(Session *session, const StateReader *reader) {
  Error error = {0};
  States states;
  must(states_open(session->set, &states, &error), &error);
  for (int i = 0; i < states.count; i++) {
    const LogicalState *state = &states.at[i];
    const int64_t rows = state_rows(state->state), bytes = state_bytes(state->state), row = bytes / rows;
    char *whole = malloc((size_t)bytes), *some = malloc((size_t)bytes);
    must(state_gather_with(reader, &states, state, whole, &error), &error);
    for (int64_t first = 0; first < rows; first += 1 + rows / 7) {
      const int64_t count = 1 + (first * 5 + rows / 3) % (rows - first);
      memset(some, 0x5a, (size_t)bytes);
      must(state_gather_rows(reader, &states, state, first, count, some, &error), &error);
      assert_memory_equal(some, whole + first * row, (size_t)(count * row));
      assert_true(count * row == bytes || some[count * row] == 0x5a);
    }
    free(whole);
    free(some);
  }
  states_close(&states);
}

static bool file_there(const char *directory, int step, const char *name) {
  char path[IO_PATH_MAX];
  Error error;
  must(io_path(path, &error, "%s/step-%08d/%s", directory, step, name), &error);
  return io_is_file(path);
}

// In files of few bytes a checkpoint holds the same; one that is lost is missed.
static void check_files(Session *session, const StateReader *reader, const char *directory, int step) {
  enum { APART = 1000, AGAIN = 2000 };
  char path[IO_PATH_MAX];
  Error error = {0};
  Buffer tuning = {0};
  CheckpointFacts facts = {.step = APART + step};
  Io io = {.part_bytes = 300};
  must(checkpoint_save_from(&io, reader, &tuning, directory, &facts, NULL, &error), &error);
  assert_true(file_there(directory, APART + step, "model-00001-of-00004.safetensors"));
  assert_true(file_there(directory, APART + step, "model-00004-of-00004.safetensors"));
  assert_true(file_there(directory, APART + step, "optimizer.safetensors"));
  assert_false(file_there(directory, APART + step, "model.safetensors"));
  must(io_path(path, &error, "%s/step-%08d", directory, APART + step), &error);
  must(checkpoint_verify(path, &facts, &error) && checkpoint_load(session, path, true, &facts, &error), &error);
  assert_int_equal(facts.version, CHECKPOINT_VERSION);
  facts.step = AGAIN + step;
  must(checkpoint_save(NULL, session, directory, &facts, NULL, &error), &error);
  same_file(directory, 0, AGAIN + step, "model.safetensors");
  same_file(directory, 0, AGAIN + step, "optimizer.safetensors");
  must(io_path(path, &error, "%s/step-%08d/model-00003-of-00004.safetensors", directory, APART + step), &error);
  assert_int_equal(unlink(path), 0);
  must(io_path(path, &error, "%s/step-%08d", directory, APART + step), &error);
  assert_false(checkpoint_verify(path, &facts, &error));
  assert_non_null(strstr(error.text, "is damaged: model-00003-of-00004.safetensors is not there"));
  assert_true(facts.damaged);
  assert_false(checkpoint_load(session, path, true, &facts, &error));
  assert_true(io_remove_tree(path));
  must(io_path(path, &error, "%s/step-%08d", directory, AGAIN + step), &error);
  assert_true(io_remove_tree(path));
}

// A snapshot of the ranks is as good as the ranks.
static void check_snapshot(Session *session, const char *directory, int step) {
  Error error = {0};
  Snapshot *snapshot;
  Buffer tuning = {0};
  CheckpointFacts facts = {.step = step};
  must(snapshot_create(session, &snapshot, &error), &error);
  must(snapshot_take(snapshot, &error) && snapshot_taken(snapshot, &error), &error);
  const StateReader reader = snapshot_reader(snapshot);
  check_rows(session, &reader);
  must(checkpoint_save_from(NULL, &reader, &tuning, directory, &facts, NULL, &error), &error);
  same_file(directory, 0, step, "model.safetensors");
  same_file(directory, 0, step, "optimizer.safetensors");
  check_files(session, &reader, directory, step);
  snapshot_destroy(snapshot);
}

// From the first cutting to each other, and from each to the one after it.
static void test_checkpoints(void **state) {
  (void)state;
  char directory[] = "/tmp/mdl-reshard-XXXXXX", path[IO_PATH_MAX];
  Error error = {0};
  CheckpointFacts facts = {0};
  assert_non_null(mkdtemp(directory));
  for (int c = 0; c < CUTTINGS; c++) {
    World world = world_cut(&cuttings[c]);
    Session session = world_open(&world, 60, NULL);
    for (int from = c == 0 ? -1 : 0; from<c; from += c> 1 && from == 0 ? c - 1 : 1) {
      if (from >= 0) {
        must(io_path(path, &error, "%s/step-%08d", directory, from), &error);
        must(checkpoint_load(&session, path, true, &facts, &error), &error);
      }
      for (int t = 0; t < STATES && from < 0; t++) {
        const PlanState *first = &world.plan[0]->states[t];
        const int64_t size = element_type_bytes(first->type);
        int64_t count = 1;
        for (int i = 0; i < first->axis_count; i++) {
          count *= first->size[i];
        }
        for (int64_t i = 0; i < count; i++) {
          char bytes[8];
          element_of(t, i, size, bytes);
          world_write(&world, &session, 0, (Place){.arena = ARENA_PERSISTENT, .offset = first->offset + i * size},
                      bytes, size);
        }
      }
      for (int64_t rank = 0; rank < session.ranks; rank++) {
        check_rank(&world, &session, rank);
      }
      facts.step = c;
      must(checkpoint_save(NULL, &session, directory, &facts, NULL, &error), &error);
      same_file(directory, 0, c, "model.safetensors");
      same_file(directory, 0, c, "optimizer.safetensors");
    }
    check_snapshot(&session, directory, CUTTINGS + c);
    session_close(&session);
    world_destroy(&world);
  }
  io_remove_tree(directory);
}

// --- batches ---

static PlanInput input_of(const Plan *plan, const char *name, int64_t rows, int64_t sequence, PlanCut by_row,
                          PlanCut by_position, int64_t offset, bool turned) {
  PlanInput input = {.name = name, .type = TYPE_INDEX, .axis_count = 2, .bound = 256};
  const int batch = turned;
  input.axis[batch] = "batch";
  input.axis[1 - batch] = "seq";
  input.size[batch] = rows;
  input.size[1 - batch] = sequence;
  input.cut[batch] = by_row;
  input.cut[1 - batch] = by_position;
  int64_t count = 1;
  for (int i = 0; i < 2; i++) {
    const int64_t parts = parts_of(plan, &input.cut[i]);
    input.cut[i].local = (input.size[i] + parts - 1) / parts * (input.cut[i].zigzag ? 2 : 1);
    count *= input.cut[i].local;
  }
  input.place = (Place){.arena = ARENA_HOST, .offset = offset, .slot_stride = count * 4};
  return input;
}

// Every rank has its part of every row, by the definition of its cuts; a stage only the inputs that it wants.
static void check_feed(const int64_t *mesh, int mesh_count, int pipeline, PlanCut by_row, PlanCut by_position,
                       bool turned, const Data *data) {
  enum { ROWS = 6, SEQUENCE = 12, SLOTS = 2, STEP = 3, AREA = 4096 };
  World world = world_make(mesh, mesh_count, pipeline);
  Feed *feed;
  Error error = {0};
  for (int s = 0; s < world.set.count; s++) {
    Plan *plan = world.plan[s];
    PlanProgram *program = &plan->programs[PROGRAM_TRAIN];
    program->slots = SLOTS;
    program->inputs = ARENA_ARRAY(world.arena, PlanInput, 2);
    plan->arena_bytes[ARENA_HOST] = 2 * AREA;
    const bool first = s == 0, last = s + 1 == world.set.count;
    if (last) {
      program->inputs[program->input_count++] =
          input_of(plan, "targets", ROWS, SEQUENCE, by_row, by_position, 0, turned);
    }
    if (first) {
      program->inputs[program->input_count++] =
          input_of(plan, "tokens", ROWS, SEQUENCE, by_row, by_position, AREA, turned);
    }
  }
  Session session = world_open(&world, 60, NULL);
  must(feed_create(&world.set, PROGRAM_TRAIN, data, &feed, &error), &error);
  assert_int_equal(feed_rows(feed), ROWS * SLOTS);
  must(feed_train(feed, &session, STEP, &error), &error);
  for (int64_t rank = 0; rank < session.ranks; rank++) {
    const Plan *plan = session_plan(&session, rank);
    int coordinate[PLAN_MAX_MESH] = {0};
    plan_coordinates(plan, rank, coordinate);
    for (int i = 0; i < plan->programs[PROGRAM_TRAIN].input_count; i++) {
      const PlanInput *input = &plan->programs[PROGRAM_TRAIN].inputs[i];
      const int batch = turned, seq = 1 - batch;
      for (int64_t n = 0; n < SLOTS * input->cut[0].local * input->cut[1].local; n++) {
        int32_t window[SEQUENCE + 1], is, wanted = 0;
        int64_t at[2] = {n / input->cut[1].local % input->cut[0].local, n % input->cut[1].local};
        const int64_t slot = n / input->cut[1].local / input->cut[0].local;
        const int64_t row = position_of(plan, &input->cut[batch], coordinate, at[batch]);
        const int64_t position = position_of(plan, &input->cut[seq], coordinate, at[seq]);
        if (row < ROWS && position < SEQUENCE) {
          must(data_train_window(data, (STEP - 1) * ROWS * SLOTS + slot * ROWS + row, window, &error), &error);
          wanted = window[position + (strcmp(input->name, "targets") == 0)];
        }
        Place place = input->place;
        place.offset += n * 4;
        world_read(&world, &session, rank, place, &is, 4);
        assert_int_equal(is, wanted);
      }
    }
  }
  feed_destroy(feed);
  session_close(&session);
  world_destroy(&world);
}

static void test_batches(void **state) {
  (void)state;
  char path[] = "/tmp/mdl-feed-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  for (int i = 0; i < 3000; i++) {
    const char byte = (char)(1 + (i * 31 + i / 7) % 255);
    assert_int_equal(write(fd, &byte, 1), 1);
  }
  close(fd);
  Data *data;
  Error error = {0};
  DataOptions options = {
      .kind = "text", .path = path, .base = ".", .tokenizer = "bytes", .validation_fraction = 0.1, .sequence = 12};
  must(data_open(&options, &data, &error), &error);
  const PlanCut whole = {0};
  check_feed(NULL, 0, -1, whole, whole, false, data);
  check_feed((const int64_t[]){3}, 1, -1, (PlanCut){1, {0}, false, 0}, whole, false, data);
  check_feed((const int64_t[]){4}, 1, -1, (PlanCut){1, {0}, false, 0}, whole, true, data);
  check_feed((const int64_t[]){2, 3}, 2, -1, (PlanCut){1, {0}, false, 0}, (PlanCut){1, {1}, true, 0}, false, data);
  check_feed((const int64_t[]){2, 3}, 2, -1, whole, (PlanCut){2, {1, 0}, true, 0}, true, data);
  check_feed((const int64_t[]){2, 3, 2}, 3, 1, (PlanCut){1, {0}, false, 0}, (PlanCut){1, {2}, false, 0}, false, data);
  data_close(data);
  unlink(path);
}

// What several threads put together part by part is what one puts together whole.
static void test_parts(void **state) {
  (void)state;
  enum { RANKS = 3, HIGH = 1100, WIDE = 2001 };
  char directory[] = "/tmp/mdl-reshard-XXXXXX";
  const int64_t mesh = RANKS, piece = (HIGH * WIDE + RANKS - 1) / RANKS;
  Error error = {0};
  CheckpointFacts facts = {0};
  Snapshot *snapshot;
  Buffer tuning = {0};
  assert_non_null(mkdtemp(directory));
  for (int turned = 0; turned < 2; turned++) {
    World world = world_make(&mesh, 1, -1);
    Plan *plan = world.plan[0];
    PlanState *tensor = plan->states = ARENA_ARRAY(world.arena, PlanState, 1);
    plan->state_count = 1;
    *tensor = (PlanState){.name = "w", .role = STATE_PARAMETER, .type = TYPE_F32, .axis_count = 2, .owner = true};
    tensor->axis[0] = "x", tensor->axis[1] = "y";
    tensor->size[0] = HIGH, tensor->size[1] = WIDE;
    tensor->stride[0] = turned ? 1 : WIDE, tensor->stride[1] = turned ? HIGH : 1;
    tensor->flat_count = 1, tensor->flat_piece = piece;
    plan->arena_bytes[ARENA_PERSISTENT] = piece * 4;
    Session session = world_open(&world, 60, NULL);
    float *numbers = malloc((size_t)piece * sizeof *numbers);
    for (int64_t rank = 0; rank < RANKS; rank++) {
      for (int64_t i = 0; i < piece; i++) {
        numbers[i] = (float)(rank * piece + i);
      }
      world_write(&world, &session, rank, (Place){.arena = ARENA_PERSISTENT}, numbers, piece * 4);
    }
    free(numbers);
    facts.step = 2 * turned;
    must(checkpoint_save(NULL, &session, directory, &facts, NULL, &error), &error);
    must(snapshot_create(&session, &snapshot, &error), &error);
    must(snapshot_take(snapshot, &error) && snapshot_taken(snapshot, &error), &error);
    const StateReader reader = snapshot_reader(snapshot);
    facts.step++;
    must(checkpoint_save_from(NULL, &reader, &tuning, directory, &facts, NULL, &error), &error);
    snapshot_destroy(snapshot);
    same_file(directory, (int)facts.step - 1, (int)facts.step, "model.safetensors");
    size_t size = 0;
    char *bytes = file_bytes(directory, (int)facts.step, "model.safetensors", &size);
    const float *all = (const float *)(const void *)(bytes + size - (size_t)HIGH * WIDE * 4);
    for (int64_t i = 0; i < HIGH; i += 37) {
      for (int64_t k = 0; k < WIDE; k++) {
        assert_true(all[i * WIDE + k] == (float)(turned ? k * HIGH + i : i * WIDE + k));
      }
    }
    free(bytes);
    session_close(&session);
    world_destroy(&world);
  }
  assert_true(io_remove_tree(directory));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_checkpoints),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
