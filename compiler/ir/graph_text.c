// graph_text.c: printing graphs.
#include "compiler/ir/graph_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[ROLE_COUNT] = {
    [ROLE_ACTIVATION] = "activation",
    [ROLE_INPUT] = "input",
    [ROLE_PARAMETER] = "parameter",
    [ROLE_STATE] = "state",
    [ROLE_OPTIMIZER_STATE] = "optimizer_state",
    [ROLE_COPY] = "copy",
    [ROLE_CACHE] = "cache",
    [ROLE_GRADIENT] = "gradient",
    [ROLE_UPDATE] = "update",
};

const char *role_name(Role role) {
  return role_names[role];
}

bool role_of(const char *text, Role *role) {
  for (int i = 0; i < ROLE_COUNT; i++) {
    if (strcmp(role_names[i], text) == 0) {
      *role = (Role)i;
      return true;
    }
  }
  return false;
}

typedef struct {
  const Graph *graph;
  Buffer *out;
  int32_t *number;  // of each value in the text, -1: does not appear; NULL: values are printed by id
  bool *entered;    // regions that were walked already; NULL: regions are not printed
  int32_t next;
  int depth;  // of indentation
} Printer;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_identifier(const char *text) {
  if (!is_letter(text[0])) {
    return false;
  }
  for (const char *c = text; *c; c++) {
    if (!is_letter(*c) && !(*c >= '0' && *c <= '9') && *c != '.') {
      return false;
    }
  }
  return true;
}

static void print_string(Buffer *out, const char *text) {
  if (!text) {
    buffer_text(out, "none");
    return;
  }
  buffer_text(out, "\"");
  for (const char *c = text; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte == '"' || byte == '\\') {
      buffer_format(out, "\\%c", byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      buffer_format(out, "\\x%02x", byte);
    } else {
      buffer_bytes(out, c, 1);
    }
  }
  buffer_text(out, "\"");
}

static void print_name(Buffer *out, const char *name) {
  if (name && is_identifier(name)) {
    buffer_text(out, name);
  } else {
    print_string(out, name ? name : "");
  }
}

static void print_real(Buffer *out, double number) {
  if (isnan(number) || isinf(number)) {
    buffer_text(out, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
    return;
  }
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) {
      break;
    }
  }
  buffer_text(out, text);
}

static bool is_zero(double number) {
  return number == 0 && !signbit(number);
}

static void print_axis(const Printer *printer, AxisId axis) {
  if (axis < 0 || axis >= printer->graph->axes.count) {
    buffer_format(printer->out, "?%d", axis);
  } else {
    print_name(printer->out, printer->graph->axes.at[axis].name);
  }
}

static void print_axes(const Printer *printer, const Shape *shape, int from, int to) {
  for (int i = from; i < to && i < SHAPE_MAX_AXES; i++) {
    buffer_text(printer->out, i > from ? ", " : "");
    print_axis(printer, shape->axis[i]);
  }
}

static void print_type(const Printer *printer, ElementType type, AxisId bound) {
  buffer_text(printer->out, (unsigned)type < ELEMENT_TYPE_COUNT ? element_type_name(type) : "?");
  if (bound >= 0) {
    buffer_text(printer->out, "(");
    print_axis(printer, bound);
    buffer_text(printer->out, ")");
  }
}

static void print_span(Buffer *out, Span span) {
  buffer_format(out, "#%d:%u-%u", span.file, span.begin, span.end);
}

static bool span_equal(Span a, Span b) {
  return (a.file < 0 && b.file < 0) || (a.file == b.file && a.begin == b.begin && a.end == b.end);
}

static void print_role(Buffer *out, Role role) {
  buffer_format(out, "%s", (unsigned)role < ROLE_COUNT ? role_name(role) : "?");
}

static void print_value(const Printer *printer, ValueId value) {
  if (value < 0 || value >= printer->graph->values.count) {
    buffer_format(printer->out, "%%?%d", value);
  } else if (!printer->number) {
    buffer_format(printer->out, "%%%d", value);
  } else if (printer->number[value] < 0) {
    buffer_format(printer->out, "%%?%d", value);
  } else {
    buffer_format(printer->out, "%%%d", printer->number[value]);
  }
}

static void print_values(const Printer *printer, const ValueId *values, int count) {
  for (int i = 0; i < count; i++) {
    buffer_text(printer->out, i ? ", " : "");
    print_value(printer, values[i]);
  }
}

