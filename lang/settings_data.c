// settings_data.c: what a recipe says of its data: `data text("corpus.txt")`, `data tokens("train.bin", u16)`,
// `data chat("talks.jsonl")`, and `validation text("held_out.txt")`.
#include <string.h>

#include "lang/settings_rules.h"

typedef enum { SOURCE_TEXT, SOURCE_TOKENS, SOURCE_CHAT, SOURCE_KINDS } SourceKind;

static const struct {
  const char *name, *takes;
} sources[SOURCE_KINDS] = {
    {"text", "`text` takes a path in quotes, a tokenizer and a separator"},
    {"tokens",
     "`tokens` takes a path in quotes, u16 or u32 for raw files, a tokenizer, a separator and a mask, which is a file"},
    {"chat", "`chat` takes a path in quotes, a tokenizer, a template, a begin and a separator"},
};

typedef struct {
  Unit *unit;
  Spec *spec;
  const Ast *call;
  SourceKind kind;
} DataRule;

static void data_unknown(const DataRule *rule, Span span) {
  diag_error(rule->unit->diag, E051, span, "%s", sources[rule->kind].takes);
}

// Adds an option to those of the source: its name, a mark of what its value is, and the value up to a semicolon, in
// which what would end a line, a field or the value is spelled by two characters. runtime/data/options.c reads it.
static void add_option(const DataRule *rule, const char *name, char mark, const char *value) {
  Arena *arena = rule->unit->arena;
  char *text = ARENA_ARRAY(arena, char, (int)(2 * strlen(value)) + 1), *to = text;
  for (const char *c = value; *c; c++) {
    const char *const found = strchr("\\\\\nn\tt;s", *c);
    const bool spelled = *c == '\\' || *c == '\n' || *c == '\t' || *c == ';';
    *to++ = spelled ? '\\' : *c;
    if (spelled) {
      *to++ = found[1];
    }
  }
  *to = '\0';
  Spec *spec = rule->spec;
  spec->text->data_options =
      arena_format(arena, "%s%s%c%s;", spec->text->data_options ? spec->text->data_options : "", name, mark, text);
}

// An argument with a name that only some sources have. False where it is none of these.
static bool read_option(const DataRule *rule, Name name, const Ast *value) {
  static const struct {
    const char *name;
    bool takes[SOURCE_KINDS];
  } options[] = {{"separator", {true, true, true}},
                 {"template", {[SOURCE_CHAT] = true}},
                 {"begin", {[SOURCE_CHAT] = true}},
                 {"mask", {[SOURCE_TOKENS] = true}}};
  double number;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (!name_is(name, options[i].name) || !options[i].takes[rule->kind]) {
      continue;
    }
    if (value->kind == AST_STRING && value->name[0]) {
      add_option(rule, options[i].name, '=', value->name);
    } else if (i == 0 && value->kind == AST_NAME && name_is(value->name, "none")) {
      add_option(rule, options[i].name, '-', "");
    } else if (i == 0 && setting_constant(value, &number) && number >= 0 && number < 2147483647 &&
               number == (double)(int)number && rule->kind == SOURCE_TOKENS) {
      add_option(rule, options[i].name, '#', arena_format(rule->unit->arena, "%d", (int)number));
    } else {
      diag_error(rule->unit->diag, E051, value->span,
                 i > 0 ? "`%s` takes a text in quotes"
                       : "`%s` takes a text in quotes, `none`, or of files of tokens the number of one",
                 options[i].name);
    }
    return true;
  }
  return false;
}

// `bytes`, or the path of a file in quotes.
static void read_tokenizer(const DataRule *rule, const Ast *value) {
  PlanRun *run = &rule->spec->run;
  if (value->kind == AST_STRING) {
    if (name_is(value->name, "bytes")) {
      Diagnostic *error = diag_error(rule->unit->diag, E051, value->span, "`bytes` in quotes is a file of that name");
      diag_help(rule->unit->diag, error, "write `tokenizer = bytes`; a file would be \"./bytes\"");
    }
    const bool word = name_is(value->name, "none");
    run->tokenizer = word ? arena_format(rule->unit->arena, "./%s", value->name) : value->name;
    return;
  }
  if (value->kind == AST_NAME && name_is(value->name, "bytes")) {
    run->tokenizer = value->name;
    return;
  }
  Diagnostic *error = diag_error(rule->unit->diag, E051, value->span, "a tokenizer is `bytes` or a file");
  diag_help(rule->unit->diag, error,
            "write the path of a tokenizer.json, a rank file of tiktoken or a .model of SentencePiece, in quotes");
}

