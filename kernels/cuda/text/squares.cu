// squares.cu: SQUARES: the sum of the squares of each of many parts of one buffer.
//
// A block has one chunk of a part; a second launch adds up the chunks of each part. Which thread has which element
// depends on where it stands in its part alone, and not on its address, so that a part always has the same bits.
constexpr int WIDTH = 16 / sizeof(Real);

struct __align__(16) Wide {
  Real at[WIDTH];
};

// The sum over all threads, in thread 0.
template <typename T>
__device__ __forceinline__ T block_sum(T sum) {
  T *const part = (T *)shared_memory;
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int o = THREADS / 2; o > 0; o /= 2) {
    if ((int)threadIdx.x < o) {
      part[threadIdx.x] += part[threadIdx.x + o];
    }
    __syncthreads();
  }
  return part[0];
}

__device__ __forceinline__ int part_of(u32 chunk) {
  int low = 0, high = PARTS;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (part_begin[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ void add_squares(Real *sum, const Real *x) {
#pragma unroll
  for (int e = 0; e < WIDTH; e++) {
    sum[e] += x[e] * x[e];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) squares(Slots slots) {
  const int part = part_of(blockIdx.x);
  const i64 begin = (i64)(blockIdx.x - part_begin[part]) * CHUNK;
  const int count = part_count[part] - begin < CHUNK ? (int)(part_count[part] - begin) : CHUNK;
  const Real *const from = (const Real *)slots.at[0] + part_first[part] + begin;
  const int whole = count - count % WIDTH;
  Real sum[WIDTH] = {};
  if (((u64)from & 15) == 0) {
#pragma unroll 8
    for (int i = (int)threadIdx.x * WIDTH; i < whole; i += THREADS * WIDTH) {
      const Wide x = *(const Wide *)(from + i);
      add_squares(sum, x.at);
    }
  } else {
    for (int i = (int)threadIdx.x * WIDTH; i < whole; i += THREADS * WIDTH) {
      add_squares(sum, from + i);
    }
  }
  if ((int)threadIdx.x < count - whole) {
    const Real x = from[whole + (int)threadIdx.x];
    sum[0] += x * x;
  }
#pragma unroll
  for (int e = 1; e < WIDTH; e++) {
    sum[0] += sum[e];
  }
  const Real all = block_sum(sum[0]);
  if (threadIdx.x == 0) {
    ((Real *)slots.at[SCRATCH])[blockIdx.x] = all;
  }
}

// In double: parts of one sum differ in size.
extern "C" __global__ void __launch_bounds__(THREADS) squares_end(Slots slots) {
  const Real *const from = (const Real *)slots.at[SCRATCH];
  double sum = 0;
  for (u32 i = part_begin[blockIdx.x] + threadIdx.x; i < part_begin[blockIdx.x + 1]; i += THREADS) {
    sum += (double)from[i];
  }
  const double all = block_sum(sum);
  if (threadIdx.x == 0) {
    ((Real *)slots.at[1])[blockIdx.x] = (Real)all;
  }
}
