// attention_check.c: which attentions the CPU has kernels for.
#include <limits.h>

#include "kernels/cpu/attention.h"

bool attention_check(const Attention *a, const char *name, Error *error) {
  if (a->type != TYPE_F32 && a->type != TYPE_F64 && a->type != TYPE_BF16 && a->type != TYPE_F16) {
    return error_set(error, 1, "%s: the CPU backend has attention for f64, f32, bf16 and f16, not for %s", name,
                     element_type_name(a->type));
  }
  const int64_t size[] = {a->batch, a->queries, a->keys, a->heads, a->groups, a->depth, a->value_depth};
  for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
    if (size[i] < 1 || size[i] > INT_MAX) {
      return error_set(error, 1, "%s: attention over a size that is not between 1 and %d", name, INT_MAX);
    }
  }
  if ((a->more || a->more_keys) && attention_is_narrow(a) && !a->wide) {
    return error_set(error, 1, "%s: attention cannot add a block of keys to what is in %s", name,
                     element_type_name(a->type));
  }
  return true;
}
