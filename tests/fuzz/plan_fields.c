// plan_fields.c: see plan_fields.h. The codec's functions are wrapped (CMakeLists.txt), so that reading tells its
// fields.
#include "tests/fuzz/plan_fields.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/plan/format.h"
#include "compiler/plan/sealed.h"
#include "tests/splitmix.h"

enum { FIELDS_MOST = 1 << 18 };

static Field tables[FIELD_KIND_COUNT][FIELDS_MOST];
static Fields found;
static const uint8_t *base;  // NULL: nobody asks
static size_t base_length;

// `taken` bytes that were read from `from` on.
static void add(const Codec *codec, const uint8_t *from, FieldKind kind, uint32_t bytes) {
  if (base && !codec->out && !codec->bad && from >= base && from < base + base_length &&
      found.count[kind] < FIELDS_MOST && (size_t)(codec->in - from) >= bytes) {
    tables[kind][found.count[kind]++] = (Field){(uint32_t)(from - base), bytes};
  }
}

#define WRAP(name, Type, KIND, bytes)             \
  void __real_##name(Codec *codec, Type *value);  \
  void __wrap_##name(Codec *codec, Type *value);  \
  void __wrap_##name(Codec *codec, Type *value) { \
    const uint8_t *from = codec->in;              \
    __real_##name(codec, value);                  \
    add(codec, from, KIND, bytes);                \
  }

WRAP(code_u64, uint64_t, FIELD_WORD, 8)
WRAP(code_u32, uint32_t, FIELD_WORD, 4)
WRAP(code_i64, int64_t, FIELD_SIZE, 8)
WRAP(code_int, int, FIELD_NUMBER, 4)
WRAP(code_i16, int16_t, FIELD_SHORT, 2)
WRAP(code_double, double, FIELD_REAL, 8)
WRAP(code_bool, bool, FIELD_FLAG, 1)

#define WRAP_TEXT(name)                                                   \
  void __real_##name(Codec *codec, const char **text);                    \
  void __wrap_##name(Codec *codec, const char **text);                    \
  void __wrap_##name(Codec *codec, const char **text) {                   \
    const uint8_t *from = codec->in;                                      \
    __real_##name(codec, text);                                           \
    if (from && codec->in > from + 4) {                                   \
      add(codec, from + 4, FIELD_TEXT, (uint32_t)(codec->in - from) - 4); \
    }                                                                     \
  }

WRAP_TEXT(code_string)
WRAP_TEXT(code_name)

int __real_code_choice(Codec *codec, int value, int count);
int __wrap_code_choice(Codec *codec, int value, int count);
int __wrap_code_choice(Codec *codec, int value, int count) {
  const uint8_t *from = codec->in;
  const int choice = __real_code_choice(codec, value, count);
  add(codec, from, FIELD_CHOICE, 4);
  return choice;
}

void __real_code_data(Codec *codec, const uint8_t **data, size_t *bytes);
void __wrap_code_data(Codec *codec, const uint8_t **data, size_t *bytes);
void __wrap_code_data(Codec *codec, const uint8_t **data, size_t *bytes) {
  const uint8_t *from = codec->in;
  __real_code_data(codec, data, bytes);
  add(codec, from, FIELD_COUNT, 8);
}

void *__real_code_array(Codec *codec, void *array, int *count, size_t size, size_t least);
void *__wrap_code_array(Codec *codec, void *array, int *count, size_t size, size_t least);
void *__wrap_code_array(Codec *codec, void *array, int *count, size_t size, size_t least) {
  const uint8_t *from = codec->in;
  void *result = __real_code_array(codec, array, count, size, least);
  add(codec, from, FIELD_COUNT, 4);
  return result;
}

void __real_code_sizes(Codec *codec, int64_t *sizes, int count);
void __wrap_code_sizes(Codec *codec, int64_t *sizes, int count);
void __wrap_code_sizes(Codec *codec, int64_t *sizes, int count) {
  const uint8_t *from = codec->in;
  __real_code_sizes(codec, sizes, count);
  for (int i = 0; from && i < count; i++) {
    add(codec, from + (size_t)i * 8, FIELD_SIZE, 8);
  }
}

void __real_code_count(Codec *codec, int *count, int most);
void __wrap_code_count(Codec *codec, int *count, int most);
void __wrap_code_count(Codec *codec, int *count, int most) {
  const uint8_t *from = codec->in;
  __real_code_count(codec, count, most);
  add(codec, from, FIELD_COUNT, 4);
}

Fields fields_find(const uint8_t *plan, size_t length) {
  Arena *arena = arena_create();
  jmp_buf escape;
  found = (Fields){0};
  for (int kind = 0; kind < FIELD_KIND_COUNT; kind++) {
    found.of[kind] = tables[kind];
  }
  base = plan;
  base_length = length;
  arena_set_escape(arena, &escape);
  if (setjmp(escape) == 0) {
    Codec codec = {.arena = arena, .in = plan + SEAL_BYTES, .left = length - SEAL_BYTES};
    code_plan_set(&codec, ARENA_NEW(arena, PlanSet));
  }
  base = NULL;
  arena_destroy(arena);
  return found;
}

// --- changes ---

static uint64_t state;

static uint64_t draw(uint64_t below) {
  return splitmix64(&state) % below;
}

