// cuda_warps.hpp: stands in for target.cu and intrinsics.cu of kernels/cuda/text where a text is compiled for the host.
//
// What all lanes of a warp do together (shuffles, matrices) goes through hooks of cuda_warps.h. Copies that come later
// are made when they are waited for, and poison their place until then.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_warps_hooks.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef u64 SharedAddress;

extern "C" WarpsHooks *warps_hooks;
WarpsHooks *warps_hooks;

#define DEVICE static inline
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx warps_hooks->thread
#define blockIdx warps_hooks->block
#define gridDim warps_hooks->grid
#define INFINITE INFINITY
#define shared_memory (warps_hooks->shared)

struct __align__(8) float2 {
  float x, y;
};

struct __align__(16) float4 {
  float x, y, z, w;
};

struct __align__(16) uint4 {
  u32 x, y, z, w;
};

static inline void __syncthreads() {
  warps_hooks->barrier();
}

// What each lane gave, in the order of the lanes.
template <typename T>
struct Lanes {
  const WarpsValue *values;
  explicit Lanes(const T &mine) {
    WarpsValue value = {};
    static_assert(sizeof(T) <= sizeof value, "too much for one exchange");
    memcpy(&value, &mine, sizeof mine);
    values = warps_hooks->exchange(&value);
  }
  T of(int lane) const {
    T value;
    memcpy(&value, &values[lane], sizeof value);
    return value;
  }
};

static inline int lane_here() {
  return (int)(threadIdx.x % 32);
}

static inline void __syncwarp() {
  Lanes<int>(0);
}

template <typename T>
static inline T __shfl_xor_sync(u32, T x, int by) {
  return Lanes<T>(x).of(lane_here() ^ by);
}

template <typename T>
static inline T __shfl_up_sync(u32, T x, int by) {
  return Lanes<T>(x).of(lane_here() < by ? lane_here() : lane_here() - by);
}

static inline int __any_sync(u32, bool x) {
  const Lanes<int> lanes(x);
  int any = 0;
  for (int i = 0; i < 32; i++) {
    any |= lanes.of(i);
  }
  return any;
}

static inline u32 __ballot_sync(u32, bool x) {
  const Lanes<int> lanes(x);
  u32 all = 0;
  for (int i = 0; i < 32; i++) {
    all |= (u32)lanes.of(i) << i;
  }
  return all;
}

static inline u32 __match_any_sync(u32, u32 x) {
  const Lanes<u32> lanes(x);
  u32 same = 0;
  for (int i = 0; i < 32; i++) {
    same |= (u32)(lanes.of(i) == x) << i;
  }
  return same;
}

static inline int __popc(u32 x) {
  return __builtin_popcount(x);
}

static inline u32 atomicAdd(u32 *at, u32 x) {
  const u32 before = *at;
  *at += x;
  return before;
}

static inline SharedAddress shared_address(const void *at) {
  return (u64)at;
}

