// sort.c: see sort.h.
#include "kernels/cuda/sort.h"

#include "base/integer.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

enum { THREADS = 256, BLOCKS = 64, WARP = 32, SHARED = 96 << 10 };

static int64_t shared_of(int64_t digits, int threads) {
  return (threads / WARP + threads / WARP * digits) * 4;
}

Sorting sorting_of(int64_t keys, int64_t digits) {
  Sorting sorting = {.keys = keys, .digits = digits, .threads = THREADS};
  while (sorting.threads > WARP && shared_of(digits, sorting.threads) > SHARED) {
    sorting.threads /= 2;
  }
  sorting.tile = round_up(blocks_of(keys, BLOCKS), sorting.threads);
  sorting.blocks = blocks_of(keys, sorting.tile);
  return sorting;
}

void sorting_write(Buffer *text, const Sorting *sorting, int bits, int64_t align) {
  writer_size(text, "KEYS", sorting->keys);
  writer_size(text, "SORT_TILE", sorting->tile);
  writer_size(text, "BLOCKS", sorting->blocks);
  writer_size(text, "DIGITS", sorting->digits);
  writer_size(text, "DIGIT_BITS", bits);
  writer_size(text, "DIGIT_MASK", ((int64_t)1 << bits) - 1);
  writer_size(text, "SORT_THREADS", sorting->threads);
  writer_size(text, "ALIGN", align);
  buffer_text(text, cuda_text_sort);
}

int64_t sorting_scratch(const Sorting *sorting) {
  return sorting->blocks * sorting->digits * 4;
}

int64_t sorting_shared(const Sorting *sorting) {
  return shared_of(sorting->digits, sorting->threads);
}

void sorting_launch(CudaKernel *made, const Sorting *sorting, const char *count, const char *place, int64_t more) {
  writer_launch(made, count, sorting->blocks, sorting->threads, sorting->digits * 4);
  writer_launch(made, place, sorting->blocks + more, sorting->threads, sorting_shared(sorting));
}
