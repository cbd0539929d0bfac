// import.c: makes a run at step 0 from a directory of Hugging Face.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "runtime/checkpoint.h"
#include "runtime/convert/begin.h"
#include "runtime/convert/convert.h"
#include "runtime/convert/peft.h"
#include "runtime/convert/source.h"
#include "runtime/data/data.h"
#include "runtime/hub.h"
#include "runtime/run.h"

enum { WINDOW_MOST = 1024 };  // positions of a window where nobody says how many
static const double LONGEST_SAID = 9e15;

typedef struct {
  Arena *arena;
  const ImportOptions *options;
  const char *from, *adapters;  // the directory of the model; of PEFT, or NULL
  Imported *result;
  Mapping mapping;
  ConfigSettings settings;
  Run run;
  CompileOptions compile;
  PlanSet *set;
  ModelNumbers numbers;
  States states;
  Weights weights;
  WeightSource *source;
  const char *tokenizer;  // the file of what came with the weights that is used
} Import;

// The mapping that was named, else the one beside the text, else the one in the binary.
static bool import_mapping(Import *m, const HfFiles *files, Error *error) {
  const char *named = m->options->mapping, *text = m->options->compile.file;
  const size_t length = text ? strlen(text) : 0;
  if (!named && length > 4 && strcmp(text + length - 4, ".mdl") == 0) {
    const char *beside = arena_format(m->arena, "%.*s.hf", (int)length - 4, text);
    named = io_is_file(beside) ? beside : NULL;
  }
  return source_mapping(m->arena, named, config_type(files->config), NULL, &m->mapping, error);
}

static bool user_sets(const ImportOptions *options, const char *name) {
  const size_t length = strlen(name);
  for (int i = 0; i < options->compile.set_count; i++) {
    const char *set = options->compile.set[i];
    if (strncmp(set, name, length) == 0 && set[length] == '=') {
      return true;
    }
  }
  return false;
}

static bool is_window(const ConfigSetting *setting) {
  return strcmp(setting->name, "seq") == 0;
}

// Texts may be long, windows take memory: of `seq` only so much as is usual.
static void settings_bound(Import *m) {
  for (int i = 0; i < m->settings.count; i++) {
    ConfigSetting *setting = &m->settings.at[i];
    if (is_window(setting)) {
      m->result->longest = setting->number > 0 && setting->number < LONGEST_SAID ? (int64_t)setting->number : 0;
      if (setting->number > WINDOW_MOST) {
        setting->number = WINDOW_MOST;
        setting->value = arena_format(m->arena, "%d", WINDOW_MOST);
      }
    }
  }
}

// As the language writes a string. What it cannot say is left to the compiler to refuse.
static const char *string_text(Arena *arena, const char *text) {
  char *made = ARENA_ARRAY(arena, char, 2 * strlen(text) + 3), *to = made;
  *to++ = '"';
  for (const char *at = text; *at; at++) {
    const char *escape = *at == '"' ? "\"" : *at == '\\' ? "\\" : *at == '\n' ? "n" : *at == '\t' ? "t" : NULL;
    *to = '\\';
    to += escape != NULL;
    *to++ = escape ? *escape : *at;
  }
  *to = '"';
  return made;
}

// Of a name in a comment: what would end it, or is no text, is a question mark.
static const char *comment_text(Arena *arena, const char *text) {
  char *made = arena_format(arena, "%s", text);
  const size_t length = strlen(made);
  for (size_t at = 0; at < length;) {
    const int size = utf8_character((const uint8_t *)made + at, length - at);
    const bool plain = size > 0 && (unsigned char)made[at] >= ' ' && made[at] != 0x7f;
    made[at] = plain ? made[at] : '?';
    at += plain ? (size_t)size : 1;
  }
  return made;
}

