// precision.c: gives every real value its format, by its role and the precision policy.
//
// Needs a whole step; from here on no value is TYPE_REAL. A value's type is how it is stored: kernels load any format,
// compute in the real type (f32, or f64 under fp64) and round when they store. Formats by role:
//   parameters that no update changes                                  that of the frozen; in 8 bits, see codes.c
//   other parameters, all other state, and the arithmetic of the optimizer   the real type
//   sums and other reductions, statistics of attention, outputs        the real type
//   products of matrices, attention, sums over the choices of products
//   with chosen matrices                                               that of activations
//   gradients of parameters                                            that of gradients
//   the residual stream of the forward: what is labelled @resid, and variables that something of equal axes is added
//   to, as in x = x + f(x), and what is only moved into these; rows of
//   tables that are parameters                                         that of the residual stream
//   elementwise operations: the real type, if all operands have it; of mixed operands the narrower, unless a wider one
//   varies along all axes of the result; gradients by products in f32 of operands in a narrower format count as that
// Products in 8 bits, and what they read, are quantise.c's.
// Where an operation needs another format than its operand has, a cast stands between; casts of parameters are made
// where they are used.
#include "compiler/ir/attention.h"
#include "compiler/precision/codes.h"
#include "compiler/precision/quantise.h"
#include "compiler/precision/roles.h"
#include "compiler/spec/products.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  const Formats *formats;
  ElementType real;
  Roles roles;
  Codes codes;
  Quantiser quantiser;
  Map casts;      // value, format and region to the cast value
  bool *rounded;  // by value: a gradient that a product in f32 makes for an operand in the format of activations
  Shape *varies;  // by value: the axes along which what is behind a value in the real type varies
  int count;      // of all of these
  bool *waiting;  // by node: of the region at hand, and still to be typed
  int node_count;
} Precision;

static bool narrower(ElementType a, ElementType b) {
  return element_type_bytes(a) < element_type_bytes(b);
}

static bool is_real(const Precision *p, ValueId value) {
  return element_type_floating(graph_value(p->graph, value)->type);
}

// It is rounded as a product of matrices is.
static bool sums_choices(const Precision *p, const Node *node) {
  return roles_sum_choices(&p->roles, node) && graph_value(p->graph, node->operands[0])->type == p->formats->activation;
}

// --- casts ---

static ValueId cast(Precision *p, ValueId value, ElementType type);

// A parameter that is moved is cast first: what ranks gather, and what lasts from step to step, are casts of
// parameters.
static ValueId cast_moved(Precision *p, ValueId value, ElementType type) {
  Graph *graph = p->graph;
  const ValueId from = cast(p, graph_producer(graph, value)->operands[0], type);
  const NodeId made = graph_clone(graph, graph_value(graph, value)->node, &from);
  graph_value(graph, graph_node(graph, made)->first_result)->type = type;
  return graph_node(graph, made)->first_result;
}

static ValueId cast(Precision *p, ValueId value, ElementType type) {
  Graph *graph = p->graph;
  const Value from = *graph_value(graph, value);
  if (from.type == type || !element_type_floating(from.type)) {
    return value;
  }
  // With a pipeline the backward casts parameters again: every microbatch in flight would keep copies of all of them.
  bool again = p->c->tenancy && graph->backward && graph_producer(graph, value)->op == OP_PARAM;
  const uint64_t key[] = {(uint64_t)value, (uint64_t)type, (uint64_t)graph->region, again};
  int64_t known;
  if (map_get_bytes(&p->casts, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const Node *maker = graph_producer(graph, value);
  const bool moved = maker && op_alias(maker->op) && comes_from_parameter(graph, value);
  NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(type))};
  ValueId made = moved ? cast_moved(p, value, type) : graph_add1(graph, OP_CAST, init, value);
  Value *to = graph_value(graph, made);
  to->role = from.role;
  to->name = from.name;
  map_put_bytes(&p->casts, key, sizeof key, made);
  return made;
}

static ValueId cast_to_base(void *of, ValueId value) {
  Precision *p = of;
  return cast(p, value, p->formats->dot);
}

static void cast_operand(Precision *p, NodeId id, int operand, ElementType type) {
  ValueId value = cast(p, graph_node(p->graph, id)->operands[operand], type);
  graph_node(p->graph, id)->operands[operand] = value;
}

static void cast_operands(Precision *p, NodeId id, ElementType type) {
  for (int i = 0; i < graph_node(p->graph, id)->operand_count; i++) {
    cast_operand(p, id, i, type);
  }
}

// --- elementwise operations ---

static Shape varies_of(const Precision *p, ValueId value) {
  return value < p->count ? p->varies[value] : graph_shape(p->graph, value);
}

static bool chooses(const Node *node, int operand) {
  return node->op == OP_WHERE && operand == 0;
}

