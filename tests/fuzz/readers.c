// readers.c: the list of readers.
#include "tests/fuzz/readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/memory_files.h"

const FuzzReader fuzz_readers[] = {{"text", read_text, true},
                                   {"model", read_model, true},
                                   {"graph", read_graph, true},
                                   {"plan", read_plan, false},
                                   {"safetensors", read_safetensors, false},
                                   {"manifest", read_manifest, false},
                                   {"metrics", read_metrics, false},
                                   {"tuning", read_tuning, false},
                                   {"tokens", read_tokens, false},
                                   {"index", read_index, false},
                                   {"tokenizer", read_tokenizer, false},
                                   {"chat", read_chat, false},
                                   {"lines", read_lines, false},
                                   {"packed", read_packed, false},
                                   {"mix", read_mix, false},
                                   {"mapping", read_mapping, false},
                                   {"config", read_config, false},
                                   {"shards", read_shards, false},
                                   {"frames", read_frames, false},
                                   {NULL, NULL, false}};

const FuzzReader *fuzz_reader(const char *name) {
  for (const FuzzReader *reader = fuzz_readers; reader->name; reader++) {
    if (strcmp(reader->name, name) == 0) {
      return reader;
    }
  }
  return NULL;
}

bool fuzz_read(const FuzzReader *reader, const uint8_t *bytes, size_t length) {
  static const FuzzReader *last;
  static int kept;  // what this reader opens once: it is open after its first input too
  memory_files_alone(true);
  const bool good = reader->read(bytes, length);
  memory_files_alone(false);
  const int open = memory_files_open();
  if (reader == last && open > kept) {
    fprintf(stderr, "%s: a file stays open\n", reader->name);
    abort();
  }
  last = reader;
  kept = open;
  return good;
}
