// elaborate.h: from syntax to graph: names, axes, types, sizes; functions inlined, repeats unrolled.
//
// Internal to lang/ apart from the entry points at the end. Errors are diagnostics; an expression that had one
// evaluates to OBJECT_POISON, on which everything is silent.
#ifndef MDL_LANG_ELABORATE_H
#define MDL_LANG_ELABORATE_H

#include "compiler/ir/graph.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/update_unit.h"
#include "lang/settings.h"
#include "lang/unit.h"

typedef enum {
  OBJECT_POISON,
  OBJECT_NOTHING,   // a call that returned nothing
  OBJECT_VALUE,     // a tensor: value
  OBJECT_NUMBER,    // known at compile time: number, integer
  OBJECT_BOOL,      // number is 0 or 1
  OBJECT_STRING,    // name
  OBJECT_AXIS,      // axes.axis[0]
  OBJECT_AXES,      // a list of axes, bound to a variadic parameter
  OBJECT_TUPLE,     // items
  OBJECT_WORD,      // a bare name used as an argument: name
  OBJECT_FUNCTION,  // only as an argument, and as the parameter that it becomes: function
} ObjectKind;

typedef struct Object Object;

typedef struct {  // with arguments that are given already: names[i] = given[i], written as asts[i]
  const Declaration *declaration;
  int count;
  Name *names;
  Object *given;
  const Ast **asts;
  bool values;  // tensors are among them
} Function;

struct Object {
  ObjectKind kind;
  ValueId value;
  double number;
  bool integer;
  bool state;  // a name that stands for persistent state of the model
  Name name;
  Shape axes;
  int count;
  Object *items;
  const Function *function;
  Span span;  // where it was defined
};

typedef enum {
  FRAME_MODEL,
  FRAME_FUNCTION,
  FRAME_COMPOSITE,
  FRAME_UPDATE,
  FRAME_INITIALISER,
  FRAME_SETTINGS
} FrameKind;

typedef struct Frame Frame;
struct Frame {
  FrameKind kind;
  Frame *caller;
  const Ast *function;  // NULL for the model
  Span call;            // in the text of the caller
  Name prefix;          // path of what is made here
  Name parameters;      // path of parameters: without the rounds of repeats around a shared call
  Name shared;          // the same for shared calls made here: without the rounds of this frame's own repeats
  Name variable;        // what is being assigned, names calls
  const Ast *assigned;  // the expression that is assigned to it
  Map variables;        // Name to index into objects
  ARRAY(Object) objects;
  ARRAY(Name) declared;  // for did-you-mean
  bool share;            // parameters made inside may be those of another call
  bool returned;
  Object result;
  const Persistent *made;  // FRAME_INITIALISER: the parameter
};

typedef struct {  // an initialiser to run in the program that initialises
  int persistent;
  const Ast *random, *constant;
  Frame *frame;
} Initialiser;

typedef struct Scan Scan;  // scan.c

typedef struct Elaborator {
  Arena *arena;
  Names *names;
  Diag *diag;
  Unit *unit;
  bool axis_wanted;  // while a name is evaluated that should be an axis
  const Spec *spec;
  Graph *graph;
  ProgramKind program;
  Frame *frame;
  int depth;
  ARRAY(const Ast *) resolving;  // axes and constants outside models, while they are looked up
  ARRAY(Name) settable;          // axes and constants of the model itself, as declared
  int64_t steps;                 // statements, rounds of repeats and expressions so far
  int ports;                     // inputs and outputs so far
  Map outputs;                   // by name
  bool training, exhausted;
  LossUnit loss_unit;
  bool one_microbatch;  // sizes are those of one microbatch, not of the whole batch
  ValueId step;         // the int scalar, or -1 before its first use
  ARRAY(Initialiser) initialisers;
  ARRAY(const Ast *) untaken;  // `if` with a branch that was not taken, each once
  Map untaken_known;           // of these
  Map draws;                   // how often a stream of random numbers was drawn from
  Map leaves;                  // name and op of an input or persistent to its value
  Map tensors;                 // name of a persistent tensor to its index
  Map rounds;    // the same for the names that shared ones would have, did not all rounds of a repeat share them
  Map unknown;   // names that were reported as unknown, with the function
  Map assigned;  // value of a state of the model to the node that assigns it
  // while an update is elaborated
  struct UpdateContext *update;
  Scan *scan;  // whose body is elaborated, or NULL
} Elaborator;

