// scan.h: loops that do what the best known patterns of tokenizers say, as long as text is ASCII.
//
// They are several times as fast as the pattern. Where they meet another byte, or the end of what there is, they give
// up, and the pattern decides.
#ifndef MDL_RUNTIME_DATA_SCAN_H
#define MDL_RUNTIME_DATA_SCAN_H

#include <stddef.h>
#include <stdint.h>

// The end of the piece that begins at `at`; 0: not known.
typedef size_t Scan(const uint8_t *text, size_t length, size_t at);

// Patterns of GPT-2, of Llama 3 and cl100k (numbers of three digits), and of Qwen (of one).
extern const char scan_gpt2_pattern[], scan_llama3_pattern[], scan_cl100k_pattern[], scan_qwen_pattern[];

const char *scan_pattern(const char *name);         // of "gpt2", "llama3", "cl100k", "qwen"; NULL: no such name
Scan *scan_of(const char *pattern, size_t length);  // NULL: none

#endif
