// collective.h: collectives, messages and pieces in the memory of one process.
#ifndef MDL_RUNTIME_CPU_COLLECTIVE_H
#define MDL_RUNTIME_CPU_COLLECTIVE_H

#include "runtime/ranks.h"

// `call` is the number of the call in its program. `ranks` NULL: the only rank there is.
bool collective_run(const Instruction *instruction, Ranks *ranks, int64_t rank, int64_t call, const void *from,
                    void *to, Error *error);
bool receive_run(const Instruction *instruction, Ranks *ranks, int64_t rank, void *memory, Error *error);
// `part`: the coordinate of this rank along the mesh axes of the piece.
void piece_run(const Piece *piece, int64_t part, const void *from, void *to);

#endif
