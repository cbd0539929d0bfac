// api_test.c: the C interface: texts that are no files, diagnostics as data, steps, and values of a run by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/api_internal.h"
#include "runtime/io.h"
#include "runtime/mdl.h"
#include "runtime/train.h"

#define TEXT                                                     \
  "import std.nn;\n"                                             \
  "model bigram {\n"                                             \
  "  axis batch, seq, vocab = 256, embed = 8;\n"                 \
  "  input tokens, targets: index(vocab)[batch, seq];\n"         \
  "  x = embedding(tokens over vocab to embed, name = table);\n" \
  "  logits = linear(x over embed to vocab, name = head);\n"     \
  "  loss = mean(cross_entropy(logits, targets over vocab));\n"  \
  "}\n"
#define RECIPE                                       \
  "recipe tiny {\n"                                  \
  "  model bigram();\n"                              \
  "  data text(\"LICENSE\", tokenizer = bytes);\n"   \
  "  batch = 4;\n"                                   \
  "  seq = 16;\n"                                    \
  "  optimizer adamw(lr = constant(peak = 1e-2));\n" \
  "}\n"                                              \
  "layout cut { mesh tp = 2; vocab -> tp; }\n"

typedef struct {
  char directory[256], name[512];
} World;

static int world_open(void **state) {
  World *world = calloc(1, sizeof *world);
  snprintf(world->directory, sizeof world->directory, "/tmp/mdl-api-XXXXXX");
  assert_non_null(mkdtemp(world->directory));
  *state = world;
  return 0;
}

static int world_close(void **state) {
  World *world = *state;
  io_remove_tree(world->directory);
  free(world);
  return 0;
}

static const char *run_in(World *world, const char *name) {
  snprintf(world->name, sizeof world->name, "%s/%s", world->directory, name);
  return world->name;
}

static MdlPlan *compiled(const char *text, const char *layout) {
  MdlError error;
  MdlPlan *plan;
  const MdlCompileOptions options = {.text = text, .layout = layout, .diagnostics = stderr};
  if (mdl_compile(MDL_SOURCE_DIR "/bigram.mdl", &options, &plan, &error)) {
    fail_msg("%s", error.text);
  }
  return plan;
}

static MdlTrainOptions options_of(World *world, const char *name, int64_t steps) {
  return (MdlTrainOptions){MDL_TRAIN_DEFAULTS, .device = "cpu", .out = run_in(world, name),
                           .threads = 1,       .steps = steps,  .eval_every = 0};
}

static MdlTrainer *opened(World *world, const MdlPlan *plan, const char *name, int64_t steps) {
  MdlError error;
  MdlTrainer *trainer;
  const MdlTrainOptions options = options_of(world, name, steps);
  if (mdl_trainer_open(plan, &options, &trainer, &error)) {
    fail_msg("%s", error.text);
  }
  return trainer;
}

static MdlStep stepped(MdlTrainer *trainer) {
  MdlStep step;
  MdlError error;
  bool more;
  if (mdl_trainer_step(trainer, &step, &more, &error)) {
    fail_msg("%s", error.text);
  }
  assert_true(more);
  return step;
}

// --- texts ---

typedef struct {
  int count;
  char code[8], file[512], message[256];
  int line, column, end_column;
} Said;

static void hear(void *context, const MdlDiagnostic *d) {
  Said *said = context;
  if (said->count++ == 0) {
    snprintf(said->code, sizeof said->code, "%s", d->code);
    snprintf(said->file, sizeof said->file, "%s", d->file ? d->file : "-");
    snprintf(said->message, sizeof said->message, "%s", d->message);
    assert_string_equal(d->severity, "error");
    said->line = d->line;
    said->column = d->column;
    said->end_column = d->end_column;
  }
}

