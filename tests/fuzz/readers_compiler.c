// readers_compiler.c: readers of the compiler: texts, graphs and plans; and the frames of the language server.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/ir/graph_text.h"
#include "compiler/ir/verify.h"
#include "compiler/pass/compilation.h"
#include "compiler/plan/artefact.h"
#include "compiler/plan/sealed.h"
#include "lang/elaborate.h"
#include "lsp/frame.h"
#include "tests/fuzz/library_once.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/scratch.h"

// Far more than inputs of a few kilobytes need; some that repeat themselves would go on for seconds.
static const size_t memory_most = (size_t)32 << 20, plan_memory_most = (size_t)512 << 20;

static void wrong(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

// What is reported can be shown, and none of it is a mistake of the compiler.
static void diagnostics_shown(const Diag *diag) {
  char *text = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&text, &length);
  if (!to) {
    abort();
  }
  diag_print(diag, to, true);
  diag_print_json(diag, to);
  fclose(to);
  if (diag_bug(diag)) {
    wrong(text);
  }
  free(text);
}

// --- texts ---

static const char *formatted(Arena *arena, Diag *diag, const char *text, size_t length) {
  CommentList comments = {0};
  const int file = diag_add_source(diag, "input.mdl", text, length);
  const Ast *tree = parse_file(arena, names_create(arena), diag, file, &comments);
  return diag->errors == 0 ? format_file(arena, diag, tree, &comments) : NULL;
}

// What is formatted can be read, and stays as it is when it is formatted again.
static bool format_twice(Arena *arena, const char *text, size_t length) {
  Diag *diag = diag_create(arena);
  const char *once = formatted(arena, diag, text, length);
  const char *twice = once ? formatted(arena, diag, once, strlen(once)) : NULL;
  if (once && (!twice || strcmp(once, twice) != 0)) {
    fprintf(stderr, "--- once\n%s--- twice\n%s", once, twice ? twice : "it cannot be read\n");
    wrong("fmt does not keep what it made");
  }
  diagnostics_shown(diag);
  return once != NULL;
}

static bool elaborate_text(Arena *arena, const char *text, size_t length) {
  static const char path[] = "input.mdl";  // of no file, so that the open text is read
  Diag *diag = diag_create(arena);
  const OpenText open = {path, text, length};
  const CompileOptions options = {.file = path, .open = &open, .open_count = 1};
  Unit unit = {.arena = arena, .names = names_create(arena), .diag = diag, .open = &open, .open_count = 1};
  Spec spec = {0};
  library_once(unit.names);
  bool good = unit_load(&unit, path) && settings_read(arena, &unit, &options, &spec);
  for (int program = PROGRAM_INITIALISE; good && program <= PROGRAM_TRAIN; program++) {
    const Elaborator *e = elaborate_model(arena, unit.names, diag, &unit, &spec, (ProgramKind)program);
    good = e && graph_assign_last(e->graph) < 0 && graph_verify(e->graph, diag, "elaborate");
  }
  diagnostics_shown(diag);
  return good;
}

static bool in_arena(bool (*work)(Arena *arena, const char *text, size_t length), const uint8_t *bytes, size_t length) {
  char *text = scratch_text(bytes, length);
  Arena *arena = arena_create();
  jmp_buf escape;
  volatile bool good = false;
  arena_set_limit(arena, memory_most);
  arena_set_escape(arena, &escape);
  if (setjmp(escape) == 0) {
    good = work(arena, text, length);
  }
  library_once(NULL);
  arena_destroy(arena);
  free(text);
  return good;
}

bool read_text(const uint8_t *bytes, size_t length) {
  return in_arena(format_twice, bytes, length);
}

bool read_model(const uint8_t *bytes, size_t length) {
  return in_arena(elaborate_text, bytes, length);
}

// --- graphs ---

static char *graph_text(const Graph *graph) {
  Buffer out = {0};
  graph_print(graph, &out);
  if (out.failed) {
    abort();
  }
  return out.text;
}

