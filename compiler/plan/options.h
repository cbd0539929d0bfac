// options.h: what the compiler is asked for.
#ifndef MDL_COMPILER_PLAN_OPTIONS_H
#define MDL_COMPILER_PLAN_OPTIONS_H

#include "base/diag.h"
#include "compiler/plan/plan.h"

typedef struct {     // a value of the training step that is also an output of it
  const char *name;  // value.layers.0.h, loss, gradient.layers.0.q.w
  Span span;         // of what makes it, or of the parameter
  int depth;         // operations on the longest way to it
  // With CompiledValues.every:
  const char *op;     // that makes it; of the gradient of a value, the last that reads the value; NULL: of a parameter
  const char *where;  // path of the function or round it is in
  int uses;           // of the gradient of a value: nodes that read the value, each of which may have made it
  bool unnamed;       // the text has no name for it: `name` is made from the path and the op
  bool infinite;      // made from an infinity that the text writes, as masks are: infinities in it are no fault
} CompiledValue;

typedef struct {  // in the order of the program
  Arena *arena;   // of the list, given by the caller
  // Given by the caller: not only values with a name, but what each operation makes; behind the loss the gradients of
  // all these, "gradient.value.layers.0.h", in the order of the backward.
  bool every;
  CompiledValue *at;
  int count, capacity;
} CompiledValues;

typedef struct {
  const char *file;        // path of the .mdl text
  const char *recipe;      // NULL: the only one of the file
  const char *layout;      // NULL: what the recipe says, else one rank
  const char *precision;   // NULL: what the recipe says, else fp32
  const char *const *set;  // "name=value" strings
  int set_count;
  const char *const *watched;  // selectors, as of the recipe's `watch`
  int watch_count;
  // For generating text: the plan has the programs `prefill` and `decode` too, which keep keys and values, or says why
  // not (PlanProgram.missing); and all of them have logits of one position alone, the input `last`.
  bool decode;
  bool poison;       // NaN wherever padding may hold anything. For tests
  int microbatches;  // instead of what the layout says; 0: that. For whoever compares programs of one microbatch
  bool gradients;    // the train program also has an output "gradient.NAME" for each trained parameter
  // Not NULL: the train program also has an output "value.PATH" for each named, labelled or returned real value of the
  // forward that depends on data, summed over the microbatches, and the list says what they and the gradients are. Some
  // of the list are no outputs: values that no microbatch has its part of, gradients that are all 0.
  CompiledValues *values;
  const char *after;    // compile_print: the pass after which to print
  ProgramKind program;  // compile_print: which program
  // Logits of more bytes on a rank are computed in parts of their rows; 0: those that are large on a GPU. For tests.
  int64_t chunk_bytes;
  // Sums of gradients over ranks are made in buckets of at least so many bytes, and parameters of which ranks store
  // pieces are gathered in the same; 0: 64 MiB. For tests.
  int64_t bucket_bytes;
  // Products that wait for collectives, or collectives for them, are cut into parts of at least so many rows; 0: where
  // that takes less time on a GPU. For tests.
  int64_t part_rows;
  bool trains_all;  // the recipe's optimizers with selectors and what it freezes are left out: the model has other
                    // parameters
  bool idle_rules;  // what cuts or selects nothing in a layout is no error: for layouts drawn at random
  // Bytes that the front end, and then each program, may take; 0: what is enough for any model. For tests.
  size_t memory;
  int64_t rank;                 // compile_print: whose graph or instructions
  struct CompileView *view;     // filled with what explain.h wants to know; NULL: nobody does
  struct PassWatch *watch;      // is shown the graph after every pass (compilation.h); NULL: nobody looks. For tests
  bool brief;                   // compile_check: no further than the graph of what is trained
  const struct OpenText *open;  // texts that are read instead of their files (lang/unit.h)
  int open_count;
  const struct TextWatch *text_watch;  // is told what the text's names stand for (lang/elaborate.h); NULL: nobody is
} CompileOptions;

#endif