static const int64_t edges[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                4,
                                7,
                                8,
                                -8,
                                15,
                                16,
                                -16,
                                31,
                                32,
                                63,
                                64,
                                -64,
                                127,
                                128,
                                255,
                                256,
                                -256,
                                512,
                                1024,
                                4096,
                                -4096,
                                32767,
                                -32768,
                                65536,
                                INT64_C(1) << 20,
                                INT32_MAX,
                                INT32_MIN,
                                1ll << 32,
                                1ll << 40,
                                1ll << 52,
                                1ll << 56,
                                1ll << 57,
                                1ll << 62,
                                INT64_MAX,
                                INT64_MIN,
                                -2,
                                -4,
                                INT64_MAX / 2,
                                INT64_MAX / 4,
                                INT64_MAX / 8,
                                INT64_MIN / 2};
enum { EDGES = sizeof edges / sizeof *edges };

static int64_t value_of(const uint8_t *plan, Field field) {
  uint64_t value = 0;
  memcpy(&value, plan + field.at, field.bytes);
  const int shift = 64 - 8 * (int)field.bytes;
  return (int64_t)(value << shift) >> shift;
}

static uint64_t changed(int64_t old, int64_t other) {
  const uint64_t value = (uint64_t)old;
  switch (draw(14)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return (uint64_t)edges[draw(EDGES)];
    case 3:
      return value * 2;
    case 4:
      return (uint64_t)(old / 2);
    case 5:
      return 0 - value;
    case 6:
    case 7:
    case 8:
      return (uint64_t)other;
    case 9:
      return value + 256 * draw(64);
    case 10:
      return value - 256 * draw(64);
    case 11:
      return draw(64);
    case 12:
      return value + (uint64_t)edges[draw(EDGES)];
    default:
      return value + 4 * draw(8);
  }
}

static void change_real(uint8_t *at) {
  static const double reals[] = {0, 1, -1, 1e300, -1e300, 1e-300, 0.5, 3e38, 2147483648.0, 1e19};
  double value = reals[draw(sizeof reals / sizeof *reals)];
  const uint64_t nan = 0x7ff8000000000000u, infinity = 0x7ff0000000000000u;
  const uint64_t kind = draw(8);
  memcpy(at, kind == 0 ? (const void *)&nan : kind == 1 ? (const void *)&infinity : (const void *)&value, 8);
}

// Kinds by how often their fields are changed, out of 64.
static FieldKind draw_kind(void) {
  static const struct {
    FieldKind kind;
    unsigned often;
  } shares[] = {{FIELD_SIZE, 34}, {FIELD_NUMBER, 9}, {FIELD_SHORT, 5}, {FIELD_CHOICE, 5}, {FIELD_FLAG, 3},
                {FIELD_REAL, 2},  {FIELD_WORD, 2},   {FIELD_COUNT, 2}, {FIELD_TEXT, 2}};
  uint64_t at = draw(64);
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    if (at < shares[i].often) {
      return shares[i].kind;
    }
    at -= shares[i].often;
  }
  return FIELD_SIZE;
}

// Whether fields may stand elsewhere now: kinds, counts and numbers of kernels say how much follows.
static bool change_field(const Fields *fields, uint8_t *plan) {
  const FieldKind kind = draw_kind();
  if (fields->count[kind] == 0) {
    return false;
  }
  const uint64_t count = (uint64_t)fields->count[kind], at = draw(count);
  // Half of the time one near it in the file, which is likely of the same instruction.
  const uint64_t near = at + draw(40), by = draw(2) && near >= 20 && near - 20 < count ? near - 20 : draw(count);
  const Field field = fields->of[kind][at], other = fields->of[kind][by];
  if (kind == FIELD_REAL) {
    change_real(plan + field.at);
  } else if (kind == FIELD_TEXT) {
    plan[field.at + draw(field.bytes)] = (uint8_t)draw(256);
  } else if (kind == FIELD_FLAG) {
    plan[field.at] ^= 1;
  } else {
    const int64_t from = other.bytes == field.bytes ? value_of(plan, other) : 0;
    const uint64_t value = kind == FIELD_CHOICE ? draw(12) : changed(value_of(plan, field), from);
    memcpy(plan + field.at, &value, field.bytes);
  }
  return kind == FIELD_CHOICE || kind == FIELD_COUNT || kind == FIELD_NUMBER || kind == FIELD_FLAG;
}

static size_t change_bytes(uint8_t *plan, size_t length, size_t most) {
  const size_t left = length - SEAL_BYTES;
  if (left < 64) {
    return length;
  }
  const size_t at = SEAL_BYTES + draw(left - 32), size = 1 + draw(16);
  switch (draw(3)) {
    case 0:
      plan[at] ^= (uint8_t)(1u << draw(8));
      return length;
    case 1:
      memmove(plan + at, plan + at + size, length - at - size);
      return length - size;
    default:
      if (length + size > most) {
        return length;
      }
      memmove(plan + at + size, plan + at, length - at);
      return length + size;
  }
}

size_t fields_change(const Fields *fields, uint64_t seed, uint8_t *plan, size_t length, size_t most, bool *moved) {
  state = seed;
  *moved = false;
  if (draw(32) == 0) {
    length = change_bytes(plan, length, most);
    *moved = true;
  } else {
    for (uint64_t i = 1 + (draw(3) == 0); i > 0; i--) {
      *moved |= change_field(fields, plan);
    }
  }
  const uint64_t bytes = length - SEAL_BYTES, hash = XXH3_64bits(plan + SEAL_BYTES, (size_t)bytes);
  memcpy(plan + 16, &bytes, sizeof bytes);
  memcpy(plan + 24, &hash, sizeof hash);
  return length;
}