static const char *recipe_text(const Import *m) {
  const char *sizes = "", *window = "1024";
  for (int i = 0; i < m->settings.count; i++) {
    const ConfigSetting *setting = &m->settings.at[i];
    if (is_window(setting)) {
      window = setting->value;
    } else if (!user_sets(m->options, setting->name)) {
      sizes = arena_format(m->arena, "%s%s%s = %s", sizes, *sizes ? ", " : "", setting->name, setting->value);
    }
  }
  const char *data = m->options->data ? m->options->data : m->result->tokenizer ? "train.txt" : "train.bin";
  const char *trained = m->adapters ? "  freeze *;\n  optimizer lora: adamw" : "  optimizer adamw";
  const char *kind = m->result->tokenizer ? arena_format(m->arena, "text(%s, tokenizer = \"" CONVERT_KEPT "/%s\")",
                                                         string_text(m->arena, data), m->tokenizer)
                                          : arena_format(m->arena, "tokens(%s)", string_text(m->arena, data));
  return arena_format(m->arena,
                      "\n// As `mdl convert` read it from %s.\n"
                      "recipe converted {\n  model %s(%s);\n  data %s;\n  batch = 1;\n  seq = %s;\n  steps = 1000;\n"
                      "%s(lr = cosine(peak = %s, warmup = 10, steps = steps), decay = 0, clip = 1.0);\n"
                      "}\n",
                      comment_text(m->arena, m->options->from), m->mapping.model, sizes, kind, window, trained,
                      m->adapters ? "1e-4" : "1e-5");
}

// The model of the binary and a recipe, as a text in the run's directory.
static bool import_text(Import *m, Error *error) {
  char *path = ARENA_ARRAY(m->arena, char, IO_PATH_MAX);
  const ModelFile *file = model_file(arena_format(m->arena, "%s.mdl", m->mapping.model));
  if (!file) {
    return error_set(error, 1, "%s is for the model '%s', which is none of this program's: give its text, --model FILE",
                     m->mapping.path, m->mapping.model);
  }
  const char *text = arena_format(m->arena, "%s%s", file->text, recipe_text(m));
  m->compile.file = path;
  m->compile.recipe = "converted";
  return run_file(&m->run, "model.mdl", path, error) && io_replace_file(NULL, path, text, strlen(text), error);
}

// What config.json says, ahead of what the user sets; `window`: also how long windows are.
static void settings_set(Import *m, bool window) {
  const int count = m->options->compile.set_count;
  const char **set = ARENA_ARRAY(m->arena, const char *, count + m->settings.count + 1);
  int used = 0;
  for (int i = 0; i < m->settings.count; i++) {
    const ConfigSetting *setting = &m->settings.at[i];
    if (!user_sets(m->options, setting->name) && (window || !is_window(setting))) {
      set[used++] = arena_format(m->arena, "%s=%s", setting->name, setting->value);
    }
  }
  for (int i = 0; i < count; i++) {
    set[used++] = m->options->compile.set[i];
  }
  m->compile.set = set;
  m->compile.set_count = used;
}

// A text of one's own: what config.json says goes into it by --set, but for the length of windows where the text has
// one.
static void import_set(Import *m) {
  ModelNumbers numbers;
  settings_set(m, false);
  if (!compile_numbers(m->arena, diag_create(m->arena), &m->compile, &numbers) || !model_number(&numbers, "seq")) {
    settings_set(m, true);
  }
}

// Whether a tokenizer that came with the weights can be read. *why is that of the first one that cannot.
static bool kept_reads(const char *kept, const char *name, Imported *result, Error *why) {
  char path[IO_PATH_MAX];
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  bool found = false;
  const bool done = io_path(path, &error, "%s/%s", kept, name) && io_find_file(path, &found, &error) && found &&
                    tokenizer_open(path, &tokenizer, &error);
  *why = why->status || done ? *why : error;
  if (done) {
    convert_begin(kept, name, result->begin, sizeof result->begin);
    if (tokenizer_added(tokenizer, result->begin) < 0) {  // no text becomes it
      result->begin[0] = '\0';
    }
  }
  tokenizer_close(tokenizer);
  return done;
}

static bool import_tokenizer(Import *m, Error *error) {
  static const char *const names[] = {CONVERT_TOKENIZER_JSON, CONVERT_TOKENIZER_MODEL};
  char kept[IO_PATH_MAX];
  bool there = false;
  Error why = {0};
  if (!run_file(&m->run, CONVERT_KEPT, kept, error) || !io_make_path(kept, error) ||
      !convert_copy_kept(m->from, kept, true, &there, error)) {
    return false;
  }
  for (int i = 0; i < 2 && !m->result->tokenizer; i++) {
    m->tokenizer = names[i];
    m->result->tokenizer = kept_reads(kept, names[i], m->result, &why);
  }
  if (there && !m->result->tokenizer) {
    snprintf(m->result->note, sizeof m->result->note, "%.900s: text is not made into tokens by it",
             why.status ? why.text : "the tokenizer is gone again");
  }
  return true;
}

