// put.cu: PUT where several coordinates may meet at one element of x: the same bits each time, without float atomics.
//
// A coordinate of the KEYS that choose a row of x (row = where in x the index and the coordinates that x has lead) is
// sorted by row, stably (sort.cu): PASSES passes over DIGIT_BITS bits each. Then the
// sorted order is cut into chunks of CHUNK, whatever the rows in them: a row that lies in one chunk is summed and
// written; of one that goes on in the next, each chunk leaves a partial sum and put_join adds them in order. So one
// frequent row is as much work as many rare ones. Rows nobody names are zeroed by further blocks.
//
// Scratch: keys [2][KEYS], places [2][KEYS], counts [BLOCKS][DIGITS], present [ROWS] (all u32), partial
// [CHUNKS][2][COLUMNS] (Real), at the offsets AT_*, in bytes.
constexpr int PACKS = COLUMNS / PACK, TILES = (PACKS + THREADS - 1) / THREADS;
typedef FormatX::Real Real;

__device__ __forceinline__ bool adds(const Slots &slots) {
  return WRITE_ADDS || (WRITE_ADDS_AFTER_FIRST && !(slots.at[FLAGS] & 1));
}

__device__ __forceinline__ u32 *keys_of(const Slots &slots, int which) {
  return (u32 *)(slots.at[SCRATCH] + AT_KEYS) + (i64)which * KEYS;
}

__device__ __forceinline__ u32 *places_of(const Slots &slots, int which) {
  return (u32 *)(slots.at[SCRATCH] + AT_PLACES) + (i64)which * KEYS;
}

__device__ __forceinline__ u32 *counts_of(const Slots &slots) {
  return (u32 *)(slots.at[SCRATCH] + AT_COUNTS);
}

__device__ __forceinline__ u32 *present_of(const Slots &slots) {
  return (u32 *)(slots.at[SCRATCH] + AT_PRESENT);
}

__device__ __forceinline__ Real *partial_of(const Slots &slots, int chunk, int which) {
  return (Real *)(slots.at[SCRATCH] + AT_PARTIAL) + ((i64)chunk * 2 + which) * COLUMNS;
}

// The row of key i before pass PASS; ROWS if the index is outside.
template <int PASS>
__device__ __forceinline__ u32 key_at(const Slots &slots, int i) {
  if constexpr (PASS > 0) {
    return keys_of(slots, (PASS + 1) % 2)[i];
  }
  i64 index, family, source;
  key_seek(i, index, family, source);
  const int place = ((const int *)slots.at[1])[index];
  return place >= 0 && place < EXTENT ? (u32)(family * EXTENT + place) : ROWS;
}

template <int PASS>
__device__ __forceinline__ void placed(const Slots &slots, int i, u32 key, u32 to) {
  keys_of(slots, PASS % 2)[to] = key;
  places_of(slots, PASS % 2)[to] = PASS > 0 ? places_of(slots, (PASS + 1) % 2)[i] : i;
  if (PASS == 0 && key < ROWS) {
    present_of(slots)[key] = 1;
  }
}

__device__ __forceinline__ void digit_begins(const Slots &, int, u32, u32) {
}

// Rows that nobody names. With more than one pass this goes on beside the last placing, whose few blocks wait a lot.
template <int WIDTH>
__device__ __forceinline__ void rows_zero(const Slots &slots, int block) {
  const i64 first = (i64)block * (WIDTH * EACH) + threadIdx.x;
  if (adds(slots)) {
    return;
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const i64 item = first + i * WIDTH;
    if (item < (i64)ROWS * PACKS && present_of(slots)[item / PACKS] == 0) {
      i64 x, column, source;
      row_seek((u32)(item / PACKS), x);
      column_seek((u32)(item % PACKS), column, source);
      pack_store<FormatX, PACK>((void *)slots.at[0], x + column, pack_zero<FormatX, PACK>());
    }
  }
}

