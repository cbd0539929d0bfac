// convert_logits.c: prints the scores that a run gives for what follows each of some tokens; for tests/convert.
//
//   convert_logits RUN TOKEN...      a line for each token, its scores apart by blanks
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "runtime/feed.h"
#include "runtime/restore.h"

static int failed(const Error *error) {
  fprintf(stderr, "convert_logits: %s\n", error->text);
  return 1;
}

static bool put(Restored *r, const char *name, const int32_t *values, int64_t count, Error *error) {
  const PlanInput *input = session_input(r->plan, PROGRAM_GENERATE, name);
  return input && r->session.backend->write(r->session.device, input->place.arena, input->place.offset, values,
                                            count * (int64_t)sizeof *values, error);
}

int main(int argc, char **argv) {
  Error error = {0};
  Restored r = {0};
  int64_t rows, window;
  const RestoreOptions options = {.threads = 1, .program = PROGRAM_GENERATE};
  if (argc < 3 || !restore_open(&r, argv[1], &backend_cpu, &options, &error)) {
    return failed(&error);
  }
  const PlanOutput *logits = session_output(r.plan, PROGRAM_GENERATE, "logits");
  if (!logits || !feed_shape(r.set, PROGRAM_GENERATE, &rows, &window) || argc - 2 > window) {
    fprintf(stderr, "convert_logits: no logits, or more tokens than a window\n");
    return 1;
  }
  int32_t *tokens = calloc((size_t)window, sizeof *tokens);
  int vocab = logits->axis_count - 1;
  while (vocab > 0 && strcmp(logits->axis[vocab], "vocab") != 0) {
    vocab--;
  }
  const int64_t count = logits->size[vocab], apart = logits->stride[vocab] * element_type_bytes(logits->type);
  char *raw = calloc((size_t)count, (size_t)apart);
  for (int i = 0; i < argc - 2; i++) {
    tokens[i] = atoi(argv[i + 2]);
  }
  for (int32_t last = 0; last < argc - 2; last++) {
    if (!put(&r, "tokens", tokens, window, &error) || !put(&r, "last", &last, 1, &error) ||
        !session_run(&r.session, PROGRAM_GENERATE, 1, &error) ||
        !r.session.backend->read(r.session.device, logits->place.arena, logits->place.offset, raw,
                                 (count - 1) * apart + element_type_bytes(logits->type), &error)) {
      return failed(&error);
    }
    for (int64_t i = 0; i < count; i++) {
      printf("%.9g%c", element_get(logits->type, raw + i * apart), i + 1 < count ? ' ' : '\n');
    }
  }
  free(raw);
  free(tokens);
  restore_close(&r);
  return 0;
}
