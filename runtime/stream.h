// stream.h: whole messages over a stream socket, whatever parts they travel in.
#ifndef MDL_RUNTIME_STREAM_H
#define MDL_RUNTIME_STREAM_H

#include <stdbool.h>
#include <stddef.h>

// False: the other end is gone, or has taken nothing for so many seconds (negative: waits for ever).
bool stream_send(int socket, const void *bytes, size_t length, int seconds);
bool stream_receive(int socket, void *bytes, size_t length);  // false: the other end is gone

#endif
