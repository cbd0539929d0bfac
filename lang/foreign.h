// foreign.h: words and marks of other languages, and how this one says what they mean.
#ifndef MDL_LANG_FOREIGN_H
#define MDL_LANG_FOREIGN_H

#include <stdbool.h>

// Each returns a help, or NULL for what is no such word.
const char *foreign_statement(const char *word);    // begins a statement: for, def, while, let
const char *foreign_name(const char *word);         // stands for a value: True, None
const char *foreign_function(const char *word);     // is called: matmul, transpose
const char *foreign_update(const char *word);       // is named as an optimizer: muon, AdamW
const char *foreign_precision(const char *word);    // is named as a precision: fp16, bfloat16
const char *foreign_layout(const char *word);       // is given in a layout: fsdp, zero
const char *foreign_parameter(const char *word);    // is an argument's name: weight_decay; what it is called here
const char *foreign_of_schedule(const char *word);  // is given to an update: warmup, min_lr; what a schedule calls it
const char *foreign_member(const char *word);       // stands behind a dot, without a call: shape, T
const char *foreign_setting(const char *word);      // is given in a recipe: batch_size, lr
const char *foreign_assigned(const char *word);     // is given in a recipe with =, which it does not take: data, allow
const char *foreign_set(const char *word);          // is given to --set: optimizer, data
const char *foreign_input(const char *word);  // is an input of a model: labels, input_ids; what data calls it here
const char *foreign_mark(const char *mark, int length);  // @ ? $, or a character of so many bytes, as a curly quote

const char *foreign_misspelled(const char *word);  // the word that begins a statement which this is most like

// A module of another language, as in `nn.linear(...)`.
bool foreign_module(const char *word);

#endif
