// pattern.c: PCRE2 with its compiler of patterns to machine code.
#include "runtime/data/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

#ifdef MDL_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct Pattern {
  pcre2_code *code;
  bool compiled;  // to machine code
  bool behind;    // it looks at what stands ahead of a match
};

struct Matcher {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
};

enum { STACK_LEAST = 64 << 10, STACK_MOST = 4 << 20, MATCH_LIMIT = 50000000 };

// PCRE2 counts U+180E among spaces, which Unicode does no longer: \s and \S are spelled out.
static void spaces_spell(const char *text, size_t length, Buffer *out) {
  static const char spaces[] = "\\t-\\r\\x{85}\\p{Z}";
  bool inside = false;  // of a class
  for (size_t i = 0; i < length; i++) {
    const bool pair = text[i] == '\\' && i + 1 < length;
    if (pair && text[i + 1] == 's') {
      buffer_format(out, inside ? "%s" : "[%s]", spaces);
    } else if (pair && text[i + 1] == 'S' && !inside) {
      buffer_format(out, "[^%s]", spaces);
    } else {
      inside = !pair && text[i] == '[' ? true : !pair && text[i] == ']' ? false : inside;
      buffer_bytes(out, text + i, pair ? 2 : 1);
    }
    i += pair;
  }
}

bool pattern_create(const char *text, size_t length, Pattern **pattern, Error *error) {
  Buffer spelled = {0};
  int problem;
  PCRE2_SIZE place;
  PCRE2_UCHAR words[256];
  Pattern *made = calloc(1, sizeof *made);
  spaces_spell(text, length, &spelled);
  if (!made || spelled.failed) {
    free(made);
    buffer_free(&spelled);
    return error_set(error, 3, "no memory");
  }
  made->code =
      pcre2_compile((PCRE2_SPTR)(spelled.text ? spelled.text : ""), spelled.length,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &problem, &place, NULL);
  made->behind = spelled.text && strstr(spelled.text, "(?m:^)");
  buffer_free(&spelled);
  if (!made->code) {
    pcre2_get_error_message(problem, words, sizeof words);
    free(made);
    if (problem == PCRE2_ERROR_HEAP_FAILED) {
      return error_set(error, 3, "no memory");
    }
    return error_set(error, 1, "the pattern %.*s cannot be read: %s", length < 200 ? (int)length : 200, text,
                     (const char *)words);
  }
  uint32_t behind = 0;
  pcre2_pattern_info(made->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
  made->behind |= behind > 0;
  made->compiled = pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  *pattern = made;
  return true;
}

bool pattern_looks_behind(const Pattern *pattern) {
  return pattern->behind;
}

bool pattern_knows_script(const char *name, size_t length) {
  Buffer text = {0};
  int problem;
  PCRE2_SIZE place;
  buffer_format(&text, "\\p{sc:%.*s}", (int)length, name);
  pcre2_code *code =
      text.failed ? NULL : pcre2_compile((PCRE2_SPTR)text.text, text.length, PCRE2_UTF, &problem, &place, NULL);
  buffer_free(&text);
  pcre2_code_free(code);
  return code != NULL;
}

void pattern_destroy(Pattern *pattern) {
  if (pattern) {
    pcre2_code_free(pattern->code);
    free(pattern);
  }
}

bool matcher_create(Matcher **matcher, Error *error) {
  Matcher *made = calloc(1, sizeof *made);
  if (made) {
    made->data = pcre2_match_data_create(1, NULL);
    made->context = pcre2_match_context_create(NULL);
    made->stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, NULL);
  }
  if (!made || !made->data || !made->context || !made->stack) {
    matcher_destroy(made);
    return error_set(error, 3, "no memory");
  }
  pcre2_jit_stack_assign(made->context, NULL, made->stack);
  pcre2_set_match_limit(made->context, MATCH_LIMIT);
  *matcher = made;
  return true;
}

void matcher_destroy(Matcher *matcher) {
  if (matcher) {
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    free(matcher);
  }
}

Match pattern_next(const Pattern *pattern, Matcher *matcher, const char *text, size_t length, size_t at, bool more,
                   size_t *begin, size_t *end) {
  const uint32_t partial = more ? PCRE2_PARTIAL_HARD : 0;
  PCRE2_SPTR subject = (PCRE2_SPTR)text;
  int count = pattern->compiled
                  ? pcre2_jit_match(pattern->code, subject, length, at, partial, matcher->data, matcher->context)
                  : PCRE2_ERROR_JIT_STACKLIMIT;
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) {  // of a long match
    count = pcre2_match(pattern->code, subject, length, at, partial | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data,
                        matcher->context);
  }
  const PCRE2_SIZE *found = pcre2_get_ovector_pointer(matcher->data);
  if (count == PCRE2_ERROR_NOMATCH) {
    return MATCH_NONE;
  }
  if (count < 0 && count != PCRE2_ERROR_PARTIAL) {
    return count == PCRE2_ERROR_NOMEMORY ? MATCH_STARVED : MATCH_FAILED;
  }
  *begin = found[0];
  *end = found[1];
  return count == PCRE2_ERROR_PARTIAL ? MATCH_MORE : MATCH_FOUND;
}

#else  // without the library

struct Pattern {
  int none;
};

struct Matcher {
  int none;
};

bool pattern_create(const char *text, size_t length, Pattern **pattern, Error *error) {
  (void)text, (void)length, (void)pattern;
  return error_set(error, 1,
                   "mdl was built without PCRE2, which tokenizers need; install libpcre2-dev and build again");
}

bool pattern_looks_behind(const Pattern *pattern) {
  (void)pattern;
  return false;
}

bool pattern_knows_script(const char *name, size_t length) {
  (void)name, (void)length;
  return false;
}

void pattern_destroy(Pattern *pattern) {
  free(pattern);
}

bool matcher_create(Matcher **matcher, Error *error) {
  *matcher = calloc(1, sizeof **matcher);
  return *matcher || error_set(error, 3, "no memory");
}

void matcher_destroy(Matcher *matcher) {
  free(matcher);
}

Match pattern_next(const Pattern *pattern, Matcher *matcher, const char *text, size_t length, size_t at, bool more,
                   size_t *begin, size_t *end) {
  (void)pattern, (void)matcher, (void)text, (void)length, (void)at, (void)more, (void)begin, (void)end;
  return MATCH_FAILED;
}

#endif
