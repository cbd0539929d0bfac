// ablate_report.c: the rows as a table for people and as lines of JSON for programs.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "runtime/ablate.h"

enum { COLUMNS_MAX = CHOICES_MAX + 16 };

typedef struct {
  const Ablate *ablate;
  int columns, choice_columns;  // after the number of the row come the choices
  const char *title[COLUMNS_MAX];
  const char **cell;  // [row * COLUMNS_MAX + column]
  int width[COLUMNS_MAX];
} Table;

// Columns on a screen: characters of UTF-8.
static int columns_of(const char *text) {
  int count = 0;
  for (; *text; text++) {
    count += ((unsigned char)*text & 0xc0) != 0x80;
  }
  return count;
}

static const char *loss_text(Arena *arena, const AblateRow *row, int64_t step) {
  return step <= row->steps ? arena_format(arena, "%.6f", row->loss[step - 1]) : "-";
}

static const char *difference_text(Arena *arena, const AblateRow *row, double difference) {
  return row->against < 0    ? "-"
         : difference == 0   ? "0"
         : isinf(difference) ? "not finite"
                             : arena_format(arena, "%.1e", difference);
}

static const char *sign_text(const AblateRow *row) {
  static const char *const signs[] = {"", "=", "\xe2\x9c\x97", "~"};
  return signs[row->verdict];
}

static void table_add(Table *table, const char *title) {
  table->title[table->columns++] = title;
}

static int64_t middle_step(const Ablate *ablate) {
  return ablate->options->steps > 10 ? 10 : 0;
}

static void table_titles(Table *table) {
  const Ablate *ablate = table->ablate;
  table_add(table, "");
  for (int i = 0; i < ablate->choices.count; i++) {
    table_add(table, ablate->choices.at[i].name);
  }
  table->choice_columns = table->columns;
  table_add(table, "ranks");
  table_add(table, "loss 1");
  if (middle_step(ablate)) {
    table_add(table, "loss 10");
  }
  if (ablate->options->steps > 1) {
    table_add(table, arena_format(ablate->arena, "loss %lld", (long long)ablate->options->steps));
  }
  static const char *const rest[] = {"last diff", "most diff", "to", "", "sent/step", "memory", "bubble", "s/step"};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
    table_add(table, rest[i]);
  }
}

static const char *bytes_text(Arena *arena, double bytes) {
  char text[UNITS_MAX];
  return bytes == 0 ? "0" : arena_format(arena, "%s", units_bytes(text, bytes));
}

static void table_row(Table *table, int at) {
  const Ablate *ablate = table->ablate;
  const AblateRow *row = &ablate->rows[at];
  Arena *arena = ablate->arena;
  const char **cell = &table->cell[at * COLUMNS_MAX];
  int column = 0;
  cell[column++] = arena_format(arena, "%d", at + 1);
  for (int i = 0; i < ablate->choices.count; i++) {
    cell[column++] = ablate->choices.at[i].value[row->pick[i]];
  }
  if (row->ranks == 0) {
    return;  // it does not compile, or was not reached
  }
  cell[column++] = arena_format(arena, "%lld", (long long)row->ranks);
  cell[column++] = loss_text(arena, row, 1);
  if (middle_step(ablate)) {
    cell[column++] = loss_text(arena, row, 10);
  }
  if (ablate->options->steps > 1) {
    cell[column++] = loss_text(arena, row, ablate->options->steps);
  }
  cell[column++] = difference_text(arena, row, row->last);
  cell[column++] = difference_text(arena, row, row->most);
  cell[column++] = row->against < 0 ? "-" : arena_format(arena, "%d", row->against + 1);
  cell[column++] = sign_text(row);
  cell[column++] = bytes_text(arena, row->wire);
  cell[column++] = bytes_text(arena, row->memory);
  cell[column++] = isnan(row->bubble) ? "-" : arena_format(arena, "%.1f%%", 100 * row->bubble);
  cell[column++] = row->steps == 0 ? "-" : arena_format(arena, "%.3g", row->seconds);
}

static void cell_put(const Table *table, int column, const char *text, Buffer *out) {
  const int blanks = table->width[column] - columns_of(text);
  const bool words = column > 0 && column < table->choice_columns;
  if (column > 0) {
    buffer_text(out, "  ");
  }
  buffer_repeat(out, ' ', words ? 0 : blanks);
  buffer_text(out, text);
  buffer_repeat(out, ' ', words ? blanks : 0);
}

static void row_put(const Table *table, int at, Buffer *out) {
  const AblateRow *row = &table->ablate->rows[at];
  const char *const *cell = &table->cell[at * COLUMNS_MAX];
  const bool bad = row->verdict == VERDICT_DIFFERS || row->state == ROW_FAILED;
  buffer_text(out, bad ? LOG_RED : "");
  for (int i = 0; i < table->columns && cell[i]; i++) {
    cell_put(table, i, cell[i], out);
  }
  if (row->state == ROW_FAILED) {
    buffer_format(out, "  %s", row->problem);
  } else if (row->state == ROW_WAITS) {
    buffer_text(out, "  not run");
  } else if (row->state == ROW_STOPPED) {
    buffer_format(out, "  stopped after step %lld", (long long)row->steps);
  }
  buffer_text(out, bad ? LOG_PLAIN "\n" : "\n");
}

