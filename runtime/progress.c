// progress.c: the words and numbers of a training run.
#include "runtime/progress.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "runtime/data/doubts.h"

static const char *const arena_names[ARENA_CLASS_COUNT] = {"state", "values of a step", "host", ""};

int64_t progress_predicted(const PlanSet *set, int arena) {
  int64_t total = 0, ranks = plan_ranks(set->plans[0]);
  for (int64_t rank = 0; rank < ranks; rank++) {
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      total += arena == i || (arena == ARENA_CLASS_COUNT && i != ARENA_OFFLOAD)
                   ? plan_of_rank(set, rank)->arena_bytes[i]
                   : 0;
    }
  }
  return total;
}

// "4 ranks (pp 2 x tp 2) as threads"
static void header_ranks(Log *log, const ProgressFacts *facts) {
  const Plan *plan = facts->plan;
  Buffer text = {0};
  for (int i = 0; i < plan->mesh_count; i++) {
    buffer_format(&text, "%s%s %lld", i ? " x " : "", plan->mesh[i].name, (long long)plan->mesh[i].size);
  }
  if (text.text && plan_ranks(plan) > 1) {
    log_line(log, LOG_FAINT "ranks" LOG_PLAIN "     %lld ranks (%s) as %s", (long long)plan_ranks(plan), text.text,
             facts->processes ? "processes" : "threads");
  }
  buffer_free(&text);
}

static void header_memory(Log *log, const PlanSet *set) {
  Buffer text = {0};
  char bytes[32];
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    int64_t predicted = progress_predicted(set, i);
    if (predicted > 0 && i != ARENA_OFFLOAD) {
      buffer_format(&text, "%s%s %s", text.length ? " + " : "", units_bytes(bytes, (double)predicted), arena_names[i]);
    }
  }
  const int64_t offloaded = progress_predicted(set, ARENA_OFFLOAD);
  if (text.text) {
    buffer_format(&text, " = %s", units_bytes(bytes, (double)progress_predicted(set, ARENA_CLASS_COUNT)));
  }
  if (text.text && offloaded > 0) {
    buffer_format(&text, ", and %s offloaded to the host", units_bytes(bytes, (double)offloaded));
  }
  if (text.text) {
    log_line(log, LOG_FAINT "memory" LOG_PLAIN "    %s", text.text);
  }
  buffer_free(&text);
}

// On GPUs: what is predicted beside the plan, and what they have given away.
static void header_devices(Log *log, const ProgressFacts *facts) {
  const SessionMemory *memory = &facts->memory;
  char a[32], b[32], c[32];
  if (memory->taken < 0 || memory->beside <= 0) {
    return;
  }
  const double predicted = (double)(progress_predicted(facts->set, ARENA_CLASS_COUNT) + memory->beside);
  if (memory->joined_predicted > 0) {
    log_line(log, LOG_FAINT "          communicators %s predicted, %s measured" LOG_PLAIN,
             units_bytes(a, (double)memory->joined_predicted), units_bytes(b, (double)memory->joined));
  }
  log_line(log, LOG_FAINT "          with %s of the driver and libraries %s predicted, %s measured (%+.1f%%)" LOG_PLAIN,
           units_bytes(a, (double)memory->beside), units_bytes(b, predicted), units_bytes(c, (double)memory->taken),
           100 * ((double)memory->taken / predicted - 1));
}

static void header_skip(Log *log, const PlanRun *run) {
  Buffer text = {0};
  plan_skip_text(run, &text);
  if (text.text) {
    log_line(log, LOG_FAINT "skip" LOG_PLAIN "      %s", text.text);
  }
  buffer_free(&text);
}

static const char *word(const char *text, const char *otherwise) {
  return text && *text ? text : otherwise;
}

static void header_model(Log *log, const ProgressFacts *facts) {
  const PlanRun *run = &facts->plan->run;
  const double all = session_parameters(facts->set), trained = session_trained(facts->set);
  char count[UNITS_MAX], part[UNITS_MAX], some[UNITS_MAX + 32] = "";
  if (trained < all) {
    snprintf(some, sizeof some, ", of which %s are trained", units_count(part, trained));
  }
  log_line(log, LOG_FAINT "model" LOG_PLAIN "     " LOG_BOLD "%s" LOG_PLAIN ", recipe %s: %s parameters%s, %s",
           word(run->model, "?"), word(run->recipe, "?"), units_count(count, all), some, word(run->optimizer, "?"));
}

