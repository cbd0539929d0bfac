// intrinsics.cu: what texts in C++ need beyond target.cu: matrices of tensor cores, and shared memory.
#define INFINITE bits_float(0x7f800000u)

// Four 8 x 8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8.
__device__ __forceinline__ void matrices_load(u32 (&to)[4], SharedAddress at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

__device__ __forceinline__ void matrices_load_transposed(u32 (&to)[4], SharedAddress at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

// c[16][8] += a[16][16] b[16][8].
#define PRODUCT(name, format)                                                                       \
  __device__ __forceinline__ void name(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." format "." format                         \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                   \
  }
PRODUCT(product_bf16, "bf16")
PRODUCT(product_f16, "f16")

// Waits for all copies but those of the LATER groups that were closed last.
template <int LATER>
__device__ __forceinline__ void copies_come(void) {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

extern __shared__ __align__(128) u8 shared_memory[];
