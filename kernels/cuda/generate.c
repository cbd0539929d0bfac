// generate.c: which programs a kernel needs, and the launches that they become.
#include "kernels/cuda/generate.h"

#include <setjmp.h>
#include <string.h>

#include "kernels/cuda/generate_internal.h"

// The whole space first; then what varies on more dims before what varies on fewer, so that an output over some dims
// overwrites inputs only after all programs over more dims have read them.
static bool programs_collect(Generator *g) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    bool fixed;
    if (!op_is_output(g->kernel->code[i].op)) {
      continue;
    }
    const unsigned dims = kernel_output_dims(g->kernel, i, g->reduced, &fixed);
    int k = 0;
    while (k < g->program_count && g->program[k].dims != dims) {
      k++;
    }
    if (k == GENERATE_MAX_PROGRAMS) {
      return false;
    }
    g->program_count += k == g->program_count;
    g->program[k].dims = dims;
    g->program[k].wanted[i] = true;
    g->program[k].fixed |= fixed;
  }
  for (int i = 1; i < g->program_count; i++) {
    for (int k = i; k > 0 && __builtin_popcount(g->program[k].dims) > __builtin_popcount(g->program[k - 1].dims); k--) {
      CudaProgram *keep = arena_copy(g->arena, &g->program[k], sizeof *keep);
      g->program[k] = g->program[k - 1];
      g->program[k - 1] = *keep;
    }
  }
  for (int k = 0; k < g->program_count; k++) {
    g->program[k].number = k;
  }
  return true;
}

static bool program_reads(const Generator *g, const CudaProgram *program, int port) {
  bool needed[KERNEL_MAX_CODE] = {false};
  for (int i = g->kernel->code_count - 1; i >= 0; i--) {
    const KernelInstruction *code = &g->kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    needed[i] |= program->wanted[i];
    for (int k = 0; needed[i] && k < kernel_op_operands(code->op); k++) {
      needed[operand[k]] = true;
    }
    if (needed[i] && code->op == KERNEL_LOAD && code->port == port) {
      return true;
    }
  }
  return false;
}

// A store after row reductions to fewer dims than the space has may overwrite an input, of the same strides and type,
// that other rows, columns or programs read later: the input is copied before anything runs. An output of whole rows
// is written after its own row has read what it needs.
static int64_t shadows_find(Generator *g) {
  const Kernel *kernel = g->kernel;
  const CudaProgram *first = &g->program[0];
  const unsigned outer = kernel_dims_of_level(kernel, LEVEL_ROW);
  int64_t bytes = 0;
  memset(g->shadow, -1, sizeof g->shadow);
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    const KernelPort *to = code->port >= 0 ? &kernel->port[code->port] : NULL;
    if (!first->fixed || !first->wanted[i] || code->op != KERNEL_STORE ||
        kernel_dims_of_stride(kernel, to->stride) == first->dims) {
      continue;
    }
    for (int p = 0; p < kernel->port_count; p++) {
      const KernelPort *from = &kernel->port[p];
      if (from->kind != PORT_INPUT || from->type != to->type || g->shadow[p] >= 0 ||
          memcmp(from->stride, to->stride, sizeof *to->stride * (size_t)kernel->dim_count) != 0) {
        continue;
      }
      bool read = kernel_dims_of_stride(kernel, to->stride) != outer && program_reads(g, first, p);
      for (int k = 1; k < g->program_count; k++) {
        read |= program_reads(g, &g->program[k], p);
      }
      if (read) {
        int64_t last = 0;
        for (int d = 0; d < kernel->dim_count; d++) {
          last += (kernel->size[d] - 1) * from->stride[d];
        }
        g->shadow[p] = bytes;
        bytes += round_up((last + 1) * element_type_bytes(from->type), 256);
      }
    }
  }
  return bytes;
}

static void shadows_emit(Generator *g) {
  const int ports = g->kernel->port_count;
  cuda_text(&g->text, "KERNEL(shadow, %d)(const Slots s) {\n", GENERATE_BLOCK);
  for (int p = 0; p < ports; p++) {
    const KernelPort *port = &g->kernel->port[p];
    int64_t last = 0;
    for (int d = 0; d < g->kernel->dim_count; d++) {
      last += (g->kernel->size[d] - 1) * port->stride[d];
    }
    if (g->shadow[p] >= 0) {
      const char *type = element_type_bytes(port->type) == 8   ? "Long"
                         : element_type_bytes(port->type) == 4 ? "unsigned"
                                                               : "unsigned short";
      emit_line(g, 1, "for (Long i = blockIdx.x * %du + threadIdx.x; i < %lldull; i += gridDim.x * %du)",
                GENERATE_BLOCK, (long long)last + 1, GENERATE_BLOCK);
      emit_line(g, 2, "((%s *)((char *)s.at[%d] + %lld))[i] = ((const %s *)s.at[%d])[i];", type, ports,
                (long long)g->shadow[p], type, p);
    }
  }
  emit_line(g, 0, "}");
  launch_add(g, "shadow", 4 * g->target->multiprocessors, 1, GENERATE_BLOCK, 0);
}

int64_t scratch_take(Generator *g, int64_t bytes) {
  const int64_t at = g->made->scratch_bytes;
  g->made->scratch_bytes = round_up(at + bytes, 256);
  return at;
}

