// feed.c: from windows to inputs.
#include "runtime/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const Data *data;
  const int32_t *tokens;  // sequence + 1
  int64_t sequence;
  bool used;  // false: a row that only fills up the batch
} Row;

typedef struct {  // what data can feed
  const char *name, *meaning;
  bool token;  // values are tokens: an index must cover them all
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

static void fill_documents(const Row *row, double *values) {
  double document = 0;
  for (int64_t i = 0; i < row->sequence; i++) {
    document += data_document_begins(row->data, row->tokens, i);
    values[i] = document;
  }
}

static void fill_mask(const Row *row, double *values) {
  for (int64_t i = 0; i < row->sequence; i++) {
    values[i] = row->used;
  }
}

static const Rule rules[] = {
    {"tokens", "the text", true, fill_tokens},
    {"targets", "the token after each", true, fill_targets},
    {"doc", "the number of the document in the window", false, fill_documents},
    {"mask", "1 where a target counts", false, fill_mask},
};
enum { RULE_COUNT = sizeof rules / sizeof *rules };

typedef struct {
  const PlanInput *input;
  const Rule *rule;
  int64_t stride_row, stride_position;  // in elements of a slot
  char *slot;                           // one slot's bytes
  int64_t slot_bytes;
} Column;

struct Feed {
  const Data *data;
  Column *columns;
  int column_count, slots;
  int64_t rows_per_slot, sequence;
  bool masks;
  int32_t *windows;  // rows x (sequence + 1)
  bool *used;
  double *values;  // sequence
};

// Which axis of an input holds rows and which positions; -1 where there is none.
static bool input_axes(const PlanInput *input, int *batch, int *sequence) {
  *batch = *sequence = -1;
  for (int i = 0; i < input->axis_count; i++) {
    if (strcmp(input->axis[i], "batch") == 0) {
      *batch = i;
    } else if (*sequence < 0) {
      *sequence = i;
    } else if (*batch < 0 && input->axis_count == 2) {  // two axes of other names: rows come first
      *batch = *sequence;
      *sequence = i;
    } else {
      return false;
    }
  }
  return *sequence >= 0;
}

bool feed_shape(const Plan *plan, ProgramKind program, int64_t *rows, int64_t *sequence) {
  int batch, position;
  const PlanInput *tokens = session_input(plan, program, "tokens");
  if (!tokens || !input_axes(tokens, &batch, &position)) {
    return false;
  }
  *rows = batch < 0 ? 1 : tokens->size[batch];
  *sequence = tokens->size[position];
  return true;
}

static bool feed_unknown(const PlanInput *input, Error *error) {
  char known[256] = "";
  for (int i = 0; i < RULE_COUNT; i++) {
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s (%s)", i ? ", " : "", rules[i].name, rules[i].meaning);
  }
  return error_set(error, 1, "the data cannot feed the input '%s'; it feeds: %s", input->name, known);
}

static bool column_set(Feed *feed, Column *column, const PlanInput *input, Error *error) {
  *column = (Column){.input = input};
  for (int i = 0; i < RULE_COUNT; i++) {
    if (strcmp(rules[i].name, input->name) == 0) {
      column->rule = &rules[i];
    }
  }
  if (!column->rule) {
    return feed_unknown(input, error);
  }
  int batch, position;
  if (!input_axes(input, &batch, &position)) {
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
  if (!column->rule->token && input->bound && input->bound < feed->sequence) {
    return error_set(error, 1, "the input '%s' indexes an axis of size %lld; it needs at least %lld", input->name,
                     (long long)input->bound, (long long)feed->sequence);
  }
  for (int i = input->axis_count - 1; i >= 0; i--) {
    *(i == batch ? &column->stride_row : &column->stride_position) = stride;
    stride *= input->size[i];
  }
  column->slot_bytes = stride * element_type_bytes(input->type);
  column->slot = calloc(1, (size_t)column->slot_bytes);
  char probe[8];
  if (!element_put(input->type, probe, 0)) {
    return error_set(error, 1, "the input '%s' has type %s, which the data cannot write", input->name,
                     element_type_name(input->type));
  }
  feed->masks |= column->rule->fill == fill_mask;
  return column->slot || error_set(error, 3, "no memory for the input '%s'", input->name);
}

bool feed_create(const Plan *plan, ProgramKind program, const Data *data, Feed **feed, Error *error) {
  const PlanProgram *of = &plan->programs[program];
  Feed *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->data = data;
  made->slots = of->slots < 1 ? 1 : of->slots;
  if (!feed_shape(plan, program, &made->rows_per_slot, &made->sequence)) {
    free(made);
    return error_set(error, 1, "the model has no input 'tokens' with axes [batch, seq], which is what data feeds");
  }
  int64_t rows = feed_rows(made);
  made->columns = calloc((size_t)of->input_count, sizeof *made->columns);
  made->windows = calloc((size_t)rows, sizeof *made->windows * (size_t)(made->sequence + 1));
  made->used = calloc((size_t)rows, sizeof *made->used);
  made->values = calloc((size_t)made->sequence, sizeof *made->values);
  bool done = made->columns && made->windows && made->used && made->values;
  if (!done) {
    error_set(error, 3, "no memory for a batch of %lld x %lld tokens", (long long)rows, (long long)made->sequence);
  }
  for (int i = 0; done && i < of->input_count; i++) {
    if (strcmp(of->inputs[i].name, "step") != 0) {
      done = column_set(made, &made->columns[made->column_count++], &of->inputs[i], error);
    }
  }
  if (!done) {
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

static bool feed_write(Feed *feed, Session *session, Error *error) {
  for (int c = 0; c < feed->column_count; c++) {
    Column *column = &feed->columns[c];
    int64_t size = element_type_bytes(column->input->type);
    for (int slot = 0; slot < feed->slots; slot++) {
      for (int64_t r = 0; r < feed->rows_per_slot; r++) {
        int64_t k = slot * feed->rows_per_slot + r;
        Row row = {feed->data, feed->windows + k * (feed->sequence + 1), feed->sequence, feed->used[k]};
        column->rule->fill(&row, feed->values);
        for (int64_t i = 0; i < feed->sequence; i++) {
          char *at = column->slot + (r * column->stride_row + i * column->stride_position) * size;
          element_put(column->input->type, at, feed->values[i]);
        }
      }
      Place place = column->input->place;
      if (!session->backend->write(session->device, place.arena, place.offset + slot * place.slot_stride, column->slot,
                                   column->slot_bytes, error)) {
        return false;
      }
    }
  }
  return true;
}

bool feed_train(Feed *feed, Session *session, int64_t step, Error *error) {
  int64_t rows = feed_rows(feed);
  for (int64_t k = 0; k < rows; k++) {
    feed->used[k] = true;
    if (!data_train_window(feed->data, (step - 1) * rows + k, feed->windows + k * (feed->sequence + 1), error)) {
      return false;
    }
  }
  return feed_write(feed, session, error);
}

bool feed_validation(Feed *feed, Session *session, int64_t first, int64_t *used, Error *error) {
  int64_t rows = feed_rows(feed), windows = data_facts(feed->data).validation_windows;
  *used = 0;
  for (int64_t k = 0; k < rows; k++) {
    bool inside = first + k < windows;
    feed->used[k] = inside || !feed->masks;
    *used += inside;
    if (!data_validation_window(feed->data, (first + k) % windows, feed->windows + k * (feed->sequence + 1), error)) {
      return false;
    }
  }
  return feed_write(feed, session, error);
}
