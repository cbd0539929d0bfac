// safetensors.h: reads and writes safetensors files.
//
// u64 N; N bytes of JSON, padded with spaces to 8; data. Reading trusts nothing: lengths, offsets, shapes and names are
// checked against the file before anything is used, and the tensors must cover the data exactly.
#ifndef MDL_RUNTIME_SAFETENSORS_H
#define MDL_RUNTIME_SAFETENSORS_H

#include "base/buffer.h"
#include "runtime/device.h"

enum { SAFETENSORS_MAX_AXES = 16, SAFETENSORS_MAX_HEADER = 100000000 };

typedef struct {
  const char *name;
  const char *dtype;  // as in the file
  int axis_count;
  int64_t size[SAFETENSORS_MAX_AXES];
  int64_t begin, end;  // in the data, which starts after the header
} SafetensorsTensor;

typedef struct Safetensors Safetensors;

bool safetensors_open(const char *path, Safetensors **file, Error *error);
// The same; *damaged: what the file holds is why it cannot be opened, not memory or the disk.
bool safetensors_open_judging(const char *path, Safetensors **file, bool *damaged, Error *error);
// Has tensors of `more` found, listed and read as those of `file`, behind its own; `more` is closed with it, also after
// false: a name is in both.
bool safetensors_join(Safetensors *file, Safetensors *more, Error *error);
void safetensors_close(Safetensors *file);
int safetensors_count(const Safetensors *file);
const SafetensorsTensor *safetensors_at(const Safetensors *file, int index);           // in the order of the data
const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name);  // NULL: no such tensor
const char *safetensors_metadata(const Safetensors *file, const char *key);            // NULL: no such key
bool safetensors_read(const Safetensors *file, const SafetensorsTensor *tensor, void *data, Error *error);

// The bytes before the data, of a file that holds these tensors back to back; sets their begin and end. False when
// memory runs out.
bool safetensors_header(SafetensorsTensor *tensors, int count, Buffer *out);

bool safetensors_name_holds(const char *name);      // may a tensor be called so?
int64_t safetensors_dtype_bits(const char *dtype);  // 0: no such dtype

#endif
