// order.c: writes the constants of ORDER.
#include "kernels/cuda/order.h"

#include <limits.h>

#include "base/integer.h"
#include "kernels/cuda/embedded.h"
#include "kernels/cuda/sort.h"
#include "kernels/cuda/writer.h"

enum { PORTS = 4, EXTENT_MOST = 4096 };

bool cuda_order(const Order *order, Arena *arena, CudaKernel *made, const char **why) {
  Buffer text = {0};
  *why = NULL;
  if (order->extent > EXTENT_MOST) {
    *why = "an order of more than 4096 indices";
  } else if (order->block > INT_MAX / 4 / EXTENT_MOST || order->count > INT_MAX / 4 || order->capacity > INT_MAX / 2) {
    *why = "an order of more than 2^29 positions, or of blocks of more than 2^17 rows";
  }
  if (*why) {
    return false;
  }
  int bits = 1;
  while ((int64_t)1 << bits <= order->extent) {
    bits++;
  }
  const Sorting sorting = sorting_of(order->count, order->extent + 1);
  *made = (CudaKernel){.port_count = PORTS, .scratch_bytes = sorting_scratch(&sorting)};
  writer_begin(&text, PORTS);
  writer_size(&text, "EXTENT", order->extent);
  writer_size(&text, "CAPACITY", order->capacity);
  sorting_write(&text, &sorting, bits, order->block);
  buffer_text(&text, cuda_text_order);
  sorting_launch(made, &sorting, "order_count", "order_place", 0);
  made->form = arena_format(arena, "rows of %d indices by a stable sort", (int)order->extent);
  made->bytes = 4.0 * (double)(2 * order->count + order->capacity + order->capacity / order->block);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}
