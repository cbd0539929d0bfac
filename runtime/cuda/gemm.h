// gemm.h: matrix products of a plan through cuBLASLt, each by the algorithm that was fastest on this GPU.
//
// Equal problems share an algorithm. Which one is timed once, on the memory of the plan, and kept in a tuning record
// (tuning.h), so that later runs are the same run. A product whose batch has several dimensions is several calls.
#ifndef MDL_RUNTIME_CUDA_GEMM_H
#define MDL_RUNTIME_CUDA_GEMM_H

#include "base/arena.h"
#include "base/buffer.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/tuning.h"

// a, b, c and the bias; those, and the scales of a and b.
enum { GEMM_OPERANDS = 4, GEMM_ADDRESSES = 6 };

typedef struct Gemms Gemms;
typedef struct GemmProblem GemmProblem;

// record: of an earlier run, or NULL (tuning.h); it must outlive the Gemms.
bool gemms_create(const Cuda *cuda, const CudaDevice *gpu, const char *record, Arena *arena, Gemms **gemms,
                  Error *error);
void gemms_destroy(Gemms *gemms);             // NULL: nothing
int64_t gemms_workspace(const Gemms *gemms);  // bytes that every launch may use

// A problem with the library's first choice of algorithm, or the tuning record's. alignment: powers of two that divide
// the addresses of a, b, c and, where there is one, the bias. The answer lives in the arena; equal problems share one.
bool gemm_prepare(Gemms *gemms, const Gemm *gemm, const int *alignment, const char *name, GemmProblem **problem,
                  Error *error);
const char *gemm_form(const GemmProblem *problem);  // in words: for traces
bool gemm_tuned(const GemmProblem *problem);
int gemm_launches(const GemmProblem *problem);  // kernels of one product, at most

// c += or = a b, and what the epilogue says. operands: GEMM_ADDRESSES of them; those of a bias and of
// scales are of use where the product has them. `first`: of the calls that accumulate (plan.h).
bool gemm_launch(Gemms *gemms, const GemmProblem *problem, const CudaAddress *operands, bool first,
                 CudaAddress workspace, CudaStream stream, Error *error);

// Times the library's choices on these addresses, which must hold numbers of the usual size, and keeps the fastest.
bool gemm_tune(Gemms *gemms, GemmProblem *problem, const CudaAddress *operands, CudaAddress workspace,
               CudaStream stream, Error *error);
void gemms_reread(Gemms *gemms);     // takes from the tuning record what others have added to it; NULL: nothing
Tuning *gemms_tuning(Gemms *gemms);  // the record, for what else is timed; NULL: nothing
void gemms_record(const Gemms *gemms, Buffer *out);  // the choices in use, as a tuning record; NULL: nothing

// Writes the tuning record, if there is something new in it. adopted: another process was first, and its choices are
// now these; they may never have run here.
bool gemms_keep(Gemms *gemms, bool *adopted, Error *error);

#endif
