// ablate_rank.c: rows that differ in their seed alone as one: mean and spread; and which of them is best.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "runtime/ablate.h"

static bool is_seed(const Choice *choice) {
  return strcmp(choice->name, "seed") == 0;
}

static bool same_but_seed(const Choices *choices, const AblateRow *a, const AblateRow *b) {
  for (int i = 0; i < choices->count; i++) {
    if (!is_seed(&choices->at[i]) && a->pick[i] != b->pick[i]) {
      return false;
    }
  }
  return true;
}

// The mean loss of the last sixteenth of the steps: that of the last step alone is one batch.
static double last_losses(const AblateRow *row) {
  double sum = 0;
  const int64_t begin = row->steps > 0 ? ablate_mean_begin(row->steps) : 0;
  for (int64_t i = begin; i < row->steps; i++) {
    sum += row->loss[i];
  }
  return sum / (double)(row->steps - begin);
}

// Is there anything to rank: several computations, or several seeds of one?
static bool ranks(const Ablate *ablate) {
  bool several = false;
  for (int i = 0; i < ablate->choices.count; i++) {
    const Choice *choice = &ablate->choices.at[i];
    several |= choice->count > 1 && !choice_is_layout(choice) && strcmp(choice->name, "precision") != 0;
  }
  return several && !ablate->options->dry;
}

static int better(const void *a, const void *b) {
  const AblateGroup *left = a, *right = b;
  if (isfinite(left->mean) != isfinite(right->mean)) {
    return isfinite(left->mean) ? -1 : 1;
  }
  return left->mean != right->mean && isfinite(left->mean) ? (left->mean > right->mean) - (left->mean < right->mean)
                                                           : left->row - right->row;
}

// Mean and standard deviation over the rows of a group.
static void group_measure(const Ablate *ablate, AblateGroup *group, bool validated) {
  double squares = 0, sum = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = group->row; i < ablate->count; i++) {
      const AblateRow *row = &ablate->rows[i];
      if (row->state == ROW_DONE && same_but_seed(&ablate->choices, row, &ablate->rows[group->row])) {
        const double loss = validated ? row->validation : last_losses(row);
        group->seeds += pass == 0;
        sum += pass == 0 ? loss : 0;
        squares += pass == 1 ? (loss - group->mean) * (loss - group->mean) : 0;
      }
    }
    group->mean = sum / group->seeds;
  }
  group->spread = group->seeds > 1 ? sqrt(squares / (group->seeds - 1)) : NAN;
}

// Is the distance of a group from the best one within twice its standard error?
static bool near_best(const AblateGroup *best, const AblateGroup *group) {
  const double error = sqrt(best->spread * best->spread / best->seeds + group->spread * group->spread / group->seeds);
  return group->mean - best->mean <= 2 * error;  // false without spreads, which are NaN then
}

// Other terms beside the cross entropy are said by themselves.
static LossUnit measure_of(const AblateRow *row) {
  return row->unit == LOSS_MORE ? LOSS_NATS : row->unit;
}

static bool other_held_out(const AblateWindows *a, const AblateWindows *b) {
  return a->held_out < b->held_out || a->held_out > b->held_out;
}

static bool same_windows(const AblateWindows *a, const AblateWindows *b) {
  return a->windows == b->windows && a->sequence == b->sequence && !other_held_out(a, b);
}

void ablate_rank(Ablate *ablate) {
  ablate->group_count = 0;
  ablate->validated = true;
  ablate->incomparable = ablate->more_terms = ablate->other_windows = false;
  if (!ranks(ablate)) {
    return;
  }
  ablate->groups = ARENA_ARRAY(ablate->arena, AblateGroup, ablate->count);
  int first = -1;
  bool other_data = false, other_of_both = false;
  for (int i = 0; i < ablate->count; i++) {
    AblateRow *row = &ablate->rows[i];
    bool known = row->state != ROW_DONE;
    row->rank = 0;
    if (known) {
      continue;
    }
    for (int k = 0; k < ablate->group_count && !known; k++) {
      known = same_but_seed(&ablate->choices, row, &ablate->rows[ablate->groups[k].row]);
    }
    if (!known) {
      ablate->groups[ablate->group_count++] = (AblateGroup){.row = i};
    }
    first = first < 0 ? i : first;
    ablate->validated &= row->validates;
    const AblateRow *other = &ablate->rows[first];
    ablate->more_terms |= row->unit == LOSS_MORE;
    const bool apart = strcmp(row->data, other->data) != 0;
    other_data |= apart;
    other_of_both |= apart && row->windows.number != other->windows.number;
    ablate->incomparable |= measure_of(row) != measure_of(other) ||
                            (row->unit == LOSS_SUM && (row->tokens < other->tokens || row->tokens > other->tokens));
    ablate->other_windows |= !same_windows(&row->windows, &other->windows);
  }
  ablate->incomparable |= ablate->validated ? other_of_both : other_data;
  ablate->other_windows &= ablate->validated && !ablate->incomparable;
  for (int k = 0; k < ablate->group_count; k++) {
    group_measure(ablate, &ablate->groups[k], ablate->validated);
  }
  qsort(ablate->groups, (size_t)ablate->group_count, sizeof *ablate->groups, better);
  for (int k = 0; k < ablate->group_count; k++) {
    AblateGroup *group = &ablate->groups[k];
    group->near = k > 0 && near_best(&ablate->groups[0], group);
    for (int i = 0; i < ablate->count; i++) {
      AblateRow *row = &ablate->rows[i];
      if (row->state == ROW_DONE && same_but_seed(&ablate->choices, row, &ablate->rows[group->row])) {
        row->rank = k + 1;
      }
    }
  }
}

