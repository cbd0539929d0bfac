// completions.c: completions for bash, zsh and fish from the option tables.
#include <ctype.h>
#include <string.h>

#include "base/options.h"

// What stands behind an option, or for an argument.
typedef enum { VALUE_NONE, VALUE_CHOICE, VALUE_FILE, VALUE_DIRECTORY, VALUE_OTHER } ValueKind;

static ValueKind value_kind(const Option *option) {
  if (option->kind == OPTION_FLAG) {
    return VALUE_NONE;
  }
  if (strchr(option->value, '|')) {
    return VALUE_CHOICE;
  }
  if (strcmp(option->value, "DIR") == 0) {
    return VALUE_DIRECTORY;
  }
  return strcmp(option->value, "FILE") == 0 || strncmp(option->value, "PLAN", 4) == 0 ? VALUE_FILE : VALUE_OTHER;
}

// The words of `a|b|c`, with blanks between them.
static void choices_write(Buffer *out, const char *choices) {
  for (const char *c = choices; *c; c++) {
    buffer_bytes(out, *c == '|' ? " " : c, 1);
  }
}

// In single quotes, with `escaped` characters behind a backslash.
static void quoted_write(Buffer *out, const char *text, const char *escaped) {
  for (const char *c = text; *c; c++) {
    if (*c == '\'') {
      buffer_text(out, "'\\''");
    } else {
      buffer_text(out, strchr(escaped, *c) ? "\\" : "");
      buffer_bytes(out, *c == '\n' ? " " : c, 1);
    }
  }
}

// The name of a shell function for a program.
static void identifier_write(Buffer *out, const char *name) {
  for (const char *c = name; *c; c++) {
    buffer_bytes(out, isalnum((unsigned char)*c) ? c : "_", 1);
  }
}

// Calls `each` for every command that has options, those of commands inside others with both names.
typedef void (*EachCommand)(const Command *outer, const Command *command, Buffer *out);

static void commands_each(const Program *program, EachCommand each, Buffer *out) {
  for (int i = 0; i < program->count; i++) {
    const Command *command = &program->commands[i];
    for (int k = 0; k < command->command_count; k++) {
      each(command, &command->commands[k], out);
    }
    if (!command->commands) {
      each(NULL, command, out);
    }
  }
}

typedef void (*EachOption)(const Option *option, Buffer *out);

static void options_each(const Command *command, EachOption each, Buffer *out) {
  for (int g = 0; g < command->group_count; g++) {
    for (int i = 0; i < command->groups[g].count; i++) {
      each(&command->groups[g].options[i], out);
    }
  }
}

static void names_write(const Command *commands, int count, Buffer *out) {
  for (int i = 0; i < count; i++) {
    buffer_format(out, "%s%s", i > 0 ? " " : "", commands[i].name);
  }
}

// --- bash ---

static void bash_word(const Option *option, Buffer *out) {
  if (option->letter) {
    buffer_format(out, "-%c ", option->letter);
  }
  buffer_format(out, "--%s ", option->name);
}

static void bash_value(const Option *option, Buffer *out) {
  const ValueKind kind = value_kind(option);
  if (kind == VALUE_NONE) {
    return;
  }
  buffer_format(out, "        --%s", option->name);
  if (option->letter) {
    buffer_format(out, "|-%c", option->letter);
  }
  buffer_text(out, ") ");
  if (kind == VALUE_CHOICE) {
    buffer_text(out, "words='");
    choices_write(out, option->value);
    buffer_text(out, "' what=words ;;\n");
  } else {
    buffer_format(out, "what=%s ;;\n",
                  kind == VALUE_FILE        ? "files"
                  : kind == VALUE_DIRECTORY ? "directories"
                                            : "nothing");
  }
}

static void bash_command(const Command *outer, const Command *command, Buffer *out) {
  buffer_format(out, "    '%s%s%s')\n      options='", outer ? outer->name : "", outer ? " " : "", command->name);
  options_each(command, bash_word, out);
  buffer_text(out, "--help'\n      case $previous in\n");
  options_each(command, bash_value, out);
  buffer_text(out, "      esac ;;\n");
}

