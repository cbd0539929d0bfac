// settings_data.c: what a recipe says of its data: `data text("corpus.txt")`, `data tokens("train.bin", u16)`.
#include <string.h>

#include "lang/settings_rules.h"

typedef struct {
  Unit *unit;
  Spec *spec;
  const Ast *call;
  bool tokens;  // not text
} DataRule;

static void data_unknown(const DataRule *rule, Span span) {
  diag_error(rule->unit->diag, E051, span,
             rule->tokens ? "`tokens` takes a path in quotes, u16 or u32 for raw files, and a tokenizer"
                          : "`text` takes a path in quotes and a tokenizer");
}

// `bytes`, or the path of a file in quotes.
static void read_tokenizer(const DataRule *rule, const Ast *value) {
  PlanRun *run = &rule->spec->run;
  if (value->kind == AST_STRING) {
    const bool word = name_is(value->name, "bytes") || name_is(value->name, "none");
    run->tokenizer = word ? arena_format(rule->unit->arena, "./%s", value->name) : value->name;
    return;
  }
  if (value->kind == AST_NAME && name_is(value->name, "bytes")) {
    run->tokenizer = value->name;
    return;
  }
  Diagnostic *error = diag_error(rule->unit->diag, E051, value->span, "a tokenizer is `bytes` or a file");
  diag_help(rule->unit->diag, error, "write the path of a tokenizer.json, or of a rank file of tiktoken, in quotes");
}

static void read_argument(const DataRule *rule, const Ast *argument, const Ast **first) {
  PlanRun *run = &rule->spec->run;
  const Ast *value = argument->kids[0];
  const bool type = value->kind == AST_NAME && (name_is(value->name, "u16") || name_is(value->name, "u32"));
  if (!argument->name && value->kind == AST_STRING && *first && rule->tokens &&
      (name_is(value->name, "u16") || name_is(value->name, "u32"))) {
    Diagnostic *error = diag_error(rule->unit->diag, E051, argument->span, "a type of tokens is no path");
    diag_help(rule->unit->diag, error, "write `%s` without quotes", value->name);
  } else if (!argument->name && value->kind == AST_STRING && *first) {
    Diagnostic *error = diag_error(rule->unit->diag, E051, argument->span, "`%s` takes one path", rule->call->name);
    diag_related(rule->unit->diag, error, (*first)->span, "the first");
    diag_help(rule->unit->diag, error, "%s",
              rule->tokens ? "mix the files: `data mix(a = tokens(...), b = tokens(...));`"
                           : "join the files, `cat A B > C`");
  } else if (!argument->name && value->kind == AST_STRING) {
    run->data_path = value->name;
    *first = argument;
  } else if (!argument->name && type && rule->tokens) {
    run->data_kind = name_is(value->name, "u16") ? "tokens_u16" : "tokens_u32";
  } else if (name_is(argument->name, "tokenizer")) {
    read_tokenizer(rule, value);
  } else {
    data_unknown(rule, argument->span);
  }
}

// text(...) or tokens(...). False where it is neither.
static bool read_source(Unit *unit, Spec *spec, const Ast *call, Span span) {
  const bool tokens = call && name_is(call->name, "tokens");
  if (!tokens && (!call || !name_is(call->name, "text"))) {
    Diagnostic *error =
        diag_error(unit->diag, E051, span, "data is read from text, from files of tokens, or from a mix of them");
    diag_help(unit->diag, error,
              "write `data text(\"corpus.txt\");`, `data tokens(\"train.bin\", u16);` or "
              "`data mix(a = 0.7 * text(...), b = 0.3 * tokens(...));`");
    return false;
  }
  const DataRule rule = {unit, spec, call, tokens};
  const Ast *first = NULL;
  spec->run.data_kind = tokens ? "tokens" : "text";
  spec->run.data_path = spec->run.tokenizer = NULL;
  for (int i = 0; i < call->kids[0]->count; i++) {
    read_argument(&rule, call->kids[0]->kids[i], &first);
  }
  if (!spec->run.data_path) {
    Diagnostic *error = diag_error(unit->diag, E050, call->span, "`%s` needs the path of a file", call->name);
    diag_help(unit->diag, error,
              tokens ? "write `data tokens(\"train.bin\", u16);`" : "write `data text(\"corpus.txt\");`");
  }
  return spec->run.data_path != NULL;
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
      diag_error(unit->diag, E051, value->kids[0]->span, "a weight of a mix is a number above 0");
      return NULL;
    }
  }
  if (!argument->name) {
    Diagnostic *error = diag_error(unit->diag, E051, argument->span, "each source of a mix has a name");
    diag_help(unit->diag, error, "write `web = 0.7 * text(\"web.txt\")`");
    return NULL;
  }
  PlanRun *run = &spec->run;
  if (!read_source(unit, spec, call->kind == AST_CALL ? call : NULL, call->span)) {
    return NULL;
  }
  run->tokenizer = run->tokenizer ? run->tokenizer : name_is(run->data_kind, "text") ? "bytes" : "none";
  const bool told = strcmp(run->tokenizer, "none") != 0;
  if (tokenizer && told && strcmp(run->tokenizer, tokenizer) != 0) {
    diag_error(unit->diag, E051, call->span, "the sources of a mix have the tokenizers '%s' and '%s'; they need one",
               tokenizer, run->tokenizer);
  }
  if (strpbrk(run->data_path, "\t\n") || strpbrk(run->tokenizer, "\t\n")) {
    diag_error(unit->diag, E051, call->span, "a path in a mix has no tabs and no ends of lines");
  }
  return arena_format(unit->arena, "%s\t%.17g\t%s\t%s\t%s\n", argument->name, weight, run->data_kind, run->tokenizer,
                      run->data_path);
}

static void read_mix(Unit *unit, Spec *spec, const Ast *call) {
  enum { MOST_SOURCES = 32 };
  const char *all = "", *tokenizer = NULL;
  const Ast *list = call->kids[0];
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
  spec->run.data_kind = "mix";
  spec->run.data_path = all;
  spec->run.tokenizer = tokenizer ? tokenizer : "none";
}

void read_data(Unit *unit, Spec *spec, const Ast *phrase) {
  const Ast *call = settings_call(phrase);
  if (call && name_is(call->name, "mix")) {
    read_mix(unit, spec, call);
  } else {
    read_source(unit, spec, call, phrase->span);
  }
}
