// gemm.c: problems for cuBLASLt, their launches, and timing its choices.
//
// Row-major c[m, n] = a[m, k] b[k, n] is column-major c'[n, m] = b'[n, k] a'[k, m]: the library's first operand is our
// b, its second our a, and what is stored [k, n] row by row is to it an [n, k] that is not transposed.
// What its fast kernels do not take is cut into products that they do (gemm_cut.h).
//
// Operands of 8 bits have a scale each, whose address is given to the library before every product, as that of a bias
// is; gemm_quarters.c says which products it takes.
//
// A bias is added by the library's epilogue. Where it has none for a product, every row of the result is made the bias
// first, and the product is added to that.
#include "runtime/cuda/gemm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/gemm_cut.h"
#include "runtime/cuda/gemm_quarters.h"
#include "runtime/cuda/tuning.h"

enum {
  WORKSPACE_BYTES = 32 << 20,
  CHOICES_MAX = 16,
  TIMED_ROUNDS = 3,
  KEY_MAX = 320,
  CALL_LAUNCHES = 3,  // of one call of the library: clearing, the product, adding its parts
  LAUNCHES_MAX = 1 << 20,
};
static const double ROUND_SECONDS = 0.002;  // least time of a round of launches
static const double BETTER = 0.99;          // of the time of the first choice, for another to be taken

struct GemmProblem {
  Gemm gemm;
  int alignment[GEMM_OPERANDS];
  const char *key, *name, *form;
  CublasLtProduct product;
  CublasLtLayout a, b, c;
  CublasLtAlgorithm algorithm;
  CublasLtChoice choice[CHOICES_MAX];
  int choice_count;
  int inner;  // the batch dim that one call takes, or -1
  bool tuned;
  GemmProblem *part[2];             // of a product that was cut, which has nothing else but form; else NULL
  int64_t offset[GEMM_OPERANDS];    // where the second part begins in each operand, in elements
  ElementType type[GEMM_OPERANDS];  // of each
  GemmProblem *after_bias;          // the library cannot add the bias: what is added to rows that hold it; else NULL
};

struct Gemms {
  const Cuda *cuda;
  Arena *arena;
  CublasLt lt;
  CublasLtHandle handle;
  const char *holds_for;  // what the record does
  const char *record;     // of an earlier run, or NULL
  int capability;         // 90: of compute capability 9.0
  Tuning *tuning;
  ARRAY(GemmProblem *) problems;
};

bool gemms_create(const Cuda *cuda, const CudaDevice *gpu, const char *record, Arena *arena, Gemms **out,
                  Error *error) {
  Gemms *gemms = ARENA_NEW(arena, Gemms);
  *gemms = (Gemms){.cuda = cuda, .arena = arena, .record = record, .capability = 10 * gpu->major + gpu->minor};
  if (!cublaslt_open(&gemms->lt, error)) {
    return false;
  }
  if (!cublaslt_check(&gemms->lt, gemms->lt.create(&gemms->handle), "starting cuBLASLt", error)) {
    cublaslt_close(&gemms->lt);
    return false;
  }
  gemms->holds_for =
      arena_format(arena, "mdl tuning 1, %s, driver %d, cuBLASLt %zu", gpu->name, cuda->version, gemms->lt.version());
  gemms->tuning = tuning_open(arena, gemms->holds_for, record);
  *out = gemms;
  return true;
}

void gemms_destroy(Gemms *gemms) {
  if (!gemms) {
    return;
  }
  const CublasLt *lt = &gemms->lt;
  for (int i = 0; i < gemms->problems.count; i++) {
    const GemmProblem *problem = gemms->problems.at[i];
    lt->layout_destroy(problem->a);
    lt->layout_destroy(problem->b);
    lt->layout_destroy(problem->c);
    lt->product_destroy(problem->product);
  }
  lt->destroy(gemms->handle);
  cublaslt_close(&gemms->lt);
}

int64_t gemms_workspace(const Gemms *gemms) {
  return gemms ? WORKSPACE_BYTES : 0;
}

