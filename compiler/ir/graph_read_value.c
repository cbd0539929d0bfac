// graph_read_value.c: reading axes, types and values of the textual form of graphs, and uses of values.
#include "compiler/ir/graph_reader.h"

bool reader_axis(Reader *reader, AxisId *axis) {
  Name name = NULL;
  Span span = token_span(reader->tokens);
  if (!token_name(reader->tokens, &name)) {
    return false;
  }
  *axis = (AxisId)map_get_or(&reader->axes, map_key(name), -1);
  return *axis >= 0 || token_fail(reader->tokens, span, "there is no axis of this name");
}

bool reader_axis_into(Reader *reader, Shape *shape, bool repeats) {
  AxisId axis = -1;
  Span span = token_span(reader->tokens);
  if (!reader_axis(reader, &axis)) {
    return false;
  }
  if (repeats && shape->count < SHAPE_MAX_AXES) {
    shape->axis[shape->count++] = axis;
    return true;
  }
  return shape_push(shape, axis) ||
         token_fail(reader->tokens, span, "this axis occurs twice, or there are too many axes");
}

// [a, b, c]; `repeats`: the parts of a concat may have the same axis
bool reader_axes(Reader *reader, Shape *shape, bool repeats) {
  if (!token_expect_mark(reader->tokens, '[')) {
    return false;
  }
  do {
    if (!reader_axis_into(reader, shape, repeats)) {
      return false;
    }
  } while (token_accept_mark(reader->tokens, ','));
  return token_expect_mark(reader->tokens, ']');
}

bool reader_element_type(Reader *reader, ElementType *type) {
  if (!token_is(reader->tokens, TOKEN_WORD) || !element_type_of(reader->tokens->token.text, type)) {
    return token_fail(reader->tokens, token_span(reader->tokens), "expected an element type here");
  }
  return token_next(reader->tokens);
}

static bool read_entry(Reader *reader, ShardEntry *entry) {
  *entry = (ShardEntry){0};
  if (!reader_axis(reader, &entry->axis) || !token_expect_mark(reader->tokens, ':') ||
      !token_name(reader->tokens, &entry->mesh_axis)) {
    return false;
  }
  entry->zigzag = token_accept_word(reader->tokens, "zigzag");
  return !token_accept_word(reader->tokens, "pad") ||
         token_integer(reader->tokens, INT64_MIN, INT64_MAX, &entry->padding);
}

static bool read_sharding(Reader *reader, Sharding *sharding) {
  ARRAY(ShardEntry) entries = {0};
  ARRAY(Name) partial = {0};
  if (!token_expect_mark(reader->tokens, '{')) {
    return false;
  }
  while (!token_is_mark(reader->tokens, '|') && !token_is_mark(reader->tokens, '}')) {
    ShardEntry entry;
    if (!read_entry(reader, &entry)) {
      return false;
    }
    array_push(reader->graph->arena, &entries, entry);
    if (!token_accept_mark(reader->tokens, ',')) {
      break;
    }
  }
  if (token_accept_mark(reader->tokens, '|')) {
    if (!token_expect_word(reader->tokens, "partial")) {
      return false;
    }
    do {
      Name name = NULL;
      if (!token_name(reader->tokens, &name)) {
        return false;
      }
      array_push(reader->graph->arena, &partial, name);
    } while (token_accept_mark(reader->tokens, ','));
  }
  *sharding = (Sharding){entries.count, partial.count, entries.at, partial.at};
  return token_expect_mark(reader->tokens, '}');
}

// The type and attributes of one value. *placed: it says where it comes from.
bool reader_result(Reader *reader, Value *value, bool *placed) {
  value->bound = -1;
  value->span = SPAN_NONE;
  *placed = false;
  if (!reader_element_type(reader, &value->type)) {
    return false;
  }
  if (token_accept_mark(reader->tokens, '(') &&
      !(reader_axis(reader, &value->bound) && token_expect_mark(reader->tokens, ')'))) {
    return false;
  }
  if (token_is_mark(reader->tokens, '[') && !reader_axes(reader, &value->shape, false)) {
    return false;
  }
  if ((token_is(reader->tokens, TOKEN_STRING) || token_is_word(reader->tokens, "none")) &&
      !token_string(reader->tokens, &value->name)) {
    return false;
  }
  if (token_accept_mark(reader->tokens, '@') && !token_name(reader->tokens, &value->label)) {
    return false;
  }
  if (token_is(reader->tokens, TOKEN_WORD) && role_of(reader->tokens->token.text, &value->role) &&
      !token_next(reader->tokens)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "stage") && !token_int(reader->tokens, INT32_MIN, INT32_MAX, &value->stage)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "offload")) {
    if (!token_int(reader->tokens, 0, INT32_MAX - 1, &value->offload)) {
      return false;
    }
    value->offload++;
  }
  if (token_is_mark(reader->tokens, '{')) {
    value->sharding = ARENA_NEW(reader->graph->arena, Sharding);
    if (!read_sharding(reader, value->sharding)) {
      return false;
    }
  }
  if (token_accept_word(reader->tokens, "at")) {
    *placed = true;
    return token_accept_word(reader->tokens, "none") || token_place(reader->tokens, &value->span);
  }
  return !reader->tokens->failed;
}

// From here on nodes may use the value under this number.
bool reader_define_value(Reader *reader, int32_t number, ValueId value, Span span) {
  int64_t other = 0;
  if (map_get(&reader->values, (uint64_t)number, &other)) {
    return token_fail(reader->tokens, span, "%%%d is defined twice", number);
  }
  map_put(&reader->values, (uint64_t)number, value);
  map_put(&reader->places, (uint64_t)number, reader->visible.count);
  array_push(reader->graph->arena, &reader->visible, ((Definition){number, value}));
  return true;
}

static bool read_use(Reader *reader, ValueId *value) {
  if (!token_is(reader->tokens, TOKEN_VALUE)) {
    return token_fail(reader->tokens, token_span(reader->tokens), "expected a value here");
  }
  int32_t number = reader->tokens->token.value;
  int64_t place = map_get_or(&reader->places, (uint64_t)number, -1);
  if (place < reader->floor || place >= reader->visible.count || reader->visible.at[place].number != number) {
    return token_fail(reader->tokens, token_span(reader->tokens), "%%%d is not defined here", number);
  }
  *value = reader->visible.at[place].value;
  return token_next(reader->tokens);
}

bool reader_uses(Reader *reader, ValueList *values) {
  do {
    ValueId value = -1;
    if (values->count >= READ_MAX_OPERANDS) {
      return token_fail(reader->tokens, token_span(reader->tokens), "there are too many values here");
    }
    if (!read_use(reader, &value)) {
      return false;
    }
    array_push(reader->graph->arena, values, value);
  } while (token_accept_mark(reader->tokens, ','));
  return !reader->tokens->failed;
}