// Is told what names and calls of the text stand for, each time they are looked at. For editors.
typedef struct TextWatch {
  // call: the whole call, whose result `object` is, and by which the persistent tensors from `first` on were made; or
  // NULL: the name at `span`.
  void (*saw)(void *context, const Elaborator *e, Span span, const Ast *call, const Object *object, int first);
  void *context;
} TextWatch;

// objects.c
Object object_poison(void);
Object object_value(ValueId value, Span span);
Object object_number(double number, bool integer, Span span);
Object object_bool(bool truth, Span span);
Object object_axis(AxisId axis, Span span);
const char *object_describe(Elaborator *e, const Object *object);  // "a tensor [batch, seq]", for messages
Object *frame_find(Frame *frame, Name name);
Object *variable_find(Elaborator *e, Name name);  // what the current frame sees under this name, or NULL
void frame_set(Elaborator *e, Frame *frame, Name name, Object object);
void saw_name(Elaborator *e, Span span, const Object *object);  // tells whoever watches
const char *axes_text(Elaborator *e, const Shape *shape);       // "[batch, seq]"
const char *axis_name(const Elaborator *e, AxisId axis);
int64_t axis_size(const Elaborator *e, AxisId axis);        // in the graph: of one microbatch
int64_t axis_count(const Elaborator *e, AxisId axis);       // what text sees: of the whole batch
bool positions_fit(Elaborator *e, AxisId axis, Span span);  // into 32 bits; an error if not
bool object_size(const Object *object, const Elaborator *e, double *number, bool *integer);  // number or axis
void unknown_name(Elaborator *e, Name name, Span span, const char *kind);  // kind: "value", "axis" or "function"
const char *declared_as(const Ast *declaration);                           // "a function", for messages
Span span_of_user(const Elaborator *e, Span span);  // the call in the user's text that led to a span in the library
void blame_caller(Elaborator *e, int first, Name function, Span call);  // what was reported since then, in the library

// arithmetic.c
Object binary_object(Elaborator *e, Name op, Object a, Object b, Span span);
Object unary_object(Elaborator *e, Op op, Object a, Span span);
double number_of_pair(Op op, double a, double b, bool *unknown);  // the same; of truth values 0 and 1
double number_of_unary(Op op, double x, bool *unknown);  // *unknown is set of an op that is no function of a number
Object where_object(Elaborator *e, Object condition, Object a, Object b, Span span);
bool object_tensor(Elaborator *e, Object object, bool real, Span span, ValueId *value);  // makes it a tensor
bool object_is_real(const Elaborator *e, const Object *object);
bool axes_fit(Elaborator *e, int count, Span span);  // so many axes of a result; an error if not
bool check_axes(Elaborator *e, ValueId value, const Shape *axes, Span span, const char *what);

// evaluate.c
Object evaluate(Elaborator *e, const Ast *ast);
bool evaluate_number(Elaborator *e, const Ast *ast, double *number, bool *integer);
bool evaluate_size(Elaborator *e, const Ast *ast, int64_t *size);  // a whole number >= 1
// What to write in place of `1e3`, `4.0` and the like, which come to this number, where a whole one is wanted; false:
// it is something else.
bool whole_help(Elaborator *e, Diagnostic *error, const Ast *ast, double number);
bool evaluate_axis(Elaborator *e, const Ast *name, AxisId *axis);
bool evaluate_axes(Elaborator *e, const Ast *axes, Shape *shape, int *stack_count, int *in_count);
bool evaluate_type(Elaborator *e, const Ast *type, ElementType *out, AxisId *bound);

