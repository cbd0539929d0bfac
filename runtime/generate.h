// generate.h: text from a trained model.
#ifndef MDL_RUNTIME_GENERATE_H
#define MDL_RUNTIME_GENERATE_H

#include "runtime/data/tokenizer.h"
#include "runtime/session.h"

typedef struct {
  const char *prompt;
  int64_t tokens, top_k;
  double temperature, top_p;
  const char *const *stops;  // each ends the text, and is no part of it
  int stop_count;
  const Tokenizer *tokenizer;  // NULL: tokens are bytes
  bool whole;                  // every token is made from the whole context, whatever the plan can keep
  uint64_t seed;
} GenerateOptions;

typedef bool GenerateText(void *context, const char *bytes, size_t length);

// What stands behind `mdl generate RUN` for a run of this plan; NULL: no text can be made, or nobody knows of which
// tokens.
const char *generate_words(const PlanSet *set);
bool generate_possible(const PlanSet *set);  // from text alone

// Can this session make text? So that nothing is said of a text before that is known.
bool generate_ready(Session *session, bool whole, Error *error);
bool generate_run(Session *session, const GenerateOptions *options, GenerateText *text, void *context, Error *error);

// Picks a token by its scores: deterministic in (seed, position). `order` is scratch of `count` entries.
int32_t generate_pick(const double *scores, int32_t count, const GenerateOptions *options, int64_t position,
                      int32_t *order);

// How many of the bytes form whole UTF-8 characters, or cannot be the beginning of one.
size_t generate_whole(const char *bytes, size_t length);

#endif
