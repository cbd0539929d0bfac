// eval_command.c: the command `mdl eval`.
#include "runtime/eval_command.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/plain.h"
#include "runtime/evaluate.h"
#include "runtime/mdl.h"

const Option eval_options[EVAL_OPTION_COUNT] = {
    {"data", 0, OPTION_TEXT, "FILE", offsetof(EvalValues, data), 0,
     "all of this file (default: what the run validates with)"},
    {"batches", 0, OPTION_INTEGER, "N", offsetof(EvalValues, batches), 0,
     "at most this many batches (default: 0, all)"},
    {"device", 0, OPTION_TEXT, "cpu|cuda|auto", offsetof(EvalValues, device), 0, "where to run (default: auto)"},
    {"threads", 0, OPTION_INTEGER, "N", offsetof(EvalValues, threads), 0, "processor threads (default: all cores)"},
    TRUNK_OPTION(EvalValues),
    TRUST_OPTION(EvalValues),
    JSON_OPTION(EvalValues, "the same numbers"),
};

typedef struct {
  const char *name;
  double value;
} EvalOutput;

typedef struct {
  Arena *arena;
  EvalOutput *at;
  int count;
} EvalOutputs;

static void eval_keep(void *context, const char *name, double value) {
  EvalOutputs *outputs = context;
  EvalOutput *longer = ARENA_ARRAY(outputs->arena, EvalOutput, outputs->count + 1);
  if (outputs->count > 0) {
    memcpy(longer, outputs->at, sizeof *longer * (size_t)outputs->count);
  }
  longer[outputs->count++] = (EvalOutput){arena_format(outputs->arena, "%s", name), value};
  outputs->at = longer;
}

typedef struct {
  const MdlEvaluation *result;
  const EvalOutputs *outputs;
} EvalSaying;

static json_t *eval_json(void *context) {
  const EvalSaying *saying = context;
  const MdlEvaluation *result = saying->result;
  const EvalOutputs *outputs = saying->outputs;
  json_t *values = json_object();
  for (int i = 0; i < outputs->count; i++) {
    json_object_set_new(values, outputs->at[i].name, json_finite(outputs->at[i].value));
  }
  json_t *sets = json_array();
  for (int i = 0; i < result->set_count; i++) {
    json_array_append_new(
        sets, json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b}", "name", json_text(result->sets[i].name), "loss",
                        json_finite(result->sets[i].loss), "bits_per_byte", json_finite(result->sets[i].bits_per_byte),
                        "data", json_text(result->sets[i].data), "windows", (json_int_t)result->sets[i].windows,
                        "all_windows", (json_int_t)result->sets[i].all_windows, "tokens",
                        (json_int_t)result->sets[i].tokens, "trained", (int)result->sets[i].trained));
  }
  return json_pack("{s:I, s:o, s:s, s:o, s:o, s:o, s:f, s:b, s:b, s:I, s:I, s:I, s:f, s:o, s:o}", "step",
                   (json_int_t)result->step, "loss", json_finite(result->loss), "unit", result->unit, "perplexity",
                   json_finite(result->perplexity), "bits_per_byte", json_finite(result->bits_per_byte), "data",
                   json_text(result->data), "held_out", result->held_out, "trained", (int)result->trained, "changed",
                   (int)result->changed, "windows", (json_int_t)result->windows, "all_windows",
                   (json_int_t)result->all_windows, "tokens", (json_int_t)result->tokens, "seconds", result->seconds,
                   "outputs", values, "sets", sets);
}

static bool in_nats(const MdlEvaluation *result) {
  return strcmp(result->unit, evaluate_unit(LOSS_NATS)) == 0;
}

// Of a loss that is not in nats per token nothing is known of one token, or of one byte.
static void print_measures(const MdlEvaluation *result) {
  printf("loss           %.6f%s%s\n", result->loss, in_nats(result) ? " " : ", ", result->unit);
  if (isnan(result->perplexity)) {
    return;
  }
  printf("perplexity     %.6g\n", result->perplexity);
  if (isnan(result->bits_per_byte)) {
    printf("bits per byte  not known: the recipe names no tokenizer for all of the data\n");
  } else {
    printf("bits per byte  %.6f\n", result->bits_per_byte);
  }
}

// Of a pattern one of its files is enough to be `trained`, and a note says how many are. `before`: stands ahead of it.
static const char *trained_said(Arena *arena, const char *before, bool trained, const char *data) {
  const bool pattern = strpbrk(data, "*?[") && access(data, F_OK) != 0;
  return !trained ? ""
                  : arena_format(arena, "%s%swhich the run was trained on", before, pattern ? "all or some of " : "");
}