// call.c
typedef struct {                             // arguments after grouping
  int positional_count, named_count, given;  // given: how many of those with a name, the last, came with the function
  Object *positional, *named;
  const Ast **positional_ast, **named_ast;
  Name *names;
  Shape over, to;
  bool has_over, has_to, failed;
  Span span, over_span, to_span;
} Arguments;
Object call(Elaborator *e, const Ast *ast);
// function: that is called, or NULL where functions are no arguments. has: what it has already, with room for that in
// `out`; or NULL.
void collect_arguments(Elaborator *e, const Ast *ast, const Ast *function, const Function *has, Arguments *out);
Object evaluate_named(Elaborator *e, const Ast *function, const Ast *argument);
Object call_function(Elaborator *e, const Ast *function, Arguments *arguments, Name part, Span span);
bool bind_formals(Elaborator *e, const Ast *function, Arguments *arguments, Frame *frame, Span span);
// Its second half: what is given by name, and defaults, when `taken` positional arguments are bound.
bool bind_rest(Elaborator *e, const Ast *function, const Arguments *arguments, int taken, Frame *frame, Span span);

// call_lint.c: of what functions and updates of the library are given.
bool arguments_hold(Elaborator *e, const Ast *function, const Arguments *arguments);  // within limits; reports E030
// Warns of axes that have the names of the function's own, in another order (E019).
void warn_order(Elaborator *e, const Ast *function, const Arguments *arguments, Span span);

// functions.c
const Object *function_variable(Elaborator *e, Name name);  // the function that a parameter stands for, or NULL
const Ast *formal_named(const Ast *function, Name name);
// Of those before `over` and with defaults, but for what the function `has` (or NULL); or NULL.
const Ast *formal_placed(const Ast *function, const Function *has, int place);
bool wants_function(const Elaborator *e, const Ast *formal);  // its default is one
// An argument, or a default, which may be a function. `function`: it is to be one, for messages.
Object evaluate_argument(Elaborator *e, const Ast *value, bool function);
// Reports what is no function for a parameter whose default is one.
// Where a function is found in the place of its value: which arguments it would take to call it.
void help_function(Elaborator *e, Diagnostic *error, const Object *object);
bool function_fits(Elaborator *e, const Ast *callee, const Ast *formal, const Object *object, Span span);
bool add_given(Elaborator *e, const Object *object, Arguments *arguments);  // what comes with this function
bool came_with_function(const Arguments *arguments, Name name);
// What a call of a parameter was wrong about, since then: says what it stands for; in the library, where it was given.
void blame_argument(Elaborator *e, int first, const Ast *call, const Object *object);
// Says so if a function that is asked what holds along axes makes of them what is the same everywhere.
void warn_same(Elaborator *e, const Object *object, const Arguments *arguments, const Object *result);

// builtins.c
typedef Object Builtin(Elaborator *e, const Ast *ast, Arguments *arguments);
Builtin *builtin_find(Name name);
bool no_named(Elaborator *e, const Ast *ast, const Arguments *arguments);  // but `name`; an error if there are others
void builtin_names(const char *const **names, int *count);
bool builtin_value(Name name);       // is it a value of the language, such as pi?
bool builtin_takes_text(Name name);  // called with NULL arguments: it reads the syntax itself

// top.c
Builtin builtin_top;
// How many elements of x are larger than each along `axis`, or as large and ahead of it; `other` is an axis of the same
// size, which x lacks.
ValueId top_ranks(Graph *graph, ValueId x, AxisId axis, AxisId other);

// scan.c
void run_scan(Elaborator *e, const Ast *ast);
void run_carry(Elaborator *e, const Ast *ast);

