// samples.c: microbatches compute what the whole batch does, or the text is refused where samples meet.
//
// Needs a simplified forward graph. Infers which values belong to one sample (compiler/ir/samples.h). The loss must
// then be a sum over samples; what is the same in all microbatches and added to such a sum is divided among them. An
// evaluation runs one microbatch at a time, and its sums are multiplied by their number, so that their mean is that of
// the batch. Model state may be computed from sums, once, after the last microbatch (differentiate.c); state that says
// how microbatches combine is computed in each, from what that has, and becomes a sum here.
#include "compiler/ir/samples.h"

#include <string.h>

#include "compiler/pass/compilation.h"
#include "compiler/shard/weigh.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  SamplesTable *table;
  bool *cone;      // by node: what is looked at depends on it
  bool *reported;  // by node
} Check;

static bool is_model_state(const Graph *graph, const Node *node) {
  const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
  return target && target->op == OP_STATE && graph_value(graph, target->first_result)->role == ROLE_STATE;
}

static StateCombine combine_of(const Graph *graph, const Node *assign) {
  const Persistent *state = graph_persistent(graph, graph_producer(graph, assign->operands[0])->text);
  return state ? state->combine : COMBINE_NONE;
}

// Marks what makes the value, of the nodes of the top region.
static void mark_cone(Check *check, ValueId value) {
  const NodeList *nodes = &check->graph->regions.at[0].nodes;
  check->cone = ARENA_ARRAY(check->c->arena, bool, check->graph->nodes.count + 1);
  if (graph_value(check->graph, value)->node >= 0) {
    check->cone[graph_value(check->graph, value)->node] = true;
  }
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(check->graph, nodes->at[i]);
    for (int j = 0; check->cone[nodes->at[i]] && j < node->operand_count; j++) {
      if (graph_producer(check->graph, node->operands[j])) {
        check->cone[graph_value(check->graph, node->operands[j])->node] = true;
      }
    }
  }
}

// --- errors ---

// Where the user's text says it: for an operation of the library, the call that led there.
static Span span_of(const Check *check, NodeId id) {
  const Node *node = graph_node(check->graph, id);
  Span span = node->span;
  for (ScopeId scope = node->scope; scope >= 0 && diag_in_library(check->c->diag, span);) {
    const Scope *at = &check->graph->scopes.at[scope];
    span = at->call.file >= 0 ? at->call : span;
    scope = at->parent;
  }
  return span;
}

static void help_groups(const Check *check, Diagnostic *error) {
  diag_help(check->c->diag, error,
            "use microbatches = 1, or let groups of samples stay together: `axis group = batch / 4, member = 4;` and "
            "`x[batch -> (group, member)]`");
}

static void report_late(const Check *check, NodeId id, const char *use) {
  const char *until = *use ? arena_format(check->c->arena, " before it is %s", use) : " here";
  Diagnostic *error = diag_error(check->c->diag, E037, span_of(check, id),
                                 "with %d microbatches, a sum over the batch may only be added and scaled%s",
                                 check->table->slots, until);
  diag_label(check->c->diag, error, "'%s' is computed from a sum over the batch",
             op_name(graph_node(check->graph, id)->op));
  diag_help(check->c->diag, error, "use microbatches = 1, or average after this operation");
}

static void report_stored(const Check *check, const Node *leaf, const char *why) {
  Diagnostic *error =
      diag_error(check->c->diag, E037, leaf->span, "with %d microbatches, the %s '%s' cannot have an axis of the batch",
                 check->table->slots, leaf->op == OP_PARAM ? "parameter" : "state", leaf->text);
  diag_label(check->c->diag, error, "%s", why);
  diag_help(check->c->diag, error, "use microbatches = 1, or an axis that does not depend on the batch");
}

