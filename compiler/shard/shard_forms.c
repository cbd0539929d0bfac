// shard_forms.c: in which form each axis is cut: into blocks, in a zigzag, or with padding at the end.
//
// A rename moves nothing, so an axis and its other names are cut alike: they are one class, and a form that a rule
// gives one of them holds for all, over that mesh axis. Where a class may be padded, all parts are made of the smallest
// ones, those over all mesh axes that may cut it; so that cutting a part again, or joining some, gives parts of the
// whole. Programs that come after the training step take its classes over: they share its tensors.
#include <string.h>

#include "compiler/shard/shard.h"

static int class_of(const Shard *s, AxisId axis) {
  int at = axis;
  while (s->forms.at[at].same != at) {
    at = s->forms.at[at].same;
  }
  return at;
}

const AxisForm *shard_form(Shard *s, AxisId axis) {
  static const AxisForm none;
  return axis < s->forms.count ? &s->forms.at[class_of(s, axis)] : &none;  // packs have none
}

static void join(Shard *s, AxisId a, AxisId b) {
  int to = class_of(s, a), from = class_of(s, b);
  if (to == from || s->forms.at[to].kept || s->forms.at[from].kept) {
    return;
  }
  AxisForm *into = &s->forms.at[to], *other = &s->forms.at[from];
  into->cut |= other->cut;
  into->zigzag |= other->zigzag;
  into->padded |= other->padded;
  into->rule = into->rule ? into->rule : other->rule;
  other->same = to;
}

// What cuts an axis cuts the major one that it is split into, and the other way round.
static bool pass_on(Shard *s, AxisId a, AxisId b) {
  AxisForm *x = &s->forms.at[class_of(s, a)], *y = &s->forms.at[class_of(s, b)];
  uint32_t both = x->cut | y->cut;
  bool changed = (both != x->cut && !x->kept) || (both != y->cut && !y->kept);
  x->cut = x->kept ? x->cut : both;
  y->cut = y->kept ? y->cut : both;
  return changed;
}

static bool walk(Shard *s, RegionId region, bool renames) {
  const NodeList nodes = s->graph->regions.at[region].nodes;
  bool changed = false;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(s->graph, nodes.at[i]);
    if (node->region >= 0) {
      changed |= walk(s, node->region, renames);
    } else if (renames && node->op == OP_RENAME) {
      join(s, node->axis, node->axis2);
    } else if (!renames && node->op == OP_SPLIT) {
      changed |= pass_on(s, node->axis, node->axes.axis[0]);
    } else if (!renames && node->op == OP_MERGE) {
      changed |= pass_on(s, node->axes.axis[0], node->axis2);
    }
  }
  return changed;
}

static void by_rules(Shard *s, AxisForm *form, Name axis) {
  const Spec *spec = s->c->spec;
  for (int i = 0; i < spec->rules.count; i++) {
    const LayoutRule *rule = &spec->rules.at[i];
    if (rule->axis != axis) {
      continue;
    }
    uint32_t mesh = rule->mesh & s->mapping->active;
    form->cut |= mesh;
    form->zigzag |= rule->zigzag ? mesh : 0;
    form->padded |= rule->padded ? mesh : 0;
    form->rule = (rule->zigzag || rule->padded) && mesh && !form->rule ? rule : form->rule;
  }
}

// Parts of halves in a zigzag cannot be padded.
static void check_class(Shard *s, AxisId axis) {
  const AxisForm *form = &s->forms.at[axis];
  const Axis *at = &s->graph->axes.at[axis];
  if (form->same != axis || !form->zigzag || !form->padded || !form->rule) {
    return;
  }
  int64_t parts = 2 * mapping_ranks(s->mapping, form->cut);
  if (at->size % parts == 0) {
    return;
  }
  Diagnostic *error = diag_error(s->graph->diag, E042, form->rule->span,
                                 "'%s' of size %lld would be cut in a zigzag and padded, under one name or another",
                                 at->name, (long long)at->size);
  diag_help(s->graph->diag, error, "leave one of the two out, or take a size that is a multiple of %lld",
            (long long)parts);
}

