// feed.c: from windows to inputs.
#include "runtime/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/plan/numbers.h"
#include "runtime/data/chat.h"
#include "runtime/element.h"

typedef struct {
  const int32_t *tokens;  // sequence + 1
  const uint8_t *flags;   // of each: TOKEN_
  int64_t sequence;
  bool used;     // false: a row that only fills up the batch
  double share;  // of a target that counts in the loss of the batch
} Row;

typedef struct {  // what data can feed
  const char *name, *meaning;
  bool token, counts;  // values are tokens: an index must cover them all; or 0 and 1
  bool parts;          // values are below 1
  void (*fill)(const Row *row, double *values);
} Rule;

static void fill_tokens(const Row *row, double *values) {
  for (int64_t i = 0; i < row->sequence; i++) {
    values[i] = row->tokens[i];
  }
}

static void fill_targets(const Row *row, double *values) {
  for (int64_t i = 0; i < row->sequence; i++) {
    values[i] = row->tokens[i + 1];
  }
}

static void fill_doc(const Row *row, double *values) {
  double document = 0;
  for (int64_t i = 0; i < row->sequence; i++) {
    document += i > 0 && row->flags[i] & TOKEN_BEGINS;
    values[i] = document;
  }
}

static void fill_mask(const Row *row, double *values) {
  for (int64_t i = 0; i < row->sequence; i++) {
    values[i] = row->used && row->flags[i + 1] & TOKEN_ANSWER;
  }
}

static void fill_share(const Row *row, double *values) {
  fill_mask(row, values);
  for (int64_t i = 0; i < row->sequence; i++) {
    values[i] *= row->share;
  }
}

static const Rule rules[] = {
#define FED(name, meaning, token, counts, parts) {#name, meaning, token, counts, parts, fill_##name},
#include "compiler/plan/fed.def"
#undef FED
};
enum { RULE_COUNT = sizeof rules / sizeof *rules };

typedef struct {  // an input of the plan of one stage
  const Plan *plan;
  const PlanInput *input;
  const Rule *rule;
  int batch, position;                  // which axes; batch -1: one row
  int64_t rows, positions;              // of one rank
  int64_t stride_row, stride_position;  // in elements of its part of a slot
  char *slot;                           // one rank's part of one slot
  int64_t slot_bytes;
} Column;

struct Feed {
  const Data *data;
  const PlanInput *tokens;  // of the program
  Column *columns;
  int column_count, slots;
  int64_t rows_per_slot, sequence;
  int64_t bytes;        // of text, of what was validated with last; -1: not known
  int64_t bound;        // tokens must be below it, which the data does not know; 0: it does
  bool masks, flagged;  // there is an input for which flags are read
  bool answers;         // and the loss is of targets that it counts
  int microbatches;     // that the program multiplies sums over its rows by
  int32_t *windows;     // rows x (sequence + 1)
  uint8_t *flags;       // the same
  bool *used;
  double *values;  // sequence
};

static int axis_named(const PlanInput *input, const char *name) {
  for (int i = 0; i < input->axis_count; i++) {
    if (strcmp(input->axis[i], name) == 0) {
      return i;
    }
  }
  return -1;
}

// Which axis of an input holds rows and which positions; -1 where there is none. Those of `tokens` say so by their
// names for all inputs, in whatever order they stand; NULL: the input is `tokens`.
static bool input_axes(const PlanInput *input, const PlanInput *tokens, int *batch, int *sequence) {
  int of_tokens[2];
  const bool known = tokens && input_axes(tokens, NULL, &of_tokens[0], &of_tokens[1]);
  *batch = known && of_tokens[0] >= 0 ? axis_named(input, tokens->axis[of_tokens[0]]) : axis_named(input, "batch");
  *sequence = known ? axis_named(input, tokens->axis[of_tokens[1]]) : -1;
  const bool named = *sequence >= 0;
  for (int i = 0; i < input->axis_count; i++) {
    if (i == *batch || i == *sequence) {
      continue;
    }
    if (*sequence < 0) {
      *sequence = i;
    } else if (*batch < 0 && input->axis_count == 2) {  // two axes of other names: rows come first
      *batch = named ? i : *sequence;
      *sequence = named ? *sequence : i;
    } else {
      return false;
    }
  }
  return *sequence >= 0;
}

static const PlanInput *input_tokens(const PlanSet *set, ProgramKind program) {
  const PlanInput *tokens = NULL;
  for (int s = 0; s < set->count && !tokens; s++) {
    tokens = session_input(set->plans[s], program, "tokens");
  }
  return tokens;
}