bool read_graph(const uint8_t *bytes, size_t length) {
  char *text = scratch_text(bytes, length);
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  Names *names = names_create(arena);
  Graph *graph = graph_parse(arena, names, diag, diag_add_source(diag, "input.graph", text, length));
  const bool good = graph && graph_verify(graph, diag_create(arena), "parse");
  if (good) {
    char *once = graph_text(graph);
    Graph *again = graph_parse(arena, names, diag, diag_add_source(diag, "again.graph", once, strlen(once)));
    char *twice = again ? graph_text(again) : NULL;
    if (!twice || strcmp(once, twice) != 0) {
      fprintf(stderr, "--- once\n%s--- twice\n%s", once, twice ? twice : "it cannot be read\n");
      diag_print(diag, stderr, false);
      wrong("a graph is another when it was printed");
    }
    free(once);
    free(twice);
  } else if (!graph && diag->errors == 0) {
    wrong("refused without words");
  }
  diagnostics_shown(diag);
  arena_destroy(arena);
  free(text);
  return good;
}

// --- plans ---

// Where the head of sealed bytes has the length of the payload and its hash.
static void seal_right(uint8_t *plan, size_t length) {
  enum { LENGTH_AT = 16, HASH_AT = 24 };
  const uint64_t payload = length - SEAL_BYTES, hash = XXH3_64bits(plan + SEAL_BYTES, (size_t)payload);
  memcpy(plan + LENGTH_AT, &payload, sizeof payload);
  memcpy(plan + HASH_AT, &hash, sizeof hash);
}

static bool plan_once(const uint8_t *plan, size_t length) {
  const char *why = NULL;
  Arena *arena = arena_create();
  arena_set_limit(arena, plan_memory_most);
  const PlanSet *set = artefact_read_bytes(arena, plan, length, "it", &why);
  if (set) {
    Buffer again = {0};
    const char *broken = NULL;
    if (!artefact_write_bytes(arena, set, &again) ||
        !artefact_read_bytes(arena, again.text, again.length, "it", &broken)) {
      wrong(broken ? broken : "a plan that was read cannot be written");
    }
    buffer_free(&again);
  } else if (!why || !*why) {
    wrong("refused without words");
  }
  const char *alone = NULL;
  const Plan *stage = artefact_read_stage(arena, plan, length, "it", &alone);
  if (!stage && !alone) {
    wrong("refused without words");
  }
  arena_destroy(arena);
  return set != NULL;
}

bool read_plan(const uint8_t *bytes, size_t length) {
  uint8_t *plan = (uint8_t *)scratch_text(bytes, length);
  if (length >= SEAL_BYTES) {
    seal_right(plan, length);
  }
  const bool good = plan_once(plan, length);
  free(plan);
  return good;
}

// --- frames ---

// In pieces of a size that the first byte says, and as a whole: the same messages.
static uint64_t frames_hash(const uint8_t *bytes, size_t length, size_t piece, bool *any) {
  FrameReader reader = {0};
  uint64_t hash = 0;
  for (size_t at = 0; at < length; at += piece) {
    const char *body, *why = NULL;
    size_t body_length;
    FrameResult result;
    frame_add(&reader, (const char *)bytes + at, length - at < piece ? length - at : piece);
    while ((result = frame_next(&reader, &body, &body_length, &why)) != FRAME_WAIT) {
      if (result == FRAME_BAD && !why) {
        wrong("refused without words");
      }
      *any |= result == FRAME_MESSAGE;
      hash = result == FRAME_MESSAGE ? XXH3_64bits_withSeed(body, body_length, hash) : hash * 3 + 1;
    }
  }
  frame_free(&reader);
  return hash;
}

bool read_frames(const uint8_t *bytes, size_t length) {
  bool any = false;
  if (length < 2) {
    return false;
  }
  const size_t piece = (size_t)bytes[0] % 64 + 1;
  const uint64_t whole = frames_hash(bytes + 1, length - 1, length, &any);
  const uint64_t pieces = frames_hash(bytes + 1, length - 1, piece, &any);
  if (whole != pieces && length < FRAME_HEADER_MOST) {  // a longer header is refused before its end has come
    wrong("messages in pieces are others");
  }
  return any;
}
