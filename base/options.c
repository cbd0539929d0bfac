// options.c: parsing and help from option tables.
#include "base/options.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/names.h"
#include "base/report.h"
#include "base/spelled.h"
#include "base/stack.h"

enum { HELP_WIDTH = 100, HELP_INDENT = 28 };

typedef struct {
  const Option *option;
  const char *text;
} Taken;

typedef struct {
  Arena *arena;
  const Command *command;
  char *values;
  ARRAY(const char *) plain;
  ARRAY(Taken) taken;
  Buffer *problem;
} Parser;

static const Option *option_find(const Command *command, const char *name, size_t length, char letter, size_t *base) {
  for (int g = 0; g < command->group_count; g++) {
    const OptionGroup *group = &command->groups[g];
    for (int i = 0; i < group->count; i++) {
      const Option *option = &group->options[i];
      bool long_form = name && strlen(option->name) == length && strncmp(option->name, name, length) == 0;
      if (long_form || (letter && option->letter == letter)) {
        *base = group->base;
        return option;
      }
    }
  }
  return NULL;
}

// What other programs call it. The help is for commands that have the option in it.
static const char *option_foreign(const Command *command, const char *word) {
  static const struct {
    const char *word, *needs, *help;
  } foreign[] = {
      {"batch", "set", "a setting of the recipe is --set batch=N"},
      {"batch-size", "set", "a setting of the recipe is --set batch=N"},
      {"bs", "set", "a setting of the recipe is --set batch=N"},
      {"seq", "set", "a setting of the recipe is --set seq=N"},
      {"seq-len", "set", "a setting of the recipe is --set seq=N"},
      {"seed", "set", "a setting of the recipe is --set seed=N"},
      {"lr", "set", "it belongs to the optimizer: --set optimizer.lr=X, or --set optimizer.lr.peak=X of a schedule"},
      {"learning-rate", "set",
       "it belongs to the optimizer: --set optimizer.lr=X, or --set optimizer.lr.peak=X of a schedule"},
      {"weight-decay", "set", "it belongs to the optimizer: --set optimizer.decay=X"},
      {"epochs", "steps", "training goes by steps: --steps N"},
      {"max-steps", "steps", "training goes by steps: --steps N"},
      {"dtype", "precision", "did you mean --precision?"},
      {"gpus", "layout", "how many ranks there are says the layout: --layout NAME"},
      {"devices", "layout", "how many ranks there are says the layout: --layout NAME"},
      {"max-tokens", "tokens", "did you mean --tokens?"},
      {"max-new-tokens", "tokens", "did you mean --tokens?"},
      {"temp", "temperature", "did you mean --temperature?"},
      {"output-dir", "out", "did you mean --out?"},
      {"save-dir", "out", "did you mean --out?"},
      {"model", "recipe", "the model is that of the text, FILE.mdl; one recipe of several is --recipe NAME"},
      {"config", "recipe", "the text is an argument, FILE.mdl; one recipe of several is --recipe NAME"},
      {"checkpoint", "from", "weights to begin with are --from DIR; a run is continued with --resume"},
      {"pretrained", "from", "weights to begin with are --from DIR"},
      {"init-from", "from", "weights to begin with are --from DIR"},
      {"optimizer", "set", "an argument of it is --set optimizer.lr=X; another optimizer is another recipe"},
      {"warmup", "set", "it belongs to a schedule: --set optimizer.lr.warmup=N"},
      {"warmup-steps", "set", "it belongs to a schedule: --set optimizer.lr.warmup=N"},
      {"workers", "threads", "did you mean --threads?"},
      {"num-workers", "threads", "did you mean --threads?"},
      {"fp16", "precision", "half precision is --precision bf16"},
      {"bf16", "precision", "it is --precision bf16"},
      {"tp", "layout", "how work is divided says a layout: --layout NAME, --set mesh.tp=N for the size of its mesh"},
      {"dp", "layout", "how work is divided says a layout: --layout NAME, --set mesh.dp=N for the size of its mesh"},
      {"num-samples", "prompt", "one text is made for each --prompt TEXT"},
      {"text", "prompt", "did you mean --prompt?"},
  };
  char name[32];
  size_t length = 0, base;
  for (; word[length] && length + 1 < sizeof name; length++) {
    name[length] = word[length] == '_' ? '-' : word[length];
  }
  name[length] = '\0';
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    if (strcmp(foreign[i].word, name) == 0 &&
        option_find(command, foreign[i].needs, strlen(foreign[i].needs), '\0', &base)) {
      return foreign[i].help;
    }
  }
  return NULL;
}

