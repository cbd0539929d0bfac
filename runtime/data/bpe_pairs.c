// bpe_pairs.c: counts that follow each merge, by looking only at pieces that have the pair.
#include "runtime/data/bpe_pairs.h"

static uint64_t pair_key(int32_t first, int32_t second) {
  return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}

static int32_t pair_of(BpePairs *p, int32_t first, int32_t second) {
  int64_t at = map_get_or(&p->numbers, pair_key(first, second), -1);
  if (at < 0) {
    at = p->pairs.count;
    map_put(&p->numbers, pair_key(first, second), at);
    array_push(p->arena, &p->pairs, (BpePair){.first = first, .second = second});
  }
  return (int32_t)at;
}

static void pair_add(BpePairs *p, int32_t first, int32_t second, int64_t count, int32_t piece) {
  const int32_t number = pair_of(p, first, second);
  BpePair *pair = &p->pairs.at[number];
  pair->count += count;
  if (count > 0) {
    if (pair->where.count == 0 || pair->where.at[pair->where.count - 1] != piece) {
      array_push(p->arena, &pair->where, piece);
    }
    if (!pair->waits) {
      pair->waits = true;
      array_push(p->arena, &p->grown, number);
    }
  }
}

static bool ahead(const BpePairs *p, BpeCandidate a, BpeCandidate b) {
  const BpePair *one = &p->pairs.at[a.pair], *two = &p->pairs.at[b.pair];
  return a.count != b.count         ? a.count > b.count
         : one->first != two->first ? one->first < two->first
                                    : one->second < two->second;
}

static void heap_put(BpePairs *p, BpeCandidate candidate) {
  array_push(p->arena, &p->heap, candidate);
  int at = p->heap.count - 1;
  while (at > 0 && ahead(p, candidate, p->heap.at[(at - 1) / 2])) {
    p->heap.at[at] = p->heap.at[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  p->heap.at[at] = candidate;
}

static BpeCandidate heap_take(BpePairs *p) {
  const BpeCandidate best = p->heap.at[0], last = p->heap.at[--p->heap.count];
  int at = 0;
  for (int child = 1; child < p->heap.count; child = 2 * at + 1) {
    child += child + 1 < p->heap.count && ahead(p, p->heap.at[child + 1], p->heap.at[child]);
    if (!ahead(p, p->heap.at[child], last)) {
      break;
    }
    p->heap.at[at] = p->heap.at[child];
    at = child;
  }
  p->heap.at[at] = last;
  return best;
}

static void grown_put(BpePairs *p) {
  for (int i = 0; i < p->grown.count; i++) {
    const int32_t pair = p->grown.at[i];
    heap_put(p, (BpeCandidate){p->pairs.at[pair].count, pair});
  }
  p->grown.count = 0;
}

void bpe_pairs_count(BpePairs *p) {
  p->numbers = map_create(p->arena);
  for (int i = 0; i < p->pieces.count; i++) {
    const BpePiece *piece = &p->pieces.at[i];
    for (int32_t k = 0; k + 1 < piece->length; k++) {
      pair_add(p, piece->tokens[k], piece->tokens[k + 1], piece->count, i);
    }
  }
  grown_put(p);
}

bool bpe_pairs_best(BpePairs *p, int32_t *pair) {
  while (p->heap.count > 0) {
    const BpeCandidate best = heap_take(p);
    const int64_t count = p->pairs.at[best.pair].count;
    if (count == best.count) {
      p->pairs.at[best.pair].waits = false;
      *pair = best.pair;
      return count >= 2;
    }
    if (count > 0) {
      heap_put(p, (BpeCandidate){count, best.pair});
    } else {
      p->pairs.at[best.pair].waits = false;
    }
  }
  return false;
}

static void piece_merge(BpePairs *p, int32_t number, int32_t first, int32_t second, int32_t token) {
  BpePiece *piece = &p->pieces.at[number];
  int32_t *tokens = piece->tokens, length = 0;
  const int64_t count = piece->count;
  for (int32_t i = 0; i < piece->length;) {
    if (i + 1 < piece->length && tokens[i] == first && tokens[i + 1] == second) {
      if (length > 0) {
        pair_add(p, tokens[length - 1], first, -count, number);
        pair_add(p, tokens[length - 1], token, count, number);
      }
      if (i + 2 < piece->length) {
        pair_add(p, second, tokens[i + 2], -count, number);
        pair_add(p, token, tokens[i + 2], count, number);
      }
      tokens[length++] = token;
      i += 2;
    } else {
      tokens[length++] = tokens[i++];
    }
  }
  piece->length = length;
}

void bpe_pairs_merge(BpePairs *p, int32_t pair, int32_t token) {
  const int32_t first = p->pairs.at[pair].first, second = p->pairs.at[pair].second;
  for (int i = 0; i < p->pairs.at[pair].where.count; i++) {
    const int32_t number = p->pairs.at[pair].where.at[i];
    if (p->pieces.at[number].seen != token) {
      p->pieces.at[number].seen = token;
      piece_merge(p, number, first, second, token);
    }
  }
  p->pairs.at[pair].count = 0;
  grown_put(p);
}
