// api_use.c: what mdl.h says of runs that are used: evaluating, and generating text.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "runtime/api_internal.h"
#include "runtime/data/doubts.h"
#include "runtime/data/files.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/overlap.h"
#include "runtime/data/source.h"
#include "runtime/data/token_file.h"
#include "runtime/device.h"
#include "runtime/evaluate.h"
#include "runtime/feed.h"
#include "runtime/generate.h"
#include "runtime/generate_chat.h"
#include "runtime/restore.h"
#include "runtime/shown.h"
#include "runtime/trained_of.h"
#include "runtime/validation.h"

// The run's own data, or all of a file.
static DataOptions data_options(const PlanSet *set, const char *path) {
  const Plan *plan = set->plans[0];
  int64_t rows, sequence = plan->run.sequence;
  feed_shape(set, PROGRAM_EVALUATE, &rows, &sequence);
  return (DataOptions){.kind = plan->run.data_kind,
                       .path = plan->run.data_path,
                       .file = path,
                       .all = path != NULL,
                       .base = plan->run.data_base,
                       .tokenizer = plan->run.tokenizer,
                       .validation_fraction = path ? 1 : plan->run.validation_fraction,
                       .sequence = sequence,
                       .seed = plan->run.seed};
}

// Data of an evaluation: what the run validates with, or all of another file.
static bool evaluation_data(const PlanSet *set, const char *path, Data **data, Error *error) {
  const DataOptions options = data_options(set, path);
  if (!data_open(&options, data, error)) {
    return false;
  }
  DataFacts facts = data_facts(*data);
  if (data_set_count(*data) == 0 && !path && facts.validation_tokens == 0) {
    return error_set(error, 1,
                     "the run holds nothing of %s back, `validation = 0`; name what to evaluate on: --data FILE",
                     facts.path);
  }
  return data_set_count(*data) > 0 ||
         error_set(error, 1,
                   "%s has %lld tokens to evaluate on, less than one window of %lld; give a longer --data FILE",
                   facts.path, (long long)(facts.validation_tokens), (long long)options.sequence + 1);
}

// Tokens of another tokenizer mean other text. Of a mix and one file, nobody knows whose the file's are.
static bool evaluation_tokenizer(const Restored *restored, const char *path, const Data *data, Error *error) {
  const uint64_t saved = restored->facts.tokenizer_hash;
  uint64_t print = saved;
  if (path && restored->plan->run.data_kind && strcmp(restored->plan->run.data_kind, "mix") == 0) {
    return true;
  }
  return data_fingerprint_tokenizers(data, &print, error) &&
         (saved == 0 || saved == print ||
          error_set(error, 1,
                    "the tokenizer of %s is not the one that this run was trained with: the same tokens mean other "
                    "text; put that file back",
                    data_facts(data).path));
}

// The files of a source that the run is trained on; those that are gone are none of them.
static bool files_trained_on(const PlanRun *run, const char *kind, const char *name, Overlap *trained, Error *error) {
  char placed[PATH_MAX], tokens[PATH_MAX];
  Files files;
  Error ignored;
  if (strncmp(kind, "tokens", strlen("tokens")) == 0 && token_file_path(name, tokens, sizeof tokens, &ignored)) {
    name = tokens;
  }
  if (!files_pattern(name, run->data_base)) {
    return !data_place(name, run->data_base, placed) || overlap_add(trained, placed, error);
  }
  // Of a pattern that cannot be read to its end, those that were found are some of them.
  bool done = files_find("data file", name, run->data_base, &files, &ignored) || ignored.status != 3 ||
              error_set(error, 3, "no memory for the files of %s", name);
  for (int i = 0; done && i < files.count; i++) {
    done = overlap_add(trained, files.at[i], error);
  }
  files_free(&files);
  return done;
}