void shard_forms_find(Shard *s) {
  const int count = s->graph->axes.count;
  const KeptForms *kept = s->c->forms;
  int *first = ARENA_ARRAY(s->c->arena, int, (kept ? kept->count : 0) + 1);  // by class of those: its first axis here
  memset(first, -1, sizeof *first * (size_t)((kept ? kept->count : 0) + 1));
  for (AxisId a = 0; a < count; a++) {
    Name name = s->graph->axes.at[a].name;
    int64_t known = kept ? map_get_or(&kept->by_name, map_key(name), -1) : -1;
    AxisForm form = {.same = a};
    if (known < 0) {
      by_rules(s, &form, s->graph->axes.at[a].written);
    } else {
      int class = kept->forms[known].same;
      form = kept->forms[class];
      form.same = first[class] < 0 ? a : first[class];
      form.kept = true;
      first[class] = form.same;
    }
    array_push(s->graph->arena, &s->forms, form);
  }
  walk(s, 0, true);
  while (walk(s, 0, false)) {
  }
  for (AxisId a = 0; a < count; a++) {
    check_class(s, a);
  }
}

void shard_forms_keep(const Compilation *c, Arena *arena, KeptForms *kept) {
  const Shard *s = c->shard;
  *kept = (KeptForms){.by_name = map_create(arena)};
  if (!s) {
    return;
  }
  kept->count = s->forms.count;
  kept->forms = ARENA_ARRAY(arena, AxisForm, s->forms.count + 1);
  for (AxisId a = 0; a < s->forms.count; a++) {
    const int class = class_of(s, a);
    kept->forms[a] = s->forms.at[class];
    kept->forms[a].same = class;
    map_put(&kept->by_name, map_key(c->graph->axes.at[a].name), a);
  }
}

// --- what follows for parts ---

bool shard_even(Shard *s, AxisId axis) {
  const AxisForm *form = shard_form(s, axis);
  return !form->padded || s->graph->axes.at[axis].size % mapping_ranks(s->mapping, form->cut) == 0;
}

bool shard_same_parts(Shard *s, AxisId a, AxisId b) {
  if (shard_form(s, a) == shard_form(s, b)) {
    return true;
  }
  return !shard_form(s, a)->zigzag && !shard_form(s, b)->zigzag && shard_even(s, a) && shard_even(s, b);
}

int64_t shard_part_size(Shard *s, AxisId axis, uint32_t mesh) {
  const int64_t size = s->graph->axes.at[axis].size, parts = mapping_ranks(s->mapping, mesh);
  const int64_t smallest = shard_even(s, axis) ? parts : mapping_ranks(s->mapping, shard_form(s, axis)->cut | mesh);
  return (size + smallest - 1) / smallest * (smallest / parts);
}

bool shard_divides(Shard *s, AxisId axis, uint32_t cut) {
  const Axis *at = &s->graph->axes.at[axis];
  const int64_t parts = mapping_ranks(s->mapping, cut);
  if (shard_pack_along(s, axis)) {  // cut by its members, and padded for its pieces
    return true;
  }
  if (!shard_even(s, axis)) {
    return parts <= at->size;
  }
  return at->size % (shard_form(s, axis)->zigzag & cut ? 2 * parts : parts) == 0;
}

