// data_command.c: the commands of `mdl data`, each a thin layer over mdl.h.
#include "runtime/data_command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/options.h"
#include "base/units.h"
#include "runtime/mdl.h"

typedef struct {
  const char *out, *field, *tokenizer, *type, *pattern, *template;
  int64_t vocabulary;
  bool raw, chat, quiet, json;
} DataValues;

#define OUT_OPTION(what) \
  { "out", 'o', OPTION_TEXT, "FILE", offsetof(DataValues, out), 0, what " (must be given)" }
#define FIELD_OPTION                                                 \
  {                                                                  \
    "field", 0, OPTION_TEXT, "NAME", offsetof(DataValues, field), 0, \
        "files are JSON lines, and this field of each is a document" \
  }

#define SAY_OPTIONS                                                                                  \
  {"quiet", 'q', OPTION_FLAG, NULL, offsetof(DataValues, quiet), 0, "say nothing but errors"}, {     \
    "json", 0, OPTION_FLAG, NULL, offsetof(DataValues, json), 0, "one JSON object on stdout instead" \
  }

static const Option encode_options[] = {
    OUT_OPTION("the file of tokens that is made"),
    {"tokenizer", 0, OPTION_TEXT, "FILE", offsetof(DataValues, tokenizer), 0,
     "a tokenizer.json, a rank file of tiktoken, a .model of SentencePiece, or `bytes` (default: bytes)"},
    FIELD_OPTION,
    {"chat", 0, OPTION_FLAG, NULL, offsetof(DataValues, chat), 0,
     "files are JSON lines of conversations, and FILE.mask tells of each token whether it is of an answer"},
    {"template", 0, OPTION_TEXT, "TEXT", offsetof(DataValues, template), 0,
     "how a message is written, with {role}, {content}, {end} and \\n (default: as the tokenizer's tokens say)"},
    {"type", 0, OPTION_CHOICE, "u16|u32", offsetof(DataValues, type), 0,
     "of a token (default: the narrower one that holds all)"},
    {"raw", 0, OPTION_FLAG, NULL, offsetof(DataValues, raw), 0,
     "write no header: for more than 2147483647 tokens, or other programs"},
    SAY_OPTIONS,
};

static const Option train_options[] = {
    OUT_OPTION("the tokenizer.json that is made"),
    {"vocab", 0, OPTION_INTEGER, "N", offsetof(DataValues, vocabulary), 258,
     "tokens: 256 bytes, merges and <|endoftext|> (default: 32768)"},
    FIELD_OPTION,
    {"pattern", 0, OPTION_CHOICE, "gpt2|llama3|qwen", offsetof(DataValues, pattern), 0,
     "how text is cut into words; llama3 takes numbers three digits at a time, qwen one (default: llama3)"},
    SAY_OPTIONS,
};

static const DataValues data_defaults = {.vocabulary = 32768};

static int out_missing(const char *command) {
  fprintf(stderr, "mdl data %s: which file is to be made? Give -o FILE\n", command);
  return STATUS_USAGE;
}

static int report(const char *command, MdlStatus status, const MdlError *error) {
  if (status != MDL_DONE) {
    fprintf(stderr, "mdl data %s: %s\n", command, error->text);
  }
  return (int)status;
}

// The text with the escapes of a string of the language read; NULL, and said: there is another one.
static const char *template_read(Arena *arena, const char *text) {
  static const char letters[] = "nt\"\\", meant[] = "\n\t\"\\";
  char *made = arena_format(arena, "%s", text), *end = made;
  for (const char *at = text; *at; at++) {
    if (*at != '\\') {
      *end++ = *at;
      continue;
    }
    const char *letter = *++at ? strchr(letters, *at) : NULL;
    if (!letter) {
      fprintf(stderr,
              "mdl data encode: --template has a backslash that is none of the escapes \\n, \\t, \\\" and \\\\\n");
      return NULL;
    }
    *end++ = meant[letter - letters];
  }
  *end = '\0';
  return made;
}

typedef struct {
  const DataValues *data;
  const MdlEncoded *result;
} EncodeSaying;

static json_t *encode_json(void *context) {
  const EncodeSaying *saying = context;
  const MdlEncoded *result = saying->result;
  return json_pack("{s:o, s:I, s:s, s:I, s:I, s:b, s:f}", "file", json_text(saying->data->out), "tokens",
                   (json_int_t)result->tokens, "type", result->type, "documents", (json_int_t)result->documents,
                   "text_bytes", (json_int_t)result->text_bytes, "ends", (int)result->ends, "seconds", result->seconds);
}

