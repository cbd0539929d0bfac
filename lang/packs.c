// packs.c: which parameters one kernel updates, and which of them ranks store, gather and sum up together.
//
// Where an update is elementwise, parameters that are cut and stored alike are one pack. Packs of which ranks store
// pieces are gathered, and their gradients scattered, each at once: so these are buckets in the order in which the
// model has its parameters, each of at least so many bytes of gradients, and none ends inside of a layer.
#include <string.h>

#include "lang/products.h"
#include "lang/updates.h"

// How the model reads a parameter, where products have operands in fewer bits: what is read in those alone is gathered
// in those alone, so nothing else is in its pack. Few numbers that are read otherwise are gathered once for all layers.
// What products in 8 bits read, if only from some step on, is by itself, too.
typedef enum { READ_WIDE, READ_NARROW, READ_EIGHT, READ_BOTH, READ_AS_FEW } ReadAs;

// Parameters with equal keys may be updated by one kernel: they are cut and stored alike.
typedef struct {
  int rule, stage;
  uint32_t cut, param, kept, grad, state;
  int chunk;    // of the pipeline, where ranks store pieces
  ReadAs read;  // of those that are gathered
} PackKey;

static bool elementwise_call(Elaborator *e, Name name) {
  static const char *const cut[] = {"sum", "mean",  "dot", "window",      "concat",
                                    "pos", "outer", "top", "draw_normal", "draw_uniform"};
  (void)e;
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    if (strcmp(name, cut[i]) == 0) {
      return false;
    }
  }
  return true;
}

static bool elementwise(Elaborator *e, const Ast *ast, int depth);

// total(sum(f(p, g))): the sum over an arena, or a piece of one, is that of its members.
static bool totals_elements(Elaborator *e, const Ast *total, int depth) {
  const Ast *list = total->kids[0], *group = list && list->count == 1 ? list->kids[0] : NULL;
  const Ast *sum = group && group->count == 1 ? group->kids[0] : NULL;
  const Ast *summed = sum && sum->kind == AST_CALL && strcmp(sum->name, "sum") == 0 ? sum->kids[0] : NULL;
  return summed && summed->count == 1 && elementwise(e, summed, depth + 1);
}

// Does each element of the update depend on the elements at the same place alone, and on totals over elements?
static bool elementwise(Elaborator *e, const Ast *ast, int depth) {
  if (!ast) {
    return true;
  }
  if (depth > 16 || ast->kind == AST_INDEX) {
    return false;
  }
  if (ast->kind == AST_CALL) {
    if (strcmp(ast->name, "total") == 0) {
      return totals_elements(e, ast, depth);
    }
    bool reduces = (strcmp(ast->name, "max") == 0 || strcmp(ast->name, "min") == 0) && ast->kids[0]->count < 2;
    if (reduces || !elementwise_call(e, ast->name)) {
      return false;
    }
    const Declaration *declaration = unit_find(e->unit, SPACE_CODE, ast->name);
    if (declaration && declaration->ast->kind == AST_FUNCTION &&
        !elementwise(e, declaration->ast->kids[1], depth + 1)) {
      return false;
    }
  }
  for (int i = 0; i < ast->count; i++) {
    if (!elementwise(e, ast->kids[i], depth)) {
      return false;
    }
  }
  return true;
}

bool update_takes_axes(const Ast *update) {
  for (int i = 0; i < update->kids[0]->count; i++) {
    if (update->kids[0]->kids[i]->group != GROUP_PLAIN) {
      return true;
    }
  }
  return false;
}

ValueId update_pack(Elaborator *e, const ValueId *values, int count, AxisId axis) {
  return graph_add(e->graph, OP_PACK, (NodeInit){NODE_INIT, .axis = axis}, values, count);
}

static void add_unit(Elaborator *e, const PackKey *key, const int *members, int count, bool packed) {
  struct UpdateContext *context = e->update;
  UpdateUnit unit = {.rule = key->rule, .count = count, .members = members, .axis = -1};
  ValueId *p = ARENA_ARRAY(e->arena, ValueId, count), *g = ARENA_ARRAY(e->arena, ValueId, count);
  Name *names = ARENA_ARRAY(e->arena, Name, count);
  int64_t elements = 0;
  for (int i = 0; i < count; i++) {
    p[i] = e->graph->persistent.at[members[i]].value;
    g[i] = context->gradient[members[i]];
    names[i] = e->graph->persistent.at[members[i]].name;
    elements += graph_elements(e->graph, e->graph->persistent.at[members[i]].shape);
  }
  unit.p = p[0];
  unit.g = g[0];
  if (packed) {
    unit.flat = (key->param | key->grad | key->state) != 0;
    AxisId axis = graph_axis(e->graph, name_format(e->names, "pack.%d", e->graph->packs.count), elements);
    Pack pack = {.axis = axis,
                 .count = count,
                 .members = names,
                 .cut = key->cut,
                 .param = key->param,
                 .kept = key->kept,
                 .grad = key->grad,
                 .state = key->state,
                 .stage = key->stage};
    array_push(e->arena, &e->graph->packs, pack);
    unit.axis = axis;
    unit.p = update_pack(e, p, count, axis);
    unit.g = update_pack(e, g, count, axis);
  }
  array_push(e->arena, &context->units, unit);
}