const char *gemm_form(const GemmProblem *problem) {
  return problem->form;
}

bool gemm_tuned(const GemmProblem *problem) {
  if (problem->after_bias) {
    return gemm_tuned(problem->after_bias);
  }
  return problem->part[0] ? gemm_tuned(problem->part[0]) && gemm_tuned(problem->part[1]) : problem->tuned;
}

// Library calls of one product: each takes the inner batch dim alone.
static int64_t library_calls(const GemmProblem *problem) {
  int64_t calls = 1;
  for (int i = 0; i < problem->gemm.batch_count; i++) {
    calls *= i == problem->inner ? 1 : problem->gemm.batch[i];
  }
  return calls;
}

// Copies that make all rows of a matrix one row: each doubles what is there.
static int spread_copies(int64_t rows) {
  int copies = 1;
  for (int64_t made = 1; made < rows; made *= 2) {
    copies++;
  }
  return copies;
}

int gemm_launches(const GemmProblem *problem) {
  if (problem->after_bias) {
    return gemm_launches(problem->after_bias) + spread_copies(problem->gemm.m);
  }
  if (problem->part[0]) {
    const int both = gemm_launches(problem->part[0]) + gemm_launches(problem->part[1]);
    return both > LAUNCHES_MAX ? LAUNCHES_MAX : both;
  }
  const int64_t own = library_calls(problem) * CALL_LAUNCHES;
  return own > LAUNCHES_MAX ? LAUNCHES_MAX : (int)own;
}

static int data_type(ElementType type) {
  switch (type) {
    case TYPE_F64:
      return CUBLAS_F64;
    case TYPE_F16:
      return CUBLAS_F16;
    case TYPE_BF16:
      return CUBLAS_BF16;
    case TYPE_E4M3:
      return CUBLAS_E4M3;
    case TYPE_E5M2:
      return CUBLAS_E5M2;
    default:
      return CUBLAS_F32;
  }
}

// Which batch dim the library steps through by itself: the longest.
static int inner_batch(const Gemm *gemm) {
  int inner = gemm->batch_count ? 0 : -1;
  for (int i = 1; i < gemm->batch_count; i++) {
    inner = gemm->batch[i] > gemm->batch[inner] ? i : inner;
  }
  return inner;
}

// All that the choice of an algorithm depends on, in words.
static const char *problem_key(Arena *arena, const Gemm *gemm, const int *alignment, int inner) {
  char text[KEY_MAX];
  const char *const by = gemm_scaled(gemm) ? element_type_name(gemm->type_b) : "";
  int length =
      snprintf(text, sizeof text,
               "gemm %s%s%s%s%s %s m%" PRId64 " n%" PRId64 " k%" PRId64 " %c%" PRId64 " %c%" PRId64 " c%" PRId64
               " align %d %d %d%s%s",
               element_type_name(gemm->type), *by ? " " : "", by, gemm->tf32 ? " tf32" : "", gemm->fast ? " fast" : "",
               element_type_name(gemm->type_c), gemm->m, gemm->n, gemm->k, gemm->transpose_a ? 'A' : 'a', gemm->lda,
               gemm->transpose_b ? 'B' : 'b', gemm->ldb, gemm->ldc, alignment[0], alignment[1], alignment[2],
               gemm->write == WRITE_STORE ? "" : " adds", gemm_quarters_blocks(gemm));
  if (inner >= 0) {
    length +=
        snprintf(text + length, sizeof text - (size_t)length, " batch %" PRId64 " by %" PRId64 " %" PRId64 " %" PRId64,
                 gemm->batch[inner], gemm->stride_a[inner], gemm->stride_b[inner], gemm->stride_c[inner]);
  }
  if (gemm->epilogue == EPILOGUE_BIAS) {
    snprintf(text + length, sizeof text - (size_t)length, " bias align %d", alignment[3]);
  }
  return arena_format(arena, "%s", text);
}

