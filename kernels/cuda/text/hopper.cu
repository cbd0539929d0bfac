// hopper.cu: what sm_90a has beyond intrinsics.cu: barriers in shared memory that copies complete, copies of boxes of a
// tensor, and products of warpgroups (four warps) on operands in shared memory.
//
// A header that emulates CUDA (tests/cuda_warps.hpp) defines all of this itself. The products of each width follow from
// a generator (attention_hopper.c): template <int COLUMNS_A, int COLUMNS_B> warpgroup_product(c, a, b, add), with `a` a
// tile or registers; COLUMNS_x: the contracted dim is that of the tile's rows.

struct __align__(64) Map {  // CUtensorMap
  u64 at[16];
};

// A tile is rows of 64 elements of 16 bits, swizzled: 128 bytes each, in which the 16 bytes number i of row r are at
// i ^ r % 8. It begins at a multiple of 1024 bytes. Wider ones are several, `next` bytes apart. Addresses of all blocks
// of a cluster but the first have the number of the block in their high bits, which the descriptor has no room for.
typedef u64 Operand;

DEVICE Operand operand_at(SharedAddress at, u32 next) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(next >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

DEVICE Operand operand_on(Operand tile, u32 bytes) {
  return tile + (bytes >> 4);
}

// --- barriers: they end a phase when `count` threads have arrived and all bytes expected are there ---

DEVICE void phase_init(SharedAddress barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

DEVICE void phases_ready(void) {  // for copies
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEVICE void phase_expect(SharedAddress barrier, u32 bytes) {  // and arrives
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

DEVICE void phase_arrive(SharedAddress barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

DEVICE void phase_wait(SharedAddress barrier, u32 parity) {
  asm volatile(
      "{\n  .reg .pred done;\nagain:\n  mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "  @!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Barriers of the block by number; each round has `threads`, those that sync wait for those that arrive.
DEVICE void turn_sync(u32 number, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

DEVICE void turn_arrive(u32 number, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// --- clusters: blocks that run at once and reach each other's shared memory ---

DEVICE u32 cluster_rank(void) {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all its blocks.
DEVICE void cluster_sync(void) {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// At the barrier that another block has at the same place: says what was read, and not what was written.
DEVICE void phase_arrive_at(SharedAddress barrier, u32 rank) {
  asm volatile(
      "{\n  .reg .b32 there;\n  mapa.shared::cluster.u32 there, %0, %1;\n"
      "  mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// --- copies ---

// A box of a tensor of 5 dims to shared memory; its bytes count for the barrier. What lies outside the tensor is 0.
DEVICE void box_load(SharedAddress to, const Map *map, SharedAddress barrier, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// The same to all blocks of the cluster that `blocks` has bits of: to the same place in each, counted by its barrier.
DEVICE void box_share(SharedAddress to, const Map *map, SharedAddress barrier, u16 blocks, int c0, int c1, int c2,
                      int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

DEVICE void map_fetch(const Map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Consecutive bytes, a multiple of 16.
DEVICE void bytes_load(SharedAddress to, const void *from, u32 bytes, SharedAddress barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

DEVICE void bytes_store(void *to, SharedAddress from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

DEVICE void floats_add(float *to, SharedAddress from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

DEVICE void stores_close(void) {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

DEVICE void stores_read(void) {  // the shared memory is free
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

DEVICE void stores_done(void) {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

DEVICE void shared_publish(void) {  // what this thread wrote to shared memory, for copies and products
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

DEVICE u32 count_read(const u32 *at) {
  u32 x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}

DEVICE void count_write(u32 *at, u32 x) {
  asm volatile("fence.proxy.async.global;\nst.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}

DEVICE void copies_follow(void) {  // copies that come see what was read before
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// --- warpgroups ---

// What follows from x is computed anew in each round of a loop, so that it holds no registers beyond it.
#define KEEP_IN_LOOP(x) asm volatile("" : "+r"(x))

template <int COUNT>
__device__ __forceinline__ void registers_more(void) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void registers_fewer(void) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

DEVICE void products_begin(void) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void products_close(void) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all products but those of the `LATER` groups that were closed last.
template <int LATER>
__device__ __forceinline__ void products_wait(void) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}

// From here on the accumulators may be read, or written.
template <int N>
__device__ __forceinline__ void products_hold(float (&c)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; i++) {
    asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])::"memory");
  }
}

DEVICE float2 shared_floats(SharedAddress at) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at));
  return x;
}

DEVICE int shared_get(SharedAddress at) {
  int x;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}

DEVICE void shared_put(SharedAddress at, int x) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}

DEVICE void shared_store(SharedAddress at, const float (&x)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8.
DEVICE void matrices_store(SharedAddress at, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
