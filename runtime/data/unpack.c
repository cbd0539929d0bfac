// unpack.c: files packed by gzip, zstd and xz, through their libraries.
#include "runtime/data/unpack.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/io.h"

#ifdef MDL_ZLIB
#include <zlib.h>
#endif
#ifdef MDL_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef MDL_LZMA
#include <lzma.h>
#endif

enum { INPUT = 1 << 17 };                  // bytes of the file at a time
#define WINDOW_MOST ((uint64_t)256 << 20)  // bytes that xz may take for what it looks back at

typedef enum { PACK_NONE, PACK_GZIP, PACK_ZSTD, PACK_XZ } Pack;

static const struct {
  Pack pack;
  const char *by, *magic;
  size_t size;
  const char *ending;
} packs[] = {{PACK_GZIP, "gzip", "\x1f\x8b", 2, ".gz"},
             {PACK_ZSTD, "zstd", "\x28\xb5\x2f\xfd", 4, ".zst"},
             {PACK_XZ, "xz", "\xfd\x37zXZ\0", 6, ".xz"}};

enum { PACKS = sizeof packs / sizeof *packs };

struct Unpack {
  const char *path;
  int fd;
  int64_t size, taken;  // of the file
  uint8_t *input;       // bytes of the file that nobody has had yet: from `begin` to `end`
  size_t begin, end;
  bool over;  // the file has no more bytes
  Pack pack;
  bool within;  // a part of what was packed has begun and not ended
#ifdef MDL_ZLIB
  z_stream gzip;
#endif
#ifdef MDL_ZSTD
  ZSTD_DStream *zstd;
#endif
#ifdef MDL_LZMA
  lzma_stream xz;
#endif
};

bool unpack_ending(const char *path, size_t *length) {
  const size_t all = strlen(path);
  for (int i = 0; i < PACKS; i++) {
    const size_t end = strlen(packs[i].ending);
    if (all > end && strcasecmp(path + all - end, packs[i].ending) == 0) {
      *length = all - end;
      return true;
    }
  }
  *length = all;
  return false;
}

const char *unpack_name(const Unpack *unpack) {
  return unpack->path;
}

int64_t unpack_taken(const Unpack *unpack) {
  return unpack->taken - (int64_t)(unpack->end - unpack->begin);
}

// --- bytes of the file ---

// A pipe that does not block, as other programs leave theirs, is waited for all the same.
static bool pipe_wait(int fd) {
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

static bool pipe_read(Unpack *u, Error *error) {
  ssize_t got;
  do {
    got = read(u->fd, u->input + u->end, INPUT - u->end);
  } while (got < 0 && (errno == EINTR || (errno == EAGAIN && pipe_wait(u->fd))));
  if (got < 0) {
    return io_failed("read", u->path, error);
  }
  u->over = got == 0;
  u->end += (size_t)got;
  u->taken += got;
  return true;
}

// More input behind what is there, or `over`. A file has the bytes that it had when it was opened.
static bool input_read(Unpack *u, Error *error) {
  memmove(u->input, u->input + u->begin, u->end - u->begin);
  u->end -= u->begin;
  u->begin = 0;
  if (u->size < 0) {
    return pipe_read(u, error);
  }
  const int64_t left = u->size - u->taken;
  const size_t count = left < (int64_t)(INPUT - u->end) ? (size_t)left : INPUT - u->end;
  if (count > 0 && !io_read(u->fd, u->path, u->taken, u->input + u->end, count, error)) {
    return false;
  }
  u->over = count == 0;
  u->end += count;
  u->taken += (int64_t)count;
  return true;
}

static bool input_has(Unpack *u, size_t count, Error *error) {
  while (!u->over && u->end - u->begin < count) {
    if (!input_read(u, error)) {
      return false;
    }
  }
  return true;
}

// --- what was packed ---

// What a library made of the input: how many bytes it wrote. With none written or taken it wants more, or all is
// `done`.
typedef struct {
  size_t written;
  bool done;
  const char *wrong;  // what is wrong with the input; NULL: nothing
  bool starved;
} Step;

#ifdef MDL_ZLIB
static Step gzip_step(Unpack *u, uint8_t *to, size_t room) {
  Step step = {0};
  if (!u->within) {  // a file of gzip may be several, one behind the other; tapes fill up with zeros
    while (u->begin < u->end && u->input[u->begin] == 0) {
      u->begin++;
    }
    if (u->begin == u->end) {
      return step;
    }
    inflateReset(&u->gzip);
    u->within = true;
  }
  u->gzip.next_in = u->input + u->begin;
  u->gzip.avail_in = (uInt)(u->end - u->begin);
  u->gzip.next_out = to;
  u->gzip.avail_out = room < INPUT ? (uInt)room : INPUT;
  const size_t asked = u->gzip.avail_out;
  const int result = inflate(&u->gzip, Z_NO_FLUSH);
  u->begin = u->end - u->gzip.avail_in;
  step.written = asked - u->gzip.avail_out;
  u->within = result != Z_STREAM_END;
  step.starved = result == Z_MEM_ERROR;
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    step.wrong = u->gzip.msg ? u->gzip.msg : "it is damaged";
  }
  return step;
}
#endif

