// checkpoint_write.c: the threads, and what each does with a tensor.
#include "runtime/checkpoint_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/numeric.h"
#include "base/units.h"
#include "runtime/element.h"
#include "runtime/frozen.h"
#include "runtime/thread.h"

enum { THREADS_LEAST = 2, THREADS_MOST = 8 };
static const int64_t MEMORY_MOST = 256 << 20;  // bytes that are put together, but for a row or tensor that is larger
static const int64_t PIECE_BYTES = 4 << 20;    // of a tensor that several threads put together
static const int64_t FILE_BYTES = (int64_t)2 << 30;
enum { FILES_MOST = 64 };  // all are open at once, and a process may not have many

const CheckpointFile checkpoint_files[CHECKPOINT_FILE_COUNT] = {
    {"model.safetensors", {true, false, true}, false},
    {"optimizer.safetensors", {false, true, false}, true},
};

typedef struct {  // one file being written
  Io *io;
  char name[CHECKPOINT_NAME_MAX];
  int fd;  // -1: there is none
  char path[IO_PATH_MAX];
  XXH3_state_t *hash;
  int64_t bytes;
  bool synced;
  int count;  // items of it
  int turn;   // of the item that is to be added to its hash; under the mutex of the team
} Writer;

typedef struct {  // a tensor on its way into a file, or some rows of it
  const LogicalState *state;
  Writer *writer;
  int number;             // in its file
  int order;              // as files and tensors are listed
  int64_t first, count;   // rows
  int64_t offset, bytes;  // in the file
  bool last;              // of its file
  char *dense;            // all of it; NULL: it is not put together
} Item;

typedef struct {
  const Saved *saved;
  const States *states;
  CheckpointFacts *facts;
  Writer *writer;
  int writer_count;
  Item *item;
  int count;
  int64_t memory;  // bytes of tensors that may be in memory

  pthread_mutex_t mutex;  // over all below
  pthread_cond_t moved;
  int ready;  // items that may be taken: all, or those that the calling thread has put together
  int taken;
  int odd;       // of the first item with a number that is not finite, its order
  int64_t held;  // bytes of tensors that are in memory
  bool failed;
  Error error;  // the first
} Team;

// --- one file ---

static bool writer_put(Writer *writer, const void *data, size_t size, Error *error) {
  XXH3_64bits_update(writer->hash, data, size);
  writer->bytes += (int64_t)size;
  return io_write(writer->io, writer->fd, writer->path, data, size, error);
}

// After true or false, writer_end is called.
static bool writer_begin(Writer *writer, Io *io, const char *directory, const char *name, Error *error) {
  *writer = (Writer){.io = io, .fd = -1};
  snprintf(writer->name, sizeof writer->name, "%s", name);
  if (!io_path(writer->path, error, "%s/%s", directory, name)) {
    return false;
  }
  writer->hash = XXH3_createState();
  if (!writer->hash) {
    return error_set(error, 3, "no memory to save %s", writer->path);
  }
  XXH3_64bits_reset(writer->hash);
  return io_create(io, writer->path, &writer->fd, error);
}

static bool writer_sync(Writer *writer, Error *error) {
  writer->synced = io_sync(writer->io, writer->fd, writer->path, error);
  return writer->synced;
}

// `done`: all of it is written. Then it is listed in `files`.
static bool writer_end(Writer *writer, bool done, WrittenList *files, Error *error) {
  Error ignored;
  done = done && (writer->synced || writer_sync(writer, error));
  if (writer->fd >= 0) {
    done &= io_close(writer->fd, writer->path, done ? error : &ignored);
  }
  if (done) {
    Written *written = &files->at[files->count++];
    *written = (Written){.bytes = writer->bytes};
    memcpy(written->name, writer->name, sizeof written->name);
    snprintf(written->hash, sizeof written->hash, "%016llx", (unsigned long long)XXH3_64bits_digest(writer->hash));
  }
  XXH3_freeState(writer->hash);
  *writer = (Writer){.fd = -1};
  return done;
}

