// nccl_memory.c: see nccl_memory.h.
#include "runtime/cuda/nccl_memory.h"

static const int64_t PIECE = INT64_C(2) << 20, CODE = INT64_C(178) << 20, REST = INT64_C(52) << 20;
enum { CHANNELS = 24, MESSAGE_CHANNELS = 32, TABLES = 2, CHANNEL_TABLES = 3 };
enum { WINDOW_BLOCKS = 64, WINDOW_SLOTS = 2 * 512, SLOT = 16, WINDOW_TABLES = 2 };
enum { LL = 8 * 512 * 8 * 16, LL128 = 120 * 640 * 8 * 8, SIMPLE = 4 << 20 };

static int64_t pieces(int64_t bytes) {
  return (bytes + PIECE - 1) / PIECE * PIECE;
}

static int least(int a, int b) {
  return b > 0 && b < a ? b : a;
}

int64_t nccl_memory_of(const NcclUse *use) {
  const int64_t channels = least(CHANNELS, use->blocks), message_channels = least(MESSAGE_CHANNELS, use->blocks);
  const int64_t send = PIECE, receive = pieces((int64_t)LL + LL128 + SIMPLE + 1);  // and what they are managed by
  const bool both_ways = use->rings && use->trees && use->ranks > 2;
  int64_t bytes = REST + TABLES * PIECE + CHANNEL_TABLES * PIECE * message_channels;
  bytes +=
      use->windows ? pieces((int64_t)WINDOW_BLOCKS * WINDOW_SLOTS * SLOT * use->ranks + 1) + WINDOW_TABLES * PIECE : 0;
  bytes += use->rings ? channels * (send + receive) * (both_ways ? 2 : 1) : 0;
  return bytes + message_channels * (use->sends * send + use->hears * receive);
}

int64_t nccl_memory_code(void) {
  return CODE;
}