static int encode_main(Arena *arena, const void *values, const OptionList *arguments) {
  const DataValues *data = values;
  const char *template = NULL;
  MdlError error;
  MdlEncoded result;
  char bytes[UNITS_MAX], speed[UNITS_MAX];
  if (!data->out) {
    return out_missing("encode");
  }
  if (data->chat && data->field) {
    fprintf(stderr, "mdl data encode: --chat takes whole lines, --field one field of each; give one of the two\n");
    return STATUS_USAGE;
  }
  if (data->template && !data->chat) {
    fprintf(stderr, "mdl data encode: --template says how conversations are written; give --chat too\n");
    return STATUS_USAGE;
  }
  if (data->template && !(template = template_read(arena, data->template))) {
    return STATUS_USAGE;
  }
  const MdlEncodeOptions options = {.files = arguments->at,
                                    .file_count = arguments->count,
                                    .field = data->field,
                                    .out = data->out,
                                    .tokenizer = data->tokenizer,
                                    .type = data->type,
                                    .raw = data->raw,
                                    .chat = data->chat,
                                    .chat_template = template,
                                    .notes = stderr,
                                    .screen = data->quiet ? NULL : stderr};
  const MdlStatus status = mdl_encode(&options, &result, &error);
  if (status != MDL_DONE) {
    return report("encode", status, &error);
  }
  if (data->json) {
    EncodeSaying saying = {data, &result};
    return json_line(stdout, "mdl data encode", encode_json, &saying) ? STATUS_DONE : STATUS_MEMORY;
  }
  if (data->quiet) {
    return STATUS_DONE;
  }
  printf("%s: %lld tokens of %s from %lld document%s of %s, %.3f bytes per token; %.1f s, %s a second\n", data->out,
         (long long)result.tokens, result.type, (long long)result.documents, result.documents == 1 ? "" : "s",
         units_bytes(bytes, (double)result.text_bytes), (double)result.text_bytes / (double)result.tokens,
         result.seconds, units_bytes(speed, (double)result.bytes / result.seconds));
  if (!result.ends) {
    printf(
        "note: the tokenizer has no token that ends a document, such as <|endoftext|>: documents follow each other\n");
  }
  const bool plain = !data->tokenizer || strcmp(data->tokenizer, "bytes") == 0;
  char out[PATH_MAX], tokenizer[PATH_MAX], mask[PATH_MAX];
  printf("write `data tokens(%s%s%s, tokenizer = %s", buffer_string(out, sizeof out, data->out), data->raw ? ", " : "",
         data->raw ? result.type : "", plain ? "bytes" : buffer_string(tokenizer, sizeof tokenizer, data->tokenizer));
  if (data->chat) {
    snprintf(mask, sizeof mask, "%s.mask", data->out);
    printf(", mask = %s", buffer_string(out, sizeof out, mask));
  }
  printf(");`\n");
  return STATUS_DONE;
}

typedef struct {
  const DataValues *data;
  const MdlTokenizerResult *result;
} TokenizerSaying;

static json_t *tokenizer_json_line(void *context) {
  const TokenizerSaying *saying = context;
  const MdlTokenizerResult *result = saying->result;
  return json_pack("{s:o, s:I, s:I, s:I, s:f}", "file", json_text(saying->data->out), "tokens",
                   (json_int_t)result->tokens, "text_bytes", (json_int_t)result->text_bytes, "pieces",
                   (json_int_t)result->pieces, "seconds", result->seconds);
}

static int tokenizer_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena;
  const DataValues *data = values;
  MdlError error;
  MdlTokenizerResult result;
  char bytes[UNITS_MAX];
  if (!data->out) {
    return out_missing("train-tokenizer");
  }
  const MdlTokenizerOptions options = {.files = arguments->at,
                                       .file_count = arguments->count,
                                       .field = data->field,
                                       .out = data->out,
                                       .pattern = data->pattern,
                                       .vocabulary = data->vocabulary,
                                       .notes = stderr,
                                       .screen = data->quiet ? NULL : stderr};
  const MdlStatus status = mdl_train_tokenizer(&options, &result, &error);
  if (status != MDL_DONE) {
    return report("train-tokenizer", status, &error);
  }
  if (data->json) {
    TokenizerSaying saying = {data, &result};
    return json_line(stdout, "mdl data train-tokenizer", tokenizer_json_line, &saying) ? STATUS_DONE : STATUS_MEMORY;
  }
  if (data->quiet) {
    return STATUS_DONE;
  }
  printf("%s: %lld tokens from %s of text, %lld different word%s; %.1f s\n", data->out, (long long)result.tokens,
         units_bytes(bytes, (double)result.text_bytes), (long long)result.pieces, result.pieces == 1 ? "" : "s",
         result.seconds);
  if (result.tokens < data->vocabulary) {
    printf("note: fewer than the %lld that were asked for: no further pair of tokens occurs twice\n",
           (long long)data->vocabulary);
  }
  char out[PATH_MAX];
  printf("write `data text(..., tokenizer = %s);` and `vocab = %lld`\n", buffer_string(out, sizeof out, data->out),
         (long long)result.tokens);
  return STATUS_DONE;
}

#define GROUP(table) \
  { "Options", table, sizeof table / sizeof *table, 0 }

static const OptionGroup encode_group = GROUP(encode_options), train_group = GROUP(train_options);

const Command data_commands[DATA_COMMAND_COUNT] = {
    {.name = "encode",
     .arguments = "FILE...",
     .summary = "makes a file of tokens, as llm.c has them, from text or JSON lines",
     .details =
         "Each file, or with --field each line, is a document, behind which stands the token that ends one. What "
         "gzip, zstd or xz packed is unpacked; `-` is standard input.",
     .least = 1,
     .most = -1,
     .groups = &encode_group,
     .group_count = 1,
     .size = sizeof(DataValues),
     .run = encode_main},
    {.name = "train-tokenizer",
     .arguments = "FILE...",
     .summary = "makes a tokenizer.json (BPE over bytes) from text or JSON lines",
     .details = "The same text gives the same tokenizer.",
     .least = 1,
     .most = -1,
     .groups = &train_group,
     .group_count = 1,
     .size = sizeof(DataValues),
     .defaults = &data_defaults,
     .run = tokenizer_main},
};
