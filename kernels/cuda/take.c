// take.c: chooses the form of TAKE and PUT and writes their constants.
#include "kernels/cuda/take.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/sort.h"
#include "kernels/cuda/writer.h"

enum { PORTS = 3, PORTS_MOST = 4, THREADS = 256, EACH = 4, AT_ONCE = 8, PACK_BYTES = 16 };
enum { CHUNK = 64, CHUNK_MOST = 1024, CHUNKS_MANY = 4096, DIGIT_BITS_TWO = 10, DIGIT_BITS_ONE = 8 };

typedef struct {
  int count;
  int64_t size[PLAN_MAX_AXES], x[PLAN_MAX_AXES], index[PLAN_MAX_AXES], out[PLAN_MAX_AXES];
  int64_t number[PLAN_MAX_AXES];  // of keys: what the dim adds to the number of its family of rows
} Dims;

typedef struct {
  const Take *take;
  ElementType type_x, type_out;
  Dims dims, sums;  // those of the take, merged: that out has, and that are summed over
  int pack;         // elements moved at once, along the last dim
  bool store_zeroes;
} Move;

static void dims_add(Dims *dims, int64_t size, int64_t x, int64_t index, int64_t out) {
  const int d = dims->count++;
  dims->size[d] = size;
  dims->x[d] = x;
  dims->index[d] = index;
  dims->out[d] = out;
}

// Of the dims [begin, end), those that all three tensors walk alike become one.
static Dims dims_of(const Take *take, int begin, int end) {
  Dims dims = {0};
  for (int d = begin; d < end; d++) {
    const int64_t size = take->size[d], x = take->stride_x[d], index = take->stride_index[d], out = take->stride_out[d];
    const int last = dims.count - 1;
    if (size == 1) {
      continue;
    }
    if (last >= 0 && dims.x[last] == x * size && dims.index[last] == index * size && dims.out[last] == out * size) {
      dims.size[last] *= size;
      dims.x[last] = x;
      dims.index[last] = index;
      dims.out[last] = out;
    } else {
      dims_add(&dims, size, x, index, out);
    }
  }
  return dims;
}

static int64_t dims_total(const Dims *dims) {
  int64_t total = 1;
  for (int d = 0; d < dims->count; d++) {
    total *= dims->size[d];
  }
  return total;
}

// How many consecutive elements of the last dim can be moved at once: they, and all offsets, are multiples of it.
// `most`: bytes of one tensor, as words of 16.
static int pack_of(const Move *move, const int *alignment, int64_t most) {
  const Dims *dims = &move->dims;
  const int last = dims->count - 1;
  const int64_t bytes_x = element_type_bytes(move->type_x), bytes_out = element_type_bytes(move->type_out);
  int pack = (int)min_i64(PACK_BYTES / min_i64(bytes_x, bytes_out), most / max_i64(bytes_x, bytes_out));
  if (last < 0 || dims->index[last] != 0 || dims->x[last] != 1 || dims->out[last] != 1) {
    return 1;
  }
  for (; pack > 1; pack /= 2) {
    bool good = dims->size[last] % pack == 0 && alignment[0] % min_i64(pack * bytes_x, PACK_BYTES) == 0 &&
                alignment[2] % min_i64(pack * bytes_out, PACK_BYTES) == 0 && move->take->stride_axis % pack == 0;
    for (int d = 0; d < last; d++) {
      good = good && dims->x[d] % pack == 0 && dims->out[d] % pack == 0;
    }
    for (int d = 0; d < move->sums.count; d++) {
      good = good && move->sums.x[d] % pack == 0;
    }
    if (good) {
      return pack;
    }
  }
  return 1;
}

static const char *problem_of(const Take *take, ElementType x, ElementType out, bool puts) {
  if (element_type_bytes(x) == 0 || element_type_bytes(out) == 0) {
    return "a take whose formats are not chosen";
  }
  if (element_type_floating(x) != element_type_floating(out)) {
    return "a take between integers and real numbers";
  }
  if ((element_type_bytes(x) == 1 || element_type_bytes(out) == 1) && (x != out || puts)) {
    return "a take that converts or adds 8-bit numbers";
  }
  double total = 1;
  for (int d = 0; d < take->dim_count; d++) {
    total *= (double)take->size[d];
  }
  if (take->summed > 0 && (!element_type_floating(x) || element_type_bytes(x) == 1)) {
    return "a take that sums integers or 8-bit numbers";
  }
  if (total < 1 || total > 1e12 || take->extent < 1 || take->extent > INT_MAX) {
    return "a take over nothing, or too much";
  }
  return NULL;
}

