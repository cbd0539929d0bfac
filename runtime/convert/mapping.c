// mapping.c: reads mapping texts, line by line.
#include "runtime/convert/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

typedef struct {
  Arena *arena;
  Mapping *mapping;
  int line;
  Error *error;
} Parser;

static bool wrong(const Parser *p, const char *what) {
  return error_set(p->error, 1, "%s:%d: %s", p->mapping->path, p->line, what);
}

static char *trimmed(Arena *arena, const char *text, size_t length) {
  while (length > 0 && strchr(" \t\r", *text)) {
    text++;
    length--;
  }
  while (length > 0 && strchr(" \t\r", text[length - 1])) {
    length--;
  }
  return arena_format(arena, "%.*s", (int)length, text);
}

// The next word of `*rest`, or NULL.
static const char *word(Arena *arena, char **rest) {
  *rest += strspn(*rest, " \t");
  const size_t length = strcspn(*rest, " \t");
  if (length == 0) {
    return NULL;
  }
  const char *found = arena_format(arena, "%.*s", (int)length, *rest);
  *rest += length;
  return found;
}

static bool parse_named(Parser *p, char *rest, const char **to) {
  const char *name = word(p->arena, &rest);
  const size_t length = name ? strlen(name) : 0;
  const bool quoted = length > 2 && name[0] == '"' && name[length - 1] == '"';
  if (!name || word(p->arena, &rest) || *to) {
    return wrong(p, *to ? "this is said twice" : "one word is expected");
  }
  *to = quoted ? arena_format(p->arena, "%.*s", (int)length - 2, name + 1) : name;
  return true;
}

// A key is a path into objects, one in another: so many that nothing that goes down them needs much of the stack.
static bool key_is_short(const char *key) {
  int dots = 0;
  for (; *key; key++) {
    dots += *key == '.';
  }
  return dots <= MAPPING_MAX_DOTS;
}

static bool parse_formula(Parser *p, char *rest, MappingKind kind) {
  MappingLine line = {.kind = kind, .formula = rest};
  if (kind != MAPPING_ONLY) {
    char *equals = strchr(rest, '=');
    if (!equals || equals[1] == '=') {
      return wrong(p, "`NAME = FORMULA` is expected");
    }
    line.name = trimmed(p->arena, rest, (size_t)(equals - rest));
    line.formula = equals + 1;
    if (!key_is_short(line.name)) {
      return wrong(p, "a name has at most 16 dots");
    }
  }
  line.formula = trimmed(p->arena, line.formula, strlen(line.formula));
  if (kind == MAPPING_MERGED) {
    array_push(p->arena, &p->mapping->merged, line);
  } else {
    array_push(p->arena, &p->mapping->lines, line);
  }
  return *line.formula || wrong(p, "a formula is missing");
}

static bool parse_factor(Parser *p, MappingTensor *tensor, const char *axis) {
  static const char turned[] = "interleaved(";
  if (tensor->factor_count == MAPPING_MAX_FACTORS) {
    return wrong(p, "a tensor has at most 16 axes");
  }
  MappingFactor *factor = &tensor->factor[tensor->factor_count++];
  *factor = (MappingFactor){.axis = axis, .dimension = tensor->dimension_count};
  if (strncmp(axis, turned, sizeof turned - 1) == 0 && axis[strlen(axis) - 1] == ')') {
    factor->interleaved = true;
    factor->axis = arena_format(p->arena, "%.*s", (int)(strlen(axis) - sizeof turned), axis + sizeof turned - 1);
  }
  return true;
}

// "kv_heads group hd, embed"
static bool parse_dimensions(Parser *p, char *text, MappingTensor *tensor) {
  for (char *at = text;; at++) {
    const size_t length = strcspn(at, ",");
    char *rest = trimmed(p->arena, at, length);
    const int before = tensor->factor_count;
    for (const char *axis; (axis = word(p->arena, &rest));) {
      if (!parse_factor(p, tensor, axis)) {
        return false;
      }
    }
    if (tensor->factor_count == before) {
      return wrong(p, "a dimension names no axis");
    }
    tensor->dimension_count++;
    at += length;
    if (!*at) {
      return true;
    }
  }
}