static void diagnostics_are_data(void **state) {
  (void)state;
  Said said = {0};
  MdlError error;
  MdlPlan *plan = (MdlPlan *)(uintptr_t)1;
  const MdlCompileOptions options = {
      .text = "model m {\n  axis a = 2;\n  loss = mean(no);\n}\n", .diagnostic = hear, .context = &said};
  assert_int_equal(mdl_compile("x/y.mdl", &options, &plan, &error), MDL_INPUT);
  assert_null(plan);
  assert_string_equal(error.text, "x/y.mdl has 1 error");
  assert_int_equal(said.count, 1);
  assert_string_equal(said.code, "E010");
  assert_string_equal(said.file, "x/y.mdl");
  assert_int_equal(said.line, 3);
  assert_int_equal(said.column, 15);
  assert_int_equal(said.end_column, 17);
}

static void an_error_without_a_place(void **state) {
  (void)state;
  Said said = {0};
  MdlPlan *plan;
  const MdlCompileOptions options = {.diagnostic = hear, .context = &said};
  assert_int_equal(mdl_compile("/nowhere/x.mdl", &options, &plan, NULL), MDL_INPUT);
  assert_string_equal(said.code, "E003");
  assert_string_equal(said.file, "-");
  assert_int_equal(said.line, 0);
}