static bool layout_make(const Gemms *gemms, CublasLtLayout *layout, ElementType type, int64_t rows, int64_t columns,
                        int64_t leading, const Gemm *gemm, const int64_t *stride, int inner, Error *error) {
  const CublasLt *lt = &gemms->lt;
  CublasStatus status =
      lt->layout_create(layout, data_type(type), (uint64_t)rows, (uint64_t)columns, leading > rows ? leading : rows);
  if (status == 0 && inner >= 0) {
    const int32_t count = (int32_t)gemm->batch[inner];
    const int64_t by = stride[inner];
    status = lt->layout_set(*layout, CUBLASLT_LAYOUT_BATCH_COUNT, &count, sizeof count);
    status = status ? status : lt->layout_set(*layout, CUBLASLT_LAYOUT_BATCH_STRIDE, &by, sizeof by);
  }
  return cublaslt_check(lt, status, "describing a matrix", error);
}

static bool problem_describe(const Gemms *gemms, GemmProblem *problem, Error *error) {
  const CublasLt *lt = &gemms->lt;
  const Gemm *gemm = &problem->gemm;
  const int32_t transpose_a = gemm->transpose_b, transpose_b = gemm->transpose_a;
  const bool wide = gemm->type == TYPE_F64;
  const int compute = wide ? CUBLAS_COMPUTE_F64 : gemm->tf32 ? CUBLAS_COMPUTE_TF32 : CUBLAS_COMPUTE_F32;
  CublasStatus status = lt->product_create(&problem->product, compute, wide ? CUBLAS_F64 : CUBLAS_F32);
  status = status ? status
                  : lt->product_set(problem->product, CUBLASLT_PRODUCT_TRANSPOSE_A, &transpose_a, sizeof transpose_a);
  status = status ? status
                  : lt->product_set(problem->product, CUBLASLT_PRODUCT_TRANSPOSE_B, &transpose_b, sizeof transpose_b);
  if (gemm->epilogue == EPILOGUE_BIAS) {
    const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const CudaAddress aligned = (CudaAddress)problem->alignment[3];  // the library chooses by what divides the address
    status = status ? status : lt->product_set(problem->product, CUBLASLT_PRODUCT_EPILOGUE, &epilogue, sizeof epilogue);
    status = status ? status : lt->product_set(problem->product, CUBLASLT_PRODUCT_BIAS, &aligned, sizeof aligned);
  }
  status = status || !gemm_scaled(gemm) ? status : gemm_quarters_describe(lt, problem->product, gemm);
  return cublaslt_check(lt, status, "describing a matrix product", error) &&
         layout_make(gemms, &problem->a, gemm->type_b, gemm->transpose_b ? gemm->k : gemm->n,
                     gemm->transpose_b ? gemm->n : gemm->k, gemm->ldb, gemm, gemm->stride_b, problem->inner, error) &&
         layout_make(gemms, &problem->b, gemm->type, gemm->transpose_a ? gemm->m : gemm->k,
                     gemm->transpose_a ? gemm->k : gemm->m, gemm->lda, gemm, gemm->stride_a, problem->inner, error) &&
         layout_make(gemms, &problem->c, gemm->type_c, gemm->n, gemm->m, gemm->ldc, gemm, gemm->stride_c,
                     problem->inner, error);
}

static CublasStatus preference_fill(const CublasLt *lt, CublasLtPreference preference, const int *alignment) {
  const uint64_t workspace = WORKSPACE_BYTES;
  const uint32_t a = (uint32_t)alignment[1], b = (uint32_t)alignment[0], c = (uint32_t)alignment[2];
  CublasStatus status = lt->preference_set(preference, CUBLASLT_PREFER_WORKSPACE, &workspace, sizeof workspace);
  status = status ? status : lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_A, &a, sizeof a);
  status = status ? status : lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_B, &b, sizeof b);
  status = status ? status : lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_C, &c, sizeof c);
  return status ? status : lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_D, &c, sizeof c);
}

// A bias of which the library knows nothing: the product by itself, added to what there is.
static bool bias_first(Gemms *gemms, GemmProblem *problem, Error *error) {
  Gemm adds = problem->gemm;
  adds.epilogue = EPILOGUE_NONE;
  adds.write = WRITE_ADD;
  if (!gemm_prepare(gemms, &adds, problem->alignment, problem->name, &problem->after_bias, error)) {
    return false;
  }
  problem->form = arena_format(gemms->arena, "bias, then %s", problem->after_bias->form);
  return true;
}