static void read_argument(const DataRule *rule, const Ast *argument, const Ast **first) {
  PlanRun *run = &rule->spec->run;
  const Ast *value = argument->kids[0];
  const bool type = value->kind == AST_NAME && (name_is(value->name, "u16") || name_is(value->name, "u32"));
  if (!argument->name && value->kind == AST_STRING && *first && rule->kind == SOURCE_TOKENS &&
      (name_is(value->name, "u16") || name_is(value->name, "u32"))) {
    Diagnostic *error = diag_error(rule->unit->diag, E051, argument->span, "a type of tokens is no path");
    diag_help(rule->unit->diag, error, "write `%s` without quotes", value->name);
  } else if (!argument->name && value->kind == AST_STRING && *first) {
    Diagnostic *error = diag_error(rule->unit->diag, E051, argument->span, "`%s` takes one path", rule->call->name);
    diag_related(rule->unit->diag, error, (*first)->span, "the first");
    diag_help(rule->unit->diag, error, "%s",
              rule->kind == SOURCE_TOKENS
                  ? "mix the files: `data mix(a = tokens(...), b = tokens(...));`"
                  : "join the files, `cat A B > C`, name them by a pattern, `\"*.txt\"`, or mix "
                    "them: `data mix(a = text(...), b = text(...));`");
  } else if (!argument->name && value->kind == AST_STRING) {
    run->data_path = value->name;
    *first = argument;
  } else if (!argument->name && type && rule->kind == SOURCE_TOKENS) {
    run->data_kind = name_is(value->name, "u16") ? "tokens_u16" : "tokens_u32";
  } else if (name_is(argument->name, "tokenizer")) {
    read_tokenizer(rule, value);
  } else if (!read_option(rule, argument->name, value)) {
    data_unknown(rule, argument->span);
  }
}

typedef enum { PLACE_DATA, PLACE_MIX, PLACE_VALIDATION } SourcePlace;  // where a source stands

// What stands in the place of a source is none.
static void report_no_source(const Unit *unit, const Ast *value, SourcePlace place, Span span) {
  const bool call = value && value->kind == AST_CALL;
  const char *said = place == PLACE_DATA
                         ? "data is read from text, from files of tokens, from chats, or from a mix of them"
                     : place == PLACE_MIX ? "a source of a mix is text, a file of tokens or chats"
                                          : "a validation source is text, a file of tokens or chats";
  const char *help = place == PLACE_DATA
                         ? "write `data text(\"corpus.txt\");`, `data tokens(\"train.bin\", u16);`, `data "
                           "chat(\"talks.jsonl\");` or `data mix(a = 0.7 * text(...), b = 0.3 * tokens(...));`"
                         : "write `text(\"corpus.txt\")`, `tokens(\"train.bin\", u16)` or `chat(\"talks.jsonl\")`";
  if (call && name_is(value->name, "mix") && place == PLACE_MIX) {
    said = "a mix may not stand in a mix";
    help = "name its sources in the outer one, each with a weight of its own";
  } else if (call && name_is(value->name, "mix") && place == PLACE_VALIDATION) {
    said = "what is validated with is no mix";
    help = "write `validation sets(a = text(...), b = tokens(...));`, which are evaluated one by one";
  } else if (call && name_is(value->name, "sets")) {
    said = "`sets` stand behind `validation` alone";
    help = place == PLACE_VALIDATION ? "name all sources in one `validation sets(...)`"
                                     : "sources to train on are `mix(a = 0.7 * text(...), b = 0.3 * tokens(...))`";
  } else if (value && value->kind == AST_BINARY && place == PLACE_VALIDATION) {
    said = "a validation source has no weight: each is evaluated by itself, and counts as much as another";
    help = "write `NAME = text(...)`";
  }
  Diagnostic *error = diag_error(unit->diag, E051, span, "%s", said);
  diag_help(unit->diag, error, "%s", help);
}

