// libfuzzer.c: the target for libFuzzer, with mutations that know tokens and statements (mutate.h).
//
//   CC=clang cmake -S . -B build-fuzz -DMDL_SANITIZE=ON -DMDL_FUZZ=ON && cmake --build build-fuzz --target libfuzzer
//   build-fuzz/tests/libfuzzer -timeout=60 -rss_limit_mb=4096 NEW_INPUTS tests/programs tests/layouts
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t length, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_length, const uint8_t *two, size_t two_length,
                                 uint8_t *out, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t length, size_t most);

static char path[64];

static void forget(void) {
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
  if (!path[0]) {
    snprintf(path, sizeof path, "/tmp/mdl-fuzz-%d.mdl", (int)getpid());
    atexit(forget);
  }
  FILE *file = fopen(path, "w");
  if (!file || fwrite(data, 1, length, file) != length || fclose(file) != 0) {
    abort();
  }
  TargetReport report = {.seconds = 20};
  target_text(path, &report);
  if (report.wrong) {
    fprintf(stderr, "%s\n", report.said);
    abort();
  }
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t length, size_t most, unsigned seed) {
  if (seed % 16 == 0) {
    return LLVMFuzzerMutate(data, length, most);
  }
  char *text = malloc(most + 1);
  size_t made = text ? mutate(seed, (const char *)data, length, NULL, 0, text, most) : 0;
  memcpy(data, text ? text : "", made);
  free(text);
  return made;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_length, const uint8_t *two, size_t two_length,
                                 uint8_t *out, size_t most, unsigned seed) {
  return mutate(seed, (const char *)one, one_length, (const char *)two, two_length, (char *)out, most);
}