static bool tuning_write(Io *io, const Buffer *text, const char *directory, WrittenList *files, Error *error) {
  Writer writer;
  if (text->failed) {
    return error_set(error, 3, "no memory to save %s", CHECKPOINT_TUNING);
  }
  if (text->length == 0) {
    return true;
  }
  const bool done = writer_begin(&writer, io, directory, CHECKPOINT_TUNING, error) &&
                    writer_put(&writer, text->text, text->length, error);
  return writer_end(&writer, done, files, error);
}

// --- numbers that are not finite ---

// Of formats whose exponent is all ones in what is not finite: bits but for the sign, from those of an infinity on.
// Pieces of fixed size are what compilers make vector code of.
#define FINITE(name, Bits, infinity)                                 \
  static bool name(const char *data, int64_t count) {                \
    enum { PIECE = 64 };                                             \
    Bits most = 0;                                                   \
    int64_t i = 0;                                                   \
    for (; i + PIECE <= count; i += PIECE) {                         \
      Bits piece[PIECE];                                             \
      memcpy(piece, data + i * (int64_t)sizeof(Bits), sizeof piece); \
      for (int k = 0; k < PIECE; k++) {                              \
        const Bits bits = (Bits)(piece[k] << 1);                     \
        most = bits > most ? bits : most;                            \
      }                                                              \
    }                                                                \
    for (; i < count; i++) {                                         \
      Bits bits;                                                     \
      memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);   \
      bits = (Bits)(bits << 1);                                      \
      most = bits > most ? bits : most;                              \
    }                                                                \
    return most < (Bits)((infinity) << 1);                           \
  }

FINITE(finite_f32, uint32_t, 0x7f800000u)
FINITE(finite_bf16, uint16_t, 0x7f80u)

static bool elements_finite(ElementType type, const char *data, int64_t bytes) {
  const int64_t size = element_type_bytes(type), count = bytes / size;
  if (!element_type_floating(type)) {
    return true;
  }
  if (type == TYPE_F32 || type == TYPE_BF16) {
    return type == TYPE_F32 ? finite_f32(data, count) : finite_bf16(data, count);
  }
  bool finite = true;
  for (int64_t i = 0; i < count && finite; i++) {
    finite = isfinite(element_get(type, data + i * size));
  }
  return finite;
}

// State of the model may hold an infinity that the text put there; so may histories of largest numbers.
static bool item_finite(const Item *item) {
  const PlanState *state = item->state->state;
  const bool judged =
      (state->role == STATE_PARAMETER || state->role == STATE_OPTIMIZER) && !checkpoint_is_history(state->name);
  return !judged || elements_finite(state->type, item->dense, item->bytes);
}

// --- all files ---

static bool is_written(const PlanState *state, const CheckpointFile *file, const CheckpointFacts *facts) {
  return file->holds[state->role] && !frozen_find(facts->frozen, state->name);
}

static bool team_concurrent(const Team *team) {
  return !team->saved->source && team->saved->reader->at;
}

// So many rows of a tensor are put together at a time.
static int64_t item_rows(const Team *team, const LogicalState *logical) {
  const PlanState *state = logical->state;
  const int64_t rows = state_rows(state), bytes = state_bytes(state) / rows;
  const int64_t most = bytes > 0 && bytes < PIECE_BYTES ? PIECE_BYTES / bytes : 1;
  return team_concurrent(team) && state_divides(team->states, logical) && most < rows ? most : rows;
}

static int64_t item_count(const Team *team, const LogicalState *state) {
  const int64_t rows = state_rows(state->state), each = item_rows(team, state);
  return (rows + each - 1) / each;
}

static void items_add(Team *team, Writer *writer, const LogicalState *state) {
  const int64_t rows = state_rows(state->state), each = item_rows(team, state);
  const int64_t bytes = state_bytes(state->state) / rows;
  for (int64_t first = 0; first < rows; first += each) {
    const int64_t count = first + each < rows ? each : rows - first;
    team->item[team->count] = (Item){.state = state,
                                     .writer = writer,
                                     .number = writer->count++,
                                     .order = team->count,
                                     .first = first,
                                     .count = count,
                                     .offset = writer->bytes,
                                     .bytes = count * bytes};
    team->count++;
    writer->bytes += count * bytes;
    team->memory = count * bytes > team->memory ? count * bytes : team->memory;
  }
}