bool feed_axes(const PlanInput *tokens, int *batch, int *sequence) {
  return input_axes(tokens, NULL, batch, sequence);
}

bool feed_shape(const PlanSet *set, ProgramKind program, int64_t *rows, int64_t *sequence) {
  int batch, position;
  const PlanInput *tokens = input_tokens(set, program);
  if (!tokens || !input_axes(tokens, NULL, &batch, &position)) {
    return false;
  }
  *rows = batch < 0 ? 1 : tokens->size[batch];
  *sequence = tokens->size[position];
  return true;
}

bool feed_misses(Error *error) {
  return error_set(error, 1, "the model has no input 'tokens' with axes [batch, seq], which is what data feeds");
}

static bool feed_unknown(const PlanInput *input, Error *error) {
  char known[256] = "";
  for (int i = 0; i < RULE_COUNT; i++) {
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s (%s)", i ? ", " : "", rules[i].name, rules[i].meaning);
  }
  return error_set(error, 1, "the data cannot feed the input '%s'; it feeds: %s", input->name, known);
}

// What one rank has of an axis.
static int64_t local_size(const PlanInput *input, int axis) {
  return axis < 0 ? 1 : input->cut[axis].count ? input->cut[axis].local : input->size[axis];
}

// Does the type of the input hold all that it is fed? lang/loss_lint.c says it of a text.
static bool type_holds(const Rule *rule, const PlanInput *input, int64_t sequence, int64_t kinds, Error *error) {
  enum { BF16_WHOLE = 256 };  // further whole numbers are rounded
  const bool floating = element_type_floating(input->type);
  const int64_t most = rule->counts ? 1 : rule->token ? kinds - 1 : sequence - 1;
  const bool holds = rule->parts ? floating : most <= 1 || input->type != TYPE_BOOL;
  if (!holds || (input->type == TYPE_BF16 && most > BF16_WHOLE)) {
    return error_set(error, 1,
                     "the input '%s' has type %s, which cannot hold what the data feeds it (%s); declare it as %s",
                     input->name, element_type_name(input->type), rule->meaning, rule->parts ? "`real`" : "`int`");
  }
  if (!rule->token && input->bound && input->bound <= most) {
    return error_set(error, 1, "the input '%s' indexes an axis of size %lld; it needs at least %lld", input->name,
                     (long long)input->bound, (long long)most + 1);
  }
  return true;
}

static bool column_set(Feed *feed, Column *column, const Plan *plan, const PlanInput *input, Error *error) {
  *column = (Column){.plan = plan, .input = input};
  for (int i = 0; i < RULE_COUNT; i++) {
    if (strcmp(rules[i].name, input->name) == 0) {
      column->rule = &rules[i];
    }
  }
  if (!column->rule) {
    return feed_unknown(input, error);
  }
  int batch, position;
  if (!input_axes(input, feed->tokens, &batch, &position)) {
    return error_set(error, 1, "the input '%s' has %d axes; the data feeds [batch, seq]", input->name,
                     input->axis_count);
  }
  int64_t rows = batch < 0 ? 1 : input->size[batch], stride = 1;
  if (feed->sequence != input->size[position] || feed->rows_per_slot != rows) {
    return error_set(error, 1, "the input '%s' is %lld by %lld, but 'tokens' is %lld by %lld", input->name,
                     (long long)rows, (long long)input->size[position], (long long)feed->rows_per_slot,
                     (long long)feed->sequence);
  }
  DataFacts facts = data_facts(feed->data);
  if (column->rule->token && input->bound && input->bound < facts.token_kinds) {
    return error_set(error, 1,
                     "the input '%s' indexes an axis of size %lld, but the tokens of %s go up to %d; make that axis at "
                     "least %d, for example with --set vocab=%d",
                     input->name, (long long)input->bound, facts.path, facts.token_kinds - 1, facts.token_kinds,
                     facts.token_kinds);
  }
  if (column->rule->token && input->bound && facts.separator >= input->bound) {
    return error_set(error, 1,
                     "the separator of %s is the token %d, and the input '%s' has tokens below %lld: no document would "
                     "end",
                     facts.path, facts.separator, input->name, (long long)input->bound);
  }
  if (column->rule->token && facts.unchecked) {
    const int64_t bound = input->bound ? input->bound : INT32_MAX;
    feed->bound = feed->bound && feed->bound < bound ? feed->bound : bound;
  }
  if (column->rule->fill == fill_doc && !data_documents_hold(feed->data, input->name, error)) {
    return false;
  }
  if (!type_holds(column->rule, input, feed->sequence, facts.token_kinds, error)) {
    return false;
  }
  column->batch = batch;
  column->position = position;
  column->rows = local_size(input, batch);
  column->positions = local_size(input, position);
  for (int i = input->axis_count - 1; i >= 0; i--) {
    *(i == batch ? &column->stride_row : &column->stride_position) = stride;
    stride *= local_size(input, i);
  }
  column->slot_bytes = stride * element_type_bytes(input->type);
  column->slot = calloc(1, (size_t)column->slot_bytes);
  if (element_type_bytes(input->type) < 4 && input->type != TYPE_BF16) {
    return error_set(error, 1, "the input '%s' has type %s, which the data cannot write", input->name,
                     element_type_name(input->type));
  }
  feed->masks |= column->rule->counts;
  feed->flagged |= feed->masks || column->rule->fill == fill_doc;
  return column->slot || error_set(error, 3, "no memory for the input '%s'", input->name);
}