static void report_mixed(const Check *check, NodeId id, const char *why, const Persistent *state) {
  const Node *node = graph_node(check->graph, id);
  Diagnostic *error = diag_error(check->c->diag, E037, span_of(check, id),
                                 "with %d microbatches no operation sees the whole batch, as '%s' would have to",
                                 check->table->slots, node->op == OP_COMPOSITE ? node->text : op_name(node->op));
  diag_label(check->c->diag, error, "%s", why);
  if (!state) {
    help_groups(check, error);
    return;
  }
  diag_related(check->c->diag, error, state->span, "for the new value of the state '%s'", state->name);
  diag_help(
      check->c->diag, error,
      "say how what the microbatches compute combines, `state %s: ..., combine = mean;`, or let groups of samples "
      "stay together: `x[batch -> (group, member)]`",
      state->name);
}

// What in the cone of a value mixes samples. `lately`: it may be computed after the microbatches.
static void check_value(Check *check, ValueId value, bool lately, const char *use, const Persistent *state) {
  const NodeList *nodes = &check->graph->regions.at[0].nodes;
  mark_cone(check, value);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(check->graph, nodes->at[i]);
    for (int j = 0; check->cone[nodes->at[i]] && j < node->result_count && !check->reported[nodes->at[i]]; j++) {
      const Samples of = samples_of(check->table, node->first_result + j);
      const bool begins = of.node == nodes->at[i], late = of.kind == SAMPLES_LATE && !lately;
      check->reported[nodes->at[i]] = begins && (late || of.kind == SAMPLES_MIXED);
      if (begins && of.kind == SAMPLES_MIXED) {
        report_mixed(check, of.node, of.why, state);
      } else if (begins && late) {
        report_late(check, of.node, use);
      }
    }
  }
}

static bool is_loss(const Node *node) {
  return node->op == OP_OUTPUT && strcmp(node->text, "loss") == 0;
}

// The first operation behind which no mean over microbatches is the value of the batch; -1: there is none.
static NodeId misfit(Check *check, ValueId value) {
  const NodeList *nodes = &check->graph->regions.at[0].nodes;
  mark_cone(check, value);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(check->graph, nodes->at[i]);
    for (int j = 0; check->cone[nodes->at[i]] && j < node->result_count; j++) {
      const Samples of = samples_of(check->table, node->first_result + j);
      if (of.node == nodes->at[i] && (of.kind == SAMPLES_LATE || of.kind == SAMPLES_MIXED)) {
        return nodes->at[i];
      }
    }
  }
  return -1;
}

static AxisId batch_axis(const Check *check) {
  const Name batch = name_of(check->graph->names, "batch");
  for (int i = 0; i < check->graph->axes.count; i++) {
    if (check->table->cut[i] && check->graph->axes.at[i].name == batch) {
      return i;
    }
  }
  return -1;
}

static void note_left_out(const Check *check, const Node *output, NodeId at) {
  Diag *diag = check->c->diag;
  const bool mixed = samples_of(check->table, output->operands[0]).kind == SAMPLES_MIXED;  // so a step has none
  Diagnostic *note = diag_note(diag, E037, span_of(check, at),
                               "the output '%s' is %s: an evaluation has one of %d microbatches at a time, and the "
                               "mean of what they have is not that of the batch",
                               output->text, mixed ? "shown nowhere under this layout" : "left out of evaluations",
                               check->table->slots);
  diag_label(diag, note, mixed ? "it needs all samples of the batch" : "it is computed from a sum over the batch");
  diag_help(diag, note, "use microbatches = 1, or an output that is a mean, and compute this from it afterwards");
}

// An evaluation does without outputs that it cannot have; a step does without some of them too (differentiate.c).
static void leave_out_outputs(Check *check) {
  NodeList *nodes = &check->graph->regions.at[0].nodes;
  int kept = 0;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(check->graph, nodes->at[i]);
    const NodeId at = node->op == OP_OUTPUT && !is_loss(node) ? misfit(check, node->operands[0]) : -1;
    if (at >= 0) {
      note_left_out(check, node, at);
    } else {
      nodes->at[kept++] = nodes->at[i];
    }
  }
  const bool any = kept < nodes->count;
  nodes->count = kept;
  if (any) {  // or stages would send what nobody reads
    graph_remove_dead(check->graph);
  }
}

static bool check_stored(Check *check) {
  const NodeList *nodes = &check->graph->regions.at[0].nodes;
  const int errors = check->c->diag->reports;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(check->graph, nodes->at[i]);
    const Samples of = node->result_count ? samples_of(check->table, node->first_result) : (Samples){0};
    if (op_stored(node->op) && of.kind == SAMPLES_MIXED) {
      report_stored(check, node, of.why);
    }
  }
  return check->c->diag->reports == errors;
}

