// cudnn_graph.c: descriptors of tensors and operations, and the choice of a plan.
#include "runtime/cuda/cudnn_graph.h"

#include <string.h>

enum { CONFIGURATIONS_MOST = 16 };
enum { HEURISTIC_INSTANT = 0, HEURISTIC_B = 1, HEURISTIC_FALLBACK = 2, HEURISTIC_A = 3 };  // cudnnBackendHeurMode_t

static bool check(CudnnGraph *graph, CudnnStatus status, const char *what) {
  graph->failed = graph->failed || !cudnn_check(graph->cudnn, status, what, &graph->error);
  return !graph->failed;
}

static CudnnDescriptor make(CudnnGraph *graph, CudnnMake what) {
  CudnnDescriptor descriptor = NULL;
  graph->failed = graph->failed || !cudnn_make(graph->cudnn, what, &descriptor, &graph->error);
  return descriptor;
}

static void set(CudnnGraph *graph, CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnOf of, int64_t count,
                const void *elements) {
  if (!graph->failed) {
    check(graph, graph->cudnn->library.attribute_set(descriptor, attribute, of, count, elements), "describing a graph");
  }
}

static void set_descriptor(CudnnGraph *graph, CudnnDescriptor descriptor, CudnnAttribute attribute,
                           CudnnDescriptor value) {
  set(graph, descriptor, attribute, CUDNN_OF_DESCRIPTOR, 1, &value);
}

static void set_type(CudnnGraph *graph, CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnType type) {
  set(graph, descriptor, attribute, CUDNN_OF_TYPE, 1, &type);
}

static bool finalise(CudnnGraph *graph, CudnnDescriptor descriptor, const char *what) {
  return !graph->failed && check(graph, graph->cudnn->library.descriptor_finalise(descriptor), what);
}

static void add_operation(CudnnGraph *graph, CudnnDescriptor operation) {
  if (!finalise(graph, operation, "describing an operation")) {
    return;
  }
  if (graph->operation_count == CUDNN_OPERATIONS_MOST) {
    graph->failed = !error_set(&graph->error, 1, "a graph for cuDNN has at most %d operations", CUDNN_OPERATIONS_MOST);
    return;
  }
  graph->operations[graph->operation_count++] = operation;
}

static CudnnTensor tensor_of(CudnnGraph *graph, CudnnType type, const int64_t *size, const int64_t *stride,
                             const CudnnAttribute *kind) {
  static const int64_t align = CUDNN_ADDRESS_ALIGN;
  static const bool yes = true;
  CudnnTensor tensor = {.number = ++graph->tensors};
  memcpy(tensor.size, size, sizeof tensor.size);
  memcpy(tensor.stride, stride, sizeof tensor.stride);
  tensor.descriptor = make(graph, CUDNN_MAKE_TENSOR);
  set_type(graph, tensor.descriptor, CUDNN_TENSOR_TYPE, type);
  set(graph, tensor.descriptor, CUDNN_TENSOR_SIZES, CUDNN_OF_INT64, CUDNN_DIMS, size);
  set(graph, tensor.descriptor, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, CUDNN_DIMS, stride);
  set(graph, tensor.descriptor, CUDNN_TENSOR_NUMBER, CUDNN_OF_INT64, 1, &tensor.number);
  set(graph, tensor.descriptor, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, &align);
  if (kind) {
    set(graph, tensor.descriptor, *kind, CUDNN_OF_BOOL, 1, &yes);
  }
  finalise(graph, tensor.descriptor, "describing a tensor");
  return tensor;
}

CudnnTensor cudnn_graph_memory(CudnnGraph *graph, CudnnType type, const int64_t *size, const int64_t *stride) {
  return tensor_of(graph, type, size, stride, NULL);
}

