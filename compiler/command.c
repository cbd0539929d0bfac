// command.c: the table of compiling options.
#include "compiler/command.h"

#include <string.h>

#include "base/report.h"

const Option command_options[COMMAND_OPTION_COUNT] = {
    {"recipe", 0, OPTION_TEXT, "NAME", offsetof(CommandFlags, recipe), 0,
     "the recipe, where the text has more than one"},
    {"layout", 0, OPTION_TEXT, "NAME", offsetof(CommandFlags, layout), 0,
     "the layout (default: the recipe's, else one rank)"},
    {"precision", 0, OPTION_TEXT, "NAME", offsetof(CommandFlags, precision), 0,
     "the precision policy (default: the recipe's, else fp32)"},
    {"set", 0, OPTION_LIST, "NAME=VALUE", offsetof(CommandFlags, set), 0,
     "another value for an axis, a const, an entry of the recipe, or mesh.AXIS and microbatches of the layout; any "
     "number of times"},
    {"watch", 0, OPTION_LIST, "NAME", offsetof(CommandFlags, watched), 0,
     "show how large gradients and updates of these parameters are, such as layers.* for each layer; any number of "
     "times"},
    {"diagnostics", 0, OPTION_CHOICE, "text|json", offsetof(CommandFlags, diagnostics), 0,
     "how errors in the text are shown on stderr (default: text)"},
};

const char *command_text_only(const CommandFlags *flags) {
  return flags->recipe              ? "--recipe"
         : flags->layout            ? "--layout"
         : flags->precision         ? "--precision"
         : flags->set.count > 0     ? "--set"
         : flags->watched.count > 0 ? "--watch"
                                    : NULL;
}

CompileOptions command_compile_options(const CommandFlags *flags, const char *file) {
  return (CompileOptions){.file = file,
                          .recipe = flags->recipe,
                          .layout = flags->layout,
                          .precision = flags->precision,
                          .set = flags->set.at,
                          .set_count = flags->set.count,
                          .watched = flags->watched.at,
                          .watch_count = flags->watched.count,
                          .program = PROGRAM_TRAIN};
}

int command_status(const Diag *diag) {
  return diag->no_memory ? STATUS_MEMORY : STATUS_INPUT;
}

void command_show(const CommandFlags *flags, const Diag *diag, FILE *out) {
  if (flags->diagnostics && strcmp(flags->diagnostics, "json") == 0) {
    if (!diag_print_json(diag, out)) {
      fprintf(stderr, "no memory for the lines of --diagnostics json\n");
    }
  } else {
    diag_print(diag, out, options_colour(out));
    if (diag_bug(diag)) {
      report_bug(out);
    }
  }
}
