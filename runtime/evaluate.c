// evaluate.c: batches of validation windows in order.
#include "runtime/evaluate.h"

#include <math.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"

enum { TERMS_NAME = 4096 };

typedef struct {
  Session *session;
  Feed *feed;
  ShownList *shown;  // with sums
  Shown loss;
  bool exact;                      // something is weighed by samples, and so to be exact where windows are repeated
  bool together;                   // something is weighed by batches
  int64_t batches, tokens, bytes;  // bytes -1: not known
} Evaluating;

typedef struct {
  double samples;  // how often it counts for a mean over samples; below 0: it is taken away again
  double batches;  // for what samples have together
  bool counts;     // the targets of its windows are counted
  bool again;      // a batch before it had the same windows, and others
} Weights;

static void term_name(const Shown *shown, PlanWeighing w, char name[TERMS_NAME]) {
  snprintf(name, TERMS_NAME, PLAN_TERMS, shown->name, plan_weighing_name(w));
}

static bool number_add(Evaluating *e, Shown *shown, const Weights *weights, double counted, Error *error) {
  const double weight[] = {[WEIGH_SAMPLES] = weights->samples,
                           [WEIGH_ANSWERS] = weights->samples,
                           [WEIGH_BATCHES] = weights->batches,
                           [WEIGH_COUNTED] = counted};
  char name[TERMS_NAME];
  for (int w = 0; w < WEIGHINGS; w++) {
    double value = shown->value, values[SHOWN_NUMBERS];
    if (weight[w] == 0 || !shown->has[w]) {  // there may be no number
      continue;
    }
    term_name(shown, (PlanWeighing)w, name);
    if (shown->apart &&
        !session_read(e->session, PROGRAM_EVALUATE, name, shown->of > 0 ? shown->of : 1, values, error)) {
      return false;
    }
    value = shown->apart ? values[shown->index] : value;
    if (isinf(value) && weights->again) {  // nor can an infinity be taken away
      shown->sum[w] = isfinite(shown->sum[w]) ? value : shown->sum[w];
    } else {
      shown->sum[w] += value * weight[w];
    }
    shown->weight[w] += weight[w];
  }
  return true;
}

// Adds the loss and the outputs of one batch, of `count` windows from `first` on. A mean over what the mask counts
// counts as often as that counts targets, and once for a window.
static bool batch_add(Evaluating *e, int64_t first, int64_t count, const Weights *weights, Error *error) {
  if (!feed_validation(e->feed, e->session, first, count, !weights->counts, error) ||
      !session_score(e->session, PROGRAM_EVALUATE, first + 1, error) ||
      !session_scalar(e->session, PROGRAM_EVALUATE, "loss", &e->loss.value, error) ||
      !shown_read(e->shown, e->session, PROGRAM_EVALUATE, error)) {
    return false;
  }
  const int64_t counted = weights->counts ? feed_counted(e->feed) : 0;
  e->batches++;
  if (weights->counts) {
    e->tokens += feed_answers(e->feed) ? counted : count * feed_sequence(e->feed);
    e->bytes = e->bytes < 0 || feed_bytes(e->feed) < 0 ? -1 : e->bytes + feed_bytes(e->feed);
  }
  bool done = number_add(e, &e->loss, weights, (double)counted, error);
  for (int i = 0; done && i < e->shown->count; i++) {
    done = number_add(e, &e->shown->at[i], weights, (double)counted, error);
  }
  return done;
}

// Windows that do not fill a batch are repeated in it, the first of them once more than the others where that does not
// come out even. Then a sum over all samples is `rows` times the mean less that of those first ones, by the times that
// each is repeated; theirs is found in the same way, as in Euclid's algorithm. What samples have together cannot be
// taken away again: the first of these batches stands for all of its windows. For means over what a mask counts, which
// leaves repeated windows out, there is a batch apart.
static bool windows_add(Evaluating *e, int64_t first, int64_t count, Error *error) {
  const int64_t rows = feed_rows(e->feed);
  const bool apart = feed_masks(e->feed) && count < rows;
  Weights weights = {.counts = true, .batches = apart ? 0 : (double)count};
  if ((apart || !e->exact) && !batch_add(e, first, count, &weights, error)) {
    return false;
  }
  weights = (Weights){.counts = !apart, .batches = (double)count};
  double share = 1;
  for (int64_t left = e->exact || (e->together && apart) ? count : 0; left > 0;) {
    const int64_t times = rows / left;
    weights.samples = share * (double)rows / (double)times;
    if (!batch_add(e, first, left, &weights, error)) {
      return false;
    }
    weights = (Weights){.again = true};
    share /= -(double)times;
    left = e->exact ? rows % left : 0;
  }
  return true;
}