void progress_header(Log *log, const ProgressFacts *facts) {
  const PlanRun *run = &facts->plan->run;
  char a[32], b[32], c[32];
  header_model(log, facts);
  log_line(log, LOG_FAINT "layout" LOG_PLAIN "    %s, precision %s, on %s", word(run->layout, "one rank"),
           word(run->precision, element_type_name(facts->plan->real)), facts->device);
  if (*facts->attention) {
    log_line(log, LOG_FAINT "attention" LOG_PLAIN " %s", facts->attention);
  }
  header_ranks(log, facts);
  header_memory(log, facts->set);
  header_devices(log, facts);
  DataFacts data = data_facts(facts->data);
  int64_t validation_windows = 0;
  for (int i = 0; i < data_set_count(facts->data); i++) {
    const char *name;
    validation_windows += data_facts(data_set(facts->data, i, &name)).validation_windows;
  }
  char files[UNITS_MAX] = "";
  if (data.files > 0) {
    snprintf(files, sizeof files, "%d file%s by pattern, ", data.files, data.files == 1 ? "" : "s");
  }
  log_line(log, LOG_FAINT "data" LOG_PLAIN "      %s: %s%s; %s windows to train on, %s to validate with", data.path,
           files, units_bytes(a, (double)data.bytes), units_count(b, (double)data.train_windows),
           units_count(c, (double)validation_windows));
  double tokens = (double)facts->steps * (double)run->batch * (double)run->sequence;
  log_line(log,
           LOG_FAINT "training" LOG_PLAIN "  %lld step%s of %lld x %lld tokens: %s tokens, %.3g times through the data",
           (long long)facts->steps, facts->steps == 1 ? "" : "s", (long long)run->batch, (long long)run->sequence,
           units_count(a, tokens), (double)facts->steps * (double)run->batch / (double)data.train_windows);
  if (facts->steps > run->steps) {
    log_line(log,
             LOG_YELLOW
             "note      learning rates are those of the recipe, which has %lld step%s; --set steps=%lld fits "
             "schedules to all of them" LOG_PLAIN,
             (long long)run->steps, run->steps == 1 ? "" : "s", (long long)facts->steps);
  }
  if (run->skip_count > 0) {
    header_skip(log, run);
  }
  if (validation_windows > 0 && facts->plan->programs[PROGRAM_EVALUATE].call_count == 0) {
    log_line(log, LOG_YELLOW
             "          there is no validation: the text cannot be evaluated under this layout; a note of the compiler "
             "says why" LOG_PLAIN);
  }
  if (validation_windows == 0) {
    log_line(log, LOG_YELLOW "          there is no validation: %s" LOG_PLAIN,
             run->validation_fraction > 0 ? "that part of the text is shorter than one window"
                                          : "the recipe keeps nothing back, `validation = 0`");
  }
  const char *answers = doubts_answers(facts->data, facts->masks);
  if (answers) {
    log_line(log, LOG_YELLOW "          %s" LOG_PLAIN, answers);
  }
  if (facts->compile_seconds > 0) {
    log_line(log, LOG_FAINT "compiled" LOG_PLAIN "  in %s", units_duration(a, facts->compile_seconds));
  }
  log_line(log, LOG_FAINT "run" LOG_PLAIN "       %s", facts->run);
  if (facts->first > 0) {
    log_line(log, LOG_FAINT "resumed" LOG_PLAIN "   after step %lld", (long long)facts->first);
  }
}

// The layer of experts whose busiest one has most to do, and what that is, of an even share.
static void add_load(Buffer *text, const MetricsLine *line) {
  static const char of[] = "load.";
  const Shown *most = NULL;
  for (int i = 0; i < line->measures.count; i++) {
    const Shown *load = &line->measures.at[i];
    const bool is = strncmp(load->name, of, sizeof of - 1) == 0 && isfinite(load->value);
    most = is && (!most || load->value > most->value) ? load : most;
  }
  if (most) {
    buffer_format(text, LOG_FAINT "  load" LOG_PLAIN " %.4g" LOG_FAINT " in %s" LOG_PLAIN, most->value,
                  most->name + sizeof of - 1);
  }
}

