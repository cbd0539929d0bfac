// ablate_report.c: the rows as a table for people and as lines of JSON for programs.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_guard.h"
#include "base/units.h"
#include "runtime/ablate.h"

enum { COLUMNS_MAX = CHOICES_MAX + 24 };

typedef struct {
  const Ablate *ablate;
  int columns, choice_columns;  // after the number of the row come the choices
  bool dry, validates, devices, parameters;
  const char *title[COLUMNS_MAX];
  const char **cell;  // [row * COLUMNS_MAX + column]
  int width[COLUMNS_MAX];
} Table;

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

// NULL: no column.
static void table_add(Table *table, const char *title) {
  if (title) {
    table->title[table->columns++] = title;
  }
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
  table_add(table, table->parameters ? "parameters" : NULL);
  table_add(table, "ranks");
  table_add(table, table->dry ? NULL : "loss 1");
  table_add(table, !table->dry && middle_step(ablate) ? "loss 10" : NULL);
  table_add(table, !table->dry && ablate->options->steps > 1
                       ? arena_format(ablate->arena, "loss %lld", (long long)ablate->options->steps)
                       : NULL);
  table_add(table, table->validates ? "val loss" : NULL);
  static const char *const losses[] = {"last diff", "most diff", "to", ""};
  for (size_t i = 0; !table->dry && i < sizeof losses / sizeof *losses; i++) {
    table_add(table, losses[i]);
  }
  table_add(table, table->dry ? NULL : "tok/s");
  static const char *const arithmetic[] = {"TFLOP/s", "of peak", "exposed"};
  for (size_t i = 0; table->devices && i < sizeof arithmetic / sizeof *arithmetic; i++) {
    table_add(table, arithmetic[i]);
  }
  table_add(table, "sent/step");
  table_add(table, "memory");
  table_add(table, table->dry ? NULL : "measured");
  table_add(table, "bubble");
  table_add(table, table->dry ? NULL : "s/step");
}

static const char *bytes_text(Arena *arena, double bytes) {
  char text[UNITS_MAX];
  return isnan(bytes) ? "-" : bytes == 0 ? "0" : arena_format(arena, "%s", units_bytes(text, bytes));
}

static const char *percent_text(Arena *arena, double share) {
  return isfinite(share) ? arena_format(arena, "%.1f%%", 100 * share) : "-";
}

static const char *count_text(Arena *arena, double count) {
  char text[UNITS_MAX];
  return isfinite(count) ? arena_format(arena, "%s", units_count(text, count)) : "-";
}

// Tokens of all ranks together and arithmetic of one, a second; NaN: no step was made.
static double row_tokens(const AblateRow *row) {
  return row->tokens / row->seconds;
}

static double row_flops(const AblateRow *row) {
  return row->flops / (double)row->ranks / row->seconds;
}

static void row_losses(const Table *table, const AblateRow *row, const char **cell, int *column) {
  const Ablate *ablate = table->ablate;
  Arena *arena = ablate->arena;
  if (table->dry) {
    return;
  }
  cell[(*column)++] = loss_text(arena, row, 1);
  if (middle_step(ablate)) {
    cell[(*column)++] = loss_text(arena, row, 10);
  }
  if (ablate->options->steps > 1) {
    cell[(*column)++] = loss_text(arena, row, ablate->options->steps);
  }
  if (table->validates) {
    cell[(*column)++] = isnan(row->validation) ? "-" : arena_format(arena, "%.6f", row->validation);
  }
  cell[(*column)++] = difference_text(arena, row, row->last);
  cell[(*column)++] = difference_text(arena, row, row->most);
  cell[(*column)++] = row->against < 0 ? "-" : arena_format(arena, "%d", row->against + 1);
  cell[(*column)++] = sign_text(row);
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
  if (table->parameters) {
    cell[column++] = count_text(arena, row->parameters);
  }
  cell[column++] = arena_format(arena, "%lld", (long long)row->ranks);
  row_losses(table, row, cell, &column);
  if (!table->dry) {
    cell[column++] = count_text(arena, row_tokens(row));
  }
  if (table->devices) {
    const double flops = row_flops(row);
    cell[column++] = isfinite(flops) ? arena_format(arena, "%.3g", flops / 1e12) : "-";
    cell[column++] = percent_text(arena, flops / row->peak_flops);
    cell[column++] = isnan(row->exposed) ? "-" : arena_format(arena, "%.3g", row->exposed);
  }
  cell[column++] = bytes_text(arena, row->wire);
  cell[column++] = bytes_text(arena, row->memory);
  if (!table->dry) {
    cell[column++] = bytes_text(arena, row->taken);
  }
  cell[column++] = percent_text(arena, row->bubble);
  if (!table->dry) {
    cell[column++] = row->steps == 0 ? "-" : arena_format(arena, "%.3g", row->seconds);
  }
}

