// artefact.c: one description of the plan that both writes and reads, so that the two cannot drift apart.
#include "compiler/artefact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buffer.h"
#include "base/file.h"
#include "compiler/plan_verify.h"

static const char magic[8] = {'M', 'D', 'L', 'X', '\r', '\n', '\x1a', '\n'};
enum { HEADER_BYTES = 32 };
#define NO_STRING UINT32_MAX

typedef struct {
  Arena *arena;       // reading: where the plan goes
  Buffer *out;        // writing; NULL: reading
  const uint8_t *in;  // reading: what is left
  size_t left;
  bool bad;  // the bytes do not fit the format
} Codec;

static void code_bytes(Codec *codec, void *value, size_t size) {
  if (codec->out) {
    buffer_bytes(codec->out, value, size);
  } else if (codec->bad || codec->left < size) {
    codec->bad = true;
    memset(value, 0, size);
  } else {
    memcpy(value, codec->in, size);
    codec->in += size;
    codec->left -= size;
  }
}

static uint64_t code_word(Codec *codec, uint64_t value, int size) {
  uint8_t bytes[8] = {0};
  for (int i = 0; codec->out && i < size; i++) {
    bytes[i] = (uint8_t)(value >> (8 * i));
  }
  code_bytes(codec, bytes, (size_t)size);
  value = 0;
  for (int i = size - 1; i >= 0; i--) {
    value = value << 8 | bytes[i];
  }
  return value;
}

// Writing leaves the plan alone, so that several threads may write one plan.
#define CODE_SET(codec, variable, value)       \
  do {                                         \
    __typeof__(variable) code_value = (value); \
    if (!(codec)->out) {                       \
      (variable) = code_value;                 \
    }                                          \
  } while (0)

static void code_u64(Codec *codec, uint64_t *value) {
  CODE_SET(codec, *value, code_word(codec, *value, 8));
}

static void code_u32(Codec *codec, uint32_t *value) {
  CODE_SET(codec, *value, (uint32_t)code_word(codec, *value, 4));
}

static void code_i64(Codec *codec, int64_t *value) {
  CODE_SET(codec, *value, (int64_t)code_word(codec, (uint64_t)*value, 8));
}

static void code_int(Codec *codec, int *value) {
  CODE_SET(codec, *value, (int)(uint32_t)code_word(codec, (uint32_t)*value, 4));
}

static void code_i16(Codec *codec, int16_t *value) {
  CODE_SET(codec, *value, (int16_t)(uint16_t)code_word(codec, (uint16_t)*value, 2));
}

static void code_double(Codec *codec, double *value) {
  uint64_t word;
  memcpy(&word, value, sizeof word);
  code_u64(codec, &word);
  if (!codec->out) {
    memcpy(value, &word, sizeof word);
  }
}

static void code_bool(Codec *codec, bool *value) {
  uint64_t byte = code_word(codec, *value, 1);
  codec->bad |= byte > 1;
  CODE_SET(codec, *value, byte == 1);
}

// An enum of `count` members.
static int code_choice(Codec *codec, int value, int count) {
  int choice = (int)(uint32_t)code_word(codec, (uint32_t)value, 4);
  if (choice < 0 || choice >= count) {
    codec->bad = true;
    choice = 0;
  }
  return choice;
}

#define CODE_ENUM(codec, value, Type, count) \
  CODE_SET(codec, value, (Type)code_choice((codec), (int)(value), (int)(count)))

static void code_string(Codec *codec, const char **text) {
  uint32_t length = codec->out ? (*text ? (uint32_t)strlen(*text) : NO_STRING) : 0;
  code_u32(codec, &length);
  if (codec->out) {
    buffer_bytes(codec->out, *text ? *text : "", *text ? length : 0);
    return;
  }
  *text = NULL;
  if (length == NO_STRING || codec->bad) {
    return;
  }
  if (length > codec->left || memchr(codec->in, '\0', length)) {
    codec->bad = true;
    return;
  }
  char *copy = arena_alloc(codec->arena, (size_t)length + 1);
  memcpy(copy, codec->in, length);
  codec->in += length;
  codec->left -= length;
  *text = copy;
}