static bool problem_choices(Gemms *gemms, GemmProblem *problem, Error *error) {
  const CublasLt *lt = &gemms->lt;
  CublasLtPreference preference = NULL;
  if (!cublaslt_check(lt, lt->preference_create(&preference), "asking for algorithms", error)) {
    return false;
  }
  CublasStatus status = preference_fill(lt, preference, problem->alignment);
  if (status == 0) {
    status = lt->choices(gemms->handle, problem->product, problem->a, problem->b, problem->c, problem->c, preference,
                         CHOICES_MAX, problem->choice, &problem->choice_count);
  }
  lt->preference_destroy(preference);
  if ((status != 0 || problem->choice_count == 0) && problem->gemm.epilogue == EPILOGUE_BIAS) {
    return bias_first(gemms, problem, error);
  }
  if (status != 0 || problem->choice_count == 0) {
    return error_set(error, 1, "%s: cuBLASLt has no algorithm for %s: %s", problem->name, problem->key,
                     lt->status_text(status));
  }
  return true;
}

// Takes the algorithm of the tuning record, whatever the library would choose now: two runs with one record are the
// same run.
static bool recorded(const Gemms *gemms, GemmProblem *problem) {
  CublasLtAlgorithm algorithm;
  if (!tuning_find(gemms->tuning, problem->key, &algorithm, sizeof algorithm)) {
    return false;
  }
  problem->algorithm = algorithm;
  return true;
}

// The largest power of two, up to what the whole has, that divides the address of a part.
static int part_alignment(int whole, int64_t bytes) {
  while (bytes & (whole - 1)) {
    whole /= 2;
  }
  return whole;
}

// A product as its parts.
static bool parts_prepare(Gemms *gemms, const Gemm *first, const Gemm *second, const int64_t *offset,
                          const int *alignment, const char *name, GemmProblem **out, Error *error) {
  GemmProblem *problem = ARENA_NEW(gemms->arena, GemmProblem);
  int second_alignment[GEMM_OPERANDS];
  *problem = (GemmProblem){.name = name, .type = {first->type, first->type, first->type_c, first->type_c}};
  memcpy(problem->offset, offset, sizeof problem->offset);
  for (int i = 0; i < GEMM_OPERANDS; i++) {
    second_alignment[i] = part_alignment(alignment[i], offset[i] * element_type_bytes(problem->type[i]));
  }
  if (!gemm_prepare(gemms, first, alignment, name, &problem->part[0], error) ||
      !gemm_prepare(gemms, second, second_alignment, name, &problem->part[1], error)) {
    return false;
  }
  problem->form = arena_format(gemms->arena, "%s and the rest", problem->part[0]->form);
  *out = problem;
  return true;
}

static bool quarters_check(const Gemms *gemms, const Gemm *gemm, const int *alignment, const char *key,
                           const char *name, Error *error) {
  const char *why =
      gemm_scaled(gemm) ? gemm_quarters_refused(gemms->capability, gemms->lt.version(), gemm, alignment) : NULL;
  return !why || error_set(error, 1,
                           "%s: %s cannot be multiplied in 8 bits: %s; choose a precision without them, such "
                           "as `--precision bf16`",
                           name, key, why);
}