void launch_add(Generator *g, const char *function, int64_t grid_x, int64_t grid_y, int threads, int64_t shared) {
  g->made->launch[g->made->launch_count++] = (CudaLaunch){.function = function,
                                                          .grid = {(uint32_t)grid_x, (uint32_t)grid_y, 1},
                                                          .block = {(uint32_t)threads, 1, 1},
                                                          .shared_bytes = (uint32_t)shared};
}

void form_add(Generator *g, const char *form) {
  g->made->form = g->made->form ? arena_format(g->arena, "%s, %s", g->made->form, form) : form;
}

// Whether indices and offsets do not fit 32 bits.
static bool is_wide(const Generator *g) {
  const int64_t most = ((int64_t)1 << 32) - ((int64_t)1 << 22);  // less what the last blocks go beyond
  for (int k = 0; k < g->program_count; k++) {
    const CudaProgram *program = &g->program[k];
    if (program->outer.total >= most || program->inner.total >= most) {
      return true;
    }
    for (int p = 0; p < program->port_count; p++) {
      int64_t row = 0, column = 0;
      for (int d = 0; d < program->outer.count; d++) {
        row += (program->outer.size[d] - 1) * program->port[p].row[d];
      }
      for (int d = 0; d < program->inner.count; d++) {
        column += (program->inner.size[d] - 1) * program->port[p].column[d];
      }
      if (row >= most || column >= most) {
        return true;
      }
    }
  }
  return false;
}

static double traffic(const Kernel *kernel) {
  double bytes = 0.0;
  for (int p = 0; p < kernel->port_count; p++) {
    double port = kernel->port[p].kind == PORT_STRIDES ? 0.0 : (double)element_type_bytes(kernel->port[p].type);
    for (int d = 0; d < kernel->dim_count; d++) {
      port *= kernel->port[p].stride[d] != 0 ? (double)kernel->size[d] : 1.0;
    }
    bytes += port;
  }
  return bytes;
}

// Layers that are alike but for the keys of their random numbers share a text.
static void keys_find(Generator *g) {
  CudaKernel *made = g->made;
  for (int i = 0; i < g->kernel->code_count && made->number_count < CUDA_MAX_NUMBERS; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (code->op == KERNEL_UNIFORM || code->op == KERNEL_NORMAL) {
      g->key_slot[i] = made->port_count + 2 + made->number_count;
      made->number[made->number_count++] = (uint64_t)code->constant;
    }
  }
}

static const char *refuse(const Kernel *kernel, Generator *g) {
  for (int p = 0; p < kernel->port_count; p++) {
    const KernelPort *port = &kernel->port[p];
    if (port->kind != PORT_STRIDES && element_type_bytes(port->type) == 1 && kernel->real != TYPE_F32) {
      return "8-bit ports where numbers are f64";
    }
  }
  kernel_analyse(g->kernel, g->mask, g->reduced);
  return programs_collect(g) ? NULL : "outputs over more than six sets of dims";
}

// Makes everything in the arena `g->arena`; why it cannot, or NULL.
static const char *generate(Generator *g) {
  const char *why = refuse(g->kernel, g);
  if (why) {
    return why;
  }
  const int64_t shadows = shadows_find(g);
  for (int k = 0; k < g->program_count; k++) {
    cuda_program_build(g, &g->program[k]);
  }
  g->wide = is_wide(g);
  keys_find(g);
  cuda_prelude(&g->text, g->kernel->port_count + 2 + g->made->number_count);
  expression_prelude(g);
  if (shadows > 0) {
    scratch_take(g, shadows);
    shadows_emit(g);
  }
  for (int k = 0; k < g->program_count; k++) {
    CudaProgram *program = &g->program[k];
    if (program->phases > 0) {
      template_row(g, program);
    } else if (program->fixed) {
      template_column(g, program);
    } else if (!template_tile(g, program)) {
      template_flat(g, program);
    }
  }
  template_finish(g);
  return NULL;
}

static const char *text_kept(Arena *arena, const char *text) {
  return arena_copy(arena, text, strlen(text) + 1);
}

bool cuda_generate(const Kernel *kernel, const int *alignment, const CudaTarget *target, Arena *arena, CudaKernel *made,
                   const char **why) {
  jmp_buf escape;
  Arena *const work = arena_create();
  *why = "no memory";
  if (!work || setjmp(escape)) {
    arena_destroy(work);
    return false;
  }
  arena_set_escape(work, &escape);
  Generator *g = ARENA_NEW(work, Generator);
  *made = (CudaKernel){.port_count = kernel->port_count, .bytes = traffic(kernel)};
  *g = (Generator){.arena = work, .kernel = kernel_turned(work, kernel), .alignment = alignment, .target = target};
  g->made = made;
  g->text.arena = work;
  g->real_bytes = (int)element_type_bytes(kernel->real);
  g->program = ARENA_ARRAY(work, CudaProgram, GENERATE_MAX_PROGRAMS);
  *why = generate(g);
  if (!*why) {
    made->text = text_kept(arena, g->text.text);
    made->form = text_kept(arena, made->form ? made->form : "nothing");
    for (int i = 0; i < made->launch_count; i++) {
      made->launch[i].function = text_kept(arena, made->launch[i].function);
    }
  }
  arena_destroy(work);
  return *why == NULL;
}