// What the run is trained on. Of files of tokens that name no tokenizer, `lines` says if the first has another one.
static bool trained_files(const PlanRun *run, const Data *data, Overlap *trained, Buffer *lines, Error *error) {
  SourceLine line;
  char kind[32] = "";  // of the first
  bool done = true;
  if (run->data_path && !(run->data_kind && strcmp(run->data_kind, "mix") == 0)) {
    snprintf(kind, sizeof kind, "%s", run->data_kind ? run->data_kind : "text");
    done = files_trained_on(run, kind, run->data_path, trained, error);
  } else {
    for (const char *at = run->data_path; done && at && *at;) {
      const size_t length = strcspn(at, "\n");
      if (source_line(at, length, &line) && strtod(line.weight, NULL) > 0) {
        done = files_trained_on(run, line.kind, line.path, trained, error);
        if (!*kind) {
          snprintf(kind, sizeof kind, "%s", line.kind);
        }
      }
      at += length + (at[length] != '\0');
    }
  }
  if (done && trained->count > 0 && strncmp(kind, "tokens", strlen("tokens")) == 0) {
    const DataOptions first = {
        .kind = kind, .path = overlap_path(trained, 0), .tokenizer = TOKENIZER_NONE, .sequence = 1};
    doubts_trained(data, &first, lines);
  }
  return done;
}

// Is the data that the plan names what these weights were trained on? A run that was going on with other data may have
// been killed before it saved, and files may have been changed since. Of what cannot be opened any longer it is
// assumed.
static bool plan_data_holds(const Restored *restored, const Trained *trained) {
  const CheckpointFacts *facts = &restored->facts;
  const DataOptions options = data_options(restored->set, NULL);
  Data *data = NULL;
  DataPrint print = {0};
  Error ignored = {0};
  const bool known = data_open(&options, &data, &ignored) && data_fingerprint(data, &print, &ignored);
  data_close(data);
  return !known || print.data == facts->data_hash || trained_share(trained, print.data) > 0;
}

// Of weights of programs before, as far as the run's text knows, and of the frozen ones beside them. Where the
// checkpoint is gone by now, since training goes on, all of its data.
static void evaluation_older(const Restored *restored, Trained *trained) {
  Error unread = {0};
  if (!trained_of_weights(restored->checkpoint, trained, &unread) && restored->facts.data_hash != 0) {
    trained_add(trained, &(TrainedOn){.data = restored->facts.data_hash, .share = 1});
  }
  if (restored->session.trunk) {
    trained_of_weights(restored->session.trunk, trained, &unread);
  }
}

// Is what is evaluated on what the run was trained on, the recipe's own sources too, and what it finds by itself still
// what that was?
static bool evaluation_known(const Restored *restored, const char *path, const Data *data, Buffer *lines,
                             MdlEvaluation *result, Error *error) {
  const CheckpointFacts *facts = &restored->facts;
  DataPrint print = {0};
  Overlap trained = {0};
  const char *first;
  int count = 0;
  Trained before = {0};
  if (facts->trained.count > 0) {
    trained_of(facts, NULL, &before);
  } else {
    evaluation_older(restored, &before);
  }
  if (facts->data_hash == 0 && before.count == 0) {
    return true;
  }
  if (!data_fingerprint(data, &print, error)) {
    return false;
  }
  const bool same = print.data == facts->data_hash;
  bool done = !path || (trained_files(&restored->plan->run, data, &trained, lines, error) &&
                        overlap_count(&trained, data, &count, &first, error));
  const bool holds = count == 0 || plan_data_holds(restored, &before);
  if (done && count > 0 && holds && count < data_parts(data)) {
    buffer_text(lines, "the run was trained on ");
    overlap_said(data, "", count, first, lines);
    buffer_text(lines, " and not on the others\n");
  }
  const double part = trained_part(&print, restored->plan->run.validation_fraction);
  bool are[DATA_SETS_MOST] = {false}, held[DATA_SETS_MOST] = {false};
  result->trained = path && (same || count > 0 || trained_share(&before, print.data) > 0);
  done = done && (path || trained_held(&before, data, &print, part, held, error));
  done = done && (path || doubts_sets(data, are, lines, error));
  for (int i = 0; i < DATA_SETS_MOST; i++) {
    result->sets[i].trained = are[i] || held[i];
    result->trained |= are[i] || held[i];
  }
  const bool sources = print.validation != 0 && facts->validation_hash != 0;
  result->changed = path ? !holds && !same && trained_share(&before, print.data) <= 0
                         : facts->data_hash != 0 && (!same || (sources && print.validation != facts->validation_hash));
  overlap_free(&trained);
  return done;
}

