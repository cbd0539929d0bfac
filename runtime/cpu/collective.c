// collective.c: each rank makes its own result out of the memory of the others, reducing in their order.
//
// all_reduce of n ranks: rank i reduces part i, n x count / n elements read; then each copies the parts of the others.
// Few elements are reduced whole by every rank, which saves a meeting.
#include "runtime/cpu/collective.h"

#include <string.h>

#include "base/integer.h"
#include "kernels/cpu/convert.h"

enum { BLOCK = 512, WHOLE_MAX = 8192, LINE = 64 };

#define SUM(a, x) ((a) + (x))
#define MAX(a, x) ((x) > (a) || (x) != (x) ? (x) : (a))  // NaN stays
#define MIN(a, x) ((x) < (a) || (x) != (x) ? (x) : (a))
#define INT_SUM(a, x) ((int32_t)((uint32_t)(a) + (uint32_t)(x)))
#define INT_MAX_OF(a, x) ((x) > (a) ? (x) : (a))
#define INT_MIN_OF(a, x) ((x) < (a) ? (x) : (a))

#define ACCUMULATE(name, Type, sum, max, min)                                                      \
  static void name(ReduceKind kind, Type *restrict total, const Type *restrict x, int64_t count) { \
    switch (kind) {                                                                                \
      case REDUCE_MAX:                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                      \
          total[i] = max(total[i], x[i]);                                                          \
        }                                                                                          \
        break;                                                                                     \
      case REDUCE_MIN:                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                      \
          total[i] = min(total[i], x[i]);                                                          \
        }                                                                                          \
        break;                                                                                     \
      default:                                                                                     \
        for (int64_t i = 0; i < count; i++) {                                                      \
          total[i] = sum(total[i], x[i]);                                                          \
        }                                                                                          \
    }                                                                                              \
  }

ACCUMULATE(accumulate_f32, float, SUM, MAX, MIN)
ACCUMULATE(accumulate_f64, double, SUM, MAX, MIN)
ACCUMULATE(accumulate_int, int32_t, INT_SUM, INT_MAX_OF, INT_MIN_OF)

static void widen(ElementType type, const void *from, float *to, int64_t count) {
  const uint16_t *half = from;
  const uint8_t *quarter = from;
  for (int64_t i = 0; i < count; i++) {
    to[i] = type == TYPE_BF16   ? f32_of_bf16(half[i])
            : type == TYPE_F16  ? f32_of_f16(half[i])
            : type == TYPE_E4M3 ? f32_of_e4m3(quarter[i])
                                : f32_of_e5m2(quarter[i]);
  }
}

static void narrow(ElementType type, const float *from, void *to, int64_t count) {
  uint16_t *half = to;
  uint8_t *quarter = to;
  for (int64_t i = 0; i < count; i++) {
    if (type == TYPE_BF16 || type == TYPE_F16) {
      half[i] = type == TYPE_BF16 ? bf16_of_f32(from[i]) : f16_of_f32(from[i]);
    } else {
      quarter[i] = type == TYPE_E4M3 ? e4m3_of_f32(from[i]) : e5m2_of_f32(from[i]);
    }
  }
}

// Narrow types are summed in f32 and rounded once.
static void reduce_narrow(const Collective *collective, const Meeting *meeting, int64_t begin, int64_t count,
                          char *to) {
  const int64_t bytes = element_type_bytes(collective->type);
  float total[BLOCK], wide[BLOCK];
  widen(collective->type, (const char *)ranks_from(meeting, 0) + begin * bytes, total, count);
  for (int r = 1; r < meeting->count; r++) {
    widen(collective->type, (const char *)ranks_from(meeting, r) + begin * bytes, wide, count);
    accumulate_f32(collective->reduce, total, wide, count);
  }
  narrow(collective->type, total, to, count);
}

