// chat.c: messages are written as the template says; answers are encoded apart from what is around them.
#include "runtime/data/chat.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_guard.h"
#include "runtime/data/documents.h"

typedef struct {  // how models were taught that have these tokens
  const char *first, *last, *template, *answers, *begin;
} Style;

static const Style styles[] = {
    {"<|im_start|>", "<|im_end|>", "<|im_start|>{role}\n{content}<|im_end|>{end}\n", "assistant", NULL},
    {"<|start_header_id|>", "<|eot_id|>", "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>",
     "assistant", "<|begin_of_text|>"},
    {"<start_of_turn>", "<end_of_turn>", "<start_of_turn>{role}\n{content}<end_of_turn>{end}\n", "model", "<bos>"},
};

static const char role_mark[] = "{role}", content_mark[] = "{content}", end_mark[] = "{end}";

struct Chat {
  const Tokenizer *tokenizer;
  Encoder *encoder;
  const char *template, *begin, *answers;  // answers: the role that assistant is written as
  const char *content, *end;               // where {content} begins in the template, and {end}, or the end of it
  TokenList separator;
  Buffer pending;  // text that is not encoded yet
  int64_t answer_count, text_bytes;
  ChatOdd odd;
  const char *path;
  int64_t number;
  TokenList *tokens;
  Buffer *flags;
  Error *error;
};

// {word} that stands for nothing, as {Role} or {message}: it would be written as it is. NULL: there is none.
static const char *stranger(const char *template, size_t *length) {
  static const char *const marks[] = {role_mark, content_mark, end_mark};
  for (const char *at = strchr(template, '{'); at; at = strchr(at + 1, '{')) {
    bool known = false;
    *length = 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
      known |= strncmp(at, marks[i], strlen(marks[i])) == 0;
    }
    if (!known && *length > 1 && at[*length] == '}') {
      ++*length;
      return at;
    }
  }
  return NULL;
}

static bool template_check(Chat *chat, Error *error) {
  size_t length;
  const char *const strange = stranger(chat->template, &length);
  if (strange) {
    return error_set(error, 1,
                     "the template '%s' has %.*s, which stands for nothing; what is filled in is {role} and {content}, "
                     "and {end} is where an answer ends",
                     chat->template, (int)length, strange);
  }
  chat->content = strstr(chat->template, content_mark);
  if (!chat->content) {
    return error_set(error, 1,
                     "the template '%s' has no {content}; write for example "
                     "\"<|im_start|>{role}\\n{content}<|im_end|>{end}\\n\"",
                     chat->template);
  }
  const char *const behind = chat->content + strlen(content_mark), *const end = strstr(chat->template, end_mark);
  if (strstr(behind, content_mark) || strstr(behind, role_mark)) {
    return error_set(error, 1, "the template '%s' goes on with {role} or {content} behind {content}; both stand once",
                     chat->template);
  }
  if (end && strstr(end + strlen(end_mark), end_mark)) {
    return error_set(error, 1, "the template '%s' has {end} twice", chat->template);
  }
  if (end && end < behind) {
    return error_set(error, 1, "the template '%s' has {end} before {content}", chat->template);
  }
  chat->end = end ? end : behind + strlen(behind);
  return true;
}

static bool has_style(const Tokenizer *tokenizer, const Style *style) {
  return tokenizer && tokenizer_added(tokenizer, style->first) >= 0 && tokenizer_added(tokenizer, style->last) >= 0;
}

bool chat_known(const Tokenizer *tokenizer) {
  bool known = false;
  for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
    known |= has_style(tokenizer, &styles[i]);
  }
  return known;
}

static bool separator_set(Chat *chat, const SourceOptions *options, Error *error) {
  const int32_t end = chat->tokenizer ? tokenizer_end(chat->tokenizer) : 0;
  if (options->separator_is == SEPARATOR_TEXT) {
    return documents_encode(chat->tokenizer, options->separator, &chat->separator, error);
  }
  return options->separator_is == SEPARATOR_NONE || end < 0 || tokens_add(&chat->separator, end) ||
         error_set(error, 3, "no memory");
}

