// api.c: mdl.h on top of the modules of the runtime.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/plain.h"
#include "compiler/command.h"
#include "compiler/plan/artefact.h"
#include "lang/unit.h"
#include "runtime/ablate.h"
#include "runtime/api_internal.h"
#include "runtime/clock.h"
#include "runtime/convert/convert.h"
#include "runtime/data/bpe_train.h"
#include "runtime/data/token_writer.h"
#include "runtime/diff.h"
#include "runtime/inspect.h"
#include "runtime/run.h"
#include "runtime/verify_path.h"

#ifndef MDL_VERSION
#define MDL_VERSION "0.1.0"
#endif

const char *mdl_version(void) {
  return MDL_VERSION;
}

MdlStatus api_result(bool done, const Error *from, MdlError *to) {
  MdlStatus status = done ? MDL_DONE : (MdlStatus)from->status;
  if (to) {
    to->status = status;
    snprintf(to->text, sizeof to->text, "%s", done ? "" : from->text);
  }
  return status;
}

bool api_count(const char *name, int64_t number, int64_t most, Error *error) {
  return (number >= 0 && number <= most) ||
         error_set(error, 2, "%s is a whole number from 0 to %lld, not %lld", name, (long long)most, (long long)number);
}

bool api_seconds(double seconds, Error *error) {
  return seconds >= 0 || error_set(error, 2, "the deadline is a number of seconds from 0 on, not %g", seconds);
}

bool api_given(const char *name, const void *given, Error *error) {
  return given || error_set(error, 2, "`%s` is NULL, and nothing can be done without it", name);
}

bool api_list(const char *name, const char *const *list, int count, Error *error) {
  if (count < 0 || (count > 0 && !list)) {
    return error_set(error, 2, "`%s` is %s, and said to have %d texts", name, list ? "a list" : "NULL", count);
  }
  for (int i = 0; i < count; i++) {
    if (!list[i]) {
      return error_set(error, 2, "text %d of the %d of `%s` is NULL", i + 1, count, name);
    }
  }
  return true;
}

bool api_compile_lists(const MdlCompileOptions *options, Error *error) {
  return api_list("set", options->set, options->set_count, error) &&
         api_list("watched", options->watched, options->watch_count, error);
}

static MdlPlan *plan_new(Error *error) {
  MdlPlan *plan = calloc(1, sizeof *plan);
  if (plan && !(plan->arena = arena_create())) {
    free(plan);
    plan = NULL;
  }
  if (!plan) {
    error_set(error, 3, "no memory");
  }
  return plan;
}

void mdl_plan_close(MdlPlan *plan) {
  if (plan) {
    arena_destroy(plan->arena);
    free(plan);
  }
}

static void show_diagnostic(void *context, const Diag *diag, const Diagnostic *one) {
  const MdlCompileOptions *options = context;
  MdlDiagnostic shown = {.severity = severity_name(one->severity),
                         .code = error_code_name(one->code),
                         .message = one->message,
                         .label = one->label,
                         .help = one->help};
  if (one->span.file >= 0 && one->span.file < diag->sources.count) {
    shown.file = diag->sources.at[one->span.file].path;
    diag_position(diag, one->span, &shown.line, &shown.column);
    diag_position(diag, (Span){one->span.file, one->span.end, one->span.end}, &shown.end_line, &shown.end_column);
  }
  NUMERIC_OUTSIDE;
  options->diagnostic(options->context, &shown);
}

static const char **texts_keep(Arena *arena, const char *const *texts, int count) {
  const char **kept = ARENA_ARRAY(arena, const char *, count + 1);
  for (int i = 0; i < count; i++) {
    kept[i] = arena_copy(arena, texts[i], strlen(texts[i]) + 1);
  }
  return kept;
}

