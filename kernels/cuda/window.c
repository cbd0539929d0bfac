// window.c: writes the constants of WINDOW and FOLD.
#include "kernels/cuda/window.h"

#include <string.h>

#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

enum { PORTS = 2, THREADS = 256, PACK_BYTES = 16, DIMS_MOST = PLAN_MAX_AXES + 1 };

typedef struct {  // slowest first
  int count;
  int64_t size[DIMS_MOST], x[DIMS_MOST], out[DIMS_MOST], position[DIMS_MOST], tap[DIMS_MOST];
} Dims;

static void dims_swap(Dims *dims, int a, int b) {
  int64_t *const of[] = {dims->size, dims->x, dims->out, dims->position, dims->tap};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    const int64_t keep = of[i][a];
    of[i][a] = of[i][b];
    of[i][b] = keep;
  }
}

// The dims of what is written, in the order of its memory.
static Dims dims_of(const Window *window, bool fold) {
  Dims dims = {0};
  for (int d = 0; d <= window->dim_count; d++) {
    const bool taps = d == window->dim_count;
    const int64_t size = taps ? window->taps : window->size[d];
    if (size > 1 && !(taps && fold)) {
      const int n = dims.count++;
      dims.size[n] = size;
      dims.x[n] = taps ? 0 : window->stride_x[d];
      dims.out[n] = taps ? window->stride_tap : window->stride_out[d];
      dims.position[n] = !taps && d == window->windowed;
      dims.tap[n] = taps;
      const int64_t *const key = fold ? dims.x : dims.out;
      for (int at = n; at > 0 && key[at - 1] < key[at]; at--) {
        dims_swap(&dims, at - 1, at);
      }
    }
  }
  return dims;
}

static int pack_of(const Window *window, const Dims *dims) {
  const int last = dims->count - 1;
  if (last < 0 || dims->position[last] || dims->tap[last] || dims->x[last] != 1 || dims->out[last] != 1) {
    return 1;
  }
  for (int pack = PACK_BYTES / (int)element_type_bytes(window->type); pack > 1; pack /= 2) {
    bool good = dims->size[last] % pack == 0 && (window->taps == 1 || window->stride_tap % pack == 0);
    for (int d = 0; d < last; d++) {
      good = good && dims->x[d] % pack == 0 && dims->out[d] % pack == 0;
    }
    if (good) {
      return pack;
    }
  }
  return 1;
}

static bool window_write(const Window *window, bool fold, Arena *arena, CudaKernel *made, const char **why) {
  static const char *const names[] = {"x", "out", "position", "tap"};
  Buffer text = {0};
  const Dims dims = dims_of(window, fold);
  const int64_t bytes = element_type_bytes(window->type);
  double total = (double)window->taps;
  for (int d = 0; d < window->dim_count; d++) {
    total *= (double)window->size[d];
  }
  if (bytes == 0 || (bytes == 1 && fold) || total < 1 || total > 0x1p40) {
    *why = bytes == 0 || bytes == 1 ? "a window over 8-bit numbers, or a format not chosen" : "a window over too much";
    return false;
  }
  const int pack = pack_of(window, &dims);
  int64_t items = 1;
  for (int d = 0; d < dims.count; d++) {
    items *= dims.size[d];
  }
  *made = (CudaKernel){.port_count = PORTS};
  writer_begin(&text, PORTS);
  buffer_text(&text, cuda_text_formats);
  writer_format(&text, "Format", window->type);
  writer_size(&text, "PACK", pack);
  writer_size(&text, "TAPS", window->taps);
  writer_stride(&text, "STEP_TAP", window->stride_tap);
  writer_stride(&text, "STEP_X", window->stride_x[window->windowed]);
  writer_stride(&text, "STEP_OUT", window->stride_out[window->windowed]);
  writer_size(&text, "POSITIONS", window->size[window->windowed]);
  writer_item(&text, items);
  const int64_t *const strides[] = {dims.x, dims.out, dims.position, dims.tap};
  writer_seek(&text, "seek", dims.count, dims.size, fold ? 3 : 4, names, strides);
  buffer_format(&text, "#define FOLD %d\n", fold);
  buffer_text(&text, cuda_text_window);
  writer_launch(made, fold ? "fold" : "window", divide_up(items, (int64_t)THREADS * pack), THREADS, 0);
  made->form = arena_format(arena, "%s of %d, %d elements at once", fold ? "fold" : "window", (int)window->taps, pack);
  made->bytes = (double)bytes * (total + total / (double)window->taps);
  writer_end(&text, arena, made);
  *why = made->text ? NULL : "no memory";
  return made->text != NULL;
}

bool cuda_window(const Window *window, Arena *arena, CudaKernel *made, const char **why) {
  return window_write(window, false, arena, made, why);
}

bool cuda_fold(const Window *window, Arena *arena, CudaKernel *made, const char **why) {
  return window_write(window, true, arena, made, why);
}