#ifdef MDL_ZSTD
static Step zstd_step(Unpack *u, uint8_t *to, size_t room) {
  Step step = {0};
  ZSTD_inBuffer in = {u->input, u->end, u->begin};
  ZSTD_outBuffer out = {to, room, 0};
  if (!u->within && u->begin == u->end) {
    return step;
  }
  const size_t result = ZSTD_decompressStream(u->zstd, &out, &in);
  u->begin = in.pos;
  step.written = out.pos;
  u->within = result != 0;
  if (ZSTD_isError(result)) {
    step.wrong = ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge
                     ? "it needs more than 128 MiB to be unpacked, as `zstd -dc --long=31` takes"
                     : ZSTD_getErrorName(result);
    step.starved = ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation;
  }
  return step;
}
#endif

#ifdef MDL_LZMA
static Step xz_step(Unpack *u, uint8_t *to, size_t room) {
  Step step = {0};
  u->xz.next_in = u->input + u->begin;
  u->xz.avail_in = u->end - u->begin;
  u->xz.next_out = to;
  u->xz.avail_out = room;
  const lzma_ret result = lzma_code(&u->xz, u->over ? LZMA_FINISH : LZMA_RUN);
  u->begin = u->end - u->xz.avail_in;
  step.written = room - u->xz.avail_out;
  step.done = result == LZMA_STREAM_END;
  u->within = !step.done;
  step.starved = result == LZMA_MEM_ERROR;
  step.wrong = result == LZMA_MEMLIMIT_ERROR ? "it needs more than 256 MiB to be unpacked"
               : result == LZMA_DATA_ERROR   ? "its checks do not hold"
               : result == LZMA_FORMAT_ERROR || result == LZMA_OPTIONS_ERROR ? "it is none of xz from here on"
                                                                             : NULL;
  return step;
}
#endif

static Step step_take(Unpack *u, uint8_t *to, size_t room) {
  switch (u->pack) {
#ifdef MDL_ZLIB
    case PACK_GZIP:
      return gzip_step(u, to, room);
#endif
#ifdef MDL_ZSTD
    case PACK_ZSTD:
      return zstd_step(u, to, room);
#endif
#ifdef MDL_LZMA
    case PACK_XZ:
      return xz_step(u, to, room);
#endif
    default: {
      const size_t there = u->end - u->begin, count = there < room ? there : room;
      memcpy(to, u->input + u->begin, count);
      u->begin += count;
      return (Step){.written = count};
    }
  }
}

static bool cut_error(const Unpack *u, Error *error) {
  return error_set(error, 1, "%s ends at its byte %lld, within what was packed: it is truncated", u->path,
                   (long long)u->taken);
}

bool unpack_read(Unpack *u, void *to, size_t size, size_t *got, Error *error) {
  *got = 0;
  while (*got < size) {
    const size_t begin = u->begin;
    const Step step = step_take(u, (uint8_t *)to + *got, size - *got);
    const bool idle =
        step.written == 0 && u->begin == begin;  // else a part without bytes, or the checks of one, passed
    *got += step.written;
    if (step.starved) {
      return error_set(error, 3, "no memory to unpack %s", u->path);
    }
    if (step.wrong) {
      return error_set(error, 1, "%s cannot be unpacked beyond its byte %lld: %s", u->path, (long long)unpack_taken(u),
                       step.wrong);
    }
    if (step.done || (idle && u->over)) {
      break;
    }
    if (idle && !input_read(u, error)) {
      return false;
    }
  }
  return *got == size || !u->within || cut_error(u, error);
}