// The options, and the texts that they name, in the arena of the plan.
static CompileOptions *options_keep(Arena *arena, const CompileOptions *options) {
  CompileOptions *kept = ARENA_NEW(arena, CompileOptions);
  const char **const texts[] = {&kept->file, &kept->recipe, &kept->layout, &kept->precision};
  *kept = *options;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    *texts[i] = *texts[i] ? arena_copy(arena, *texts[i], strlen(*texts[i]) + 1) : NULL;
  }
  kept->set = texts_keep(arena, options->set, options->set_count);
  kept->watched = texts_keep(arena, options->watched, options->watch_count);
  if (options->open_count > 0) {
    OpenText *open = ARENA_NEW(arena, OpenText);
    *open = *options->open;
    open->path = arena_copy(arena, open->path, strlen(open->path) + 1);
    open->text = arena_copy(arena, open->text, open->length + 1);
    kept->open = open;
  }
  return kept;
}

MdlStatus mdl_compile(const char *file, const MdlCompileOptions *options, MdlPlan **plan, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  options = options ? options : &(MdlCompileOptions){0};
  if (plan) {
    *plan = NULL;
  }
  MdlPlan *made = NULL;
  if (!api_given("plan", plan, &error) || !api_given("file", file, &error) || !api_compile_lists(options, &error) ||
      !(made = plan_new(&error))) {
    return api_result(false, &error, to);
  }
  CommandFlags flags = {.recipe = options->recipe,
                        .layout = options->layout,
                        .precision = options->precision,
                        .diagnostics = options->diagnostics_json ? "json" : "text"};
  CompileOptions compile = command_compile_options(&flags, file);
  compile.set = options->set;
  compile.set_count = options->set_count;
  compile.watched = options->watched;
  compile.watch_count = options->watch_count;
  char resolved[PATH_MAX];
  const OpenText open = {realpath(file, resolved) ? resolved : file, options->text,
                         options->text ? strlen(options->text) : 0};
  compile.open = &open;
  compile.open_count = options->text ? 1 : 0;
  made->text = options_keep(made->arena, &compile);
  double start = clock_seconds();
  Diag *diag = diag_create(made->arena);
  made->diag = diag;
  bool done = compile_plans(made->arena, diag, &compile, &made->set);
  made->compile_seconds = clock_seconds() - start;
  if (options->diagnostics) {
    command_show(&flags, diag, options->diagnostics);
  }
  if (options->diagnostic) {
    diag_each(diag, show_diagnostic, (void *)(uintptr_t)options);
  }
  if (!done) {
    if (diag->no_memory) {
      error_set(&error, 3, "no memory to compile %s", file);
    } else {
      error_set(&error, 1, "%s has %d error%s", file, diag->errors, diag->errors == 1 ? "" : "s");
    }
    mdl_plan_close(made);
    return api_result(false, &error, to);
  }
  *plan = made;
  return api_result(true, &error, to);
}

static MdlStatus plan_open(const char *path, bool trust, MdlPlan **plan, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  const char *why = NULL;
  if (plan) {
    *plan = NULL;
  }
  MdlPlan *made = api_given("plan", plan, &error) && api_given("path", path, &error) ? plan_new(&error) : NULL;
  bool done = made != NULL;
  char own[IO_PATH_MAX];
  if (done && !(made->set = artefact_read(made->arena, run_own_plan(path, own), &why))) {
    done = error_set_plan(&error, why);
  }
  if (done) {
    made->left_code = !trust && artefact_leave_code(made->set);
    *plan = made;
  } else {
    mdl_plan_close(made);
  }
  return api_result(done, &error, to);
}

MdlStatus mdl_plan_open(const char *path, MdlPlan **plan, MdlError *to) {
  return plan_open(path, false, plan, to);
}

MdlStatus mdl_plan_open_trusted(const char *path, MdlPlan **plan, MdlError *to) {
  return plan_open(path, true, plan, to);
}

bool mdl_plan_left_code(const MdlPlan *plan) {
  return plan && plan->left_code;
}