// What each validation source has, where the recipe names some.
static void evaluation_sets(const Validation *validation, const Data *data, const MdlEvaluation *known,
                            MdlEvaluation *result) {
  double bits = 0;
  int counted = 0;
  for (int i = 0; i < validation->count; i++) {
    result->all_windows += data_facts(validation->data[i]).validation_windows;
  }
  for (int i = 0; i < validation->count && validation->data[i] != data; i++) {
    const Evaluation *one = &validation->result[i];
    const DataFacts facts = data_facts(validation->data[i]);
    snprintf(result->sets[i].name, sizeof result->sets[i].name, "%s", validation->name[i]);
    snprintf(result->sets[i].data, sizeof result->sets[i].data, "%s", facts.path);
    result->sets[i].loss = one->loss;
    result->sets[i].bits_per_byte = evaluate_bits_per_byte(one);
    result->sets[i].windows = one->windows;
    result->sets[i].all_windows = facts.validation_windows;
    result->sets[i].tokens = one->tokens;
    result->sets[i].trained = known->sets[i].trained;
    result->set_count = i + 1;
    bits += one->tokens > 0 ? result->sets[i].bits_per_byte : 0;
    counted += one->tokens > 0;
  }
  if (counted > 0) {
    result->bits_per_byte = bits / counted;
  }
  if (result->set_count > 1) {
    snprintf(result->data, sizeof result->data, "%.4000s and %d more", result->sets[0].data, result->set_count - 1);
  } else if (result->set_count == 1) {
    snprintf(result->data, sizeof result->data, "%s", result->sets[0].data);
  }
}

// Names what was read, which may be other files than those that are trained on.
static bool evaluation_unanswered(const Validation *validation, const Evaluation *all, Error *error) {
  Buffer names = {0};
  for (int i = 0; i < validation->count; i++) {
    const char *between = i == 0 ? "" : i + 1 < validation->count ? ", " : " and ";
    buffer_format(&names, "%s%s", between, data_facts(validation->data[i]).path);
  }
  const bool done = names.failed ? error_set(error, 3, "no memory for the names of validation data")
                                 : error_set(error, 1,
                                             "no token of the %lld windows of %s is of an answer: there is no loss of "
                                             "them",
                                             (long long)all->windows, names.text ? names.text : "the data");
  buffer_free(&names);
  return done;
}

