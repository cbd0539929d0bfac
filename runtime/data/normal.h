// normal.h: the normal forms of Unicode, by utf8proc: one way to write what has several, such as e and an accent.
#ifndef MDL_RUNTIME_DATA_NORMAL_H
#define MDL_RUNTIME_DATA_NORMAL_H

#include "base/buffer.h"
#include "runtime/device.h"

typedef enum { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD } NormalForm;

NormalForm normal_form(const char *name);  // "NFC"; NORMAL_NONE: there is no such form
bool normal_available(Error *error);       // false: mdl was built without utf8proc

// Whether the character that begins here is as it is in every text: nothing ahead of it changes with it. What is ahead
// can be written in its form without it. *length: its bytes. The text is UTF-8.
bool normal_apart(NormalForm form, const uint8_t *text, size_t length, size_t *size);

// Puts UTF-8 in its form into `out`, in the place of what that held.
bool normal_put(NormalForm form, const uint8_t *text, size_t length, Buffer *out, Error *error);

// Where in `text` is that of which the first `used` bytes of its form are made: behind so many bytes, or SIZE_MAX: a
// character of the form is made of what is ahead and what is behind.
// Then *run is where text begins that can be written in its form by itself, which those have.
size_t normal_place(NormalForm form, const uint8_t *text, size_t length, size_t used, size_t *run, Buffer *work,
                    Error *error);

#endif
