// packs.c: which parameters one kernel updates, and which of them ranks store, gather and sum up together.
//
// Where an update is elementwise, parameters that are cut and stored alike are one pack. A piece of a pack does not
// tell what one of its members is as a whole: where any update of the recipe has a total of that, over the parameters
// of all rules, what would be a pack in pieces stays single parameters. Packs of which ranks store pieces are gathered,
// and their gradients scattered, each at once: so these are buckets in the order in which the model has its parameters,
// each of at least so many bytes of gradients, and none ends inside of a layer.
#include "compiler/grad/packs.h"

#include "compiler/pipeline/stages.h"
#include "compiler/shard/mapping.h"
#include "compiler/spec/products.h"

// How the model reads a parameter, where products have operands in fewer bits: what is read in those alone is gathered
// in those alone, so nothing else is in its pack. Few numbers that are read otherwise are gathered once for all layers.
// What products in 8 bits read, if only from some step on, is by itself, too.
typedef enum { READ_WIDE, READ_NARROW, READ_EIGHT, READ_BOTH, READ_AS_FEW } ReadAs;

// Parameters with equal keys may be updated by one kernel: they are cut and stored alike.
typedef struct {
  int rule, stage;
  uint32_t cut, param, kept, grad, state;
  int chunk;     // of the pipeline, where ranks store pieces
  ReadAs read;   // of those that are gathered
  Name watched;  // the groups whose norms a step shows; NULL: none is shown
} PackKey;

typedef struct {
  Arena *arena;
  Graph *graph;
  const Spec *spec;
  const ValueId *gradient;  // by persistent
  Mapping *mapping;
  Stages *stages;  // NULL: no pipeline
  uint8_t *reads;  // by persistent: in which formats it is read, as bits; NULL: all that is read has one
  UpdateUnits *units;
} Packer;

enum { READS_WIDE = 1, READS_NARROW = 2, READS_EIGHT = 4 };  // bits

static ValueId pack_values(const Packer *p, const ValueId *values, int count, AxisId axis) {
  return graph_add(p->graph, OP_PACK, (NodeInit){NODE_INIT, .axis = axis}, values, count);
}

static bool in_pieces(const PackKey *key) {
  return (key->param | key->grad | key->state) != 0;
}

