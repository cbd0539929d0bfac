// bpe_pairs.c: counts that follow each merge, by looking only at places that have the pair.
#include "runtime/data/bpe_pairs.h"

enum { BYTES = 256, LEFT = 0, RIGHT = 1 };

static uint64_t pair_key(int32_t first, int32_t second) {
  return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}

bool bpe_pairs_piece(BpePairs *p, const uint8_t *bytes, size_t length) {
  if (length > INT32_MAX - p->bytes.length) {
    return false;
  }
  array_push(p->arena, &p->pieces, (BpePiece){.begin = (int32_t)p->bytes.length, .count = 1});
  buffer_bytes(&p->bytes, bytes, length);
  return true;
}

static int32_t piece_end(const BpePairs *p, int32_t piece) {
  return piece + 1 < p->pieces.count ? p->pieces.at[piece + 1].begin : (int32_t)p->bytes.length;
}

// The piece that holds the place, which is `from` or a later one.
static int32_t piece_at(const BpePairs *p, int32_t from, int32_t place) {
  const BpePiece *at = p->pieces.at;
  int64_t step = 1, piece = from;
  for (; piece + step < p->pieces.count && at[piece + step].begin <= place; step *= 2) {
    piece += step;
  }
  for (; step > 0; step /= 2) {
    piece += piece + step < p->pieces.count && at[piece + step].begin <= place ? step : 0;
  }
  return (int32_t)piece;
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

// A pair that occurs so often, with room for its places, which are still to come; -1: it is too rare.
static int32_t pair_make(BpePairs *p, int32_t first, int32_t second, BpeNeighbour of) {
  if (of.count < 2) {
    return -1;
  }
  const int32_t number = p->pairs.count;
  map_put(&p->numbers, pair_key(first, second), number);
  array_push(p->arena, &p->pairs,
             (BpePair){first, second, of.count, ARENA_ARRAY(p->arena, int32_t, of.places), .places = 0});
  heap_put(p, (BpeCandidate){of.count, number});
  return number;
}

static void pair_place(BpePairs *p, int32_t number, int32_t place) {
  if (number >= 0) {
    BpePair *pair = &p->pairs.at[number];
    pair->where[pair->places++] = place;
  }
}

void bpe_pairs_count(BpePairs *p, const int32_t token_of[256], int64_t most) {
  BpeNeighbour *known = ARENA_BORROW(p->arena, BpeNeighbour, BYTES * BYTES);  // [first][second]
  p->numbers = map_create(p->arena);
  p->token = ARENA_ARRAY(p->arena, int32_t, p->bytes.length);
  p->bytes_of = ARENA_ARRAY(p->arena, int32_t, most);
  p->beside[LEFT] = ARENA_ARRAY(p->arena, BpeNeighbour, most);
  p->beside[RIGHT] = ARENA_ARRAY(p->arena, BpeNeighbour, most);
  for (size_t i = 0; i < p->bytes.length; i++) {
    p->token[i] = token_of[(uint8_t)p->bytes.text[i]];
  }
  for (int i = 0; i < BYTES; i++) {
    p->bytes_of[i] = 1;
  }
  for (int32_t i = 0; i < p->pieces.count; i++) {
    for (int32_t at = p->pieces.at[i].begin; at + 1 < piece_end(p, i); at++) {
      BpeNeighbour *of = &known[p->token[at] * BYTES + p->token[at + 1]];
      of->count += p->pieces.at[i].count;
      of->places++;
    }
  }
  for (int32_t i = 0; i < BYTES * BYTES; i++) {
    known[i].pair = pair_make(p, i / BYTES, i % BYTES, known[i]);
  }
  for (int32_t i = 0; i < p->pieces.count; i++) {
    for (int32_t at = p->pieces.at[i].begin; at + 1 < piece_end(p, i); at++) {
      pair_place(p, known[p->token[at] * BYTES + p->token[at + 1]].pair, at);
    }
  }
  arena_return(known);
}

bool bpe_pairs_best(BpePairs *p, int32_t *pair) {
  while (p->heap.count > 0) {
    const BpeCandidate best = heap_take(p);
    const int64_t count = p->pairs.at[best.pair].count;
    if (count == best.count) {
      *pair = best.pair;
      return true;
    }
    if (count >= 2) {
      heap_put(p, (BpeCandidate){count, best.pair});
    }
  }
  return false;
}

static void pair_less(BpePairs *p, int32_t first, int32_t second, int64_t count) {
  const int64_t at = map_get_or(&p->numbers, pair_key(first, second), -1);
  if (at >= 0) {
    p->pairs.at[at].count -= count;
  }
}

// Where the token on the left begins; -1: there is none in the piece.
static int32_t left_of(const BpePairs *p, int32_t place, int32_t begin) {
  const int32_t last = place > begin ? p->token[place - 1] : 0;
  return place == begin ? -1 : last >= 0 ? place - 1 : place + last;
}

// Makes the token wherever the pair still stands.
static void places_merge(BpePairs *p, const BpePair *pair, int32_t token) {
  const int32_t ahead_of = p->bytes_of[pair->first], length = p->bytes_of[token];
  int32_t piece = 0;
  for (int32_t i = 0; i < pair->places; i++) {
    const int32_t at = pair->where[i], next = at + ahead_of, behind = at + length;
    piece = piece_at(p, piece, at);
    const int32_t end = piece_end(p, piece);
    if (p->token[at] != pair->first || next >= end || p->token[next] != pair->second) {
      continue;
    }
    const int32_t left = left_of(p, at, p->pieces.at[piece].begin);
    if (left >= 0 && p->token[left] != token) {
      pair_less(p, p->token[left], pair->first, p->pieces.at[piece].count);
    }
    if (behind < end) {
      pair_less(p, pair->second, p->token[behind], p->pieces.at[piece].count);
    }
    p->token[next] = -1;
    p->token[at] = token;
    p->token[behind - 1] = -length;
  }
}

// Calls `see` with each neighbour of the token that was made; of two of these the left one is beside the right one.
static void neighbours_each(BpePairs *p, const BpePair *pair, int32_t token,
                            void see(BpePairs *p, int side, int32_t token, int32_t place, int64_t count)) {
  int32_t piece = 0;
  for (int32_t i = 0; i < pair->places; i++) {
    const int32_t at = pair->where[i];
    if (p->token[at] != token) {
      continue;
    }
    piece = piece_at(p, piece, at);
    const int32_t left = left_of(p, at, p->pieces.at[piece].begin), right = at + p->bytes_of[token];
    if (left >= 0) {
      see(p, LEFT, p->token[left], left, p->pieces.at[piece].count);
    }
    if (right < piece_end(p, piece) && p->token[right] != token) {
      see(p, RIGHT, p->token[right], at, p->pieces.at[piece].count);
    }
  }
}

static void neighbour_count(BpePairs *p, int side, int32_t token, int32_t place, int64_t count) {
  (void)place;
  BpeNeighbour *of = &p->beside[side][token];
  if (of->places++ == 0) {
    array_push(p->arena, &p->touched[side], token);
  }
  of->count += count;
}

static void neighbour_place(BpePairs *p, int side, int32_t token, int32_t place, int64_t count) {
  (void)count;
  pair_place(p, p->beside[side][token].pair, place);
}

void bpe_pairs_merge(BpePairs *p, int32_t number, int32_t token) {
  const BpePair pair = p->pairs.at[number];
  p->bytes_of[token] = p->bytes_of[pair.first] + p->bytes_of[pair.second];
  places_merge(p, &pair, token);
  p->pairs.at[number].count = 0;
  neighbours_each(p, &pair, token, neighbour_count);
  for (int side = LEFT; side <= RIGHT; side++) {
    for (int i = 0; i < p->touched[side].count; i++) {
      const int32_t other = p->touched[side].at[i];
      BpeNeighbour *of = &p->beside[side][other];
      of->pair = pair_make(p, side == LEFT ? other : token, side == LEFT ? token : other, *of);
    }
  }
  neighbours_each(p, &pair, token, neighbour_place);
  for (int side = LEFT; side <= RIGHT; side++) {
    for (int i = 0; i < p->touched[side].count; i++) {
      p->beside[side][p->touched[side].at[i]] = (BpeNeighbour){.count = 0};
    }
    p->touched[side].count = 0;
  }
}