// {axis} in a name ends, and names something.
static bool parse_indexes(const Parser *p, const char *name) {
  int count = 0;
  for (const char *open = strchr(name, '{'); open; open = strchr(open + 1, '{'), count++) {
    const size_t length = strcspn(open + 1, "{}");
    if (open[1 + length] != '}' || length == 0) {
      return wrong(p, "a { in a name is followed by an axis and }");
    }
  }
  return count <= MAPPING_MAX_INDEXES || wrong(p, "a name has at most 4 axes in { }");
}

static bool parse_tensor(Parser *p, char *rest) {
  MappingTensor tensor = {.line = p->line};
  tensor.name = word(p->arena, &rest);
  char *open = strchr(rest, '['), *close = strchr(rest, ']'), *equals = strchr(rest, '=');
  if (!tensor.name || !open || !close || !equals || open > close || close > equals) {
    return wrong(p, "`tensor NAME [AXIS ..., ...] = PARAMETER, ...` is expected");
  }
  if (!parse_indexes(p, tensor.name) ||
      !parse_dimensions(p, trimmed(p->arena, open + 1, (size_t)(close - open - 1)), &tensor)) {
    return false;
  }
  for (char *at = equals; *at;) {
    const size_t length = strcspn(++at, ",");
    const char *part = trimmed(p->arena, at, length);
    if (!*part || tensor.part_count == MAPPING_MAX_PARTS) {
      return wrong(p, *part ? "a tensor holds at most 8 parameters" : "a parameter is missing");
    }
    tensor.part[tensor.part_count++] = part;
    if (!parse_indexes(p, part)) {
      return false;
    }
    at += length;
  }
  int parts = 0;
  for (int i = 0; i < tensor.factor_count; i++) {
    parts += strcmp(tensor.factor[i].axis, "parts") == 0;
  }
  if (tensor.part_count == 0 || parts != (tensor.part_count > 1)) {
    return wrong(p, "`parts` stands once among the axes where there are several parameters, and nowhere else");
  }
  array_push(p->arena, &p->mapping->tensors, tensor);
  return true;
}

static bool parse_skip(Parser *p, char *rest) {
  MappingSkip skip = {.name = word(p->arena, &rest)};
  const char *when = word(p->arena, &rest);
  if (when && strcmp(when, "like") == 0) {
    skip.like = word(p->arena, &rest);
    when = word(p->arena, &rest);
    if (!skip.like) {
      return wrong(p, "the tensor that it is like is missing");
    }
  }
  if (!skip.name || (when && strcmp(when, "if") != 0)) {
    return wrong(p, "`skip NAME` or `skip NAME if FORMULA` is expected");
  }
  skip.condition = when ? trimmed(p->arena, rest, strlen(rest)) : NULL;
  if (when && !*skip.condition) {
    return wrong(p, "a formula is missing");
  }
  array_push(p->arena, &p->mapping->skips, skip);
  return true;
}

// "*.w = *.lora.a, *.lora.b by alpha / rank"
static bool parse_adapter(Parser *p, char *rest) {
  static const char wanted[] = "`adapter PARAMETER = FACTOR, FACTOR by FORMULA` is expected, with one `*` in each name";
  MappingAdapter adapter = {.into = word(p->arena, &rest), .line = p->line};
  const char *equals = word(p->arena, &rest);
  char *comma = strchr(rest, ',');
  if (!adapter.into || !equals || strcmp(equals, "=") != 0 || !comma) {
    return wrong(p, wanted);
  }
  adapter.factor[0] = trimmed(p->arena, rest, (size_t)(comma - rest));
  rest = comma + 1;
  adapter.factor[1] = word(p->arena, &rest);
  const char *by = word(p->arena, &rest);
  adapter.scale = by ? trimmed(p->arena, rest, strlen(rest)) : NULL;
  if (!adapter.factor[1] || (by && (strcmp(by, "by") != 0 || !*adapter.scale))) {
    return wrong(p, wanted);
  }
  const char *const names[] = {adapter.into, adapter.factor[0], adapter.factor[1]};
  for (int i = 0; i < 3; i++) {
    const char *star = strchr(names[i], '*');
    if (!star || strchr(star + 1, '*') || strpbrk(names[i], " \t")) {
      return wrong(p, wanted);
    }
  }
  array_push(p->arena, &p->mapping->adapters, adapter);
  return true;
}

