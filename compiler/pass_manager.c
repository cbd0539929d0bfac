// pass_manager.c: see pass_manager.h.
#include "compiler/pass_manager.h"

#include <string.h>

#include "compiler/verify.h"

enum { EACH = 1, TRAIN = 2, REFRESH = 4, ALL = EACH | REFRESH };

enum {
  NOTHING = 0,
#define FACT(NAME, other, what) NAME = 1 << FACT_NUMBER_##NAME,
#include "compiler/facts.def"
#undef FACT
};

static const struct {
  const Node *(*other)(const Graph *graph);
  const char *what;
} facts[] = {
#define FACT(NAME, other, what) {other, what},
#include "compiler/facts.def"
#undef FACT
};

typedef struct {
  const char *name, *what;
  Pass *run;
  LoweringPass *lower;  // one of these two
  int programs;
  uint32_t needs, gives;
} Listed;

static const Listed passes[] = {
#define PASS(name, function, programs, needs, gives, what) {#name, what, function, NULL, programs, needs, gives},
#define LOWERING(name, function, programs, needs, gives, what) {#name, what, NULL, function, programs, needs, gives},
#include "compiler/passes.def"
#undef PASS
#undef LOWERING
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };
_Static_assert(sizeof passes / sizeof *passes <= PASS_NAMES_MAX, "room for the names of all passes");

static const Listed *find(const char *name) {
  for (int i = 0; name && i < PASS_COUNT; i++) {
    if (strcmp(passes[i].name, name) == 0) {
      return &passes[i];
    }
  }
  return NULL;
}

bool passes_is_lowering(const char *name) {
  const Listed *pass = find(name);
  return pass && pass->lower;
}

int passes_names(const char *names[PASS_NAMES_MAX]) {
  for (int i = 0; i < PASS_COUNT; i++) {
    names[i] = passes[i].name;
  }
  return PASS_COUNT;
}

void passes_list(Buffer *out) {
  for (int i = 0; i < PASS_COUNT; i++) {
    buffer_format(out, "%-15s %s\n", passes[i].name, passes[i].what);
  }
}

// --- running them ---

static bool is_for(const Listed *pass, ProgramKind program) {
  const int wanted = program == PROGRAM_REFRESH ? REFRESH : program == PROGRAM_TRAIN ? EACH | TRAIN : EACH;
  return pass->programs & wanted;
}

// The pass that gives a fact, by its name.
static const char *giver(uint32_t fact) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (passes[i].gives & fact) {
      return passes[i].name;
    }
  }
  return "no pass";
}

static bool has_needs(const Compilation *c, const Listed *pass) {
  for (int i = 0; i < FACT_COUNT; i++) {
    const uint32_t fact = 1u << i;
    if (pass->needs & fact & ~c->facts) {
      diag_error(c->diag, E099, SPAN_NONE, "the pass '%s' needs what '%s' gives, which has not run: %s", pass->name,
                 giver(fact), facts[i].what);
      return false;
    }
  }
  return true;
}

static bool facts_hold(const Compilation *c, const Listed *pass) {
  for (int i = 0; i < FACT_COUNT; i++) {
    const Node *other = c->facts >> i & 1 && facts[i].other ? facts[i].other(c->graph) : NULL;
    if (other) {
      diag_error(c->diag, E099, other->span, "after the pass '%s' it is not so that %s: there is '%s'", pass->name,
                 facts[i].what, op_name(other->op));
      return false;
    }
  }
  return true;
}

static bool run(Compilation *c, const Listed *pass) {
  const int errors = c->diag->errors;
  if (!has_needs(c, pass) || !pass->run(c) || c->diag->errors > errors) {
    return false;
  }
  // A graph that is new has nothing of the one before it.
  c->facts = (pass->gives & GRAPH ? c->facts & STATES : c->facts) | pass->gives;
  if (c->watch) {
    c->watch->after(c->watch->context, c, pass->name);
  }
  return graph_verify(c->graph, c->diag, pass->name) && facts_hold(c, pass);
}

static bool lower(Lower *l, const Listed *pass) {
  const int errors = l->c->diag->errors;
  if (!has_needs(l->c, pass)) {
    return false;
  }
  pass->lower(l);
  l->c->facts |= pass->gives;
  return l->c->diag->errors == errors;
}

static bool run_all(Compilation *c, Lower *l, const char *after) {
  for (int i = 0; i < PASS_COUNT; i++) {
    const Listed *pass = &passes[i];
    if (!is_for(pass, c->program) || (pass->lower != NULL) != (l != NULL)) {
      continue;
    }
    if (l ? !lower(l, pass) : !run(c, pass)) {
      return false;
    }
    if (after && strcmp(after, pass->name) == 0) {
      return true;
    }
  }
  return true;
}

bool passes_run(Compilation *c, const char *after) {
  c->differentiated = c->program != PROGRAM_TRAIN;
  return run_all(c, NULL, after);
}

bool passes_lower(Lower *l, const char *after) {
  return run_all(l->c, l, after);
}

bool passes_run_one(Compilation *c, Lower *l, const char *name) {
  const Listed *pass = find(name);
  return pass && (pass->lower ? lower(l, pass) : run(c, pass));
}