// --- the table ---

enum { OUTPUTS_SHOWN = 4, RANK_COLUMNS = CHOICES_MAX + 8 + OUTPUTS_SHOWN };

typedef struct {
  const char *cell[RANK_COLUMNS];
} Line;

static void line_put(const Line *line, const int *width, int columns, int words, Buffer *out) {
  for (int i = 0; i < columns; i++) {
    const bool left = i > 0 && i <= words;
    const int blanks = width[i] - units_columns(line->cell[i]);
    buffer_text(out, i > 0 ? "  " : "");
    buffer_repeat(out, ' ', left ? 0 : blanks);
    buffer_text(out, line->cell[i]);
    buffer_repeat(out, ' ', left && i + 1 < columns ? blanks : 0);
  }
}

static bool choice_stands(const Choice *choice) {
  return choice->count > 1 && !is_seed(choice);
}

// The mean over the rows of a group; NaN where one has no such output.
static double output_mean(const Ablate *ablate, const AblateGroup *group, const char *name) {
  double sum = 0;
  for (int i = group->row; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    if (row->state != ROW_DONE || row->rank != ablate->rows[group->row].rank) {
      continue;
    }
    double value = NAN;
    for (int k = 0; k < row->output_count; k++) {
      value = strcmp(row->outputs[k].name, name) == 0 ? row->outputs[k].value : value;
    }
    sum += value;
  }
  return sum / group->seeds;
}

// Names of the first outputs that rows have, in their order; returns how many.
static int outputs_shown(const Ablate *ablate, const char *names[OUTPUTS_SHOWN]) {
  int count = 0;
  for (int i = 0; i < ablate->count; i++) {
    for (int k = 0; k < ablate->rows[i].output_count; k++) {
      bool known = count == OUTPUTS_SHOWN;
      for (int n = 0; n < count && !known; n++) {
        known = strcmp(names[n], ablate->rows[i].outputs[k].name) == 0;
      }
      if (!known) {
        names[count++] = ablate->rows[i].outputs[k].name;
      }
    }
  }
  return count;
}

// The cells of a group, or with NULL the titles; returns how many, and in *words how many of them are choices.
static int line_make(const Ablate *ablate, const AblateGroup *group, Line *line, int *words) {
  Arena *arena = ablate->arena;
  const AblateRow *row = group ? &ablate->rows[group->row] : NULL;
  const double behind = group ? group->mean - ablate->groups[0].mean : 0;
  char count[UNITS_MAX];
  int column = 0;
  line->cell[column++] = group ? arena_format(arena, "%d", row->rank) : "rank";
  for (int i = 0; i < ablate->choices.count; i++) {
    const Choice *choice = &ablate->choices.at[i];
    if (choice_stands(choice)) {
      line->cell[column++] = group ? choice->value[row->pick[i]] : choice->name;
    }
  }
  *words = column - 1;
  line->cell[column++] = group ? arena_format(arena, "%s", units_count(count, row->parameters)) : "parameters";
  line->cell[column++] = !group                  ? ablate->validated ? "val loss" : "last losses"
                         : isfinite(group->mean) ? arena_format(arena, "%.6f", group->mean)
                                                 : "not finite";
  line->cell[column++] = !group ? "spread" : isfinite(group->spread) ? arena_format(arena, "%.6f", group->spread) : "-";
  line->cell[column++] = group ? arena_format(arena, "%d", group->seeds) : "seeds";
  line->cell[column++] = !group             ? "behind"
                         : row->rank == 1   ? "-"
                         : isfinite(behind) ? arena_format(arena, "%.6f%s", behind, group->near ? " \xe2\x89\x88" : "")
                                            : "-";
  const char *names[OUTPUTS_SHOWN];
  const int outputs = outputs_shown(ablate, names);
  for (int i = 0; i < outputs; i++) {
    const double mean = group ? output_mean(ablate, group, names[i]) : NAN;
    line->cell[column++] = !group ? names[i] : isnan(mean) ? "-" : arena_format(arena, "%.6g", mean);
  }
  return column;
}