// dims with the last one counted in packs.
static Dims packed(const Dims *dims, int pack) {
  Dims made = *dims;
  if (pack > 1) {
    const int last = made.count - 1;
    made.size[last] /= pack;
    made.x[last] *= pack;
    made.out[last] *= pack;
  }
  return made;
}

static void common_write(Buffer *text, const Move *move) {
  const Take *take = move->take;
  writer_begin(text, take->parts > 0 ? PORTS_MOST : PORTS);
  buffer_text(text, cuda_text_formats);
  writer_format(text, "FormatX", move->type_x);
  writer_format(text, "FormatOut", move->type_out);
  writer_size(text, "PACK", move->pack);
  writer_size(text, "EACH", EACH);
  writer_size(text, "EXTENT", take->extent);
  writer_stride(text, "AXIS", take->stride_axis);
  writer_stride(text, "X_ELEMENTS", take->x_elements);
  writer_size(text, "WRITE_ADDS", take->write == WRITE_ADD);
  writer_size(text, "WRITE_ADDS_AFTER_FIRST", take->write == WRITE_ADD_AFTER_FIRST);
}

// All items of out: `seek` gives offsets in x, index and out.
static int64_t items_write(Buffer *text, const Move *move) {
  static const char *const names[] = {"x", "index", "out"};
  const Dims dims = packed(&move->dims, move->pack);
  const int64_t *const strides[] = {dims.x, dims.index, dims.out}, items = dims_total(&dims);
  writer_item(text, items);
  writer_seek(text, "seek", dims.count, dims.size, 3, names, strides);
  return items;
}

static double bytes_of(const Move *move) {
  const Dims *const dims[] = {&move->dims, &move->sums};
  Dims index = {0};
  for (int i = 0; i < 2; i++) {
    for (int d = 0; d < dims[i]->count; d++) {
      if (dims[i]->index[d] != 0) {
        dims_add(&index, dims[i]->size[d], 0, 0, 0);
      }
    }
  }
  return 4.0 * (double)dims_total(&index);
}

// What the coordinates that are summed over add to offsets.
static void sums_write(Buffer *text, const Move *move) {
  static const char *const names[] = {"x", "index"};
  const int64_t *const strides[] = {move->sums.x, move->sums.index};
  const bool wide = move->type_x == TYPE_F64 || move->type_out == TYPE_F64;
  buffer_format(text, "#define SUMMED %d\ntypedef %s Real;\n", (int)dims_total(&move->sums), wide ? "double" : "float");
  writer_size(text, "AT_ONCE", min_i64(dims_total(&move->sums), AT_ONCE));
  writer_seek(text, "sum_seek", move->sums.count, move->sums.size, 2, names, strides);
}

bool cuda_take(const Take *take, ElementType type_x, ElementType type_out, const int *alignment, Arena *arena,
               CudaKernel *made, const char **why) {
  Buffer text = {0};
  const int lasting = take->dim_count - take->summed;
  Move move = {.take = take, .type_x = type_x, .type_out = type_out, .dims = dims_of(take, 0, lasting)};
  move.sums = dims_of(take, lasting, take->dim_count);
  *why = dims_total(&move.sums) > INT_MAX / 2 ? "a take that sums too much" : problem_of(take, type_x, type_out, false);
  if (*why) {
    return false;
  }
  move.pack = pack_of(&move, alignment, 2 * PACK_BYTES);
  *made = (CudaKernel){.port_count = take->parts > 0 ? PORTS_MOST : PORTS};
  common_write(&text, &move);
  const int64_t items = items_write(&text, &move), each = take->summed > 0 ? 1 : EACH;
  const double out = (double)dims_total(&move.dims), x = out * (double)dims_total(&move.sums);
  const int64_t parts = take->parts > 0 && items % take->parts == 0 ? take->parts : 0;
  buffer_text(&text, "#define TAKES 1\n");
  buffer_format(&text, "#define PARTS %d\n", parts > 0);
  writer_size(&text, "PART_ITEMS", parts > 0 ? items / parts : 1);
  if (take->summed > 0) {
    sums_write(&text, &move);
    made->form = arena_format(arena, "sums of %d, %d elements at once", (int)dims_total(&move.sums), move.pack);
  } else {
    made->form = arena_format(arena, "take, %d elements at once%s", move.pack, parts > 0 ? ", chosen parts" : "");
  }
  buffer_text(&text, cuda_text_take);
  writer_launch(made, take->summed > 0 ? "take_sum" : "take", divide_up(items, THREADS * each), THREADS, 0);
  made->bytes = bytes_of(&move) + x * (double)element_type_bytes(type_x) + out * (double)element_type_bytes(type_out);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}