static bool columns_set(Feed *feed, const PlanSet *set, ProgramKind program, Error *error) {
  for (int s = 0; s < set->count; s++) {
    const PlanProgram *of = &set->plans[s]->programs[program];
    const PlanOutput *loss = session_output(set->plans[s], program, "loss");
    feed->answers |= loss && (loss->weighing == WEIGH_COUNTED || loss->weighing == WEIGH_ANSWERS);
    for (int i = 0; i < of->input_count; i++) {
      if (!input_is_number(of->inputs[i].name) &&
          !column_set(feed, &feed->columns[feed->column_count++], set->plans[s], &of->inputs[i], error)) {
        return false;
      }
    }
  }
  return true;
}

bool feed_create(const PlanSet *set, ProgramKind program, const Data *data, Feed **feed, Error *error) {
  int inputs = 0;
  for (int s = 0; s < set->count; s++) {
    inputs += set->plans[s]->programs[program].input_count;
  }
  Feed *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->data = data;
  made->tokens = input_tokens(set, program);
  made->slots = set->plans[0]->programs[program].slots;
  made->slots = made->slots < 1 ? 1 : made->slots;
  const int slots = set->plans[0]->programs[PROGRAM_TRAIN].slots;
  made->microbatches = program == PROGRAM_EVALUATE && slots > 1 ? slots : 1;
  if (!feed_shape(set, program, &made->rows_per_slot, &made->sequence)) {
    free(made);
    return feed_misses(error);
  }
  int64_t rows = feed_rows(made);
  made->columns = calloc((size_t)inputs + 1, sizeof *made->columns);
  made->windows = calloc((size_t)rows, sizeof *made->windows * (size_t)(made->sequence + 1));
  made->flags = calloc((size_t)rows, (size_t)(made->sequence + 1));
  made->used = calloc((size_t)rows, sizeof *made->used);
  made->values = calloc((size_t)made->sequence, sizeof *made->values);
  bool done = made->columns && made->windows && made->flags && made->used && made->values;
  if (!done) {
    error_set(error, 3, "no memory for a batch of %lld x %lld tokens", (long long)rows, (long long)made->sequence);
  }
  done = done && columns_set(made, set, program, error);
  if (!done || (made->bound && !data_check_begin(data, made->bound, error))) {
    feed_destroy(made);
    return false;
  }
  *feed = made;
  return true;
}

void feed_destroy(Feed *feed) {
  if (!feed) {
    return;
  }
  for (int i = 0; i < feed->column_count; i++) {
    free(feed->columns[i].slot);
  }
  free(feed->columns);
  free(feed->windows);
  free(feed->flags);
  free(feed->used);
  free(feed->values);
  free(feed);
}

int64_t feed_rows(const Feed *feed) {
  return feed->rows_per_slot * feed->slots;
}

int64_t feed_sequence(const Feed *feed) {
  return feed->sequence;
}

bool feed_masks(const Feed *feed) {
  return feed->masks;
}

bool feed_answers(const Feed *feed) {
  return feed->answers;
}

