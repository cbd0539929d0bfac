// ablate_row.c: one combination: compiled, trained for a few steps, measured.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ablate.h"
#include "runtime/clock.h"
#include "runtime/interrupt.h"
#include "runtime/trace.h"
#include "runtime/trained.h"
#include "runtime/trial.h"

static const double LIVE_SECONDS = 0.1;  // between two updates of the live line

static void row_live(Ablate *ablate, const AblateRow *row, const char *words, double loss) {
  char text[512];
  int length = snprintf(text, sizeof text, LOG_FAINT "%d/%d" LOG_PLAIN "  %.300s  ", (int)(row - ablate->rows) + 1,
                        ablate->count, row->name);
  if (words) {
    snprintf(text + length, sizeof text - (size_t)length, "%s", words);
  } else {
    snprintf(text + length, sizeof text - (size_t)length,
             LOG_FAINT "step" LOG_PLAIN " %lld/%lld" LOG_FAINT "  loss " LOG_PLAIN "%.4f", (long long)row->steps,
             (long long)ablate->options->steps, loss);
  }
  log_live(&ablate->log, text);
}

static int compare_seconds(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

// Submits steps as far ahead as the device allows, as train does, and takes the time from the end of one to the next.
static bool row_steps(Ablate *ablate, AblateRow *row, Trial *trial, Error *error) {
  const int64_t wanted = ablate->options->steps, ahead = session_ahead(&trial->session);
  double *times = ARENA_ARRAY(trial->arena, double, wanted + 1);
  double before = clock_seconds(), live = 0;
  int64_t submitted = 0;
  while (row->steps < submitted || (row->steps < wanted && !interrupt_requested())) {
    double loss;
    while (submitted < wanted && submitted - row->steps <= ahead && !interrupt_requested()) {
      if (!trial_submit(trial, ++submitted, error)) {
        return false;
      }
    }
    if (!trial_collect(trial, (int)(submitted - row->steps - 1), &loss, error)) {
      return false;
    }
    const double now = clock_seconds();
    times[row->steps] = now - before;
    before = now;
    row->loss[row->steps++] = loss;
    if (now - live > LIVE_SECONDS) {
      row_live(ablate, row, NULL, loss);
      live = now;
    }
  }
  const int64_t first = row->steps > 1 ? 1 : 0, count = row->steps - first;
  qsort(times + first, (size_t)count, sizeof *times, compare_seconds);
  row->seconds = count > 0 ? times[first + count / 2] : NAN;
  return true;
}

// What the devices took, or else how much this process has grown since it had `before` bytes, for each of its ranks.
static void row_memory(Ablate *ablate, AblateRow *row, const Session *session, int64_t before) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    DeviceFacts facts;
    session->backend->facts(session_device(session, rank), &facts);
    snprintf(ablate->device, sizeof ablate->device, "%s", facts.name);
    row->peak_flops = facts.peak_flops;
    if (facts.memory_bytes >= 0) {
      const double taken = (double)(facts.memory_bytes - facts.beside_bytes);
      row->beside = rank == 0 || taken > row->taken ? (double)facts.beside_bytes : row->beside;
      row->taken = rank == 0 ? taken : fmax(row->taken, taken);
    } else {
      row->taken = fmax(0, (double)(clock_memory() - before)) / (double)session->ranks;
    }
  }
}

// One more step, timed instruction by instruction.
static bool row_exposed(AblateRow *row, Trial *trial, Error *error) {
  Session *session = &trial->session;
  double loss, total = 0;
  session_trace(session, true);
  if (!trial_step(trial, row->steps + 1, &loss, error)) {
    return false;
  }
  session_trace(session, false);
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    int64_t count = 0;
    const TraceSpan *spans = session->backend->traced(session_device(session, rank), &count);
    Exposure of;
    if ((count > 0 && !spans) || !trace_exposure(session_plan(session, rank), spans, count, &of)) {
      return error_set(error, 3, "no memory for the times of a step");
    }
    total += of.exposed;
  }
  row->exposed = total / (double)session->ranks;
  return true;
}

// Ranks that have no device of their own: says so.
static bool row_absent(const Ablate *ablate, AblateRow *row) {
  if (ablate->devices == 0 || row->ranks <= ablate->devices) {
    return false;
  }
  row->state = ROW_ABSENT;
  row->problem = arena_format(ablate->arena, "%lld ranks, each on a GPU of its own, and this machine has %d",
                              (long long)row->ranks, ablate->devices);
  return true;
}

// Beside the loss: what rows whose losses are made in other ways can be compared by.
static void row_outputs(Ablate *ablate, AblateRow *row, const Validation *validation, const ShownList *shown) {
  row->outputs = ARENA_ARRAY(ablate->arena, AblateOutput, validation->count + shown->count + 1);
  for (int i = 0; i < validation->count; i++) {
    if (*validation->name[i]) {
      row->outputs[row->output_count++] =
          (AblateOutput){arena_format(ablate->arena, "val_loss.%s", validation->name[i]), validation->result[i].loss};
    }
  }
  for (int i = 0; i < shown->count; i++) {
    const Shown *one = &shown->at[i];
    row->outputs[row->output_count++] =
        (AblateOutput){arena_format(ablate->arena, "%s", shown_called(one, one->key)), one->value};
  }
}

