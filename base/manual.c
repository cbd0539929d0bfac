// manual.c: the manual page of a program from its option tables, in the man macros.
#include <ctype.h>
#include <string.h>

#include "base/options.h"

// As running text: nothing of it is a request or an escape.
static void roff_write(Buffer *out, const char *text) {
  bool begins = out->length == 0 || out->text[out->length - 1] == '\n';
  for (const char *c = text; *c; c++) {
    if (begins && (*c == '.' || *c == '\'')) {
      buffer_text(out, "\\&");
    }
    if (*c == '\\') {
      buffer_text(out, "\\e");
    } else if (*c == '-') {
      buffer_text(out, "\\-");
    } else {
      buffer_bytes(out, c, 1);
      buffer_text(out, *c == '|' ? "\\:" : "");  // a line may end here
    }
    begins = *c == '\n';
  }
}

static void sentence_write(Buffer *out, const char *text) {
  char first = (char)toupper((unsigned char)text[0]);
  char head[2] = {first, '\0'};
  roff_write(out, head);
  roff_write(out, text + 1);
  buffer_text(out, text[strlen(text) - 1] == '.' ? "\n" : ".\n");
}

static void option_write(const Option *option, Buffer *out) {
  buffer_text(out, ".TP\n");
  if (option->letter) {
    buffer_format(out, "\\fB\\-%c\\fR, ", option->letter);
  }
  buffer_text(out, "\\fB\\-\\-");
  roff_write(out, option->name);
  buffer_text(out, "\\fR");
  if (option->value) {
    buffer_text(out, " \\fI");
    roff_write(out, option->value);
    buffer_text(out, "\\fR");
  }
  buffer_text(out, "\n");
  sentence_write(out, option->help);
}

static void command_write(const char *program, const char *outer, const Command *command, Buffer *out) {
  buffer_format(out, ".SS %s%s%s%s%s\n.B %s", outer ? "\"" : "", outer ? outer : "", outer ? " " : "", command->name,
                outer ? "\"" : "", program);
  buffer_format(out, "%s%s ", outer ? " " : "", outer ? outer : "");
  roff_write(out, command->name);
  buffer_text(out, "\n.RI [ option ...]\n.I ");
  roff_write(out, command->arguments);
  buffer_text(out, "\n.PP\n");
  sentence_write(out, command->summary);
  if (command->details) {
    buffer_text(out, ".PP\n");
    roff_write(out, command->details);
    buffer_text(out, "\n");
  }
  for (int g = 0; g < command->group_count; g++) {
    if (command->group_count > 1) {
      buffer_format(out, ".PP\n%s:\n", command->groups[g].title);
    }
    for (int i = 0; i < command->groups[g].count; i++) {
      option_write(&command->groups[g].options[i], out);
    }
  }
}

void options_manual(const Program *program, Buffer *out) {
  buffer_text(out, ".TH ");
  for (const char *c = program->name; *c; c++) {
    const char upper = (char)toupper((unsigned char)*c);
    buffer_bytes(out, &upper, 1);
  }
  buffer_format(out, " 1 \"\" \"%s %s\" \"User Commands\"\n.SH NAME\n%s \\- ", program->name, program->version,
                program->name);
  roff_write(out, program->summary);
  buffer_format(out,
                "\n.SH SYNOPSIS\n.B %s\n.I command\n.RI [ option ...]\n.RI [ argument ...]\n.br\n.B %s help\n"
                ".RI [ command ]\n.SH DESCRIPTION\n",
                program->name, program->name);
  sentence_write(out, program->summary);
  buffer_text(out, ".PP\n");
  roff_write(out,
             "An option's value stands behind it, or behind a = (--steps 10, --steps=10). `--` ends the options.\n");
  buffer_text(out, ".SH COMMANDS\n");
  for (int i = 0; i < program->count; i++) {
    const Command *command = &program->commands[i];
    if (!command->commands) {
      command_write(program->name, NULL, command, out);
    }
    for (int k = 0; k < command->command_count; k++) {
      command_write(program->name, command->name, &command->commands[k], out);
    }
  }
  if (program->details) {
    buffer_text(out, ".SH EXIT STATUS\n");
    const char *text = program->details;
    const char head[] = "Exit status: ";
    text += strncmp(text, head, sizeof head - 1) == 0 ? sizeof head - 1 : 0;
    roff_write(out, text);
    buffer_text(out, "\n");
  }
  const bool compiles = strcmp(program->name, "mdlc") == 0;
  buffer_format(out, ".SH SEE ALSO\n.BR %s (1)\n", compiles ? "mdl" : "mdlc");
}