static bool parse_line(Parser *p, char *text) {
  static const char *const kinds[] = {"read", "write", "must", "also", "add", "only", "merged"};
  Mapping *m = p->mapping;
  char *rest = text;
  const char *first = word(p->arena, &rest);
  if (!first) {
    return true;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(first, kinds[i]) == 0) {
      return parse_formula(p, rest, (MappingKind)i);
    }
  }
  if (strcmp(first, "need") == 0) {
    MappingLine line = {.kind = MAPPING_NEED};
    const bool named = parse_named(p, rest, &line.name);
    array_push(p->arena, &m->lines, line);
    return named;
  }
  if (strcmp(first, "tensor") == 0) {
    return parse_tensor(p, rest);
  }
  if (strcmp(first, "skip") == 0) {
    return parse_skip(p, rest);
  }
  if (strcmp(first, "adapter") == 0) {
    return parse_adapter(p, rest);
  }
  if (strcmp(first, "ignore") == 0) {
    for (const char *key; (key = word(p->arena, &rest));) {
      array_push(p->arena, &m->ignored, key);
    }
    return true;
  }
  const char **named = strcmp(first, "model") == 0    ? &m->model
                       : strcmp(first, "type") == 0   ? &m->type
                       : strcmp(first, "class") == 0  ? &m->architecture
                       : strcmp(first, "prefix") == 0 ? &m->prefix
                                                      : NULL;
  return named
             ? parse_named(p, rest, named)
             : wrong(p,
                     "a line begins with model, type, class, prefix, read, write, must, also, add, need, only, ignore, "
                     "tensor, skip, adapter or merged");
}

bool mapping_parse_lines(Arena *arena, const char *path, const char *text, Mapping *mapping, Error *error) {
  *mapping = (Mapping){.path = path};
  Parser p = {.arena = arena, .mapping = mapping, .error = error};
  for (const char *at = text; *at;) {
    const size_t length = strcspn(at, "\n");
    char *line = trimmed(arena, at, length);
    char *comment = strstr(line, "//");
    p.line++;
    if (comment) {
      *comment = '\0';
      line = trimmed(arena, line, strlen(line));
    }
    if (!parse_line(&p, line)) {
      return false;
    }
    at += length + (at[length] == '\n');
  }
  return true;
}

bool mapping_parse(Arena *arena, const char *path, const char *text, Mapping *mapping, Error *error) {
  if (!mapping_parse_lines(arena, path, text, mapping, error)) {
    return false;
  }
  return (mapping->model && mapping->type && mapping->architecture && mapping->tensors.count > 0) ||
         error_set(error, 1, "%s says no model, type, class or tensor: it is no mapping of weights", path);
}

bool mapping_open(Arena *arena, const char *path, Mapping *mapping, Error *error) {
  FileError why;
  size_t length;
  char *text = file_read_text(path, true, &length, &why);
  if (!text) {
    return error_set(error, why.code == ENOMEM ? 3 : 1, "%s", why.text);
  }
  const char *kept = arena_format(arena, "%s", text);
  const bool zero = strlen(text) != length;
  free(text);
  if (zero) {
    return error_set(error, 1, "%s holds zero bytes: it is no mapping of weights", path);
  }
  return mapping_parse(arena, arena_format(arena, "%s", path), kept, mapping, error);
}

bool mapping_stands_for(const char *pattern, const char *name) {
  while (*pattern) {
    if (*pattern == '{') {
      const size_t digits = strspn(name, "0123456789");
      if (digits == 0) {
        return false;
      }
      name += digits;
      pattern += strcspn(pattern, "}");
      pattern += *pattern == '}';
    } else if (*pattern++ != *name++) {
      return false;
    }
  }
  return *name == '\0';
}

const ModelFile *model_file(const char *name) {
  for (const ModelFile *file = model_files; file->name; file++) {
    if (strcmp(file->name, name) == 0) {
      return file;
    }
  }
  return NULL;
}

bool mapping_all(Arena *arena, Mapping **mappings, int *count, Error *error) {
  *count = 0;
  for (const ModelFile *file = model_files; file->name; file++) {
    *count += strstr(file->name, ".hf") != NULL;
  }
  *mappings = ARENA_ARRAY(arena, Mapping, *count + 1);
  int at = 0;
  for (const ModelFile *file = model_files; file->name; file++) {
    if (strstr(file->name, ".hf") &&
        !mapping_parse(arena, arena_format(arena, "models/%s", file->name), file->text, &(*mappings)[at++], error)) {
      return false;
    }
  }
  return true;
}
