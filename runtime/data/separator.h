// separator.h: a separator that occurs nowhere: whoever names one means documents to end with it.
#ifndef MDL_RUNTIME_DATA_SEPARATOR_H
#define MDL_RUNTIME_DATA_SEPARATOR_H

#include "base/buffer.h"
#include "runtime/data/data.h"

// A line for each source of text or tokens whose separator does not stand among its first 16 million tokens; nothing of
// sources that name none.
bool separator_doubt(const Data *data, Buffer *lines, Error *error);

#endif
