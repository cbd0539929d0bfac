// layout_rules.h: a layout while it is checked; for lang/layout*.c only.
#ifndef MDL_LANG_LAYOUT_RULES_H
#define MDL_LANG_LAYOUT_RULES_H

#include "lang/selector_names.h"
#include "lang/settings.h"

enum { LAYOUT_MAX_MESH = MESH_MAX, LAYOUT_MAX_RANKS = 1 << 20, LAYOUT_SHOWN_SIZES = 16, LAYOUT_STORED = 4 };

typedef struct {  // a mesh axis on the right of a rule, with its form: `cp(zigzag)`, `pp(10, 12)`
  const Ast *ast;
  int mesh;
  bool zigzag, ring, padded;
  const Ast *parts;  // list of AST_ARGUMENT, all of them numbers, or NULL
} Target;

typedef struct {
  Target at[LAYOUT_MAX_MESH];
  int count;  // 0: `none`
  bool wrong;
} Targets;

typedef struct {  // one axis on the left of a rule that says how to compute
  const Ast *left;
  Name scope;    // or NULL
  int64_t size;  // 0: unknown
  const Targets *right;
  bool pipeline;  // cut into chunks, which need not be equal
  bool padded;    // the last pieces may be smaller
} Split;

typedef struct {
  Unit *unit;
  const Spec *spec;
  const Reach *reach;
  const Ast *layout;
  bool full;   // it has as many rules as it may
  bool sized;  // chosen by the recipe: sizes are those of this run
  MeshAxis mesh[LAYOUT_MAX_MESH];
  int mesh_count;
  ARRAY(LayoutRule) rules;
  ARRAY(Split) splits;
  Selectors recompute, offload;
  ARRAY(CompressRule) compress;
  Pipeline pipeline;
  const Ast *stages, *parts;  // the target of the pipeline's rule; see Target
  bool overlap;
  double capacity;  // 0: none
  Span capacity_span;
  const Ast *schedule, *slots;  // what was said of each, or NULL; slots: of microbatches
  const Ast *stored;            // a word of layout_stored that is to be offloaded, or NULL
  int64_t microbatches;
  bool strict;
} Layout;

extern const char *const layout_stored[LAYOUT_STORED];  // param, grad, state, save

// layout.c: helps with a value that is made of names, as of constants. False: it is none.
bool layout_helps_names(Diag *diag, Diagnostic *error, const Ast *value);

// layout_mesh.c
void layout_read_mesh(Layout *l, const Ast *setting);  // `mesh pp = 2, tp = 2;`
void layout_check_mesh(Layout *l);                     // reports E090 for more ranks than there can be
int layout_mesh(const Layout *l, Name name);           // the index of the mesh axis of this name, or -1

// layout_rule.c
void layout_read_rule(Layout *l, const Ast *setting);             // a setting with `->`
void layout_check_rules(Layout *l);                               // against each other
void layout_unknown_mesh(Layout *l, const Ast *name, Span span);  // reports E040; name: which it is

// layout_schedule.c
void layout_read_schedule(Layout *l, const Ast *phrase);
void layout_check_schedule(Layout *l);  // the pipeline, its parts, schedule and microbatches

// layout_split.c

// The only word of a phrase without a value, or NULL.
Name layout_word(const Ast *phrase);

// The axis that a name stands for: seq' is like seq.
Name layout_axis(const Layout *l, Name name);

// The size of an axis, where it follows from the text and the recipe without running the model; else 0.
int64_t layout_size(const Layout *l, Name axis);

// Reports E043, with the sizes that would do, for each axis that its rules cannot split.
void layout_check_splits(Layout *l);

// Whether the batch, as far as its size is known, can be cut into so many microbatches on each rank.
bool layout_batch_divides(const Layout *l, int64_t microbatches);

// layout.c: adds a help: what was probably meant, else `otherwise` unless NULL.
void layout_suggest(Layout *l, Diagnostic *error, const char *closest, const char *otherwise);

#endif
