// generate.c: one token at a time, from the scores at the last position.
//
// A plan that was compiled for it has programs that go on from keys and values which they keep (passes/decode.c): the
// prompt in blocks, then a token a run. Otherwise, and once the window slides, every token takes the whole context.
#include "runtime/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/plan/numbers.h"
#include "runtime/element.h"
#include "runtime/feed.h"
#include "runtime/generate_chat.h"

typedef struct {  // one of the programs that score what follows some tokens
  ProgramKind kind;
  const PlanInput *tokens;
  const PlanInput *position;  // of the first of its tokens; NULL: it begins with the context
  const PlanInput *last;      // whose scores are wanted; NULL: it has those of all
  const PlanOutput *logits;
  int64_t rows, count;  // rows of the batch, positions at once
  int sequence_axis, score_axis;
} Scorer;

typedef struct {
  Session *session;
  Scorer whole;
  Scorer block, one;  // go on from keys and values that are kept
  int32_t vocabulary;
  int32_t *context;  // whole.count tokens, the last `count` made so far
  int64_t count;
  int64_t known;  // tokens of the context whose keys and values are kept
  bool slid;      // they are no longer those of the context
  char *raw;      // scores as they are on the device
  double *scores;
  int32_t *order;
} Generator;

enum { BYTE_TOKENS = 256 };

static bool has_axis(int count, const char *const *axes, const char *name) {
  bool found = false;
  for (int i = 0; i < count; i++) {
    found |= strcmp(axes[i], name) == 0;
  }
  return found;
}

// The axes of logits as the text has them, those of the tokens first; `last` has picked one of their positions.
static void axes_text(char *text, size_t size, const Scorer *s, const char *picked) {
  const PlanInput *tokens = s->tokens;
  const PlanOutput *logits = s->logits;
  size_t used = 0;
  for (int i = 0; i < tokens->axis_count + logits->axis_count && used < size; i++) {
    const bool first = i < tokens->axis_count;
    const char *name = first ? tokens->axis[i] : logits->axis[i - tokens->axis_count];
    const bool has = first ? name == picked || has_axis(logits->axis_count, logits->axis, name)
                           : !has_axis(tokens->axis_count, tokens->axis, name);
    used += has ? (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name) : 0;
  }
}

// Which axes of the logits are positions and scores. They have those of the tokens and one more.
static bool output_axes(Scorer *s, Error *error) {
  const PlanOutput *output = s->logits;
  const PlanInput *tokens = s->tokens;
  int row, position, more = 0;
  if (!feed_axes(tokens, &row, &position)) {
    return feed_misses(error);
  }
  bool rows = row < 0;
  s->sequence_axis = s->score_axis = -1;
  for (int i = 0; i < output->axis_count; i++) {
    if (strcmp(output->axis[i], tokens->axis[position]) == 0) {
      s->sequence_axis = i;
    } else if (row >= 0 && strcmp(output->axis[i], tokens->axis[row]) == 0) {
      rows = true;
    } else {
      s->score_axis = i;
      more++;
    }
  }
  if (!rows || more != 1 || (s->sequence_axis < 0) != (s->last != NULL)) {
    char axes[512] = "";
    axes_text(axes, sizeof axes, s, s->last ? tokens->axis[position] : NULL);
    return error_set(error, 1,
                     "its model assigns no `logits`, with the axes of `tokens` and one more, which text is made from: "
                     "those that it assigns have the axes [%s]",
                     axes);
  }
  if (tokens->bound && output->size[s->score_axis] != tokens->bound) {
    return error_set(error, 1, "the output 'logits' has no axis of the size of the vocabulary, %lld",
                     (long long)tokens->bound);
  }
  return true;
}

bool generate_possible(const PlanSet *set) {
  Scorer s = {0};
  Error error;
  for (int i = 0; i < set->count; i++) {
    const Plan *plan = set->plans[i];
    const PlanProgram *program = &plan->programs[PROGRAM_GENERATE];
    for (int j = 0; j < program->input_count; j++) {
      const char *name = program->inputs[j].name;
      if (strcmp(name, "tokens") != 0 && !input_is_number(name) && strcmp(name, "last") != 0) {
        return false;
      }
    }
    s.tokens = s.tokens ? s.tokens : session_input(plan, PROGRAM_GENERATE, "tokens");
    s.last = s.last ? s.last : session_input(plan, PROGRAM_GENERATE, "last");
    s.logits = s.logits ? s.logits : session_output(plan, PROGRAM_GENERATE, "logits");
  }
  return s.tokens && s.logits && feed_shape(set, PROGRAM_GENERATE, &s.rows, &s.count) && output_axes(&s, &error);
}