static void cell_put(const Table *table, int column, const char *text, Buffer *out) {
  const int blanks = table->width[column] - units_columns(text);
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
  if (row->state == ROW_FAILED || row->state == ROW_ILLEGAL) {
    buffer_format(out, "  %s", row->problem);
  } else if (row->state == ROW_ABSENT) {
    buffer_format(out, "  not run: %s", row->problem);
  } else if (row->state == ROW_WAITS) {
    buffer_text(out, "  not run");
  } else if (row->state == ROW_STOPPED) {
    buffer_format(out, "  stopped after step %lld", (long long)row->steps);
  }
  buffer_text(out, bad ? LOG_PLAIN "\n" : "\n");
}

void ablate_table(const Ablate *ablate, Buffer *out) {
  const AblateRow *first = NULL;
  Table table = {.ablate = ablate, .dry = ablate->options->dry, .devices = ablate->devices > 0};
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    table.validates |= !isnan(row->validation);
    first = first ? first : row->ranks > 0 ? row : NULL;  // of those that compile
    table.parameters |= row->ranks > 0 && row->parameters != first->parameters;
  }
  table.cell = ARENA_ARRAY(ablate->arena, const char *, (int64_t)ablate->count *COLUMNS_MAX);
  table_titles(&table);
  for (int i = 0; i < ablate->count; i++) {
    table_row(&table, i);
  }
  for (int column = 0; column < table.columns; column++) {
    table.width[column] = units_columns(table.title[column]);
    for (int i = 0; i < ablate->count; i++) {
      const char *cell = table.cell[i * COLUMNS_MAX + column];
      const int width = cell ? units_columns(cell) : 0;
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
  const int64_t step = row->most_step, first = ablate_mean_begin(step) + 1;
  buffer_format(out, LOG_RED "\xe2\x9c\x97 row %d (%s) is not what row %d (%s) computes: ", at + 1, row->name,
                row->against + 1, base->name);
  if (first == step) {
    buffer_format(out, "step %lld has loss", (long long)step);
  } else {
    buffer_format(out, "steps %lld to %lld have a mean loss of", (long long)first, (long long)step);
  }
  buffer_format(out, " %.9g, not %.9g; %.1e apart where %.0e is allowed" LOG_PLAIN "\n", row->most_loss,
                row->most_other, fabs(row->most_loss / row->most_other - 1),
                step == 1 ? row->first_tolerance : row->tolerance);
}

// Within which rows are the same: one tolerance, or of each pair of precisions its own.
static void notes_tolerances(const Ablate *ablate, Buffer *out) {
  static const char *const where[] = {
      [PRECISIONS_REALS] = " between f32 and f64", [PRECISIONS_COARSE] = " where a format is coarser than f32"};
  const AblateRow *of[PRECISIONS_COUNT] = {0};
  int kinds = 0;
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    if ((row->verdict == VERDICT_SAME || row->verdict == VERDICT_DIFFERS) && !of[row->precisions]) {
      of[row->precisions] = row;
      kinds++;
    }
  }
  const bool alike = kinds == 1 || ablate->options->tolerance > 0;
  buffer_text(out, LOG_FAINT "diff: of the loss, relative to the row named under `to`; = within ");
  for (int i = 0, said = 0; i < PRECISIONS_COUNT && !(alike && said > 0); i++) {
    if (of[i]) {
      buffer_format(out, said == 0 ? "%.0e at step 1 and %.0e later%s" : "; %.0e and %.0e%s", of[i]->first_tolerance,
                    of[i]->tolerance, alike || !where[i] ? "" : where[i]);
      said++;
    }
  }
  buffer_text(out, LOG_PLAIN "\n");
}