static bool row_windows(AblateRow *row, const Trial *trial, Error *error) {
  const Validation *validation = &trial->validation;
  const Plan *plan = trial->set->plans[0];
  DataPrint print;
  row->windows.held_out = plan->run.validation_fraction;
  row->windows.sequence = validation->count > 0 ? feed_sequence(validation->feed[0]) : 0;
  for (int i = 0; i < validation->count; i++) {
    row->windows.windows += validation->result[i].windows;
  }
  return validation->count == 0 ||
         (data_fingerprint(trial->data, &print, error) &&
          trained_windows(trial->data, &print, row->windows.held_out, validation_limit(plan, plan->run.eval_batches),
                          feed_rows(validation->feed[0]), row->windows.sequence, &row->windows.number, error));
}

static bool row_train(Ablate *ablate, AblateRow *row, Trial *trial, Error *error) {
  const AblateOptions *options = ablate->options;
  const TrialOptions opening = {.data = options->data,
                                .backend = ablate->backend,
                                .threads = options->threads,
                                .deadline_seconds = options->deadline_seconds,
                                .validates = true};
  clock_memory_settle();  // of rows before this one
  const int64_t before = clock_memory();
  row_live(ablate, row, "opening", 0);
  if (!trial_open(trial, &opening, error) ||
      !ablate_doubt_data(ablate, row, trial->data, feed_masks(trial->feed), error)) {
    return false;
  }
  row->tokens = (double)(feed_rows(trial->feed) * feed_sequence(trial->feed));
  if (!row_steps(ablate, row, trial, error)) {
    return false;
  }
  row->state = row->steps == options->steps ? ROW_DONE : ROW_STOPPED;
  row_memory(ablate, row, &trial->session, before);
  row_live(ablate, row, "validating", 0);
  if (interrupt_requested()) {
    return true;
  }
  double validation;
  ShownList shown = {0};
  const bool validated = trial_validate(trial, &shown, &validation, error);
  if (validated && !interrupt_requested()) {
    row_outputs(ablate, row, &trial->validation, &shown);
  }
  shown_close(&shown);
  if (!validated) {
    return false;
  }
  row->validation = interrupt_requested() ? NAN : validation;  // not of a part of the windows
  row->validates = trial->validation.count > 0 && !interrupt_requested();
  return row_windows(row, trial, error) &&
         (ablate->devices == 0 || row->ranks == 1 || interrupt_requested() || row_exposed(row, trial, error));
}

static bool row_try(Ablate *ablate, AblateRow *row, Trial *trial, Error *error) {
  const double start = clock_seconds();
  row_live(ablate, row, "compiling", 0);
  if (!trial_compile(trial, &row->options, error)) {
    const bool misread = trial->diag && choices_misread(&ablate->choices, trial->diag);
    row->state = choices_sweep(&ablate->choices) && !misread ? ROW_ILLEGAL : ROW_FAILED;
    return false;
  }
  row->compile_seconds = clock_seconds() - start;
  ablate_measure(trial->arena, trial->set, row);
  ablate_doubt_text(ablate, row, trial->diag);
  const PlanRun *run = &trial->set->plans[0]->run;
  row->schedule = run->steps;
  row->data = arena_format(ablate->arena, "%s %s %s", run->data_kind, run->data_path ? run->data_path : "",
                           run->tokenizer ? run->tokenizer : "");
  row->state = ablate->options->dry ? ROW_PLANNED : ROW_FAILED;
  return ablate->options->dry || row_absent(ablate, row) || row_train(ablate, row, trial, error);
}

void ablate_row(Ablate *ablate, AblateRow *row) {
  Trial trial = {0};
  Error error = {0};
  if (!row_try(ablate, row, &trial, &error)) {
    row->state = row->state == ROW_ILLEGAL ? ROW_ILLEGAL : ROW_FAILED;
    row->problem = arena_format(ablate->arena, "%.*s", (int)strcspn(error.text, "\n"), error.text);
  }
  trial_close(&trial);
  if (!ablate->log.terminal && !ablate->options->dry) {  // one flushed line for each row; a terminal has the live line
    char loss[48] = "";
    if (row->steps > 0) {
      snprintf(loss, sizeof loss, "  loss %.6f", row->loss[row->steps - 1]);
    }
    log_line(&ablate->log, "%d/%d  %s%s%s%s", (int)(row - ablate->rows) + 1, ablate->count, row->name, loss,
             row->problem ? "  " : "", row->problem ? row->problem : "");
  }
}
