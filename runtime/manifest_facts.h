// manifest_facts.h: what a manifest says besides files and tensors, as JSON.
#ifndef MDL_RUNTIME_MANIFEST_FACTS_H
#define MDL_RUNTIME_MANIFEST_FACTS_H

#include <jansson.h>

#include "runtime/checkpoint.h"

// Adds the facts to a manifest but for its step. False: no memory.
bool manifest_facts_write(json_t *root, const CheckpointFacts *facts);

// What is wrong with what it says, for a message; NULL: nothing.
const char *manifest_facts_read(const json_t *root, CheckpointFacts *facts);

// A number from 0 on, and an unsigned one in a string. False: it is not there, or none.
bool manifest_number(const json_t *root, const char *key, int64_t *value);
bool manifest_word(const json_t *root, const char *key, int base, uint64_t *value);

#endif