const char *generate_words(const PlanSet *set) {
  const PlanRun *run = &set->plans[0]->run;
  if (!generate_possible(set) || (run->tokenizer && strcmp(run->tokenizer, TOKENIZER_NONE) == 0)) {
    return NULL;
  }
  return chat_prompt_fits(run) ? " --chat --prompt TEXT" : " --prompt TEXT";
}

static bool scorer_open(Scorer *s, const Session *session, ProgramKind kind, Error *error) {
  const Plan *plan = session->plan;
  *s = (Scorer){.kind = kind,
                .tokens = session_input(plan, kind, "tokens"),
                .position = session_input(plan, kind, "position"),
                .last = session_input(plan, kind, "last"),
                .logits = session_output(plan, kind, "logits")};
  if (!s->tokens || !feed_shape(session->set, kind, &s->rows, &s->count)) {
    return error_set(error, 1, "the %s program has no input 'tokens' with axes [batch, seq]", program_kind_name(kind));
  }
  if (!s->logits) {
    return error_set(error, 1, "the model has no output 'logits', which text is made from: it assigns no `logits`");
  }
  if (!output_axes(s, error)) {
    return false;
  }
  const PlanOutput *logits = s->logits;
  const int64_t vocabulary = logits->size[s->score_axis], stride = logits->stride[s->score_axis];
  return (vocabulary <= INT32_MAX && stride >= 0) ||
         error_set(error, 1, "the output 'logits' has %lld scores at a stride of %lld, which cannot be read",
                   (long long)vocabulary, (long long)stride);
}

static int64_t scorer_bytes(const Scorer *s) {
  const PlanOutput *logits = s->logits;
  return ((logits->size[s->score_axis] - 1) * logits->stride[s->score_axis] + 1) * element_type_bytes(logits->type);
}

static bool generator_open(Generator *g, Session *session, bool whole, Error *error) {
  const bool keeps = !whole && session_has(session, PROGRAM_PREFILL) && session_has(session, PROGRAM_DECODE);
  *g = (Generator){.session = session};
  if (!scorer_open(&g->whole, session, PROGRAM_GENERATE, error) ||
      (keeps && (!scorer_open(&g->block, session, PROGRAM_PREFILL, error) ||
                 !scorer_open(&g->one, session, PROGRAM_DECODE, error)))) {
    return false;
  }
  if (!generate_possible(session->set)) {
    return error_set(error, 1, "the logits are computed from more inputs than 'tokens'; text alone cannot feed them");
  }
  g->slid = !keeps;
  g->vocabulary = (int32_t)g->whole.logits->size[g->whole.score_axis];
  int64_t bytes = scorer_bytes(&g->whole);
  for (int i = 0; keeps && i < 2; i++) {
    const int64_t other = scorer_bytes(i ? &g->block : &g->one);
    bytes = other > bytes ? other : bytes;
  }
  g->context = calloc((size_t)g->whole.count, sizeof *g->context);
  g->raw = malloc((size_t)bytes);
  g->scores = malloc(sizeof *g->scores * (size_t)g->vocabulary);
  g->order = malloc(sizeof *g->order * (size_t)g->vocabulary);
  return (g->context && g->raw && g->scores && g->order) || error_set(error, 3, "no memory to generate text");
}

static void generator_close(Generator *g) {
  free(g->context);
  free(g->raw);
  free(g->scores);
  free(g->order);
}

// The window slides when it is full: the oldest token is forgotten. What was kept is then of no use: every other token
// has another position.
static void context_add(Generator *g, int32_t token) {
  if (g->count == g->whole.count) {
    memmove(g->context, g->context + 1, sizeof *g->context * (size_t)(g->whole.count - 1));
    g->count--;
    g->slid = true;
  }
  g->context[g->count++] = token;
}

static bool write_number(Session *session, const PlanInput *input, int64_t number, Error *error) {
  const int32_t value = (int32_t)number;
  return !input ||
         session->backend->write(session->device, input->place.arena, input->place.offset, &value, sizeof value, error);
}

// Runs a program on `count` tokens of the context from `first` on.
static bool scorer_run(const Scorer *s, Generator *g, int64_t first, int64_t count, Error *error) {
  Session *session = g->session;
  const Place in = s->tokens->place;
  int32_t padding[PLAN_BLOCK] = {0};
  const int32_t *tokens = g->context + first;
  if (first + s->count > g->whole.count) {  // the block ends behind the context
    memcpy(padding, tokens, sizeof *padding * (size_t)count);
    tokens = padding;
  }
  for (int64_t row = 0; row < s->rows; row++) {  // with several rows the first one counts
    const int64_t bytes = s->count * (int64_t)sizeof *tokens;
    if (!session->backend->write(session->device, in.arena, in.offset + row * bytes, tokens, bytes, error)) {
      return false;
    }
  }
  return write_number(session, s->position, first, error) && write_number(session, s->last, count - 1, error) &&
         session_score(session, s->kind, first + count, error);
}

