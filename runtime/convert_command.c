// convert_command.c: options of `mdl convert`, and what it says when it is done.
#include "runtime/convert_command.h"

#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "runtime/eval_command.h"
#include "runtime/mdl.h"

static const Option convert_options[] = {
    {"to", 0, OPTION_CHOICE, "hf|peft|mdl", offsetof(ConvertValues, to), 0,
     "what is made: a directory of Hugging Face from a run, one of PEFT from its adapters, or a run (default: mdl)"},
    {"out", 'o', OPTION_TEXT, "DIR", offsetof(ConvertValues, out), 0,
     "the directory that is made (default of a run: a fresh runs/MODEL-N)"},
    {"merge", 0, OPTION_FLAG, NULL, offsetof(ConvertValues, merge), 0,
     "of a run with adapters: they are added to the weights beside them, for the model without adapters"},
    {"adapters", 0, OPTION_TEXT, "DIR", offsetof(ConvertValues, adapters), 0,
     "to a run: with the adapters of this directory of PEFT beside the weights"},
    TRUNK_OPTION(ConvertValues),
    {"mapping", 0, OPTION_TEXT, "FILE.hf", offsetof(ConvertValues, mapping), 0,
     "how weights are named (default: beside --model, else of those built in)"},
    {"model", 0, OPTION_TEXT, "FILE", offsetof(ConvertValues, model), 0,
     "to a run: a text of your own, with a recipe; its sizes are set (default: the model built in)"},
    {"data", 0, OPTION_TEXT, "FILE", offsetof(ConvertValues, data), 0,
     "to a run: the data that its recipe names (default: train.txt)"},
    {"dtype", 0, OPTION_CHOICE, "f32|bf16|f16", offsetof(ConvertValues, dtype), 0,
     "to hf: elements of the weights (default: f32)"},
    {"shard", 0, OPTION_INTEGER, "MB", offsetof(ConvertValues, shard), 1,
     "to hf: at most so many megabytes of weights in a file (default: 5000)"},
};

const OptionGroup convert_groups[CONVERT_GROUP_COUNT] = {
    {"Options", convert_options, sizeof convert_options / sizeof *convert_options, 0},
    COMMAND_GROUP(ConvertValues, compile)};

const char *convert_beside(Arena *arena, const char *text) {
  const size_t length = strlen(text);
  if (length < 4 || strcmp(text + length - 4, ".mdl") != 0) {
    return NULL;
  }
  const char *beside = arena_format(arena, "%.*s.hf", (int)length - 4, text);
  return file_exists(beside) ? beside : NULL;
}

static int report(const MdlError *error) {
  fprintf(stderr, "mdl convert: %s\n", error->text);
  return (int)error->status;
}

static int to_run(Arena *arena, const ConvertValues *values, const char *from) {
  MdlError error;
  MdlImported result;
  char count[UNITS_MAX];
  const CommandFlags *flags = &values->compile;
  const MdlImportOptions options = {
      .from = from,
      .out = values->out,
      .model = values->model,
      .mapping = values->mapping || !values->model ? values->mapping : convert_beside(arena, values->model),
      .data = values->data,
      .adapters = values->adapters,
      .compile = {.recipe = flags->recipe,
                  .layout = flags->layout,
                  .precision = flags->precision,
                  .set = flags->set.at,
                  .set_count = flags->set.count,
                  .watched = flags->watched.at,
                  .watch_count = flags->watched.count,
                  .diagnostics = stderr,
                  .diagnostics_json = flags->diagnostics && strcmp(flags->diagnostics, "json") == 0}};
  if (mdl_import(&options, &result, &error)) {
    return report(&error);
  }
  printf("%s: %s, %s parameters, by %s\n", result.run, result.model, units_count(count, result.parameters),
         result.mapping);
  if (result.longest > result.sequence) {
    printf("note: windows of %lld tokens, of %lld that the model allows; --set seq=N makes them longer\n",
           (long long)result.sequence, (long long)result.longest);
  } else if (result.longest > 0 && result.longest < result.sequence) {
    printf("note: windows of %lld tokens, and the model was made for %lld; --set seq=N makes them shorter\n",
           (long long)result.sequence, (long long)result.longest);
  }
  if (result.note[0]) {
    printf("note: %s\n", result.note);
  }
  if (result.begin[0]) {
    printf(
        "note: transformers puts %s ahead of each text, and here nothing is put there: write it in the prompt, and in "
        "data "
        "where the model was trained so\n",
        result.begin);
  }
  Buffer path = {0};
  buffer_shell(&path, result.run);
  const bool text = result.tokenizer || values->model;  // a text of one's own may name a tokenizer
  Buffer begin = {0};
  buffer_format(&begin, "%sTEXT", result.begin);
  Buffer prompt = {0};
  buffer_shell(&prompt, begin.text ? begin.text : "TEXT");
  printf("try mdl generate %s%s --prompt %s, or mdl train FILE --from %s\n", path.text ? path.text : "",
         text ? "" : " --tokenizer FILE", prompt.text ? prompt.text : "TEXT", path.text ? path.text : "");
  buffer_free(&begin);
  buffer_free(&prompt);
  buffer_free(&path);
  return STATUS_DONE;
}