MdlStatus mdl_evaluate(const char *run, const MdlEvaluateOptions *options, MdlEvaluation *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Restored restored = {0};
  Data *data = NULL;
  Validation validation = {0};
  Evaluation evaluation = {0};
  ShownList shown = {0};
  MdlEvaluation known = {0};
  Buffer doubts = {0};
  options = options ? options : &(MdlEvaluateOptions){0};
  const Backend *backend = backend_choose(options->device, 1, &error);
  const RestoreOptions restore = {(int)options->threads, PROGRAM_EVALUATE, options->trust, options->trunk};
  bool done = backend && api_given("run", run, &error) && api_given("result", result, &error) &&
              api_count("batches", options->batches, INT64_MAX, &error) &&
              api_count("threads", options->threads, INT_MAX, &error) &&
              restore_open(&restored, run, backend, &restore, &error) &&
              evaluation_data(restored.set, options->data, &data, &error) &&
              evaluation_tokenizer(&restored, options->data, data, &error) &&
              evaluation_known(&restored, options->data, data, &doubts, &known, &error) &&
              (!options->data || data_doubts(data, &doubts, &error)) &&
              validation_open(&validation, restored.set, data, &error) &&
              shown_open(&shown, &restored.session, PROGRAM_EVALUATE, "", &error) &&
              validation_run(&validation, &restored.session, validation_limit(restored.plan, options->batches), &shown,
                             &evaluation, &error);
  if (done && evaluation.tokens == 0 && evaluation.windows > 0) {
    done = evaluation_unanswered(&validation, &evaluation, &error);
  }
  if (done) {
    *result = (MdlEvaluation){.loss = evaluation.loss,
                              .perplexity = evaluation.unit != LOSS_NATS ? NAN : exp(evaluation.loss),
                              .bits_per_byte = evaluate_bits_per_byte(&evaluation),
                              .step = restored.facts.step,
                              .windows = evaluation.windows,
                              .tokens = evaluation.tokens,
                              .seconds = evaluation.seconds,
                              .held_out = options->data ? 0 : restored.plan->run.validation_fraction};
    snprintf(result->data, sizeof result->data, "%s", data_facts(data).path);
    result->trained = known.trained;
    result->changed = known.changed;
    snprintf(result->unit, sizeof result->unit, "%s", evaluate_unit(evaluation.unit));
    for (int i = 0; options->output && i < shown.count; i++) {
      NUMERIC_OUTSIDE;
      options->output(options->context, shown_called(&shown.at[i], shown.at[i].name), shown.at[i].value);
    }
    evaluation_sets(&validation, data, &known, result);
  }
  api_notes(options->notes, done, &doubts);
  shown_close(&shown);
  validation_close(&validation);
  data_close(data);
  restore_close(&restored);
  return api_result(done, &error, to);
}

static bool generation_holds(const MdlGenerateOptions *options, Error *error) {
  if (!(options->temperature >= 0) || isinf(options->temperature)) {
    return error_set(error, 2, "the temperature is a number from 0 on, not %g", options->temperature);
  }
  if (!(options->top_p >= 0 && options->top_p <= 1)) {
    return error_set(error, 2, "top_p is a share from 0 to 1, not %g", options->top_p);
  }
  if (options->system && !options->chat) {
    return error_set(error, 2, "`system` is said ahead of a question, and only with `chat` a prompt is one");
  }
  if (!api_list("stops", options->stops, options->stop_count, error) ||
      !api_list("prompts", options->prompts, options->prompt_count, error)) {
    return false;
  }
  for (int i = 0; i < options->stop_count; i++) {
    if (!*options->stops[i]) {
      return error_set(error, 2, "a text that ends what is made cannot be empty");
    }
  }
  return api_count("tokens", options->tokens, INT64_MAX, error) &&
         api_count("top_k", options->top_k, INT64_MAX, error) && api_count("threads", options->threads, INT_MAX, error);
}

// Which text tokens are.
static bool generation_tokenizer(const Restored *restored, const char *path, FILE *notes, Tokenizer **tokenizer,
                                 Error *error) {
  const PlanRun *run = &restored->plan->run;
  const bool none = run->tokenizer && strcmp(run->tokenizer, TOKENIZER_NONE) == 0;
  if (!path && none) {
    return error_set(
        error, 1,
        "the run's data is tokens and its recipe names no tokenizer: nobody knows which text they are; give "
        "--tokenizer FILE");
  }
  if (!data_tokenizer(path ? path : run->tokenizer, run->data_base, tokenizer, error)) {
    return false;
  }
  const bool bytes = !run->tokenizer || strcmp(run->tokenizer, TOKENIZER_BYTES) == 0;
  const char *name = *tokenizer ? tokenizer_path(*tokenizer) : NULL;
  char placed[IO_PATH_MAX];
  uint64_t saved = restored->facts.tokenizer_hash;
  bool same = true;
  if (path && saved == 0 && !none && !bytes && data_place(run->tokenizer, run->data_base, placed) &&
      !fingerprint_tokenizer(placed, &saved, error)) {
    return false;
  }
  if (path ? saved == 0 || none : saved == 0 || !*tokenizer || !run->data_kind) {
    return true;
  }
  if (!fingerprint_has_tokenizer(saved, name, &same, error)) {
    return false;
  }
  if (!same && path && notes) {
    fprintf(
        notes,
        "note: the tokenizer %s is not the one that this run was trained with, %s: the same tokens mean other text\n",
        path, run->tokenizer ? run->tokenizer : TOKENIZER_BYTES);
  }
  return same || path ||
         error_set(error, 1,
                   "the tokenizer %s is not the one that this run was trained with: the same tokens mean other text; "
                   "put that file back, or give --tokenizer FILE",
                   name);
}