static void option_unknown(Parser *parser, const char *word) {
  const char *candidates[128];
  int count = 0;
  for (int g = 0; g < parser->command->group_count; g++) {
    for (int i = 0; i < parser->command->groups[g].count && count < 128; i++) {
      candidates[count++] = parser->command->groups[g].options[i].name;
    }
  }
  char *bare = arena_format(parser->arena, "%s", word + strspn(word, "-"));
  bare[strcspn(bare, "=")] = '\0';
  const char *closest = text_closest(bare, candidates, count), *foreign = option_foreign(parser->command, bare);
  buffer_format(parser->problem, "unknown option '%.*s'", (int)strcspn(word, "="), word);
  if (foreign) {
    buffer_format(parser->problem, "; %s", foreign);
  } else if (closest) {
    buffer_format(parser->problem, "; did you mean --%s?", closest);
  }
}

static bool choice_holds(const char *choices, const char *word) {
  size_t length = strlen(word);
  for (const char *at = choices; *at;) {
    size_t size = strcspn(at, "|");
    if (size == length && strncmp(at, word, size) == 0) {
      return true;
    }
    at += size + (at[size] == '|');
  }
  return false;
}

static bool option_number(Parser *parser, const Option *option, char *field, const char *text) {
  char *end = NULL;
  errno = 0;
  bool integer = option->kind == OPTION_INTEGER;
  long long whole = integer ? strtoll(text, &end, 10) : 0;
  double number = integer ? (double)whole : strtod(text, &end);
  if (end == text || *end || errno || !isfinite(number)) {
    bool range = errno == ERANGE && end != text && !*end;
    buffer_format(parser->problem,
                  range ? "--%s takes a%s number, and %s is out of range" : "--%s takes a%s number, not '%s'",
                  option->name, integer ? " whole" : "", text);
    char other[SPELLED_MAX];
    const char *help =
        range || !(integer || strchr(text, ',')) ? NULL : spelled_number(text, strlen(text), integer, other);
    buffer_format(parser->problem, "%s%s", help ? "; " : "", help ? help : "");
    return false;
  }
  if (number < option->least) {
    buffer_format(parser->problem, "--%s must be at least %g, not %s", option->name, option->least, text);
    return false;
  }
  if (integer) {
    int64_t value = whole;
    memcpy(field, &value, sizeof value);
  } else {
    memcpy(field, &number, sizeof number);
  }
  return true;
}

static bool option_store(Parser *parser, const Option *option, char *field, const char *text) {
  switch (option->kind) {
    case OPTION_FLAG:
      *(bool *)field = true;
      return true;
    case OPTION_CHOICE:
      if (!choice_holds(option->value, text)) {
        buffer_format(parser->problem, "--%s takes one of %s, not '%s'", option->name, option->value, text);
        return false;
      }
      memcpy(field, &text, sizeof text);
      return true;
    case OPTION_TEXT:
      memcpy(field, &text, sizeof text);
      return true;
    case OPTION_LIST: {
      OptionList *list = (OptionList *)(void *)field;
      const char **longer = ARENA_ARRAY(parser->arena, const char *, list->count + 1);
      if (list->count) {
        memcpy(longer, list->at, sizeof *longer * (size_t)list->count);
      }
      longer[list->count] = text;
      *list = (OptionList){longer, list->count + 1};
      return true;
    }
    case OPTION_INTEGER:
    case OPTION_NUMBER:
      return option_number(parser, option, field, text);
  }
  return false;
}

// The second of two values would win without a word. A flag says the same however often it is given.
static bool option_once(Parser *parser, const Option *option, const char *text) {
  for (int i = 0; i < parser->taken.count && option->kind != OPTION_LIST && option->kind != OPTION_FLAG; i++) {
    if (parser->taken.at[i].option == option) {
      buffer_format(parser->problem, "--%s is given twice, as '%s' and as '%s'; keep one of them", option->name,
                    parser->taken.at[i].text, text);
      return false;
    }
  }
  array_push(parser->arena, &parser->taken, ((Taken){option, text}));
  return true;
}

