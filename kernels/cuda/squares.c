// squares.c: writes the tables of SQUARES: where its parts begin, how long they are, and which blocks have them.
#include "kernels/cuda/squares.h"

#include <inttypes.h>
#include <limits.h>

#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

enum { PORTS = 2, THREADS = 256, CHUNK = 1 << 15 };  // elements of one block

static void table_write(Buffer *text, const char *type, const char *name, int64_t (*entry)(const Squares *, int64_t *),
                        const Squares *squares, int count) {
  int64_t at[2] = {0, 0};
  buffer_format(text, "static __device__ const %s %s[%d] = {", type, name, count);
  for (int i = 0; i < count; i++) {
    buffer_format(text, "%s%" PRId64 "%s", i % 8 ? " " : "\n  ", entry(squares, at), type[0] == 'i' ? "LL," : "u,");
  }
  buffer_text(text, "\n};\n");
}

// Of entries: at[0] is the number of the part, at[1] a sum.
static int64_t first_of(const Squares *squares, int64_t *at) {
  return squares->part[at[0]++].first;
}

static int64_t count_of(const Squares *squares, int64_t *at) {
  return squares->part[at[0]++].count;
}

static int64_t begin_of(const Squares *squares, int64_t *at) {
  const int64_t begin = at[1];
  at[1] += at[0] < squares->part_count ? divide_up(squares->part[at[0]].count, CHUNK) : 0;
  at[0]++;
  return begin;
}

bool cuda_squares(const Squares *squares, Arena *arena, CudaKernel *made, const char **why) {
  Buffer text = {0};
  const int64_t bytes = element_type_bytes(squares->type);
  int64_t chunks = 0, elements = 0;
  for (int i = 0; i < squares->part_count; i++) {
    elements += squares->part[i].count;
    chunks += divide_up(squares->part[i].count, CHUNK);
  }
  *why = chunks > INT_MAX ? "squares of too much" : NULL;
  if (*why) {
    return false;
  }
  *made = (CudaKernel){.port_count = PORTS};
  writer_begin(&text, PORTS);
  buffer_format(&text, "typedef %s Real;\n", squares->type == TYPE_F64 ? "double" : "float");
  writer_size(&text, "PARTS", squares->part_count);
  writer_size(&text, "THREADS", THREADS);
  writer_size(&text, "CHUNK", CHUNK);
  table_write(&text, "i64", "part_first", first_of, squares, squares->part_count);
  table_write(&text, "i64", "part_count", count_of, squares, squares->part_count);
  table_write(&text, "u32", "part_begin", begin_of, squares, squares->part_count + 1);
  buffer_text(&text, cuda_text_squares);
  writer_launch(made, "squares", chunks, THREADS, THREADS * bytes);
  writer_launch(made, "squares_end", squares->part_count, THREADS, THREADS * (int64_t)sizeof(double));
  made->scratch_bytes = chunks * bytes;
  made->form = arena_format(arena, "squares of %d parts", squares->part_count);
  made->bytes = (double)bytes * (double)(elements + squares->part_count);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}
