// explain_collectives.c: collectives and messages of a training step, those of all layers on one line; and their sums.
#include <ctype.h>
#include <string.h>

#include "base/units.h"
#include "compiler/report/explain_part.h"

typedef struct {
  const Traffic *first;
  const char *what;
  int count;     // of instructions, on all stages
  int stages;    // for which there are sums
  double *sent;  // by stage: bytes in one step
  int rule;      // in the list of rules; 0: none
} Line;

typedef struct {
  const Explain *explain;
  ARRAY(Line) lines;
  ARRAY(Span) rules;
} Report;

// layers.3.q -> layers.*.q
static const char *without_numbers(Arena *arena, const char *name) {
  char text[256];
  size_t length = 0;
  for (const char *at = name; *at && length + 2 < sizeof text;) {
    size_t digits = at == name || at[-1] == '.' ? strspn(at, "0123456789") : 0;
    if (digits && (at[digits] == '.' || at[digits] == '\0')) {
      text[length++] = '*';
      at += digits;
    } else {
      text[length++] = *at++;
    }
  }
  text[length] = '\0';
  return arena_format(arena, "%s", text);
}

static bool same_span(Span a, Span b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end;
}

static const char *what_of(Arena *arena, const Traffic *traffic) {
  const Instruction *instruction = traffic->instruction;
  const char *why = without_numbers(arena, instruction->why ? instruction->why : "");
  if (instruction->kind == INSTRUCTION_SEND) {
    return arena_format(arena, "to the %s stage", instruction->as.transfer.peer > traffic->stage ? "next" : "previous");
  }
  if (traffic->pack && traffic->phase >= PHASE_GRADIENTS) {
    return traffic->phase == PHASE_GRADIENTS ? "the gradients" : "the updated parameters";
  }
  if (traffic->pack) {
    return why;
  }
  const char *path = without_numbers(arena, traffic->path), *again = *path ? strstr(why, path) : NULL;
  if (again && again[strlen(path)] == '.') {  // dot layers.*.q.w.gradient, of layers.*.q
    why = arena_format(arena, "%.*s%s", (int)(again - why), why, again + strlen(path) + 1);
  }
  return *path ? arena_format(arena, "%s: %s", path, why) : why;
}

static bool alike(const Line *line, const Traffic *traffic, const char *what) {
  const Traffic *first = line->first;
  return first->phase == traffic->phase && strcmp(traffic_kind(first), traffic_kind(traffic)) == 0 &&
         first->mesh == traffic->mesh && first->payload == traffic->payload && first->calls == traffic->calls &&
         same_span(first->instruction->span, traffic->instruction->span) &&
         same_span(first->instruction->rule, traffic->instruction->rule) && strcmp(line->what, what) == 0;
}

static int rule_number(Report *report, Span rule) {
  if (rule.file < 0) {
    return 0;
  }
  int at = 0;
  while (at < report->rules.count && !same_span(report->rules.at[at], rule)) {
    at++;
  }
  if (at == report->rules.count) {
    array_push(report->explain->arena, &report->rules, rule);
  }
  return at + 1;
}

static void add(Report *report, const Traffic *traffic) {
  Arena *arena = report->explain->arena;
  const char *what = what_of(arena, traffic);
  int at = 0;
  while (at < report->lines.count && !alike(&report->lines.at[at], traffic, what)) {
    at++;
  }
  if (at == report->lines.count) {
    Line line = {.first = traffic, .what = what, .rule = rule_number(report, traffic->instruction->rule)};
    line.sent = ARENA_ARRAY(arena, double, report->explain->set->count);
    array_push(arena, &report->lines, line);
  }
  report->lines.at[at].count++;
  report->lines.at[at].sent[traffic->stage] += traffic->wire * traffic->calls;
}

static double largest(const double *numbers, int count) {
  double most = 0;
  for (int i = 0; i < count; i++) {
    most = numbers[i] > most ? numbers[i] : most;
  }
  return most;
}

static const char *group_text(const Explain *explain, const Traffic *traffic) {
  const char *mesh = explain_mesh(explain->arena, explain_first(explain), traffic->mesh);
  return traffic->instruction->kind == INSTRUCTION_SEND
             ? mesh
             : arena_format(explain->arena, "%s (%lld)", mesh, (long long)traffic->ranks);
}

// Without directories: the rules below the table say whose text it is.
static const char *short_line(const Explain *explain, Span span) {
  const char *line = explain_line(explain, span), *slash = strrchr(line, '/');
  return slash && strncmp(line, "std/", 4) != 0 ? slash + 1 : line;
}