// The header of a file of states [first, end); its tensors become items.
static bool file_begin(Team *team, Writer *writer, const CheckpointFile *file, int first, int end, Error *error) {
  const States *states = team->states;
  SafetensorsTensor *tensors = calloc((size_t)(end - first) + 1, sizeof *tensors);
  Buffer header = {0};
  int count = 0;
  for (int i = first; tensors && i < end; i++) {
    const PlanState *state = states->at[i].state;
    if (is_written(state, file, team->facts)) {
      SafetensorsTensor *tensor = &tensors[count++];
      *tensor = (SafetensorsTensor){
          .name = state->name, .dtype = element_type_dtype(state->type), .axis_count = state->axis_count};
      memcpy(tensor->size, state->size, sizeof *state->size * (size_t)state->axis_count);
    }
  }
  bool done = tensors && safetensors_header(tensors, count, &header);
  if (!done) {
    error_set(error, 3, "no memory to save %s", writer->path);
  }
  done = done && writer_put(writer, header.text, header.length, error);
  for (int i = first; done && i < end; i++) {
    if (is_written(states->at[i].state, file, team->facts)) {
      items_add(team, writer, &states->at[i]);
    }
  }
  if (writer->count > 0) {
    team->item[team->count - 1].last = true;
  }
  buffer_free(&header);
  free(tensors);
  return done;
}

// Of the states from `first` on, where those end that a file takes.
static int file_end(const Team *team, const CheckpointFile *file, int first, int64_t most) {
  int64_t bytes = 0;
  int end = first;
  for (; end < team->states->count; end++) {
    const PlanState *state = team->states->at[end].state;
    const int64_t more = is_written(state, file, team->facts) ? state_bytes(state) : 0;
    if (more > 0 && bytes > 0 && more > most - bytes) {  // what is in other files begins none
      break;
    }
    bytes += more;
  }
  return end;
}

static int file_parts(const Team *team, const CheckpointFile *file, int64_t most) {
  int parts = 0;
  for (int at = 0; parts == 0 || at < team->states->count; parts++) {
    at = file_end(team, file, at, most);
  }
  return parts;
}

// Bytes of tensors that a part takes, unless it is one tensor. Where there would be very many parts they are larger:
// two that follow each other have more than one takes, so that there are at most twice FILES_MOST.
static int64_t part_bytes(const Team *team, const Io *io, const CheckpointFile *file) {
  const int64_t most = io && io->part_bytes > 0 ? io->part_bytes : FILE_BYTES;
  int64_t bytes = 0;
  for (int i = 0; i < team->states->count; i++) {
    const PlanState *state = team->states->at[i].state;
    bytes += is_written(state, file, team->facts) ? state_bytes(state) : 0;
  }
  return file_parts(team, file, most) > 2 * FILES_MOST ? bytes / FILES_MOST : most;
}

// All parts of a file.
static bool parts_begin(Team *team, Io *io, const CheckpointFile *file, const char *directory, Error *error) {
  const int64_t most = part_bytes(team, io, file);
  const int parts = file_parts(team, file, most);
  bool done = true;
  for (int part = 1, first = 0; done && part <= parts; part++) {
    const int end = file_end(team, file, first, most);
    char name[CHECKPOINT_NAME_MAX];
    checkpoint_part_name(file, part, parts, name);
    Writer *writer = &team->writer[team->writer_count++];
    done = writer_begin(writer, io, directory, name, error) && file_begin(team, writer, file, first, end, error);
    first = end;
  }
  return done;
}

// Files in turns, so that several threads have several files.
static int item_turns(const void *a, const void *b) {
  const Item *x = a, *y = b;
  return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                : (x->order > y->order) - (x->order < y->order);
}