static void print_sharding(const Printer *printer, const Sharding *sharding) {
  Buffer *out = printer->out;
  buffer_text(out, " {");
  for (int i = 0; i < sharding->entry_count; i++) {
    const ShardEntry *entry = &sharding->entries[i];
    buffer_text(out, i ? ", " : "");
    print_axis(printer, entry->axis);
    buffer_text(out, ":");
    print_name(out, entry->mesh_axis);
    buffer_text(out, entry->zigzag ? " zigzag" : "");
    if (entry->padding != 0) {
      buffer_format(out, " pad %" PRId64, entry->padding);
    }
  }
  for (int i = 0; i < sharding->partial_count; i++) {
    buffer_text(out, i ? ", " : sharding->entry_count ? " | partial " : "| partial ");
    print_name(out, sharding->partial[i]);
  }
  buffer_text(out, "}");
}

// The type, shape and attributes of a value; `name` and `span` are what the text stands for when nothing is written.
static void print_result(const Printer *printer, ValueId id, Name name, Span span) {
  Buffer *out = printer->out;
  if (id < 0 || id >= printer->graph->values.count) {
    buffer_text(out, "?");
    return;
  }
  const Value *value = graph_value(printer->graph, id);
  print_type(printer, value->type, value->bound);
  if (value->shape.count > 0) {
    buffer_text(out, "[");
    print_axes(printer, &value->shape, 0, value->shape.count);
    buffer_text(out, "]");
  }
  if (value->name != name) {
    buffer_text(out, " ");
    print_string(out, value->name);
  }
  if (value->label) {
    buffer_text(out, " @");
    print_name(out, value->label);
  }
  if (value->role != ROLE_ACTIVATION) {
    buffer_text(out, " ");
    print_role(out, value->role);
  }
  if (value->stage != 0) {
    buffer_format(out, " stage %d", value->stage);
  }
  if (value->offload != 0) {
    buffer_format(out, " offload %d", value->offload - 1);
  }
  if (value->sharding) {
    print_sharding(printer, value->sharding);
  }
  if (!span_equal(value->span, span)) {
    buffer_text(out, " at ");
    value->span.file < 0 ? buffer_text(out, "none") : print_span(out, value->span);
  }
}

// What stands behind the op and not among the attributes: a number that the node is.
static int figures_of(const Node *node) {
  return (unsigned)node->op < OP_COUNT ? op_needed(node->op) & ATTRIBUTE_FIGURES : 0;
}

// All that is set, even what the op does not use: of a graph that is wrong as well.
static void print_attributes(const Printer *printer, const Node *node) {
  Buffer *out = printer->out;
  const int figures = figures_of(node);
  if (node->axes.count > 0) {
    buffer_text(out, " over [");
    print_axes(printer, &node->axes, 0, node->axes.count);
    buffer_text(out, "]");
  }
  if (node->axis >= 0) {
    buffer_text(out, " along ");
    print_axis(printer, node->axis);
  }
  if (node->axis2 >= 0) {
    buffer_text(out, " to ");
    print_axis(printer, node->axis2);
  }
  if (node->integer != 0 && !(figures & ATTRIBUTE_INTEGER)) {
    buffer_format(out, " integer %" PRId64, node->integer);
  }
  if (!is_zero(node->number) && !(figures & ATTRIBUTE_NUMBER)) {
    buffer_text(out, " number ");
    print_real(out, node->number);
  }
}

// The place in the source, as a comment.
static void print_place(const Printer *printer, Span span) {
  const Diag *diag = printer->graph->diag;
  if (printer->number && diag && span.file >= 0 && span.file < diag->sources.count &&
      span.begin <= diag->sources.at[span.file].length) {
    int line = 0, column = 0;
    diag_position(diag, span, &line, &column);
    buffer_text(printer->out, "  // ");
    for (const char *c = diag->sources.at[span.file].path; *c; c++) {
      buffer_bytes(printer->out, (unsigned char)*c < 0x20 ? "?" : c, 1);
    }
    buffer_format(printer->out, ":%d", line);
  }
}

static void print_region(Printer *printer, RegionId region);

static void print_node_region(Printer *printer, RegionId region) {
  bool known = region < printer->graph->regions.count && printer->entered && !printer->entered[region];
  if (!known) {
    buffer_text(printer->out, " { ... }");
    return;
  }
  printer->entered[region] = true;
  print_region(printer, region);
}

