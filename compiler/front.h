// front.h: what compiling any program of a text needs; what compile*.c share.
#ifndef MDL_COMPILER_FRONT_H
#define MDL_COMPILER_FRONT_H

#include <setjmp.h>

#include "compiler/pass_manager.h"
#include "compiler/plan/options.h"
#include "lang/elaborate.h"

typedef struct {        // of one program what is the same on all stages of a pipeline
  Arena *arena;         // its own, or NULL
  Compilation *c;       // as the passes before `stage` have made it; NULL: they have not
  const char *missing;  // why the program is left out; or NULL
} WholeProgram;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  Unit unit;
  Spec spec;
  bool pipeline;                                  // of more than one stage
  bool shares;                                    // which are cut out of one graph for each program
  Tenancy tenancy;                                // see Compilation
  Map frozen;                                     // of all plans; see Compilation
  Map copied;                                     // of the plan being compiled; see Compilation
  GivenInputs given;                              // likewise, what its training steps read
  int64_t least_copied, least_given, least_held;  // what the first of them knew of these and of the tenancy, or -1
  bool again;                                     // another one has more: all of them are to be compiled with these
  HistoryList histories;                          // likewise
  int stage;                                      // being compiled
  LossUnit loss_unit;
  bool logits;  // the model has some, so text can be generated
  int64_t batch, sequence;
  OffloadFate *offloads;   // see Compilation
  int asked_eight, eight;  // products of training steps for which a policy asks for 8 bits; those that have them
  const char *no_eight;    // why one of the others has not
  CompressUse *compresses;
  Arena *scratch;  // of the program being compiled, or NULL
  WholeProgram whole[PROGRAM_COUNT];
  jmp_buf *escape;    // where to go when memory is out
  const Pack *packs;  // of its training step
  int pack_count;
  KeptForms forms;  // likewise
  ModelTensors tensors;
  StateMap states;      // of the plan being compiled
  KernelTable kernels;  // likewise
  TermTable terms;      // likewise
  uint32_t facts;       // likewise: what its programs so far have found
} Front;

bool front_has_stages(const Spec *spec);
bool front_has_histories(const Spec *spec);      // of the scales of products in 8 bits
void front_choose_policy(Front *f, int policy);  // of those of the run: what is compiled from here on has it
Unit front_unit(const Front *f, const CompileOptions *options);  // nothing is loaded yet
bool front_read(Front *f, Arena *arena, Diag *diag, const CompileOptions *options);
// Where settings are wrong, which were read since `mark`: says what is wrong with the model as well, ahead of them. If
// it calls a function that is not there, names that it would make are unknown, and no selector or rule is to blame.
void front_check_model(Front *f, const CompileOptions *options, DiagMark mark);
void front_start_again(Front *f);  // of what the passes have made of training steps for all stages, nothing is left
void front_start_plan(Front *f);   // of f->stage
Compilation front_start(Front *f, const CompileOptions *options, ProgramKind program);
// The graph of what this stage does in a program, ready to be lowered; NULL: something was reported.
Compilation *front_program(Front *f, const CompileOptions *options, ProgramKind kind);
Lower front_lower(Front *f, Compilation *c);
// What the programs that come after a training step must know of it.
void front_keep_step(Front *f, const Compilation *c);
void front_check_compress(Front *f);  // the same of rules `compress`
void front_note_products(Front *f, const Compilation *c);
void front_check_products(Front *f);  // behind the last stage: says so where a policy of 8 bits does nothing
void front_check_frozen(Front *f);    // and where one has a format for frozen parameters, and there are none
void front_check_offloads(Front *f);  // behind the last stage: says which rules `offload` do nothing
bool front_has_logits(const Compilation *c);

// What cannot be compiled for a batch of another size than in training is left out with a note: what was said since
// `mark` is then unsaid. Training was compiled before, and evaluation, which is no training either, before generation.
bool front_leave_out(Front *f, const CompileOptions *options, ProgramKind program, DiagMark mark, const char **missing);

// --- memory ---

void front_limit(Arena *arena, const CompileOptions *options, jmp_buf *escape);  // NULL: none any more
// The end of a compilation for which there was no memory; `scratch` may be NULL.
bool front_escaped(Arena *arena, Front *f, Diag *diag);
void front_drop(Front *f);  // the arenas of programs; `f` may be NULL

#endif
