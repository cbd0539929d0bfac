// localise.h: what localise.c and the padding that it brings about (localise_padding.c) share.
#ifndef MDL_COMPILER_SHARD_LOCALISE_H
#define MDL_COMPILER_SHARD_LOCALISE_H

#include "compiler/shard/shard.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  Shard *shard;
  int values;    // of the graph before the pass
  Map locals;    // axis and mesh axes to the local axis
  Map contents;  // value and local axis to what its padding holds
  Map masked;    // value, local axis, neutral element and region to the value without padding
  Map members;   // axis of a pack to the elements of its members on one rank
  Map stored;    // values that packs are to hold
  Map shifted;   // index, local axis and region to the index into a rank's part
  bool told;     // that a sum meets padding of members of a pack which holds something
  bool within;   // a composite, whose kernel does not compute the values of its body
  Map poisoned;  // value to what stands for it, with CompileOptions.poison
  // By value inside attention on a ring: scores are cut along the queries and along the keys, over the same mesh axes.
  AxisId *keys;
  uint32_t *ring;  // the mesh axes that cut them
} Localise;

const Pack *localise_pack(const Graph *graph, AxisId axis);  // that lies along it, or NULL
bool localise_padded(const Localise *l, AxisId local);       // does a part of it go past the end on some ranks?
ValueId localise_offset(Localise *l, AxisId local);          // where a rank's part begins, as an int; -1: at zero

int64_t localise_members(Localise *l, const Pack *pack);  // elements on one rank, without what its pieces end behind

// The place of a rank among those over these mesh axes times `stride`, as an int; -1: it is zero.
ValueId localise_place(Localise *l, uint32_t mesh, int64_t stride);

// Puts into the padding of the operands what the node must find there (padding.h).
void localise_mask(Localise *l, NodeId id);

// With CompileOptions.poison: NaN into the padding of the results where nothing is promised, and what stands for a
// value that was poisoned.
void localise_poison(Localise *l, NodeId id);
ValueId localise_poisoned(const Localise *l, ValueId value);

#endif
