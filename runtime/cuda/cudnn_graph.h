// cudnn_graph.h: graphs of operations for cuDNN, and plans that run them.
//
// A graph is described tensor by tensor and operation by operation; the first failure is kept in its `error` and makes
// what follows do nothing, so that it is looked at once, when a plan is asked for. Everything has four dims. Tensors
// and plans live as long as the library (cudnn_destroy).
#ifndef MDL_RUNTIME_CUDA_CUDNN_GRAPH_H
#define MDL_RUNTIME_CUDA_CUDNN_GRAPH_H

#include "runtime/cuda/cudnn.h"

enum { CUDNN_DIMS = 4, CUDNN_OPERATIONS_MOST = 40, CUDNN_ADDRESS_ALIGN = 16 };

typedef enum {  // cudnnDataType_t
  CUDNN_F32 = 0,
  CUDNN_F16 = 2,
  CUDNN_I32 = 4,
  CUDNN_BF16 = 9,
  CUDNN_BOOL = 11,
} CudnnType;

typedef enum {  // cudnnPointwiseMode_t
  CUDNN_ADD = 0,
  CUDNN_MULTIPLY = 1,
  CUDNN_DIVIDE = 6,
  CUDNN_SUBTRACT = 9,
  CUDNN_EXP = 13,
  CUDNN_LOG = 15,
  CUDNN_IDENTITY = 21,
  CUDNN_NOT_LESS = 303,
  CUDNN_INDEX = 501,   // the coordinate along `axis`
  CUDNN_SELECT = 601,  // t ? x : b
} CudnnPointwiseMode;

typedef enum { CUDNN_SUM = 0, CUDNN_MAX = 3 } CudnnReduction;  // cudnnReduceTensorOp_t

typedef struct {
  CudnnDescriptor descriptor;  // NULL in a graph that failed
  int64_t number;              // names it in a run
  int64_t size[CUDNN_DIMS], stride[CUDNN_DIMS];
} CudnnTensor;

typedef struct {
  Cudnn *cudnn;
  Error error;
  bool failed;
  int64_t tensors;  // numbers given so far, from 1
  int operation_count;
  CudnnDescriptor operations[CUDNN_OPERATIONS_MOST];
} CudnnGraph;

// A tensor in the memory of the GPU, at an address that is a multiple of CUDNN_ADDRESS_ALIGN. Strides are in elements.
CudnnTensor cudnn_graph_memory(CudnnGraph *graph, CudnnType type, const int64_t *size, const int64_t *stride);
// One that only passes from operation to operation; as if dense, of these sizes.
CudnnTensor cudnn_graph_virtual(CudnnGraph *graph, CudnnType type, const int64_t *size);
// One float that the host gives with each run.
CudnnTensor cudnn_graph_value(CudnnGraph *graph);
CudnnTensor cudnn_graph_transposed(CudnnGraph *graph, CudnnType type, const CudnnTensor *of);  // virtual; last two dims

typedef struct {
  CudnnPointwiseMode mode;
  CudnnType precision;  // of the arithmetic
  int64_t axis;         // of CUDNN_INDEX
  const CudnnTensor *x, *b, *t, *y;
} CudnnPointwise;

void cudnn_graph_pointwise(CudnnGraph *graph, const CudnnPointwise *operation);
void cudnn_graph_matmul(CudnnGraph *graph, const CudnnTensor *a, const CudnnTensor *b, const CudnnTensor *c);
// Over the dims in which y is of size 1, or smaller by a whole factor than x.
void cudnn_graph_reduce(CudnnGraph *graph, CudnnReduction reduction, const CudnnTensor *x, const CudnnTensor *y);
void cudnn_graph_reshape(CudnnGraph *graph, const CudnnTensor *x, const CudnnTensor *y);

typedef struct {
  CudnnDescriptor descriptor;
  int64_t workspace;  // bytes
  int64_t engine;     // index among the library's engines for such a graph
  bool reproducible;  // the library says that results are the same bits every time
} CudnnPlan;

// The first plan for the whole graph that the library's heuristics offer and that can be made; of a strict library, the
// first reproducible one. False with the reason in graph->error.
bool cudnn_graph_plan(CudnnGraph *graph, CudnnPlan *plan);

// Puts a run on `stream`: the tensors with these numbers lie at these addresses (a value's is in host memory and is
// read before this returns).
bool cudnn_plan_run(const Cudnn *cudnn, const CudnnPlan *plan, const int64_t *numbers, void *const *addresses,
                    int count, CudaAddress workspace, CudaStream stream, Error *error);

#endif
