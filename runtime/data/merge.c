// merge.c: the pair of neighbours with the lowest rank becomes one token, the leftmost of equals first, until none is
// left.
//
// Short pieces look at all their pairs each time; long ones, which only odd text has, keep them in a heap.
#include "runtime/data/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { SHORT = 96, NO_RANK = INT32_MAX };

typedef struct {
  int32_t rank, at;              // where the first of the pair stands
  int32_t first, second, token;  // what they were when it was put in
} Candidate;

struct MergeHeap {
  Candidate *all;
  size_t count, capacity;
};

void merger_free(Merger *merger) {
  free(merger->ids);
  free(merger->next);
  free(merger->before);
  if (merger->heap) {
    free(merger->heap->all);
  }
  free(merger->heap);
  *merger = (Merger){0};
}

static bool grow(int32_t **array, size_t count) {
  int32_t *grown = realloc(*array, sizeof *grown * count);
  *array = grown ? grown : *array;
  return grown != NULL;
}

int32_t *merger_reserve(Merger *merger, size_t length) {
  if (length > INT32_MAX / 4) {
    return NULL;
  }
  if (length <= merger->capacity && merger->ids) {
    return merger->ids;
  }
  const size_t capacity = length < 1024 ? 1024 : 2 * length;
  if (!grow(&merger->ids, capacity) || !grow(&merger->next, capacity) || !grow(&merger->before, capacity)) {
    return NULL;
  }
  merger->capacity = capacity;
  return merger->ids;
}

// --- Short pieces ---

// Symbols are those of the bytes, unless `bytes` is NULL.
static int64_t merge_short(int32_t *ids, const Tokenizer *tokenizer, const uint8_t *bytes, int64_t count) {
  int32_t ranks[SHORT], tokens[SHORT];  // of the pair of each with the one behind it
  for (int64_t i = 0; i < count; i++) {
    const Merge *merge = i + 1 == count ? NULL
                         : bytes        ? &tokenizer->byte_pairs[bytes[i] << 8 | bytes[i + 1]]
                                        : tokenizer_merge_find(tokenizer, ids[i], ids[i + 1]);
    ranks[i] = merge && merge->rank >= 0 ? merge->rank : NO_RANK;
    tokens[i] = merge ? merge->token : 0;
  }
  for (;;) {
    int64_t best = 0;
    for (int64_t i = 1; i + 1 < count; i++) {
      best = ranks[i] < ranks[best] ? i : best;
    }
    if (count < 2 || ranks[best] == NO_RANK) {
      return count;
    }
    ids[best] = tokens[best];
    count--;
    for (int64_t i = best + 1; i < count; i++) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      tokens[i] = tokens[i + 1];
    }
    for (int64_t i = best > 0 ? best - 1 : best; i <= best; i++) {
      const Merge *merge = i + 1 < count ? tokenizer_merge_find(tokenizer, ids[i], ids[i + 1]) : NULL;
      ranks[i] = merge ? merge->rank : NO_RANK;
      tokens[i] = merge ? merge->token : 0;
    }
  }
}

// --- Long pieces ---

