// run.h: the directory of a run.
//
//   resolved.mdl plan.mdlx metrics.jsonl events.out.tfevents.* loss.svg log.txt tuning.txt checkpoints/step-NNNNNNNN/
//
// A Run holds a lock on its directory, so that two processes never train in one.
#ifndef MDL_RUNTIME_RUN_H
#define MDL_RUNTIME_RUN_H

#include <sys/types.h>

#include "runtime/io.h"

typedef struct {
  char path[IO_PATH_MAX];
  char checkpoints[IO_PATH_MAX];
  char checkpoint[IO_PATH_MAX];  // the newest when the run was opened; empty: none
  uint64_t identity;             // of that directory: another one may take its place
  char before[IO_PATH_MAX];      // where run_set_aside put what there was; empty: it did not
  int lock;                      // a file descriptor, or -1
  bool found;                    // run_create found its directory there, and empty
  pid_t owner;                   // the process that holds it
  bool unlocked;                 // the file system has no locks: another program may train here
} Run;

// A fresh directory: `out`, which must not exist or be empty, or with NULL the first free runs/<model>-<n>.
bool run_create(Run *run, const char *out, const char *model, Error *error);

// Removes what run_create has made, where nothing was put into it: the same command, mended, finds --out free.
void run_abandon(const Run *run);

// An existing one: `out`, or with NULL the runs/<model>-<n> of the highest n. Removes what interrupted saves left.
// Links in the place of what training writes or removes are errors.
bool run_resume(Run *run, const char *out, const char *model, Error *error);

// Of a run without a checkpoint: what tells of ones that were saved, as the beginning of a question; nothing: none was.
bool run_unseen(const Run *run, Buffer *says, Error *error);
// None was ever saved. Else they are unseen, on a volume that is not mounted perhaps,
// and to begin anew would cost what was trained: an error.
bool run_never_saved(const Run *run, Error *error);
// Moves checkpoints, metrics, events and picture of a run into before-N in it, with copies of its plan and text, so
// that it can begin with step 1 and before-N is a run.
bool run_set_aside(Run *run, Error *error);
bool run_no_links(const Run *run, Error *error);

// Before something is written by the name of the directory: it may have been moved, or another one may stand in its
// place. The run goes on where its directory is now; *moved: that is another place than before. Where no name leads to
// it any longer, as under a volume that was mounted over it, its path is one that begins with RUN_NAMELESS. False: it
// was removed.
#define RUN_NAMELESS "/proc/self/fd/"
bool run_follow(Run *run, bool *moved, Error *error);

// An existing one to read from, without a lock.
// What a directory that is no run may be, and what to do, to be said behind "is no run"; "" where nobody knows.
enum { RUN_HINT_MAX = 1200 };
const char *run_hint(const char *path, char hint[RUN_HINT_MAX]);

bool run_open(Run *run, const char *path, Error *error);
// Its checkpoint could not be read: is it gone, since a process that trains there removes old ones, or does another one
// stand in its place, and is there one to read? Then that is run->checkpoint.
bool run_newer(Run *run);

// Its paths no longer depend on the working directory, which a program may change.
bool run_settle(Run *run, Error *error);

bool run_file(const Run *run, const char *name, char path[IO_PATH_MAX], Error *error);
// What the devices of the run that run_resume would open chose by measuring: of its checkpoint, else of the run. To be
// freed. NULL, and true: there is none. Takes no lock: processes that are started later would inherit it.
bool run_read_tuning(const char *out, const char *model, char **text, Error *error);
bool run_write_tuning(const Run *run, const char *text, Error *error);
struct SourceOptions;  // convert/source.h
// With which weights a run begins, as two comments of resolved.mdl, the first with a hash of them (weights_print); and
// the comments of one that was written before, the first of which a program before did not write. NULL: none, or no
// memory.
#define RUN_WEIGHTS_HASH "// Hash of the weights of its beginning: "
#define RUN_BEGUN_WITH "// Weights of its beginning:"
const char *run_weights(Arena *arena, const struct SourceOptions *from, bool save_trained, uint64_t print);
const char *run_weights_before(Arena *arena, const char *resolved);

typedef struct {
  const char *data;     // the file that was opened; NULL: those of a mix
  const char *given;    // what --data named, for a comment; NULL: what it named when the plan was written before
  const char *weights;  // a comment, or NULL
} RunFiles;
// What resolved.mdl and plan.mdlx are to be: a plan that finds its data from anywhere, as of where this is called.
typedef struct {
  const PlanSet *placed;
  const char *text;
} RunPlan;
bool run_plan(Arena *arena, const Run *run, const PlanSet *set, const RunFiles *files, RunPlan *plan, Error *error);
bool run_has_plan(const Run *run);  // there are both
// Can they be replaced later? Each is, by itself; an error says why one cannot.
bool run_replaces_plan(const Run *run, Error *error);
bool run_write_plan(const Run *run, const RunPlan *plan, Error *error);

// While the first checkpoint of another text is saved, that text and its plan stand beside those before, under names
// that begin with this; the checkpoint's manifest says which text it is of. A killed run leaves them there.
#define RUN_NEXT "next-"
#define RUN_NEXT_PLAN RUN_NEXT "plan.mdlx"
#define RUN_NEXT_TEXT RUN_NEXT "resolved.mdl"
uint64_t run_text_hash(const char *text);  // never 0
bool run_write_next(const Run *run, const RunPlan *plan, Error *error);
bool run_take_next(const Run *run, Error *error);  // they are the run's own from now on
void run_clear_next(const Run *run);
// Takes them where they are of the newest checkpoint, else removes them.
bool run_settle_next(const Run *run, Error *error);
// The path of "plan.mdlx" or "resolved.mdl" in the directory of a run, as of its newest checkpoint; changes nothing.
bool run_own(const char *run, const char *name, char path[IO_PATH_MAX], Error *error);
const char *run_own_plan(const char *plan, char path[IO_PATH_MAX]);  // the same of RUN/plan.mdlx; else `plan`

void run_close(Run *run);

#endif
