// chat.h: conversations, one a line of JSON, to tokens, and which of these are answers.
//
// A line is {"messages": [{"role": "user", "content": "..."}, ...]} or {"prompt": "...", "completion": "..."}. A
// template says how a message is written: {role} and {content} stand for those of the message. Answers are the content
// of messages whose role is assistant (or model), and what the template has behind it up to {end}, so that a model
// learns to end them. An answer is encoded by itself, as generation will: the text before it ends where it begins.
#ifndef MDL_RUNTIME_DATA_CHAT_H
#define MDL_RUNTIME_DATA_CHAT_H

#include "base/buffer.h"
#include "runtime/data/source.h"
#include "runtime/data/tokenizer.h"

typedef struct Chat Chat;

// Of a token, one byte: also what a file of masks has (token_file.h).
enum { TOKEN_ANSWER = 1, TOKEN_BEGINS = 2 };  // it is of an answer; a document begins with it

// `tokenizer` NULL: tokens are bytes. Without a template in the options it is the one that the tokenizer has tokens
// for (<|im_start|>, <|start_header_id|>, <start_of_turn>), else that of <|im_start|>, spelled out. Behind each
// conversation stands the separator, or the token that ends a document.
bool chat_create(const Tokenizer *tokenizer, const SourceOptions *options, Chat **chat, Error *error);
void chat_destroy(Chat *chat);
bool chat_known(const Tokenizer *tokenizer);  // it has the tokens of one of these templates

// Appends the tokens of a conversation, and a byte for each to `flags`.
bool chat_add(Chat *chat, const char *path, int64_t number, const char *line, size_t length, TokenList *tokens,
              Buffer *flags, Error *error);
// The text of a conversation up to where the answer to a question begins, and what ends an answer; into empty buffers.
// `system`: what a message of that role says ahead of it; NULL or "": there is none.
bool chat_question(Chat *chat, const char *system, const char *question, Buffer *text, Error *error);
bool chat_ending(const Chat *chat, Buffer *text, Error *error);

int64_t chat_text_bytes(const Chat *chat);  // of conversations so far, as the template writes them
int64_t chat_answers(const Chat *chat);     // messages so far that are answers

typedef struct ChatOdd {  // messages of a role that is none here and that others give to answers, such as `gpt` or
                          // `Assistant`
  int64_t messages;
  char role[16];  // of the first of them
  int64_t both;   // lines with messages, which are read alone, and a prompt or a completion
} ChatOdd;

ChatOdd chat_odd(const Chat *chat);
bool chat_unanswered(const Chat *chat, const char *path, Error *error);  // false: the error that there are no answers

#endif