static inline float bits_float(u32 bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline u32 float_bits(float x) {
  u32 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double bits_double(u64 bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float larger_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

static inline float smaller_f32(float a, float b) {
  return a < b || a != a ? a : b;
}

static inline float shuffle_f32(float x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}

static inline double shuffle_f64(double x, int with) {
  return __shfl_xor_sync(0xffffffffu, x, with);
}

static inline float rsqrtf(float x) {
  return 1 / sqrtf(x);
}

static inline float reciprocal_fast(float x) {
  return 1 / x;
}

static inline float exp2_fast(float x) {
  return exp2f(x);
}

static inline float bf16_float(u16 x) {
  return bits_float((u32)x << 16);
}

static inline u16 float_bf16(float x) {
  u32 bits;
  memcpy(&bits, &x, sizeof bits);
  return x != x ? 0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f16_float(u16 x) {
  _Float16 half;
  memcpy(&half, &x, sizeof half);
  return (float)half;
}

static inline u16 float_f16(float x) {
  const _Float16 half = (_Float16)x;
  u16 bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}

static inline u32 pack_bf16(float low, float high) {
  return float_bf16(low) | (u32)float_bf16(high) << 16;
}

static inline u32 pack_f16(float low, float high) {
  return float_f16(low) | (u32)float_f16(high) << 16;
}

static inline void copy_later_16(SharedAddress to, const void *from, int bytes) {
  warps_hooks->copy_later((void *)to, from, bytes, 16);
}

static inline void copy_later_4(SharedAddress to, const void *from, int bytes) {
  warps_hooks->copy_later((void *)to, from, bytes, 4);
}

static inline void copies_close() {
  warps_hooks->copies_close();
}

template <int LATER>
static inline void copies_come() {
  warps_hooks->copies_wait(LATER);
}

static inline void copies_wait() {
  copies_close();
  copies_come<0>();
}

// Lane l gets elements (l / 4, l % 4 * 2) and the next of each 8 x 8 matrix, whose row r is at the address of lane
// 8 * matrix + r; transposed: those of the transposed matrix.
static inline void matrices_get(u32 (&to)[4], SharedAddress at, bool transposed) {
  const Lanes<SharedAddress> rows(at);
  if (at % 16 != 0) {
    abort();
  }
  for (int matrix = 0; matrix < 4; matrix++) {
    u16 pair[2];
    for (int e = 0; e < 2; e++) {
      const int row = lane_here() / 4, column = lane_here() % 4 * 2 + e;
      const u16 *line = (const u16 *)rows.of(matrix * 8 + (transposed ? column : row));
      pair[e] = line[transposed ? row : column];
    }
    to[matrix] = pair[0] | (u32)pair[1] << 16;
  }
}

static inline void matrices_load(u32 (&to)[4], SharedAddress at) {
  matrices_get(to, at, false);
}

static inline void matrices_load_transposed(u32 (&to)[4], SharedAddress at) {
  matrices_get(to, at, true);
}

struct ProductOperands {
  u32 a[4], b[2];
};

// mma.m16n8k16: a(i, k) is in lane i % 8 * 4 + k % 8 / 2, word i / 8 + k / 8 * 2; b(k, j) in lane j * 4 + k % 8 / 2,
// word k / 8; half k % 2 of it.
template <float (*REAL)(u16)>
static inline void product_of(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const Lanes<ProductOperands> lanes({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  for (int e = 0; e < 4; e++) {
    const int i = lane_here() / 4 + e / 2 * 8, j = lane_here() % 4 * 2 + e % 2;
    for (int k = 0; k < 16; k++) {
      const u32 left = lanes.of(i % 8 * 4 + k % 8 / 2).a[i / 8 + k / 8 * 2],
                right = lanes.of(j * 4 + k % 8 / 2).b[k / 8];
      c[e] += REAL((u16)(left >> k % 2 * 16)) * REAL((u16)(right >> k % 2 * 16));
    }
  }
}

static inline void product_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  product_of<bf16_float>(c, a, b0, b1);
}

static inline void product_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  product_of<f16_float>(c, a, b0, b1);
}

// --- hopper.cu: what a copy or a product does, it does at once ---

#define KEEP_IN_LOOP(x)

struct __align__(64) Map {  // of warps_map
  u64 address, size[5], stride[4], box[2], rest[4];
};

struct Operand {
  SharedAddress at;
  u32 next;
};

static inline Operand operand_at(SharedAddress at, u32 next) {
  return {at, next};
}

static inline Operand operand_on(Operand tile, u32 bytes) {
  return {tile.at + bytes, tile.next};
}

static inline u16 *swizzled(SharedAddress at) {
  return (u16 *)(at ^ (at >> 7 & 7) << 4);
}

// Element (row, column) of 16 columns; columns: those of the product are rows of the tile.
static inline u16 tile_element(const Operand &tile, bool columns, int row, int column) {
  return columns ? *swizzled(tile.at + row / 64 * tile.next + column * 128 + row % 64 * 2)
                 : *swizzled(tile.at + row * 128 + column * 2);
}

struct Phase {
  u16 count, pending;
  int bytes : 31;
  unsigned parity : 1;
};

static inline Phase *phase_at(SharedAddress barrier) {
  static_assert(sizeof(Phase) == 8, "a barrier has 8 bytes");
  return (Phase *)barrier;
}

static inline void phase_check(Phase *phase) {
  warps_hooks->moved();
  if (phase->pending == 0 && phase->bytes == 0) {
    phase->pending = phase->count;
    phase->parity ^= 1;
  }
}

static inline void phase_init(SharedAddress barrier, u32 count) {
  *phase_at(barrier) = {(u16)count, (u16)count, 0, 0};
}

static inline void phases_ready() {
}

static inline void phase_bytes(SharedAddress barrier, int bytes) {
  phase_at(barrier)->bytes += bytes;
  phase_check(phase_at(barrier));
}

static inline void phase_arrive(SharedAddress barrier) {
  if (phase_at(barrier)->pending-- == 0) {
    abort();
  }
  phase_check(phase_at(barrier));
}

static inline void phase_expect(SharedAddress barrier, u32 bytes) {
  phase_at(barrier)->bytes += (int)bytes;
  phase_arrive(barrier);
}

static inline void phase_wait(SharedAddress barrier, u32 parity) {
  while (phase_at(barrier)->parity == parity) {
    warps_hooks->yield();
  }
}

static inline void turn_arrive(u32 number, u32 threads) {
  WarpsTurn *turn = &warps_hooks->turn[number];
  warps_hooks->moved();
  if (++turn->arrived == (int)threads) {
    turn->arrived = 0;
    turn->round++;
  }
}

static inline void turn_sync(u32 number, u32 threads) {
  const int round = warps_hooks->turn[number].round;
  turn_arrive(number, threads);
  while (warps_hooks->turn[number].round == round) {
    warps_hooks->yield();
  }
}

static inline void box_load(SharedAddress to, const Map *map, SharedAddress barrier, int c0, int c1, int c2, int c3,
                            int c4) {
  const int first[] = {c0, c1, c2, c3, c4};
  for (u64 row = 0; row < map->box[1]; row++) {
    for (u64 column = 0; column < map->box[0]; column++) {
      const i64 at[] = {(i64)(first[0] + column), (i64)(first[1] + row), first[2], first[3], first[4]};
      i64 offset = at[0];
      bool inside = at[0] >= 0 && at[0] < (i64)map->size[0];
      for (int i = 1; i < 5; i++) {
        inside = inside && at[i] >= 0 && at[i] < (i64)map->size[i];
        offset += at[i] * (i64)map->stride[i - 1];
      }
      *swizzled(to + row * 128 + column * 2) = inside ? ((const u16 *)map->address)[offset] : 0;
    }
  }
  phase_bytes(barrier, -(int)(map->box[0] * map->box[1] * 2));
}

// What another block of the cluster has at the same place.
static inline SharedAddress shared_of(SharedAddress at, u32 rank) {
  return at + (i64)((int)rank - (int)warps_hooks->rank) * warps_hooks->shared_apart;
}

static inline void box_share(SharedAddress to, const Map *map, SharedAddress barrier, u16 blocks, int c0, int c1, int c2,
                             int c3, int c4) {
  for (u32 rank = 0; blocks >> rank; rank++) {
    if (blocks >> rank & 1) {
      box_load(shared_of(to, rank), map, shared_of(barrier, rank), c0, c1, c2, c3, c4);
    }
  }
}

static inline u32 cluster_rank() {
  return warps_hooks->rank;
}

static inline void cluster_sync() {
  warps_hooks->cluster_barrier();
}

static inline void phase_arrive_at(SharedAddress barrier, u32 rank) {
  phase_arrive(shared_of(barrier, rank));
}

static inline void bytes_load(SharedAddress to, const void *from, u32 bytes, SharedAddress barrier) {
  if (((u64)from | to | bytes) % 16 != 0) {
    abort();
  }
  memcpy((void *)to, from, bytes);
  phase_bytes(barrier, -(int)bytes);
}

static inline void bytes_store(void *to, SharedAddress from, u32 bytes) {
  memcpy(to, (const void *)from, bytes);
}

static inline void floats_add(float *to, SharedAddress from, u32 bytes) {
  for (u32 i = 0; i < bytes / 4; i++) {
    to[i] += ((const float *)from)[i];
  }
}

static inline void stores_close() {
}

static inline void stores_read() {
}

static inline void stores_done() {
}

static inline void shared_publish() {
}

static inline void copies_follow() {
}

static inline u32 count_read(const u32 *at) {
  warps_hooks->yield();
  return *(const volatile u32 *)at;
}

static inline void count_write(u32 *at, u32 x) {
  *at = x;
  warps_hooks->moved();
}

template <int COUNT>
static inline void registers_more() {
}

template <int COUNT>
static inline void registers_fewer() {
}

static inline void products_begin() {
}

static inline void products_close() {
}

template <int LATER>
static inline void products_wait() {
}

template <int N>
static inline void products_hold(float (&)[N][4]) {
}

static inline float2 shared_floats(SharedAddress at) {
  return *(const float2 *)at;
}

static inline int shared_get(SharedAddress at) {
  return *(const int *)at;
}

static inline void shared_put(SharedAddress at, int x) {
  *(int *)at = x;
}

static inline void shared_store(SharedAddress at, const float (&x)[4]) {
  memcpy((void *)at, x, sizeof x);
}

static inline void matrices_store(SharedAddress at, u32 a, u32 b, u32 c, u32 d) {
  const Lanes<SharedAddress> rows(at);
  const u32 words[] = {a, b, c, d};
  for (int matrix = 0; matrix < 4; matrix++) {
    memcpy((void *)(rows.of(matrix * 8 + lane_here() / 4) + lane_here() % 4 * 4), &words[matrix], 4);
  }
  __syncwarp();
}

#if WARPS_F16  // elements of the text
#define element_real f16_float
#else
#define element_real bf16_float
#endif

struct LeftOperand {
  u32 word[4];
};

// c(i, j) of a warp's 16 rows: that of lane i % 8 * 4 + j % 8 / 2, as those of mma.m16n8k16.
template <int COLUMNS_A, int COLUMNS_B, int N>
static inline void warpgroup_product(float (&c)[N][4], Operand a, Operand b, int add) {
  for (int n = 0; n < N; n++) {
    for (int e = 0; e < 4; e++) {
      const int row = (int)(threadIdx.x % 128) / 32 * 16 + lane_here() / 4 + e / 2 * 8;
      const int column = n * 8 + lane_here() % 4 * 2 + e % 2;
      float sum = add ? c[n][e] : 0;
      for (int k = 0; k < 16; k++) {
        sum += element_real(tile_element(a, COLUMNS_A, row, k)) * element_real(tile_element(b, COLUMNS_B, column, k));
      }
      c[n][e] = sum;
    }
  }
  __syncwarp();
}

template <int COLUMNS_A, int COLUMNS_B, int N>
static inline void warpgroup_product(float (&c)[N][4], const u32 (&a)[4], Operand b, int add) {
  const Lanes<LeftOperand> lanes(LeftOperand{{a[0], a[1], a[2], a[3]}});
  for (int n = 0; n < N; n++) {
    for (int e = 0; e < 4; e++) {
      const int row = lane_here() / 4 + e / 2 * 8, column = n * 8 + lane_here() % 4 * 2 + e % 2;
      float sum = add ? c[n][e] : 0;
      for (int k = 0; k < 16; k++) {
        const u32 left = lanes.of(row % 8 * 4 + k % 8 / 2).word[row / 8 + k / 8 * 2];
        sum += element_real((u16)(left >> k % 2 * 16)) * element_real(tile_element(b, COLUMNS_B, column, k));
      }
      c[n][e] = sum;
    }
  }
}