static void code_name(Codec *codec, const char **text) {  // a string that must be there
  code_string(codec, text);
  if (!*text) {
    codec->bad = true;
    *text = "";
  }
}

// The count of an array whose elements take at least `least` bytes each, so that a false count asks for no memory.
static void *code_array(Codec *codec, void *array, int *count, size_t size, size_t least) {
  code_int(codec, count);
  if (codec->out) {
    return array;
  }
  if (codec->bad || *count < 0 || (uint64_t)*count * least > codec->left) {
    codec->bad = true;
    *count = 0;
  }
  return arena_alloc(codec->arena, size * (size_t)(*count ? *count : 1));
}

#define CODE_ARRAY(codec, array, count, least) \
  CODE_SET(codec, array, code_array((codec), (array), &(count), sizeof *(array), (least)))

static void code_sizes(Codec *codec, int64_t *sizes, int count) {
  for (int i = 0; i < count; i++) {
    code_i64(codec, &sizes[i]);
  }
}

static void code_axis_count(Codec *codec, int *count, int most) {
  code_int(codec, count);
  if (*count < 0 || *count > most) {
    codec->bad = true;
    *count = 0;
  }
}

static void code_place(Codec *codec, Place *place) {
  CODE_ENUM(codec, place->arena, ArenaClass, ARENA_CLASS_COUNT);
  code_i64(codec, &place->offset);
  code_i64(codec, &place->slot_stride);
}

static void code_type(Codec *codec, ElementType *type) {
  CODE_ENUM(codec, *type, ElementType, ELEMENT_TYPE_COUNT);
}

static void code_kernel(Codec *codec, Kernel *kernel) {
  code_axis_count(codec, &kernel->dim_count, KERNEL_MAX_DIMS);
  code_int(codec, &kernel->inner_count);
  code_bool(codec, &kernel->row_reductions);
  code_sizes(codec, kernel->size, kernel->dim_count);
  code_type(codec, &kernel->real);
  CODE_ARRAY(codec, kernel->port, kernel->port_count, 9);
  for (int i = 0; i < kernel->port_count; i++) {
    KernelPort *port = &kernel->port[i];
    CODE_ENUM(codec, port->kind, PortKind, PORT_STRIDES + 1);
    code_type(codec, &port->type);
    code_bool(codec, &port->accumulate);
    code_sizes(codec, port->stride, kernel->dim_count);
  }
  CODE_ARRAY(codec, kernel->code, kernel->code_count, 33);
  for (int i = 0; i < kernel->code_count; i++) {
    KernelInstruction *at = &kernel->code[i];
    CODE_ENUM(codec, at->op, KernelOp, KERNEL_OP_COUNT);
    CODE_ENUM(codec, at->level, KernelLevel, LEVEL_FULL + 1);
    code_bool(codec, &at->integer);
    code_i16(codec, &at->a);
    code_i16(codec, &at->b);
    code_i16(codec, &at->c);
    code_i16(codec, &at->port);
    code_double(codec, &at->number);
    code_i64(codec, &at->constant);
  }
}

static void code_gemm(Codec *codec, Gemm *gemm) {
  code_type(codec, &gemm->type);
  code_bool(codec, &gemm->transpose_a);
  code_bool(codec, &gemm->transpose_b);
  int64_t *sizes[] = {&gemm->m, &gemm->n, &gemm->k, &gemm->lda, &gemm->ldb, &gemm->ldc};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    code_i64(codec, sizes[i]);
  }
  code_axis_count(codec, &gemm->batch_count, 4);
  code_sizes(codec, gemm->batch, gemm->batch_count);
  code_sizes(codec, gemm->stride_a, gemm->batch_count);
  code_sizes(codec, gemm->stride_b, gemm->batch_count);
  code_sizes(codec, gemm->stride_c, gemm->batch_count);
  code_place(codec, &gemm->a);
  code_place(codec, &gemm->b);
  code_place(codec, &gemm->c);
  CODE_ENUM(codec, gemm->write, WriteMode, WRITE_ADD_AFTER_FIRST + 1);
}

