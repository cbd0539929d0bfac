// trie.c: nodes are placed one after the other, breadth first, each where all its next bytes find free places.
#include "runtime/data/trie.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

typedef struct {
  TrieNode *nodes;
  int32_t count;       // of places
  int32_t first_free;  // all places ahead of it are taken, or nearly all
  int32_t last;        // the last one that is taken
} Places;

typedef struct {  // texts that share their first bytes, and the node of these
  size_t first, last;
  int32_t length, node;
} Range;

static int text_order(const void *a, const void *b) {
  const TrieText *x = a, *y = b;
  const int order = memcmp(x->bytes, y->bytes, (size_t)(x->length < y->length ? x->length : y->length));
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

// So many places, and those that the bytes of a node at the last of them would have.
static bool places_grow(Places *places, int32_t least) {
  if (least + BYTES <= places->count) {
    return true;
  }
  const int32_t count = 2 * (least + BYTES);
  TrieNode *grown = realloc(places->nodes, sizeof *grown * (size_t)count);
  if (!grown) {
    return false;
  }
  for (int32_t i = places->count; i < count; i++) {
    grown[i] = (TrieNode){.base = 0, .parent = TRIE_NONE, .value = TRIE_NONE};
  }
  places->nodes = grown;
  places->count = count;
  return true;
}

// A base under which the places of all these bytes, in their order, are free. -1: no memory.
static int32_t base_find(Places *places, const uint8_t *bytes, int count) {
  int32_t taken = 0;
  for (int32_t at = places->first_free > bytes[0] + 1 ? places->first_free : bytes[0] + 1;; at++) {
    if (!places_grow(places, at)) {
      return -1;
    }
    const TrieNode *nodes = places->nodes + (at - bytes[0]);
    int free_count = 0;
    while (free_count < count && nodes[bytes[free_count]].parent == TRIE_NONE) {
      free_count++;
    }
    if (free_count == count) {
      // Where nearly all was taken, nobody looks again.
      const int32_t tried = at - places->first_free + 1;
      places->first_free = taken > tried - tried / 16 ? at : places->first_free;
      return at - bytes[0];
    }
    taken += free_count == 0;
  }
}

static bool node_place(Places *places, const TrieText *texts, Range *queue, size_t at, size_t *queued) {
  Range range = queue[at];
  uint8_t bytes[BYTES];
  int count = 0;
  if (texts[range.first].length == range.length) {
    places->nodes[range.node].value = texts[range.first].value;
    places->nodes[range.node].score = texts[range.first].score;
    range.first++;
  }
  for (size_t i = range.first; i < range.last; i++) {
    if (count == 0 || bytes[count - 1] != texts[i].bytes[range.length]) {
      bytes[count++] = texts[i].bytes[range.length];
    }
  }
  if (count == 0) {
    return true;
  }
  const int32_t base = base_find(places, bytes, count);
  if (base < 0) {
    return false;
  }
  places->nodes[range.node].base = base;
  size_t first = range.first;
  for (int i = 0; i < count; i++) {
    size_t last = first;
    while (last < range.last && texts[last].bytes[range.length] == bytes[i]) {
      last++;
    }
    places->nodes[base + bytes[i]].parent = range.node;
    places->last = base + bytes[i] > places->last ? base + bytes[i] : places->last;
    queue[(*queued)++] = (Range){first, last, range.length + 1, base + bytes[i]};
    first = last;
  }
  return true;
}

bool trie_build(Arena *arena, TrieText *texts, size_t count, Trie *trie) {
  size_t most = 1, queued = 1;
  for (size_t i = 0; i < count; i++) {
    most += (size_t)texts[i].length;
  }
  *trie = (Trie){0};
  if (count == 0) {
    return true;
  }
  Range *queue = malloc(sizeof *queue * most);
  Places places = {.first_free = 1};
  bool done = queue && most < INT32_MAX / 4 && places_grow(&places, 1);
  qsort(texts, count, sizeof *texts, text_order);
  if (done) {
    queue[0] = (Range){0, count, 0, TRIE_ROOT};
  }
  for (size_t at = 0; done && at < queued; at++) {
    done = node_place(&places, texts, queue, at, &queued);
  }
  if (done && (done = places_grow(&places, places.last + 1))) {  // a step from any node stays inside
    trie->nodes = arena_copy(arena, places.nodes, sizeof *places.nodes * (size_t)(places.last + 1 + BYTES));
  }
  free(places.nodes);
  free(queue);
  return done;
}

size_t trie_longest(const Trie *trie, const uint8_t *text, size_t length, int32_t *value, bool *open) {
  size_t longest = 0, at = 0;
  *open = false;
  if (!trie->nodes) {
    return 0;
  }
  for (int32_t node = TRIE_ROOT; at < length;) {
    node = trie_step(trie, node, text[at++]);
    if (node == TRIE_NONE) {
      return longest;
    }
    if (trie->nodes[node].value != TRIE_NONE) {
      *value = trie->nodes[node].value;
      longest = at;
    }
  }
  *open = true;
  return longest;
}
