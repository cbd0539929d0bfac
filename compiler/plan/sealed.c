// sealed.c: see sealed.h.
#include "compiler/plan/sealed.h"

#include <string.h>
#include <xxhash.h>

void seal_begin(Buffer *out) {
  const char head[SEAL_BYTES] = {0};
  buffer_bytes(out, head, sizeof head);
}

bool seal_end(const Seal *seal, Buffer *out) {
  Buffer head = {0};
  Codec codec = {.out = &head};
  uint32_t version = seal->version, zero = 0;
  bool done = !out->failed;
  if (done) {
    uint64_t bytes = out->length - SEAL_BYTES, hash = XXH3_64bits(out->text + SEAL_BYTES, (size_t)bytes);
    buffer_bytes(&head, seal->magic, sizeof seal->magic);
    code_u32(&codec, &version);
    code_u32(&codec, &zero);
    code_u64(&codec, &bytes);
    code_u64(&codec, &hash);
    done = !head.failed;
  }
  if (done) {
    memcpy(out->text, head.text, SEAL_BYTES);
  }
  buffer_free(&head);
  return done;
}

static bool head_read(const Seal *seal, Arena *arena, const char *what, const void *head, uint64_t *payload,
                      uint64_t *hash, const char **why) {
  Codec codec = {.in = (const uint8_t *)head + sizeof seal->magic, .left = SEAL_BYTES - sizeof seal->magic};
  uint32_t version = 0, zero = 0;
  if (memcmp(head, seal->magic, sizeof seal->magic) != 0) {
    *why = arena_format(arena, "%s is no %s: %s begins otherwise", what, seal->noun, seal->begin);
    return false;
  }
  code_u32(&codec, &version);
  code_u32(&codec, &zero);
  code_u64(&codec, payload);
  code_u64(&codec, hash);
  if (version != seal->version) {
    *why = arena_format(arena, "%s is a %s of format %u; this program reads %u: %s", what, seal->noun,
                        (unsigned)version, (unsigned)seal->version, seal->fix);
    return false;
  }
  *why = zero == 0 ? NULL : arena_format(arena, "%s is damaged: its head is", what);
  return zero == 0;
}

bool seal_open_head(const Seal *seal, Arena *arena, const char *what, const void *head, uint64_t *payload,
                    const char **why) {
  uint64_t hash;
  return head_read(seal, arena, what, head, payload, &hash, why);
}

bool seal_open(const Seal *seal, Arena *arena, const char *what, const void *bytes, size_t length, Codec *codec,
               const char **why) {
  uint64_t payload = 0, hash = 0;
  if (length < SEAL_BYTES) {
    *why = arena_format(arena, "%s is no %s: %s begins otherwise", what, seal->noun, seal->begin);
    return false;
  }
  if (!head_read(seal, arena, what, bytes, &payload, &hash, why)) {
    return false;
  }
  *codec = (Codec){.arena = arena, .in = (const uint8_t *)bytes + SEAL_BYTES, .left = length - SEAL_BYTES};
  if (payload != codec->left) {
    *why = arena_format(arena, "%s is cut short or damaged: %zu bytes of %s, %llu expected", what, codec->left,
                        seal->noun, (unsigned long long)payload);
    return false;
  }
  if (XXH3_64bits(codec->in, codec->left) != hash) {
    *why = arena_format(arena, "%s is damaged: its hash does not fit its bytes", what);
    return false;
  }
  return true;
}