static void code_take(Codec *codec, Take *take) {
  code_type(codec, &take->type);
  code_axis_count(codec, &take->dim_count, PLAN_MAX_AXES);
  code_sizes(codec, take->size, take->dim_count);
  code_sizes(codec, take->stride_x, take->dim_count);
  code_sizes(codec, take->stride_index, take->dim_count);
  code_sizes(codec, take->stride_out, take->dim_count);
  code_i64(codec, &take->extent);
  code_i64(codec, &take->stride_axis);
  code_i64(codec, &take->x_elements);
  code_place(codec, &take->x);
  code_place(codec, &take->index);
  code_place(codec, &take->out);
  CODE_ENUM(codec, take->write, WriteMode, WRITE_ADD_AFTER_FIRST + 1);
}

static void code_window(Codec *codec, Window *window) {
  code_type(codec, &window->type);
  code_axis_count(codec, &window->dim_count, PLAN_MAX_AXES);
  code_int(codec, &window->windowed);
  code_sizes(codec, window->size, window->dim_count);
  code_sizes(codec, window->stride_x, window->dim_count);
  code_sizes(codec, window->stride_out, window->dim_count);
  code_i64(codec, &window->taps);
  code_i64(codec, &window->stride_tap);
  code_place(codec, &window->x);
  code_place(codec, &window->out);
}

static void code_attention(Codec *codec, Attention *attention) {
  code_type(codec, &attention->type);
  code_bool(codec, &attention->causal);
  code_double(codec, &attention->scale);
  int64_t *sizes[] = {&attention->batch,  &attention->queries, &attention->keys,       &attention->heads,
                      &attention->groups, &attention->depth,   &attention->value_depth};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    code_i64(codec, sizes[i]);
  }
  int64_t *queries[] = {attention->stride_q, attention->stride_o, attention->stride_dq, attention->stride_do};
  int64_t *keys[] = {attention->stride_k, attention->stride_v, attention->stride_dk, attention->stride_dv};
  for (int i = 0; i < 4; i++) {
    code_sizes(codec, queries[i], 4);
    code_sizes(codec, keys[i], 3);
  }
  Place *places[] = {&attention->q,   &attention->k,  &attention->v,  &attention->o, &attention->statistics,
                     &attention->d_o, &attention->dq, &attention->dk, &attention->dv};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    code_place(codec, places[i]);
  }
}

static void code_kernel_call(Codec *codec, KernelCall *call, const Plan *plan) {
  code_int(codec, &call->kernel);
  if (call->kernel < 0 || call->kernel >= plan->kernel_count) {
    codec->bad = true;
    return;
  }
  int ports = plan->kernels[call->kernel]->port_count;
  if (!codec->out) {
    call->place = ARENA_ARRAY(codec->arena, Place, ports ? ports : 1);
  }
  for (int i = 0; i < ports; i++) {
    code_place(codec, &call->place[i]);
  }
}

static void code_instruction(Codec *codec, Instruction *instruction, const Plan *plan) {
  CODE_ENUM(codec, instruction->kind, InstructionKind, INSTRUCTION_KIND_COUNT);
  code_int(codec, &instruction->span.file);
  code_u32(codec, &instruction->span.begin);
  code_u32(codec, &instruction->span.end);
  code_string(codec, &instruction->name);
  code_double(codec, &instruction->flops);
  code_double(codec, &instruction->bytes);
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      code_kernel_call(codec, &instruction->as.kernel, plan);
      break;
    case INSTRUCTION_GEMM:
      code_gemm(codec, &instruction->as.gemm);
      break;
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      code_take(codec, &instruction->as.take);
      break;
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      code_window(codec, &instruction->as.window);
      break;
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      code_attention(codec, &instruction->as.attention);
      break;
    case INSTRUCTION_KIND_COUNT:
      codec->bad = true;
  }
}

static void code_axes(Codec *codec, int *count, const char **axis, int64_t *size) {
  code_axis_count(codec, count, PLAN_MAX_AXES);
  for (int i = 0; i < *count; i++) {
    code_name(codec, &axis[i]);
  }
  code_sizes(codec, size, *count);
}

static void code_state(Codec *codec, PlanState *state) {
  code_name(codec, &state->name);
  CODE_ENUM(codec, state->role, StateRole, STATE_MODEL + 1);
  code_type(codec, &state->type);
  code_axes(codec, &state->axis_count, state->axis, state->size);
  code_sizes(codec, state->stride, state->axis_count);
  code_i64(codec, &state->offset);
}