static bool print_phase(const Report *report, TrafficPhase phase, Table *table) {
  const Explain *explain = report->explain;
  bool any = false;
  for (int i = 0; i < report->lines.count; i++) {
    const Line *line = &report->lines.at[i];
    const Traffic *first = line->first;
    if (first->phase != phase) {
      continue;
    }
    table_cell(table, any ? "" : traffic_phase_name(phase));
    any = true;
    table_format(table, first->calls > 1 ? "%d x %d" : "%d", line->count, first->calls);
    table_cell(table, traffic_kind(first));
    table_cell(table, group_text(explain, first));
    table_bytes(table, first->payload);
    table_bytes(table, first->wire);
    table_bytes(table, largest(line->sent, explain->set->count));
    table_cell(table, line->what);
    table_cell(table, short_line(explain, first->instruction->span));
    table_cell(table, line->rule ? arena_format(explain->arena, "[%d]", line->rule) : "");
  }
  return any;
}

static void print_rules(const Report *report, Buffer *out) {
  const Explain *explain = report->explain;
  for (int i = 0; i < report->rules.count; i++) {
    Span rule = report->rules.at[i];
    const Source *source = &explain->diag->sources.at[rule.file];
    buffer_format(out, "  [%d] %s: %.*s\n", i + 1, explain_line(explain, rule), (int)(rule.end - rule.begin),
                  source->text + rule.begin);
  }
}

void explain_collectives(const Explain *explain, const TrafficList *traffic, Buffer *out) {
  Report report = {.explain = explain};
  for (int i = 0; i < traffic->count; i++) {
    add(&report, &traffic->at[i]);
  }
  int slots = explain_first(explain)->programs[PROGRAM_TRAIN].slots;
  buffer_text(out, "\nwhat ranks send in a training step");
  if (slots > 1) {
    buffer_format(out, " of %d microbatches", slots);
  }
  buffer_text(out, explain->set->count > 1 ? "; the number is of all stages, the sum that of the busiest one\n" : "\n");
  Table table = table_make(explain->arena, "lrllrrrlll");
  const char *const header[] = {"",          "number",      "collective", "over", "value",
                                "sent each", "sent a step", "for",        "at",   "rule"};
  for (int i = 0; i < 10; i++) {
    table_cell(&table, header[i]);
  }
  bool any = false;
  for (int p = 0; p < PHASE_COUNT; p++) {
    any = print_phase(&report, (TrafficPhase)p, &table) || any;
  }
  if (!any) {
    buffer_text(out, "  nothing\n");
    return;
  }
  table_print(&table, 1, out);
  print_rules(&report, out);
}

// --- sums ---

static double stage_sum(const TrafficList *traffic, int stage) {
  double sum = 0;
  for (int i = 0; i < traffic->count; i++) {
    sum += traffic->at[i].stage == stage ? traffic->at[i].wire * traffic->at[i].calls : 0;
  }
  return sum;
}

static void sum_cell(const TrafficList *traffic, int stage, uint32_t mesh, int phase, Table *table) {
  double bytes = 0;
  int count = 0;
  for (int i = 0; i < traffic->count; i++) {
    const Traffic *at = &traffic->at[i];
    if (at->stage == stage && at->mesh == mesh && (phase < 0 || (int)at->phase == phase)) {
      bytes += at->wire * at->calls;
      count += at->calls;
    }
  }
  char number[UNITS_MAX];
  table_cell(table, count ? arena_format(table->arena, "%s in %d", units_bytes(number, bytes), count) : "");
}

// The bytes of the parameters of a stage, as operations use them on one rank.
static double parameter_bytes(const Plan *plan) {
  double sum = 0;
  for (int i = 0; i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    double bytes = (double)element_type_bytes(state->type);
    for (int a = 0; a < state->axis_count; a++) {
      bytes *= (double)(state->cut[a].count ? state->cut[a].local : state->size[a]);
    }
    sum += state->role == STATE_PARAMETER ? bytes : 0;
  }
  return sum;
}