static bool check_effects(Check *check) {
  const Graph *graph = check->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  if (!check_stored(check)) {
    return false;
  }
  const int errors = check->c->diag->reports;
  check->reported = ARENA_ARRAY(check->c->arena, bool, graph->nodes.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (is_loss(node)) {
      check_value(check, node->operands[0], false, "the loss", NULL);
    }
  }
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (is_model_state(graph, node) && combine_of(graph, node) == COMBINE_NONE) {
      const Name name = graph_producer(graph, node->operands[0])->text;
      check_value(check, node->operands[1], true, "", graph_persistent(graph, name));
    }
  }
  return check->c->diag->reports == errors;
}

// --- what comes after the microbatches ---

static bool is_late(const Check *check, const Node *node) {
  return node->result_count && samples_of(check->table, node->first_result).kind == SAMPLES_LATE;
}

static bool reads_samples(const Check *check, const Node *node) {
  for (int i = 0; i < node->operand_count; i++) {
    const SamplesKind kind = samples_of(check->table, node->operands[i]).kind;
    if (kind == SAMPLES_EACH || kind == SAMPLES_MIXED) {
      return true;
    }
  }
  return false;
}

// Sums that only state waits for are scaled and added up once, with what is the same in all microbatches.
static void postpone(Check *check) {
  const Graph *graph = check->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  bool *needed = ARENA_ARRAY(check->c->arena, bool, graph->nodes.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    if (graph_node(graph, nodes->at[i])->op == OP_OUTPUT) {
      mark_cone(check, graph_node(graph, nodes->at[i])->operands[0]);
      for (int j = 0; j < graph->nodes.count; j++) {
        needed[j] |= check->cone[j];
      }
    }
  }
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    Samples *of = node->result_count ? &check->table->values[node->first_result] : NULL;
    if (of && of->kind == SAMPLES_SUM && !needed[nodes->at[i]] && !reads_samples(check, node)) {
      *of = (Samples){SAMPLES_LATE, -1, nodes->at[i], NULL};
    }
  }
}

// Is an operand the same in all microbatches, and added to a sum?
static bool is_shared(const Check *check, const Node *node, int at) {
  return samples_of(check->table, node->first_result).kind == SAMPLES_SUM && samples_adds(node, at) &&
         samples_of(check->table, node->operands[at]).kind == SAMPLES_SAME;
}

static bool shares(const Check *check, const Node *node) {
  for (int i = 0; node->result_count && i < node->operand_count; i++) {
    if (is_shared(check, node, i)) {
      return true;
    }
  }
  return false;
}

// --- state that says how microbatches combine ---

static void set_kind(Check *check, ValueId value, SamplesKind kind) {
  SamplesTable *table = check->table;
  if (value >= table->count) {
    const int count = 2 * value + 1;
    Samples *values = ARENA_ARRAY(table->arena, Samples, count + 1);
    memcpy(values, table->values, sizeof *values * (size_t)table->count);
    for (int i = table->count; i < count; i++) {
      values[i] = (Samples){SAMPLES_SAME, -1, -1, NULL};
    }
    table->values = values;
    table->count = count;
  }
  table->values[value] = (Samples){kind, -1, graph_value(check->graph, value)->node, "it is of one microbatch"};
}

static bool divides_by_batch(const Check *check, const Node *node) {
  for (int i = 0; node->op == OP_CONST && i < node->axes.count; i++) {
    if (check->table->cut[node->axes.axis[i]]) {
      return true;
    }
  }
  return false;
}

// Scales the means over the batch in a body, which is a copy. Bodies within are copies too.
static bool scale_body(Check *check, RegionId body, bool change) {
  const NodeList *nodes = &check->graph->regions.at[body].nodes;
  bool any = false;
  for (int i = 0; i < nodes->count; i++) {
    Node *node = graph_node(check->graph, nodes->at[i]);
    any |= node->region >= 0 && scale_body(check, node->region, change);
    if (divides_by_batch(check, node)) {
      any = true;
      node->number *= change ? check->table->slots : 1;
    }
  }
  return any;
}

