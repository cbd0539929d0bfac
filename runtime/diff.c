// diff.c: which two things are compared, and how a difference is told.
#include "runtime/diff.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "runtime/io.h"
#include "runtime/log.h"

double diff_eps(ElementType a, ElementType b) {
  static const struct {
    ElementType type;
    double eps;
  } formats[] = {{TYPE_BF16, 0x1p-7}, {TYPE_F16, 0x1p-10}, {TYPE_F32, 0x1p-23}, {TYPE_F64, 0x1p-52}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (a == formats[i].type || b == formats[i].type) {
      return formats[i].eps;
    }
  }
  return 0;
}

double diff_budget(const Diff *diff, ElementType a, ElementType b, double growth) {
  const double times = diff->options->budget > 0 ? diff->options->budget : 1;
  return diff->options->exact ? 0 : 16 * times * diff_eps(a, b) * growth;
}

double diff_growth(double depth) {
  return 1 + log2(fmax(1, depth));
}

double diff_growth_of_runs(double steps) {
  return fmin(4 * (1 + fmax(0, steps)), 5000);
}

double diff_largest(const DiffTensor *tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor->count; i++) {
    most = isfinite(tensor->data[i]) ? fmax(most, fabs(tensor->data[i])) : most;
  }
  return most;
}

static double difference(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) {
    return 0;
  }
  return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

// "[batch 0, seq 3]" of an element.
static void show_place(FILE *out, const DiffTensor *tensor, int64_t at) {
  int64_t index[PLAN_MAX_AXES];
  for (int i = tensor->axis_count - 1; i >= 0; i--) {
    index[i] = at % tensor->size[i];
    at /= tensor->size[i];
  }
  fputc('[', out);
  for (int i = 0; i < tensor->axis_count; i++) {
    fprintf(out, "%s%s%s%lld", i ? ", " : "", tensor->axis[i] ? tensor->axis[i] : "", tensor->axis[i] ? " " : "",
            (long long)index[i]);
  }
  fputc(']', out);
}

static void show_labels(const Diff *diff, const char *a, const char *b) {
  const int left = (int)strlen(diff->label[0]), right = (int)strlen(diff->label[1]);
  const int width = left > right ? left : right;
  fprintf(diff->options->out, "  %-*s  %s\n  %-*s  %s\n", width, diff->label[0], a, width, diff->label[1], b);
}

static void show_first(const Diff *diff, const DiffTensor *a, const DiffTensor *b, const DiffFacts *facts, int64_t at,
                       double scale, double error, double budget) {
  FILE *out = diff->options->out;
  char left[32], right[32];
  const int digits = diff_eps(a->type, b->type) < 1e-10 ? 17 : 9;
  fprintf(out, "%s and %s differ%s, first in\n", diff->label[0], diff->label[1], diff->when);
  fprintf(out, "  %s%s%s\n", facts->what, *facts->line ? "  at " : "", facts->line);
  fprintf(out, "  error   %.2g of its largest element, %.3g; the budget is %.2g", error, scale, budget);
  if (budget > 0 && isfinite(error)) {
    fprintf(out, ": %.3g times as much", error / budget);
  }
  fputc('\n', out);
  if (a->axis_count > 0) {
    fputs("  where   ", out);
    show_place(out, a, at);
    fputc('\n', out);
  }
  snprintf(left, sizeof left, "%.*g", digits, units_plain(a->data[at]));
  snprintf(right, sizeof right, "%.*g", digits, units_plain(b->data[at]));
  show_labels(diff, left, right);
  if (diff->compared > 1) {
    fprintf(out, "%d before it are within their budgets, %d of them to the bit", diff->compared - 1, diff->same);
    if (diff->worst > 0) {
      fprintf(out, "; the worst is at %.2g of its own: %s", diff->worst, diff->worst_name);
    }
    fputc('\n', out);
  }
}

