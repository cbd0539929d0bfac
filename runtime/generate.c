// generate.c: one token at a time, from the scores at the last position.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "runtime/feed.h"

typedef struct {
  Session *session;
  const PlanInput *input;
  const PlanOutput *output;
  int64_t rows, window;  // rows of the batch, positions of the context window
  int sequence_axis, score_axis;
  int32_t vocabulary;
  int32_t *context;  // window tokens, the last `count` made so far
  int64_t count;
  char *raw;  // scores as they are on the device
  int64_t raw_bytes;
  double *scores;
  int32_t *order;
} Generator;

enum { BYTE_TOKENS = 256 };

// Which axes of the logits are positions and scores.
static bool output_axes(Generator *g, Error *error) {
  const PlanOutput *output = g->output;
  g->sequence_axis = g->score_axis = -1;
  for (int i = 0; i < output->axis_count; i++) {
    for (int a = 0; a < g->input->axis_count; a++) {
      bool same = strcmp(output->axis[i], g->input->axis[a]) == 0;
      if (same && strcmp(output->axis[i], "batch") != 0) {
        g->sequence_axis = i;
      }
    }
  }
  for (int i = 0; i < output->axis_count; i++) {
    bool fits = g->input->bound == 0 || output->size[i] == g->input->bound;
    if (i != g->sequence_axis && strcmp(output->axis[i], "batch") != 0 && fits) {
      g->score_axis = i;
    }
  }
  if (g->score_axis < 0) {
    return error_set(error, 1, "the output 'logits' has no axis of the size of the vocabulary, %lld",
                     (long long)g->input->bound);
  }
  return true;
}

bool generate_possible(const PlanSet *set) {
  Generator g = {0};
  Error error;
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    const PlanProgram *program = &plan->programs[PROGRAM_GENERATE];
    for (int i = 0; i < program->input_count; i++) {
      if (strcmp(program->inputs[i].name, "tokens") != 0 && strcmp(program->inputs[i].name, "step") != 0) {
        return false;
      }
    }
    g.input = g.input ? g.input : session_input(plan, PROGRAM_GENERATE, "tokens");
    g.output = g.output ? g.output : session_output(plan, PROGRAM_GENERATE, "logits");
  }
  return g.input && g.output && feed_shape(set, PROGRAM_GENERATE, &g.rows, &g.window) && output_axes(&g, &error);
}

static bool generator_open(Generator *g, Session *session, Error *error) {
  const Plan *plan = session->plan;
  *g = (Generator){.session = session,
                   .input = session_input(plan, PROGRAM_GENERATE, "tokens"),
                   .output = session_output(plan, PROGRAM_GENERATE, "logits")};
  if (!g->input || !feed_shape(session->set, PROGRAM_GENERATE, &g->rows, &g->window)) {
    return error_set(error, 1, "the generate program has no input 'tokens' with axes [batch, seq]");
  }
  if (!g->output) {
    return error_set(error, 1, "the model has no output 'logits'; write `output logits;` in its text");
  }
  if (!output_axes(g, error)) {
    return false;
  }
  if (!generate_possible(session->set)) {
    return error_set(error, 1, "the logits are computed from more inputs than 'tokens'; text alone cannot feed them");
  }
  int64_t size = element_type_bytes(g->output->type), vocabulary = g->output->size[g->score_axis];
  if (vocabulary > INT32_MAX || g->output->stride[g->score_axis] < 0) {
    return error_set(error, 1, "the output 'logits' has %lld scores at a stride of %lld, which cannot be read",
                     (long long)vocabulary, (long long)g->output->stride[g->score_axis]);
  }
  g->vocabulary = (int32_t)vocabulary;
  g->raw_bytes = ((vocabulary - 1) * g->output->stride[g->score_axis] + 1) * size;
  g->context = calloc((size_t)g->window, sizeof *g->context);
  g->raw = malloc((size_t)g->raw_bytes);
  g->scores = malloc(sizeof *g->scores * (size_t)vocabulary);
  g->order = malloc(sizeof *g->order * (size_t)vocabulary);
  return (g->context && g->raw && g->scores && g->order) || error_set(error, 3, "no memory to generate text");
}

static void generator_close(Generator *g) {
  free(g->context);
  free(g->raw);
  free(g->scores);
  free(g->order);
}

// The window slides when it is full: the oldest token is forgotten.
static void context_add(Generator *g, int32_t token) {
  if (g->count == g->window) {
    memmove(g->context, g->context + 1, sizeof *g->context * (size_t)(g->window - 1));
    g->count--;
  }
  g->context[g->count++] = token;
}