// What is NULL is a default, or an error of usage; nothing is made of it.
static void what_is_needed_is_said(void **state) {
  World *world = *state;
  MdlError error;
  MdlPlan *plan = NULL;
  MdlTrainer *trainer = NULL;
  MdlStep step;
  MdlValue value;
  bool more;
  const MdlCompileOptions lists = {.text = TEXT RECIPE, .set_count = 1};
  assert_int_equal(mdl_compile("/nowhere/x.mdl", NULL, &plan, NULL), MDL_INPUT);
  assert_int_equal(mdl_compile(NULL, NULL, &plan, &error), MDL_USAGE);
  assert_string_equal(error.text, "`file` is NULL, and nothing can be done without it");
  assert_int_equal(mdl_compile("x.mdl", NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_compile("x.mdl", &lists, &plan, &error), MDL_USAGE);
  assert_string_equal(error.text, "`set` is NULL, and said to have 1 texts");
  assert_int_equal(mdl_plan_open(NULL, &plan, NULL), MDL_USAGE);
  plan = compiled(TEXT RECIPE, NULL);
  assert_int_equal(mdl_plan_write(plan, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_train(NULL, NULL, NULL, NULL), MDL_USAGE);
  MdlTrainOptions train = options_of(world, "needed", 2);
  train.check = -1;
  assert_int_equal(mdl_train(plan, &train, NULL, NULL), MDL_USAGE);
  train.check = train.steps = 0;
  assert_int_equal(mdl_train(plan, &train, NULL, &error), MDL_USAGE);
  assert_string_equal(error.text,
                      "`steps` is 0: a run of no steps leaves nothing; not given, it is that of the recipe");
  assert_int_equal(mdl_trainer_open(plan, NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_step(NULL, &step, &more, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_finish(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_value_count(NULL), 0);
  assert_null(mdl_trainer_run(NULL));
  trainer = opened(world, plan, "needed", 2);
  assert_int_equal(mdl_trainer_step(trainer, &step, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_value(trainer, NULL, &value, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_read(trainer, "loss", NULL, 4, NULL), MDL_USAGE);
  float loss = 0;
  assert_int_equal(mdl_trainer_read(trainer, "loss", &loss, sizeof loss, &error), MDL_USAGE);
  assert_string_equal(error.text, "'loss' is an output of a step, and this trainer has made none yet");
  assert_int_equal(mdl_trainer_step(trainer, NULL, &more, NULL), MDL_DONE);
  assert_int_equal(mdl_trainer_read(trainer, "loss", &loss, sizeof loss, NULL), MDL_DONE);
  assert_true(loss > 0);
  mdl_trainer_close(trainer);
  mdl_plan_close(plan);
  assert_int_equal(mdl_evaluate(NULL, NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_generate(run_in(world, "needed"), NULL, NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_inspect(NULL, stdout, NULL), MDL_USAGE);
  assert_int_equal(mdl_verify(run_in(world, "needed"), NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_encode(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_train_tokenizer(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_import(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_export(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_merge(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_diff(NULL, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_ablate(NULL, NULL, NULL, NULL), MDL_USAGE);
}

static void tokens_are_of_a_type_that_there_is(void **state) {
  World *world = *state;
  MdlError error;
  const char *file = MDL_SOURCE_DIR "/LICENSE";
  MdlEncodeOptions options = {.files = &file, .file_count = 1, .out = run_in(world, "a.bin"), .type = "u8"};
  assert_int_equal(mdl_encode(&options, NULL, &error), MDL_USAGE);
  assert_string_equal(error.text, "tokens are written as u16 or u32, not as 'u8'");
  options.type = "u32";
  assert_int_equal(mdl_encode(&options, NULL, NULL), MDL_DONE);
}

// --- steps ---

typedef struct {
  int64_t seen, until;
  double loss;
} Watch;

static bool watch(void *context, MdlTrainer *trainer, const MdlStep *step) {
  Watch *w = context;
  MdlValue value;
  assert_int_equal(mdl_trainer_value(trainer, "loss", &value, NULL), MDL_DONE);
  assert_int_equal(step->step, w->seen + 1);
  assert_true((float)step->loss == *(const float *)value.data);
  w->seen = step->step;
  w->loss = step->loss;
  return step->step < w->until;
}

static void a_callback_ends_the_run(void **state) {
  MdlPlan *plan = compiled(TEXT RECIPE, NULL);
  Watch w = {.until = 3};
  MdlTrainResult result;
  MdlTrainOptions options = options_of(*state, "stops", 5);
  options.step = watch;
  options.context = &w;
  assert_int_equal(mdl_train(plan, &options, &result, NULL), MDL_DONE);
  assert_int_equal(result.step, 3);
  assert_true(result.loss == w.loss);
  // What was ended goes on, and is then what runs in one go.
  options.resume = true;
  w.until = 9;
  assert_int_equal(mdl_train(plan, &options, &result, NULL), MDL_DONE);
  assert_int_equal(w.seen, 5);
  MdlTrainer *trainer = opened(*state, plan, "whole", 5);
  double loss = NAN;
  for (int i = 0; i < 5; i++) {
    loss = stepped(trainer).loss;
  }
  assert_true(loss == result.loss);
  MdlStep step;
  bool more = true;
  assert_int_equal(mdl_trainer_step(trainer, &step, &more, NULL), MDL_DONE);
  assert_false(more);
  assert_int_equal(step.step, 5);
  mdl_trainer_close(trainer);
  mdl_plan_close(plan);
}

static void a_finished_run_takes_no_step(void **state) {
  MdlPlan *plan = compiled(TEXT RECIPE, NULL);
  MdlTrainer *trainer = opened(*state, plan, "ends", 5), *other;
  MdlTrainResult result;
  MdlStep step;
  MdlError error;
  bool more;
  stepped(trainer);
  // The directory is taken until the run has ended.
  MdlTrainOptions again = options_of(*state, "ends", 5);
  again.resume = true;
  assert_int_equal(mdl_trainer_open(plan, &again, &other, &error), MDL_INPUT);
  assert_null(other);
  assert_non_null(strstr(mdl_trainer_run(trainer), again.out));
  assert_int_equal(mdl_trainer_finish(trainer, &result, NULL), MDL_DONE);
  assert_int_equal(result.step, 1);
  assert_int_equal(mdl_trainer_step(trainer, &step, &more, &error), MDL_USAGE);
  assert_non_null(strstr(error.text, "the run has ended"));
  assert_int_equal(mdl_trainer_finish(trainer, NULL, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_save(trainer, NULL), MDL_USAGE);
  assert_int_equal(mdl_trainer_open(plan, &again, &other, &error), MDL_DONE);
  assert_int_equal(stepped(other).step, 2);
  MdlValue value;
  assert_int_equal(mdl_trainer_value(trainer, "head.w", &value, NULL), MDL_DONE);
  assert_non_null(value.data);
  mdl_trainer_close(other);
  mdl_trainer_close(trainer);
  mdl_trainer_close(NULL);
  mdl_plan_close(plan);
}

// --- values ---

static int64_t elements(const MdlValue *value) {
  int64_t count = 1;
  for (int i = 0; i < value->axis_count; i++) {
    count *= value->size[i];
  }
  return count;
}

// The copy has what lies in memory, by its strides.
static void same_as_memory(const MdlValue *value, const char *copy) {
  for (int64_t e = 0; e < elements(value); e++) {
    int64_t rest = e, at = 0;
    for (int i = value->axis_count - 1; i >= 0; i--) {
      at += rest % value->size[i] * value->stride[i];
      rest /= value->size[i];
    }
    assert_memory_equal((const char *)value->data + at * (int64_t)value->element_bytes,
                        copy + e * (int64_t)value->element_bytes, value->element_bytes);
  }
}

static void every_value_is_read_alike(void **state) {
  MdlPlan *plan = compiled(TEXT RECIPE, NULL);
  MdlTrainer *trainer = opened(*state, plan, "values", 2);
  stepped(trainer);
  const int count = mdl_trainer_value_count(trainer);
  int kinds[4] = {0};
  MdlValue value, found;
  for (int i = 0; i < count; i++) {
    assert_true(mdl_trainer_value_at(trainer, i, &value));
    assert_int_equal(mdl_trainer_value(trainer, value.name, &found, NULL), MDL_DONE);
    assert_ptr_equal(found.data, value.data);
    assert_non_null(value.data);
    kinds[value.kind]++;
    const size_t bytes = (size_t)elements(&value) * value.element_bytes;
    char *copy = malloc(bytes + 1);
    assert_int_equal(mdl_trainer_read(trainer, value.name, copy, bytes, NULL), MDL_DONE);
    same_as_memory(&value, copy);
    MdlError error;
    assert_int_equal(mdl_trainer_read(trainer, value.name, copy, bytes + 1, &error), MDL_USAGE);
    free(copy);
  }
  assert_false(mdl_trainer_value_at(trainer, count, &value));
  assert_false(mdl_trainer_value_at(trainer, -1, &value));
  assert_true(kinds[MDL_VALUE_PARAMETER] >= 2 && kinds[MDL_VALUE_OPTIMIZER] == 2 * kinds[MDL_VALUE_PARAMETER]);
  assert_int_equal(mdl_trainer_value(trainer, "table.w", &value, NULL), MDL_DONE);
  assert_string_equal(value.axis[0], "vocab");
  assert_int_equal(value.size[1], 8);
  assert_string_equal(value.type, "f32");
  MdlError error;
  assert_int_equal(mdl_trainer_value(trainer, "table", &value, &error), MDL_USAGE);
  assert_non_null(strstr(error.text, "no value 'table'"));
  mdl_trainer_close(trainer);
  mdl_plan_close(plan);
}

// All outputs of the newest step of one run are those of the other, in memory as read.
static void same_outputs(MdlTrainer *one, MdlTrainer *other) {
  MdlValue a, b;
  int outputs = 0;
  for (int i = 0; mdl_trainer_value_at(one, i, &a); i++) {
    if (a.kind != MDL_VALUE_OUTPUT) {
      continue;
    }
    assert_int_equal(mdl_trainer_value(other, a.name, &b, NULL), MDL_DONE);
    const size_t bytes = (size_t)elements(&a) * a.element_bytes;
    char *copy = malloc(bytes + 1);
    assert_int_equal(mdl_trainer_read(one, a.name, copy, bytes, NULL), MDL_DONE);
    same_as_memory(&a, copy);
    same_as_memory(&b, copy);
    assert_int_equal(mdl_trainer_read(other, a.name, copy, bytes, NULL), MDL_DONE);
    same_as_memory(&a, copy);
    free(copy);
    outputs++;
  }
  assert_true(outputs >= 4);
}

#define OUTPUTS                                                                                                        \
  "model m {\n"                                                                                                        \
  "  axis batch, seq, vocab = 256, embed = 8;\n"                                                                       \
  "  input tokens, targets: index(vocab)[batch, seq];\n"                                                               \
  "  param table: [vocab, embed] ~ normal(0.5);\n"                                                                     \
  "  param w: [embed ; vocab] ~ normal(0.5);\n"                                                                        \
  "  logits = dot(table[tokens], w over embed);\n"                                                                     \
  "  loss = mean(cross_entropy(logits, targets over vocab));\n"                                                        \
  "  output first = mean(tokens as real);\n"                                                                           \
  "  output _each = logits * 1.0;\n"                                                                                   \
  "}\n"                                                                                                                \
  "recipe m { model m(); data text(\"LICENSE\", tokenizer = bytes); batch = 4; seq = 16; optimizer sgd(lr = 0.1); }\n" \
  "layout dp { mesh dp = 2; batch -> dp; }\n"

static void outputs_are_those_of_the_step_behind_an_evaluation(void **state) {
  static const char *const layouts[] = {NULL, "dp"};
  for (int l = 0; l < 2; l++) {
    MdlError error;
    MdlTrainer *evaluated;
    MdlPlan *plan = compiled(OUTPUTS, layouts[l]);
    MdlTrainOptions options = options_of(*state, l == 0 ? "evaluated" : "evaluated2", 4);
    options.eval_every = 2;
    if (mdl_trainer_open(plan, &options, &evaluated, &error)) {
      fail_msg("%s", error.text);
    }
    MdlTrainer *plain = opened(*state, plan, l == 0 ? "plain" : "plain2", 5);  // with no evaluation up to there
    MdlValue loss;
    assert_int_equal(mdl_trainer_value(evaluated, "loss", &loss, NULL), MDL_DONE);
    for (int i = 1; i <= 4; i++) {
      const MdlStep step = stepped(evaluated);
      assert_true(isfinite(step.val_loss) == (i % 2 == 0));
      assert_true((float)step.loss == *(const float *)loss.data);
      assert_true(isnan(stepped(plain).val_loss));
      same_outputs(evaluated, plain);
    }
    assert_int_equal(mdl_trainer_finish(evaluated, NULL, NULL), MDL_DONE);
    same_outputs(evaluated, plain);
    mdl_trainer_close(evaluated);
    mdl_trainer_close(plain);
    mdl_plan_close(plan);
  }
}

// Of a device whose memory is not in this process.
static void outputs_are_read_from_a_copy_behind_an_evaluation(void **state) {
  NUMERIC_SCOPE;  // what trains below is no function that a program calls
  MdlPlan *plan = compiled(OUTPUTS, NULL);
  Backend elsewhere = backend_cpu;
  elsewhere.host = NULL;
  Error error;
  Trainer *trainer;
  const TrainOptions options = {.out = run_in(*state, "elsewhere"),
                                .steps = 4,
                                .save_every = 0,
                                .eval_every = 2,
                                .log_every = 1,
                                .threads = 1,
                                .watched = true};
  assert_true(train_open(plan->set, &elsewhere, &options, &trainer, &error));
  const TrainView view = train_view(trainer);
  for (int i = 1; i <= 4; i++) {
    bool more;
    float loss = 0;
    assert_true(train_step(trainer, &more, &error));
    assert_true(isfinite(view.line->val_loss) == (i % 2 == 0));
    assert_true(step_outputs_read(view.outputs, view.session, "loss", &loss, &error));
    assert_true((float)view.line->loss == loss);
  }
  train_close(trainer);
  mdl_plan_close(plan);
}

static void pieces_of_ranks_are_joined(void **state) {
  MdlPlan *whole = compiled(TEXT RECIPE, NULL), *cut = compiled(TEXT RECIPE, "cut");
  MdlTrainer *one = opened(*state, whole, "one", 2), *two = opened(*state, cut, "two", 2);
  assert_true(fabs(stepped(one).loss - stepped(two).loss) < 1e-5);
  MdlValue a, b;
  assert_int_equal(mdl_trainer_value(one, "head.w", &a, NULL), MDL_DONE);
  assert_int_equal(mdl_trainer_value(two, "head.w", &b, NULL), MDL_DONE);
  assert_non_null(a.data);
  assert_null(b.data);
  assert_int_equal(elements(&a), elements(&b));
  float x[256 * 8], y[256 * 8];
  assert_int_equal(elements(&a), 256 * 8);
  assert_int_equal(mdl_trainer_read(one, "head.w", x, sizeof x, NULL), MDL_DONE);
  assert_int_equal(mdl_trainer_read(two, "head.w", y, sizeof y, NULL), MDL_DONE);
  for (int i = 0; i < 256 * 8; i++) {
    assert_true(fabsf(x[i] - y[i]) < 1e-5F);
  }
  mdl_trainer_close(one);
  mdl_trainer_close(two);
  mdl_plan_close(whole);
  mdl_plan_close(cut);
}

static void a_plan_never_overwrites_its_text(void **state) {
  char path[512];
  snprintf(path, sizeof path, "%s", run_in(*state, "own.mdl"));
  FILE *file = fopen(path, "w");
  fputs(TEXT RECIPE, file);
  fclose(file);
  MdlError error;
  MdlPlan *plan;
  const MdlCompileOptions options = {.diagnostics = stderr};
  assert_int_equal(mdl_compile(path, &options, &plan, &error), MDL_DONE);
  assert_int_equal(mdl_plan_write(plan, path, &error), MDL_USAGE);
  assert_non_null(strstr(error.text, "would overwrite"));
  assert_false(mdl_plan_is(path));
  assert_int_equal(mdl_plan_write(plan, run_in(*state, "own.mdlx"), &error), MDL_DONE);
  mdl_plan_close(plan);
}

// --- a program that has set a locale ---

// A locale whose numbers have a comma, made here, since machines have few; false: it cannot be.
static bool comma_set(World *world) {
  char command[2048];
  FILE *chars = fopen(run_in(world, "chars"), "w");
  fprintf(chars, "<code_set_name> ANSI_X3.4-1968\n<comment_char> %%\n<escape_char> /\nCHARMAP\n");
  for (int i = 0; i < 128; i++) {
    fprintf(chars, "<U%04X> /x%02x\n", (unsigned)i, (unsigned)i);
  }
  fprintf(chars, "END CHARMAP\n");
  fclose(chars);
  FILE *numbers = fopen(run_in(world, "numbers"), "w");
  fprintf(numbers, "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n");
  fclose(numbers);
  const char *in = world->directory;
  snprintf(command, sizeof command, "localedef -c -f %s/chars -i %s/numbers %s/comma > %s/said 2>&1", in, in, in, in);
  if (system(command) < 0) {
    return false;
  }
  setenv("LOCPATH", in, 1);
  return setlocale(LC_ALL, "comma") && *localeconv()->decimal_point == ',';
}

static bool hears_a_comma(void *context, MdlTrainer *trainer, const MdlStep *step) {
  MdlValue value;
  assert_int_equal(mdl_trainer_value(trainer, "table.w", &value, NULL), MDL_DONE);
  assert_string_equal(localeconv()->decimal_point, ",");
  *(double *)context = step->loss;
  return true;
}

static void two_steps(World *world, const char *name, const char *layout, double *loss) {
  const char *text = TEXT
      "recipe tiny { model bigram(); data text(\"LICENSE\", tokenizer = bytes); batch = 4; seq = 16;"
      " optimizer adamw(lr = constant(peak = 0.25)); }\nlayout cut { mesh tp = 2; vocab -> tp; }\n";
  MdlPlan *plan = compiled(text, layout);
  MdlTrainResult result;
  MdlTrainOptions options = options_of(world, name, 2);
  options.step = hears_a_comma;
  options.context = loss;
  options.save_every = options.log_every = 1;
  MdlError error;
  if (mdl_train(plan, &options, &result, &error) != MDL_DONE) {
    fail_msg("%s", error.text);
  }
  mdl_plan_close(plan);
}

static bool commas_are_said(void *context, const char *bytes, size_t length) {
  (void)bytes;
  (void)length;
  *(int *)context += *localeconv()->decimal_point == ',';
  return true;
}

// The same text, losses and lines as without, and what the program is called back by has its own locale.
static void numbers_have_points(void **state) {
  World *world = *state;
  static const char *const layouts[] = {NULL, "cut"};
  if (!comma_set(world)) {
    skip();
  }
  for (int i = 0; i < 2; i++) {
    char name[32];
    double loss = NAN;
    snprintf(name, sizeof name, "comma%d", i);
    two_steps(world, name, layouts[i], &loss);
    assert_string_equal(localeconv()->decimal_point, ",");
    assert_true(isfinite(loss));
    char *lines, path[1024];
    size_t size;
    Error error;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run_in(world, name));
    assert_true(io_read_file(path, 1 << 20, &lines, &size, &error));
    assert_non_null(strstr(lines, "\"lr\":0.25,"));
    free(lines);
    snprintf(path, sizeof path, "%s/resolved.mdl", run_in(world, name));
    assert_true(io_read_file(path, 1 << 20, &lines, &size, &error));
    assert_non_null(strstr(lines, "constant(peak = 0.25)"));
    assert_null(strstr(lines, "0,25"));
    free(lines);
    int heard = 0;
    const MdlGenerateOptions options = {.device = "cpu", .prompt = "a", .tokens = 4, .threads = 1};
    assert_int_equal(mdl_generate(run_in(world, name), &options, commas_are_said, &heard, NULL), MDL_DONE);
    assert_true(heard > 0);
  }
  setlocale(LC_ALL, "C");
}

// A program that rounds in another way has the losses of one that does not.
static void floats_are_those_of_c(void **state) {
  MdlPlan *plan = compiled(TEXT RECIPE, NULL);
  double plain = NAN, other = NAN;
  for (int i = 0; i < 2; i++) {
    MdlTrainer *trainer = opened(*state, plan, i == 0 ? "nearest" : "upward", 3);
    fesetround(i == 0 ? FE_TONEAREST : FE_UPWARD);
    for (int step = 0; step < 3; step++) {
      *(i == 0 ? &plain : &other) = stepped(trainer).loss;
    }
    assert_int_equal(fegetround(), i == 0 ? FE_TONEAREST : FE_UPWARD);
    fesetround(FE_TONEAREST);
    mdl_trainer_close(trainer);
  }
  assert_true(plain == other);
  mdl_plan_close(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(diagnostics_are_data),
      cmocka_unit_test(an_error_without_a_place),
      cmocka_unit_test(what_is_needed_is_said),
      cmocka_unit_test(tokens_are_of_a_type_that_there_is),
      cmocka_unit_test(a_callback_ends_the_run),
      cmocka_unit_test(a_finished_run_takes_no_step),
      cmocka_unit_test(every_value_is_read_alike),
      cmocka_unit_test(outputs_are_those_of_the_step_behind_an_evaluation),
      cmocka_unit_test(outputs_are_read_from_a_copy_behind_an_evaluation),
      cmocka_unit_test(pieces_of_ranks_are_joined),
      cmocka_unit_test(a_plan_never_overwrites_its_text),
      cmocka_unit_test(numbers_have_points),
      cmocka_unit_test(floats_are_those_of_c),
  };
  return cmocka_run_group_tests(tests, world_open, world_close);
}