typedef struct {
  const MdlGenerateOptions *options;
  bool (*text)(void *context, const char *bytes, size_t length);
  void *context;
} Listener;

static bool listener_begin(const Listener *listener, const char *prompt) {
  NUMERIC_OUTSIDE;
  return !listener->options->begin || listener->options->begin(listener->context, prompt);
}

static bool listener_text(void *context, const char *bytes, size_t length) {
  const Listener *listener = context;
  NUMERIC_OUTSIDE;
  return listener->text(listener->context, bytes, length);
}

MdlStatus mdl_generate(const char *run, const MdlGenerateOptions *options,
                       bool (*text)(void *context, const char *bytes, size_t length), void *context, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Restored restored = {0};
  options = options ? options : &(MdlGenerateOptions){0};
  GenerateOptions generate = {.prompt = options->prompt,
                              .tokens = options->tokens,
                              .top_k = options->top_k,
                              .temperature = options->temperature,
                              .top_p = options->top_p,
                              .stops = options->stops,
                              .stop_count = options->stop_count,
                              .whole = options->whole,
                              .seed = options->seed};
  const RestoreOptions restore = {(int)options->threads, PROGRAM_GENERATE, options->trust, options->trunk};
  const Backend *backend = backend_choose(options->device, 1, &error);
  bool done = backend && api_given("run", run, &error) && api_given("text", (void *)(uintptr_t)text, &error) &&
              generation_holds(options, &error) && restore_open(&restored, run, backend, &restore, &error);
  Tokenizer *tokenizer = NULL;
  ChatPrompt chat = {0};
  done = done && generation_tokenizer(&restored, options->tokenizer, options->notes, &tokenizer, &error);
  generate.tokenizer = tokenizer;
  if (done && options->chat) {
    done = chat_prompt_open(&restored.plan->run, tokenizer, options->stops, options->stop_count, &chat, &error);
    if (done && options->notes && !chat_prompt_fits(&restored.plan->run) && !chat_known(tokenizer)) {
      fprintf(
          options->notes,
          "nothing says how the questions of this run are written: its data is no `chat(...)`, and its tokenizer has "
          "no tokens for that; they are written as <|im_start|>user ... <|im_end|>\n");
    }
    generate.stops = chat.stops;
    generate.stop_count = chat.stop_count;
  }
  done = done && generate_ready(&restored.session, options->whole, &error);
  if (done && restored.whole && !options->whole && options->notes) {
    fprintf(options->notes, "every token is made from the whole text again: %s\n", restored.whole);
  }
  Listener listener = {options, text, context};
  const int count = options->prompt_count > 0 ? options->prompt_count : 1;
  for (int i = 0; done && i < count; i++) {
    generate.prompt = options->prompt_count > 0 ? options->prompts[i] : options->prompt;
    if (!listener_begin(&listener, generate.prompt)) {
      break;
    }
    if (options->chat) {
      done = chat_prompt_put(&chat, options->system, generate.prompt ? generate.prompt : "", &error);
      generate.prompt = chat.text.text;
    }
    done = done && generate_run(&restored.session, &generate, listener_text, &listener, &error);
  }
  chat_prompt_close(&chat);
  tokenizer_close(tokenizer);
  restore_close(&restored);
  return api_result(done, &error, to);
}