// One option word and, where it takes a value that is not in the word, the next. Returns how many words it used, or 0.
static int option_take(Parser *parser, int argc, char **argv, int at) {
  const char *word = argv[at];
  bool long_form = word[1] == '-';
  const char *name = word + (long_form ? 2 : 1);
  size_t length = long_form ? strcspn(name, "=") : 1;
  size_t base = 0;
  const Option *option =
      option_find(parser->command, long_form ? name : NULL, length, long_form ? '\0' : name[0], &base);
  if (!option) {
    option_unknown(parser, word);
    return 0;
  }
  const char *text = name[length] == '\0' ? NULL : name + length + (long_form ? 1 : 0);
  char *field = parser->values + base + option->offset;
  if (option->kind == OPTION_FLAG) {
    if (text) {
      buffer_format(parser->problem, "--%s takes no value", option->name);
      return 0;
    }
    return option_store(parser, option, field, NULL) ? 1 : 0;
  }
  int used = 1;
  if (!text) {
    if (at + 1 >= argc) {
      buffer_format(parser->problem, "--%s needs a value: --%s %s", option->name, option->name, option->value);
      return 0;
    }
    text = argv[at + 1];
    used = 2;
  }
  return option_once(parser, option, text) && option_store(parser, option, field, text) ? used : 0;
}

// What an argument too many was probably meant to be, where the command has an option for it.
static void option_for(const Command *command, const char *word, Buffer *problem) {
  static const struct {
    const char *name, *what;
    bool setting;  // of what has a = in it
  } options[] = {{"set", "a setting", true}, {"prompt", "a text to go on with", false}, {"data", "other data", false}};
  size_t base;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *name = options[i].name;
    if (option_find(command, name, strlen(name), '\0', &base) && options[i].setting == (strchr(word, '=') != NULL)) {
      buffer_format(problem, "; %s is --%s '%s'", options[i].what, name, word);
      return;
    }
  }
}

bool options_parse(Arena *arena, const Command *command, int argc, char **argv, void *values, OptionList *arguments,
                   bool *help, Buffer *problem) {
  Parser parser = {.arena = arena, .command = command, .values = values, .problem = problem};
  bool plain_only = false;
  *help = false;
  memset(values, 0, command->size);
  if (command->defaults) {
    memcpy(values, command->defaults, command->size);
  }
  for (int at = 0; at < argc;) {
    const char *word = argv[at];
    if (plain_only || word[0] != '-' || word[1] == '\0') {
      array_push(arena, &parser.plain, word);
      at++;
    } else if (strcmp(word, "--") == 0) {
      plain_only = true;
      at++;
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
      *help = true;
      return true;
    } else {
      int used = option_take(&parser, argc, argv, at);
      if (used == 0) {
        return false;
      }
      at += used;
    }
  }
  *arguments = (OptionList){parser.plain.at, parser.plain.count};
  if (arguments->count < command->least) {
    buffer_format(problem, "%s is missing", command->arguments);
    return false;
  }
  if (command->most >= 0 && arguments->count > command->most) {
    buffer_format(problem, "unexpected argument '%s'", arguments->at[command->most]);
    option_for(command, arguments->at[command->most], problem);
    return false;
  }
  return true;
}

// Words of `text` in lines of HELP_WIDTH, the first line continuing at `column`.
static void help_wrap(Buffer *out, const char *text, int column, int indent) {
  while (*text) {
    size_t length = strcspn(text, " ");
    if (column > indent && column + 1 + (int)length > HELP_WIDTH) {
      buffer_text(out, "\n");
      buffer_repeat(out, ' ', indent);
      column = indent;
    } else if (column > indent) {
      buffer_text(out, " ");
      column++;
    }
    buffer_bytes(out, text, length);
    column += (int)length;
    text += length;
    text += strspn(text, " ");
  }
  buffer_text(out, "\n");
}

static void help_entry(Buffer *out, const char *left, const char *right) {
  buffer_text(out, left);
  int column = (int)strlen(left);
  if (column > HELP_INDENT - 2) {
    buffer_text(out, "\n");
    column = 0;
  }
  buffer_repeat(out, ' ', HELP_INDENT - column);
  help_wrap(out, right, HELP_INDENT, HELP_INDENT);
}

static void help_option(const Option *option, Buffer *out) {
  Buffer left = {0};
  buffer_text(&left, "  ");
  if (option->letter) {
    buffer_format(&left, "-%c, ", option->letter);
  }
  buffer_format(&left, "--%s", option->name);
  if (option->value) {
    buffer_format(&left, " %s", option->value);
  }
  if (!left.failed) {
    help_entry(out, left.text, option->help);
  }
  buffer_free(&left);
}