// How often a step sends the bytes of the parameters over these mesh axes, as is known of data parallelism and ZeRO
// (Rajbhandari et al. 2020), gathers being made twice in every microbatch, where they are not kept, and sums, where
// they are stored in pieces, once.
static int known_times(const Explain *explain, int stage, uint32_t mesh, const char **name) {
  const Plan *plan = explain->set->plans[stage];
  const ViewStage *view = &explain->view->stages.at[stage];
  int slots = plan->programs[PROGRAM_TRAIN].slots;
  bool parameter = false, gradient = false, state = false;
  uint32_t kept = 0;
  for (int i = 0; i < view->tensors.count; i++) {
    gradient = gradient || view->tensors.at[i].gradient & mesh;
    kept |= view->tensors.at[i].kept;
  }
  for (int i = 0; i < plan->state_count; i++) {
    for (int j = 0; j < plan->states[i].flat_count; j++) {
      bool here = mesh >> plan->states[i].flat_mesh[j] & 1;
      bool again = here && !(kept >> plan->states[i].flat_mesh[j] & 1);
      parameter = parameter || (again && plan->states[i].role == STATE_PARAMETER);
      state = state || here;
    }
  }
  *name = parameter ? "ZeRO-3" : gradient ? "ZeRO-2" : state ? "ZeRO-1" : "data parallelism";
  return (parameter ? 2 * slots : 1) + (gradient ? slots : 1);
}

static void compare_parameters(const Explain *explain, const TrafficList *traffic, int stage, uint32_t mesh,
                               Buffer *out) {
  Arena *arena = explain->arena;
  double value[COLLECTIVE_KIND_COUNT] = {0}, sum = 0, parameters = parameter_bytes(explain->set->plans[stage]);
  for (int i = 0; i < traffic->count; i++) {
    const Traffic *at = &traffic->at[i];
    if (at->stage == stage && at->mesh == mesh && at->pack) {
      int kind = (int)at->instruction->as.collective.kind;
      double times = (kind == COLLECTIVE_ALL_REDUCE ? 2 : 1) * at->payload * at->calls / parameters;
      value[kind] += times;
      sum += times;
    }
  }
  if (sum < 0.05) {  // of a few small ones
    return;
  }
  const char *parts = "", *name;
  for (int k = 0; k < COLLECTIVE_KIND_COUNT; k++) {
    if (value[k] > 0) {
      const char *kind = collective_kind_name((CollectiveKind)k);
      parts = arena_format(arena, "%s%s%s %.2f", parts, *parts ? " + " : "", kind, value[k]);
    }
  }
  char number[UNITS_MAX];
  int known = known_times(explain, stage, mesh, &name);
  buffer_format(out, "  parameters and gradients over %s: %.2f x (n - 1) / n x their %s: %s;\n    known for %s",
                explain_mesh(arena, explain_first(explain), mesh), sum, units_bytes(number, parameters), parts, name);
  int slots = explain_first(explain)->programs[PROGRAM_TRAIN].slots;
  if (slots > 1) {
    buffer_format(out, " with %d microbatches", slots);
  }
  buffer_format(out, ": %d\n", known);
}

void explain_totals(const Explain *explain, const TrafficList *traffic, Buffer *out) {
  int stage = 0, count = explain->set->count;
  for (int s = 1; s < count; s++) {
    stage = stage_sum(traffic, s) > stage_sum(traffic, stage) ? s : stage;
  }
  buffer_format(out, "\nsent by one rank in a step, collectives as rings");
  if (count > 1) {
    buffer_format(out, ": stage %d, which sends most", stage);
  }
  buffer_text(out, "\n");
  Table table = table_make(explain->arena, "lrrrrr");
  const char *const header[] = {"over", "forward", "backward", "gradients", "update", "together"};
  for (int i = 0; i < 6; i++) {
    table_cell(&table, header[i]);
  }
  ARRAY(uint32_t) groups = {0};
  for (int i = 0; i < traffic->count; i++) {
    bool known = traffic->at[i].stage != stage;
    for (int j = 0; j < groups.count; j++) {
      known = known || groups.at[j] == traffic->at[i].mesh;
    }
    if (!known) {
      uint32_t mesh = traffic->at[i].mesh;
      array_push(explain->arena, &groups, mesh);
    }
  }
  for (int i = 0; i < groups.count; i++) {
    table_cell(&table, explain_mesh(explain->arena, explain_first(explain), groups.at[i]));
    for (int p = 0; p <= PHASE_COUNT; p++) {
      sum_cell(traffic, stage, groups.at[i], p < PHASE_COUNT ? p : -1, &table);
    }
  }
  table_print(&table, 1, out);
  for (int i = 0; i < groups.count; i++) {
    compare_parameters(explain, traffic, stage, groups.at[i], out);
  }
}