CudnnTensor cudnn_graph_virtual(CudnnGraph *graph, CudnnType type, const int64_t *size) {
  static const CudnnAttribute kind = CUDNN_TENSOR_IS_VIRTUAL;
  const int64_t stride[CUDNN_DIMS] = {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
  return tensor_of(graph, type, size, stride, &kind);
}

CudnnTensor cudnn_graph_value(CudnnGraph *graph) {
  static const CudnnAttribute kind = CUDNN_TENSOR_IS_VALUE;
  static const int64_t one[CUDNN_DIMS] = {1, 1, 1, 1};
  return tensor_of(graph, CUDNN_F32, one, one, &kind);
}

CudnnTensor cudnn_graph_transposed(CudnnGraph *graph, CudnnType type, const CudnnTensor *of) {
  static const CudnnAttribute kind = CUDNN_TENSOR_IS_VIRTUAL;
  const int64_t size[CUDNN_DIMS] = {of->size[0], of->size[1], of->size[3], of->size[2]};
  const int64_t stride[CUDNN_DIMS] = {of->stride[0], of->stride[1], of->stride[3], of->stride[2]};
  return tensor_of(graph, type, size, stride, &kind);
}

void cudnn_graph_pointwise(CudnnGraph *graph, const CudnnPointwise *operation) {
  const CudnnDescriptor how = make(graph, CUDNN_MAKE_POINTWISE);
  set(graph, how, CUDNN_POINTWISE_MODE, CUDNN_OF_POINTWISE_MODE, 1, &operation->mode);
  set_type(graph, how, CUDNN_POINTWISE_PRECISION, operation->precision);
  if (operation->mode == CUDNN_INDEX) {
    set(graph, how, CUDNN_POINTWISE_AXIS, CUDNN_OF_INT64, 1, &operation->axis);
  }
  finalise(graph, how, "describing an operation");
  const CudnnDescriptor made = make(graph, CUDNN_MAKE_POINTWISE_OPERATION);
  set_descriptor(graph, made, CUDNN_POINTWISE_DESCRIPTOR, how);
  set_descriptor(graph, made, CUDNN_POINTWISE_X, operation->x->descriptor);
  if (operation->b) {
    set_descriptor(graph, made, CUDNN_POINTWISE_B, operation->b->descriptor);
  }
  if (operation->t) {
    set_descriptor(graph, made, CUDNN_POINTWISE_T, operation->t->descriptor);
  }
  set_descriptor(graph, made, CUDNN_POINTWISE_Y, operation->y->descriptor);
  add_operation(graph, made);
}

void cudnn_graph_matmul(CudnnGraph *graph, const CudnnTensor *a, const CudnnTensor *b, const CudnnTensor *c) {
  const CudnnDescriptor how = make(graph, CUDNN_MAKE_MATMUL);
  set_type(graph, how, CUDNN_MATMUL_PRECISION, CUDNN_F32);
  finalise(graph, how, "describing a product");
  const CudnnDescriptor made = make(graph, CUDNN_MAKE_MATMUL_OPERATION);
  set_descriptor(graph, made, CUDNN_MATMUL_A, a->descriptor);
  set_descriptor(graph, made, CUDNN_MATMUL_B, b->descriptor);
  set_descriptor(graph, made, CUDNN_MATMUL_C, c->descriptor);
  set_descriptor(graph, made, CUDNN_MATMUL_DESCRIPTOR, how);
  add_operation(graph, made);
}

void cudnn_graph_reduce(CudnnGraph *graph, CudnnReduction reduction, const CudnnTensor *x, const CudnnTensor *y) {
  const CudnnDescriptor how = make(graph, CUDNN_MAKE_REDUCTION);
  set_type(graph, how, CUDNN_REDUCTION_PRECISION, CUDNN_F32);
  set(graph, how, CUDNN_REDUCTION_OPERATOR, CUDNN_OF_REDUCTION, 1, &reduction);
  finalise(graph, how, "describing a sum");
  const CudnnDescriptor made = make(graph, CUDNN_MAKE_REDUCTION_OPERATION);
  set_descriptor(graph, made, CUDNN_REDUCTION_X, x->descriptor);
  set_descriptor(graph, made, CUDNN_REDUCTION_Y, y->descriptor);
  set_descriptor(graph, made, CUDNN_REDUCTION_DESCRIPTOR, how);
  add_operation(graph, made);
}

void cudnn_graph_reshape(CudnnGraph *graph, const CudnnTensor *x, const CudnnTensor *y) {
  const CudnnDescriptor made = make(graph, CUDNN_MAKE_RESHAPE_OPERATION);
  set_descriptor(graph, made, CUDNN_RESHAPE_X, x->descriptor);
  set_descriptor(graph, made, CUDNN_RESHAPE_Y, y->descriptor);
  add_operation(graph, made);
}

// --- plans ---

// What kind of engine a configuration is for.
static bool engine_read(CudnnGraph *graph, CudnnDescriptor configuration, CudnnPlan *plan) {
  const CudnnLibrary *library = &graph->cudnn->library;
  CudnnDescriptor engine = make(graph, CUDNN_MAKE_ENGINE);
  int notes[CUDNN_NOTE_MOST];
  int64_t count = 0;
  if (graph->failed ||
      !check(graph,
             library->attribute_get(configuration, CUDNN_CONFIGURATION_ENGINE, CUDNN_OF_DESCRIPTOR, 1, &count, &engine),
             "asking for an engine") ||
      !check(graph, library->attribute_get(engine, CUDNN_ENGINE_INDEX, CUDNN_OF_INT64, 1, &count, &plan->engine),
             "asking for an engine's index") ||
      !check(graph,
             library->attribute_get(engine, CUDNN_ENGINE_NUMERICAL_NOTES, CUDNN_OF_NUMERICAL_NOTE, CUDNN_NOTE_MOST,
                                    &count, notes),
             "asking for an engine's notes")) {
    return false;
  }
  plan->reproducible = true;
  for (int64_t i = 0; i < count && i < CUDNN_NOTE_MOST; i++) {
    plan->reproducible = plan->reproducible && notes[i] != CUDNN_NOTE_NONDETERMINISTIC;
  }
  return true;
}

static bool plan_make(CudnnGraph *graph, CudnnDescriptor configuration, CudnnPlan *plan) {
  Cudnn *cudnn = graph->cudnn;
  if (!engine_read(graph, configuration, plan)) {
    return false;
  }
  if (cudnn->strict && !plan->reproducible) {
    graph->failed = !error_set(&graph->error, 1, "not reproducible");
    return false;
  }
  plan->descriptor = make(graph, CUDNN_MAKE_PLAN);
  if (cudnn->properties) {
    set_descriptor(graph, plan->descriptor, CUDNN_PLAN_PROPERTIES, cudnn->properties);
  } else {
    set(graph, plan->descriptor, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, &cudnn->handle);
  }
  set_descriptor(graph, plan->descriptor, CUDNN_PLAN_CONFIGURATION, configuration);
  int64_t count = 0;
  return finalise(graph, plan->descriptor, "making a plan") &&
         check(graph,
               cudnn->library.attribute_get(plan->descriptor, CUDNN_PLAN_WORKSPACE, CUDNN_OF_INT64, 1, &count,
                                            &plan->workspace),
               "asking for the workspace of a plan");
}

// The configurations that a heuristic offers, best first.
static int64_t configurations_of(CudnnGraph *graph, CudnnDescriptor operations, int mode,
                                 CudnnDescriptor configurations[CONFIGURATIONS_MOST]) {
  Cudnn *cudnn = graph->cudnn;
  const CudnnDescriptor heuristic = make(graph, CUDNN_MAKE_HEURISTIC);
  set_descriptor(graph, heuristic, CUDNN_HEURISTIC_GRAPH, operations);
  set(graph, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_OF_HEURISTIC_MODE, 1, &mode);
  if (cudnn->properties) {
    set_descriptor(graph, heuristic, CUDNN_HEURISTIC_PROPERTIES, cudnn->properties);
  }
  if (!finalise(graph, heuristic, "asking for engines")) {
    return 0;
  }
  for (int i = 0; i < CONFIGURATIONS_MOST; i++) {
    configurations[i] = make(graph, CUDNN_MAKE_CONFIGURATION);
  }
  int64_t count = 0;
  if (graph->failed || !check(graph,
                              cudnn->library.attribute_get(heuristic, CUDNN_HEURISTIC_RESULTS, CUDNN_OF_DESCRIPTOR,
                                                           CONFIGURATIONS_MOST, &count, configurations),
                              "asking for engines")) {
    return 0;
  }
  return count < CONFIGURATIONS_MOST ? count : CONFIGURATIONS_MOST;
}

bool cudnn_graph_plan(CudnnGraph *graph, CudnnPlan *plan) {
  static const int modes[] = {HEURISTIC_A, HEURISTIC_INSTANT, HEURISTIC_B, HEURISTIC_FALLBACK};
  Cudnn *cudnn = graph->cudnn;
  const CudnnDescriptor operations = make(graph, CUDNN_MAKE_GRAPH);
  if (cudnn->handle) {
    set(graph, operations, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, &cudnn->handle);
  }
  set(graph, operations, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTOR, graph->operation_count, graph->operations);
  if (!finalise(graph, operations, "joining operations")) {
    return false;
  }
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    CudnnDescriptor configurations[CONFIGURATIONS_MOST];
    const int64_t count = configurations_of(graph, operations, modes[i], configurations);
    for (int64_t j = 0; j < count; j++) {
      graph->failed = false;
      if (plan_make(graph, configurations[j], plan)) {
        return true;
      }
    }
    if (graph->error.text[0] == 0) {
      error_set(&graph->error, 1, "cuDNN offers no engine for such a graph");
    }
    graph->failed = false;
  }
  graph->failed = true;
  return false;
}

