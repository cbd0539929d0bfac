// burst.c: the readers (readers.h) on seeds changed at random, each for its part of some seconds, without libFuzzer.
//
//   fuzz_readers [--seconds N | --count N] [--seed N] DIR [READER...]    DIR: of seeds.sh; N seconds for all readers,
//   or
//                                                                        N inputs for each. What a reader is at lies in
//                                                                        fuzz_readers.input, if it does not end
//   fuzz_readers --replay READER FILE...                     runs these inputs
//
// Meant for a build with MDL_SANITIZE. Exit status 1: a reader accepted nothing; a signal: something was found.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"
#include "tests/splitmix.h"

enum { SEEDS_MOST = 400, INPUT_MOST = 1 << 18, LIMIT_SECONDS = 60, FIRST = 20 };
static const char input_path[] = "fuzz_readers.input";

typedef struct {
  char *bytes;
  size_t length;
} Seed;

static Seed seeds[SEEDS_MOST];
static int seed_count;
static uint64_t state;

static uint64_t draw(uint64_t below) {
  return splitmix64(&state) % below;
}

static void change(char *bytes, size_t *length) {
  static const char *const words[] = {
      "null", "\"Removed\"", "-1",        "4194303",   "\"\"",          "[]",      "{}", "99999999999",
      "true", "(?i:",        "\\\\p{L}+", "\"Split\"", "\"ByteLevel\"", "\\u0000", "\t", "1e999"};
  const size_t at = draw(*length + 1), left = *length - at, size = draw(1 + (left < 40 ? left : 40));
  const char *word = words[draw(sizeof words / sizeof *words)];
  switch (draw(5)) {
    case 0:
      if (left > 0) {
        bytes[at] = (char)draw(256);
      }
      break;
    case 1:  // without some of it
      memmove(bytes + at, bytes + at + size, left - size);
      *length -= size;
      break;
    case 2:  // some of it twice
      if (*length + size < INPUT_MOST) {
        memmove(bytes + at + size, bytes + at, left);
        *length += size;
      }
      break;
    case 3:  // a word in its place
      if (left > strlen(word)) {
        memcpy(bytes + at, word, strlen(word));
      }
      break;
    default:
      *length = draw(20) == 0 ? at : *length;
  }
}

static void seeds_read(const char *directory, const char *name) {
  char path[4096];
  FileError error;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  DIR *open = opendir(path);
  for (const struct dirent *entry; open && (entry = readdir(open));) {
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s/%s", directory, name, entry->d_name);
    char *bytes = entry->d_name[0] == '.' ? NULL : file_read(path, &length, &error);
    if (bytes && seed_count < SEEDS_MOST && length < INPUT_MOST / 2) {
      seeds[seed_count++] = (Seed){bytes, length};
    } else {
      free(bytes);
    }
  }
  if (open) {
    closedir(open);
  }
}

static void seeds_free(void) {
  for (int i = 0; i < seed_count; i++) {
    free(seeds[i].bytes);
  }
  seed_count = 0;
}

static void input_keep(int file, const char *bytes, size_t length) {
  if (pwrite(file, bytes, length, 0) != (ssize_t)length || ftruncate(file, (off_t)length) != 0) {
    perror(input_path);
    abort();
  }
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// True if the reader accepted something: else its seeds are none.
static bool burst(const FuzzReader *reader, const char *directory, double seconds, long count) {
  static char bytes[INPUT_MOST];
  long tried = 0, accepted = 0;
  seeds_read(directory, reader->name);
  const int file = open(input_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const double end = seconds_now() + seconds;
  for (; seed_count > 0 && (count > 0 ? tried < count : tried < FIRST || seconds_now() < end); tried++) {
    const bool whole = tried < FIRST && tried < seed_count;  // some seeds as they are: of these some are accepted
    const Seed *seed = &seeds[whole ? (uint64_t)tried : draw((uint64_t)seed_count)];
    size_t length = seed->length;
    if (!whole && reader->text && draw(4) > 0) {
      length = mutate(draw(UINT64_MAX), seed->bytes, seed->length, NULL, 0, bytes, sizeof bytes);
    } else {
      memcpy(bytes, seed->bytes, length);
      for (uint64_t changes = whole ? 0 : draw(6); changes > 0; changes--) {
        change(bytes, &length);
      }
    }
    input_keep(file, bytes, length);
    alarm(LIMIT_SECONDS);
    accepted += fuzz_read(reader, (const uint8_t *)bytes, length);
    alarm(0);
  }
  close(file);
  printf("%s: %ld inputs of %d seeds, %ld of them accepted\n", reader->name, tried, seed_count, accepted);
  fflush(stdout);
  seeds_free();
  return accepted > 0;
}

static int replay(const FuzzReader *reader, int count, char **paths) {
  for (int i = 0; i < count; i++) {
    FileError error;
    size_t length = 0;
    char *bytes = file_read(paths[i], &length, &error);
    if (!bytes) {
      fprintf(stderr, "fuzz_readers: %s\n", error.text);
      return 2;
    }
    printf("%s: %s\n", paths[i], fuzz_read(reader, (const uint8_t *)bytes, length) ? "accepted" : "refused");
    free(bytes);
  }
  return 0;
}

static bool named(const char *name, int count, char **names) {
  bool any = count == 0;
  for (int i = 0; i < count; i++) {
    any |= strcmp(names[i], name) == 0;
  }
  return any;
}

int main(int argc, char **argv) {
  double seconds = 10;
  long count = 0;
  int at = 1, failed = 0, wanted = 0;
  if (argc > 3 && strcmp(argv[1], "--replay") == 0 && fuzz_reader(argv[2])) {
    return replay(fuzz_reader(argv[2]), argc - 3, argv + 3);
  }
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    if (strcmp(argv[at], "--seconds") == 0) {
      seconds = strtod(argv[at + 1], NULL);
    } else if (strcmp(argv[at], "--count") == 0) {
      count = strtol(argv[at + 1], NULL, 10);
    } else if (strcmp(argv[at], "--seed") == 0) {
      state = strtoull(argv[at + 1], NULL, 10);
    }
  }
  for (const FuzzReader *reader = fuzz_readers; reader->name; reader++) {
    wanted += named(reader->name, argc - at - 1, argv + at + 1);
  }
  if (at >= argc || wanted == 0) {
    fprintf(stderr,
            "usage: fuzz_readers [--seconds N | --count N] [--seed N] DIR [READER...] | --replay READER FILE...\n");
    return 2;
  }
  for (const FuzzReader *reader = fuzz_readers; reader->name; reader++) {
    if (named(reader->name, argc - at - 1, argv + at + 1)) {
      failed += !burst(reader, argv[at], seconds / wanted, count);
    }
  }
  remove(input_path);
  return failed > 0;
}