static void print_node(Printer *printer, NodeId id) {
  Buffer *out = printer->out;
  const Node *node = graph_node(printer->graph, id);
  for (int i = 0; i < node->result_count; i++) {
    buffer_text(out, i ? ", " : "");
    print_value(printer, node->first_result + i);
  }
  buffer_format(out, "%s%s", node->result_count ? " = " : "", (unsigned)node->op < OP_COUNT ? op_name(node->op) : "?");
  if (node->text) {
    buffer_text(out, " ");
    print_string(out, node->text);
  }
  if (figures_of(node) & ATTRIBUTE_NUMBER) {
    buffer_text(out, " ");
    print_real(out, node->number);
  } else if (figures_of(node) & ATTRIBUTE_INTEGER) {
    buffer_format(out, " %" PRId64, node->integer);
  }
  if (node->operand_count > 0) {
    buffer_text(out, "(");
    print_values(printer, node->operands, node->operand_count);
    buffer_text(out, ")");
  }
  print_attributes(printer, node);
  if (node->region >= 0) {
    print_node_region(printer, node->region);
  }
  for (int i = 0; i < node->result_count; i++) {
    buffer_text(out, i ? ", " : " : ");
    Name name = (unsigned)node->op < OP_COUNT && op_leaf(node->op) ? node->text : NULL;
    print_result(printer, node->first_result + i, name, node->span);
  }
  if (node->scope != 0) {
    buffer_format(out, " scope %d", node->scope);
  }
  buffer_format(out, "%s%s%s", node->recomputed ? " recomputed" : "", node->apart ? " apart" : "",
                node->backward ? " backward" : "");
  if (node->span.file >= 0) {
    buffer_text(out, " ");
    print_span(out, node->span);
    print_place(printer, node->span);
  }
}

static void print_indent(const Printer *printer) {
  buffer_text(printer->out, "\n");
  buffer_repeat(printer->out, ' ', 2 * printer->depth);
}

static void print_body(Printer *printer, const Region *region) {
  for (int i = 0; i < region->nodes.count; i++) {
    print_indent(printer);
    NodeId node = region->nodes.at[i];
    if (node < 0 || node >= printer->graph->nodes.count) {
      buffer_format(printer->out, "?%d", node);
    } else {
      print_node(printer, node);
    }
  }
  if (region->results.count > 0) {
    print_indent(printer);
    buffer_text(printer->out, "return ");
    print_values(printer, region->results.at, region->results.count);
  }
}

static void print_region(Printer *printer, RegionId id) {
  const Region *region = &printer->graph->regions.at[id];
  buffer_text(printer->out, " {");
  printer->depth++;
  if (region->parameters.count > 0) {
    print_indent(printer);
    buffer_text(printer->out, "(");
    for (int i = 0; i < region->parameters.count; i++) {
      buffer_text(printer->out, i ? ", " : "");
      print_value(printer, region->parameters.at[i]);
      buffer_text(printer->out, " : ");
      print_result(printer, region->parameters.at[i], NULL, SPAN_NONE);
    }
    buffer_text(printer->out, ")");
  }
  print_body(printer, region);
  printer->depth--;
  print_indent(printer);
  buffer_text(printer->out, "}");
}

static void number_value(Printer *printer, ValueId value) {
  if (value >= 0 && value < printer->graph->values.count && printer->number[value] < 0) {
    printer->number[value] = printer->next++;
  }
}

static void number_region(Printer *printer, RegionId id) {
  const Graph *graph = printer->graph;
  if (id < 0 || id >= graph->regions.count || printer->entered[id]) {
    return;
  }
  printer->entered[id] = true;
  const Region *region = &graph->regions.at[id];
  for (int i = 0; i < region->parameters.count; i++) {
    number_value(printer, region->parameters.at[i]);
  }
  for (int i = 0; i < region->nodes.count; i++) {
    NodeId node = region->nodes.at[i];
    if (node >= 0 && node < graph->nodes.count) {
      for (int j = 0; j < graph_node(graph, node)->result_count; j++) {
        number_value(printer, graph_node(graph, node)->first_result + j);
      }
      number_region(printer, graph_node(graph, node)->region);
    }
  }
}