void ablate_table(const Ablate *ablate, Buffer *out) {
  Table table = {.ablate = ablate};
  table.cell = ARENA_ARRAY(ablate->arena, const char *, (int64_t)ablate->count *COLUMNS_MAX);
  table_titles(&table);
  for (int i = 0; i < ablate->count; i++) {
    table_row(&table, i);
  }
  for (int column = 0; column < table.columns; column++) {
    table.width[column] = columns_of(table.title[column]);
    for (int i = 0; i < ablate->count; i++) {
      const char *cell = table.cell[i * COLUMNS_MAX + column];
      const int width = cell ? columns_of(cell) : 0;
      table.width[column] = width > table.width[column] ? width : table.width[column];
    }
  }
  buffer_text(out, LOG_FAINT);
  for (int column = 0; column < table.columns; column++) {
    cell_put(&table, column, table.title[column], out);
  }
  buffer_text(out, LOG_PLAIN "\n");
  for (int i = 0; i < ablate->count; i++) {
    row_put(&table, i, out);
  }
}

static void row_verdict(const Ablate *ablate, int at, Buffer *out) {
  const AblateRow *row = &ablate->rows[at], *base = row->against < 0 ? NULL : &ablate->rows[row->against];
  if (row->verdict != VERDICT_DIFFERS) {
    return;
  }
  const int64_t step = row->most_step;
  buffer_format(out,
                LOG_RED
                "\xe2\x9c\x97 row %d (%s) is not what row %d (%s) computes: step %lld has loss %.9g, not "
                "%.9g; %.1e apart where %.0e is allowed" LOG_PLAIN "\n",
                at + 1, row->name, row->against + 1, base->name, (long long)step, row->loss[step - 1],
                base->loss[step - 1], fabs(row->loss[step - 1] / base->loss[step - 1] - 1),
                step == 1 ? row->first_tolerance : row->tolerance);
}

void ablate_verdicts(const Ablate *ablate, Buffer *out) {
  bool judged = false, shown = false, differs = false;
  double first = 0, most = 0;
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    judged |= row->verdict == VERDICT_SAME || row->verdict == VERDICT_DIFFERS;
    shown |= row->verdict == VERDICT_SHOWN;
    differs |= row->verdict == VERDICT_DIFFERS;
    if (row->verdict == VERDICT_SAME || row->verdict == VERDICT_DIFFERS) {
      first = fmax(first, row->first_tolerance);
      most = fmax(most, row->tolerance);
    }
  }
  if (judged) {
    buffer_format(out,
                  LOG_FAINT
                  "diff: of the loss, relative to the row named under `to`; = within %.0e at step 1 and %.0e "
                  "later" LOG_PLAIN "\n",
                  first, most);
  }
  if (shown) {
    buffer_text(out, LOG_FAINT "~ another computation: the difference is shown and not judged" LOG_PLAIN "\n");
  }
  for (int i = 0; differs && i < ablate->count; i++) {
    row_verdict(ablate, i, out);
  }
  if (differs) {
    buffer_text(
        out, LOG_FAINT
        "`mdl diff` names the first value that differs; what grows from rounding alone is gone with --precision "
        "fp64" LOG_PLAIN "\n");
  }
}

// --- JSON ---

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const Ablate *ablate, int at) {
  static const char *const states[] = {"not run", "done", "stopped", "failed"};
  static const char *const verdicts[] = {"none", "same", "differs", "not judged"};
  const AblateRow *row = &ablate->rows[at];
  const bool compared = row->against >= 0;
  json_t *combination = json_object(), *losses = json_array();
  for (int i = 0; i < ablate->choices.count; i++) {
    const Choice *choice = &ablate->choices.at[i];
    json_object_set_new(combination, choice->name, json_string(choice->value[row->pick[i]]));
  }
  for (int64_t i = 0; i < row->steps; i++) {
    json_array_append_new(losses, number(row->loss[i]));
  }
  json_t *line = json_pack("{s:i, s:o, s:s, s:o, s:I}", "row", at + 1, "combination", combination, "state",
                           states[row->state], "loss", losses, "ranks", (json_int_t)row->ranks);
  if (!line) {
    return NULL;
  }
  json_object_set_new(line, "problem", row->problem ? json_string(row->problem) : json_null());
  json_object_set_new(line, "against", compared ? json_integer(row->against + 1) : json_null());
  json_object_set_new(line, "verdict", json_string(verdicts[row->verdict]));
  json_object_set_new(line, "last_difference", compared ? number(row->last) : json_null());
  json_object_set_new(line, "most_difference", compared ? number(row->most) : json_null());
  json_object_set_new(line, "tolerance_first", compared ? number(row->first_tolerance) : json_null());
  json_object_set_new(line, "tolerance", compared ? number(row->tolerance) : json_null());
  json_object_set_new(line, "stages", json_integer(row->stages));
  json_object_set_new(line, "microbatches", json_integer(row->microbatches));
  json_object_set_new(line, "real", row->ranks ? json_string(element_type_name(row->real)) : json_null());
  json_object_set_new(line, "sent_bytes", number(row->wire));
  json_object_set_new(line, "memory_bytes", number(row->memory));
  json_object_set_new(line, "bubble", number(row->bubble));
  json_object_set_new(line, "step_seconds", row->steps ? number(row->seconds) : json_null());
  json_object_set_new(line, "compile_seconds", number(row->compile_seconds));
  return line;
}

bool ablate_records(const Ablate *ablate, Buffer *out) {
  for (int i = 0; i < ablate->count; i++) {
    json_t *line = row_json(ablate, i);
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (text) {
      buffer_format(out, "%s\n", text);
    }
    free(text);
    json_decref(line);
    if (!text) {
      return false;
    }
  }
  return !out->failed;
}
