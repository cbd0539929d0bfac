// layout_rules.h: a layout while it is checked; for lang/layout*.c only.
#ifndef MDL_LANG_LAYOUT_RULES_H
#define MDL_LANG_LAYOUT_RULES_H

#include "lang/reach.h"
#include "lang/settings.h"

enum { LAYOUT_MAX_MESH = 8, LAYOUT_MAX_RANKS = 1 << 20, LAYOUT_SHOWN_SIZES = 16 };

typedef struct {
  Name name;
  int64_t size;
  Span span;
} MeshAxis;

typedef struct {  // one axis on the left of a rule that says how to compute
  const Ast *left;
  int64_t size, unit;  // it is split into `unit` times the product of its mesh axes; size 0: unknown
  const Ast *right;    // list of AST_NAME
} Split;

typedef struct {
  Unit *unit;
  const Spec *spec;
  const Reach *reach;
  const Ast *layout;
  bool sized;  // chosen by the recipe: sizes are those of this run
  MeshAxis mesh[LAYOUT_MAX_MESH];
  int mesh_count;
  ARRAY(Split) splits;
  ARRAY(const Ast *) recompute;
  const Ast *schedule, *offload, *overlap;  // what was said of each
  int64_t microbatches, chunks;
  bool strict, pipeline;
} Layout;

// The mesh axis of this name, or NULL.
MeshAxis *layout_mesh(Layout *l, Name name);

// The only word of a phrase without a value, or NULL.
Name layout_word(const Ast *phrase);

// The axis that a name stands for: seq' is like seq.
Name layout_axis(const Layout *l, Name name);

// The size of an axis, where it follows from the text and the recipe without running the model; else 0.
int64_t layout_size(const Layout *l, Name axis);

// Reports E043, with the sizes that would do, if a rule cannot split its axis.
void layout_check_split(Layout *l, const Split *split);

#endif
