// generate_chat.c: where the template of a run's conversations is, and prompts by it.
#include "runtime/generate_chat.h"

#include <string.h>

// The first source that is conversations. False: there is none.
static bool find_source(const PlanRun *run, SourceLine *line) {
  for (const char *at = run->data_path; at && strcmp(run->data_kind, "mix") == 0 && *at;) {
    const size_t length = strcspn(at, "\n");
    if (source_line(at, length, line) && strcmp(line->kind, "chat") == 0) {
      return true;
    }
    at += length + (at[length] != '\0');
  }
  return false;
}

// Of that source; *out stays empty if there is none.
static bool find_options(const PlanRun *run, SourceOptions *out, Error *error) {
  SourceLine line;
  return source_options(find_source(run, &line) ? line.options : NULL, out, error);
}

bool chat_prompt_fits(const PlanRun *run) {
  SourceLine line;
  return find_source(run, &line);
}

bool chat_prompt_open(const PlanRun *run, const Tokenizer *tokenizer, const char *const *stops, int stop_count,
                      ChatPrompt *prompt, Error *error) {
  SourceOptions *told = &prompt->told;
  *prompt = (ChatPrompt){0};
  if (stop_count > 64) {
    return error_set(error, 2, "there are %d texts that end an answer, and at most 64 are looked for", stop_count);
  }
  if (!find_options(run, told, error) || !chat_create(tokenizer, told, &prompt->chat, error)) {
    return false;
  }
  for (int i = 0; i < stop_count; i++) {
    prompt->stops[prompt->stop_count++] = stops[i];
  }
  if (!chat_ending(prompt->chat, &prompt->stop, error)) {
    return false;
  }
  if (prompt->stop.length > 0) {
    prompt->stops[prompt->stop_count++] = prompt->stop.text;
  }
  return true;
}

bool chat_prompt_put(ChatPrompt *prompt, const char *system, const char *question, Error *error) {
  prompt->text.length = 0;
  return chat_question(prompt->chat, system, question, &prompt->text, error);
}

void chat_prompt_close(ChatPrompt *prompt) {
  chat_destroy(prompt->chat);
  buffer_free(&prompt->text);
  buffer_free(&prompt->stop);
}
