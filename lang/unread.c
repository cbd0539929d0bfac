// unread.c: names of a function, an update or a model that nothing in it reads.
//
// Names that are given once are read if anything in the body reads them. A value is read if anything that may run
// behind its statement reads it before another value has the name: statements are walked from the last to the first,
// with the set of names that are still read.
#include "lang/unread.h"

#include <string.h>

#include "lang/unread_names.h"

typedef struct {
  Unit *unit;
  Map numbers;       // of the names of the body
  int words;         // of 64 names in a set
  uint64_t *any;     // names that anything reads
  uint64_t *states;  // names of state: what is assigned to them is kept
  bool report;
  bool every;  // what computes only what nothing reads reads as well
} Body;

static bool set_has(const uint64_t *set, int64_t name) {
  return name >= 0 && (set[name / 64] >> (name % 64) & 1) != 0;
}

static void set_add(uint64_t *set, int64_t name) {
  if (name >= 0) {
    set[name / 64] |= (uint64_t)1 << (name % 64);
  }
}

static void set_remove(uint64_t *set, int64_t name) {
  if (name >= 0) {
    set[name / 64] &= ~((uint64_t)1 << (name % 64));
  }
}

static void set_join(const Body *body, uint64_t *set, const uint64_t *other) {
  for (int i = 0; i < body->words; i++) {
    set[i] |= other[i];
  }
}

static uint64_t *set_copy(const Body *body, const uint64_t *set) {
  return arena_copy(body->unit->arena, set, sizeof *set * (size_t)body->words);
}

static uint64_t *set_new(const Body *body) {
  return ARENA_ARRAY(body->unit->arena, uint64_t, body->words);
}

static int64_t number_of(const Body *body, Name name) {
  return map_get_or(&body->numbers, map_key(name), -1);
}

// What an expression, a type or a list of axes reads.
static void add_reads(const Body *body, const Ast *ast, uint64_t *set) {
  if (!ast) {
    return;
  }
  if (ast->kind == AST_NAME || ast->kind == AST_CALL) {
    set_add(set, number_of(body, ast->name));
    for (Name base = ast->name; (base = name_without_mark(body->unit->names, base));) {
      set_add(set, number_of(body, base));
    }
  }
  for (int i = 0; i < ast->count && !names_a_part(ast); i++) {
    add_reads(body, ast->kids[i], set);
  }
}

static void warn(Body *body, const Ast *ast, Span span, const char *what) {
  if (!body->report || ast->name[0] == '_') {
    return;
  }
  Diag *diag = body->unit->diag;
  Diagnostic *said = diag_warning(diag, E016, span, "nothing reads %s '%s'", what, ast->name);
  if (ast->kind == AST_INPUT) {  // data feeds it by its name
    diag_help(diag, said, "remove it; or say `allow E016;` in the recipe if that is meant");
  } else {
    diag_help(diag, said, "remove it, or call it `_%s` if that is meant", ast->name);
  }
}

// --- values ---

static void walk_block(Body *body, const Ast *block, uint64_t *live);

static void walk_assign(Body *body, const Ast *ast, uint64_t *live) {
  const Ast *targets = ast->kids[0];
  bool read = false;
  for (int i = 0; i < targets->count; i++) {
    const int64_t number = number_of(body, targets->kids[i]->name);
    read |= set_has(live, number) || set_has(body->states, number);
  }
  for (int i = 0; i < targets->count; i++) {
    const Ast *target = targets->kids[i];
    const int64_t number = number_of(body, target->name);
    if (!set_has(live, number) && !set_has(body->states, number)) {
      warn(body, target, target->span, "the value");
    }
  }
  if (!read && body->report) {
    array_push(body->unit->arena, &body->unit->unread, ast->span);
  }
  for (int i = 0; i < targets->count; i++) {
    set_remove(live, number_of(body, targets->kids[i]->name));
  }
  add_reads(body, ast->kids[1], live);
  // In a loop, `n = n + 1;` alone does not read n.
  for (int i = 0; i < targets->count && !read && !body->report && !body->every; i++) {
    set_remove(live, number_of(body, targets->kids[i]->name));
  }
}

// The names that the block of a loop reads before it gives them; it may run any number of times.
static void walk_loop(Body *body, const Ast *block, uint64_t *live) {
  const bool report = body->report;
  uint64_t *first = set_new(body);
  body->report = false;
  walk_block(body, block, first);
  body->report = report;
  set_join(body, live, first);
  if (report) {
    uint64_t *behind = set_copy(body, live);
    walk_block(body, block, behind);
    set_join(body, live, behind);
  }
}

static void walk_if(Body *body, const Ast *ast, uint64_t *live) {
  uint64_t *other = set_copy(body, live);
  walk_block(body, ast->kids[1], live);
  if (ast->kids[2] && ast->kids[2]->kind == AST_IF) {
    walk_if(body, ast->kids[2], other);
  } else if (ast->kids[2]) {
    walk_block(body, ast->kids[2], other);
  }
  set_join(body, live, other);
  add_reads(body, ast->kids[0], live);
}

static void walk_statement(Body *body, const Ast *ast, uint64_t *live) {
  switch (ast->kind) {
    case AST_ASSIGN:
      walk_assign(body, ast, live);
      break;
    case AST_REPEAT:
      walk_loop(body, ast->kids[2], live);
      add_reads(body, ast->kids[0], live);
      break;
    case AST_SCAN:
      walk_loop(body, ast->kids[1], live);
      break;
    case AST_IF:
      walk_if(body, ast, live);
      break;
    case AST_RETURN:
      memset(live, 0, sizeof *live * (size_t)body->words);
      add_reads(body, ast, live);
      break;
    case AST_OUTPUT:
      set_add(live, ast->kids[0] ? -1 : number_of(body, ast->name));
      add_reads(body, ast, live);
      break;
    default:
      add_reads(body, ast, live);
  }
}