static Shape union_varies(const Precision *p, const Node *node) {
  Shape all = {0};
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = varies_of(p, node->operands[i]);
    all = chooses(node, i) ? all : shape_union(all, &shape);
  }
  return all;
}

// In which format what is computed of a value takes it to be.
static ElementType format_of(const Precision *p, ValueId value) {
  return value < p->count && p->rounded[value] ? p->formats->activation : graph_value(p->graph, value)->type;
}

static ElementType mixed(const Precision *p, const Node *node) {
  Shape result = graph_shape(p->graph, node->first_result);
  ElementType type = p->real;
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    ElementType of = format_of(p, node->operands[i]);
    type = is_real(p, node->operands[i]) && narrower(of, type) ? of : type;
  }
  for (int i = 0; i < node->operand_count; i++) {
    Shape varies = varies_of(p, node->operands[i]);
    any |= is_real(p, node->operands[i]) && narrower(type, format_of(p, node->operands[i])) &&
           shape_contains(&varies, &result);
  }
  return any ? p->real : type;
}

// --- operations ---

static bool of_update(const Precision *p, const Node *node) {
  return graph_value(p->graph, node->first_result)->role == ROLE_UPDATE;
}

// The type of the only real result of a node whose operands have their types.
static ElementType type_of(Precision *p, NodeId id) {
  const Node *node = graph_node(p->graph, id);
  const Value *result = graph_value(p->graph, node->first_result);
  bool computed = op_elementwise(node->op) || node->op == OP_DOT || node->op == OP_TAKE || op_chosen(node->op);
  if (result->role == ROLE_CACHE && op_leaf(node->op)) {
    return p->formats->activation;
  }
  if (node->op == OP_PARAM) {
    return graph_persistent(p->graph, node->text)->type;
  }
  if ((of_update(p, node) && computed) || node->operand_count == 0) {
    return p->real;
  }
  ElementType first = graph_value(p->graph, node->operands[0])->type;
  if (sums_choices(p, node)) {
    return p->roles.summed[node->first_result] ? p->formats->gradient : p->formats->activation;
  }
  const bool product = op_dots(node->op) || op_chosen(node->op);
  if (op_wide(node->op) || (product && product_is_wide(p->graph, p->c->spec, node))) {
    return p->real;
  }
  if (product) {
    return p->roles.summed[node->first_result] ? p->formats->gradient : p->formats->activation;
  }
  if (node->op == OP_TAKE && comes_from_parameter(p->graph, node->operands[0])) {
    return p->formats->residual;
  }
  return op_elementwise(node->op) ? mixed(p, node) : first;
}

static void set_varies(Precision *p, const Node *node, ValueId value) {
  Shape shape = graph_shape(p->graph, value), from = {0};
  if (node->op == OP_CONST || op_random(node->op) || node->op == OP_TO_REAL) {
    p->varies[value] = (Shape){0};
  } else if (op_elementwise(node->op)) {
    p->varies[value] = union_varies(p, node);
  } else if (op_alias(node->op)) {
    Shape varies = varies_of(p, node->operands[0]);
    from = graph_shape(p->graph, node->operands[0]);
    p->varies[value] = shape_contains(&varies, &from) ? shape : shape_common(shape, &varies);
  } else {
    p->varies[value] = shape;
  }
}

// Products in f32 give f32, also the gradient of an operand that was cast for them. What that is added to need not
// become f32 for it: the gradient of a stream would be, all the way to the first layer.
static bool is_rounded(const Precision *p, const Node *node) {
  const bool dot = node->op == OP_DOT && node->backward && !p->roles.summed[node->first_result];
  if (op_alias(node->op) && node->operands[0] < p->count) {
    return p->rounded[node->operands[0]];
  }
  if (!dot || !product_is_wide(p->graph, p->c->spec, node)) {
    return false;
  }
  const ValueId of = product_gradient_of(p->graph, node);
  const Node *maker = of >= 0 ? graph_producer(p->graph, of) : NULL;
  return maker && maker->op == OP_CAST && graph_value(p->graph, maker->operands[0])->type == p->formats->activation;
}

static void type_node(Precision *p, NodeId id);

// Types what a value is made of at once, where it would stand further down.
static void type_before(Precision *p, ValueId value) {
  const NodeId id = graph_value(p->graph, value)->node;
  if (id < 0 || id >= p->node_count || !p->waiting[id]) {
    return;
  }
  for (int i = 0; i < graph_node(p->graph, id)->operand_count; i++) {
    type_before(p, graph_node(p->graph, id)->operands[i]);
  }
  type_node(p, id);
}