// The value again, as it is when one microbatch is the batch: its means divide by the samples of one.
static ValueId of_one_microbatch(Check *check, ValueId value) {
  Graph *graph = check->graph;
  Map made = map_create(check->c->arena);
  const NodeList nodes = graph->regions.at[0].nodes;
  mark_cone(check, value);
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(graph, nodes.at[i]);
    if (!check->cone[nodes.at[i]]) {
      continue;
    }
    bool changed = divides_by_batch(check, node) || shares(check, node) || is_late(check, node);
    const bool body = node->region >= 0 && scale_body(check, node->region, false);
    ValueId *operands = ARENA_ARRAY(check->c->arena, ValueId, node->operand_count + 1);
    for (int j = 0; j < node->operand_count; j++) {
      operands[j] = (ValueId)map_get_or(&made, (uint64_t)node->operands[j], node->operands[j]);
      changed |= operands[j] != node->operands[j];
    }
    if (!changed && !body) {
      continue;
    }
    const NodeId copy = graph_clone(graph, nodes.at[i], operands);
    if (graph_node(graph, copy)->region >= 0) {
      Map inner = map_create(check->c->arena);
      const RegionId region = graph_clone_region(graph, graph_node(graph, copy)->region, &inner);
      graph_node(graph, copy)->region = region;
      scale_body(check, region, true);
    }
    node = graph_node(graph, nodes.at[i]);
    graph_node(graph, copy)->number *= divides_by_batch(check, node) ? check->table->slots : 1;
    for (int j = 0; j < node->result_count; j++) {
      map_put(&made, (uint64_t)(node->first_result + j), graph_node(graph, copy)->first_result + j);
      set_kind(check, graph_node(graph, copy)->first_result + j, SAMPLES_MIXED);
    }
  }
  return (ValueId)map_get_or(&made, (uint64_t)value, value);
}

// Is the last sample of the batch in this microbatch?
static ValueId is_last(Check *check) {
  Graph *graph = check->graph;
  const AxisId batch = batch_axis(check);
  const ValueId position = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = batch}),
                last = graph_integer(graph, graph->axes.at[batch].global - 1),
                here = graph_op1(graph, OP_TO_REAL, graph_op2(graph, OP_EQUAL, position, last)),
                found = graph_sum(graph, here, shape_of(batch));
  return graph_op2(graph, OP_LESS, graph_real(graph, 0.5), found);
}

static void combine(Check *check, NodeId id) {
  Graph *graph = check->graph;
  const StateCombine how = combine_of(graph, graph_node(graph, id));
  graph_follow(graph, graph_node(graph, id));
  const int before = graph->values.count;
  ValueId value = of_one_microbatch(check, graph_node(graph, id)->operands[1]);
  value = how == COMBINE_LAST
              ? graph_op3(graph, OP_WHERE, is_last(check), value, graph_real(graph, 0))
              : graph_op2(graph, OP_MUL, value, graph_real(graph, how == COMBINE_MEAN ? 1.0 / check->table->slots : 1));
  for (int i = before; i < graph->values.count; i++) {
    set_kind(check, i, i == value ? SAMPLES_SUM : SAMPLES_MIXED);
  }
  graph_node(graph, id)->operands[1] = value;
}

static void combine_states(Check *check) {
  const NodeList nodes = check->graph->regions.at[0].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(check->graph, nodes.at[i]);
    if (is_model_state(check->graph, node) && combine_of(check->graph, node) != COMBINE_NONE) {
      combine(check, nodes.at[i]);
    }
  }
  graph_assign_last(check->graph);
}

// --- what is the same in all microbatches ---

static ValueId scaled(Check *check, ValueId value, double factor, SamplesKind kind) {
  Graph *graph = check->graph;
  const Node *product = graph_producer(graph, value);
  for (int i = 0; product && product->op == OP_MUL && i < 2; i++) {
    const Node *constant = graph_producer(graph, product->operands[i]);
    if (constant && constant->op == OP_CONST) {
      factor *= constant->number;
      value = product->operands[1 - i];
      break;
    }
  }
  const ValueId made = graph_op2(graph, OP_MUL, value, graph_real(graph, factor));
  set_kind(check, made, kind);
  return made;
}