// text(...), tokens(...) or chat(...). False where it is none of them.
static bool read_source(Unit *unit, Spec *spec, const Ast *call, SourcePlace place, Span span) {
  SourceKind kind = SOURCE_TEXT;
  while (kind < SOURCE_KINDS && !(call && call->kind == AST_CALL && name_is(call->name, sources[kind].name))) {
    kind++;
  }
  if (kind == SOURCE_KINDS) {
    report_no_source(unit, call, place, span);
    return false;
  }
  const DataRule rule = {unit, spec, call, kind};
  const Ast *first = NULL;
  spec->run.data_kind = sources[kind].name;
  spec->run.data_path = spec->run.tokenizer = spec->text->data_options = NULL;
  for (int i = 0; i < call->kids[0]->count; i++) {
    read_argument(&rule, call->kids[0]->kids[i], &first);
  }
  if (!spec->run.data_path) {
    static const char *const examples[] = {"text(\"corpus.txt\")", "tokens(\"train.bin\", u16)",
                                           "chat(\"talks.jsonl\")"};
    Diagnostic *error = diag_error(unit->diag, E050, call->span, "`%s` needs the path of a file", call->name);
    diag_help(unit->diag, error, "write `data %s;`", examples[kind]);
  }
  return spec->run.data_path != NULL;
}

// A line that describes the source that was read last, which runtime/data/source.c reads.
static const char *source_line(Unit *unit, const Spec *spec, const char *name, double weight, Span span) {
  const PlanRun *run = &spec->run;
  if (strpbrk(run->data_path, "\t\n") || strpbrk(run->tokenizer, "\t\n")) {
    diag_error(unit->diag, E051, span, "a path in a mix, or of a validation source, has no tabs and no ends of lines");
  }
  return arena_format(unit->arena, "%s\t%.17g\t%s\t%s\t%s%s%s\n", name, weight, run->data_kind, run->tokenizer,
                      run->data_path, spec->text->data_options ? "\t" : "",
                      spec->text->data_options ? spec->text->data_options : "");
}

static const char *tokenizer_otherwise(const PlanRun *run) {
  return strncmp(run->data_kind, "tokens", 6) == 0 ? "none" : "bytes";
}

// `web = 0.7 * text("web.txt")` of a mix: a line of its description, which runtime/data/data.c reads.
static const char *read_part(Unit *unit, Spec *spec, const Ast *argument, const char *tokenizer) {
  const Ast *value = argument->kids[0], *call = value;
  double weight = 1;
  if (value->kind == AST_BINARY && name_is(value->name, "*")) {
    call = value->kids[1];
    const Ast *source = value->kids[0];
    if (source->kind == AST_CALL && setting_constant(call, &weight)) {
      Diagnostic *error = diag_error(unit->diag, E051, value->span, "the weight of a source stands before it");
      diag_help(unit->diag, error, "write `%s%s%g * %s(...)`", argument->name ? argument->name : "",
                argument->name ? " = " : "", weight, source->name);
      return NULL;
    }
    if (!setting_constant(value->kids[0], &weight) || !(weight > 0 && weight <= 1e12)) {
      diag_error(unit->diag, E051, value->kids[0]->span, "a weight of a mix is a number above 0, and at most 1e12");
      return NULL;
    }
  }
  if (!argument->name) {
    Diagnostic *error = diag_error(unit->diag, E051, argument->span, "each source of a mix has a name");
    diag_help(unit->diag, error, "write `web = 0.7 * text(\"web.txt\")`");
    return NULL;
  }
  PlanRun *run = &spec->run;
  if (!read_source(unit, spec, call, PLACE_MIX, call->span)) {
    return NULL;
  }
  run->tokenizer = run->tokenizer ? run->tokenizer : tokenizer_otherwise(run);
  const bool told = strcmp(run->tokenizer, "none") != 0;
  if (tokenizer && told && strcmp(run->tokenizer, tokenizer) != 0) {
    diag_error(unit->diag, E051, call->span, "the sources of a mix have the tokenizers '%s' and '%s'; they need one",
               tokenizer, run->tokenizer);
  }
  return source_line(unit, spec, argument->name, weight, call->span);
}

static void read_mix(Unit *unit, Spec *spec, const Ast *call) {
  enum { MOST_SOURCES = 32 };
  const char *all = "", *tokenizer = NULL;
  const Ast *list = call->kids[0];
  for (int i = 0; i < list->count; i++) {
    const Ast *value = list->kids[i]->kids[0];
    value = value->kind == AST_BINARY ? value->kids[1] : value;
    if (value->kind == AST_CALL && name_is(value->name, "mix")) {
      report_no_source(unit, value, PLACE_MIX, value->span);
      return;
    }
  }
  if (list->count < 2 || list->count > MOST_SOURCES) {
    diag_error(unit->diag, E051, call->span, "a mix has from 2 to %d sources", MOST_SOURCES);
    return;
  }
  for (int i = 0; i < list->count; i++) {
    const char *line = read_part(unit, spec, list->kids[i], tokenizer);
    if (!line) {
      return;
    }
    all = arena_format(unit->arena, "%s%s", all, line);
    tokenizer = strcmp(spec->run.tokenizer, "none") != 0 ? spec->run.tokenizer : tokenizer;
  }
  spec->text->data_options = NULL;
  spec->run.data_kind = "mix";
  spec->run.data_path = all;
  spec->run.tokenizer = tokenizer ? tokenizer : "none";
}

