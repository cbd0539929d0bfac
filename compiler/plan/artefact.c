// artefact.c: the file around the plans: magic, version, length, hash.
#include "compiler/plan/artefact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "compiler/plan/format.h"
#include "compiler/plan/verify.h"

static const char magic[8] = {'M', 'D', 'L', 'X', '\r', '\n', '\x1a', '\n'};
enum { HEADER_BYTES = 32 };

bool artefact_write(Arena *arena, const PlanSet *set, const char *path, const char **why) {
  Buffer file = {0};
  char header[HEADER_BYTES] = {0};
  PlanSet copy = *set;
  buffer_bytes(&file, header, sizeof header);
  code_plan_set(&(Codec){.arena = arena, .out = &file}, &copy);
  if (file.failed) {
    buffer_free(&file);
    *why = arena_format(arena, "no memory to write %s", path);
    return false;
  }
  uint32_t version = PLAN_VERSION, zero = 0;
  uint64_t bytes = file.length - HEADER_BYTES, hash = XXH3_64bits(file.text + HEADER_BYTES, (size_t)bytes);
  Buffer head = {0};
  Codec codec = {.out = &head};
  buffer_bytes(&head, magic, sizeof magic);
  code_u32(&codec, &version);
  code_u32(&codec, &zero);
  code_u64(&codec, &bytes);
  code_u64(&codec, &hash);
  bool done = !head.failed;
  FileError error = {"no memory"};
  if (done) {
    memcpy(file.text, head.text, HEADER_BYTES);
    done = file_write_atomic(path, file.text, file.length, &error);
  }
  if (!done) {
    *why = arena_format(arena, "%s", error.text);
  }
  buffer_free(&head);
  buffer_free(&file);
  return done;
}

static PlanSet *payload_read(Arena *arena, const uint8_t *bytes, size_t length, const char *path, const char **why) {
  Codec codec = {.arena = arena, .in = bytes + sizeof magic, .left = length - sizeof magic};
  uint32_t version = 0, zero = 0;
  uint64_t size = 0, hash = 0;
  code_u32(&codec, &version);
  code_u32(&codec, &zero);
  code_u64(&codec, &size);
  code_u64(&codec, &hash);
  if (version != PLAN_VERSION) {
    *why = arena_format(arena, "%s is a plan of format %u; this program reads %d: compile it again", path,
                        (unsigned)version, PLAN_VERSION);
    return NULL;
  }
  if (zero != 0 || size != codec.left) {
    *why = arena_format(arena, "%s is cut short or damaged: %zu bytes of plan, %llu expected", path, codec.left,
                        (unsigned long long)size);
    return NULL;
  }
  if (XXH3_64bits(codec.in, codec.left) != hash) {
    *why = arena_format(arena, "%s is damaged: its hash does not fit its bytes", path);
    return NULL;
  }
  PlanSet *set = ARENA_NEW(arena, PlanSet);
  code_plan_set(&codec, set);
  if (codec.bad || codec.left != 0) {
    *why = arena_format(arena, "%s is damaged: its bytes do not form a plan", path);
    return NULL;
  }
  const char *broken = plan_set_verify(arena, set);
  if (broken) {
    *why = arena_format(arena, "%s is damaged: %s", path, broken);
    return NULL;
  }
  return set;
}

// The plan in bytes, with running out of memory as an error like any other.
static PlanSet *bytes_read(Arena *arena, const char *bytes, size_t length, const char *path, const char **why) {
  jmp_buf escape;
  arena_set_escape(arena, &escape);
  PlanSet *set = NULL;
  if (setjmp(escape) != 0) {
    arena_set_escape(arena, NULL);
    *why = "no memory to read the plan";
    return NULL;
  }
  if (length < HEADER_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
    *why = arena_format(arena, "%s is no plan: a .mdlx file begins otherwise", path);
  } else {
    set = payload_read(arena, (const uint8_t *)bytes, length, path, why);
  }
  arena_set_escape(arena, NULL);
  return set;
}

PlanSet *artefact_read(Arena *arena, const char *path, const char **why) {
  size_t length = 0;
  FileError error;
  char *bytes = file_read(path, &length, &error);
  if (!bytes) {
    *why = arena_format(arena, "%s", error.text);
    return NULL;
  }
  PlanSet *set = bytes_read(arena, bytes, length, path, why);
  free(bytes);
  return set;
}

bool artefact_is(const char *path) {
  char bytes[sizeof magic];
  FILE *file = fopen(path, "rbe");
  if (!file) {
    return false;
  }
  bool is = fread(bytes, 1, sizeof bytes, file) == sizeof bytes && memcmp(bytes, magic, sizeof magic) == 0;
  fclose(file);
  return is;
}