bool cudnn_plan_run(const Cudnn *cudnn, const CudnnPlan *plan, const int64_t *numbers, void *const *addresses,
                    int count, CudaAddress workspace, CudaStream stream, Error *error) {
  const CudnnLibrary *library = &cudnn->library;
  static const char what[] = "running a plan";
  void *scratch = NULL;
  memcpy(&scratch, &workspace, sizeof scratch);
  CudnnDescriptor pack = NULL;
  if (!cudnn_check(cudnn, library->descriptor_create(CUDNN_MAKE_PACK, &pack), what, error)) {
    return false;
  }
  const bool done =
      cudnn_check(cudnn, library->attribute_set(pack, CUDNN_PACK_NUMBERS, CUDNN_OF_INT64, count, numbers), what,
                  error) &&
      cudnn_check(cudnn, library->attribute_set(pack, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, count, addresses), what,
                  error) &&
      cudnn_check(cudnn, library->attribute_set(pack, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, &scratch), what,
                  error) &&
      cudnn_check(cudnn, library->descriptor_finalise(pack), what, error) &&
      cudnn_check(cudnn, library->stream_set(cudnn->handle, stream), what, error) &&
      cudnn_check(cudnn, library->execute(cudnn->handle, plan->descriptor, pack), what, error);
  library->descriptor_destroy(pack);
  return done;
}