static int to_hf(const ConvertValues *values, const char *from) {
  MdlError error;
  MdlExported result;
  char size[UNITS_MAX];
  const int64_t megabyte = 1000000;
  if (values->shard > INT64_MAX / megabyte) {
    fprintf(stderr, "mdl convert: --shard takes at most %lld, not %lld\n", (long long)(INT64_MAX / megabyte),
            (long long)values->shard);
    return STATUS_USAGE;
  }
  const MdlExportOptions options = {.from = from,
                                    .out = values->out,
                                    .mapping = values->mapping,
                                    .dtype = values->dtype,
                                    .shard_bytes = values->shard * megabyte,
                                    .merge = values->merge,
                                    .peft = strcmp(values->to, "peft") == 0,
                                    .trunk = values->trunk};
  if (mdl_export(&options, &result, &error)) {
    return report(&error);
  }
  printf("%s: %s of step %lld, %d tensors, %s in %d file%s, by %s\n", values->out, result.type, (long long)result.step,
         result.tensors, units_bytes(size, (double)result.bytes), result.files, result.files == 1 ? "" : "s",
         result.mapping);
  if (result.not_finite) {
    printf("note: %d of the tensors hold%s numbers that are NaN or infinite, as in the run\n", result.not_finite,
           result.not_finite == 1 ? "s" : "");
  }
  if (options.peft && !result.base) {
    printf("note: base_model_name_or_path is null: the run does not say which directory its model came from\n");
  } else if (!options.peft && !result.tokenizer) {
    printf(
        "note: %s has no tokenizer: the run names neither a tokenizer.json nor a .model of SentencePiece, or it is "
        "gone\n",
        values->out);
  } else if (result.own_tokenizer && strcmp(result.type, "qwen2") == 0) {
    printf(
        "note: AutoTokenizer of transformers cuts text as Qwen does, whatever %s/tokenizer.json says; "
        "PreTrainedTokenizerFast.from_pretrained has the tokens of the run\n",
        values->out);
  }
  return STATUS_DONE;
}

static int to_merged(const ConvertValues *values, const char *from) {
  MdlError error;
  MdlMerged result;
  char count[UNITS_MAX];
  const MdlMergeOptions options = {
      .from = from, .out = values->out, .mapping = values->mapping, .trunk = values->trunk};
  if (mdl_merge(&options, &result, &error)) {
    return report(&error);
  }
  printf("%s: %s of step %lld with %d adapters added to its weights, %s parameters, by %s\n", result.run, result.model,
         (long long)result.step, result.adapters, units_count(count, result.parameters), result.mapping);
  return STATUS_DONE;
}

// What says how a run is made from a directory of Hugging Face; or NULL.
static const char *option_of_import(const ConvertValues *convert) {
  return convert->model      ? "--model"
         : convert->data     ? "--data"
         : convert->adapters ? "--adapters"
                             : command_text_only(&convert->compile);
}

int convert_main(Arena *arena, const void *values, const OptionList *arguments) {
  const ConvertValues *convert = values;
  const char *from = arguments->at[0], *wrong = NULL;
  const bool peft = convert->to && strcmp(convert->to, "peft") == 0;
  if (peft || (convert->to && strcmp(convert->to, "hf") == 0)) {
    wrong = option_of_import(convert);
    if (wrong) {
      fprintf(stderr, "mdl convert: %s is for making a run; a run that is written --to %s has all of that\n", wrong,
              convert->to);
      return STATUS_USAGE;
    }
    if (peft && (convert->merge || convert->shard)) {
      fprintf(stderr, "mdl convert: %s; leave %s out\n",
              convert->merge ? "--to peft writes adapters by themselves, --merge adds them to the weights"
                             : "adapters are written in one file",
              convert->merge ? "one of them" : "--shard");
      return STATUS_USAGE;
    }
    if (!convert->out) {
      fprintf(stderr, "mdl convert: which directory is to be made? Give -o DIR\n");
      return STATUS_USAGE;
    }
    return to_hf(convert, from);
  }
  wrong = convert->dtype ? "--dtype" : convert->shard ? "--shard" : NULL;
  if (!wrong && convert->merge) {
    wrong = option_of_import(convert);
    if (!wrong) {
      return to_merged(convert, from);
    }
    fprintf(stderr, "mdl convert: %s is for weights of Hugging Face; what is merged has the text of its run\n", wrong);
    return STATUS_USAGE;
  }
  if (!wrong && convert->trunk) {
    wrong = "--trunk";
  }
  if (wrong || mdl_run_is(from)) {
    fprintf(stderr,
            wrong
                ? "mdl convert: %s is for what is written --to hf; give that\n"
                : "mdl convert: %s is a run; give --to hf to write a directory of Hugging Face, --to peft to write its "
                  "adapters, or --merge to merge them\n",
            wrong ? wrong : from);
    return STATUS_USAGE;
  }
  if (convert->compile.recipe && !convert->model) {
    fprintf(stderr,
            "mdl convert: --recipe is of a text of your own; give --model FILE, or change the recipe by --set\n");
    return STATUS_USAGE;
  }
  return to_run(arena, convert, from);
}
