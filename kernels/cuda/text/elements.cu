// elements.cu: words of memory, and the elements in them, in what C and CUDA C++ have in common.
DEVICE void load16(u32 *w, const void *from) {
  const uint4 x = *(const uint4 *)from;
  w[0] = x.x;
  w[1] = x.y;
  w[2] = x.z;
  w[3] = x.w;
}

DEVICE void load8(u32 *w, const void *from) {
  const uint2 x = *(const uint2 *)from;
  w[0] = x.x;
  w[1] = x.y;
}

DEVICE void load4(u32 *w, const void *from) {
  w[0] = *(const u32 *)from;
}

DEVICE void load2(u32 *w, const void *from) {
  w[0] = *(const u16 *)from;
}

DEVICE void load1(u32 *w, const void *from) {
  w[0] = *(const u8 *)from;
}

DEVICE void store16(void *to, const u32 *w) {
  *(uint4 *)to = make_uint4(w[0], w[1], w[2], w[3]);
}

DEVICE void store8(void *to, const u32 *w) {
  *(uint2 *)to = make_uint2(w[0], w[1]);
}

DEVICE void store4(void *to, const u32 *w) {
  *(u32 *)to = w[0];
}

DEVICE void store2(void *to, const u32 *w) {
  *(u16 *)to = (u16)w[0];
}

DEVICE void store1(void *to, const u32 *w) {
  *(u8 *)to = (u8)w[0];
}

// insertN puts the element `at` of a vector, of N bytes, into words that were 0 there.
DEVICE void insert1(u32 *w, int at, const void *from) {
  w[at >> 2] |= (u32)(*(const u8 *)from) << ((at & 3) * 8);
}

DEVICE void insert2(u32 *w, int at, const void *from) {
  w[at >> 1] |= (u32)(*(const u16 *)from) << ((at & 1) * 16);
}

DEVICE void insert4(u32 *w, int at, const void *from) {
  w[at] = *(const u32 *)from;
}

DEVICE void insert8(u32 *w, int at, const void *from) {
  load8(w + 2 * at, from);
}

// extractN takes it out.
DEVICE void extract1(void *to, const u32 *w, int at) {
  *(u8 *)to = (u8)(w[at >> 2] >> ((at & 3) * 8));
}

DEVICE void extract2(void *to, const u32 *w, int at) {
  *(u16 *)to = (u16)(w[at >> 1] >> ((at & 1) * 16));
}

DEVICE void extract4(void *to, const u32 *w, int at) {
  *(u32 *)to = w[at];
}

DEVICE void extract8(void *to, const u32 *w, int at) {
  store8(to, w + 2 * at);
}

// Words of rows become words of columns, and back: N bytes are an element. turn1: four rows of four in four words, four
// times; turn2: two rows of two in two words, four times.
DEVICE void turn1(u32 *w) {
#pragma unroll
  for (int i = 0; i < 16; i += 4) {
    const u32 a = bytes_of(w[i], w[i + 1], 0x5140), b = bytes_of(w[i], w[i + 1], 0x7362);
    const u32 c = bytes_of(w[i + 2], w[i + 3], 0x5140), d = bytes_of(w[i + 2], w[i + 3], 0x7362);
    w[i] = bytes_of(a, c, 0x5410);
    w[i + 1] = bytes_of(a, c, 0x7632);
    w[i + 2] = bytes_of(b, d, 0x5410);
    w[i + 3] = bytes_of(b, d, 0x7632);
  }
}

DEVICE void turn2(u32 *w) {
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const u32 a = w[i], b = w[i + 1];
    w[i] = bytes_of(a, b, 0x5410);
    w[i + 1] = bytes_of(a, b, 0x7632);
  }
}

// get_TYPE: an element of a vector; put_TYPE: `count` of them.
DEVICE float get_f32(const u32 *w, int at) {
  return bits_float(w[at]);
}

DEVICE int get_int(const u32 *w, int at) {
  return (int)w[at];
}