// What stands before what was read, `whole` where that is all of it.
static const char *part_said(Arena *arena, const char *whole, int64_t windows, int64_t all) {
  return windows >= all ? whole : arena_format(arena, "%lld of %lld windows of ", (long long)windows, (long long)all);
}

static void print_sets(Arena *arena, const MdlEvaluation *result) {
  for (int i = 0; i < result->set_count; i++) {
    const int64_t windows = result->sets[i].windows, all = result->sets[i].all_windows;
    const char *name = result->sets[i].name, *data = result->sets[i].data;
    if (result->sets[i].tokens == 0) {
      printf("%-14s no answers, and so no loss: ", *name ? name : "validation");
    } else if (!in_nats(result)) {
      printf("%-14s %.6f: ", *name ? name : "validation", result->sets[i].loss);
    } else if (isnan(result->sets[i].bits_per_byte)) {
      printf("%-14s %.6f nats per token: ", *name ? name : "validation", result->sets[i].loss);
    } else {
      printf("%-14s %.6f nats per token, %.6g bits per byte: ", *name ? name : "validation", result->sets[i].loss,
             result->sets[i].bits_per_byte);
    }
    printf("%s", part_said(arena, "all of ", windows, all));
    plain_put(stdout, data);
    printf("%s%s\n", windows < all ? "" : arena_format(arena, ", %lld windows", (long long)windows),
           trained_said(arena, ", ", result->sets[i].trained, data));
  }
}

static void print_data(Arena *arena, const MdlEvaluation *result) {
  const char *changed = result->changed
                            ? "; it is not what these weights were trained on, or was changed since: text may be "
                              "among it that was trained on"
                            : "";
  const char *part = part_said(arena, result->held_out > 0 && result->set_count == 0 ? "" : "all of ", result->windows,
                               result->all_windows);
  if (result->set_count > 1) {
    printf("data           sources that the recipe validates with, each counted once%s\n", changed);
  } else if (result->set_count == 1) {
    printf("data           %s", part);
    plain_put(stdout, result->data);
    printf(", which the recipe validates with%s%s\n", trained_said(arena, " and ", result->trained, result->data),
           changed);
  } else if (result->held_out > 0) {
    printf("data           %sthe last %g%% of ", part, result->held_out * 100);
    plain_put(stdout, result->data);
    printf("%s%s\n",
           result->trained   ? ", which the run does not train on, but did before in part"
           : result->changed ? ""
                             : ", which the run does not train on",
           changed);
  } else {
    printf("data           %s", part);
    plain_put(stdout, result->data);
    printf("%s\n", result->changed
                       ? ", of the data that the run's text names; as a whole that is not what these weights "
                         "were trained on: this may be text that was"
                       : trained_said(arena, ", ", result->trained, result->data));
  }
}

int eval_main(Arena *arena, const void *values, const OptionList *arguments) {
  const EvalValues *eval = values;
  EvalOutputs outputs = {.arena = arena};
  MdlError error;
  MdlEvaluation result;
  MdlEvaluateOptions options = {.device = eval->device,
                                .data = eval->data,
                                .batches = eval->batches,
                                .threads = eval->threads,
                                .trust = eval->trust,
                                .trunk = eval->trunk,
                                .output = eval_keep,
                                .context = &outputs,
                                .notes = stderr};
  if (mdl_evaluate(arguments->at[0], &options, &result, &error)) {
    fprintf(stderr, "mdl: %s\n", error.text);
    return (int)error.status;
  }
  if (result.tokens > 0 && !isfinite(result.loss)) {
    fprintf(stderr, "warning: the loss is %s: a value on the way to it is none, or too large\n",
            isnan(result.loss) ? "no number" : "infinite");
  }
  if (eval->json) {
    EvalSaying saying = {.result = &result, .outputs = &outputs};
    return json_line(stdout, "mdl eval", eval_json, &saying) ? STATUS_DONE : STATUS_MEMORY;
  }
  printf("step           %lld\n", (long long)result.step);
  print_measures(&result);
  for (int i = 0; i < outputs.count; i++) {
    printf("%-14s %.6g\n", outputs.at[i].name, outputs.at[i].value);
  }
  print_sets(arena, &result);
  print_data(arena, &result);
  printf("tokens         %lld in %lld windows\n", (long long)result.tokens, (long long)result.windows);
  printf("speed          %.0f tokens/s\n", result.seconds > 0 ? (double)result.tokens / result.seconds : 0.0);
  return STATUS_DONE;
}