static void bash_inner(const Program *program, Buffer *out) {
  for (int i = 0; i < program->count; i++) {
    const Command *command = &program->commands[i];
    if (command->commands) {
      buffer_format(out,
                    "  if [ \"$command\" = %s ]; then\n    if [ \"$at\" = 2 ]; then\n      COMPREPLY=($(compgen -W '",
                    command->name);
      names_write(command->commands, command->command_count, out);
      buffer_text(
          out, " --help' -- \"$current\"))\n      return\n    fi\n    command=\"$command ${COMP_WORDS[2]}\"\n  fi\n");
    }
  }
}

static void bash_write(const Program *program, Buffer *out) {
  buffer_format(out, "# Completion of %s for bash, made by `%s help --completions bash`.\n_", program->name,
                program->name);
  identifier_write(out, program->name);
  buffer_text(out,
              "() {\n"
              "  local at=$COMP_CWORD current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
              "  local command=${COMP_WORDS[1]} options= words= what=files\n"
              "  COMPREPLY=()\n"
              "  if [ \"$at\" = 1 ]; then\n    COMPREPLY=($(compgen -W '");
  names_write(program->commands, program->count, out);
  buffer_text(out,
              " help --help --version' -- \"$current\"))\n    return\n  fi\n"
              "  if [ \"$current\" = = ]; then  # --option=\n    current=\n"
              "  elif [ \"$previous\" = = ] && [ \"$at\" -ge 2 ]; then  # --option=value\n"
              "    previous=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n");
  bash_inner(program, out);
  buffer_text(out, "  case $command in\n    help) words='");
  names_write(program->commands, program->count, out);
  buffer_text(
      out, " --man --completions' what=words\n      [ \"$previous\" != --completions ] || words='bash zsh fish' ;;\n");
  commands_each(program, bash_command, out);
  buffer_text(out,
              "  esac\n"
              "  if [ \"$what\" = files ] && [ \"${current#-}\" != \"$current\" ]; then\n"
              "    words=$options what=words\n  fi\n"
              "  case $what in\n"
              "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
              "    files|directories)\n"
              "      local IFS=$'\\n' kind=-f\n"
              "      [ \"$what\" = files ] || kind=-d\n"
              "      COMPREPLY=($(compgen $kind -- \"$current\"))\n"
              "      compopt -o filenames 2> /dev/null || true ;;\n"
              "  esac\n}\ncomplete -F _");
  identifier_write(out, program->name);
  buffer_format(out, " %s\n", program->name);
}

// --- zsh ---

static void zsh_option(const Option *option, Buffer *out) {
  const ValueKind kind = value_kind(option);
  const char *equals = kind == VALUE_NONE ? "" : "=", *again = option->kind == OPTION_LIST ? "*" : "";
  buffer_text(out, " \\\n        ");
  if (option->letter) {
    buffer_format(out, "'%s", *again ? "*" : "");
    if (!*again) {
      buffer_format(out, "(-%c --%s)", option->letter, option->name);
    }
    buffer_format(out, "'{-%c%s,--%s%s}'[", option->letter, kind == VALUE_NONE ? "" : "+", option->name, equals);
  } else {
    buffer_format(out, "'%s--%s%s[", again, option->name, equals);
  }
  quoted_write(out, option->help, "[]:\\");
  buffer_text(out, "]");
  if (kind != VALUE_NONE) {
    buffer_text(out, ":");
    quoted_write(out, option->value, "[]:\\");
    buffer_text(out, ":");
    if (kind == VALUE_CHOICE) {
      buffer_text(out, "(");
      choices_write(out, option->value);
      buffer_text(out, ")");
    } else {
      buffer_text(out, kind == VALUE_FILE ? "_files" : kind == VALUE_DIRECTORY ? "_files -/" : " ");
    }
  }
  buffer_text(out, "'");
}

static void zsh_command(const Command *outer, const Command *command, Buffer *out) {
  buffer_format(out, "    '%s%s%s')\n      _arguments", outer ? outer->name : "", outer ? " " : "", command->name);
  options_each(command, zsh_option, out);
  buffer_text(out, " \\\n        '--help[the options of this command]' \\\n        '*:file:_files' ;;\n");
}

static void zsh_names(const Command *commands, int count, Buffer *out) {
  for (int i = 0; i < count; i++) {
    buffer_format(out, "      '%s:", commands[i].name);
    quoted_write(out, commands[i].summary, ":\\");
    buffer_text(out, "'\n");
  }
}

