// libfuzzer.c: the readers (readers.h) for libFuzzer; texts are changed by what knows tokens and statements (mutate.h).
//
//   CC=clang cmake -S . -B build-fuzz -DMDL_SANITIZE=ON -DMDL_FUZZ=ON && cmake --build build-fuzz --target libfuzzer
//   tests/fuzz/seeds.sh build-fuzz/seeds                                        what the readers begin with
//   build-fuzz/tests/libfuzzer READER [FLAGS OF LIBFUZZER] NEW build-fuzz/seeds/READER
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t length, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t length, size_t most);

static const FuzzReader *reader;
static long long tried, accepted;

static void say(void) {
  fprintf(stderr, "%s: %lld inputs, %lld of them accepted\n", reader->name, tried, accepted);
}

// Takes the name of the reader out of the arguments; a variable names it for the processes that libFuzzer starts.
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const char variable[] = "MDL_FUZZ_READER";
  if (*argc > 1 && fuzz_reader((*argv)[1])) {
    setenv(variable, (*argv)[1], 1);
    memmove(*argv + 1, *argv + 2, sizeof **argv * (size_t)(*argc - 1));
    --*argc;
  }
  const char *name = getenv(variable);
  reader = fuzz_reader(name ? name : "");
  if (!reader) {
    fprintf(stderr, "usage: libfuzzer READER [FLAG|DIR|FILE]...; a reader is one of");
    for (const FuzzReader *one = fuzz_readers; one->name; one++) {
      fprintf(stderr, " %s", one->name);
    }
    fprintf(stderr, "\n");
    exit(2);
  }
  atexit(say);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
  tried++;
  accepted += fuzz_read(reader, data, length);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t length, size_t most, unsigned seed) {
  if (!reader->text || seed % 8 == 0) {
    return LLVMFuzzerMutate(data, length, most);
  }
  char *text = malloc(most + 1);
  size_t made = text ? mutate(seed, (const char *)data, length, NULL, 0, text, most) : 0;
  memcpy(data, text ? text : "", made);
  free(text);
  return made;
}
