// pass_manager.c: see pass_manager.h.
#include "compiler/pass_list.h"

#include <string.h>

#include "compiler/ir/graph_copy.h"
#include "compiler/ir/verify.h"
#include "compiler/pipeline/stage.h"

const ListedFact listed_facts[FACT_COUNT] = {
#define FACT(NAME, other, what) {#NAME, what, other},
#include "compiler/pass/facts.def"
#undef FACT
};

const ListedPass listed_passes[PASS_COUNT] = {
#define PASS(name, function, programs, needs, gives, what) {#name, what, function, NULL, programs, needs, gives},
#define LOWERING(name, function, programs, needs, gives, what) {#name, what, NULL, function, programs, needs, gives},
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING
};
_Static_assert((int)PASS_COUNT <= (int)PASS_NAMES_MAX, "room for the names of all passes");

static const ListedPass *find(const char *name) {
  for (int i = 0; name && i < PASS_COUNT; i++) {
    if (strcmp(listed_passes[i].name, name) == 0) {
      return &listed_passes[i];
    }
  }
  return NULL;
}

bool passes_is_lowering(const char *name) {
  const ListedPass *pass = find(name);
  return pass && pass->lower;
}

int passes_names(const char *names[PASS_NAMES_MAX]) {
  for (int i = 0; i < PASS_COUNT; i++) {
    names[i] = listed_passes[i].name;
  }
  return PASS_COUNT;
}

void passes_list(Buffer *out) {
  for (int i = 0; i < PASS_COUNT; i++) {
    buffer_format(out, "%-15s %s\n", listed_passes[i].name, listed_passes[i].what);
  }
}

// --- running them ---

static bool is_for(const ListedPass *pass, const Compilation *c) {
  const int wanted = c->program == PROGRAM_REFRESH ? REFRESH
                     : c->program == PROGRAM_TRAIN ? EACH | TRAIN
                     : c->decode                   ? EACH | DECODE
                                                   : EACH;
  return pass->programs & wanted;
}

// The pass that gives a fact, by its name.
static const char *giver(uint32_t fact) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (listed_passes[i].gives & fact) {
      return listed_passes[i].name;
    }
  }
  return "no pass";
}

static bool has_needs(const Compilation *c, const ListedPass *pass) {
  for (int i = 0; i < FACT_COUNT; i++) {
    const uint32_t fact = 1u << i;
    if (pass->needs & fact & ~c->facts) {
      diag_error(c->diag, E099, SPAN_NONE, "the pass '%s' needs what '%s' gives, which has not run: %s", pass->name,
                 giver(fact), listed_facts[i].what);
      return false;
    }
  }
  return true;
}

static bool facts_hold(const Compilation *c, const ListedPass *pass) {
  for (int i = 0; i < FACT_COUNT; i++) {
    const Node *other = c->facts >> i & 1 && listed_facts[i].other ? listed_facts[i].other(c->graph) : NULL;
    if (other) {
      diag_error(c->diag, E099, other->span, "after the pass '%s' it is not so that %s: there is '%s'", pass->name,
                 listed_facts[i].what, op_name(other->op));
      return false;
    }
  }
  return true;
}

static bool run(Compilation *c, const ListedPass *pass) {
  const int errors = c->diag->errors;
  c->unchanged = false;
  if (!has_needs(c, pass) || !pass->run(c) || c->diag->errors > errors) {
    return false;
  }
  // A graph that is new has nothing of the one before it.
  c->facts = (pass->gives & GRAPH ? c->facts & STATES : c->facts) | pass->gives;
  if (c->watch) {
    c->watch->after(c->watch->context, c, pass->name);
  }
  const bool known = c->unchanged && !c->watch;
  return (known || graph_verify(c->graph, c->diag, pass->name)) && facts_hold(c, pass);
}

static bool lower(Lower *l, const ListedPass *pass) {
  const int errors = l->c->diag->errors;
  if (!has_needs(l->c, pass)) {
    return false;
  }
  pass->lower(l);
  l->c->facts |= pass->gives;
  return l->c->diag->errors == errors;
}

static bool run_from(int first, Compilation *c, Lower *l, const char *after) {
  for (int i = first; i < PASS_COUNT; i++) {
    const ListedPass *pass = &listed_passes[i];
    if (!is_for(pass, c) || (pass->lower != NULL) != (l != NULL)) {
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
  return run_from(0, c, NULL, after);
}

bool passes_run_whole(Compilation *c) {
  return passes_run(c, listed_passes[PASS_NUMBER_stage - 1].name);
}

bool passes_run_stage(Compilation *c) {
  return run_from(PASS_NUMBER_stage, c, NULL, NULL);
}

uint32_t passes_facts(uint32_t graph, uint32_t plan) {
  return (graph & ~(uint32_t)STATES) | (plan & STATES);
}

Compilation *passes_view(const Compilation *whole, Arena *arena) {
  Compilation *c = arena_copy(arena, whole, sizeof *c);
  c->arena = arena;
  c->graph = graph_view(whole->graph, arena);
  c->shard = whole->shard ? shard_view(whole->shard, c) : NULL;
  c->cut = whole->cut ? stage_cut_view(whole->cut, c) : NULL;
  return c;
}

bool passes_lower(Lower *l, const char *after) {
  return run_from(0, l->c, l, after);
}

bool passes_run_one(Compilation *c, Lower *l, const char *name) {
  const ListedPass *pass = find(name);
  return pass && (pass->lower ? lower(l, pass) : run(c, pass));
}