static void code_input(Codec *codec, PlanInput *input) {
  code_name(codec, &input->name);
  code_type(codec, &input->type);
  code_axes(codec, &input->axis_count, input->axis, input->size);
  code_i64(codec, &input->bound);
  code_place(codec, &input->place);
}

static void code_output(Codec *codec, PlanOutput *output) {
  code_name(codec, &output->name);
  code_type(codec, &output->type);
  code_axes(codec, &output->axis_count, output->axis, output->size);
  code_sizes(codec, output->stride, output->axis_count);
  code_place(codec, &output->place);
}

static void code_program(Codec *codec, PlanProgram *program) {
  CODE_ARRAY(codec, program->calls, program->call_count, 9);
  for (int i = 0; i < program->call_count; i++) {
    code_int(codec, &program->calls[i].segment);
    code_int(codec, &program->calls[i].slot);
    code_bool(codec, &program->calls[i].first);
  }
  CODE_ARRAY(codec, program->inputs, program->input_count, 20);
  for (int i = 0; i < program->input_count; i++) {
    code_input(codec, &program->inputs[i]);
  }
  CODE_ARRAY(codec, program->outputs, program->output_count, 20);
  for (int i = 0; i < program->output_count; i++) {
    code_output(codec, &program->outputs[i]);
  }
  code_int(codec, &program->slots);
  code_i64(codec, &program->transient_bytes);
  code_double(codec, &program->flops);
}

static void code_run(Codec *codec, PlanRun *run) {
  const char **words[] = {&run->model,     &run->recipe,    &run->layout,    &run->precision, &run->optimizer,
                          &run->data_kind, &run->data_path, &run->data_base, &run->tokenizer};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    code_string(codec, words[i]);
  }
  code_double(codec, &run->validation_fraction);
  int64_t *numbers[] = {&run->batch,      &run->sequence,  &run->steps,       &run->eval_every,
                        &run->save_every, &run->log_every, &run->eval_batches};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    code_i64(codec, numbers[i]);
  }
  code_u64(codec, &run->seed);
  code_double(codec, &run->parameters);
}

static void code_source(Codec *codec, Source *source) {
  code_name(codec, &source->path);
  code_name(codec, &source->text);
  if (!codec->out) {
    source->length = (uint32_t)strlen(source->text);
  }
}

// The whole payload. Only reading changes *plan.
static void code_plan(Codec *codec, Plan *plan) {
  code_run(codec, &plan->run);
  code_type(codec, &plan->real);
  CODE_ARRAY(codec, plan->kernels, plan->kernel_count, 20);
  for (int i = 0; i < plan->kernel_count && !codec->bad; i++) {
    if (!codec->out) {
      plan->kernels[i] = ARENA_NEW(codec->arena, Kernel);
    }
    code_kernel(codec, plan->kernels[i]);
  }
  if (codec->bad) {
    return;
  }
  CODE_ARRAY(codec, plan->segments, plan->segment_count, 8);
  for (int s = 0; s < plan->segment_count; s++) {
    PlanSegment *segment = &plan->segments[s];
    code_string(codec, &segment->name);
    CODE_ARRAY(codec, segment->instructions, segment->count, 36);
    for (int i = 0; i < segment->count && !codec->bad; i++) {
      code_instruction(codec, &segment->instructions[i], plan);
    }
  }
  CODE_ARRAY(codec, plan->states, plan->state_count, 20);
  for (int i = 0; i < plan->state_count; i++) {
    code_state(codec, &plan->states[i]);
  }
  for (int i = 0; i < PROGRAM_COUNT; i++) {
    code_program(codec, &plan->programs[i]);
  }
  code_sizes(codec, plan->arena_bytes, ARENA_CLASS_COUNT);
  code_string(codec, &plan->resolved);
  CODE_ARRAY(codec, plan->sources, plan->source_count, 8);
  for (int i = 0; i < plan->source_count; i++) {
    code_source(codec, &plan->sources[i]);
  }
  code_u64(codec, &plan->state_hash);
}

