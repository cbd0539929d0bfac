// bench_train.c: tokens per second of whole training steps on random tokens: the jobs that peers are compared at.
//
// Tokens/s are those of all ranks together, TFLOP/s and the share of peak those of one, GiB of the one with most.
//
//   bench_train [--device cuda|cpu] [--precision NAME] [--layout NAME | --strict] [--steps N] [--warm SECONDS]
//               [--profile] [--kernels] [--logits BYTES] [--set NAME=VALUE]... JOB...
//
// A JOB is a name of the table below, or FILE:RECIPE. One line for each: the median step after a warm-up in which the
// chip's clocks settle. --layout: one of the text's; --strict: its layout `strict`. --profile: then a table of where
// the time of one step goes; --kernels: what each kernel reaches of the speed of a copy, over several steps.
// --logits: so many bytes of logits at once at most, in place of what the compiler chooses.
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "runtime/clock.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "tests/bench_inputs.h"
#include "tests/bench_kernels.h"

enum { SETS_MAX = 32, STEPS_MAX = 4096, PROFILE_ROWS = 60 };

typedef struct {
  const char *name, *file, *recipe;
  const char *set[8];
} Job;

static const Job jobs[] = {
    {"gpt2", "models/gpt2.mdl", "gpt2_124m", {"batch=64", "seq=1024"}},
    {"gpt2-xl", "models/gpt2.mdl", "gpt2_1558m", {"batch=16", "seq=1024"}},
    {"llama1b", "models/llama.mdl", "llama_1b", {"batch=4", "seq=4096", "vocab=32000"}},
    {"llama8b-8", "models/llama.mdl", "llama3_8b", {"batch=2", "seq=4096", "vocab=32000", "layers=8"}},
};

typedef struct {
  const char *device, *precision, *layout;
  const char *set[SETS_MAX];
  int set_count;
  int64_t steps;
  double warm;  // seconds of steps before those that count
  bool profile, kernels;
  int64_t logits;  // bytes of them at once; 0: as the compiler chooses
} Settings;

static bool failed(const char *job, const Error *error) {
  fprintf(stderr, "bench_train: %s: %s\n", job, error->text);
  return false;
}

typedef struct {
  double seconds, first_seconds, first_loss, loss;
} Measured;

// Steps one behind the other, as in training; a step's time is from one end to the next.
static bool measure(Session *session, const Settings *settings, Measured *measured, Error *error) {
  static double times[STEPS_MAX];
  int64_t step = 0, timed = 0, ahead = session_ahead(session);
  const double start = clock_seconds();
  double before = start;
  while (timed < settings->steps) {
    step++;
    if (!inputs_write(session, step, error) || !session_submit(session, PROGRAM_TRAIN, step, error) ||
        !session_wait(session, (int)ahead, error)) {
      return false;
    }
    const double now = clock_seconds();
    if (step == 1 + ahead) {
      measured->first_seconds = now - start;
      if (!session_scalar(session, PROGRAM_TRAIN, "loss", &measured->first_loss, error)) {
        return false;
      }
    }
    if (now - start > settings->warm && step > 3) {
      times[timed++] = now - before;
    }
    before = now;
  }
  qsort(times, (size_t)timed, sizeof *times, compare_seconds);
  measured->seconds = times[timed / 2];
  return session_wait(session, 0, error) && session_scalar(session, PROGRAM_TRAIN, "loss", &measured->loss, error);
}

static bool profile(Session *session, Error *error) {
  Buffer table = {0};
  session_trace(session, true);
  const bool good = session_run(session, PROGRAM_TRAIN, 1000, error);
  session_trace(session, false);
  trace_table(session, 1, PROFILE_ROWS, &table);
  if (good && table.text) {
    fputs(table.text, stdout);
  }
  buffer_free(&table);
  return good;
}

static bool run_session(Session *session, const Job *job, const Settings *settings, double rate, double open_seconds,
                        Error *error) {
  Measured measured = {0};
  DeviceFacts facts;
  if (!session_run(session, PROGRAM_INITIALISE, 0, error) || !measure(session, settings, &measured, error)) {
    return false;
  }
  const PlanRun *run = &session->plan->run;
  const double tokens = (double)run->batch * (double)run->sequence;
  double flops = 0, taken = 0, predicted = 0;  // flops: of a rank, the mean; bytes: of the rank with most
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    const Plan *plan = session_plan(session, rank);
    double bytes = 0;
    session->backend->facts(session_device(session, rank), &facts);
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      bytes += i == ARENA_OFFLOAD ? 0 : (double)plan->arena_bytes[i];
    }
    flops += plan->programs[PROGRAM_TRAIN].flops / (double)session->ranks;
    taken = fmax(taken, (double)facts.memory_bytes);
    predicted = fmax(predicted, bytes + (double)facts.beside_bytes);
  }
  printf(
      "OURS %s %s %s B=%lld T=%lld N=%.0fM tok/s=%.0f TFLOPs=%.4g mfu=%.1f%% GiB=%.2f predicted=%.2f ms=%.2f "
      "gap_us=%.1f open_s=%.1f first=%.3f loss=%.3f ranks=%lld layout=%s on %s\n",
      job->name, run->precision ? run->precision : "fp32", run->strict ? "strict" : "fast", (long long)run->batch,
      (long long)run->sequence, run->parameters / 1e6, tokens / measured.seconds, flops / measured.seconds / 1e12,
      100 * flops / measured.seconds / facts.peak_flops, taken / 1073741824, predicted / 1073741824,
      measured.seconds * 1e3, facts.gap_seconds * 1e6, open_seconds, measured.first_loss, measured.loss,
      (long long)session->ranks, run->layout ? run->layout : "single", facts.name);
  fflush(stdout);
  return (!settings->profile || profile(session, error)) &&
         (!settings->kernels || kernels_table(session, rate, measured.seconds, error));
}