// Puts a tensor together. What `held` counts of it is let go by item_write.
static bool item_read(const Team *team, Item *item, Error *error) {
  const Saved *saved = team->saved;
  char size[UNITS_MAX];
  item->dense = malloc((size_t)item->bytes + 1);
  if (!item->dense) {
    return error_set(error, 3, "no memory to save %s, %s", item->writer->path, units_bytes(size, (double)item->bytes));
  }
  return saved->source ? saved->source->read(saved->source->context, item->state->state, item->dense, error)
                       : state_gather_rows(saved->reader, team->states, item->state, item->first, item->count,
                                           item->dense, error);
}

// Under the mutex: the first error stays, and all threads end.
static void team_fail(Team *team, const Error *error) {
  if (!team->failed) {
    team->failed = true;
    team->error = *error;
  }
  pthread_cond_broadcast(&team->moved);
}

// Writes a tensor, in its turn adds it to the hash, and behind the last of a file flushes the file.
static void item_write(Team *team, Item *item, bool done, Error *error) {
  Writer *writer = item->writer;
  const int64_t bytes = item->bytes;
  done = done && io_write_at(writer->io, writer->fd, writer->path, item->offset, item->dense, (size_t)bytes, error);
  const bool finite = !done || item_finite(item);
  pthread_mutex_lock(&team->mutex);
  while (done && !team->failed && writer->turn != item->number) {
    pthread_cond_wait(&team->moved, &team->mutex);
  }
  const bool turn = done && !team->failed;
  pthread_mutex_unlock(&team->mutex);
  if (turn) {  // nobody else has it
    XXH3_64bits_update(writer->hash, item->dense, (size_t)bytes);
  }
  free(item->dense);
  item->dense = NULL;
  pthread_mutex_lock(&team->mutex);
  team->held -= bytes;
  writer->turn += turn;
  if (turn && !finite && (!team->facts->not_finite[0] || item->order < team->odd)) {
    team->odd = item->order;
    snprintf(team->facts->not_finite, sizeof team->facts->not_finite, "%s", item->state->state->name);
  }
  if (!done) {
    team_fail(team, error);
  }
  pthread_cond_broadcast(&team->moved);
  pthread_mutex_unlock(&team->mutex);
  if (turn && item->last && !writer_sync(writer, error)) {
    pthread_mutex_lock(&team->mutex);
    team_fail(team, error);
    pthread_mutex_unlock(&team->mutex);
  }
}

// Waits until there is memory for the next tensor. False: another thread has failed.
static bool team_hold(Team *team, const int *next, int end) {
  while (!team->failed && *next < end && team->held > 0 && team->held + team->item[*next].bytes > team->memory) {
    pthread_cond_wait(&team->moved, &team->mutex);
  }
  if (!team->failed && *next < end) {
    team->held += team->item[*next].bytes;
    return true;
  }
  return false;
}

// The next item for a thread; NULL: there is none any more. Of a reader that is not concurrent it is put together.
static Item *team_take(Team *team) {
  Item *item = NULL;
  pthread_mutex_lock(&team->mutex);
  if (team_concurrent(team)) {
    item = team_hold(team, &team->taken, team->count) ? &team->item[team->taken++] : NULL;
  } else {
    while (!team->failed && team->taken == team->ready && team->ready < team->count) {
      pthread_cond_wait(&team->moved, &team->mutex);
    }
    item = !team->failed && team->taken < team->ready ? &team->item[team->taken++] : NULL;
  }
  pthread_mutex_unlock(&team->mutex);
  return item;
}

static void *team_work(void *argument) {
  Team *team = argument;
  numeric_enter();
  for (Item *item; (item = team_take(team)) != NULL;) {
    Error error = {0};
    const bool done = item->dense || item_read(team, item, &error);
    item_write(team, item, done, &error);
  }
  return NULL;
}

// What the calling thread does for a reader that is not concurrent. Without other threads it writes as well.
static void team_feed(Team *team, bool alone) {
  bool more = true;
  while (more) {
    Error error = {0};
    pthread_mutex_lock(&team->mutex);
    more = team_hold(team, &team->ready, team->count);
    pthread_mutex_unlock(&team->mutex);
    if (!more) {
      break;
    }
    Item *item = &team->item[team->ready];
    const bool done = item_read(team, item, &error);
    if (!done || alone) {
      item_write(team, item, done, &error);
    }
    pthread_mutex_lock(&team->mutex);
    team->ready++;
    team->taken += alone;
    pthread_cond_broadcast(&team->moved);
    pthread_mutex_unlock(&team->mutex);
  }
}

