// tuning.h: the record of which algorithm solves which problem best: a text file, one line for each problem.
//
// The first line names what it holds for: chip, driver and library; a record for another is as good as none. Algorithms
// are the library's plain data in hexadecimal; each line ends with a check of itself.
#ifndef MDL_RUNTIME_CUDA_TUNING_H
#define MDL_RUNTIME_CUDA_TUNING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buffer.h"

typedef struct Tuning Tuning;

// `holds_for` is one line of text. The file is in the cache folder of the user (kernels/cuda/compile.h) or is the one
// that the variable MDL_TUNING names. No file, or one for other machines: an empty record. What `of_run` says, the text
// that tuning_text gave for an earlier run, or NULL, prevails.
Tuning *tuning_open(Arena *arena, const char *holds_for, const char *of_run);
const char *tuning_path(const Tuning *tuning);  // "": nowhere

// The newest one of a problem. False: there is none, or its line is damaged; `algorithm` is of no use then.
bool tuning_find(Tuning *tuning, const char *problem, void *algorithm, size_t bytes);
void tuning_add(Tuning *tuning, const char *problem, const void *algorithm, size_t bytes, double microseconds);

// The record of the problems that were found or added since the opening, as the text of a file.
void tuning_text(const Tuning *tuning, Buffer *out);

// Adds what was added here to the file, which other processes may have written meanwhile: one at a time, and a problem
// that has a line keeps it. Where that is another algorithm than was added, it is taken here as well (`adopted`), so
// that runs that timed side by side do as all later ones do. PATH.lock, beside it, is what they wait for. A cache
// folder that cannot be written is no error: the next run times again. False: the file that MDL_TUNING names cannot be;
// `message` says why.
bool tuning_keep(Tuning *tuning, bool *adopted, char *message, size_t size);

#endif