bool gemm_prepare(Gemms *gemms, const Gemm *gemm, const int *alignment, const char *name, GemmProblem **out,
                  Error *error) {
  Gemm first = *gemm, rest;
  int64_t offset[GEMM_OPERANDS];
  if (gemm_cut(&first, &rest, offset)) {
    return parts_prepare(gemms, &first, &rest, offset, alignment, name, out, error);
  }
  const int inner = inner_batch(gemm);
  const char *key = problem_key(gemms->arena, gemm, alignment, inner);
  if (!quarters_check(gemms, gemm, alignment, key, name, error)) {
    return false;
  }
  for (int i = 0; i < gemms->problems.count; i++) {
    GemmProblem *problem = gemms->problems.at[i];
    if (strcmp(problem->key, key) == 0 && problem->gemm.batch_count == gemm->batch_count &&
        memcmp(problem->gemm.batch, gemm->batch, sizeof gemm->batch) == 0 &&
        memcmp(problem->gemm.stride_a, gemm->stride_a, sizeof gemm->stride_a) == 0 &&
        memcmp(problem->gemm.stride_b, gemm->stride_b, sizeof gemm->stride_b) == 0 &&
        memcmp(problem->gemm.stride_c, gemm->stride_c, sizeof gemm->stride_c) == 0 &&
        problem->gemm.write == gemm->write) {
      *out = problem;
      return true;
    }
  }
  GemmProblem *problem = ARENA_NEW(gemms->arena, GemmProblem);
  *problem = (GemmProblem){.gemm = *gemm, .key = key, .name = name, .inner = inner};
  memcpy(problem->alignment, alignment, sizeof problem->alignment);
  array_push(gemms->arena, &gemms->problems, problem);
  *out = problem;
  if (!problem_describe(gemms, problem, error) || !problem_choices(gemms, problem, error)) {
    return false;
  }
  if (problem->after_bias) {
    return true;
  }
  problem->algorithm = problem->choice[0].algorithm;
  problem->tuned = recorded(gemms, problem);
  problem->form =
      arena_format(gemms->arena, "cuBLASLt %s%" PRId64 "x%" PRId64 "x%" PRId64 "%s", gemm_scaled(gemm) ? "8-bit " : "",
                   gemm->m, gemm->n, gemm->k, gemm->epilogue == EPILOGUE_BIAS ? " + bias" : "");
  return true;
}

// What the operands of one call begin with, in elements: dims of the batch but the inner one, by number `at`.
static void batch_offsets(const Gemm *gemm, int inner, int64_t at, int64_t offset[3]) {
  memset(offset, 0, 3 * sizeof *offset);
  for (int i = gemm->batch_count - 1; i >= 0; i--) {
    if (i != inner) {
      const int64_t position = at % gemm->batch[i];
      at /= gemm->batch[i];
      offset[0] += position * gemm->stride_a[i];
      offset[1] += position * gemm->stride_b[i];
      offset[2] += position * gemm->stride_c[i];
    }
  }
}

// What lies elsewhere in every launch: the bias, and the scales, of which the library's first is our second.
static CublasStatus product_addresses(const Gemms *gemms, const GemmProblem *problem, const CudaAddress *operands) {
  const struct {
    bool has;
    int attribute, operand;
  } sets[] = {{problem->gemm.epilogue == EPILOGUE_BIAS, CUBLASLT_PRODUCT_BIAS, 3},
              {gemm_scaled(&problem->gemm), CUBLASLT_PRODUCT_SCALE_B, 4},
              {gemm_scaled(&problem->gemm), CUBLASLT_PRODUCT_SCALE_A, 5}};
  CublasStatus status = 0;
  for (size_t i = 0; i < sizeof sets / sizeof *sets && status == 0; i++) {
    const CudaAddress *at = &operands[sets[i].operand];
    status = sets[i].has ? gemms->lt.product_set(problem->product, sets[i].attribute, at, sizeof *at) : 0;
  }
  return status;
}