static void number_begin(Evaluating *e, Shown *shown) {
  shown->apart = false;
  for (int w = 0; w < WEIGHINGS; w++) {
    char name[TERMS_NAME];
    int64_t rank;
    term_name(shown, (PlanWeighing)w, name);
    shown->sum[w] = shown->weight[w] = 0;
    shown->has[w] = session_find_output(e->session, PROGRAM_EVALUATE, name, &rank) != NULL;
    shown->apart |= shown->has[w];
  }
  shown->has[shown->weighing] |= !shown->apart;
  e->exact |= shown->has[WEIGH_SAMPLES] || shown->has[WEIGH_ANSWERS];
  e->together |= shown->has[WEIGH_BATCHES];
}

// NaN where no batch had a number.
static void number_end(Shown *shown) {
  shown->value = 0;
  for (int w = 0; w < WEIGHINGS; w++) {
    if (shown->has[w]) {
      shown->value += shown->weight[w] > 0 ? shown->sum[w] / shown->weight[w] : NAN;
    }
  }
}

bool evaluate_has(const Shown *shown) {
  bool any = false, all = true;
  for (int w = 0; w < WEIGHINGS; w++) {
    any |= shown->weight[w] > 0;
    all &= !shown->has[w] || shown->weight[w] > 0;
  }
  return any && all;
}

static void evaluation_begin(Evaluating *e) {
  int64_t rank;
  const PlanOutput *loss = session_find_output(e->session, PROGRAM_EVALUATE, "loss", &rank);
  e->loss = (Shown){.name = "loss", .weighing = loss ? loss->weighing : WEIGH_SAMPLES};
  number_begin(e, &e->loss);
  for (int i = 0; i < e->shown->count; i++) {
    number_begin(e, &e->shown->at[i]);
  }
}

// A mean over all targets of what only answers have is of neither.
static LossUnit unit_of(const Plan *plan, const Shown *loss) {
  return plan->run.loss_unit == LOSS_NATS && loss->has[WEIGH_ANSWERS] ? LOSS_PLAIN : plan->run.loss_unit;
}

LossUnit evaluate_unit_of(const PlanSet *set) {
  const Shown loss = {.name = "loss"};
  char name[TERMS_NAME];
  term_name(&loss, WEIGH_ANSWERS, name);
  Shown has = {0};
  for (int s = 0; s < set->count; s++) {
    const PlanOutput *whole = session_output(set->plans[s], PROGRAM_EVALUATE, "loss");
    has.has[WEIGH_ANSWERS] |=
        session_output(set->plans[s], PROGRAM_EVALUATE, name) != NULL || (whole && whole->weighing == WEIGH_ANSWERS);
  }
  return unit_of(set->plans[0], &has);
}

bool evaluate_run(Session *session, Feed *feed, const Data *data, int64_t limit, ShownList *shown, Evaluation *result,
                  Error *error) {
  ShownList none = {0};
  shown = shown ? shown : &none;
  Evaluating evaluating = {.session = session, .feed = feed, .shown = shown};
  // A limit is of windows, so that it is the same however many of them a batch has.
  const int64_t all = data_facts(data).validation_windows, rows = feed_rows(feed);
  const int64_t windows = limit > 0 && limit <= all / rows ? limit * rows : all;
  double start = clock_seconds();
  evaluation_begin(&evaluating);
  *result = (Evaluation){.unit = unit_of(session->plan, &evaluating.loss)};
  for (int64_t at = 0; at < windows && !interrupt_requested(); at += rows) {
    const int64_t used = windows - at < rows ? windows - at : rows;
    if (!windows_add(&evaluating, at, used, error)) {
      return false;
    }
    result->windows += used;
  }
  result->batches = evaluating.batches;
  result->tokens = evaluating.tokens;
  result->bytes = evaluating.bytes;
  number_end(&evaluating.loss);
  result->loss = evaluating.loss.value;
  for (int i = 0; i < shown->count; i++) {
    number_end(&shown->at[i]);
  }
  result->seconds = clock_seconds() - start;
  return true;
}

const char *evaluate_unit(LossUnit unit) {
  static const char *const units[] = {[LOSS_NATS] = "nats per token",
                                      [LOSS_SUM] = "a sum over the tokens of a batch",
                                      [LOSS_PLAIN] = "without a unit",
                                      [LOSS_MORE] = "nats per token and other terms"};
  return units[unit];
}

double evaluate_bits_per_byte(const Evaluation *evaluation) {
  const bool known = evaluation->unit == LOSS_NATS && evaluation->bytes > 0;
  return known ? evaluation->loss / log(2) * (double)evaluation->tokens / (double)evaluation->bytes : NAN;
}
