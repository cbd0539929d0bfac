// listing.c: kernels, who uses them, and their texts.
#include "kernels/cuda/listing.h"

#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "kernels/cuda/compile.h"
#include "kernels/cuda/instruction.h"

enum { NAMES_SHOWN = 4 };

typedef struct {  // a line of the text, and the instructions from it
  Span span;
  ARRAY(const char *) names;
} Origin;

typedef struct {
  const CudaKernel *kernel;
  uint64_t hash;
  int uses;
  ARRAY(Origin) origins;
} Listed;

typedef struct {
  Arena *arena;
  const Plan *plan;
  Buffer *out;
  ARRAY(Listed *) kernels;
  Map by_text;
  int instructions, generated;
  ARRAY(const char *) refused;  // sentences
} Listing;

// Where the line begins in which a span does.
static uint32_t line_begin(const Plan *plan, Span span) {
  const Source *source = &plan->sources[span.file];
  uint32_t at = span.begin < source->length ? span.begin : source->length;
  while (at > 0 && source->text[at - 1] != '\n') {
    at--;
  }
  return at;
}

static bool has_text(const Plan *plan, Span span) {
  return span.file >= 0 && span.file < plan->source_count;
}

static bool same_line(const Plan *plan, Span a, Span b) {
  if (!has_text(plan, a) || !has_text(plan, b)) {
    return has_text(plan, a) == has_text(plan, b);
  }
  return a.file == b.file && line_begin(plan, a) == line_begin(plan, b);
}

static void use_add(Listing *listing, Listed *listed, const Instruction *instruction) {
  int at = 0;
  while (at < listed->origins.count && !same_line(listing->plan, listed->origins.at[at].span, instruction->span)) {
    at++;
  }
  if (at == listed->origins.count) {
    array_push(listing->arena, &listed->origins, (Origin){.span = instruction->span});
  }
  listed->uses++;
  array_push(listing->arena, &listed->origins.at[at].names, instruction->name ? instruction->name : "(no name)");
}

static void instruction_add(Listing *listing, CudaKernels *kernels, const Instruction *instruction) {
  const char *why = NULL;
  listing->instructions++;
  if (!cuda_instruction_generates(instruction->kind)) {
    return;
  }
  const CudaKernel *kernel = cuda_instruction(kernels, instruction, &why);
  if (!kernel) {
    array_push(
        listing->arena, &listing->refused,
        arena_format(listing->arena, "%s: there is no CUDA kernel for this %s: %s",
                     instruction->name ? instruction->name : "a value", instruction_kind_name(instruction->kind), why));
    return;
  }
  const uint64_t hash = cuda_text_hash(kernel->text);
  int64_t at = map_get_bytes_or(&listing->by_text, kernel->text, strlen(kernel->text), -1);
  if (at < 0) {
    Listed *made = ARENA_NEW(listing->arena, Listed);
    *made = (Listed){.kernel = kernel, .hash = hash};
    at = listing->kernels.count;
    map_put_bytes(&listing->by_text, kernel->text, strlen(kernel->text), at);
    array_push(listing->arena, &listing->kernels, made);
  }
  listing->generated++;
  use_add(listing, listing->kernels.at[at], instruction);
}

static void program_collect(Listing *listing, CudaKernels *kernels, ProgramKind program) {
  const Plan *plan = listing->plan;
  bool *seen = ARENA_ARRAY(listing->arena, bool, plan->segment_count + 1);
  for (int c = 0; c < plan->programs[program].call_count; c++) {
    const int s = plan->programs[program].calls[c].segment;
    for (int i = 0; !seen[s] && i < plan->segments[s].count; i++) {
      instruction_add(listing, kernels, &plan->segments[s].instructions[i]);
    }
    seen[s] = true;
  }
}

static void origin_print(const Listing *listing, const Origin *origin) {
  char place[512];
  plan_source(listing->plan, origin->span, place, sizeof place);
  buffer_format(listing->out, "//   %s  ", *place ? place : "of no line");
  for (int i = 0; i < origin->names.count && i < NAMES_SHOWN; i++) {
    buffer_format(listing->out, "%s%s", i ? ", " : "", origin->names.at[i]);
  }
  if (origin->names.count > NAMES_SHOWN) {
    buffer_format(listing->out, " and %d more", origin->names.count - NAMES_SHOWN);
  }
  buffer_text(listing->out, "\n");
  if (has_text(listing->plan, origin->span)) {
    const char *line = listing->plan->sources[origin->span.file].text + line_begin(listing->plan, origin->span);
    line += strspn(line, " \t");
    buffer_format(listing->out, "//     | %.*s\n", (int)strcspn(line, "\r\n"), line);
  }
}

static void kernel_show(const Listing *listing, int number) {
  const Listed *listed = listing->kernels.at[number];
  const CudaKernel *kernel = listed->kernel;
  Buffer *out = listing->out;
  buffer_format(out, "\n// kernel %d: %s; %d instruction%s\n", number + 1, kernel->form, listed->uses,
                listed->uses == 1 ? "" : "s");
  for (int o = 0; o < listed->origins.count; o++) {
    origin_print(listing, &listed->origins.at[o]);
  }
  for (int l = 0; l < kernel->launch_count; l++) {
    const CudaLaunch *launch = &kernel->launch[l];
    buffer_format(out, "// launch %s<<<(%u, %u, %u), (%u, %u, %u), %u>>>\n", launch->function, launch->grid[0],
                  launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                  launch->shared_bytes);
  }
  buffer_format(out, "// %.4g MB moved, %.4g MB of scratch, text %016llx\n", kernel->bytes / 1e6,
                (double)kernel->scratch_bytes / 1e6, (unsigned long long)listed->hash);
  buffer_text(out, kernel->text);
}

static void listing_print(const Listing *listing, ProgramKind program, const char *target, CudaTarget figures) {
  buffer_format(listing->out, "// %s for %s (%d multiprocessors, %d bytes of shared memory in a block)\n",
                program_kind_name(program), target, figures.multiprocessors, figures.shared_bytes);
  buffer_format(listing->out, "// %d kernel%s of %d of the %d instructions; the others are done by libraries\n",
                listing->kernels.count, listing->kernels.count == 1 ? "" : "s", listing->generated,
                listing->instructions);
  for (int i = 0; i < listing->refused.count; i++) {
    buffer_format(listing->out, "// %s\n", listing->refused.at[i]);
  }
  for (int i = 0; i < listing->kernels.count; i++) {
    kernel_show(listing, i);
  }
}

bool cuda_listing(Arena *arena, const Plan *plan, ProgramKind program, const char *target, Buffer *out,
                  const char **why) {
  CudaTarget figures;
  if (!cuda_target_find(target, &figures)) {
    *why = arena_format(arena, "'%s' is none of %s", target, CUDA_TARGET_NAMES);
    return false;
  }
  jmp_buf escape;
  if (setjmp(escape) != 0) {
    out->failed = true;
  } else {
    arena_set_escape(arena, &escape);
    Listing *listing = ARENA_NEW(arena, Listing);
    *listing = (Listing){.arena = arena, .plan = plan, .out = out, .by_text = map_create(arena)};
    program_collect(listing, cuda_kernels_create(plan, figures, arena), program);
    listing_print(listing, program, target, figures);
  }
  arena_set_escape(arena, NULL);
  return true;
}