// The rows of these windows, from `first` on, in words: "1, 3".
static const char *rows_of(const Ablate *ablate, int first) {
  enum { NAMED = 8 };
  const char *rows = "";
  for (int i = first, count = 0; i < ablate->count && count <= NAMED; i++) {
    const AblateRow *row = &ablate->rows[i];
    if (row->rank > 0 && same_windows(&row->windows, &ablate->rows[first].windows)) {
      rows = count++ == NAMED ? arena_format(ablate->arena, "%s, ...", rows)
                              : arena_format(ablate->arena, "%s%s%d", rows, *rows ? ", " : "", i + 1);
    }
  }
  return rows;
}

// Each kind of windows with its rows, by what differs between them.
static void ranking_windows(const Ablate *ablate, Buffer *out) {
  enum { KINDS = 4 };
  const AblateRow *kind[KINDS + 1];
  int kinds = 0, first[KINDS];
  bool lengths = false, parts = false, counts = false;
  for (int i = 0; i < ablate->count && kinds <= KINDS; i++) {
    const AblateRow *row = &ablate->rows[i];
    bool known = row->rank == 0;
    for (int k = 0; k < kinds && !known; k++) {
      known = same_windows(&row->windows, &kind[k]->windows);
    }
    if (!known && kinds < KINDS) {
      first[kinds] = i;
    }
    if (!known) {
      kind[kinds++] = row;
      lengths |= row->windows.sequence != kind[0]->windows.sequence;
      counts |= row->windows.windows != kind[0]->windows.windows;
      parts |= other_held_out(&row->windows, &kind[0]->windows);
    }
  }
  buffer_text(out, LOG_YELLOW "rows are validated with other windows:");
  for (int k = 0; k < kinds && k < KINDS; k++) {
    const AblateWindows *of = &kind[k]->windows;
    buffer_format(out, "%s %lld", k == 0 ? "" : ",", (long long)of->windows);
    if (lengths) {
      buffer_format(out, " of %lld tokens", (long long)of->sequence);
    }
    if (parts) {
      buffer_format(out, " from the last %.4g%% of the data", 100 * of->held_out);
    }
    buffer_format(out, " (row %s)", rows_of(ablate, first[k]));
  }
  buffer_format(out, "%s: a loss of one says little beside that of another%s" LOG_PLAIN "\n",
                kinds > KINDS ? ", ..." : "",
                counts && !lengths && !parts ? "; `eval_batches = 0` reads all there are" : "");
}

void ablate_ranking(const Ablate *ablate, Buffer *out) {
  const int count = ablate->group_count;
  if (count == 0) {
    return;
  }
  Line *lines = ARENA_ARRAY(ablate->arena, Line, count + 1);
  int width[RANK_COLUMNS] = {0}, words = 0, columns = 0;
  bool near = false;
  for (int i = 0; i <= count; i++) {
    columns = line_make(ablate, i ? &ablate->groups[i - 1] : NULL, &lines[i], &words);
    near |= i > 0 && ablate->groups[i - 1].near;
    for (int k = 0; k < columns; k++) {
      const int here = units_columns(lines[i].cell[k]);
      width[k] = here > width[k] ? here : width[k];
    }
  }
  buffer_text(out, "\n");
  for (int i = 0; i <= count; i++) {
    buffer_text(out, i == 0 ? LOG_FAINT : i == 1 ? LOG_GREEN : "");
    line_put(&lines[i], width, columns, words, out);
    buffer_text(out, i <= 1 ? LOG_PLAIN "\n" : "\n");
  }
  buffer_format(out,
                LOG_FAINT "ranked by the mean of %s; spread: the standard deviation between seeds%s" LOG_PLAIN "\n",
                ablate->validated ? "the validation losses" : "the losses of the last sixteenth of the steps",
                near ? "; \xe2\x89\x88 behind by less than twice the standard error" : "");
  if (ablate->more_terms) {
    buffer_text(out, LOG_YELLOW
                "losses of some rows have other terms than the cross entropy, which rank them too: add such terms `if "
                "training`" LOG_PLAIN "\n");
  }
  if (ablate->other_windows) {
    ranking_windows(ablate, out);
  }
  if (ablate->incomparable) {
    buffer_format(out, LOG_YELLOW "%s of one says little beside that of another" LOG_PLAIN "\n",
                  ablate_losses(ablate) == LOSSES_MEANS || ablate_losses(ablate) == LOSSES_PLAIN
                      ? "rows have different data or tokens: a loss per token"
                      : "losses are sums, and rows have different data, tokens or batches: a loss");
  }
}