bool diff_tensors(Diff *diff, const DiffTensor *a, const DiffTensor *b, const DiffFacts *facts) {
  const DiffOptions *options = diff->options;
  int64_t at = 0, allowed = 0;  // elements that differ by no more than their gradients may
  double most = 0;
  for (int64_t i = 0; i < a->count; i++) {
    const double slack = facts->slack ? facts->slack[i] : 0, apart = difference(a->data[i], b->data[i]);
    const double error = apart > slack ? apart - slack : 0;
    allowed += apart > 0 && error == 0;
    if (error > most) {
      most = error;
      at = i;
    }
  }
  const double scale = fmax(fmax(diff_largest(a), diff_largest(b)), facts->scale);
  const double error = most == 0 ? 0 : scale > 0 ? most / scale : INFINITY;
  const double budget = diff_budget(diff, a->type, b->type, facts->growth);
  const bool beyond = error > budget;
  diff->compared++;
  diff->elements += a->count;
  diff->same += most == 0 && allowed == 0;
  if (options->all) {
    fprintf(options->out, "%s %-46s %-20s error %-8.2g budget %-8.2g", beyond ? "\xe2\x9c\x97" : " ", facts->what,
            facts->line, error, budget);
    if (budget > 0) {
      fprintf(options->out, " %.3g of it", error / budget);
    }
    if (allowed > 0) {
      fprintf(options->out, "; %lld of %lld elements differ as their gradients may", (long long)allowed,
              (long long)a->count);
    }
    fputc('\n', options->out);
  }
  if (!beyond) {
    const double used = budget > 0 ? error / budget : 0;
    diff->worst_name = !diff->worst_name || used > diff->worst ? facts->what : diff->worst_name;
    diff->worst = fmax(diff->worst, used);
    return true;
  }
  if (diff->beyond++ == 0) {
    show_first(diff, a, b, facts, at, scale, error, budget);
  }
  return options->all;
}

void diff_other(Diff *diff, const char *name, const char *why) {
  diff->beyond++;
  fprintf(diff->options->out, "%s and %s differ%s: %s %s\n", diff->label[0], diff->label[1], diff->when, name, why);
}

void diff_odd(Diff *diff, const char *name, int side, int64_t rank) {
  diff->beyond++;
  if (diff->odd++ > 0 && !diff->options->all) {
    return;
  }
  fprintf(diff->options->out,
          "ranks of %s do not agree%s: %s is something else on rank %lld than on the first that has it\n",
          diff->label[side], diff->when, name, (long long)rank);
}

void diff_heading(const Diff *diff, const char *what) {
  if (diff->options->all) {
    fprintf(diff->options->out, "-- %s\n", what);
  }
}

void diff_name(DiffNames *names, const char *name) {
  if (names->count < DIFF_NAMES_SHOWN) {
    names->name[names->count] = name;
  }
  names->count++;
}

static void show_names(const Diff *diff, const DiffNames *names, const char *what) {
  FILE *out = diff->options->out;
  if (names->count == 0) {
    return;
  }
  fprintf(out, "%d %s: ", names->count, what);
  for (int i = 0; i < names->count && i < DIFF_NAMES_SHOWN; i++) {
    fprintf(out, "%s%s", i ? ", " : "", names->name[i]);
  }
  fputs(names->count > DIFF_NAMES_SHOWN ? ", ...\n" : "\n", out);
}

void diff_end(const Diff *diff) {
  FILE *out = diff->options->out;
  if (diff->not_trained && !diff->options->all) {
    fputs("the plan that is trained, without outputs of values, gives the same loss, parameters and state\n", out);
  }
  if (!diff->options->all) {
    show_names(diff, &diff->more, "more differ");
  }
  for (int side = 0; side < 2; side++) {
    char what[ERROR_MAX];
    snprintf(what, sizeof what, "not compared, since %.900s alone has them", diff->label[side]);
    show_names(diff, &diff->alone[side], what);
  }
  show_names(diff, &diff->neither, "not compared, since neither has them");
  show_names(diff, &diff->unlike, "not compared, since their axes differ");
  if (diff->beyond > 0) {
    if (diff->options->all) {
      fprintf(out, "%d of %d values are beyond their error budgets\n", diff->beyond, diff->compared);
    }
    return;
  }
  if (diff->same == diff->compared) {
    fprintf(out, "no difference: %d values, %lld elements, are the same to the bit\n", diff->compared,
            (long long)diff->elements);
  } else {
    fprintf(out,
            "no difference beyond the error budgets: %d values compared, %d of them to the bit; the worst is at %.2g "
            "of its budget: %s\n",
            diff->compared, diff->same, diff->worst, diff->worst_name);
  }
  if (diff->scope) {
    fprintf(out, "compared: %s\n", diff->scope);
  }
}