// The word and a call are all that such a phrase has: a weight, or a second call, would mean nothing.
static void check_alone(const Unit *unit, const Ast *phrase, const char *word, const char *help) {
  if (phrase->kids[0]->count > 2) {
    Diagnostic *error =
        diag_error(unit->diag, E051, phrase->span, "`%s` takes one source, and nothing else stands beside it", word);
    diag_help(unit->diag, error, "%s", help);
  }
}

void read_data(Unit *unit, Spec *spec, const Ast *phrase) {
  const Ast *call = settings_call(phrase);
  check_alone(unit, phrase, "data",
              "several, with weights, are a mix: `data mix(a = 0.7 * text(...), b = 0.3 * tokens(...));`");
  if (call && name_is(call->name, "mix")) {
    read_mix(unit, spec, call);
  } else {
    read_source(unit, spec, call, PLACE_DATA, phrase->span);
  }
}

// A source of validation(...): its line, in which no tokenizer is that of the data. The fields of the data stay.
static const char *read_validation_source(Unit *unit, Spec *spec, const char *name, const Ast *call, Span span) {
  const PlanRun run = spec->run;
  const char *const options = spec->text->data_options;
  const char *line = NULL;
  if (read_source(unit, spec, call, PLACE_VALIDATION, span)) {
    spec->run.tokenizer = spec->run.tokenizer ? spec->run.tokenizer : "";
    line = source_line(unit, spec, name, 0, span);
  }
  spec->run = run;
  spec->text->data_options = options;
  return line;
}

void read_validation(Unit *unit, Spec *spec, const Ast *phrase) {
  enum { MOST_SETS = 8 };
  const Ast *call = settings_call(phrase);
  const char *all = "";
  if (!call) {
    Diagnostic *error = diag_error(unit->diag, E051, phrase->span, "`validation` needs a source, as `data` has one");
    diag_help(unit->diag, error,
              "write `validation text(\"held_out.txt\");`, or, for a part of the data, `validation = 0.05;`");
    return;
  }
  check_alone(unit, phrase, "validation",
              "several, which have no weights, are `validation sets(a = text(...), b = tokens(...));`");
  if (!name_is(call->name, "sets")) {
    spec->text->validation_data = read_validation_source(unit, spec, "", call, phrase->span);
    return;
  }
  const Ast *list = call->kids[0];
  if (list->count < 1 || list->count > MOST_SETS) {
    diag_error(unit->diag, E051, call->span, "there are from 1 to %d validation sets", MOST_SETS);
    return;
  }
  for (int i = 0; i < list->count; i++) {
    const Ast *argument = list->kids[i];
    if (!argument->name) {
      Diagnostic *error = diag_error(unit->diag, E051, argument->span, "each validation set has a name");
      diag_help(unit->diag, error, "write `validation sets(books = text(\"books.txt\"), code = text(\"code.txt\"));`");
      return;
    }
    const char *line = read_validation_source(unit, spec, argument->name, argument->kids[0], argument->span);
    if (!line) {
      return;
    }
    all = arena_format(unit->arena, "%s%s", all, line);
  }
  spec->text->validation_data = all;
}

void finish_data(Unit *unit, Spec *spec) {
  PlanRun *run = &spec->run;
  run->data_kind = run->data_kind ? run->data_kind : "text";
  run->tokenizer = run->tokenizer ? run->tokenizer : tokenizer_otherwise(run);
  const bool plain = !spec->text->data_options && !name_is(run->data_kind, "chat");
  if (plain && !spec->text->validation_data) {
    return;
  }
  if (!name_is(run->data_kind, "mix")) {
    run->data_path = run->data_path ? source_line(unit, spec, "data", 1, spec->text->recipe->span) : "";
    run->data_kind = "mix";
  }
  run->data_path =
      arena_format(unit->arena, "%s%s", run->data_path, spec->text->validation_data ? spec->text->validation_data : "");
}
