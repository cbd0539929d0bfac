// unpack.h: the bytes of a file in their order, unpacked where gzip, zstd or xz packed it.
#ifndef MDL_RUNTIME_DATA_UNPACK_H
#define MDL_RUNTIME_DATA_UNPACK_H

#include "runtime/device.h"

#define UNPACK_STDIN "-"             // in place of a path: standard input
#define UNPACK_STDIN_NAME "<stdin>"  // and what messages call it

typedef struct Unpack Unpack;

// NULL: the error says why. `packed`: what is packed is unpacked; else its bytes are given as they are.
Unpack *unpack_open(const char *path, bool packed, Error *error);

// The next bytes; *got is less than `size` at the end alone. A file that is damaged, or that ends too early, is an
// error which says at which of its bytes. What checks the packed data have are looked at.
bool unpack_read(Unpack *unpack, void *to, size_t size, size_t *got, Error *error);

const char *unpack_name(const Unpack *unpack);  // for messages
int64_t unpack_taken(const Unpack *unpack);     // bytes of the file that were read
void unpack_close(Unpack *unpack);              // or NULL

// Is the name one of a packed file, such as texts.jsonl.gz? Sets *length to that of the name without its ending.
bool unpack_ending(const char *path, size_t *length);

#endif
