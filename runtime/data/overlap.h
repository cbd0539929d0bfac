// overlap.h: whether a file is one of several: the same one by another name, or a copy of its bytes.
#ifndef MDL_RUNTIME_DATA_OVERLAP_H
#define MDL_RUNTIME_DATA_OVERLAP_H

#include "runtime/data/data.h"

typedef struct OverlapFile OverlapFile;

typedef struct {
  int count, room;
  OverlapFile *at;
} Overlap;

// One of them; a file that is not there is none.
bool overlap_add(Overlap *overlap, const char *path, Error *error);
void overlap_free(Overlap *overlap);
const char *overlap_path(const Overlap *overlap, int index);

// Of the files that a source is made of, how many are among them. `first` is one of those, and stays the source's.
bool overlap_count(Overlap *overlap, const Data *data, int *count, const char **first, Error *error);

// Which of all files these are: "17 of the 18 files of P, such as F,", or the source alone, where it is all. `what` is
// said ahead of its name.
void overlap_said(const Data *data, const char *what, int count, const char *first, Buffer *text);

#endif
