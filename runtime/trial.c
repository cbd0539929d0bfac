// trial.c: compiling, opening and stepping, as train does it but for what a run keeps.
#include "runtime/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const Diagnostic *first_error(const Diag *diag) {
  for (int i = 0; i < diag->all.count; i++) {
    if (diag->all.at[i].severity == SEVERITY_ERROR) {
      return &diag->all.at[i];
    }
  }
  return NULL;
}

void trial_problem(const Diag *diag, char text[ERROR_MAX]) {
  const Diagnostic *found = first_error(diag);
  text[0] = '\0';
  if (found) {
    trial_said(diag, found, text);
  }
}

void trial_said(const Diag *diag, const Diagnostic *found, char text[ERROR_MAX]) {
  int line = 0, column, length = 0;
  if (found->span.file >= 0 && found->span.file < diag->sources.count) {
    diag_position(diag, found->span, &line, &column);
    length = snprintf(text, ERROR_MAX, "%.300s:%d: ", diag->sources.at[found->span.file].path, line);
  }
  snprintf(text + length, (size_t)(ERROR_MAX - length), "%s: %s%s%s", error_code_name(found->code), found->message,
           found->help ? "; " : "", found->help ? found->help : "");
}

const char *trial_line(Arena *arena, const Diag *diag, Span span) {
  int line, column;
  if (span.file < 0 || span.file >= diag->sources.count) {
    return "";
  }
  const char *path = diag->sources.at[span.file].path, *slash = strrchr(path, '/');
  diag_position(diag, span, &line, &column);
  return arena_format(arena, "%s:%d", slash ? slash + 1 : path, line);
}

bool trial_compile(Trial *trial, const CompileOptions *options, Error *error) {
  char text[ERROR_MAX];
  *trial = (Trial){.arena = arena_create()};
  if (!trial->arena) {
    return error_set(error, 3, "no memory");
  }
  trial->diag = diag_create(trial->arena);
  if (compile_plans(trial->arena, trial->diag, options, &trial->set)) {
    return true;
  }
  trial_problem(trial->diag, text);
  return error_set(error, trial->diag->no_memory ? 3 : 1, "%s", text[0] ? text : "it does not compile");
}

bool trial_open(Trial *trial, const TrialOptions *options, Error *error) {
  const Plan *plan = trial->set->plans[0];
  const PlanRun *run = &plan->run;
  int64_t rows, sequence;
  if (plan->programs[PROGRAM_TRAIN].call_count == 0 || plan->programs[PROGRAM_INITIALISE].call_count == 0) {
    return error_set(error, 1, "there is no %s program; the text needs a recipe that has an optimizer",
                     program_kind_name(PROGRAM_TRAIN));
  }
  DataOptions data = {.kind = run->data_kind,
                      .path = run->data_path,
                      .file = options->data,
                      .base = run->data_base,
                      .tokenizer = run->tokenizer,
                      .validation_fraction = run->validation_fraction,
                      .sequence = run->sequence,
                      .seed = run->seed};
  if (feed_shape(trial->set, PROGRAM_TRAIN, &rows, &sequence)) {
    data.sequence = sequence;
  }
  const SessionOptions session = {
      .threads = options->threads, .deadline_seconds = options->deadline_seconds, .apart = true, .several = true};
  const Backend *backend = options->backend ? options->backend : &backend_cpu;
  if (!data_open(&data, &trial->data, error) ||
      !feed_create(trial->set, PROGRAM_TRAIN, trial->data, &trial->feed, error)) {
    return false;
  }
  const bool validates = options->validates && plan->programs[PROGRAM_EVALUATE].call_count > 0;
  return (!validates || validation_open(&trial->validation, trial->set, trial->data, error)) &&
         session_open_ranks(&trial->session, trial->set, backend, &session, error) &&
         session_run(&trial->session, PROGRAM_INITIALISE, 0, error);
}

bool trial_submit(Trial *trial, int64_t step, Error *error) {
  const int64_t batch = plan_batch_after(&trial->set->plans[0]->run, 0, step);
  return feed_train(trial->feed, &trial->session, batch, error) &&
         session_submit(&trial->session, PROGRAM_TRAIN, step, error);
}

bool trial_collect(Trial *trial, int behind, double *loss, Error *error) {
  return session_wait(&trial->session, behind, error) &&
         session_scalar(&trial->session, PROGRAM_TRAIN, "loss", loss, error);
}

bool trial_step(Trial *trial, int64_t step, double *loss, Error *error) {
  return trial_submit(trial, step, error) && trial_collect(trial, 0, loss, error);
}

bool trial_validate(Trial *trial, ShownList *shown, double *loss, Error *error) {
  Evaluation evaluation = {.loss = NAN};
  const Plan *plan = trial->set->plans[0];
  const int64_t batches = validation_limit(plan, plan->run.eval_batches);
  const bool any = trial->validation.count > 0;
  const bool done = !any || ((!shown || shown_open(shown, &trial->session, PROGRAM_EVALUATE, "val_", error)) &&
                             validation_run(&trial->validation, &trial->session, batches, shown, &evaluation, error));
  *loss = evaluation.loss;
  return done;
}

void trial_close(Trial *trial) {
  session_close(&trial->session);
  feed_destroy(trial->feed);
  validation_close(&trial->validation);
  data_close(trial->data);
  arena_destroy(trial->arena);
  *trial = (Trial){0};
}