bool artefact_write(Arena *arena, const Plan *plan, const char *path, const char **why) {
  Buffer file = {0};
  char header[HEADER_BYTES] = {0};
  Plan copy = *plan;  // writing changes nothing behind its pointers
  buffer_bytes(&file, header, sizeof header);
  code_plan(&(Codec){.arena = arena, .out = &file}, &copy);
  if (file.failed) {
    buffer_free(&file);
    *why = arena_format(arena, "no memory to write %s", path);
    return false;
  }
  uint32_t version = PLAN_VERSION, zero = 0;
  uint64_t bytes = file.length - HEADER_BYTES, hash = XXH3_64bits(file.text + HEADER_BYTES, (size_t)bytes);
  Buffer head = {0};
  Codec codec = {.out = &head};
  buffer_bytes(&head, magic, sizeof magic);
  code_u32(&codec, &version);
  code_u32(&codec, &zero);
  code_u64(&codec, &bytes);
  code_u64(&codec, &hash);
  bool done = !head.failed;
  FileError error = {"no memory"};
  if (done) {
    memcpy(file.text, head.text, HEADER_BYTES);
    done = file_write_atomic(path, file.text, file.length, &error);
  }
  if (!done) {
    *why = arena_format(arena, "%s", error.text);
  }
  buffer_free(&head);
  buffer_free(&file);
  return done;
}

static Plan *payload_read(Arena *arena, const uint8_t *bytes, size_t length, const char *path, const char **why) {
  Codec codec = {.arena = arena, .in = bytes + sizeof magic, .left = length - sizeof magic};
  uint32_t version = 0, zero = 0;
  uint64_t size = 0, hash = 0;
  code_u32(&codec, &version);
  code_u32(&codec, &zero);
  code_u64(&codec, &size);
  code_u64(&codec, &hash);
  if (version != PLAN_VERSION) {
    *why = arena_format(arena, "%s is a plan of format %u; this program reads %d: compile it again", path,
                        (unsigned)version, PLAN_VERSION);
    return NULL;
  }
  if (zero != 0 || size != codec.left) {
    *why = arena_format(arena, "%s is cut short or damaged: %zu bytes of plan, %llu expected", path, codec.left,
                        (unsigned long long)size);
    return NULL;
  }
  if (XXH3_64bits(codec.in, codec.left) != hash) {
    *why = arena_format(arena, "%s is damaged: its hash does not fit its bytes", path);
    return NULL;
  }
  Plan *plan = ARENA_NEW(arena, Plan);
  code_plan(&codec, plan);
  if (codec.bad || codec.left != 0) {
    *why = arena_format(arena, "%s is damaged: its bytes do not form a plan", path);
    return NULL;
  }
  const char *broken = plan_verify(arena, plan);
  if (broken) {
    *why = arena_format(arena, "%s is damaged: %s", path, broken);
    return NULL;
  }
  return plan;
}

// The plan in bytes, with running out of memory as an error like any other.
static Plan *bytes_read(Arena *arena, const char *bytes, size_t length, const char *path, const char **why) {
  jmp_buf escape;
  arena_set_escape(arena, &escape);
  Plan *plan = NULL;
  if (setjmp(escape) != 0) {
    arena_set_escape(arena, NULL);
    *why = "no memory to read the plan";
    return NULL;
  }
  if (length < HEADER_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
    *why = arena_format(arena, "%s is no plan: a .mdlx file begins otherwise", path);
  } else {
    plan = payload_read(arena, (const uint8_t *)bytes, length, path, why);
  }
  arena_set_escape(arena, NULL);
  return plan;
}

Plan *artefact_read(Arena *arena, const char *path, const char **why) {
  size_t length = 0;
  FileError error;
  char *bytes = file_read(path, &length, &error);
  if (!bytes) {
    *why = arena_format(arena, "%s", error.text);
    return NULL;
  }
  Plan *plan = bytes_read(arena, bytes, length, path, why);
  free(bytes);
  return plan;
}

bool artefact_is(const char *path) {
  char bytes[sizeof magic];
  FILE *file = fopen(path, "rbe");
  if (!file) {
    return false;
  }
  bool is = fread(bytes, 1, sizeof bytes, file) == sizeof bytes && memcmp(bytes, magic, sizeof magic) == 0;
  fclose(file);
  return is;
}