// --- open and close ---

static bool pack_begin(Unpack *u, const char *by, Error *error) {
  bool known = false, done = false;
#ifdef MDL_ZLIB
  if (u->pack == PACK_GZIP) {
    known = true;
    done = inflateInit2(&u->gzip, 15 + 16) == Z_OK;  // windows of 32 KiB, and a header of gzip
  }
#endif
#ifdef MDL_ZSTD
  if (u->pack == PACK_ZSTD) {
    known = true;
    done = (u->zstd = ZSTD_createDStream()) != NULL;
  }
#endif
#ifdef MDL_LZMA
  if (u->pack == PACK_XZ) {
    known = true;
    done = lzma_stream_decoder(&u->xz, WINDOW_MOST, LZMA_CONCATENATED) == LZMA_OK;
  }
#endif
  if (!known) {
    return error_set(error, 1, "%s is packed by %s, whose library this program was built without; unpack it first",
                     u->path, by);
  }
  return done || error_set(error, 3, "no memory to unpack %s", u->path);
}

// Does the file begin as this one packs? What pzstd writes has frames of zstd that are to be skipped ahead.
static bool is_packed(const Unpack *u, int by) {
  const uint8_t *first = u->input + u->begin;
  const size_t there = u->end - u->begin;
  return there >= packs[by].size &&
         (memcmp(first, packs[by].magic, packs[by].size) == 0 ||
          (packs[by].pack == PACK_ZSTD && (first[0] & 0xf0) == 0x50 && memcmp(first + 1, "\x2a\x4d\x18", 3) == 0));
}

static bool begin(Unpack *u, bool packed, Error *error) {
  u->input = malloc(INPUT);
  if (!u->input) {
    return error_set(error, 3, "no memory to read %s", u->path);
  }
  if (!packed) {
    return true;
  }
  if (!input_has(u, packs[PACKS - 1].size, error)) {
    return false;
  }
  const size_t here = u->end;
  size_t length;
  for (int i = 0; i < PACKS; i++) {
    if (is_packed(u, i)) {
      u->pack = packs[i].pack;
      return pack_begin(u, packs[i].by, error);
    }
  }
  const bool named = unpack_ending(u->path, &length);
  for (int i = 0; named && i < PACKS; i++) {
    if (here > 0 && here < packs[i].size && memcmp(u->input, packs[i].magic, here) == 0 &&
        strcasecmp(u->path + length, packs[i].ending) == 0) {
      return cut_error(u, error);
    }
  }
  return !named ||
         error_set(error, 1,
                   "%s does not begin as a file that was packed does, as its name says: it is cut or damaged, or the "
                   "name should end otherwise",
                   u->path);
}

Unpack *unpack_open(const char *path, bool packed, Error *error) {
  Unpack *u = calloc(1, sizeof *u);
  if (!u) {
    error_set(error, 3, "no memory to read %s", path);
    return NULL;
  }
  *u = (Unpack){.path = path, .fd = -1, .size = -1};
  bool done;
  if (packed && strcmp(path, UNPACK_STDIN) == 0) {
    u->path = UNPACK_STDIN_NAME;
    u->fd = dup(STDIN_FILENO);
    done = u->fd >= 0 || io_failed("read", u->path, error);
  } else {
    done = io_open_sized(path, &u->fd, &u->size, error);
  }
  if (!done || !begin(u, packed, error)) {
    unpack_close(u);
    return NULL;
  }
  return u;
}

void unpack_close(Unpack *u) {
  if (!u) {
    return;
  }
#ifdef MDL_ZLIB
  if (u->pack == PACK_GZIP) {
    inflateEnd(&u->gzip);
  }
#endif
#ifdef MDL_ZSTD
  ZSTD_freeDStream(u->zstd);
#endif
#ifdef MDL_LZMA
  lzma_end(&u->xz);
#endif
  if (u->fd >= 0) {
    close(u->fd);
  }
  free(u->input);
  free(u);
}