// The outermost repeat around, as one iteration of it.
static ScopeId layer_of(const Graph *graph, ScopeId scope) {
  ScopeId layer = -1;
  for (; scope >= 0; scope = graph->scopes.at[scope].parent) {
    layer = graph->scopes.at[scope].index >= 0 ? scope : layer;
  }
  return layer;
}

// Is a parameter read, and its gradient made, on the one stage that updates it?
static bool lies_in_one_stage(const struct UpdateContext *context, int index) {
  const Stages *stages = context->stages;
  int owner = stages->owner[index], gradient = stages_of_value(stages, context->gradient[index]);
  bool one = gradient >= 0 && gradient % stages->stages == owner;
  for (int s = 0; s < stages->stages; s++) {
    one &= s == owner || !stage_in(stages->holders[index], s);
  }
  return one;
}

static bool moves(Op op) {
  return op_alias(op) && op_moves(op);
}

// Behind operations that only move elements.
static int parameter_behind(const Elaborator *e, const Map *index, ValueId value) {
  const Node *node = graph_producer(e->graph, value);
  while (node && moves(node->op)) {
    node = graph_producer(e->graph, node->operands[0]);
  }
  return node && node->op == OP_PARAM ? (int)map_get_or(index, map_key(node->text), -1) : -1;
}

static bool asks_for_eight(const Graph *graph, const ProductRules *rules, const Node *dot) {
  const Node *forward = !dot->backward ? dot : dot->source >= 0 ? graph_node(graph, dot->source) : NULL;
  const ProductRule *rule = forward && rules->count ? product_rule(graph, rules, forward) : NULL;
  return rule && !rule->block && element_type_bytes(rule->forward) == 1 &&
         (!dot->backward || element_type_bytes(rule->backward) == 1);
}

// Under any precision of the run: they have the same packs.
static bool reads_eight(const Elaborator *e, const Node *node) {
  const Spec *spec = e->spec;
  bool any = node->op == OP_DOT && asks_for_eight(e->graph, &spec->products, node);
  for (int i = 0; i < spec->policies.count && node->op == OP_DOT; i++) {
    any |= asks_for_eight(e->graph, &spec->policies.at[i].products, node);
  }
  return any;
}

// Does an operation read this operand in the format of operands of products? See the precision pass.
static bool reads_narrow(const Elaborator *e, const Node *node, int operand) {
  const Formats *formats = &e->spec->formats;
  const bool product = node->op == OP_DOT || op_chosen(node->op);
  return (product && !product_is_wide(e->graph, e->spec, node)) ||
         (node->op == OP_TAKE && operand == 0 && formats->residual == formats->dot);
}

static void find_reads(Elaborator *e, const Map *index, RegionId region) {
  const NodeList *nodes = &e->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count && !moves(node->op); j++) {
      const int parameter = parameter_behind(e, index, node->operands[j]);
      if (parameter >= 0) {
        e->update->reads[parameter] |= reads_eight(e, node)       ? UPDATE_READ_EIGHT
                                       : reads_narrow(e, node, j) ? UPDATE_READ_NARROW
                                                                  : UPDATE_READ_WIDE;
      }
    }
    if (node->op == OP_MICROBATCH) {
      find_reads(e, index, node->region);
    }
  }
}

static void find_all_reads(Elaborator *e) {
  const Spec *spec = e->spec;
  if (element_type_bytes(spec->formats.dot) >= element_type_bytes(spec->real)) {
    return;
  }
  Map index = map_create(e->arena);
  e->update->reads = ARENA_ARRAY(e->arena, uint8_t, e->graph->persistent.count + 1);
  for (int i = 0; i < e->graph->persistent.count; i++) {
    map_put(&index, map_key(e->graph->persistent.at[i].name), i);
  }
  find_reads(e, &index, 0);
}

static ReadAs read_as(const Elaborator *e, const Persistent *parameter) {
  enum { FEW = 1 << 16 };
  const int reads = e->update->reads ? e->update->reads[parameter - e->graph->persistent.at] : 0;
  const bool few = reads && graph_elements(e->graph, parameter->shape) <= FEW;
  return reads == UPDATE_READ_EIGHT                                                         ? READ_EIGHT
         : reads == UPDATE_READ_NARROW || reads == (UPDATE_READ_NARROW | UPDATE_READ_EIGHT) ? READ_NARROW
         : few                                                                              ? READ_AS_FEW
         : reads == UPDATE_READ_WIDE                                                        ? READ_WIDE
                                                                                            : READ_BOTH;
}

// Ranks that store pieces of optimizer state store those of the parameter too. They gather it once a step, unless a
// rule of its own has it gathered wherever it is used: what is gathered once must be cut last, so that of it the pieces
// of the other cuts remain.
static void store_with_state(PackKey *key) {
  const uint32_t more = key->state & ~key->param;
  if (more && (more & (0 - more)) > key->param) {
    key->kept = more;
    key->param |= more;
  }
}