// Fills a rank's part of one slot. Where the cut leaves padding, zeros are fed.
static void column_fill(Feed *feed, const Column *column, const int *coordinate, int slot, double share) {
  const PlanInput *input = column->input;
  const PlanCut whole = {0};
  const PlanCut *rows = column->batch < 0 ? &whole : &input->cut[column->batch];
  int64_t size = element_type_bytes(input->type);
  for (int64_t r = 0; r < column->rows; r++) {
    int64_t row = plan_position(column->plan, rows, coordinate, r);
    bool inside = row < feed->rows_per_slot;
    int64_t k = slot * feed->rows_per_slot + row;
    if (inside) {
      const int64_t at = k * (feed->sequence + 1);
      Row from = {feed->windows + at, feed->flags + at, feed->sequence, feed->used[k], share};
      column->rule->fill(&from, feed->values);
    }
    for (int64_t i = 0; i < column->positions; i++) {
      int64_t position = plan_position(column->plan, &input->cut[column->position], coordinate, i);
      char *at = column->slot + (r * column->stride_row + i * column->stride_position) * size;
      element_put(input->type, at, inside && position < feed->sequence ? feed->values[position] : 0);
    }
  }
}

int64_t feed_counted(const Feed *feed) {
  int64_t counted = 0;
  for (int64_t k = 0; k < feed_rows(feed); k++) {
    const uint8_t *flags = feed->flags + k * (feed->sequence + 1);
    for (int64_t i = 1; feed->used[k] && i <= feed->sequence; i++) {
      counted += !feed->masks || flags[i] & TOKEN_ANSWER;
    }
  }
  return counted;
}

int64_t feed_bytes(const Feed *feed) {
  return feed->bytes;
}

// Of the targets of row k, of one source.
static void count_bytes(Feed *feed, const Data *part, int64_t k) {
  const int64_t at = k * (feed->sequence + 1);
  for (int64_t i = 1; feed->bytes >= 0 && i <= feed->sequence; i++) {
    const bool counts = !feed->answers || feed->flags[at + i] & TOKEN_ANSWER;
    const int64_t bytes = counts ? data_token_bytes(part, feed->windows[at + i]) : 0;
    feed->bytes = bytes < 0 ? -1 : feed->bytes + bytes;
  }
}

static bool feed_write(Feed *feed, Session *session, Error *error) {
  const int64_t counted = feed->masks ? feed_counted(feed) : 0;
  const double share = counted > 0 ? 1 / ((double)counted * feed->microbatches) : 0;
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    const Plan *plan = session_plan(session, rank);
    int coordinate[PLAN_MAX_MESH] = {0};
    plan_coordinates(plan, rank, coordinate);
    for (int c = 0; c < feed->column_count; c++) {
      const Column *column = &feed->columns[c];
      Place place = column->input->place;
      for (int slot = 0; slot < feed->slots && column->plan == plan; slot++) {
        column_fill(feed, column, coordinate, slot, share);
        if (!session->backend->write(session_device(session, rank), place.arena,
                                     place.offset + slot * place.slot_stride, column->slot, column->slot_bytes,
                                     error)) {
          return false;
        }
      }
    }
  }
  return true;
}

// Of row k.
static uint8_t *feed_flags(Feed *feed, int64_t k) {
  return feed->flags + k * (feed->sequence + 1);
}

bool feed_train(Feed *feed, Session *session, int64_t batch, Error *error) {
  int64_t rows = feed_rows(feed), end;
  if (__builtin_mul_overflow(batch, rows, &end)) {
    return error_set(error, 1, "batch %lld of %lld rows is more than can be counted", (long long)batch,
                     (long long)rows);
  }
  for (int64_t k = 0; k < rows; k++) {
    feed->used[k] = true;
    int64_t sample = (batch - 1) * rows + k;
    const Data *part = data_train_part(feed->data, &sample);
    int32_t *window = feed->windows + k * (feed->sequence + 1);
    if (!data_train_window(part, sample, window, error) ||
        (feed->bound && !data_check_train(part, sample, window, feed->bound, error)) ||
        (feed->flagged && !data_train_flags(part, sample, window, feed_flags(feed, k), error))) {
      return false;
    }
  }
  return feed_write(feed, session, error);
}

bool feed_validation(Feed *feed, Session *session, int64_t first, int64_t count, bool again, Error *error) {
  const int64_t rows = feed_rows(feed);
  feed->bytes = 0;
  for (int64_t k = 0; k < rows; k++) {
    feed->used[k] = k < count || again || !feed->masks;
    int64_t number = first + k % count;
    const Data *part = data_validation_part(feed->data, &number);
    int32_t *window = feed->windows + k * (feed->sequence + 1);
    if (!data_validation_window(part, number, window, error) ||
        (feed->bound && !data_check_validation(part, number, window, feed->bound, error)) ||
        (feed->flagged && !data_validation_flags(part, number, window, feed_flags(feed, k), error))) {
      return false;
    }
    if (k < count) {
      count_bytes(feed, part, k);
    }
  }
  return feed_write(feed, session, error);
}
