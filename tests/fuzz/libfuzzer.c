// libfuzzer.c: the readers (readers.h) for libFuzzer; texts are changed by what knows tokens and statements (mutate.h).
//
//   CC=clang cmake -S . -B build-fuzz -DMDL_SANITIZE=ON -DMDL_FUZZ=ON && cmake --build build-fuzz --target libfuzzer
//   tests/fuzz/seeds.sh build-fuzz/seeds                                        what the readers begin with
//   build-fuzz/tests/libfuzzer READER [FLAGS OF LIBFUZZER] NEW build-fuzz/seeds/READER
//
// MDL_FUZZ_COUNTS names a file in which several processes count together (soak_readers.sh): for each reader two numbers
// of 8 bytes, inputs and accepted inputs, right at every moment however a process ends. MDL_FUZZ_RUNS=N: a process
// ends when so many were counted there.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t length, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t length, size_t most);

typedef struct {
  _Atomic int64_t tried, accepted;
} Counts;

static const FuzzReader *reader;
static Counts own, *counts = &own;
static int64_t runs;  // 0: no end

static void say(void) {
  fprintf(stderr, "%s: %lld inputs, %lld of them accepted\n", reader->name, (long long)counts->tried,
          (long long)counts->accepted);
}

static void count_together(const char *path) {
  size_t size = 0;
  while (fuzz_readers[size].name) {
    size++;
  }
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool sized = fd >= 0 && ftruncate(fd, (off_t)(size * sizeof *counts)) == 0;
  Counts *all =
      sized ? mmap(NULL, size * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : (Counts *)MAP_FAILED;
  if (all == MAP_FAILED) {
    perror(path);
    exit(2);
  }
  close(fd);
  counts = &all[reader - fuzz_readers];
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
  if (getenv("MDL_FUZZ_COUNTS")) {
    count_together(getenv("MDL_FUZZ_COUNTS"));
  }
  runs = getenv("MDL_FUZZ_RUNS") ? strtoll(getenv("MDL_FUZZ_RUNS"), NULL, 10) : 0;
  atexit(say);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
  if (runs > 0 && counts->tried >= runs) {
    say();
    _exit(0);  // libFuzzer takes an `exit` for a failure
  }
  counts->tried++;
  counts->accepted += fuzz_read(reader, data, length);
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