DEVICE float get_bf16(const u32 *w, int at) {
  return bits_float((at & 1) ? w[at >> 1] & 0xffff0000u : w[at >> 1] << 16);
}

DEVICE float get_f16(const u32 *w, int at) {
  return f16_float((u16)((at & 1) ? w[at >> 1] >> 16 : w[at >> 1]));
}

DEVICE float get_e4m3(const u32 *w, int at) {
  return e4m3_float((u8)(w[at >> 2] >> ((at & 3) * 8)));
}

DEVICE float get_e5m2(const u32 *w, int at) {
  return e5m2_float((u8)(w[at >> 2] >> ((at & 3) * 8)));
}

DEVICE double get_f64(const u32 *w, int at) {
  return bits_double((u64)w[2 * at + 1] << 32 | w[2 * at]);
}

DEVICE void put_f32(u32 *w, const float *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    w[i] = float_bits(x[i]);
  }
}

DEVICE void put_int(u32 *w, const int *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    w[i] = (u32)x[i];
  }
}

DEVICE void put_bf16(u32 *w, const float *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    w[i >> 1] = pack_bf16(x[i], i + 1 < count ? x[i + 1] : 0.0f);
  }
}

DEVICE void put_f16(u32 *w, const float *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    w[i >> 1] = pack_f16(x[i], i + 1 < count ? x[i + 1] : 0.0f);
  }
}

DEVICE void put_e4m3(u32 *w, const float *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    w[i >> 2] = pack_e4m3(x[i], i + 1 < count ? x[i + 1] : 0.0f, i + 2 < count ? x[i + 2] : 0.0f,
                          i + 3 < count ? x[i + 3] : 0.0f);
  }
}

DEVICE void put_e5m2(u32 *w, const float *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    w[i >> 2] = pack_e5m2(x[i], i + 1 < count ? x[i + 1] : 0.0f, i + 2 < count ? x[i + 2] : 0.0f,
                          i + 3 < count ? x[i + 3] : 0.0f);
  }
}

DEVICE void put_f64(u32 *w, const double *x, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    w[2 * i] = (u32)double_bits(x[i]);
    w[2 * i + 1] = (u32)(double_bits(x[i]) >> 32);
  }
}

// read_TYPE, write_TYPE: one element in memory.
DEVICE float read_f32(const void *from) {
  return *(const float *)from;
}

DEVICE double read_f64(const void *from) {
  return *(const double *)from;
}

DEVICE int read_int(const void *from) {
  return *(const int *)from;
}

DEVICE float read_bf16(const void *from) {
  return bf16_float(*(const u16 *)from);
}

DEVICE float read_f16(const void *from) {
  return f16_float(*(const u16 *)from);
}

DEVICE float read_e4m3(const void *from) {
  return e4m3_float(*(const u8 *)from);
}

DEVICE float read_e5m2(const void *from) {
  return e5m2_float(*(const u8 *)from);
}

DEVICE void write_f32(void *to, float x) {
  *(float *)to = x;
}

DEVICE void write_f64(void *to, double x) {
  *(double *)to = x;
}

DEVICE void write_int(void *to, int x) {
  *(int *)to = x;
}

DEVICE void write_bf16(void *to, float x) {
  *(u16 *)to = float_bf16(x);
}

DEVICE void write_f16(void *to, float x) {
  *(u16 *)to = float_f16(x);
}

DEVICE void write_e4m3(void *to, float x) {
  *(u8 *)to = (u8)pack_e4m3(x, 0.0f, 0.0f, 0.0f);
}

DEVICE void write_e5m2(void *to, float x) {
  *(u8 *)to = (u8)pack_e5m2(x, 0.0f, 0.0f, 0.0f);
}

#define get_index get_int
#define get_bool get_int
#define put_index put_int
#define put_bool put_int
#define read_index read_int
#define read_bool read_int
#define write_index write_int
#define write_bool write_int