static void walk_block(Body *body, const Ast *block, uint64_t *live) {
  for (int i = block->count - 1; i >= 0; i--) {
    walk_statement(body, block->kids[i], live);
  }
}

// --- names that are given once ---

static const char *once_what(const Ast *ast) {
  switch (ast->kind) {
    case AST_AXIS:
      return "the axis";
    case AST_CONST:
      return "the constant";
    case AST_INPUT:
      return "the input";
    case AST_PARAM:
      return "the parameter";
    case AST_STATE:
      return "the state";
    default:
      return NULL;
  }
}

static void number_name(Body *body, Name name) {
  if (name && number_of(body, name) < 0) {
    map_put(&body->numbers, map_key(name), (int64_t)body->numbers.count);
  }
}

// Numbers all names that are given in the body.
static void number_names(Body *body, const Ast *ast) {
  if (!ast) {
    return;
  }
  if (once_what(ast) || ast->kind == AST_FORMAL || ast->kind == AST_CARRY || ast->kind == AST_OUTPUT) {
    number_name(body, ast->name);
  }
  if (ast->kind == AST_ASSIGN) {
    for (int i = 0; i < ast->kids[0]->count; i++) {
      number_name(body, ast->kids[0]->kids[i]->name);
    }
  }
  if (ast->kind == AST_REPEAT && ast->kids[1]) {
    number_name(body, ast->kids[1]->name);
  }
  for (int i = 0; i < ast->count; i++) {
    number_names(body, ast->kids[i]);
  }
}

static void collect(Body *body, const Ast *ast) {
  if (!ast) {
    return;
  }
  if (ast->kind == AST_STATE) {
    set_add(body->states, number_of(body, ast->name));
  }
  if (ast->kind == AST_ASSIGN) {
    add_reads(body, ast->kids[1], body->any);
  } else if (ast->kind == AST_REPEAT) {
    add_reads(body, ast->kids[0], body->any);
    collect(body, ast->kids[2]);
  } else if (ast->kind == AST_SCAN) {
    add_reads(body, ast->kids[0], body->any);
    collect(body, ast->kids[1]);
  } else if (ast->kind == AST_IF) {
    add_reads(body, ast->kids[0], body->any);
    collect(body, ast->kids[1]);
    collect(body, ast->kids[2]);
  } else if (ast->kind == AST_BLOCK) {
    for (int i = 0; i < ast->count; i++) {
      collect(body, ast->kids[i]);
    }
  } else {
    set_add(body->any, ast->kind == AST_OUTPUT && !ast->kids[0] ? number_of(body, ast->name) : -1);
    add_reads(body, ast, body->any);
  }
}

static void check_once(Body *body, const Ast *ast) {
  if (!ast) {
    return;
  }
  const char *what = once_what(ast);
  if (what && !set_has(body->any, number_of(body, ast->name))) {
    warn(body, ast, ast->name_span, what);
    array_push(body->unit->arena, &body->unit->unread, ast->span);
  }
  const Ast *counter = ast->kind == AST_REPEAT ? ast->kids[1] : NULL;
  if (counter && !set_has(body->any, number_of(body, counter->name))) {
    warn(body, counter, counter->span, "the counter");
  }
  for (int i = 0; i < ast->count &&
                  (ast->kind == AST_BLOCK || ast->kind == AST_REPEAT || ast->kind == AST_IF || ast->kind == AST_SCAN);
       i++) {
    check_once(body, ast->kids[i]);
  }
}

// An update is given a parameter and its gradient; a function that is an argument is given what its caller has.
static void check_formals(Body *body, const Ast *function, bool argument) {
  const Ast *formals = function->kids[0];
  for (int i = function->kind == AST_UPDATE ? 2 : 0; i < formals->count && !argument; i++) {
    if (!set_has(body->any, number_of(body, formals->kids[i]->name))) {
      warn(body, formals->kids[i], formals->kids[i]->name_span, "the parameter");
    }
  }
}

void unread_body(Unit *unit, const Ast *ast, bool argument) {
  static const char *const results[] = {"loss", "logits", "batch", "seq"};
  const bool model = ast->kind == AST_MODEL;
  const Ast *block = ast->kids[ast->count - 1];
  Body body = {.unit = unit, .numbers = map_create(unit->arena), .report = true};
  number_names(&body, ast);
  body.words = (int)body.numbers.count / 64 + 1;
  body.any = set_new(&body);
  body.states = set_new(&body);
  uint64_t *live = set_new(&body);
  for (size_t i = 0; model && i < sizeof results / sizeof *results; i++) {
    set_add(live, number_of(&body, name_of(unit->names, results[i])));
  }
  set_join(&body, body.any, live);
  collect(&body, block);
  if (!model) {
    for (int i = 0; i < ast->kids[0]->count; i++) {
      add_reads(&body, ast->kids[0]->kids[i], body.any);
    }
    check_formals(&body, ast, argument);
  }
  check_once(&body, block);
  walk_block(&body, block, live);
}

bool block_reads_first(Unit *unit, const Ast *block, Name name) {
  Body body = {.unit = unit, .numbers = map_create(unit->arena), .every = true};
  number_names(&body, block);
  body.words = (int)body.numbers.count / 64 + 1;
  body.any = set_new(&body);
  body.states = set_new(&body);
  uint64_t *live = set_new(&body);
  walk_block(&body, block, live);
  return set_has(live, number_of(&body, name));
}