MdlStatus mdl_plan_write(const MdlPlan *plan, const char *path, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  const char *why = NULL;
  if (!api_given("plan", plan, &error) || !api_given("path", path, &error)) {
    return api_result(false, &error, to);
  }
  if (plan->text && file_same(plan->text->file, path)) {
    error_set(&error, 2, "the plan is made of %s, which %s would overwrite; give another name", plan->text->file, path);
    return api_result(false, &error, to);
  }
  Arena *arena = arena_create();
  bool done = arena ? artefact_write(arena, plan->set, path, &why) : error_set(&error, 3, "no memory");
  if (arena && !done) {
    error_set_plan(&error, why);
  }
  arena_destroy(arena);
  return api_result(done, &error, to);
}

bool mdl_plan_is(const char *path) {
  return path && artefact_is(path);
}

bool mdl_run_is(const char *path) {
  char plan[IO_PATH_MAX];
  Error ignored;
  return path && io_path(plan, &ignored, "%s/plan.mdlx", path) && io_is_file(plan);
}

static CompileOptions base_options(const MdlCompileOptions *compile, const char *file) {
  return (CompileOptions){.file = file,
                          .recipe = compile->recipe,
                          .layout = compile->layout,
                          .precision = compile->precision,
                          .set = compile->set,
                          .set_count = compile->set_count,
                          .watched = compile->watched,
                          .watch_count = compile->watch_count};
}

MdlStatus mdl_diff(const MdlDiffOptions *options, bool *differ, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  options = options ? options : &(MdlDiffOptions){0};
  if (!api_given("differ", differ, &error) || !api_given("out", options->out, &error) ||
      !api_list("words", options->words, options->word_count, &error) ||
      !api_compile_lists(&options->compile, &error) || !api_seconds(options->deadline_seconds, &error) ||
      !api_count("threads", options->threads, INT_MAX, &error) ||
      !api_count("step", options->step, PLAN_MOST_STEPS, &error) ||
      !api_count("steps", options->steps, PLAN_MOST_STEPS, &error)) {
    return api_result(false, &error, to);
  }
  FILE *out = plain_open(options->out);  // names of tensors may come from files of others
  if (!out) {
    return api_result(error_set(&error, 3, "no memory"), &error, to);
  }
  const DiffOptions diff = {.base = base_options(&options->compile, NULL),
                            .words = options->words,
                            .word_count = options->word_count,
                            .step = options->step,
                            .steps = options->steps > 0 ? options->steps : 1,
                            .all = options->all,
                            .exact = options->exact,
                            .budget = options->budget,
                            .data = options->data,
                            .threads = (int)options->threads,
                            .deadline_seconds = options->deadline_seconds,
                            .out = out};
  const bool done = diff_run(&diff, differ, &error);
  fclose(out);
  return api_result(done, &error, to);
}

MdlStatus mdl_ablate(const char *file, const MdlAblateOptions *options, MdlAblateResult *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  AblateResult made;
  options = options ? options : &(MdlAblateOptions){0};
  const AblateOptions ablate = {.base = base_options(&options->compile, file),
                                .words = options->words,
                                .word_count = options->word_count,
                                .seeds = options->seeds,
                                .steps = options->steps,
                                .tolerance = options->tolerance,
                                .out = options->out,
                                .data = options->data,
                                .device = options->device,
                                .threads = (int)options->threads,
                                .deadline_seconds = options->deadline_seconds,
                                .dry = options->dry,
                                .screen = options->screen,
                                .lines = options->lines,
                                .notes = options->notes};
  if (!api_given("file", file, &error) || !api_list("words", options->words, options->word_count, &error) ||
      !api_compile_lists(&options->compile, &error) || !api_seconds(options->deadline_seconds, &error) ||
      !api_count("threads", options->threads, INT_MAX, &error) ||
      !api_count("seeds", options->seeds, INT64_MAX, &error) ||
      !api_count("steps", options->steps, PLAN_MOST_STEPS, &error) || !ablate_run(&ablate, &made, &error)) {
    return api_result(false, &error, to);
  }
  if (result) {
    *result = (MdlAblateResult){.rows = made.rows, .good = made.good, .differ = made.differ, .failed = made.failed};
  }
  MdlStatus status = api_result(true, &error, to);
  return made.interrupted ? MDL_INTERRUPTED : status;
}

