// generate_chat.h: prompts as turns of a conversation, written as the run's data is.
#ifndef MDL_RUNTIME_GENERATE_CHAT_H
#define MDL_RUNTIME_GENERATE_CHAT_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"
#include "runtime/data/chat.h"

typedef struct {
  Chat *chat;
  SourceOptions told;  // what the chat's template lies in
  Buffer text;
  const char *stops[1 + 64];  // of the options, and what ends an answer
  int stop_count;
  Buffer stop;
} ChatPrompt;

// The template is that of the run's conversations, else the one that fits the tokenizer. False with `error` set where
// there are more than 64 `stops`.
bool chat_prompt_open(const PlanRun *run, const Tokenizer *tokenizer, const char *const *stops, int stop_count,
                      ChatPrompt *prompt, Error *error);
// The text from which a model goes on with its answer, in prompt->text; `system` NULL or "": nothing is said ahead.
bool chat_prompt_put(ChatPrompt *prompt, const char *system, const char *question, Error *error);
bool chat_prompt_fits(const PlanRun *run);  // its data has conversations
void chat_prompt_close(ChatPrompt *prompt);

#endif