void shard_report_blocks(Shard *s, AxisId axis, int64_t blocks, int mesh, const LayoutRule *rule, Span span) {
  AxisForm *form = &s->forms.at[class_of(s, axis)];
  const Axis *at = &s->graph->axes.at[axis];
  if (form->reported) {
    return;
  }
  form->reported = true;
  Diag *diag = s->graph->diag;
  Diagnostic *error =
      diag_error(diag, E043, rule->left, "%lld block%s of 128 along '%s' cannot be split over %s = %lld",
                 (long long)blocks, blocks == 1 ? "" : "s", at->written, s->mapping->spec->mesh[mesh].name,
                 (long long)mapping_size(s->mapping, mesh));
  diag_related(diag, error, span, "a product in 8 bits, with one scale for each block");
  diag_help(diag, error, "take sizes of which every rank has whole blocks%s, or a rule that keeps the product out",
            form->zigzag ? ", in both runs of the zigzag" : "");
}

// Rules for several places that meet in a tensor can ask for more parts than it has.
static void report_parts(Shard *s, AxisId axis, uint32_t cut, Span span) {
  Diag *diag = s->graph->diag;
  AxisForm *form = &s->forms.at[class_of(s, axis)];
  if (form->reported) {
    return;
  }
  form->reported = true;
  Diagnostic *error =
      diag_error(diag, E043, span, "axis '%s' of size %lld cannot be split over %s at once",
                 s->graph->axes.at[axis].name, (long long)s->graph->axes.at[axis].size, mapping_names(s->mapping, cut));
  diag_label(diag, error, "here several rules hold for it");
  diag_help(diag, error, "take one of them off in this place: `PLACE: %s -> none;`", s->graph->axes.at[axis].name);
}

void shard_report_zigzag(Shard *s, AxisId axis, uint32_t cut, Span span, const char *what) {
  AxisForm *form = &s->forms.at[class_of(s, axis)];
  Diag *diag = s->graph->diag;
  const uint32_t zigzag = form->zigzag & cut;
  if (form->reported) {
    return;
  }
  form->reported = true;
  Diagnostic *error = diag_error(diag, E042, form->rule->span,
                                 "'%s' is cut in a zigzag, and over %s at once: a zigzag is the first cut",
                                 s->graph->axes.at[axis].name, mapping_names(s->mapping, cut));
  diag_related(diag, error, span, "%s", what);
  if (zigzag & (zigzag - 1)) {
    diag_help(diag, error, "give only one of them the form `zigzag`");
  } else {
    diag_help(diag, error, "declare '%s' before the others in `mesh`, or cut the axis over it alone",
              mapping_names(s->mapping, zigzag));
  }
}

// A zigzag is the first cut of its axis: what else cuts the axis cuts its parts.
void shard_check_forms(Shard *s, ValueId value) {
  Graph *graph = s->graph;
  const Held held = *shard_held(s, value);
  for (int m = 0; m < s->mapping->count; m++) {
    const AxisId axis = held.axis[m];
    const uint32_t cut = axis < 0 || shard_pack_along(s, axis) ? 0 : held_cut(&held, axis);
    const AxisForm *form = cut ? &s->forms.at[class_of(s, axis)] : NULL;
    if (!form || cut >> (m + 1)) {  // once for each axis
      continue;
    }
    const Value *at = graph_value(graph, value);
    const uint32_t zigzag = form->zigzag & cut;
    if (!shard_divides(s, axis, cut)) {
      report_parts(s, axis, cut, at->span);
    } else if (cut & ~form->cut && !shard_even(s, axis)) {
      diag_error(graph->diag, E099, at->span, "the compiler cuts '%s' over a mesh axis that no rule for it names",
                 graph->axes.at[axis].name);
    } else if (zigzag && (zigzag & (zigzag - 1) || cut & (zigzag - 1))) {
      shard_report_zigzag(s, axis, cut, at->span, "a value that would be cut so");
    }
  }
}

void shard_give_way(Shard *s, Held *want, uint32_t asked) {
  for (int pass = 0; pass < 2; pass++) {
    for (int m = s->mapping->count - 1; m >= 0; m--) {
      AxisId axis = want->axis[m];
      if (axis >= 0 && (pass || !(asked >> m & 1)) && !shard_divides(s, axis, held_cut(want, axis))) {
        want->axis[m] = -1;
      }
    }
  }
}
