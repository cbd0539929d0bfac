// convert.h: from a directory of Hugging Face to a run, and back.
#ifndef MDL_RUNTIME_CONVERT_CONVERT_H
#define MDL_RUNTIME_CONVERT_CONVERT_H

#include "compiler/compile.h"
#include "runtime/io.h"

#define CONVERT_KEPT "hf"  // folder of a run: what came with its weights, but for these
#define CONVERT_TOKENIZER_JSON "tokenizer.json"
#define CONVERT_TOKENIZER_MODEL "tokenizer.model"  // of SentencePiece

enum { CONVERT_BEGIN_MAX = 64 };

typedef struct {
  const char *from;  // the directory
  const char *out;   // run directory; NULL: a fresh runs/<model>-<n>
  const char *mapping;
  const char *adapters;    // a directory of PEFT, put over the weights; or NULL
  const char *data;        // of the recipe; NULL: a name
  CompileOptions compile;  // of a text of one's own; file NULL: the model in the binary, with a recipe that is made
  bool (*show)(void *context, const Diag *diag);  // what is wrong with the text
  void *context;
} ImportOptions;

typedef struct {
  char run[IO_PATH_MAX], note[ERROR_MAX];
  const char *mapping;  // in the arena
  const char *model;
  double parameters;
  int64_t sequence, longest;  // of the recipe; that config.json names, 0: none
  bool tokenizer;
  char begin[CONVERT_BEGIN_MAX];  // the token that transformers puts ahead of a text; "": none
} Imported;

bool convert_import(Arena *arena, const ImportOptions *options, Imported *result, Error *error);

typedef struct {
  const char *from;  // a run or a checkpoint
  const char *out;   // the directory that is made
  const char *mapping;
  const char *dtype;    // "f32", "bf16", "f16"
  int64_t shard_bytes;  // of a file, at most, where a tensor is not larger; 0: 5 GB
  bool merge;           // adapters are added to the weights beside them
  bool peft;            // a directory of PEFT is made, of adapters alone
  const char *trunk;    // where frozen parameters are that the run left out; NULL: where they were
} ExportOptions;

typedef struct {
  const char *type, *mapping;
  int tensors, files;
  int64_t bytes, step;
  bool tokenizer;
  bool base;           // of PEFT: the directory of the model is named
  bool own_tokenizer;  // it is that of the data of the run, and came with no weights
  int not_finite;      // tensors with numbers that are NaN or infinite
} Exported;

bool convert_export(Arena *arena, const ExportOptions *options, Exported *result, Error *error);

typedef struct {
  const char *from;  // a run or a checkpoint, with adapters
  const char *out;   // run directory; NULL: a fresh runs/<model>-<n>
  const char *mapping;
  const char *trunk;  // where frozen parameters are that the run left out; NULL: where they were
} MergeOptions;

typedef struct {
  char run[IO_PATH_MAX];
  const char *mapping;  // in the arena
  const char *model;
  double parameters;
  int adapters;  // that were added
  int64_t step;
} Merged;

// A run of the model without adapters, at step 0, whose weights compute the same.
bool convert_merge(Arena *arena, const MergeOptions *options, Merged *result, Error *error);

// Copies what comes with weights (tokenizer, generation settings, with `config` also config.json) where it is there.
bool convert_copy_kept(const char *from, const char *to, bool config, bool *tokenizer, Error *error);

#endif