static bool import_compile(Import *m, Error *error) {
  Diag *diag = diag_create(m->arena);
  bool done = compile_plans(m->arena, diag, &m->compile, &m->set);
  if (m->options->show) {
    m->options->show(m->options->context, diag);
  }
  Diag *again = diag_create(m->arena);
  const bool known = done && compile_numbers(m->arena, again, &m->compile, &m->numbers);
  if (!known && (diag->no_memory || again->no_memory)) {
    return error_set(error, 3, "no memory to compile %s", m->compile.file);
  }
  return known || error_set(error, 1, "%s does not compile with the sizes of %s/config.json: %.300s", m->compile.file,
                            m->from, diag->all.count ? diag->all.at[0].message : "no memory");
}

// A parameter that ranks hold in 8 bits: rounded once, from 32.
static bool read_scaled(Import *m, int w, const LogicalState *state, void *dense, bool *found, Error *error) {
  Weight *weight = &m->weights.at[w];
  const int64_t count = weight_count(weight);
  float *wide = malloc(sizeof *wide * (size_t)count + 1);
  weight->type = TYPE_F32;
  bool done = (wide || error_set(error, 3, "no memory to read '%.100s'", weight->name)) &&
              source_read(m->source, w, wide, found, error);
  if (done && *found) {
    done = elements_fit(weight->name, TYPE_F32, wide, state->state->type, dense, count, error);
    state_round_once(&m->states, state, TYPE_F32, wide, dense);
    done = done && state_as_held(&m->states, state, dense, error);
  }
  free(wide);
  return done;
}

static bool read_weight(void *context, const PlanState *state, void *dense, Error *error) {
  Import *m = context;
  bool found = false;
  for (int w = 0; w < m->weights.count; w++) {
    if (strcmp(m->weights.at[w].name, state->name) == 0) {
      const LogicalState *logical = states_find(&m->states, state->name);
      const bool done = state_divides(&m->states, logical) ? source_read(m->source, w, dense, &found, error)
                                                           : read_scaled(m, w, logical, dense, &found, error);
      if (done && !found) {  // a weight that has no adapter: nothing is added to it
        memset(dense, 0, (size_t)state_bytes(state));
      }
      return done;
    }
  }
  memset(dense, 0, (size_t)state_bytes(state));  // a history of scales: nothing is known yet
  return true;
}

static bool import_weights(Import *m, Error *error) {
  const SourceOptions source = {
      .path = m->from, .adapters = m->adapters, .known = &m->mapping, .fresh = m->adapters != NULL};
  if (strcmp(m->numbers.model, m->mapping.model) != 0) {
    return error_set(error, 1, "%s is for the model '%s', the recipe's is '%s'", m->mapping.path, m->mapping.model,
                     m->numbers.model);
  }
  if (!states_open(m->set, &m->states, error) || !weights_of_states(m->arena, &m->states, &m->weights)) {
    return false;
  }
  for (int i = 0; i < m->states.count; i++) {
    const PlanState *state = m->states.at[i].state;
    if (state->role == STATE_MODEL && !plan_state_is_history(state)) {
      return error_set(error, 1, "the model keeps state of its own, '%s', which weights do not hold", state->name);
    }
  }
  const CheckpointSource from = {m, read_weight};
  CheckpointFacts facts = {
      .seed = m->set->plans[0]->run.seed, .state_hash = m->set->plans[0]->state_hash, .val_loss = NAN};
  if (!source_open(m->arena, &source, &m->numbers, &m->weights, &m->source, error) ||
      !checkpoint_save_weights(m->set, &from, m->run.checkpoints, &facts, error)) {
    return false;
  }
  if (facts.not_finite[0]) {
    const size_t said = strlen(m->result->note);
    snprintf(m->result->note + said, sizeof m->result->note - said,
             "%s'%.95s' holds numbers that are not finite: the weights are of no use as they are", said ? "; " : "",
             facts.not_finite);
  }
  RunPlan plan;
  return io_sync_directory(NULL, m->run.path, error) &&
         run_plan(m->arena, &m->run, m->set, &(RunFiles){0}, &plan, error) && run_write_plan(&m->run, &plan, error);
}