void options_help(const Program *program, const Command *command, Buffer *out) {
  buffer_format(out, "%s %s %s: %s\n", program->name, command->name, command->arguments, command->summary);
  if (command->details) {
    buffer_format(out, "\n%s\n", command->details);
  }
  for (int g = 0; g < command->group_count; g++) {
    buffer_format(out, "\n%s\n", command->groups[g].title);
    for (int i = 0; i < command->groups[g].count; i++) {
      help_option(&command->groups[g].options[i], out);
    }
  }
}

void options_overview(const Program *program, Buffer *out) {
  buffer_format(out, "%s %s: %s\n\nCommands\n", program->name, program->version, program->summary);
  for (int i = 0; i < program->count; i++) {
    Buffer left = {0};
    buffer_format(&left, "  %s %s", program->commands[i].name, program->commands[i].arguments);
    if (!left.failed) {
      help_entry(out, left.text, program->commands[i].summary);
    }
    buffer_free(&left);
  }
  help_entry(out, "  help [COMMAND]", "this text, or all about one command");
  if (program->pages) {
    help_entry(out, "  help --completions SHELL", "a completion for bash, zsh or fish");
    help_entry(out, "  help --man", "the manual page");
  }
  if (program->details) {
    buffer_format(out, "\n%s\n", program->details);
  }
}

// What other programs call a command.
static const char *command_foreign(const Program *program, const char *name) {
  static const struct {
    const char *word, *name;
  } foreign[] = {{"tokenize", "encode"}, {"tokenise", "encode"},    {"prepare", "encode"},   {"preprocess", "encode"},
                 {"finetune", "train"},  {"fine-tune", "train"},    {"fit", "train"},        {"run", "train"},
                 {"pretrain", "train"},  {"resume", "train"},       {"sample", "generate"},  {"chat", "generate"},
                 {"infer", "generate"},  {"inference", "generate"}, {"predict", "generate"}, {"complete", "generate"},
                 {"evaluate", "eval"},   {"validate", "eval"},      {"test", "eval"},        {"export", "convert"},
                 {"import", "convert"},  {"download", "convert"},   {"sweep", "ablate"},     {"compare", "diff"},
                 {"lint", "check"},      {"build", "compile"},      {"format", "fmt"},       {"plan", "compile"},
                 {"show", "explain"},    {"graph", "print"},        {"dump", "print"}};
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    for (int j = 0; strcmp(foreign[i].word, name) == 0 && j < program->count; j++) {
      if (strcmp(program->commands[j].name, foreign[i].name) == 0) {
        return foreign[i].name;
      }
    }
  }
  return NULL;
}

static const Command *command_find(const Program *program, const char *name) {
  for (int i = 0; i < program->count; i++) {
    if (strcmp(program->commands[i].name, name) == 0) {
      return &program->commands[i];
    }
  }
  const char *candidates[64];
  int count = 0;
  for (int i = 0; i < program->count && count < 64; i++) {
    candidates[count++] = program->commands[i].name;
  }
  const char *closest = text_closest(name, candidates, count), *foreign = command_foreign(program, name);
  fprintf(stderr, "%s: unknown command '%s'", program->name, name);
  const size_t length = strlen(name);
  closest = foreign ? foreign : closest;
  if (program->others && choice_holds(program->others, name)) {
    fprintf(stderr, "; did you mean '%s %s'?", program->other, name);
  } else if (program->on_file && length > 4 && strcmp(name + length - 4, ".mdl") == 0) {
    fprintf(stderr, "; did you mean '%s %s %s'?", program->name, program->on_file, name);
  } else if (name[0] == '-') {
    fprintf(stderr, "; options stand behind the command");
  } else if (closest) {
    fprintf(stderr, "; did you mean '%s'?", closest);
  }
  fprintf(stderr, "\n`%s --help` lists the commands\n", program->name);
  return NULL;
}

// Prints and frees a text.
static int help_show(const Program *program, Buffer *text, FILE *to) {
  const bool failed = text->failed;
  fputs(failed || !text->text ? "" : text->text, to);
  buffer_free(text);
  if (failed) {
    fprintf(stderr, "%s: out of memory\n", program->name);
  }
  return failed ? STATUS_MEMORY : STATUS_DONE;
}

static int help_print(const Program *program, const Command *command, FILE *to) {
  Buffer text = {0};
  if (command) {
    options_help(program, command, &text);
  } else {
    options_overview(program, &text);
  }
  return help_show(program, &text, to);
}