// --- put ---

static void direct_write(Buffer *text, const Move *move, const int *alignment, CudaKernel *made) {
  const int64_t items = items_write(text, move), bytes = element_type_bytes(move->type_x);
  const bool whole = alignment[0] % PACK_BYTES == 0;
  const int64_t width = PACK_BYTES / bytes, elements = move->take->x_elements;
  const int64_t zeroes = whole ? elements / width + elements % width : elements;
  buffer_text(text, "#define TAKES 0\n");
  writer_size(text, "ZERO_WHOLE", whole);
  buffer_text(text, cuda_text_take);
  if (move->take->write != WRITE_ADD && zeroes > 0) {
    writer_launch(made, "put_zero", divide_up(zeroes, THREADS * EACH), THREADS, 0);
  }
  writer_launch(made, "put_direct", divide_up(items, THREADS * EACH), THREADS, 0);
}

typedef struct {
  Dims keys, columns, families;  // coordinates that choose a row; those of an element in it; and of x beside the index
  int64_t key_count, rows, column_count, chunk, chunks, tiles;
  int digit_bits, passes, threads;
  Sorting sorting;
  bool dense;  // the rows are all of x
} Sort;

static Sort sort_of(const Move *move) {
  Sort sort = {0};
  int64_t families = 1, number;
  for (int d = 0; d < move->dims.count; d++) {
    const Dims *all = &move->dims;
    Dims *to = all->index[d] != 0 || all->x[d] == 0 ? &sort.keys : &sort.columns;
    dims_add(to, all->size[d], all->x[d], all->index[d], all->out[d]);
  }
  for (int d = sort.keys.count - 1; d >= 0; d--) {
    if (sort.keys.x[d] != 0) {
      sort.keys.number[d] = families;
      families *= sort.keys.size[d];
    }
  }
  for (int d = 0; d < sort.keys.count; d++) {
    if (sort.keys.x[d] != 0) {
      dims_add(&sort.families, sort.keys.size[d], sort.keys.x[d], 0, 0);
    }
  }
  dims_add(&sort.families, move->take->extent, move->take->stride_axis, 0, 0);
  sort.key_count = dims_total(&sort.keys);
  sort.column_count = dims_total(&sort.columns);
  sort.rows = families * move->take->extent;
  sort.dense = sort.rows * sort.column_count == move->take->x_elements;
  for (number = sort.rows; number > 0; number /= 2) {
    sort.digit_bits++;
  }
  sort.passes = sort.digit_bits <= DIGIT_BITS_ONE ? 1 : sort.digit_bits <= 2 * DIGIT_BITS_TWO ? 2 : 3;
  sort.digit_bits = (sort.digit_bits + sort.passes - 1) / sort.passes;
  sort.sorting = sorting_of(sort.key_count, (int64_t)1 << sort.digit_bits);
  sort.chunk = CHUNK;  // long enough that the partial sums stay small beside x
  while (sort.chunk < CHUNK_MOST && sort.key_count / sort.chunk > CHUNKS_MANY) {
    sort.chunk *= 2;
  }
  sort.chunks = divide_up(sort.key_count, sort.chunk);
  const int64_t packs = sort.column_count / move->pack;
  sort.threads = packs >= THREADS ? THREADS : (int)divide_up(packs, 32) * 32;
  sort.tiles = divide_up(packs, sort.threads);
  return sort;
}

static int64_t part_write(Buffer *text, const char *name, int64_t *at, int64_t bytes) {
  const int64_t begin = *at;
  writer_stride(text, name, begin);
  *at = begin + divide_up(bytes, 256) * 256;
  return begin;
}

static void sort_seeks(Buffer *text, const Move *move, const Sort *sort) {
  static const char *const key_names[] = {"index", "family", "source"}, *const column_names[] = {"x", "source"};
  const Dims columns = packed(&sort->columns, move->pack);
  const int64_t *const key_strides[] = {sort->keys.index, sort->keys.number, sort->keys.out};
  const int64_t *const column_strides[] = {columns.x, columns.out}, *const row_strides[] = {sort->families.x};
  buffer_text(text, "typedef u32 Item;\n");
  writer_seek(text, "key_seek", sort->keys.count, sort->keys.size, 3, key_names, key_strides);
  writer_seek(text, "column_seek", columns.count, columns.size, 2, column_names, column_strides);
  writer_seek(text, "row_seek", sort->families.count, sort->families.size, 1, column_names, row_strides);
}