MdlStatus mdl_inspect(const char *path, FILE *out, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Buffer text = {0};
  bool done = api_given("path", path, &error) && api_given("out", out, &error) && inspect_path(path, &text, &error);
  if (done && text.failed) {
    done = error_set(&error, 3, "no memory");
  }
  if (done && text.text) {
    plain_put(out, text.text);
  }
  buffer_free(&text);
  return api_result(done, &error, to);
}

MdlStatus mdl_verify(const char *path, FILE *out, int64_t *damaged, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Buffer text = {0};
  bool done = api_given("path", path, &error) && api_given("out", out, &error) &&
              api_given("damaged", damaged, &error) && verify_path(path, &text, damaged, &error);
  if (done && text.failed) {
    done = error_set(&error, 3, "no memory");
  }
  if (!text.failed && text.text && out) {
    plain_put(out, text.text);
  }
  buffer_free(&text);
  return api_result(done, &error, to);
}

void api_notes(FILE *out, bool done, Buffer *notes) {
  char *rest = notes->text;
  for (char *line = NULL; out && done && rest && (line = strsep(&rest, "\n")) && *line;) {
    fputs("note: ", out);
    plain_put(out, line);
    fputc('\n', out);
  }
  buffer_free(notes);
}

MdlStatus mdl_encode(const MdlEncodeOptions *options, MdlEncoded *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Buffer doubts = {0};
  TokenWriterFacts facts = {0};
  MdlEncoded unseen;
  options = options ? options : &(MdlEncodeOptions){0};
  result = result ? result : &unseen;
  const double begun = clock_seconds();
  const TokenWriterOptions writer = {
      .read = {options->files, options->file_count, options->field, options->screen, "encoded", NULL, &doubts, true},
      .tokenizer = options->tokenizer,
      .out = options->out,
      .type = options->type,
      .raw = options->raw,
      .chat = options->chat,
      .template = options->chat_template};
  const bool done = api_list("files", options->files, options->file_count, &error) &&
                    api_given("out", options->out, &error) && token_writer_run(&writer, &facts, &error);
  api_notes(options->notes, done, &doubts);
  *result = (MdlEncoded){.bytes = facts.read.bytes,
                         .text_bytes = facts.read.text_bytes,
                         .documents = facts.read.documents,
                         .tokens = facts.tokens,
                         .type = facts.type,
                         .ends = facts.ends,
                         .seconds = clock_seconds() - begun};
  return api_result(done, &error, to);
}

MdlStatus mdl_train_tokenizer(const MdlTokenizerOptions *options, MdlTokenizerResult *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Buffer doubts = {0};
  BpeTrainFacts facts = {0};
  MdlTokenizerResult unseen;
  options = options ? options : &(MdlTokenizerOptions){0};
  result = result ? result : &unseen;
  const double begun = clock_seconds();
  const BpeTrainOptions train = {
      .read = {options->files, options->file_count, options->field, options->screen, "read", NULL, &doubts, true},
      .out = options->out,
      .pattern = options->pattern,
      .vocabulary = options->vocabulary};
  const bool done = api_list("files", options->files, options->file_count, &error) &&
                    api_given("out", options->out, &error) && bpe_train_run(&train, &facts, &error);
  api_notes(options->notes, done, &doubts);
  *result = (MdlTokenizerResult){.bytes = facts.read.bytes,
                                 .text_bytes = facts.read.text_bytes,
                                 .documents = facts.read.documents,
                                 .pieces = facts.pieces,
                                 .tokens = facts.tokens,
                                 .seconds = clock_seconds() - begun};
  return api_result(done, &error, to);
}

typedef struct {
  const CommandFlags *flags;
  FILE *out;
} DiagnosticsOut;

static bool show_diagnostics(void *context, const Diag *diag) {
  const DiagnosticsOut *shown = context;
  if (shown->out) {
    command_show(shown->flags, diag, shown->out);
  }
  return shown->out != NULL;
}