static CublasStatus multiply(const Gemms *gemms, const GemmProblem *problem, const CublasLtAlgorithm *algorithm,
                             const CudaAddress *operands, bool add, CudaAddress workspace, CudaStream stream) {
  const Gemm *gemm = &problem->gemm;
  const uint64_t size = (uint64_t)element_type_bytes(gemm->type), size_c = (uint64_t)element_type_bytes(gemm->type_c);
  const float one = 1, beta = add ? 1 : 0;
  const double wide_one = 1, wide_beta = add ? 1 : 0;
  const bool wide = gemm->type == TYPE_F64;
  const int64_t calls = library_calls(problem);
  int64_t offset[3];
  const CublasStatus set = product_addresses(gemms, problem, operands);
  if (set != 0) {
    return set;
  }
  for (int64_t call = 0; call < calls; call++) {
    batch_offsets(gemm, problem->inner, call, offset);
    const CudaAddress to = operands[2] + (uint64_t)offset[2] * size_c;
    const CublasStatus status = gemms->lt.multiply(
        gemms->handle, problem->product, wide ? (const void *)&wide_one : &one,
        operands[1] + (uint64_t)offset[1] * size, problem->a, operands[0] + (uint64_t)offset[0] * size, problem->b,
        wide ? (const void *)&wide_beta : &beta, to, problem->c, to, problem->c, algorithm, workspace, WORKSPACE_BYTES,
        stream);
    if (status != 0) {
      return status;
    }
  }
  return 0;
}

// Where the operands begin for the second part.
static void part_addresses(const GemmProblem *problem, const CudaAddress *operands, CudaAddress to[GEMM_ADDRESSES]) {
  memcpy(to, operands, sizeof *to * GEMM_ADDRESSES);
  for (int i = 0; i < GEMM_OPERANDS; i++) {
    to[i] = operands[i] + (uint64_t)(problem->offset[i] * element_type_bytes(problem->type[i]));
  }
}

// Makes every row of c the bias.
static bool spread(const Gemms *gemms, const Gemm *gemm, CudaAddress bias, CudaAddress c, CudaStream stream,
                   Error *error) {
  const size_t bytes = (size_t)element_type_bytes(gemm->type_c), apart = (size_t)gemm->ldc * bytes;
  CudaRectangle rows = {.from_kind = CUDA_MEMORY_DEVICE,
                        .from = bias,
                        .from_pitch = apart,
                        .to_kind = CUDA_MEMORY_DEVICE,
                        .to = c,
                        .to_pitch = apart,
                        .width = (size_t)gemm->n * bytes,
                        .height = 1};
  CudaStatus status = gemms->cuda->copy_rectangle(&rows, stream);
  rows.from = c;
  for (int64_t made = 1; made < gemm->m && status == 0; made += (int64_t)rows.height) {
    rows.to = c + (uint64_t)made * apart;
    rows.height = (size_t)(gemm->m - made < made ? gemm->m - made : made);
    status = gemms->cuda->copy_rectangle(&rows, stream);
  }
  return cuda_check(gemms->cuda, status, "copying a bias", error);
}

bool gemm_launch(Gemms *gemms, const GemmProblem *problem, const CudaAddress *operands, bool first,
                 CudaAddress workspace, CudaStream stream, Error *error) {
  if (problem->part[0]) {
    CudaAddress second[GEMM_ADDRESSES];
    part_addresses(problem, operands, second);
    return gemm_launch(gemms, problem->part[0], operands, first, workspace, stream, error) &&
           gemm_launch(gemms, problem->part[1], second, first, workspace, stream, error);
  }
  if (problem->after_bias) {
    return spread(gemms, &problem->gemm, operands[3], operands[2], stream, error) &&
           gemm_launch(gemms, problem->after_bias, operands, first, workspace, stream, error);
  }
  const WriteMode write = problem->gemm.write;
  const bool add = write == WRITE_ADD || (write == WRITE_ADD_AFTER_FIRST && !first);
  return cublaslt_check(&gemms->lt, multiply(gemms, problem, &problem->algorithm, operands, add, workspace, stream),
                        problem->key, error);
}

typedef struct {
  const Gemms *gemms;
  const GemmProblem *problem;
  const CudaAddress *operands;
  CudaAddress workspace;
  CudaStream stream;
  CudaEvent begin, end;
} Trial;