// Of a vector the first few.
static void add_shown(Buffer *text, const ShownList *shown) {
  enum { FEW = 4 };
  for (int i = 0; i < shown->count; i++) {
    const Shown *at = &shown->at[i];
    if (at->index == 0) {
      buffer_format(text, LOG_FAINT "  %s" LOG_PLAIN, at->name);
    }
    if (at->index < FEW) {
      buffer_format(text, " %.4g", at->value);
    } else if (at->index == FEW) {
      buffer_text(text, " ...");
    }
  }
}

void progress_step(Log *log, const ProgressFacts *facts, const MetricsLine *line, bool live) {
  Buffer text = {0};
  char a[32], b[32], c[32], total[32];
  snprintf(total, sizeof total, "%lld", (long long)facts->steps);
  buffer_format(&text, LOG_FAINT "step" LOG_PLAIN " %*lld/%s", (int)strlen(total), (long long)line->step, total);
  buffer_format(&text, LOG_FAINT "  loss " LOG_PLAIN LOG_BOLD "%.4f" LOG_PLAIN, line->loss);
  if (isfinite(line->grad_norm)) {
    buffer_format(&text, LOG_FAINT "  grad" LOG_PLAIN " %-6.3g", line->grad_norm);
  }
  if (isfinite(line->lr)) {
    buffer_format(&text, LOG_FAINT "  lr" LOG_PLAIN " %.2e", line->lr);
  }
  buffer_format(&text, LOG_FAINT "  " LOG_PLAIN "%s tok/s  %s FLOP/s  %s", units_count(a, line->tokens_per_s),
                units_count(b, line->tflops * 1e12), units_bytes(c, (double)line->memory_bytes));
  if (isfinite(line->mfu)) {
    buffer_format(&text, "  %.1f%% of peak", 100 * line->mfu);
  }
  add_shown(&text, &line->shown);
  add_load(&text, line);
  if (line->precision) {
    buffer_format(&text, LOG_FAINT "  %s" LOG_PLAIN, line->precision);
  }
  if (line->skipped > 0) {
    buffer_format(&text, LOG_YELLOW "  skipped %lld" LOG_PLAIN, (long long)line->skipped);
  }
  if (line->step < facts->steps) {
    double left = (double)(facts->steps - line->step) * line->step_ms / 1e3;
    buffer_format(&text, LOG_FAINT "  %s left" LOG_PLAIN, units_duration(a, left));
  }
  if (text.text) {
    (live ? log_live : log_record)(log, text.text);
  }
  buffer_free(&text);
}

void progress_still(Log *log, int64_t step, bool counts) {
  log_line(log,
           LOG_YELLOW "still" LOG_PLAIN "     all gradients of step %lld are 0, so nothing is learned from its batch%s",
           (long long)step, counts ? "" : ": no target in it counts, as `mask` and `share` are 0 for all of them");
}

void progress_skip(Log *log, int64_t step, int64_t before, int64_t batch) {
  if (batch == before + 2) {
    log_line(log, LOG_YELLOW "skip" LOG_PLAIN "      batch %lld: step %lld trains on batch %lld", (long long)before + 1,
             (long long)step, (long long)batch);
  } else if (batch > before + 2) {
    log_line(log, LOG_YELLOW "skip" LOG_PLAIN "      batches %lld .. %lld: step %lld trains on batch %lld",
             (long long)before + 1, (long long)batch - 1, (long long)step, (long long)batch);
  }
}

void progress_rate(Log *log, ProgressFacts *facts, int64_t step, double rate) {
  const long long steps = (long long)facts->plan->run.steps;
  if (rate < 0 && !facts->uphill) {
    log_line(log,
             LOG_YELLOW
             "note      the learning rate of step %lld is %g, below 0: updates make the loss larger; the recipe "
             "has %lld step%s%s" LOG_PLAIN,
             (long long)step, rate, steps, steps == 1 ? "" : "s",
             step > steps ? ", behind which its schedules are not meant to go" : "");
  }
  facts->uphill = rate < 0;
}

void progress_precision(Log *log, const ProgressFacts *facts, int64_t step) {
  const PlanPhase *before = plan_phase(facts->plan, step - 1), *now = plan_phase(facts->plan, step);
  if (now != before) {
    log_line(log, LOG_BLUE "precision" LOG_PLAIN " %s until step %lld, from here on %s", before->precision,
             (long long)step - 1, now->precision);
  }
}

