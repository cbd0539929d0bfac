// patience.c: the best evaluation so far, and how many were no better.
#include "runtime/patience.h"

#include <math.h>

Patience patience_of(const Metrics *metrics, int64_t from, uint64_t windows) {
  Patience found = {.best = NAN};
  for (int64_t i = 0; i < metrics->count; i++) {
    const MetricsPoint *point = &metrics->points[i];
    const bool known = windows != 0 && point->validated_with != 0;
    const bool other = known ? point->validated_with != windows : (int64_t)point->step <= from;
    if (isnan(point->val_loss) || other) {
      continue;
    }
    // Lines of metrics that were read have losses as short as fp32 allows: what differs less is the same.
    const bool better = isnan(found.best) || (float)point->val_loss < (float)found.best;
    found = better ? (Patience){point->val_loss, (int64_t)point->step, 0}
                   : (Patience){found.best, found.step, found.since + 1};
  }
  return found;
}

bool patience_possible(const EvaluationsAhead *ahead, const char *option, Error *error) {
  if (!ahead->evaluable) {
    return error_set(error, 1,
                     "%s goes by evaluations, and the plan has none: the text cannot be evaluated under this layout; a "
                     "note of the compiler says why",
                     option);
  }
  if (!ahead->data) {
    return error_set(
        error, 1, "%s goes by evaluations, and there is nothing to evaluate on: %s", option,
        ahead->held_out ? "the part of the data that is held out is shorter than one window; raise `validation` in the "
                          "recipe, or give more data"
                        : "the recipe keeps nothing back, `validation = 0`; give it a part of the data, as `validation "
                          "= 0.05`, or a source, `validation text(\"held_out.txt\")`");
  }
  return ahead->answers ||
         error_set(
             error, 1,
             "%s goes by evaluations, and none of the windows that they read has an answer; validate with others, "
             "or raise `validation` or `eval_batches` in the recipe",
             option);
}

void patience_say(Log *log, const Patience *patience, int64_t step) {
  log_line(log,
           LOG_YELLOW "stopped" LOG_PLAIN
                      "   after step %lld: no better than the evaluation of step %lld, %.4f, in %lld evaluation%s",
           (long long)step, (long long)patience->step, patience->best, (long long)patience->since,
           patience->since == 1 ? "" : "s");
}