// Runs the model; scores of what follows the context are in g->scores.
static bool generator_score(Generator *g, Error *error) {
  Session *session = g->session;
  Place in = g->input->place, out = g->output->place;
  int64_t size = element_type_bytes(g->output->type);
  for (int64_t row = 0; row < g->rows; row++) {  // with several rows the first one counts
    int64_t bytes = g->window * (int64_t)sizeof *g->context;
    if (!session->backend->write(session->device, in.arena, in.offset + row * bytes, g->context, bytes, error)) {
      return false;
    }
  }
  int64_t position = g->sequence_axis >= 0 ? g->count - 1 : 0;
  int64_t stride = g->sequence_axis >= 0 ? g->output->stride[g->sequence_axis] : 0;
  if (!session_run(session, PROGRAM_GENERATE, 1, error) ||
      !session->backend->read(session->device, out.arena, out.offset + position * stride * size, g->raw, g->raw_bytes,
                              error)) {
    return false;
  }
  for (int32_t i = 0; i < g->vocabulary; i++) {
    g->scores[i] = element_get(g->output->type, g->raw + i * g->output->stride[g->score_axis] * size);
  }
  return true;
}

// A number in [0, 1) from (seed, position).
static double uniform(uint64_t seed, int64_t position) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)position * 0xd1b54a32d192ed03u + 0x8cb92ba72f3d8dd7u;
  for (int round = 0; round < 2; round++) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return (double)(x >> 11) * 0x1p-53;
}

int32_t generate_pick(const double *scores, int32_t count, const GenerateOptions *options, int64_t position,
                      int32_t *order) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; i++) {
    best = scores[i] > scores[best] ? i : best;
  }
  if (options->temperature <= 0) {
    return best;
  }
  int32_t keep = options->top_k > 0 && options->top_k < count ? (int32_t)options->top_k : count;
  for (int32_t i = 0; i < count; i++) {
    order[i] = i;
  }
  for (int32_t i = 0; i < keep && keep < count; i++) {  // the likeliest first; equal ones by number
    int32_t most = i;
    for (int32_t j = i + 1; j < count; j++) {
      bool above = scores[order[j]] > scores[order[most]];
      most = above || (scores[order[j]] == scores[order[most]] && order[j] < order[most]) ? j : most;
    }
    int32_t chosen = order[most];
    memmove(order + i + 1, order + i, sizeof *order * (size_t)(most - i));
    order[i] = chosen;
  }
  double total = 0;
  for (int32_t i = 0; i < keep; i++) {
    total += exp((scores[order[i]] - scores[best]) / options->temperature);
  }
  double wanted = uniform(options->seed, position) * total, sum = 0;
  for (int32_t i = 0; i < keep; i++) {
    sum += exp((scores[order[i]] - scores[best]) / options->temperature);
    if (sum > wanted) {
      return order[i];
    }
  }
  return best;
}

size_t generate_whole(const char *bytes, size_t length) {
  for (size_t back = 1; back <= 3 && back <= length; back++) {
    uint8_t lead = (uint8_t)bytes[length - back];
    size_t wants = lead >= 0xf0 && lead < 0xf8   ? 4
                   : lead >= 0xe0 && lead < 0xf0 ? 3
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                                                 : 0;
    if (wants > back) {
      return length - back;
    }
    if (lead < 0x80 || lead >= 0xc0) {
      break;
    }
  }
  return length;
}

static bool context_fill(Generator *g, const char *prompt) {
  const char *text = prompt && *prompt ? prompt : "\n";
  for (const char *at = text; *at; at++) {
    context_add(g, (uint8_t)*at);
  }
  return true;
}

static bool generator_run(Generator *g, const GenerateOptions *options, GenerateText text, void *context,
                          Error *error) {
  char waiting[8];
  size_t length = 0;
  int32_t kinds = g->vocabulary < BYTE_TOKENS ? g->vocabulary : BYTE_TOKENS;  // no text stands for other tokens
  context_fill(g, options->prompt);
  for (int64_t made = 0; made < options->tokens; made++) {
    if (!generator_score(g, error)) {
      return false;
    }
    for (int32_t i = 0; i < kinds; i++) {
      if (isnan(g->scores[i])) {
        return error_set(error, 1, "the model's score of token %d is not a number: the checkpoint is of no use", i);
      }
    }
    int32_t token = generate_pick(g->scores, kinds, options, made, g->order);
    context_add(g, token);
    waiting[length++] = (char)token;
    size_t whole = made + 1 == options->tokens || length >= 4 ? length : generate_whole(waiting, length);
    if (whole > 0 && !text(context, waiting, whole)) {
      return true;
    }
    length -= whole;
    memmove(waiting, waiting + whole, length);
  }
  return true;
}

bool generate_run(Session *session, const GenerateOptions *options, GenerateText text, void *context, Error *error) {
  Generator generator;
  bool done = generator_open(&generator, session, error) && generator_run(&generator, options, text, context, error);
  generator_close(&generator);
  return done;
}