static void add_unit(Packer *p, const PackKey *key, const int *members, int count, bool packed) {
  UpdateUnit unit = {.rule = key->rule, .count = count, .members = members, .axis = -1};
  ValueId *value = ARENA_ARRAY(p->arena, ValueId, count), *gradient = ARENA_ARRAY(p->arena, ValueId, count);
  Name *names = ARENA_ARRAY(p->arena, Name, count);
  int64_t elements = 0;
  for (int i = 0; i < count; i++) {
    value[i] = p->graph->persistent.at[members[i]].value;
    gradient[i] = p->gradient[members[i]];
    names[i] = p->graph->persistent.at[members[i]].name;
    elements += graph_elements(p->graph, p->graph->persistent.at[members[i]].shape);
  }
  unit.p = value[0];
  unit.g = gradient[0];
  if (packed) {
    unit.flat = in_pieces(key);
    AxisId axis = graph_axis(p->graph, name_format(p->graph->names, "pack.%d", p->graph->packs.count), elements);
    Pack pack = {.axis = axis,
                 .count = count,
                 .members = names,
                 .cut = key->cut,
                 .param = key->param,
                 .kept = key->kept,
                 .grad = key->grad,
                 .state = key->state,
                 .stage = key->stage};
    array_push(p->arena, &p->graph->packs, pack);
    unit.axis = axis;
    unit.p = pack_values(p, value, count, axis);
    unit.g = pack_values(p, gradient, count, axis);
  }
  array_push(p->arena, p->units, unit);
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
static bool lies_in_one_stage(const Packer *p, int index) {
  const Stages *stages = p->stages;
  int owner = stages->owner[index], gradient = stages_of_value(stages, p->gradient[index]);
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
static int parameter_behind(const Packer *p, const Map *index, ValueId value) {
  const Node *node = graph_producer(p->graph, value);
  while (node && moves(node->op)) {
    node = graph_producer(p->graph, node->operands[0]);
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
static bool reads_eight(const Packer *p, const Node *node) {
  const Spec *spec = p->spec;
  bool any = node->op == OP_DOT && asks_for_eight(p->graph, &spec->products, node);
  for (int i = 0; i < spec->policies.count && node->op == OP_DOT; i++) {
    any |= asks_for_eight(p->graph, &spec->policies.at[i], node);
  }
  return any;
}

// How an operation reads this operand: in the format of operands of products, or in f32; see the precision pass. Under
// several precisions of the run it may be both.
static int reads_of(const Packer *p, const Node *node, int operand) {
  const Spec *spec = p->spec;
  if (reads_eight(p, node)) {
    return READS_EIGHT;
  }
  if (node->op != OP_DOT && !op_chosen(node->op)) {
    const bool narrow = node->op == OP_TAKE && operand == 0 && spec->formats.residual == spec->formats.dot;
    return narrow ? READS_NARROW : READS_WIDE;
  }
  int reads = product_is_wide(p->graph, spec, node) ? READS_WIDE : READS_NARROW;
  for (int i = 0; i < spec->policies.count; i++) {
    reads |= product_is_wide_under(p->graph, spec, &spec->policies.at[i], node) ? READS_WIDE : READS_NARROW;
  }
  return reads;
}

static void find_reads(Packer *p, const Map *index, RegionId region) {
  const NodeList *nodes = &p->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(p->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count && !moves(node->op); j++) {
      const int parameter = parameter_behind(p, index, node->operands[j]);
      if (parameter >= 0) {
        p->reads[parameter] |= (uint8_t)reads_of(p, node, j);
      }
    }
    if (node->op == OP_MICROBATCH) {
      find_reads(p, index, node->region);
    }
  }
}

static void find_all_reads(Packer *p) {
  const Spec *spec = p->spec;
  if (element_type_bytes(spec->formats.dot) >= element_type_bytes(spec->real)) {
    return;
  }
  Map index = map_create(p->arena);
  p->reads = ARENA_ARRAY(p->arena, uint8_t, p->graph->persistent.count + 1);
  for (int i = 0; i < p->graph->persistent.count; i++) {
    map_put(&index, map_key(p->graph->persistent.at[i].name), i);
  }
  find_reads(p, &index, 0);
}

static ReadAs read_as(const Packer *p, const Persistent *parameter) {
  enum { FEW = 1 << 16 };
  const int reads = p->reads ? p->reads[parameter - p->graph->persistent.at] : 0;
  const bool few = reads && graph_elements(p->graph, parameter->shape) <= FEW;
  return reads == READS_EIGHT                                             ? READ_EIGHT
         : reads == READS_NARROW || reads == (READS_NARROW | READS_EIGHT) ? READ_NARROW
         : few                                                            ? READ_AS_FEW
         : reads == READS_WIDE                                            ? READ_WIDE
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

static Name watched_groups(const Packer *p, const Persistent *parameter) {
  const SelectorPlace place = {.scope = parameter->scope, .tensor = parameter->name};
  Name all = NULL;
  for (int i = 0; i < p->spec->watched.count; i++) {
    const Name group = selector_group(p->graph, p->spec->watched.at[i].name, place);
    all = name_format(p->graph->names, "%s %s", all ? all : "", group ? group : "-");
  }
  return all;
}

static PackKey key_of(Packer *p, int rule, const Persistent *parameter) {
  Mapping *mapping = p->mapping;
  AxisId axis[GRAPH_MAX_MESH];
  PackKey key = {.rule = rule, .cut = mapping_parameter(mapping, parameter, axis)};
  key.watched = watched_groups(p, parameter);
  key.param = mapping_flat(mapping, parameter, RULE_PARAM, NULL);
  key.grad = mapping_flat(mapping, parameter, RULE_GRAD, NULL);
  key.state = mapping_flat(mapping, parameter, RULE_STATE, NULL);
  if (p->stages) {
    int index = (int)(parameter - p->graph->persistent.at), stages = p->stages->stages;
    key.stage = p->stages->owner[index];
    if (!lies_in_one_stage(p, index)) {  // there is no one arena that has its pieces
      key.param = key.grad = 0;
      return key;
    }
    key.chunk = stages_of_value(p->stages, p->gradient[index]) / stages;
  }
  store_with_state(&key);
  key.read = key.param ? read_as(p, parameter) : READ_WIDE;
  key.chunk = (key.param | key.grad) && key.read != READ_AS_FEW ? key.chunk : 0;
  return key;
}

static bool same_key(const PackKey *a, const PackKey *b) {
  return a->rule == b->rule && a->stage == b->stage && a->cut == b->cut && a->param == b->param && a->kept == b->kept &&
         a->grad == b->grad && a->state == b->state && a->chunk == b->chunk && a->read == b->read &&
         a->watched == b->watched;
}

// May a bucket end between these two parameters?
static bool apart(const Graph *graph, const Persistent *last, const Persistent *next) {
  const ScopeId layer = layer_of(graph, last->scope);
  return layer < 0 || layer != layer_of(graph, next->scope);
}

enum { MEMBERS_EIGHT = 8 };  // and up to the end of a layer: each has a scale, by which an element is asked for it

// The members with the key of `from`, up to the end of a bucket.
static void make_pack(Packer *p, const PackKey *keys, const int *members, int count, int from, bool *done) {
  const Spec *spec = p->spec;
  const bool buckets = (keys[from].param | keys[from].grad) && keys[from].read != READ_AS_FEW;
  const int64_t ranks = mapping_ranks(p->mapping, keys[from].cut);  // each of which has its part of a member
  ARRAY(int) alike = {0};
  int64_t bytes = 0;
  for (int i = from; i < count; i++) {
    const Persistent *at = &p->graph->persistent.at[members[i]];
    if (done[i] || !same_key(&keys[from], &keys[i])) {
      continue;
    }
    const bool enough = bytes >= spec->bucket_bytes || (keys[from].read == READ_EIGHT && alike.count >= MEMBERS_EIGHT);
    if (buckets && enough && alike.count > 0 &&
        apart(p->graph, &p->graph->persistent.at[alike.at[alike.count - 1]], at)) {
      break;
    }
    done[i] = true;
    bytes += graph_elements(p->graph, at->shape) * element_type_bytes(spec->formats.gradient) / ranks;
    array_push(p->arena, &alike, members[i]);
  }
  add_unit(p, &keys[from], alike.at, alike.count, true);
}

// In the order in which keys first appear.
static void make_packs(Packer *p, const int *members, int count) {
  PackKey *keys = ARENA_ARRAY(p->arena, PackKey, count + 1);
  bool *done = ARENA_ARRAY(p->arena, bool, count + 1);
  for (int i = 0; i < count; i++) {
    const Persistent *parameter = &p->graph->persistent.at[members[i]];
    keys[i] = key_of(p, parameter->group, parameter);
  }
  for (int i = 0; i < count; i++) {
    if (!done[i]) {
      make_pack(p, keys, members, count, i, done);
    }
  }
}

static bool is_trained(const Packer *p, int index, int rule) {
  const Persistent *parameter = &p->graph->persistent.at[index];
  return parameter->role == ROLE_PARAMETER && parameter->group == rule && p->gradient[index] >= 0;
}

// Does an update that is run need to know what each parameter is as a whole, those of other rules too?
static bool totals_each(const Packer *p, const UpdateRules *rules) {
  for (int rule = 0; rule < rules->count; rule++) {
    const bool asks = rules->at[rule].trains && rules->at[rule].totals_each;
    for (int i = 0; i < p->graph->persistent.count && asks; i++) {
      if (is_trained(p, i, rule)) {
        return true;
      }
    }
  }
  return false;
}

static bool may_pack(Packer *p, const UpdateRule *rule, int index, bool each) {
  const Persistent *parameter = &p->graph->persistent.at[index];
  if (!rule->elementwise || mapping_stored_by_axis(p->mapping, parameter)) {
    return false;
  }
  const PackKey key = each ? key_of(p, parameter->group, parameter) : (PackKey){0};
  return !in_pieces(&key);
}

static void add_single(Packer *p, int rule, int index) {
  int *single = ARENA_NEW(p->arena, int);
  *single = index;
  const PackKey key = {.rule = rule};
  add_unit(p, &key, single, 1, false);
}

bool packs_decide(Arena *arena, Graph *graph, const Spec *spec, const UpdateRules *rules, const ValueId *gradient,
                  UpdateUnits *units) {
  const int errors = graph->diag->reports;
  Packer packer = {.arena = arena,
                   .graph = graph,
                   .spec = spec,
                   .gradient = gradient,
                   .mapping = mapping_create(arena, graph, spec),
                   .stages = stages_find(arena, graph, spec, NULL),
                   .units = units};
  Packer *p = &packer;
  if (graph->diag->reports != errors) {
    return false;
  }
  find_all_reads(p);
  const bool each = totals_each(p, rules);
  for (int rule = 0; rule < rules->count; rule++) {
    ARRAY(int) members = {0};
    for (int i = 0; i < graph->persistent.count && rules->at[rule].trains; i++) {
      if (!is_trained(p, i, rule)) {
        continue;
      }
      if (may_pack(p, &rules->at[rule], i, each)) {
        array_push(arena, &members, i);
      } else {
        add_single(p, rule, i);
      }
    }
    make_packs(p, members.at, members.count);
  }
  return true;
}