// keep_axes.c: what a repeat carries from round to round keeps its axes, and so does what is added to.
typedef struct {
  Name name;
  Object before;  // OBJECT_VALUE, or anything else
  Shape axes;     // of the value
} Carries;
typedef ARRAY(Carries) CarriesList;  // what the block of a repeat assigns
void keep_axes_collect(Elaborator *e, const Ast *block, CarriesList *list);
void keep_axes_begin(Elaborator *e, CarriesList *list);                        // of a round
void keep_axes_end(Elaborator *e, const Ast *block, const CarriesList *list);  // reports E026
// `x = x + ... @label`: reports E026 if the sum has axes that x has not.
void keep_axes_in_sum(Elaborator *e, const Ast *assign, const Object *value);

// sizes.c
bool already_declared(Elaborator *e, const Ast *ast);        // reports it; false for the same statement in a repeat
bool cut_in_microbatches(const Elaborator *e, AxisId axis);  // the batch, and what is made from it
// Reports E037: of such an axis, something takes positions or a number of them that one microbatch does not have.
Object needs_whole_batch(Elaborator *e, AxisId axis, Span span);
void run_axis(Elaborator *e, const Ast *ast);
void run_const(Elaborator *e, const Ast *ast);
void check_settings_used(Elaborator *e);  // reports what a recipe gives a value and the model does not declare (E010)

// parameters.c
Name path_join_name(Elaborator *e, Name prefix, Name part);  // "layers.3" and "q"
bool called_by(const Elaborator *e, FrameKind kind);  // does a frame of this kind stand around what is elaborated?
// Where neither parameters nor state of the model can be made, in words: "a composite", "an update", ...; else NULL.
const char *outside_model(const Elaborator *e);
void run_param(Elaborator *e, const Ast *ast);
void run_state(Elaborator *e, const Ast *ast);
void initialise(Elaborator *e, const Initialiser *initialiser);  // assigns the first value

// outputs.c
void run_output(Elaborator *e, const Ast *ast);

// elaborate.c
bool ports_left(Elaborator *e,
                const Ast *ast);  // counts an input or output; false, with an error, if there are too many
bool elaborate_step(Elaborator *e, Span span);  // counts one; false, with an error, when there were too many
void run_block(Elaborator *e, const Ast *block);
Frame *frame_push(Elaborator *e, FrameKind kind, const Ast *function, Name prefix);
void frame_pop(Elaborator *e);
void settings_names(Elaborator *e, Frame *frame);  // entries of the recipe as variables
ValueId step_value(Elaborator *e);
ValueId draw_value(Elaborator *e);  // which random numbers are drawn: in a training step those of its number
Object make_persistent(Elaborator *e, Persistent persistent, const Ast *random, const Ast *constant);
ValueId leaf(Elaborator *e, Op op, Name name, ElementType type, AxisId bound, Shape shape, Role role);

// Elaborates the model of `spec` into a graph whose effects are the program's outputs, and, for
// PROGRAM_INITIALISE, the assignments of initial values. NULL when something was reported.
Elaborator *elaborate_model(Arena *arena, Names *names, Diag *diag, Unit *unit, const Spec *spec, ProgramKind program);

// updates.c: joins the optimizer's updates to a differentiated graph. gradient[i] is the value of the gradient of
// persistent i, or -1. False when something was reported.
bool elaborate_updates(Elaborator *e, const UpdateUnits *units, const ValueId *gradient, ValueId loss);

// elementwise.c: what the updates of the recipe may work on.
UpdateRules elaborate_update_rules(Elaborator *e);

// Sets the optimizer group of every parameter by the recipe's selectors; -1: frozen.
void assign_optimizer_groups(Elaborator *e);

// Does the recipe leave it as it is?
bool optimizer_freezes(const Elaborator *e, const Persistent *parameter);

// total(expression), for builtins.c.
Object update_total(Elaborator *e, const Ast *ast);

// A statement of an update that keeps state: is what it says of axes what it has?
void check_update_state(Elaborator *e, const Ast *ast);

#endif