static PackKey key_of(Elaborator *e, int rule, const Persistent *parameter) {
  Mapping *mapping = e->update->mapping;
  AxisId axis[GRAPH_MAX_MESH];
  PackKey key = {.rule = rule, .cut = mapping_parameter(mapping, parameter, axis)};
  key.param = mapping_flat(mapping, parameter, RULE_PARAM, NULL);
  key.grad = mapping_flat(mapping, parameter, RULE_GRAD, NULL);
  key.state = mapping_flat(mapping, parameter, RULE_STATE, NULL);
  if (e->update->stages) {
    int index = (int)(parameter - e->graph->persistent.at), stages = e->update->stages->stages;
    key.stage = e->update->stages->owner[index];
    if (!lies_in_one_stage(e->update, index)) {  // there is no one arena that has its pieces
      key.param = key.grad = 0;
      return key;
    }
    key.chunk = stages_of_value(e->update->stages, e->update->gradient[index]) / stages;
  }
  store_with_state(&key);
  key.read = key.param ? read_as(e, parameter) : READ_WIDE;
  key.chunk = (key.param | key.grad) && key.read != READ_AS_FEW ? key.chunk : 0;
  return key;
}

static bool same_key(const PackKey *a, const PackKey *b) {
  return a->rule == b->rule && a->stage == b->stage && a->cut == b->cut && a->param == b->param && a->kept == b->kept &&
         a->grad == b->grad && a->state == b->state && a->chunk == b->chunk && a->read == b->read;
}

// May a bucket end between these two parameters?
static bool apart(const Graph *graph, const Persistent *last, const Persistent *next) {
  const ScopeId layer = layer_of(graph, last->scope);
  return layer < 0 || layer != layer_of(graph, next->scope);
}

enum { MEMBERS_EIGHT = 8 };  // and up to the end of a layer: each has a scale, by which an element is asked for it

// The members with the key of `from`, up to the end of a bucket.
static void make_pack(Elaborator *e, const PackKey *keys, const int *members, int count, int from, bool *done) {
  const Spec *spec = e->spec;
  const bool buckets = (keys[from].param | keys[from].grad) && keys[from].read != READ_AS_FEW;
  const int64_t ranks = mapping_ranks(e->update->mapping, keys[from].cut);  // each of which has its part of a member
  ARRAY(int) alike = {0};
  int64_t bytes = 0;
  for (int i = from; i < count; i++) {
    const Persistent *at = &e->graph->persistent.at[members[i]];
    if (done[i] || !same_key(&keys[from], &keys[i])) {
      continue;
    }
    const bool enough = bytes >= spec->bucket_bytes || (keys[from].read == READ_EIGHT && alike.count >= MEMBERS_EIGHT);
    if (buckets && enough && alike.count > 0 &&
        apart(e->graph, &e->graph->persistent.at[alike.at[alike.count - 1]], at)) {
      break;
    }
    done[i] = true;
    bytes += graph_elements(e->graph, at->shape) * element_type_bytes(spec->formats.gradient) / ranks;
    array_push(e->arena, &alike, members[i]);
  }
  add_unit(e, &keys[from], alike.at, alike.count, true);
}

// In the order in which keys first appear.
static void make_packs(Elaborator *e, const int *members, int count) {
  PackKey *keys = ARENA_ARRAY(e->arena, PackKey, count + 1);
  bool *done = ARENA_ARRAY(e->arena, bool, count + 1);
  for (int i = 0; i < count; i++) {
    const Persistent *parameter = &e->graph->persistent.at[members[i]];
    keys[i] = key_of(e, parameter->group, parameter);
  }
  for (int i = 0; i < count; i++) {
    if (!done[i]) {
      make_pack(e, keys, members, count, i, done);
    }
  }
}

void update_make_units(Elaborator *e) {
  find_all_reads(e);
  for (int rule = 0; rule < e->spec->optimizers.count; rule++) {
    const Ast *call = e->spec->optimizers.at[rule].call;
    if (!call) {
      continue;
    }
    const Ast *update = unit_find(e->unit, SPACE_CODE, call->name)->ast;
    bool elements = !update_takes_axes(update) && elementwise(e, update->kids[1], 0);
    ARRAY(int) members = {0};
    for (int i = 0; i < e->graph->persistent.count; i++) {
      const Persistent *parameter = &e->graph->persistent.at[i];
      if (parameter->role != ROLE_PARAMETER || parameter->group != rule || e->update->gradient[i] < 0) {
        continue;
      }
      if (elements && !mapping_stored_by_axis(e->update->mapping, parameter)) {
        array_push(e->arena, &members, i);
      } else {
        int *single = ARENA_NEW(e->arena, int);
        *single = i;
        PackKey key = {.rule = rule};
        add_unit(e, &key, single, 1, false);
      }
    }
    make_packs(e, members.at, members.count);
  }
}
