// readers.h: everything that reads bytes from outside, each as a function of bytes: for libFuzzer (libfuzzer.c) and for
// bursts without it (burst.c).
//
// A reader ends in a result or in words. What is no such end aborts: so does one that is no end for a sanitizer, or for
// the alarm of who calls. Nothing stays from one call to the next but files that the next one replaces.
#ifndef MDL_TESTS_FUZZ_READERS_H
#define MDL_TESTS_FUZZ_READERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name;                                   // also of the directory with its seeds (seeds.sh)
  bool (*read)(const uint8_t *bytes, size_t length);  // whether the bytes were accepted
  bool text;                                          // mutate.h knows its tokens
} FuzzReader;

extern const FuzzReader fuzz_readers[];  // the last has no name

const FuzzReader *fuzz_reader(const char *name);  // NULL: there is none

// What every input goes through: aborts too if a file stays open. The working directory seems to be empty.
bool fuzz_read(const FuzzReader *reader, const uint8_t *bytes, size_t length);

// readers_*.c
bool read_text(const uint8_t *bytes, size_t length);         // .mdl: syntax and format
bool read_model(const uint8_t *bytes, size_t length);        // .mdl: settings and elaboration
bool read_graph(const uint8_t *bytes, size_t length);        // the text of a graph
bool read_plan(const uint8_t *bytes, size_t length);         // .mdlx, with its length and hash put right
bool read_safetensors(const uint8_t *bytes, size_t length);  // .safetensors
bool read_manifest(const uint8_t *bytes, size_t length);     // manifest.json, with its hash put right; beside it files
bool read_metrics(const uint8_t *bytes, size_t length);      // metrics.jsonl of a run that goes on
bool read_tuning(const uint8_t *bytes, size_t length);       // a tuning record, with the checks of its lines put right
bool read_tokens(const uint8_t *bytes, size_t length);       // files of tokens, raw and of llm.c
bool read_index(const uint8_t *bytes, size_t length);        // .idx of Megatron
bool read_tokenizer(const uint8_t *bytes, size_t length);    // tokenizer.json and rank files
bool read_chat(const uint8_t *bytes, size_t length);     // options of a source in the first line, then conversations
bool read_lines(const uint8_t *bytes, size_t length);    // JSON lines with a field of text
bool read_packed(const uint8_t *bytes, size_t length);   // what gzip, zstd and xz packed
bool read_mix(const uint8_t *bytes, size_t length);      // the table of sources that a plan has
bool read_mapping(const uint8_t *bytes, size_t length);  // .hf, and what it makes of a config.json and parameters
bool read_config(const uint8_t *bytes, size_t length);   // config.json of a directory of Hugging Face
bool read_shards(const uint8_t *bytes, size_t length);   // its index of shards
bool read_frames(const uint8_t *bytes, size_t length);   // what an editor sends

#endif