MdlStatus mdl_import(const MdlImportOptions *options, MdlImported *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Imported made = {0};
  MdlImported unseen;
  options = options ? options : &(MdlImportOptions){0};
  result = result ? result : &unseen;
  const MdlCompileOptions *compile = &options->compile;
  const CommandFlags flags = {.diagnostics = compile->diagnostics_json ? "json" : "text"};
  DiagnosticsOut shown = {&flags, compile->diagnostics};
  Arena *arena = arena_create();
  const ImportOptions import = {.from = options->from,
                                .out = options->out,
                                .mapping = options->mapping,
                                .data = options->data,
                                .adapters = options->adapters,
                                .compile = base_options(compile, options->model),
                                .show = show_diagnostics,
                                .context = &shown};
  const bool done = (arena || error_set(&error, 3, "no memory")) &&
                    (options->from || error_set(&error, 2, "no directory of weights is named: give `from`")) &&
                    api_compile_lists(compile, &error) && convert_import(arena, &import, &made, &error);
  *result = (MdlImported){
      .parameters = made.parameters, .sequence = made.sequence, .longest = made.longest, .tokenizer = made.tokenizer};
  if (done) {
    snprintf(result->run, sizeof result->run, "%s", made.run);
    snprintf(result->mapping, sizeof result->mapping, "%s", made.mapping);
    snprintf(result->model, sizeof result->model, "%s", made.model);
    snprintf(result->note, sizeof result->note, "%s", made.note);
    snprintf(result->begin, sizeof result->begin, "%s", made.begin);
  }
  arena_destroy(arena);
  return api_result(done, &error, to);
}

MdlStatus mdl_merge(const MdlMergeOptions *options, MdlMerged *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Merged made = {0};
  MdlMerged unseen;
  options = options ? options : &(MdlMergeOptions){0};
  result = result ? result : &unseen;
  Arena *arena = arena_create();
  const MergeOptions merge = {
      .from = options->from, .out = options->out, .mapping = options->mapping, .trunk = options->trunk};
  const bool done = (arena || error_set(&error, 3, "no memory")) && api_given("from", options->from, &error) &&
                    convert_merge(arena, &merge, &made, &error);
  *result = (MdlMerged){.parameters = made.parameters, .adapters = made.adapters, .step = made.step};
  if (done) {
    snprintf(result->run, sizeof result->run, "%s", made.run);
    snprintf(result->mapping, sizeof result->mapping, "%s", made.mapping);
    snprintf(result->model, sizeof result->model, "%s", made.model);
  }
  arena_destroy(arena);
  return api_result(done, &error, to);
}

MdlStatus mdl_export(const MdlExportOptions *options, MdlExported *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  Exported made = {0};
  MdlExported unseen;
  options = options ? options : &(MdlExportOptions){0};
  result = result ? result : &unseen;
  Arena *arena = arena_create();
  const ExportOptions export = {.from = options->from,
                                .out = options->out,
                                .mapping = options->mapping,
                                .dtype = options->dtype,
                                .shard_bytes = options->shard_bytes,
                                .merge = options->merge,
                                .peft = options->peft,
                                .trunk = options->trunk};
  const bool done =
      (arena || error_set(&error, 3, "no memory")) &&
      ((options->from && options->out) || error_set(&error, 2, "a run and a directory are needed: `from` and `out`")) &&
      convert_export(arena, &export, &made, &error);
  *result = (MdlExported){.tensors = made.tensors,
                          .files = made.files,
                          .bytes = made.bytes,
                          .step = made.step,
                          .tokenizer = made.tokenizer,
                          .own_tokenizer = made.own_tokenizer,
                          .base = made.base,
                          .not_finite = made.not_finite};
  if (done) {
    snprintf(result->type, sizeof result->type, "%s", made.type);
    snprintf(result->mapping, sizeof result->mapping, "%s", made.mapping);
  }
  arena_destroy(arena);
  return api_result(done, &error, to);
}