// `help --man`, `help --completions SHELL`.
static int help_pages(const Program *program, int argc, char **argv) {
  Buffer text = {0};
  const bool manual = strcmp(argv[0], "--man") == 0 && argc == 1;
  if (manual) {
    options_manual(program, &text);
  } else if (argc != 2 || strcmp(argv[0], "--completions") != 0 || !options_completions(program, argv[1], &text)) {
    fprintf(stderr, "%s help: it takes a COMMAND, --man, or --completions and one of bash, zsh, fish\n", program->name);
    return STATUS_USAGE;
  }
  return help_show(program, &text, stdout);
}

static int command_main(const Program *program, const Command *command, int argc, char **argv) {
  Arena *arena = arena_create();
  void *values = arena ? arena_alloc(arena, command->size ? command->size : 1) : NULL;
  if (!values) {
    fprintf(stderr, "%s: out of memory\n", program->name);
    return STATUS_MEMORY;
  }
  OptionList arguments = {0};
  Buffer problem = {0};
  bool help = false;
  int status = STATUS_USAGE;
  if (!options_parse(arena, command, argc, argv, values, &arguments, &help, &problem)) {
    fprintf(stderr, "%s %s: %s\n", program->name, command->name, problem.text ? problem.text : "out of memory");
    fprintf(stderr, "`%s %s --help` lists the options\n", program->name, command->name);
  } else if (help) {
    status = help_print(program, command, stdout);
  } else {
    status = command->run(arena, values, &arguments);
  }
  buffer_free(&problem);
  arena_destroy(arena);
  return status;
}

// Files that are opened later must not become stdin, stdout or stderr. What stands in the place of one that is closed
// can neither be read nor written, so that a text or a result that goes nowhere is an error.
static void streams_open(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || (fd == 0 && open("/dev/null", O_WRONLY) >= 0) ||
        open("/", O_RDONLY | O_DIRECTORY) >= 0) {
      continue;
    }
    _exit(STATUS_INPUT);
  }
}

static int run_words(const Program *program, const Command **command, int argc, char **argv) {
  if (argc < 2) {
    help_print(program, NULL, stderr);
    return STATUS_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0) {
    printf("%s %s\n", program->name, program->version);
    return STATUS_DONE;
  }
  bool help = strcmp(word, "help") == 0;
  if ((help && argc == 2) || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
    return help_print(program, NULL, stdout);
  }
  if (help && program->pages && argv[2][0] == '-') {
    return help_pages(program, argc - 2, argv + 2);
  }
  if (help) {
    const Command *topic = command_find(program, argv[2]);
    return topic ? help_print(program, topic, stdout) : STATUS_USAGE;
  }
  *command = command_find(program, word);
  if (*command && (*command)->commands) {
    char name[64];
    const Command *outer = *command;
    const Program inner = {.name = name,
                           .version = program->version,
                           .summary = outer->summary,
                           .commands = outer->commands,
                           .count = outer->command_count};
    snprintf(name, sizeof name, "%s %s", program->name, outer->name);
    return run_words(&inner, command, argc - 1, argv + 1);
  }
  return *command ? command_main(program, *command, argc - 2, argv + 2) : STATUS_USAGE;
}

typedef struct {
  const Program *program;
  const Command **command;
  int argc;
  char **argv;
  int status;
} Words;

static void words_run(void *context) {
  Words *words = context;
  words->status = run_words(words->program, words->command, words->argc, words->argv);
}

int options_main(const Program *program, int argc, char **argv) {
  const Command *command = NULL;
  streams_open();
  signal(SIGXFSZ, SIG_IGN);  // a limit of files is told as a full disk is
  report_install(program->name, program->version, argc, argv);
  Words words = {.program = program, .command = &command, .argc = argc, .argv = argv};
  stack_ensure(words_run, &words);
  int status = words.status;
  errno = 0;
  bool lost = fflush(stdout) != 0 || ferror(stdout);
  if (status == STATUS_DONE && lost && !(command && command->talks)) {
    fprintf(stderr, "%s: not all of the output could be written%s%s\n", program->name, errno ? ": " : "",
            errno ? strerror(errno) : "");
    status = STATUS_INPUT;
  }
  return status;
}

bool options_colour(FILE *stream) {
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(fileno(stream)) && !(none && *none) && !(term && strcmp(term, "dumb") == 0);
}