// Added to a sum it would count once for each microbatch: divide it.
static void share_operands(Check *check, NodeId id) {
  const int count = shares(check, graph_node(check->graph, id)) ? graph_node(check->graph, id)->operand_count : 0;
  for (int i = 0; i < count; i++) {
    if (is_shared(check, graph_node(check->graph, id), i)) {
      const ValueId value = graph_node(check->graph, id)->operands[i];
      const ValueId share = scaled(check, value, 1.0 / check->table->slots, SAMPLES_SAME);
      graph_node(check->graph, id)->operands[i] = share;
    }
  }
}

// The loss of a training step is summed over microbatches; an output of an evaluation is a mean over them.
static void scale_output(Check *check, NodeId id) {
  const ValueId value = graph_node(check->graph, id)->operands[0];
  const SamplesKind kind = samples_of(check->table, value).kind;
  const bool training = check->c->program == PROGRAM_TRAIN;
  if (kind == (training ? SAMPLES_SAME : SAMPLES_SUM)) {
    const double factor = training ? 1.0 / check->table->slots : check->table->slots;
    const ValueId made = scaled(check, value, factor, kind);
    graph_node(check->graph, id)->operands[0] = made;
  }
}

static void share(Check *check) {
  Graph *graph = check->graph;
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    graph_follow(graph, graph_node(graph, old.at[i]));
    share_operands(check, old.at[i]);
    if (graph_node(graph, old.at[i])->op == OP_OUTPUT) {
      scale_output(check, old.at[i]);
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
}

static void forget_counts(Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    if (graph_node(graph, i)->op == OP_CONST) {
      graph_node(graph, i)->axes = (Shape){0};
    }
  }
}

static bool has_batch(const Check *check) {
  if (batch_axis(check) >= 0) {
    return true;
  }
  const Span span = check->c->spec->model;
  Diagnostic *error = diag_error(check->c->diag, E037, span, "there is no axis 'batch' to cut into %d microbatches",
                                 check->table->slots);
  diag_help(check->c->diag, error, "use microbatches = 1");
  return false;
}

// Those that nothing reads, too: their first values would be others.
static bool check_tensors(const Check *check) {
  const Graph *graph = check->graph;
  const int errors = check->c->diag->errors;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    for (int a = 0; a < tensor->shape.count && tensor->value >= 0; a++) {
      const Axis *axis = &graph->axes.at[tensor->shape.axis[a]];
      if (axis->size != axis->global) {
        report_stored(check, graph_producer(graph, tensor->value),
                      "nothing reads it, but its first values are of all samples");
        break;
      }
    }
  }
  return check->c->diag->errors == errors;
}

bool pass_samples(Compilation *c) {
  const int slots = c->program == PROGRAM_TRAIN || c->program == PROGRAM_EVALUATE ? c->spec->microbatches : 1;
  const bool training = c->program == PROGRAM_TRAIN;
  Check check = {.c = c, .graph = c->graph};
  if (slots == 1) {
    check.table = c->samples = training && c->tenancy ? samples_infer(c->arena, c->graph, 1, true, NULL) : NULL;
    if (c->samples) {
      postpone(&check);
    }
    if (c->program == PROGRAM_EVALUATE) {
      check.table = samples_infer(c->arena, c->graph, 1, false, NULL);
      weigh_outputs(c, check.table);
    }
    return true;
  }
  const GraphPlace place = graph_place(c->graph);
  check.table = c->samples = samples_infer(c->arena, c->graph, slots, training, NULL);
  if (!training) {
    leave_out_outputs(&check);
    weigh_outputs(c, check.table);
    check.table = c->samples = samples_infer(c->arena, c->graph, slots, training, NULL);  // with their terms
  }
  bool good = (!training || has_batch(&check)) && check_effects(&check) && check_tensors(&check);
  if (good && training) {
    postpone(&check);
  }
  if (good) {
    combine_states(&check);
    share(&check);
  }
  forget_counts(c->graph);
  graph_return(c->graph, place);
  return good;
}