static void sorted_write(Buffer *text, const Move *move, const Sort *sort, CudaKernel *made) {
  const int64_t packs = sort->column_count / move->pack;
  const bool zeroes = sort->dense && move->take->write != WRITE_ADD;
  buffer_format(text, "constexpr u32 ROWS = %uu;\n", (unsigned)sort->rows);
  writer_size(text, "COLUMNS", sort->column_count);
  writer_size(text, "DENSE", sort->dense);
  sorting_write(text, &sort->sorting, sort->digit_bits, 1);
  writer_size(text, "CHUNK", sort->chunk);
  writer_size(text, "CHUNKS", sort->chunks);
  writer_size(text, "THREADS", sort->threads);
  buffer_format(text, "#define PASSES %d\n", sort->passes);
  part_write(text, "AT_KEYS", &made->scratch_bytes, sort->key_count * 8);
  part_write(text, "AT_PLACES", &made->scratch_bytes, sort->key_count * 8);
  part_write(text, "AT_COUNTS", &made->scratch_bytes, sorting_scratch(&sort->sorting));
  part_write(text, "AT_PRESENT", &made->scratch_bytes, sort->rows * 4);
  part_write(text, "AT_PARTIAL", &made->scratch_bytes,
             sort->chunks * 2 * sort->column_count * (move->type_x == TYPE_F64 ? 8 : 4));
  sort_seeks(text, move, sort);
  buffer_text(text, cuda_text_put);
  static const char *const counts[] = {"put_count_0", "put_count_1", "put_count_2"};
  static const char *const places[] = {"put_place_0", "put_place_1", "put_place_2"};
  for (int pass = 0; pass < sort->passes; pass++) {
    const bool beside = zeroes && pass > 0 && pass == sort->passes - 1;
    const int64_t zero_blocks = beside ? divide_up(sort->rows * packs, THREADS * EACH) : 0;
    sorting_launch(made, &sort->sorting, counts[pass], places[pass], zero_blocks);
  }
  const int64_t zero_blocks = zeroes && sort->passes == 1 ? divide_up(sort->rows * packs, sort->threads * EACH) : 0;
  writer_launch(made, "put_sum", sort->chunks * sort->tiles + zero_blocks, sort->threads, sort->chunk * 12 + 16);
  writer_launch(made, "put_join", sort->chunks * sort->tiles, sort->threads, 0);
}

// Every coordinate has elements of x of its own.
static bool is_direct(const Dims *dims) {
  for (int d = 0; d < dims->count; d++) {
    if (dims->x[d] == 0) {
      return false;
    }
  }
  return true;
}

static const char *sort_problem(const Move *move, const Sort *sort) {
  const double packs = (double)sort->column_count / move->pack;
  if (sort->key_count > INT_MAX / 2 || (double)sort->rows > INT_MAX / 2 || sort->column_count > INT_MAX / 2) {
    return "a put over more than 2^30 coordinates or rows";
  }
  if ((double)sort->chunks * (double)sort->tiles + (double)sort->rows * packs / (sort->threads * EACH) > INT_MAX / 2) {
    return "a put of more than 2^30 blocks";
  }
  return NULL;
}

bool cuda_put(const Take *take, ElementType type_x, ElementType type_out, const int *alignment, Arena *arena,
              CudaKernel *made, const char **why) {
  Buffer text = {0};
  Move move = {.take = take, .type_x = type_x, .type_out = type_out, .dims = dims_of(take, 0, take->dim_count)};
  *why = problem_of(take, type_x, type_out, true);
  if (*why) {
    return false;
  }
  move.pack = pack_of(&move, alignment, PACK_BYTES);
  const bool direct = is_direct(&move.dims);
  const Sort sort = direct ? (Sort){0} : sort_of(&move);
  *why = direct ? NULL : sort_problem(&move, &sort);
  if (*why) {
    return false;
  }
  *made = (CudaKernel){.port_count = PORTS};
  common_write(&text, &move);
  if (direct) {
    direct_write(&text, &move, alignment, made);
    made->form = arena_format(arena, "put without collisions, %d elements at once", move.pack);
  } else {
    sorted_write(&text, &move, &sort, made);
    made->form = arena_format(arena, "put by sorting in %d passes, %d elements at once", sort.passes, move.pack);
  }
  const double x = (double)(take->write == WRITE_STORE ? take->x_elements : dims_total(&move.dims));
  made->bytes = bytes_of(&move) + (double)dims_total(&move.dims) * (double)element_type_bytes(type_out) +
                x * (double)element_type_bytes(type_x);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}