// Scores of what follows the `count`-th token of those that the program was run on are in g->scores.
static bool scorer_read(const Scorer *s, Generator *g, int64_t count, Error *error) {
  const PlanOutput *logits = s->logits;
  const int64_t size = element_type_bytes(logits->type), apart = logits->stride[s->score_axis] * size;
  const int64_t skip = s->sequence_axis >= 0 ? (count - 1) * logits->stride[s->sequence_axis] * size : 0;
  Session *session = g->session;
  if (!session->backend->read(session->device, logits->place.arena, logits->place.offset + skip, g->raw,
                              scorer_bytes(s), error)) {
    return false;
  }
  for (int32_t i = 0; i < g->vocabulary; i++) {
    g->scores[i] = element_get(logits->type, g->raw + i * apart);
  }
  return true;
}

// Scores of what follows the context are in g->scores.
static bool generator_score(Generator *g, Error *error) {
  if (g->slid) {
    return scorer_run(&g->whole, g, 0, g->count, error) && scorer_read(&g->whole, g, g->count, error);
  }
  for (;;) {
    const int64_t left = g->count - g->known;
    const Scorer *s = left > 1 ? &g->block : &g->one;
    const int64_t count = left < s->count ? left : s->count;
    if (!scorer_run(s, g, g->known, count, error)) {
      return false;
    }
    g->known += count;
    if (g->known == g->count) {
      return scorer_read(s, g, count, error);
    }
  }
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

// The `keep` likeliest come first, the likeliest of all ahead; equal ones by number.
static void order_likeliest(const double *scores, int32_t count, int32_t keep, int32_t *order) {
  for (int32_t i = 0; i < keep; i++) {
    int32_t most = i;
    for (int32_t j = i + 1; j < count; j++) {
      bool above = scores[order[j]] > scores[order[most]];
      most = above || (scores[order[j]] == scores[order[most]] && order[j] < order[most]) ? j : most;
    }
    int32_t chosen = order[most];
    memmove(order + i + 1, order + i, sizeof *order * (size_t)(most - i));
    order[i] = chosen;
  }
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
  const bool part = options->top_p > 0 && options->top_p < 1;
  int32_t keep = options->top_k > 0 && options->top_k < count ? (int32_t)options->top_k : count;
  for (int32_t i = 0; i < count; i++) {
    order[i] = i;
  }
  if (keep < count || part) {
    order_likeliest(scores, count, keep, order);
  }
  double total = 0;
  for (int32_t i = 0; i < keep; i++) {
    total += exp((scores[order[i]] - scores[best]) / options->temperature);
  }
  double most = part ? options->top_p * total : INFINITY, sum = 0;
  for (int32_t i = 0; i < keep && part; i++) {  // the fewest that have so much of it
    sum += exp((scores[order[i]] - scores[best]) / options->temperature);
    keep = sum >= most ? i + 1 : keep;
    total = sum >= most ? sum : total;
  }
  double wanted = uniform(options->seed, position) * total;
  sum = 0;
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

static bool context_encode(Generator *g, const Tokenizer *tokenizer, const char *text, Error *error) {
  Encoder *encoder = NULL;
  TokenList tokens = {0};
  size_t used;
  const bool done = encoder_create(tokenizer, &encoder, error) &&
                    encoder_add(encoder, text, strlen(text), false, &used, &tokens, error);
  for (int64_t i = 0; done && i < tokens.count; i++) {
    if (tokens.at[i] >= g->vocabulary) {
      tokens_free(&tokens);
      encoder_destroy(encoder);
      return error_set(error, 1, "%s makes tokens up to %d, but the model knows %d", tokenizer_path(tokenizer),
                       tokenizer_kinds(tokenizer) - 1, g->vocabulary);
    }
    context_add(g, tokens.at[i]);
  }
  tokens_free(&tokens);
  encoder_destroy(encoder);
  return done;
}

// Without a prompt the beginning of a document, or else of a line.
static bool context_fill(Generator *g, const GenerateOptions *options, Error *error) {
  const bool none = !options->prompt || !*options->prompt;
  const char *text = none ? "\n" : options->prompt;
  const int32_t end = options->tokenizer && none ? tokenizer_end(options->tokenizer) : -1;
  if (end >= 0 && end < g->vocabulary) {
    context_add(g, end);
    return true;
  }
  for (const char *at = text; !options->tokenizer && *at; at++) {
    context_add(g, (uint8_t)*at);
  }
  return !options->tokenizer || context_encode(g, options->tokenizer, text, error);
}

// --- what is said of what is made ---

typedef struct {
  const GenerateOptions *options;
  GenerateText *text;
  void *context;
  char *made;
  size_t length, said;  // bytes that were made, and said so far
} Teller;

static bool tell(Teller *t, size_t until) {
  const bool more = until <= t->said || t->text(t->context, t->made + t->said, until - t->said);
  t->said = until > t->said ? until : t->said;
  return more;
}

// What was made ends with a text that is to stop it: where that begins. -1: it does not.
static int64_t stops_at(const Teller *t) {
  for (int i = 0; i < t->options->stop_count; i++) {
    const size_t length = strlen(t->options->stops[i]);
    if (length > 0 && length <= t->length && memcmp(t->made + t->length - length, t->options->stops[i], length) == 0) {
      return (int64_t)(t->length - length);
    }
  }
  return -1;
}

// Bytes at the end that may be the beginning of such a text.
static size_t waits_for(const Teller *t) {
  size_t most = 0;
  for (int i = 0; i < t->options->stop_count; i++) {
    const size_t length = strlen(t->options->stops[i]);
    for (size_t part = most + 1; part < length && part <= t->length; part++) {
      most = memcmp(t->made + t->length - part, t->options->stops[i], part) == 0 ? part : most;
    }
  }
  return most;
}

// False: that was all.
static bool teller_add(Teller *t, char byte) {
  t->made[t->length++] = byte;
  const int64_t stop = stops_at(t);
  if (stop >= 0) {
    tell(t, (size_t)stop);
    t->said = t->length;
    return false;
  }
  size_t until = t->length - waits_for(t);
  until = until < t->said ? t->said : until;
  return tell(t, t->said + generate_whole(t->made + t->said, until - t->said));
}

// Scores of what no text stands for are no choice. Returns how many tokens are looked at, 0 with `error` set.
static int32_t scores_check(Generator *g, const Tokenizer *tokenizer, Error *error) {
  const int32_t known = tokenizer ? tokenizer_kinds(tokenizer) : BYTE_TOKENS;
  const int32_t kinds = g->vocabulary < known ? g->vocabulary : known;
  int32_t length;
  for (int32_t i = 0; i < kinds; i++) {
    if (isnan(g->scores[i])) {
      error_set(error, 1, "the model's score of token %d is not a number: the checkpoint is of no use", i);
      return 0;
    }
    if (tokenizer && !tokenizer_bytes(tokenizer, i, &length)) {
      g->scores[i] = -INFINITY;
    }
  }
  return kinds;
}

// False: that was all, also where a document ends.
static bool teller_add_token(Teller *t, int32_t token) {
  const Tokenizer *tokenizer = t->options->tokenizer;
  int32_t length = 1;
  const char byte = (char)token;
  const char *bytes = tokenizer ? (const char *)tokenizer_bytes(tokenizer, token, &length) : &byte;
  if (tokenizer && token == tokenizer_end(tokenizer)) {
    tell(t, t->length);
    return false;
  }
  bool more = true;
  const bool begins = t->length == 0 && (!t->options->prompt || !*t->options->prompt);
  const int32_t first = begins && tokenizer && tokenizer_leads(tokenizer) && length > 0 && *bytes == ' ';
  for (int32_t i = first; more && bytes && i < length; i++) {
    more = teller_add(t, bytes[i]);
  }
  return more;
}

static bool generator_run(Generator *g, Teller *t, Error *error) {
  const GenerateOptions *options = t->options;
  bool more = true;
  if (!context_fill(g, options, error)) {
    return false;
  }
  for (int64_t made = 0; more && made < options->tokens; made++) {
    const int32_t kinds = generator_score(g, error) ? scores_check(g, options->tokenizer, error) : 0;
    if (kinds == 0) {
      return false;
    }
    const int32_t token = generate_pick(g->scores, kinds, options, made, g->order);
    context_add(g, token);
    more = teller_add_token(t, token);
  }
  if (more) {
    tell(t, t->length);
  }
  return true;
}

bool generate_ready(Session *session, bool whole, Error *error) {
  Generator generator = {0};
  const bool done = generator_open(&generator, session, whole, error);
  generator_close(&generator);
  return done;
}

bool generate_run(Session *session, const GenerateOptions *options, GenerateText *text, void *context, Error *error) {
  Generator generator = {0};
  Teller teller = {.options = options, .text = text, .context = context};
  const size_t longest = options->tokenizer ? (size_t)tokenizer_longest(options->tokenizer) : 1;
  size_t most;
  const bool fits = !__builtin_mul_overflow((size_t)(options->tokens > 0 ? options->tokens : 0), longest, &most);
  teller.made = fits && most < SIZE_MAX ? malloc(most + 1) : NULL;
  const bool done = (teller.made || error_set(error, 3, "no memory to generate text")) &&
                    generator_open(&generator, session, options->whole, error) &&
                    generator_run(&generator, &teller, error);
  generator_close(&generator);
  free(teller.made);
  return done;
}