template <int PASS>
__device__ __forceinline__ void place_or_zero(const Slots &slots) {
  if (blockIdx.x < BLOCKS) {
    sort_place<PASS>(slots);
  } else {
    rows_zero<SORT_THREADS>(slots, (int)blockIdx.x - BLOCKS);
  }
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_count_0(Slots slots) {
  const int step = (int)gridDim.x * SORT_THREADS, first = (int)blockIdx.x * SORT_THREADS + (int)threadIdx.x;
  for (i64 i = first; i < ROWS; i += step) {
    present_of(slots)[i] = 0;
  }
  if (!DENSE && !adds(slots)) {
    for (i64 i = first; i < X_ELEMENTS; i += step) {
      ((FormatX::Memory *)slots.at[0])[i] = 0;
    }
  }
  sort_count<0>(slots);
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_place_0(Slots slots) {
  sort_place<0>(slots);
}

#if PASSES > 1
extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_count_1(Slots slots) {
  sort_count<1>(slots);
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_place_1(Slots slots) {
  place_or_zero<1>(slots);
}
#endif

#if PASSES > 2
extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_count_2(Slots slots) {
  sort_count<2>(slots);
}

extern "C" __global__ void __launch_bounds__(SORT_THREADS) put_place_2(Slots slots) {
  place_or_zero<2>(slots);
}
#endif

constexpr int SORTED = (PASSES + 1) % 2;  // which of the two keys and places the last pass wrote

struct Sum {
  Real at[PACK];
};

__device__ __forceinline__ void sum_clear(Sum &sum) {
#pragma unroll
  for (int e = 0; e < PACK; e++) {
    sum.at[e] = 0;
  }
}

// A whole sum, to its place in x.
__device__ __forceinline__ void sum_write(const Slots &slots, u32 row, i64 column, bool add, const Sum &sum) {
  i64 x;
  row_seek(row, x);
  Pack<FormatX, PACK> pack;
  if (add) {
    pack = pack_load<FormatX, PACK>((const void *)slots.at[0], x + column);
  }
#pragma unroll
  for (int e = 0; e < PACK; e++) {
    pack.at[e] = FormatX::store(add ? FormatX::load(pack.at[e]) + sum.at[e] : sum.at[e]);
  }
  pack_store<FormatX, PACK>((void *)slots.at[0], x + column, pack);
}

extern "C" __global__ void __launch_bounds__(THREADS) put_sum(Slots slots) {
  constexpr u32 NONE = 0xffffffffu;
  i64 *const source_at = (i64 *)shared_memory;
  u32 *const key = (u32 *)(source_at + CHUNK) + 1;  // key[-1] and key[n]: the neighbours
  const bool add = !DENSE || adds(slots);
  if (blockIdx.x >= CHUNKS * TILES) {
    rows_zero<THREADS>(slots, (int)blockIdx.x - CHUNKS * TILES);
    return;
  }
  const int chunk = (int)(blockIdx.x / TILES), tile = (int)(blockIdx.x % TILES), begin = chunk * CHUNK;
  const int n = KEYS - begin < CHUNK ? KEYS - begin : CHUNK, pack = tile * THREADS + (int)threadIdx.x;
  for (int i = (int)threadIdx.x - 1; i <= n; i += THREADS) {
    key[i] = begin + i >= 0 && begin + i < KEYS ? keys_of(slots, SORTED)[begin + i] : NONE;
    if (i >= 0 && i < n) {
      i64 index, family;
      key_seek(places_of(slots, SORTED)[begin + i], index, family, source_at[i]);
    }
  }
  __syncthreads();
  if (pack >= PACKS) {
    return;
  }
  i64 column, source;
  Sum sum;
  bool begun = key[-1] == key[0];  // in the chunk before
  column_seek((u32)pack, column, source);
  sum_clear(sum);
  for (int base = 0; base < n && key[base] != ROWS; base += 8) {
    Pack<FormatOut, PACK> from[8];
#pragma unroll
    for (int u = 0; u < 8; u++) {
      from[u] = base + u < n && key[base + u] != ROWS
                    ? pack_load<FormatOut, PACK>((const void *)slots.at[2], source_at[base + u] + source)
                    : pack_zero<FormatOut, PACK>();
    }
#pragma unroll
    for (int u = 0; u < 8; u++) {
      const int i = base + u;
      if (i < n && key[i] != ROWS) {
#pragma unroll
        for (int e = 0; e < PACK; e++) {
          sum.at[e] += (Real)FormatOut::load(from[u].at[e]);
        }
        if (i + 1 == n || key[i + 1] != key[i]) {
          const bool goes_on = key[i + 1] == key[i];
          if (begun || goes_on) {
            *(Sum *)(partial_of(slots, chunk, begun ? 0 : 1) + pack * PACK) = sum;
          } else {
            sum_write(slots, key[i], column, add, sum);
          }
          begun = false;
          sum_clear(sum);
        }
      }
    }
  }
}

// For the row that goes on after this chunk, if it begins here.
extern "C" __global__ void __launch_bounds__(THREADS) put_join(Slots slots) {
  const int chunk = (int)(blockIdx.x / TILES), tile = (int)(blockIdx.x % TILES);
  const int pack = tile * THREADS + (int)threadIdx.x, next = (chunk + 1) * CHUNK;
  const u32 *const key = keys_of(slots, SORTED);
  if (next >= KEYS || pack >= PACKS) {
    return;
  }
  const u32 row = key[next];
  if (row == ROWS || key[next - 1] != row || (chunk > 0 && key[next - CHUNK - 1] == row)) {
    return;
  }
  int last = chunk + 1, beyond = CHUNKS;  // the last chunk that begins with this row
  while (beyond - last > 1) {
    const int middle = last + (beyond - last) / 2;
    if (key[middle * CHUNK] == row) {
      last = middle;
    } else {
      beyond = middle;
    }
  }
  Sum sum = *(const Sum *)(partial_of(slots, chunk, 1) + pack * PACK);
#pragma unroll 8
  for (int c = chunk + 1; c <= last; c++) {
    const Sum more = *(const Sum *)(partial_of(slots, c, 0) + pack * PACK);
#pragma unroll
    for (int e = 0; e < PACK; e++) {
      sum.at[e] += more.at[e];
    }
  }
  i64 column, source;
  column_seek((u32)pack, column, source);
  sum_write(slots, row, column, !DENSE || adds(slots), sum);
}