// A run that is there is not gone on with by a conversion.
static bool out_is_free(const char *out, Error *error) {
  char plan[IO_PATH_MAX];
  Error ignored;
  return !out || !io_path(plan, &ignored, "%s/plan.mdlx", out) || !io_is_file(plan) ||
         error_set(error, 1, "there is a run in %s already; give another directory with -o", out);
}

static bool not_there(const char *from, Error *error) {
  char hint[HUB_HINT_MAX];
  if (access(from, F_OK) != 0) {
    return error_set(
        error, 1, "there is no directory %s%s", from,
        *hub_hint(from, "`mdl convert ", " -o RUN`", NULL, hint)
            ? hint
            : "; nothing is downloaded: fetch it first, as with `huggingface-cli download NAME --local-dir "
              "DIR`");
  }
  char config[IO_PATH_MAX];
  const char *other = io_path(config, error, "%s/" HF_CONFIG, from) ? io_no_file(config) : NULL;
  if (other) {
    return error_set(error, 1, "%s is no directory of Hugging Face: its config.json is %s", from, other);
  }
  return error_set(
      error, 1, "%s is no directory of Hugging Face: it holds no config.json, nor is it one of PEFT, with " PEFT_CONFIG,
      from);
}

// What was named may be adapters alone, which say what they are for.
static bool import_find(Import *m, Error *error) {
  HfFiles files = {0};
  bool peft, hf;
  m->from = m->options->from;
  m->adapters = m->options->adapters;
  if (!io_find_in(m->from, PEFT_CONFIG, &peft, error)) {
    return false;
  }
  if (!peft) {
    return io_find_in(m->from, HF_CONFIG, &hf, error) && (hf || not_there(m->from, error));
  }
  m->adapters = m->from;
  const bool done = peft_open(m->adapters, &files, error) && peft_base(m->arena, &files, &m->from, error);
  hf_close(&files);
  return done;
}

// The constants of adapters are those that the configuration of these says.
static bool import_adapters(Import *m, Error *error) {
  HfFiles files = {0};
  ConfigSettings more;
  if (!m->adapters) {
    return true;
  }
  if (!peft_is(m->adapters)) {
    return error_set(error, 1, "%s is no directory of PEFT: it holds no " PEFT_CONFIG, m->adapters);
  }
  const bool done = peft_open(m->adapters, &files, error) && peft_settings(m->arena, &files, &more, error);
  for (int i = 0; done && i < more.count; i++) {
    array_push(m->arena, &m->settings, more.at[i]);
  }
  hf_close(&files);
  return done && (m->mapping.adapters.count > 0 ||
                  error_set(error, 1, "%s says nothing of adapters (`adapter PARAMETER = FACTOR, FACTOR by FORMULA`)",
                            m->mapping.path));
}

bool convert_import(Arena *arena, const ImportOptions *options, Imported *result, Error *error) {
  Import *m = ARENA_NEW(arena, Import);
  HfFiles files = {0};
  *result = (Imported){0};
  *m = (Import){.arena = arena, .options = options, .result = result, .compile = options->compile, .run.lock = -1};
  bool done = import_find(m, error) && hf_open(m->from, &files, error) && import_mapping(m, &files, error) &&
              config_settings(arena, &m->mapping, &files, &m->settings, error) && import_adapters(m, error);
  hf_close(&files);
  const bool created =
      done && out_is_free(options->out, error) && run_create(&m->run, options->out, m->mapping.model, error);
  settings_bound(m);
  done = created && import_tokenizer(m, error);
  if (done && options->compile.file) {
    import_set(m);
  } else {
    done = done && import_text(m, error);
  }
  done = done && import_compile(m, error) && import_weights(m, error);
  if (done) {
    const Plan *plan = m->set->plans[0];
    snprintf(result->run, sizeof result->run, "%s", m->run.path);
    result->mapping = m->mapping.path;
    result->model = m->mapping.model;
    result->parameters = plan->run.parameters;
    result->sequence = plan->run.sequence;
  } else if (created) {
    io_remove_tree(m->run.path);  // it was empty
  }
  source_close(m->source);
  states_close(&m->states);
  run_close(&m->run);
  return done;
}