// Values that have one scale must all be there before the first of them is quantised.
static void scale(Precision *p, NodeId id, const ProductFormats *formats) {
  for (int i = 0; i < 2; i++) {
    const ValueList together = quantiser_together(&p->quantiser, id, i);
    for (int j = 0; j < together.count; j++) {
      type_before(p, together.at[j]);
    }
  }
  graph_follow(p->graph, graph_node(p->graph, id));
  quantiser_scale(&p->quantiser, id, formats);
}

// In what a product multiplies, where that is not 8 bits.
static ElementType factors_of(const Precision *p, const Node *node) {
  return of_update(p, node) || product_is_wide(p->graph, p->c->spec, node) ? p->real : p->formats->dot;
}

// The format that a value has whatever it is made of; TYPE_REAL: none. Leaves are as stored, wide products are wide.
static ElementType asked_of(const Precision *p, const Node *node, ValueId value) {
  const bool product = op_dots(node->op) || op_chosen(node->op);
  const bool free = op_leaf(node->op) || (product && product_is_wide(p->graph, p->c->spec, node));
  return free                       ? TYPE_REAL
         : p->roles.compared[value] ? p->real
         : p->roles.stream[value]   ? p->formats->residual
                                    : TYPE_REAL;
}

// Not all need be marked: a gradient may also be a value of the forward, which multiplies the parameter there.
static bool packs_gradients(const Precision *p, const Node *node) {
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    any |= graph_value(p->graph, node->operands[i])->role == ROLE_GRADIENT;
  }
  return any;
}

// What a kernel needs its operands in. What only moves has the format of its operand.
static void cast_for(Precision *p, NodeId id) {
  const Node *node = graph_node(p->graph, id);
  switch (node->op) {
    case OP_DOT: {
      const ProductFormats formats = quantiser_formats(&p->quantiser, node);
      if (formats.scaled) {
        scale(p, id, &formats);
      } else {
        cast_operands(p, id, factors_of(p, node));
      }
      if (formats.asked) {
        quantiser_note(&p->quantiser, id, &formats);
      }
      break;
    }
    case OP_TAKE:  // rows that are rounded where they are stored may as well be rows of the copy that products read
      if (!of_update(p, node) && p->formats->residual == p->formats->dot &&
          comes_from_parameter(p->graph, node->operands[0])) {
        cast_operand(p, id, 0, p->formats->dot);
      }
      break;
    case OP_FOLD:
    case OP_OUTPUT:
      cast_operands(p, id, p->real);
      break;
    case OP_ASSIGN:
      cast_operand(p, id, 1, graph_value(p->graph, node->operands[0])->type);
      break;
    case OP_PACK:
      cast_operands(p, id, packs_gradients(p, node) ? p->formats->gradient : p->real);
      break;
    case OP_CONCAT: {
      ElementType least = p->real;
      for (int i = 0; i < node->operand_count; i++) {
        ElementType type = graph_value(p->graph, node->operands[i])->type;
        least = is_real(p, node->operands[i]) && narrower(type, least) ? type : least;
      }
      const ElementType asked = asked_of(p, node, node->first_result);
      cast_operands(p, id, asked == TYPE_REAL ? least : asked);
      break;
    }
    case OP_CHOSEN_DOT:
    case OP_CHOSEN_SUM:
      cast_operand(p, id, 0, factors_of(p, node));
      cast_operand(p, id, 1, factors_of(p, graph_node(p->graph, id)));
      break;
    default: {
      const ElementType asked = roles_only_move(node) ? asked_of(p, node, node->first_result) : TYPE_REAL;
      if (asked != TYPE_REAL) {
        cast_operand(p, id, 0, asked);
      }
      break;
    }
  }
}