// Seconds of one product, the least of some rounds; negative: the algorithm does not run.
static double trial_time(const Trial *trial, const CublasLtAlgorithm *algorithm) {
  const Cuda *cuda = trial->gemms->cuda;
  double best = -1;
  int launches = 1;
  for (int round = 0; round <= TIMED_ROUNDS; round++) {
    cuda->event_record(trial->begin, trial->stream);
    for (int i = 0; i < launches; i++) {
      if (multiply(trial->gemms, trial->problem, algorithm, trial->operands, trial->problem->gemm.write != WRITE_STORE,
                   trial->workspace, trial->stream) != 0) {
        return -1;
      }
    }
    float milliseconds = 0;
    if (cuda->event_record(trial->end, trial->stream) != 0 || cuda->event_synchronize(trial->end) != 0 ||
        cuda->event_elapsed(&milliseconds, trial->begin, trial->end) != 0) {
      return -1;
    }
    const double seconds = (double)milliseconds / 1000 / launches;
    if (round == 0) {  // loads the kernel; says how many launches are long enough to be timed
      const double wanted = ROUND_SECONDS / (seconds > 1e-6 ? seconds : 1e-6);
      launches = wanted < 2 ? 2 : wanted > 50 ? 50 : (int)wanted;
    } else if (best < 0 || seconds < best) {
      best = seconds;
    }
  }
  return best;
}

static bool choices_time(Gemms *gemms, GemmProblem *problem, const CudaAddress *operands, CudaAddress workspace,
                         CudaStream stream, Error *error) {
  const Cuda *cuda = gemms->cuda;
  Trial trial = {gemms, problem, operands, workspace, stream, NULL, NULL};
  if (!cuda_check(cuda, cuda->event_create(&trial.begin, CUDA_EVENT_DEFAULT), "making an event", error)) {
    return false;
  }
  if (!cuda_check(cuda, cuda->event_create(&trial.end, CUDA_EVENT_DEFAULT), "making an event", error)) {
    cuda->event_destroy(trial.begin);
    return false;
  }
  double best = -1;
  for (int i = 0; i < problem->choice_count; i++) {
    const double seconds = trial_time(&trial, &problem->choice[i].algorithm);
    if (seconds > 0 && (best < 0 || seconds < best * BETTER)) {
      best = seconds;
      problem->algorithm = problem->choice[i].algorithm;
    }
  }
  cuda->event_destroy(trial.begin);
  cuda->event_destroy(trial.end);
  if (best < 0) {
    return error_set(error, 1, "%s: none of cuBLASLt's algorithms for %s ran", problem->name, problem->key);
  }
  problem->tuned = true;
  tuning_add(gemms->tuning, problem->key, &problem->algorithm, sizeof problem->algorithm, best * 1e6);
  return true;
}

bool gemm_tune(Gemms *gemms, GemmProblem *problem, const CudaAddress *operands, CudaAddress workspace,
               CudaStream stream, Error *error) {
  if (problem->part[0]) {
    CudaAddress second[GEMM_ADDRESSES];
    part_addresses(problem, operands, second);
    return gemm_tune(gemms, problem->part[0], operands, workspace, stream, error) &&
           gemm_tune(gemms, problem->part[1], second, workspace, stream, error);
  }
  if (problem->after_bias) {
    return gemm_tune(gemms, problem->after_bias, operands, workspace, stream, error);
  }
  return problem->tuned || choices_time(gemms, problem, operands, workspace, stream, error);
}

static void problems_find(Gemms *gemms) {
  for (int i = 0; i < gemms->problems.count; i++) {
    GemmProblem *problem = gemms->problems.at[i];
    problem->tuned = recorded(gemms, problem);
  }
}

void gemms_reread(Gemms *gemms) {
  if (gemms) {
    gemms->tuning = tuning_open(gemms->arena, gemms->holds_for, gemms->record);
    problems_find(gemms);
  }
}

Tuning *gemms_tuning(Gemms *gemms) {
  return gemms ? gemms->tuning : NULL;
}

void gemms_record(const Gemms *gemms, Buffer *out) {
  if (gemms) {
    tuning_text(gemms->tuning, out);
  }
}

bool gemms_keep(Gemms *gemms, bool *adopted, Error *error) {
  char message[512];
  *adopted = false;
  if (gemms && !tuning_keep(gemms->tuning, adopted, message, sizeof message)) {
    return error_set(error, 1, "%s", message);
  }
  if (*adopted) {
    problems_find(gemms);
  }
  return true;
}
