// peers.h: what a rank in a process of its own knows of the ranks in other processes of this machine.
//
// For backends that are `apart` (device.h), while one of their devices is opened and run. The processes share some
// memory: notes that each rank writes and all may read, and words that say which collective a rank is in.
#ifndef MDL_RUNTIME_PEERS_H
#define MDL_RUNTIME_PEERS_H

#include "runtime/device.h"

enum { PEERS_NOTE_BYTES = 256 * 1024, PEERS_PAGE = 4096, PEERS_MAX_WAYS = 2048 };

int64_t peers_rank(const Peers *peers);
int64_t peers_count(const Peers *peers);

// Waits until all ranks have called it as often; all that they wrote to notes before it can be read after it. Only
// while a device is opened: a rank that does not come is noticed by the process that started them all.
bool peers_meet(Peers *peers, Error *error);
void *peers_note(const Peers *peers, int64_t rank);  // PEERS_NOTE_BYTES

// A rank's way through a run, on each of its queues (compiler/plan/waits.h), of which a device has at most
// PEERS_MAX_WAYS. The device itself writes these, in order with its work: at the
// beginning of a run 0 to `begun` and then to `ended`, and around each collective and transfer its word to the one and
// to the other.
typedef struct {
  _Alignas(64) _Atomic uint32_t begun;
  _Alignas(64) _Atomic uint32_t ended;
} PeersWay;

typedef struct {
  PeersWay way[PEERS_MAX_WAYS];
} PeersWords;

PeersWords *peers_words(const Peers *peers);  // this rank's, whole pages of memory

// Of the number-th collective or transfer of a program, from 1, in the order in which its calls run them.
uint32_t peers_word(ProgramKind program, int64_t number);

int64_t program_shared_count(const Plan *plan, ProgramKind program);  // of one run

#endif