static bool ahead(const Candidate *a, const Candidate *b) {
  return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static bool heap_put(MergeHeap *heap, Candidate candidate) {
  if (heap->count == heap->capacity) {
    const size_t capacity = heap->capacity ? 2 * heap->capacity : 1024;
    Candidate *grown = realloc(heap->all, sizeof *grown * capacity);
    if (!grown) {
      return false;
    }
    heap->all = grown;
    heap->capacity = capacity;
  }
  size_t at = heap->count++;
  while (at > 0 && ahead(&candidate, &heap->all[(at - 1) / 2])) {
    heap->all[at] = heap->all[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap->all[at] = candidate;
  return true;
}

static Candidate heap_take(MergeHeap *heap) {
  const Candidate least = heap->all[0], last = heap->all[--heap->count];
  size_t at = 0;
  for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
    child += child + 1 < heap->count && ahead(&heap->all[child + 1], &heap->all[child]);
    if (!ahead(&heap->all[child], &last)) {
      break;
    }
    heap->all[at] = heap->all[child];
    at = child;
  }
  heap->all[at] = last;
  return least;
}

static bool consider(Merger *merger, const Tokenizer *tokenizer, int32_t at) {
  const int32_t next = at < 0 ? -1 : merger->next[at];
  const Merge *merge = next < 0 ? NULL : tokenizer_merge_find(tokenizer, merger->ids[at], merger->ids[next]);
  return !merge ||
         heap_put(merger->heap, (Candidate){merge->rank, at, merger->ids[at], merger->ids[next], merge->token});
}

static int64_t merge_long(Merger *merger, const Tokenizer *tokenizer, int64_t length) {
  int32_t *ids = merger->ids, *next = merger->next, *before = merger->before;
  merger->heap = merger->heap ? merger->heap : calloc(1, sizeof *merger->heap);
  if (!merger->heap) {
    return -1;
  }
  merger->heap->count = 0;
  for (int32_t i = 0; i < (int32_t)length; i++) {
    next[i] = i + 1 < (int32_t)length ? i + 1 : -1;
    before[i] = i - 1;
  }
  for (int32_t i = 0; i < (int32_t)length; i++) {
    if (!consider(merger, tokenizer, i)) {
      return -1;
    }
  }
  while (merger->heap->count > 0) {
    const Candidate best = heap_take(merger->heap);
    const int32_t second = next[best.at];
    if (ids[best.at] != best.first || second < 0 || ids[second] != best.second) {
      continue;  // one of them is part of another token by now
    }
    ids[best.at] = best.token;
    ids[second] = -1;
    next[best.at] = next[second];
    if (next[second] >= 0) {
      before[next[second]] = best.at;
    }
    if (!consider(merger, tokenizer, before[best.at]) || !consider(merger, tokenizer, best.at)) {
      return -1;
    }
  }
  int64_t count = 0;
  for (int32_t at = 0; at >= 0;) {
    const int32_t following = next[at];
    ids[count++] = ids[at];
    at = following;
  }
  return count;
}

// Characters that are tokens, and bytes of others.
static int64_t symbols_set(int32_t *ids, const Tokenizer *tokenizer, const uint8_t *bytes, size_t length) {
  int64_t count = 0;
  for (size_t at = 0; at < length;) {
    const int size = tokenizer->characters ? utf8_character(bytes + at, length - at) : 0;
    const int64_t id = size > 0 ? map_get_bytes_or(&tokenizer->words, bytes + at, (size_t)size, -1) : -1;
    if (id >= 0) {
      ids[count++] = (int32_t)id;
    }
    for (int i = 0; id < 0 && i < (size > 1 ? size : 1); i++) {
      ids[count++] = tokenizer->byte_token[bytes[at + (size_t)i]];
    }
    at += size > 1 ? (size_t)size : 1;
  }
  return count;
}

static int64_t merge_all(Merger *merger, const Tokenizer *tokenizer, const uint8_t *bytes, int64_t count) {
  return count == 0       ? 0
         : count <= SHORT ? merge_short(merger->ids, tokenizer, bytes, count)
                          : merge_long(merger, tokenizer, count);
}

int64_t merge_symbols(Merger *merger, const Tokenizer *tokenizer, int64_t count) {
  return merge_all(merger, tokenizer, NULL, count);
}

int64_t merge_piece(Merger *merger, const Tokenizer *tokenizer, const uint8_t *bytes, size_t length) {
  if (!merger_reserve(merger, length)) {
    return -1;
  }
  const int64_t count = symbols_set(merger->ids, tokenizer, bytes, length);
  return merge_all(merger, tokenizer, tokenizer->characters ? NULL : bytes, count);
}