static void print_scopes(const Printer *printer) {
  const Graph *graph = printer->graph;
  for (int i = 0; i < graph->scopes.count; i++) {
    const Scope *scope = &graph->scopes.at[i];
    if (i == 0 && scope->parent == -1 && scope->function == graph->name && scope->path && !scope->path[0] &&
        scope->index == -1) {
      continue;  // what graph_create makes
    }
    print_indent(printer);
    buffer_format(printer->out, "scope %d = %d ", i, scope->parent);
    print_string(printer->out, scope->function);
    buffer_text(printer->out, " ");
    print_string(printer->out, scope->path);
    if (scope->index != -1) {
      buffer_format(printer->out, " index %" PRId64, scope->index);
    }
    if (scope->variable) {
      buffer_text(printer->out, " variable ");
      print_string(printer->out, scope->variable);
    }
    buffer_text(printer->out, ";");
  }
}

static void print_dims(const Printer *printer, const Persistent *tensor) {
  const Shape *shape = &tensor->shape;
  int stack = tensor->stack_count, split = tensor->in_count < 0 ? stack : stack + tensor->in_count;
  if (shape->count == 0 && tensor->in_count < 0) {
    return;
  }
  buffer_text(printer->out, "[");
  print_axes(printer, shape, 0, stack);
  buffer_text(printer->out, stack > 0 ? " | " : "");
  print_axes(printer, shape, stack, split);
  buffer_text(printer->out, tensor->in_count < 0 ? "" : split < shape->count ? "; " : ";");
  print_axes(printer, shape, split, shape->count);
  buffer_text(printer->out, "]");
}

static void print_persistent(const Printer *printer, const Persistent *tensor) {
  Buffer *out = printer->out;
  print_indent(printer);
  print_role(out, tensor->role);
  buffer_text(out, " ");
  print_string(out, tensor->name);
  buffer_text(out, " : ");
  print_type(printer, tensor->type, -1);
  print_dims(printer, tensor);
  if (tensor->group >= 0) {
    buffer_format(out, " group %d", tensor->group);
  }
  if (tensor->scope != 0) {
    buffer_format(out, " scope %d", tensor->scope);
  }
  if (tensor->like) {
    buffer_text(out, " like ");
    print_string(out, tensor->like);
  }
  if (!is_zero(tensor->initial)) {
    buffer_text(out, " initial ");
    print_real(out, tensor->initial);
  }
  if (tensor->value >= 0 && tensor->value < printer->graph->values.count && printer->number[tensor->value] >= 0) {
    buffer_text(out, " ");
    print_value(printer, tensor->value);
  }
  if (tensor->span.file >= 0) {
    buffer_text(out, " ");
    print_span(out, tensor->span);
  }
  buffer_text(out, ";");
  print_place(printer, tensor->span);
}

void graph_print(const Graph *graph, Buffer *out) {
  Printer printer = {.graph = graph, .out = out, .depth = 1};
  printer.number = malloc(sizeof *printer.number * (size_t)(graph->values.count + 1));
  printer.entered = calloc((size_t)graph->regions.count + 1, sizeof *printer.entered);
  if (!printer.number || !printer.entered) {
    out->failed = true;
    goto done;
  }
  for (int i = 0; i < graph->values.count; i++) {
    printer.number[i] = -1;
  }
  number_region(&printer, 0);
  memset(printer.entered, 0, sizeof *printer.entered * (size_t)graph->regions.count);
  printer.entered[0] = true;
  buffer_text(out, "graph ");
  print_name(out, graph->name);
  buffer_format(out, " slots %d {", graph->slots);
  for (int i = 0; i < graph->axes.count; i++) {
    const Axis *axis = &graph->axes.at[i];
    print_indent(&printer);
    buffer_text(out, "axis ");
    print_name(out, axis->name);
    buffer_format(out, " = %" PRId64, axis->size);
    if (axis->global != axis->size) {
      buffer_format(out, " global %" PRId64, axis->global);
    }
    buffer_text(out, ";");
  }
  print_scopes(&printer);
  for (int i = 0; i < graph->persistent.count; i++) {
    print_persistent(&printer, &graph->persistent.at[i]);
  }
  print_body(&printer, &graph->regions.at[0]);
  buffer_text(out, "\n}\n");
done:
  free(printer.number);
  free(printer.entered);
}

void graph_print_node(const Graph *graph, NodeId node, Buffer *out) {
  Printer printer = {.graph = graph, .out = out};
  if (node >= 0 && node < graph->nodes.count) {
    print_node(&printer, node);
  }
}