bool chat_create(const Tokenizer *tokenizer, const SourceOptions *options, Chat **chat, Error *error) {
  Chat *made = calloc(1, sizeof *made);
  const Style *style = &styles[0];
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  for (size_t i = sizeof styles / sizeof *styles; i-- > 0;) {
    style = has_style(tokenizer, &styles[i]) ? &styles[i] : style;
  }
  made->tokenizer = tokenizer;
  made->template = options->template ? options->template : style->template;
  made->answers = options->template ? "assistant" : style->answers;
  const bool begins = style->begin && (!tokenizer || tokenizer_added(tokenizer, style->begin) >= 0);
  made->begin = options->begin || options->template ? options->begin : begins ? style->begin : NULL;
  if (!template_check(made, error) || !separator_set(made, options, error) ||
      (tokenizer && !encoder_create(tokenizer, &made->encoder, error))) {
    chat_destroy(made);
    return false;
  }
  *chat = made;
  return true;
}

void chat_destroy(Chat *chat) {
  if (chat) {
    encoder_destroy(chat->encoder);
    tokens_free(&chat->separator);
    buffer_free(&chat->pending);
    free(chat);
  }
}

ChatOdd chat_odd(const Chat *chat) {
  return chat->odd;
}

bool chat_unanswered(const Chat *chat, const char *path, Error *error) {
  const bool odd = chat->odd.messages > 0;
  return error_set(error, 1, "%s has no answers: no message has the role \"assistant\"%s%s%s", path,
                   odd ? "; call the role '" : "", odd ? chat->odd.role : "", odd ? "' so" : "");
}

// Roles that other programs give to answers.
static void odd_count(Chat *chat, const char *role) {
  static const char *const names[] = {"assistant", "model", "gpt", "chatgpt", "bot", "chatbot", "ai"};
  bool odd = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    odd |= strcasecmp(role, names[i]) == 0;
  }
  if (odd && chat->odd.messages++ == 0) {
    snprintf(chat->odd.role, sizeof chat->odd.role, "%s", role);
  }
}

int64_t chat_text_bytes(const Chat *chat) {
  return chat->text_bytes;
}

int64_t chat_answers(const Chat *chat) {
  return chat->answer_count;
}

// Every token that has no flags yet gets these.
static bool flags_fill(Chat *chat, uint8_t flags) {
  while ((int64_t)chat->flags->length < chat->tokens->count && !chat->flags->failed) {
    buffer_bytes(chat->flags, &flags, 1);
  }
  return !chat->flags->failed || error_set(chat->error, 3, "no memory for %s", chat->path);
}

// Encodes the text so far.
static bool flush(Chat *chat, uint8_t flags) {
  size_t used;
  Buffer *pending = &chat->pending;
  if (pending->failed) {
    return error_set(chat->error, 3, "no memory for %s", chat->path);
  }
  if (chat->encoder && pending->length > 0 &&
      !encoder_add(chat->encoder, pending->text, pending->length, false, &used, chat->tokens, chat->error)) {
    return false;
  }
  for (size_t i = 0; !chat->encoder && i < pending->length; i++) {
    if (!tokens_add(chat->tokens, (uint8_t)pending->text[i])) {
      return error_set(chat->error, 3, "no memory for tokens");
    }
  }
  chat->text_bytes += (int64_t)pending->length;
  pending->length = 0;
  return flags_fill(chat, flags);
}

// What the template has ahead of a message's content.
static void head_put(const Chat *chat, const char *role, Buffer *out) {
  const char *at = chat->template;
  for (const char *found; (found = strstr(at, role_mark)) && found < chat->content; at = found + strlen(role_mark)) {
    buffer_bytes(out, at, (size_t)(found - at));
    buffer_text(out, role);
  }
  buffer_bytes(out, at, (size_t)(chat->content - at));
}

static bool texts_done(const Buffer *text, Error *error) {
  return !text->failed || error_set(error, 3, "no memory for a conversation");
}

bool chat_ending(const Chat *chat, Buffer *text, Error *error) {
  const char *const behind = chat->content + strlen(content_mark);
  buffer_bytes(text, behind, (size_t)(chat->end - behind));
  return texts_done(text, error);
}

bool chat_question(Chat *chat, const char *system, const char *question, Buffer *text, Error *error) {
  const char *const said[] = {system ? system : "", question}, *const roles[] = {"system", "user"};
  buffer_text(text, chat->begin ? chat->begin : "");
  for (int i = *said[0] ? 0 : 1; i < 2; i++) {
    head_put(chat, roles[i], text);
    buffer_text(text, said[i]);
    if (!chat_ending(chat, text, error)) {
      return false;
    }
    buffer_text(text, *chat->end ? chat->end + strlen(end_mark) : "");
  }
  head_put(chat, chat->answers, text);
  return texts_done(text, error);
}

