// data_command.h: `mdl data`: tokenizers and files of tokens.
#ifndef MDL_RUNTIME_DATA_COMMAND_H
#define MDL_RUNTIME_DATA_COMMAND_H

int data_main(int argc, char **argv);  // argv[0] is "data"; returns the exit status

#endif