// --- what is compared ---

typedef struct {
  Arena *arena;
  const char *path[2];
  int paths;
  const char **word;  // NAME=VALUE,...
  int words;
} Sides;

static bool sides_read(Sides *sides, const DiffOptions *options, Error *error) {
  sides->word = ARENA_ARRAY(sides->arena, const char *, options->word_count + 1);
  for (int i = 0; i < options->word_count; i++) {
    const char *word = options->words[i];
    if (strchr(word, '=') && !io_is_file(word) && !io_is_directory(word)) {
      sides->word[sides->words++] = word;
    } else if (sides->paths == 2) {
      return error_set(error, 2, "there are more than two things to compare: '%s'", word);
    } else {
      sides->path[sides->paths++] = word;
    }
  }
  return sides->paths > 0 || error_set(error, 2, "give the text: mdl diff FILE layout=single,tp2");
}

static bool is_saved(const char *path) {
  const char *dot = strrchr(path, '.');
  return io_is_directory(path) || (dot && strcmp(dot, ".safetensors") == 0);
}

// The k-th of a name's values is of side k; one value is of both.
static bool sides_options(const Sides *sides, const DiffOptions *options, Diff *diff, CompileOptions compile[2],
                          Error *error) {
  Choices choices;
  bool two = sides->paths == 2;
  if (!choices_read(sides->arena, sides->word, sides->words, true, &choices, error)) {
    return false;
  }
  for (int i = 0; i < choices.count; i++) {
    if (choices.at[i].count > 2) {
      return error_set(error, 2, "%s has %d values; two things are compared", choices.at[i].name, choices.at[i].count);
    }
    two |= choices.at[i].count == 2;
  }
  if (!two) {
    return error_set(error, 2, "there is one thing only; name two: mdl diff %s layout=single,tp2", sides->path[0]);
  }
  for (int side = 0; side < 2; side++) {
    int pick[CHOICES_MAX] = {0};
    CompileOptions base = options->base;
    base.file = sides->path[sides->paths == 2 ? side : 0];
    for (int i = 0; i < choices.count; i++) {
      pick[i] = choices.at[i].count == 2 ? side : 0;
    }
    if (!choices_options(sides->arena, &choices, pick, &base, &compile[side], error) ||
        !choices_check(&choices, &base, true, error)) {
      return false;
    }
    const char *name = choices.count > 0 ? choices_name(sides->arena, &choices, pick, true) : NULL;
    diff->label[side] =
        sides->paths == 1 ? name
                          : arena_format(sides->arena, "%s%s%s", sides->path[side], name ? " " : "", name ? name : "");
  }
  return true;
}

bool diff_run(const DiffOptions *options, bool *differ, Error *error) {
  Diff diff = {.options = options, .when = ""};
  Sides sides = {.arena = arena_create()};
  CompileOptions compile[2];
  if (!sides.arena) {
    return error_set(error, 3, "no memory");
  }
  bool done = sides_read(&sides, options, error);
  if (done && sides.paths == 2 && (is_saved(sides.path[0]) || is_saved(sides.path[1]))) {
    diff.label[0] = sides.path[0];
    diff.label[1] = sides.path[1];
    done = sides.words > 0
               ? error_set(error, 2, "%s is of texts; runs and checkpoints are compared as they are", sides.word[0])
               : diff_saved(&diff, sides.path, error);
  } else if (done && sides.paths == 1 && is_saved(sides.path[0])) {
    done = error_set(error, 2, "give a second run or checkpoint to compare %s with", sides.path[0]);
  } else if (done) {
    done = sides_options(&sides, options, &diff, compile, error) && diff_texts(&diff, compile, error);
  }
  *differ = diff.beyond > 0;
  arena_destroy(sides.arena);
  return done;
}