// A message as the template says.
static bool message_add(Chat *chat, const char *role, const char *content, size_t length) {
  const bool answer = strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0;
  head_put(chat, answer ? chat->answers : role, &chat->pending);
  if (answer && !flush(chat, 0)) {
    return false;
  }
  const char *const behind = chat->content + strlen(content_mark);
  buffer_bytes(&chat->pending, content, length);
  buffer_bytes(&chat->pending, behind, (size_t)(chat->end - behind));
  if (answer && !flush(chat, TOKEN_ANSWER)) {
    return false;
  }
  buffer_text(&chat->pending, *chat->end ? chat->end + strlen(end_mark) : "");
  chat->answer_count += answer;
  return true;
}

static bool wrong(const Chat *chat, const char *what) {
  return error_set(chat->error, 1,
                   "%s:%lld: %s; a line is {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": "
                   "\"assistant\", \"content\": \"...\"}]} or {\"prompt\": \"...\", \"completion\": \"...\"}",
                   chat->path, (long long)chat->number, what);
}

// *answered: the last one is an answer.
static bool messages_add(Chat *chat, const json_t *root, bool *answered) {
  const json_t *messages = json_object_get(root, "messages"), *message;
  const json_t *prompt = json_object_get(root, "prompt"), *completion = json_object_get(root, "completion");
  size_t index;
  if (!messages && prompt && completion) {
    *answered = true;
    return json_is_string(prompt) && json_is_string(completion)
               ? message_add(chat, "user", json_string_value(prompt), json_string_length(prompt)) &&
                     message_add(chat, "assistant", json_string_value(completion), json_string_length(completion))
               : wrong(chat, "the prompt or the completion is no text");
  }
  if (!json_is_array(messages) || json_array_size(messages) == 0) {
    return wrong(chat, json_is_array(messages) ? "\"messages\" is an empty list"
                       : messages              ? "\"messages\" is no list of messages"
                       : prompt || completion  ? "of \"prompt\" and \"completion\" only one is there"
                                               : "the line has no \"messages\"");
  }
  chat->odd.both += prompt || completion;
  json_array_foreach(messages, index, message) {
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    char what[96];
    if (json_is_string(role) && strlen(json_string_value(role)) != json_string_length(role)) {
      snprintf(what, sizeof what, "the \"role\" of message %zu has a zero byte", index + 1);
      return wrong(chat, what);
    }
    if (!json_is_string(role) || !json_is_string(content)) {
      snprintf(what, sizeof what, "message %zu has %s", index + 1,
               !json_is_string(role) ? "no \"role\" that is text" : "no \"content\" that is text");
      return wrong(chat, what);
    }
    const char *of = json_string_value(role);
    *answered = strcmp(of, "assistant") == 0 || strcmp(of, "model") == 0;
    if (!*answered) {
      odd_count(chat, of);
    }
    if (!message_add(chat, of, json_string_value(content), json_string_length(content))) {
      return false;
    }
  }
  return true;
}

bool chat_add(Chat *chat, const char *path, int64_t number, const char *line, size_t length, TokenList *tokens,
              Buffer *flags, Error *error) {
  json_error_t problem;
  bool answered = false, starved;
  const int64_t first = tokens->count;
  chat->path = path;
  chat->number = number;
  chat->tokens = tokens;
  chat->flags = flags;
  chat->error = error;
  json_t *root =
      json_read(line, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem, &starved);
  if (starved) {
    return error_set(error, 3, "no memory for line %lld of %s", (long long)number, path);
  }
  if (!json_is_object(root)) {
    const bool json = root != NULL;
    json_decref(root);
    char what[sizeof problem.text + 64];
    snprintf(what, sizeof what, "the line is no JSON, at byte %d: %s", problem.position, problem.text);
    return wrong(chat, json ? "the line is no object {...}" : what);
  }
  if (chat->encoder) {
    encoder_go_on(chat->encoder, true);
  }
  chat->pending.length = 0;
  buffer_text(&chat->pending, chat->begin ? chat->begin : "");
  const bool done = messages_add(chat, root, &answered) && flush(chat, 0);
  json_decref(root);
  if (chat->encoder) {
    encoder_go_on(chat->encoder, false);
  }
  for (int64_t i = 0; done && i < chat->separator.count; i++) {
    if (!tokens_add(tokens, chat->separator.at[i])) {
      return error_set(error, 3, "no memory for tokens");
    }
  }
  if (!done || !flags_fill(chat, answered ? TOKEN_ANSWER : 0)) {
    return false;
  }
  if (tokens->count > first) {
    flags->text[first] = (char)(flags->text[first] | TOKEN_BEGINS);
  }
  return true;
}
