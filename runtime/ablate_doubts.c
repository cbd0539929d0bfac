// ablate_doubts.c: what is said of texts and data that can be used and are probably not what was meant, by rows.
#include <string.h>

#include "base/plain.h"
#include "runtime/ablate.h"
#include "runtime/data/doubts.h"
#include "runtime/trial.h"

enum { ROWS_NAMED = 8 };

static bool row_says(const AblateRow *row, const char *note) {
  for (int i = 0; i < row->note_count; i++) {
    if (strcmp(row->notes[i], note) == 0) {
      return true;
    }
  }
  return false;
}

static void note_add(Arena *arena, AblateRow *row, const char *note) {
  if (row_says(row, note)) {
    return;
  }
  const char **longer = ARENA_ARRAY(arena, const char *, row->note_count + 1);
  if (row->note_count > 0) {
    memcpy(longer, row->notes, sizeof *longer * (size_t)row->note_count);
  }
  longer[row->note_count++] = note;
  row->notes = longer;
}

typedef struct {
  Arena *arena;
  AblateRow *row;
} Noting;

static void diagnostic_add(void *context, const Diag *diag, const Diagnostic *one) {
  const Noting *noting = context;
  char text[ERROR_MAX];
  trial_said(diag, one, text);
  note_add(noting->arena, noting->row, arena_format(noting->arena, "%s: %s", severity_name(one->severity), text));
}

void ablate_doubt_text(Ablate *ablate, AblateRow *row, const Diag *diag) {
  Noting noting = {ablate->arena, row};
  diag_each(diag, diagnostic_add, &noting);
}

bool ablate_doubt_data(Ablate *ablate, AblateRow *row, const Data *data, bool masks, Error *error) {
  Buffer lines = {0};
  const char *answers = doubts_answers(data, masks);
  const bool done = data_doubts(data, &lines, error);
  if (answers) {
    buffer_format(&lines, "%s\n", answers);
  }
  for (const char *at = lines.text; done && at && *at;) {
    const size_t length = strcspn(at, "\n");
    note_add(ablate->arena, row, arena_format(ablate->arena, "note: %.*s", (int)length, at));
    at += length + (at[length] == '\n');
  }
  buffer_free(&lines);
  return done;
}

// "row 2 (batch=8): ", "rows 2, 4: "; "" where all rows that compile have it.
static const char *rows_named(const Ablate *ablate, const char *note) {
  int have = 0, compiled = 0, first = 0;
  const char *rows = "";
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    compiled += row->ranks > 0;
    if (!row_says(row, note)) {
      continue;
    }
    first = have == 0 ? i : first;
    if (have <= ROWS_NAMED) {
      rows = have == ROWS_NAMED ? arena_format(ablate->arena, "%s, ...", rows)
                                : arena_format(ablate->arena, "%s%s%d", rows, have > 0 ? ", " : "", i + 1);
    }
    have++;
  }
  return have == compiled ? ""
         : have == 1      ? arena_format(ablate->arena, "row %s (%s): ", rows, ablate->rows[first].name)
                          : arena_format(ablate->arena, "rows %s: ", rows);
}

void ablate_doubts(const Ablate *ablate) {
  FILE *out = ablate->options->notes;
  for (int i = 0; out && i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    for (int n = 0; n < row->note_count; n++) {
      const char *note = row->notes[n];
      const size_t what = strcspn(note, ":") + 2;  // "warning: "
      bool said = false;
      for (int before = 0; before < i && !said; before++) {
        said = row_says(&ablate->rows[before], note);
      }
      if (!said) {
        plain_put(out,
                  arena_format(ablate->arena, "%.*s%s%s\n", (int)what, note, rows_named(ablate, note), note + what));
      }
    }
  }
}
