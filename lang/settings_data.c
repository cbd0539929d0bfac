// settings_data.c: what a recipe says of its data: `data text("corpus.txt")`, `data tokens("train.bin", u16)`.
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
  if (value->kind == AST_NAME && name_is(value->name, "bytes") && !rule->tokens) {
    run->tokenizer = value->name;
    return;
  }
  Diagnostic *error = diag_error(rule->unit->diag, E051, value->span,
                                 rule->tokens ? "a tokenizer is a file" : "a tokenizer is `bytes` or a file");
  diag_help(rule->unit->diag, error, "write the path of a tokenizer.json, or of a rank file of tiktoken, in quotes");
}

static void read_argument(const DataRule *rule, const Ast *argument, int *paths) {
  PlanRun *run = &rule->spec->run;
  const Ast *value = argument->kids[0];
  const bool type = value->kind == AST_NAME && (name_is(value->name, "u16") || name_is(value->name, "u32"));
  if (!argument->name && value->kind == AST_STRING && (*paths)++) {
    diag_error(rule->unit->diag, E051, argument->span, "`%s` takes one path", rule->call->name);
  } else if (!argument->name && value->kind == AST_STRING) {
    run->data_path = value->name;
  } else if (!argument->name && type && rule->tokens) {
    run->data_kind = name_is(value->name, "u16") ? "tokens_u16" : "tokens_u32";
  } else if (name_is(argument->name, "tokenizer")) {
    read_tokenizer(rule, value);
  } else {
    data_unknown(rule, argument->span);
  }
}

void read_data(Unit *unit, Spec *spec, const Ast *phrase) {
  const Ast *call = settings_call(phrase);
  const bool tokens = call && name_is(call->name, "tokens");
  if (!tokens && (!call || !name_is(call->name, "text"))) {
    Diagnostic *error = diag_error(unit->diag, E051, phrase->span, "data is read from text or from files of tokens");
    diag_help(unit->diag, error, "write `data text(\"corpus.txt\");` or `data tokens(\"train.bin\", u16);`");
    return;
  }
  const DataRule rule = {unit, spec, call, tokens};
  int paths = 0;
  spec->run.data_kind = tokens ? "tokens" : "text";
  for (int i = 0; i < call->kids[0]->count; i++) {
    read_argument(&rule, call->kids[0]->kids[i], &paths);
  }
  if (!spec->run.data_path) {
    Diagnostic *error = diag_error(unit->diag, E050, call->span, "`%s` needs the path of a file", call->name);
    diag_help(unit->diag, error,
              tokens ? "write `data tokens(\"train.bin\", u16);`" : "write `data text(\"corpus.txt\");`");
  }
}