static void team_run(Team *team) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int wanted = cores < THREADS_LEAST ? THREADS_LEAST : cores > THREADS_MOST ? THREADS_MOST : (int)cores;
  int started = 0;
  pthread_t thread[THREADS_MOST];
  wanted = team->count < wanted ? team->count : wanted;
  while (started < wanted - 1 && thread_start(&thread[started], team_work, team) == 0) {
    started++;  // where no more threads are to be had, those that there are do it
  }
  if (!team_concurrent(team)) {
    team_feed(team, started == 0);
  }
  team_work(team);
  for (int i = 0; i < started; i++) {
    pthread_join(thread[i], NULL);
  }
  for (int i = 0; i < team->count; i++) {
    free(team->item[i].dense);  // what a failure left
  }
}

static bool tensors_write(Io *io, Team *team, const char *directory, WrittenList *files, Error *error) {
  int parts[CHECKPOINT_FILE_COUNT] = {0}, count = 0;
  int64_t items = 0;
  for (int i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
    const CheckpointFile *file = &checkpoint_files[i];
    parts[i] = team->saved->source && file->optimizer ? 0 : file_parts(team, file, part_bytes(team, io, file));
    files->parts += parts[i] > 1 ? parts[i] : 0;
    count += parts[i];
  }
  for (int i = 0; i < team->states->count; i++) {
    items += item_count(team, &team->states->at[i]);
  }
  team->writer = calloc((size_t)count, sizeof *team->writer);
  team->item = calloc((size_t)items + 1, sizeof *team->item);
  files->at = calloc((size_t)count + 1, sizeof *files->at);  // and the tuning
  if (!team->writer || !team->item || !files->at) {
    return error_set(error, 3, "no memory to save into %s", directory);
  }
  bool done = true;
  for (int i = 0; done && i < CHECKPOINT_FILE_COUNT; i++) {
    done = parts[i] == 0 || parts_begin(team, io, &checkpoint_files[i], directory, error);
  }
  if (done) {
    qsort(team->item, (size_t)team->count, sizeof *team->item, item_turns);
    team->ready = team_concurrent(team) ? team->count : 0;
    team_run(team);
    done = !team->failed;
    if (!done) {
      *error = team->error;
    }
  }
  for (int i = 0; i < team->writer_count; i++) {
    done = writer_end(&team->writer[i], done, files, error) && done;
  }
  return done;
}

void checkpoint_part_name(const CheckpointFile *file, int part, int parts, char name[CHECKPOINT_NAME_MAX]) {
  const int stem = (int)strcspn(file->name, ".");
  if (parts == 1) {
    snprintf(name, CHECKPOINT_NAME_MAX, "%s", file->name);
  } else {
    snprintf(name, CHECKPOINT_NAME_MAX, "%.*s-%05d-of-%05d%s", stem, file->name, part, parts, file->name + stem);
  }
}

void checkpoint_written_free(WrittenList *files) {
  free(files->at);
  *files = (WrittenList){0};
}

bool checkpoint_write(Io *io, const Saved *saved, const States *states, const char *directory, CheckpointFacts *facts,
                      WrittenList *files, Error *error) {
  Team team = {.saved = saved, .states = states, .facts = facts, .memory = MEMORY_MOST};
  facts->not_finite[0] = '\0';
  pthread_mutex_init(&team.mutex, NULL);
  pthread_cond_init(&team.moved, NULL);
  const bool done = tensors_write(io, &team, directory, files, error) &&
                    (saved->source || tuning_write(io, saved->tuning, directory, files, error));
  pthread_cond_destroy(&team.moved);
  pthread_mutex_destroy(&team.mutex);
  free(team.writer);
  free(team.item);
  return done;
}
