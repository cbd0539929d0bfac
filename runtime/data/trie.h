// trie.h: texts by their bytes, so that all those that begin at a place are found in one walk.
//
// A double array: where a step from a node to the next byte leads is one sum, and one comparison says whether it is
// there. A Trie is immutable.
#ifndef MDL_RUNTIME_DATA_TRIE_H
#define MDL_RUNTIME_DATA_TRIE_H

#include "base/arena.h"
#include "runtime/device.h"

enum { TRIE_ROOT = 0, TRIE_NONE = -1 };

typedef struct {
  int32_t base;    // the node of a byte behind this one is base + byte, if its parent is this one
  int32_t parent;  // TRIE_NONE: free
  int32_t value;   // TRIE_NONE: no text ends here
  float score;     // of that text
} TrieNode;

typedef struct {
  const TrieNode *nodes;  // NULL: it is empty
} Trie;

typedef struct {
  const uint8_t *bytes;
  int32_t length, value;  // at least 1 byte, and 0
  float score;
} TrieText;

// No text occurs twice. Sorts them. False: no memory.
bool trie_build(Arena *arena, TrieText *texts, size_t count, Trie *trie);

static inline int32_t trie_step(const Trie *trie, int32_t node, uint8_t byte) {
  const int32_t next = trie->nodes[node].base + byte;
  return trie->nodes[next].parent == node ? next : TRIE_NONE;
}

// The longest text of the trie that begins here: its bytes, 0 for none. *open: what follows might make it longer.
size_t trie_longest(const Trie *trie, const uint8_t *text, size_t length, int32_t *value, bool *open);

#endif