// The body of a composite is what its kernel computes: in the real type.
static void type_body(Precision *p, NodeId id) {
  Graph *graph = p->graph;
  const Node *node = graph_node(graph, id);
  const Region *region = &graph->regions.at[node->region];
  for (int i = 0; i < region->parameters.count; i++) {
    Value *value = graph_value(graph, region->parameters.at[i]);
    value->type = value->type == TYPE_REAL ? p->real : value->type;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *inner = graph_node(graph, region->nodes.at[i]);
    for (int j = 0; j < inner->result_count; j++) {
      Value *value = graph_value(graph, inner->first_result + j);
      value->type = value->type == TYPE_REAL ? p->real : value->type;
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    graph_value(graph, region->results.at[i])->type = graph_value(graph, node->first_result + i)->type;
  }
}

static void type_composite(Precision *p, NodeId id) {
  const int saved = (int)(graph_node(p->graph, id)->integer & 0xff);
  const Node *node = graph_node(p->graph, id);
  const int operands = node->operand_count, results = node->result_count;
  const bool gradient = attention_is_gradient(node);
  const int forward = attention_forward_operands(node);
  const int made = forward + attention_results(node);  // by the forward
  for (int i = 0; i < operands; i++) {
    if (i <= forward || i >= made) {
      const bool real = (i >= 3 && i < forward) || i > made;
      cast_operand(p, id, i, real ? p->real : p->formats->activation);
    }
  }
  for (int i = 0; i < results; i++) {
    const bool statistic = gradient ? i >= 3 : i >= results - saved;  // or a gradient of what is captured
    ValueId value = graph_node(p->graph, id)->first_result + i;
    graph_value(p->graph, value)->type = statistic ? p->real : p->formats->activation;
    p->varies[value] = graph_shape(p->graph, value);
  }
  type_body(p, id);
}

static void type_region(Precision *p, RegionId region);

// What the microbatches add up is wide: all results but gradients of parameters are in the real type.
static void type_microbatch(Precision *p, NodeId id) {
  Graph *graph = p->graph;
  RegionId outer = graph->region, inner = graph_node(graph, id)->region;
  type_region(p, inner);
  graph->region = inner;
  for (int i = 0; i < graph_node(graph, id)->result_count; i++) {
    ValueId value = graph->regions.at[inner].results.at[i];
    bool gradient = p->roles.summed[value];
    value = cast(p, value, gradient ? p->formats->gradient : p->real);
    graph->regions.at[inner].results.at[i] = value;
    ValueId result = graph_node(graph, id)->first_result + i;
    graph_value(graph, result)->type = graph_value(graph, value)->type;
    p->varies[result] = graph_shape(graph, result);
  }
  graph->region = outer;
}

static void type_node(Precision *p, NodeId id) {
  Graph *graph = p->graph;
  const Node *node = graph_node(graph, id);
  p->waiting[id] = false;
  graph_follow(graph, node);
  if (!codes_read(&p->codes, id)) {
    return;
  }
  node = graph_node(graph, id);
  if (node->op == OP_MICROBATCH) {
    type_microbatch(p, id);
  } else if (node->op == OP_COMPOSITE) {
    type_composite(p, id);
  } else {
    cast_for(p, id);
    node = graph_node(graph, id);
    for (int i = 0; i < node->result_count; i++) {
      Value *value = graph_value(graph, node->first_result + i);
      if (value->type == TYPE_REAL) {
        const ElementType asked = asked_of(p, node, node->first_result + i);
        value->type = node->op == OP_PACK  ? graph_value(graph, node->operands[0])->type
                      : asked != TYPE_REAL ? asked
                                           : type_of(p, id);
        const bool exact = p->roles.compared[node->first_result + i] && !op_leaf(node->op);
        p->rounded[node->first_result + i] = value->type == p->real && !exact && is_rounded(p, node);
      }
      set_varies(p, node, node->first_result + i);
    }
  }
  array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
  quantiser_merge(&p->quantiser, id);
}

static void type_region(Precision *p, RegionId region) {
  Graph *graph = p->graph;
  RegionId outer = graph->region;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    p->waiting[old.at[i]] = true;
  }
  for (int i = 0; i < old.count; i++) {
    if (p->waiting[old.at[i]]) {
      type_node(p, old.at[i]);
    }
  }
  graph->region = outer;
}

static ElementType type_of_tensor(const Compilation *c, const Persistent *tensor) {
  const Formats *formats = &c->spec->formats;
  const bool narrow = formats->frozen != c->spec->real && tensor->role == ROLE_PARAMETER && codes_is_frozen(c, tensor);
  const ElementType frozen = formats->frozen == TYPE_E4M3 ? formats->dot : formats->frozen;  // what has no codes
  return tensor->role == ROLE_CACHE ? formats->activation : narrow ? frozen : c->spec->real;
}

bool pass_precision(Compilation *c) {
  Graph *graph = c->graph;
  Precision p = {.c = c, .graph = graph, .formats = &c->spec->formats, .real = c->spec->real};
  graph->real = c->spec->real;
  p.codes = codes_start(c);
  p.count = graph->values.count;
  p.rounded = ARENA_ARRAY(c->arena, bool, p.count + 1);
  p.varies = ARENA_ARRAY(c->arena, Shape, p.count + 1);
  p.node_count = graph->nodes.count;
  p.waiting = ARENA_ARRAY(c->arena, bool, p.node_count + 1);
  p.casts = map_create(c->arena);
  p.quantiser = quantiser_start(c, cast_to_base, &p);
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *tensor = &graph->persistent.at[i];
    if (tensor->type == TYPE_REAL) {
      tensor->type = type_of_tensor(c, tensor);
    }
  }
  const GraphPlace before = graph_place(graph);
  p.roles = roles_find(c->arena, graph);
  type_region(&p, 0);
  quantiser_finish(&p.quantiser);
  graph_return(graph, before);
  return true;
}