// Elements [begin, begin + count) of what all ranks have, reduced; `to` may be where this rank has them.
static void reduce(const Collective *collective, const Meeting *meeting, int64_t begin, int64_t count, char *to) {
  const int64_t bytes = element_type_bytes(collective->type);
  _Alignas(64) char out[BLOCK * sizeof(double)];
  for (int64_t done = 0; done < count; done += BLOCK) {
    const int64_t now = count - done < BLOCK ? count - done : BLOCK, at = begin + done;
    if (element_type_floating(collective->type) && bytes < 4) {
      reduce_narrow(collective, meeting, at, now, to + done * bytes);
      continue;
    }
    memcpy(out, (const char *)ranks_from(meeting, 0) + at * bytes, (size_t)(now * bytes));
    for (int r = 1; r < meeting->count; r++) {
      const void *x = (const char *)ranks_from(meeting, r) + at * bytes;
      if (collective->type == TYPE_F64) {
        accumulate_f64(collective->reduce, (double *)(void *)out, x, now);
      } else if (collective->type == TYPE_F32) {
        accumulate_f32(collective->reduce, (float *)(void *)out, x, now);
      } else {
        accumulate_int(collective->reduce, (int32_t *)(void *)out, x, now);
      }
    }
    memcpy(to + done * bytes, out, (size_t)(now * bytes));
  }
}

static bool all_reduce(const Collective *collective, Ranks *ranks, int64_t rank, const Meeting *meeting, void *to,
                       Error *error) {
  const int64_t bytes = element_type_bytes(collective->type), count = collective->count;
  const bool in_place = ranks_from(meeting, meeting->index) == to;  // then each rank writes only what it alone reads
  if (!in_place && count <= WHOLE_MAX / meeting->count) {
    reduce(collective, meeting, 0, count, to);
    return true;
  }
  const int64_t part = round_up(blocks_of(count, meeting->count), LINE);
  for (int i = 0; i < meeting->count; i++) {
    const int other = (meeting->index + i) % meeting->count;  // its own first
    const int64_t begin = other * part < count ? other * part : count, left = count - begin;
    const int64_t now = left < part ? left : part;
    if (i == 0) {
      reduce(collective, meeting, begin, now, (char *)to + begin * bytes);
      if (!ranks_meet_again(ranks, rank, meeting, error)) {
        return false;
      }
    } else {
      memcpy((char *)to + begin * bytes, (const char *)ranks_to(meeting, other) + begin * bytes, (size_t)(now * bytes));
    }
  }
  return true;
}

bool collective_run(const Instruction *instruction, Ranks *ranks, int64_t rank, int64_t call, const void *from,
                    void *to, Error *error) {
  const Collective *collective = &instruction->as.collective;
  const int64_t bytes = element_type_bytes(collective->type) * collective->count;
  Meeting meeting;
  if (!ranks || collective->ranks == 1) {  // of one rank: all of them keep what is there
    memcpy(to, from, (size_t)bytes);
    return true;
  }
  if (!ranks_meet(ranks, rank, instruction, call, from, to, &meeting, error)) {
    return false;
  }
  if (meeting.count == 0) {
    return true;
  }
  switch (collective->kind) {
    case COLLECTIVE_ALL_REDUCE:
      if (!all_reduce(collective, ranks, rank, &meeting, to, error)) {
        return false;
      }
      break;
    case COLLECTIVE_REDUCE_SCATTER:
      reduce(collective, &meeting, meeting.index * collective->count, collective->count, to);
      break;
    case COLLECTIVE_ROTATE:
      memcpy(to, ranks_from(&meeting, (meeting.index + meeting.count - 1) % meeting.count), (size_t)bytes);
      break;
    default:
      for (int r = 0; r < meeting.count; r++) {
        const int64_t block = collective->kind == COLLECTIVE_ALL_TO_ALL ? meeting.index * bytes : 0;
        memcpy((char *)to + r * bytes, (const char *)ranks_from(&meeting, r) + block, (size_t)bytes);
      }
  }
  return ranks_meet_again(ranks, rank, &meeting, error);
}

bool receive_run(const Instruction *instruction, Ranks *ranks, int64_t rank, void *memory, Error *error) {
  const Transfer *transfer = &instruction->as.transfer;
  const void *from;
  if (!ranks_receive(ranks, rank, instruction, &from, error)) {
    return false;
  }
  if (!from) {
    return true;
  }
  memcpy(memory, from, (size_t)(transfer->count * element_type_bytes(transfer->type)));
  return ranks_received(ranks, rank, instruction, error);
}

void piece_run(const Piece *piece, int64_t part, const void *from, void *to) {
  const int64_t bytes = element_type_bytes(piece->type), low = part * piece->piece, high = low + piece->piece;
  const int64_t begin = piece->first > low ? piece->first : low;
  const int64_t last = piece->first + piece->count, end = last < high ? last : high;
  if (begin < end) {
    memcpy((char *)to + (begin - low) * bytes, (const char *)from + (begin - piece->first) * bytes,
           (size_t)((end - begin) * bytes));
  }
}