static bool run_job(const Job *job, const Settings *settings) {
  Error error = {0};
  Session session = {0};
  PlanSet *set = NULL;
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CompileOptions options = {.file = job->file,
                            .recipe = job->recipe,
                            .layout = settings->layout,
                            .precision = settings->precision,
                            .chunk_bytes = settings->logits};
  const char *sets[SETS_MAX + 8];
  for (int i = 0; i < 8 && job->set[i]; i++) {
    sets[options.set_count++] = job->set[i];
  }
  for (int i = 0; i < settings->set_count; i++) {
    sets[options.set_count++] = settings->set[i];
  }
  options.set = sets;
  bool good = compile_plans(arena, diag, &options, &set);
  if (!good) {
    diag_print(diag, stderr, false);
  } else {
    const SessionOptions open = {.deadline_seconds = 60};
    const Backend *backend = backend_choose(settings->device, plan_ranks(set->plans[0]), &error);
    double rate = 0;  // of a copy: while the device is empty
    good = backend && (!settings->kernels || plan_ranks(set->plans[0]) == 1 ||
                       error_set(&error, 2, "--kernels is for layouts of one rank"));
    good = good && (!settings->kernels || copy_rate_of(backend, &rate, &error));
    const double start = clock_seconds();
    good = (good && session_open_ranks(&session, set, backend, &open, &error) &&
            run_session(&session, job, settings, rate, clock_seconds() - start, &error)) ||
           failed(job->name, &error);
    session_close(&session);
  }
  arena_destroy(arena);
  return good;
}

static bool job_of(char *name, Job *job) {
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    if (strcmp(jobs[i].name, name) == 0) {
      *job = jobs[i];
      return true;
    }
  }
  char *recipe = strchr(name, ':');
  if (!recipe) {
    fprintf(stderr, "bench_train: there is no job '%s'; give one of the table, or FILE:RECIPE\n", name);
    return false;
  }
  *recipe = '\0';
  *job = (Job){.name = recipe + 1, .file = name, .recipe = recipe + 1};
  return true;
}

static bool settings_read(int count, char **words, Settings *settings) {
  static const struct option options[] = {{"device", 1, NULL, 'd'},
                                          {"precision", 1, NULL, 'p'},
                                          {"layout", 1, NULL, 'l'},
                                          {"strict", 0, NULL, 'x'},
                                          {"steps", 1, NULL, 'n'},
                                          {"warm", 1, NULL, 'w'},
                                          {"profile", 0, NULL, 't'},
                                          {"kernels", 0, NULL, 'k'},
                                          {"set", 1, NULL, 's'},
                                          {"logits", 1, NULL, 'g'},
                                          {0}};
  for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
    if (option == 'd') {
      settings->device = optarg;
    } else if (option == 'p') {
      settings->precision = optarg;
    } else if (option == 'l') {
      settings->layout = optarg;
    } else if (option == 'x') {
      settings->layout = "strict";
    } else if (option == 'n') {
      settings->steps = strtol(optarg, NULL, 10);
    } else if (option == 'w') {
      settings->warm = strtod(optarg, NULL);
    } else if (option == 'g') {
      settings->logits = strtoll(optarg, NULL, 10);
    } else if (option == 't') {
      settings->profile = true;
    } else if (option == 'k') {
      settings->kernels = true;
    } else if (option == 's' && settings->set_count < SETS_MAX) {
      settings->set[settings->set_count++] = optarg;
    } else {
      return false;
    }
  }
  settings->steps = settings->steps < 1 ? 1 : settings->steps > STEPS_MAX ? STEPS_MAX : settings->steps;
  return optind < count;
}

int main(int count, char **words) {
  Settings settings = {.device = "auto", .precision = "bf16", .steps = 20, .warm = 3};
  if (!settings_read(count, words, &settings)) {
    fputs("bench_train: no job, or an option that it does not have\n", stderr);
    return 2;
  }
  bool good = true;
  for (int i = optind; i < count; i++) {
    Job job;
    good = job_of(words[i], &job) && run_job(&job, &settings) && good;
  }
  return good ? 0 : 1;
}
