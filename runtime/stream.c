// stream.c: see stream.h.
#include "runtime/stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

bool stream_send(int socket, const void *bytes, size_t length, int seconds) {
  const char *at = bytes;
  while (length > 0) {
    const ssize_t sent = send(socket, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      at += sent;
      length -= (size_t)sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const int ready = poll(&(struct pollfd){.fd = socket, .events = POLLOUT}, 1, seconds < 0 ? -1 : 1000 * seconds);
      if (ready == 0 || (ready < 0 && errno != EINTR)) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool stream_receive(int socket, void *bytes, size_t length) {
  char *at = bytes;
  while (length > 0) {
    const ssize_t got = recv(socket, at, length, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    at += got > 0 ? got : 0;
    length -= got > 0 ? (size_t)got : 0;
  }
  return true;
}