static void zsh_write(const Program *program, Buffer *out) {
  buffer_format(out, "#compdef %s\n# Completion of %s for zsh, made by `%s help --completions zsh`.\n_", program->name,
                program->name, program->name);
  identifier_write(out, program->name);
  buffer_text(out, "() {\n  local -a names\n  local command=$words[2]\n  if (( CURRENT == 2 )); then\n    names=(\n");
  zsh_names(program->commands, program->count, out);
  buffer_text(out, "      'help:all about a command'\n    )\n    _describe command names\n    return\n  fi\n");
  for (int i = 0; i < program->count; i++) {
    const Command *command = &program->commands[i];
    if (command->commands) {
      buffer_format(out, "  if [[ $command == %s ]]; then\n    if (( CURRENT == 3 )); then\n      names=(\n",
                    command->name);
      zsh_names(command->commands, command->command_count, out);
      buffer_text(out,
                  "      )\n      _describe command names\n      return\n    fi\n"
                  "    command=\"$command $words[3]\"\n    shift words\n    (( CURRENT-- ))\n  fi\n");
    }
  }
  buffer_text(out, "  shift words\n  (( CURRENT-- ))\n  case $command in\n    help)\n      names=(");
  names_write(program->commands, program->count, out);
  buffer_text(out,
              ")\n      _arguments '--man[the manual page]' '--completions=[for a shell]:shell:(bash zsh fish)' \\\n"
              "        \"1:command:($names)\" ;;\n");
  commands_each(program, zsh_command, out);
  buffer_text(out, "  esac\n}\n_");
  identifier_write(out, program->name);
  buffer_text(out, " \"$@\"\n");
}

// --- fish ---

static void fish_condition(const char *program, const Command *outer, const Command *command, Buffer *out) {
  buffer_format(out, "complete -c %s -n '__fish_seen_subcommand_from %s", program, outer ? outer->name : command->name);
  if (outer) {
    buffer_format(out, "; and __fish_seen_subcommand_from %s", command->name);
  }
  buffer_text(out, "'");
}

static void fish_options(const char *program, const Command *outer, const Command *command, Buffer *out) {
  for (int g = 0; g < command->group_count; g++) {
    for (int i = 0; i < command->groups[g].count; i++) {
      const Option *option = &command->groups[g].options[i];
      const ValueKind kind = value_kind(option);
      fish_condition(program, outer, command, out);
      buffer_format(out, " -l %s", option->name);
      if (option->letter) {
        buffer_format(out, " -s %c", option->letter);
      }
      if (kind == VALUE_CHOICE) {
        buffer_text(out, " -x -a '");
        choices_write(out, option->value);
        buffer_text(out, "'");
      } else if (kind == VALUE_DIRECTORY) {
        buffer_text(out, " -x -a '(__fish_complete_directories)'");
      } else {
        buffer_text(out, kind == VALUE_FILE ? " -r -F" : kind == VALUE_OTHER ? " -x" : "");
      }
      buffer_text(out, " -d '");
      quoted_write(out, option->help, "\\");
      buffer_text(out, "'\n");
    }
  }
}

static void fish_name(const char *program, const char *condition, const Command *command, Buffer *out) {
  buffer_format(out, "complete -c %s -n '%s' -f -a %s -d '", program, condition, command->name);
  quoted_write(out, command->summary, "\\");
  buffer_text(out, "'\n");
}

static void fish_write(const Program *program, Buffer *out) {
  buffer_format(out, "# Completion of %s for fish, made by `%s help --completions fish`.\n", program->name,
                program->name);
  for (int i = 0; i < program->count; i++) {
    const Command *command = &program->commands[i];
    fish_name(program->name, "__fish_use_subcommand", command, out);
    fish_options(program->name, NULL, command, out);
    for (int k = 0; k < command->command_count; k++) {
      char condition[128];
      snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s", command->name);
      fish_name(program->name, condition, &command->commands[k], out);
      fish_options(program->name, command, &command->commands[k], out);
    }
  }
  buffer_format(out, "complete -c %s -n '__fish_use_subcommand' -f -a help -d 'all about a command'\n", program->name);
  buffer_format(out, "complete -c %s -l help -d 'the options of a command'\n", program->name);
}

bool options_completions(const Program *program, const char *shell, Buffer *out) {
  static const struct {
    const char *shell;
    void (*write)(const Program *program, Buffer *out);
  } shells[] = {{"bash", bash_write}, {"zsh", zsh_write}, {"fish", fish_write}};
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
    if (strcmp(shell, shells[i].shell) == 0) {
      shells[i].write(program, out);
      return true;
    }
  }
  return false;
}