static void notes_verdicts(const Ablate *ablate, Buffer *out) {
  bool judged = false, shown = false, differs = false;
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    judged |= row->verdict == VERDICT_SAME || row->verdict == VERDICT_DIFFERS;
    shown |= row->verdict == VERDICT_SHOWN;
    differs |= row->verdict == VERDICT_DIFFERS;
  }
  if (judged) {
    notes_tolerances(ablate, out);
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

// A sum grows with the batch, and is no loss of a token.
static void notes_losses(const Ablate *ablate, Buffer *out) {
  const AblateLosses losses = ablate_losses(ablate);
  if (losses == LOSSES_SUMS) {
    buffer_text(out, LOG_FAINT "losses are sums over the tokens of a batch, and not nats per token" LOG_PLAIN "\n");
  } else if (losses == LOSSES_BOTH) {
    buffer_text(
        out, LOG_YELLOW
        "losses of some rows are sums over the tokens of a batch, or without a unit, of others not: they cannot "
        "be compared" LOG_PLAIN "\n");
  }
}

// Where it was run, and what the columns are that have no plain name.
static void notes_device(const Ablate *ablate, Buffer *out) {
  bool exposed = false;
  for (int i = 0; i < ablate->count; i++) {
    exposed |= !isnan(ablate->rows[i].exposed);
  }
  if (ablate->devices > 0) {
    buffer_format(
        out, LOG_FAINT "on %s, of which this machine has %d, a process for each rank; TFLOP/s of each" LOG_PLAIN "\n",
        *ablate->device ? ablate->device : ablate->backend->name, ablate->devices);
  }
  if (exposed) {
    buffer_text(out, LOG_FAINT
                "exposed: seconds of a step in which a rank communicates, or waits for others, and computes nothing; "
                "mean of the ranks, in one more step that was timed instruction by instruction" LOG_PLAIN "\n");
  }
}

static void notes_legal(const Ablate *ablate, Buffer *out) {
  int legal = 0;
  for (int i = 0; i < ablate->count; i++) {
    legal += ablate->rows[i].state == ROW_PLANNED;
  }
  buffer_format(out,
                LOG_FAINT
                "%d of %d combinations can be compiled; nothing was run. sent/step and memory are those of "
                "the plans, of the rank with most" LOG_PLAIN "\n",
                legal, ablate->count);
}

// The recipe's `steps` are the length of its schedules, and say nothing here of how long a row is trained.
static void notes_steps(const Ablate *ablate, Buffer *out) {
  for (int i = 0; i < ablate->choices.count; i++) {
    if (strcmp(ablate->choices.at[i].name, "steps") == 0) {
      buffer_format(out,
                    LOG_YELLOW "every row is trained for %lld steps, as --steps says" LOG_PLAIN
                               ": the `steps` of a recipe are the length of its schedules alone\n",
                    (long long)ablate->options->steps);
    }
  }
  enum { NAMED = 8 };
  const char *rows = "";
  for (int i = 0, count = 0; i < ablate->count && count <= NAMED; i++) {
    const AblateRow *row = &ablate->rows[i];
    if (row->steps > row->schedule && row->schedule > 0) {
      rows = count++ == NAMED ? arena_format(ablate->arena, "%s, ...", rows)
                              : arena_format(ablate->arena, "%s%s%d (%lld)", rows, *rows ? ", " : "", i + 1,
                                             (long long)row->schedule);
    }
  }
  if (*rows) {
    buffer_format(out,
                  LOG_YELLOW
                  "trained beyond the steps of their recipes, for which schedules of learning rates are made: "
                  "row %s" LOG_PLAIN "\n",
                  rows);
  }
}

void ablate_notes(const Ablate *ablate, Buffer *out) {
  if (ablate->options->dry) {
    notes_legal(ablate, out);
    return;
  }
  notes_device(ablate, out);
  notes_losses(ablate, out);
  notes_steps(ablate, out);
  notes_verdicts(ablate, out);
  ablate_ranking(ablate, out);
}

// --- JSON ---

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const Ablate *ablate, int at) {
  static const char *const states[] = {"not run", "legal", "done", "stopped", "failed", "illegal", "no devices"};
  static const char *const verdicts[] = {"none", "same", "differs", "not judged"};
  const AblateRow *row = &ablate->rows[at];
  const bool compared = row->against >= 0;
  json_t *combination = json_object(), *losses = json_array();
  for (int i = 0; i < ablate->choices.count; i++) {
    const Choice *choice = &ablate->choices.at[i];
    json_object_set_new(combination, choice->name, json_text(choice->value[row->pick[i]]));
  }
  for (int64_t i = 0; i < row->steps; i++) {
    json_array_append_new(losses, number(row->loss[i]));
  }
  json_t *line = json_pack("{s:i, s:o, s:s, s:o, s:I}", "row", at + 1, "combination", combination, "state",
                           states[row->state], "loss", losses, "ranks", (json_int_t)row->ranks);
  if (!line) {
    return NULL;
  }
  json_object_set_new(line, "problem", json_text(row->problem));
  json_t *notes = json_array();
  for (int i = 0; i < row->note_count; i++) {
    json_array_append_new(notes, json_text(row->notes[i]));
  }
  json_object_set_new(line, "notes", notes);
  json_object_set_new(line, "against", compared ? json_integer(row->against + 1) : json_null());
  json_object_set_new(line, "verdict", json_string(verdicts[row->verdict]));
  json_object_set_new(line, "last_difference", compared ? number(row->last) : json_null());
  json_object_set_new(line, "most_difference", compared ? number(row->most) : json_null());
  json_object_set_new(line, "tolerance_first", compared ? number(row->first_tolerance) : json_null());
  json_object_set_new(line, "tolerance", compared ? number(row->tolerance) : json_null());
  json_object_set_new(line, "parameters", row->ranks ? number(row->parameters) : json_null());
  json_object_set_new(line, "stages", json_integer(row->stages));
  json_object_set_new(line, "microbatches", json_integer(row->microbatches));
  json_object_set_new(line, "real", row->ranks ? json_string(element_type_name(row->real)) : json_null());
  json_object_set_new(line, "sent_bytes", number(row->wire));
  json_object_set_new(line, "memory_bytes", number(row->memory));
  json_object_set_new(line, "bubble", number(row->bubble));
  json_object_set_new(line, "step_seconds", number(row->seconds));
  json_object_set_new(line, "tokens_per_s", number(row_tokens(row)));
  json_object_set_new(line, "tflops", number(row_flops(row) / 1e12));
  json_object_set_new(line, "mfu", number(row_flops(row) / row->peak_flops));
  json_object_set_new(line, "exposed_seconds", number(row->exposed));
  json_object_set_new(line, "val_loss", number(row->validation));
  for (int i = 0; i < row->output_count; i++) {
    json_object_set_new(line, row->outputs[i].name, number(row->outputs[i].value));
  }
  const AblateWindows *windows = row->validates ? &row->windows : NULL;
  json_object_set_new(line, "windows", windows ? json_integer(windows->windows) : json_null());
  json_object_set_new(line, "window_tokens", windows ? json_integer(windows->sequence) : json_null());
  json_object_set_new(line, "held_out", number(windows ? windows->held_out : NAN));
  json_object_set_new(line, "summed", json_boolean(row->unit == LOSS_SUM));
  const AblateGroup *group = row->rank > 0 ? &ablate->groups[row->rank - 1] : NULL;
  json_object_set_new(line, "rank", group ? json_integer(row->rank) : json_null());
  json_object_set_new(line, "rank_mean", number(group ? group->mean : NAN));
  json_object_set_new(line, "rank_spread", number(group ? group->spread : NAN));
  json_object_set_new(line, "rank_seeds", group ? json_integer(group->seeds) : json_null());
  json_object_set_new(line, "measured_bytes", number(row->taken));
  json_object_set_new(line, "beside_bytes", number(row->beside));
  json_object_set_new(line, "compile_seconds", number(row->compile_seconds));
  return line;
}

typedef struct {
  const Ablate *ablate;
  int row;
} Recording;

static json_t *record_json(void *context) {
  const Recording *recording = context;
  return row_json(recording->ablate, recording->row);
}

bool ablate_record(const Ablate *ablate, int row, Buffer *out) {
  Recording recording = {.ablate = ablate, .row = row};
  char *text = json_made(record_json, &recording, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
  const bool made = text && json_shorten(text, out);
  buffer_text(out, made ? "\n" : "");
  json_guard_free(text);
  return made && !out->failed;
}