static void progress_evaluation(Log *log, int64_t step, const char *name, const Evaluation *evaluation,
                                const ShownList *shown) {
  Buffer outputs = {0};
  char time[32], bytes[64] = "";
  if (evaluation->bytes > 0) {  // else nobody knows which text the tokens are
    snprintf(bytes, sizeof bytes, ", %.4f bits per byte", evaluate_bits_per_byte(evaluation));
  }
  if (evaluation->tokens == 0 && evaluation->windows > 0) {
    log_line(log, LOG_GREEN "eval" LOG_PLAIN " %lld%s%s: no answers in %lld windows, so no loss", (long long)step,
             *name ? " " : "", name, (long long)evaluation->windows);
    return;
  }
  add_shown(&outputs, shown);
  if (evaluation->unit != LOSS_NATS) {
    log_line(log,
             LOG_GREEN "eval" LOG_PLAIN " %lld%s%s: " LOG_BOLD "%.4f" LOG_PLAIN ", %s%s  " LOG_FAINT
                       "(%lld windows, %s)" LOG_PLAIN,
             (long long)step, *name ? " " : "", name, evaluation->loss, evaluate_unit(evaluation->unit),
             outputs.text ? outputs.text : "", (long long)evaluation->windows,
             units_duration(time, evaluation->seconds));
    buffer_free(&outputs);
    return;
  }
  log_line(log,
           LOG_GREEN "eval" LOG_PLAIN " %lld%s%s: " LOG_BOLD "%.4f" LOG_PLAIN
                     " nats per token, perplexity %.4g%s%s  " LOG_FAINT "(%lld windows, %s)" LOG_PLAIN,
           (long long)step, *name ? " " : "", name, evaluation->loss, exp(evaluation->loss), bytes,
           outputs.text ? outputs.text : "", (long long)evaluation->windows, units_duration(time, evaluation->seconds));
  buffer_free(&outputs);
}

void progress_validation(Log *log, const Validation *validation, int64_t step, const Evaluation *all,
                         const ShownList *shown) {
  static const ShownList none = {0};
  Buffer outputs = {0};
  for (int i = 0; i < validation->count; i++) {
    progress_evaluation(log, step, validation->name[i], &validation->result[i], validation->count == 1 ? shown : &none);
  }
  if (validation->count > 1 && all->tokens > 0) {
    add_shown(&outputs, shown);
    log_line(log, LOG_GREEN "eval" LOG_PLAIN " %lld, their mean: " LOG_BOLD "%.4f" LOG_PLAIN "%s", (long long)step,
             all->loss, outputs.text ? outputs.text : "");
    buffer_free(&outputs);
  }
  if (all->tokens > 0 && !isfinite(all->loss)) {
    log_line(log,
             LOG_YELLOW "warning" LOG_PLAIN
                        "   the validation loss of step %lld is %s: a value on the way to it is none, or too large",
             (long long)step, isnan(all->loss) ? "no number" : "infinite");
  }
}

void progress_end(Log *log, const ProgressFacts *facts, const MetricsLine *line, double seconds, int64_t beside) {
  char a[32], b[32], c[32];
  int64_t steps = line->step - facts->first, predicted = progress_predicted(facts->set, ARENA_CLASS_COUNT);
  predicted += beside > 0 ? 0 : progress_predicted(facts->set, ARENA_OFFLOAD);  // in the memory of this process
  log_line(log, LOG_FAINT "done" LOG_PLAIN "      %lld step%s in %s, %s tokens/s", (long long)steps,
           steps == 1 ? "" : "s", units_duration(a, seconds),
           units_count(b, seconds > 0 ? (double)steps * (double)facts->plan->run.batch *
                                            (double)facts->plan->run.sequence / seconds
                                      : 0));
  log_line(log, LOG_FAINT "memory" LOG_PLAIN "    peak %s measured, %s predicted for the plan%s%s%s",
           units_bytes(a, (double)line->memory_bytes), units_bytes(c, (double)predicted), beside > 0 ? " + " : "",
           beside > 0 ? units_bytes(b, (double)beside) : "", beside > 0 ? " of the driver and libraries" : "");
}
