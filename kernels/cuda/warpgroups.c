// warpgroups.c: see warpgroups.h.
#include "kernels/cuda/warpgroups.h"

#include "kernels/cuda/embedded.h"
#include "kernels/cuda/writer.h"

static void operands_write(Buffer *text, int from, int count) {
  for (int i = 0; i < count; i++) {
    buffer_format(text, "%s%%%d", i ? ", " : "", from + i);
  }
}

// c[64][width] += a b, with a from shared memory, or from registers.
static void product_write(Buffer *text, int64_t width, const char *type, bool shared) {
  const int sums = (int)width / 2, a = sums, b = a + (shared ? 1 : 4), add = b + 1;
  buffer_format(
      text,
      "\ntemplate <int COLUMNS_A, int COLUMNS_B>\n__device__ __forceinline__ void "
      "warpgroup_product(float (&c)[%d][4], %s, Operand b, int add) {\n  asm volatile(\n      \"{\\n.reg .pred "
      "add;\\nsetp.ne.b32 add, %%%d, 0;\\n\"\n      \"wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s "
      "{",
      (int)width / 8, shared ? "Operand a" : "const u32 (&a)[4]", add, (int)width, type, type);
  operands_write(text, 0, sums);
  buffer_text(text, "}, ");
  if (shared) {
    buffer_format(text, "%%%d", a);
  } else {
    buffer_text(text, "{");
    operands_write(text, a, 4);
    buffer_text(text, "}");
  }
  buffer_format(text, ", %%%d, add, 1, 1, %%%d", b, add + 1);
  if (shared) {
    buffer_format(text, ", %%%d", add + 2);
  }
  buffer_text(text, ";\\n}\"\n      : ");
  for (int i = 0; i < sums; i++) {
    buffer_format(text, "%s\"+f\"(c[%d][%d])", i ? ", " : "", i / 4, i % 4);
  }
  buffer_text(text, shared ? "\n      : \"l\"(a)" : "\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])");
  buffer_text(text, ", \"l\"(b), \"r\"(add)");
  buffer_text(text, shared ? ", \"n\"(COLUMNS_A), \"n\"(COLUMNS_B));\n}\n" : ", \"n\"(COLUMNS_B));\n}\n");
}

void warpgroup_products(Buffer *text, const int64_t *width, int count, const char *type) {
  buffer_text(text, cuda_text_hopper);
  for (int i = 0; i < count; i++) {
    bool known = width[i] == 0;
    for (int j = 0; j < i; j++) {
      known |= width[j] == width[i];
    }
    for (int shared = 0; shared < 2 && !known; shared++) {
      product_write(text, width[i], type, shared);
    }
  }
}

void warpgroups_write(Buffer *text, const Warpgroups *groups, const CudaKernel *made) {
  writer_size(text, "CONSUMERS", groups->consumers);
  writer_size(text, "STAGES", groups->stages);
  writer_size(text, "COPIER_REGISTERS", groups->copier_registers);
  writer_size(text, "CONSUMER_REGISTERS", groups->consumer_registers);
  writer_size(text, "MAPS", made->map_count);
}
