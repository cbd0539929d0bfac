// train_resume.c: with what a run is gone on, and what is said of it.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/units.h"
#include "compiler/plan/artefact.h"
#include "runtime/convert/changed.h"
#include "runtime/convert/constants.h"
#include "runtime/convert/convert.h"
#include "runtime/convert/hf_files.h"
#include "runtime/convert/model_text.h"
#include "runtime/convert/peft.h"
#include "runtime/convert/source.h"
#include "runtime/data/doubts.h"
#include "runtime/data/fingerprint.h"
#include "runtime/patience.h"
#include "runtime/trained_of.h"
#include "runtime/trainer.h"

uint64_t trainer_program_hash(const char *resolved) {
  return resolved ? XXH3_64bits(resolved, strlen(resolved)) : 0;
}

// What the recipe of a resolved text chooses, and its length.
static const char *chosen_precision(const char *resolved, int *length) {
  static const char entry[] = "\n  precision ";
  const char *found = resolved ? strstr(resolved, entry) : NULL;
  *length = found ? (int)strcspn(found + strlen(entry), ";") : 0;
  return found ? found + strlen(entry) : "";
}

static void resume_warn_precision(Trainer *t) {
  int was, is;
  char word[IO_PATH_MAX];
  const char *before = chosen_precision(t->before, &was), *now = chosen_precision(t->resolved, &is);
  if (was > 0 && is > 0 && (was != is || strncmp(before, now, (size_t)was) != 0)) {
    log_line(
        &t->log,
        LOG_YELLOW
        "note      the precision was `%.*s`, from here on it is `%.*s`; `mdl train %s --resume` keeps what the run "
        "has" LOG_PLAIN,
        was, before, is, now, buffer_word(word, sizeof word, t->run.path));
  }
}

static void resume_warn_spike(Trainer *t, const CheckpointFacts *facts) {
  bool spike = false;
  for (int s = 0; s < t->set->count; s++) {
    spike |= plan_find_state(t->set->plans[s], PLAN_SPIKE_LOSSES) >= 0;
  }
  if (spike && !facts->spike_losses) {
    log_line(&t->log, LOG_YELLOW
             "note      the run had no `spike` and kept no losses to judge by: steps are skipped once there are "
             "enough of them" LOG_PLAIN);
  }
}

static void resume_warn_data(Trainer *t, const CheckpointFacts *facts) {
  const DataFacts data = data_facts(t->data);
  if (facts->data_hash != 0 && facts->data_hash != t->print.data) {
    log_line(&t->log,
             LOG_YELLOW
             "note      %s is other data than this run was trained on so far, %lld bytes for %lld; "
             "it goes on with it, since --data says so" LOG_PLAIN,
             data.path, (long long)data.bytes, (long long)facts->data_bytes);
  } else if (facts->data_bytes != data.bytes) {
    log_line(&t->log,
             LOG_YELLOW
             "note      %s had %lld bytes when this run was saved, now %lld: the order of data changes" LOG_PLAIN,
             data.path, (long long)facts->data_bytes, (long long)data.bytes);
  }
  if (facts->tokenizer_hash != 0 && facts->tokenizer_hash != t->print.tokenizer) {
    log_line(&t->log, LOG_YELLOW
             "note      the tokenizer is not the one this run began with: its tokens mean something "
             "else" LOG_PLAIN);
  }
}

// The run's own plan is not changed by what stands at the places that it names.
static bool same_text(const Trainer *t, const CheckpointFacts *facts) {
  return facts->program_hash == trainer_program_hash(t->resolved) ||
         facts->program_hash == trainer_program_hash(t->plan->resolved);
}

// The text that the checkpoint is of; NULL: it is not known.
static const char *text_of(const Trainer *t, const CheckpointFacts *facts) {
  return t->before && trained_text(t->before, facts->program_hash) ? t->before
         : same_text(t, facts)                                     ? t->resolved
                                                                   : NULL;
}

// Do evaluations read other windows than when the run was saved? Where manifests do not say, which are of programs
// before or of runs that had no evaluations, the texts do.
static bool validates_otherwise(const Trainer *t, const CheckpointFacts *facts) {
  const DataPrint *print = &t->print;
  const bool of_data = print->validation == 0;
  if (t->validated_with == 0 || facts->validated_with != 0) {
    return t->validated_with != 0 && facts->validated_with != t->validated_with;
  }
  if ((facts->validation_hash != 0 && facts->validation_hash != print->validation) ||
      (of_data && facts->data_hash != 0 && facts->data_hash != print->data) ||
      (facts->tokenizer_hash != 0 && facts->tokenizer_hash != print->tokenizer)) {
    return true;
  }
  if (same_text(t, facts)) {
    return false;
  }
  const char *before = text_of(t, facts);
  Arena *arena = before && t->resolved ? arena_create() : NULL;
  const bool otherwise =
      !arena || text_validates_otherwise(arena, before, t->resolved, of_data) ||
      (evaluate_unit_of(t->set) != LOSS_NATS && model_text_hash(arena, before) != model_text_hash(arena, t->resolved));
  if (arena) {
    arena_destroy(arena);
  }
  return otherwise;
}

// May it be the loss that is another, and not what is read?
static bool loss_otherwise(const Trainer *t, const CheckpointFacts *facts) {
  const char *before = text_of(t, facts);
  Arena *arena = before && t->resolved ? arena_create() : NULL;
  const bool otherwise = arena && model_text_hash(arena, before) != model_text_hash(arena, t->resolved);
  if (arena) {
    arena_destroy(arena);
  }
  return otherwise || evaluate_unit_of(t->set) != LOSS_NATS;
}

static void resume_warn_validation(Trainer *t, const CheckpointFacts *facts) {
  const bool evaluated = facts->validated_with != 0 || !isnan(patience_of(&t->metrics, 0, 0).best);
  const bool known = facts->validated_with != 0 || text_of(t, facts);
  if (evaluated && validates_otherwise(t, facts)) {
    const char *which = !known                     ? "validated with when it was saved is not known"
                        : loss_otherwise(t, facts) ? "validates with, or its loss, is not what it was when it was saved"
                                                   : "validates with is not what it was when it was saved";
    log_line(&t->log,
             LOG_YELLOW
             "note      what this run %s: validation losses from here on are no continuation of those before, and "
             "--patience and --keep-best go by those of the same windows alone" LOG_PLAIN,
             which);
  }
}

// A line of `notes` each; the last may lack its end.
static void say_notes(Trainer *t, const Buffer *notes) {
  for (const char *at = notes->text; at && *at;) {
    const int length = (int)strcspn(at, "\n");
    log_line(&t->log, LOG_YELLOW "note      %.*s" LOG_PLAIN, length, at);
    at += length + (at[length] == '\n');
  }
}

// What the weights' own tokens were, for messages: the tokenizer of the plan of a checkpoint's run. NULL: nobody knows.
static const char *tokenizer_before(Arena *arena, const char *checkpoint) {
  char run[IO_PATH_MAX], plan[IO_PATH_MAX];
  const char *why;
  Error unread = {0};
  const bool there = io_path(run, &unread, "%s/../..", checkpoint) && run_own(run, "plan.mdlx", plan, &unread);
  const PlanSet *set = there && io_is_file(plan) ? artefact_read(arena, plan, &why) : NULL;
  const char *named = set ? set->plans[0]->run.tokenizer : NULL;
  return named && strcmp(named, TOKENIZER_NONE) != 0 ? named : NULL;
}

// Was the run that the weights are of trained with another tokenizer than `placed` (NULL: bytes)? *known: it says.
static bool run_doubt(const Trainer *t, const char *placed, bool *known, Buffer *lines, Error *error) {
  char found[IO_PATH_MAX];
  CheckpointFacts facts = {0};
  uint64_t none;
  bool same = false, without = false;
  *known = false;
  Error unfound = {0};
  if (hf_is(t->options->from->path) || !source_find(t->options->from->path, found, &unfound) || peft_is(found)) {
    return true;
  }
  if (!checkpoint_facts(found, &facts, error) || !fingerprint_tokenizer(NULL, &none, error) ||
      !fingerprint_has_tokenizer(facts.tokenizer_hash, placed, &same, error)) {
    return false;
  }
  *known = facts.tokenizer_hash != 0;
  without = facts.tokenizer_hash == none;
  Arena *arena = *known && !same ? arena_create() : NULL;
  if (!arena) {
    return !*known || same || error_set(error, 3, "no memory");
  }
  const char *before = tokenizer_before(arena, found);
  if (before || !without) {
    const char *name = placed ? placed : TOKENIZER_BYTES;
    const bool changed = before && strcmp(before, name) == 0;
    buffer_format(lines,
                  "the weights were trained with another tokenizer (%s) than the data has (%s): they know none of its "
                  "tokens\n",
                  changed  ? "this file, as it was then"
                  : before ? before
                           : "its file is not known",
                  name);
  }
  arena_destroy(arena);
  return true;
}

// Is a tokenizer that came with the weights, from a directory of Hugging Face or in a run that was made of one, none of
// those that stand there?
static bool kept_doubt(const Trainer *t, const char *placed, Buffer *lines, Error *error) {
  static const char *const names[] = {CONVERT_TOKENIZER_JSON, CONVERT_TOKENIZER_MODEL};
  const char *from = t->options->from->path;
  char path[IO_PATH_MAX], other[IO_PATH_MAX] = "";
  uint64_t is, came;
  if (!fingerprint_tokenizer(placed, &is, error)) {
    return false;
  }
  for (int i = 0; i < 2; i++) {
    if (!io_path(path, error, "%s/%s%s", from, hf_is(from) ? "" : CONVERT_KEPT "/", names[i])) {
      return false;
    }
    Error unread = {0};  // weights may come with one that cannot be used here
    if (io_is_file(path) && fingerprint_tokenizer(path, &came, &unread)) {
      if (came == is) {
        return true;
      }
      memcpy(other, path, sizeof other);
    }
  }
  if (*other) {
    buffer_format(lines,
                  "the weights came with the tokenizer %s, and the data has %s, which is another file: if its tokens "
                  "mean other text, the weights know none of them\n",
                  other, placed ? placed : "bytes");
  }
  return true;
}

static bool weights_doubt(const Trainer *t, Buffer *lines, Error *error) {
  const PlanRun *run = &t->plan->run;
  const char *named = run->tokenizer ? run->tokenizer : TOKENIZER_BYTES;
  const bool bytes = strcmp(named, TOKENIZER_BYTES) == 0;
  char placed[PATH_MAX];
  bool known = false;
  if (strcmp(named, TOKENIZER_NONE) == 0 || (!bytes && !data_place(named, run->data_base, placed))) {
    return true;
  }
  return run_doubt(t, bytes ? NULL : placed, &known, lines, error) &&
         (known || kept_doubt(t, bytes ? NULL : placed, lines, error));
}

static int64_t shared_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y != 0) {
    const int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x <= INT64_MAX / b ? a / x * b : INT64_MAX;
}

// --patience counts evaluations before, of the same windows, as well; the first of all is the best.
static void patience_doubt(const Trainer *t, Buffer *lines) {
  const int64_t every = t->eval_every, step = t->line.step, most = t->options->patience;
  const Patience before = patience_of(&t->metrics, t->validated_from, t->validated_with);
  const int64_t count = t->metrics.count;
  const bool there =
      count > 0 && (int64_t)t->metrics.points[count - 1].step == step && !isnan(t->metrics.points[count - 1].val_loss);
  const bool made_up = step > 0 && trainer_evaluates(t, step) && !there;
  const int64_t ahead = t->steps <= step ? 0
                        : every > 0      ? t->steps / every - step / every + (t->steps % every != 0)
                                         : 1;
  const int64_t evaluations = ahead + made_up;
  const bool first = isnan(before.best);
  if (most <= 0 || evaluations == 0 || before.since + evaluations >= most + first) {
    return;
  }
  if (step == 0) {
    buffer_format(lines, "--patience %lld ends no run of %lld steps, which has %lld evaluation%s;", (long long)most,
                  (long long)t->steps, (long long)evaluations, evaluations == 1 ? "" : "s");
  } else {
    buffer_format(lines, "--patience %lld does not end this run, which has %lld evaluation%s left;", (long long)most,
                  (long long)evaluations, evaluations == 1 ? "" : "s");
  }
  buffer_text(lines, " --eval-every N has more\n");
}

// Options that do nothing in the steps that there are, or something else than it seems.
static void options_doubt(const Trainer *t, Buffer *lines) {
  const TrainOptions *given = t->options;
  const int64_t every = t->eval_every, kept = given->keep_every, check = given->check;
  if (given->keep_best && every == 0 && isnan(patience_of(&t->metrics, t->validated_from, t->validated_with).best)) {
    buffer_text(lines,
                "the only evaluation is that of the last step, so the checkpoint that --keep-best keeps is the last "
                "one; --eval-every N has more\n");
  }
  patience_doubt(t, lines);
  if (kept > 0 && t->save_every == 0 && t->steps > kept) {
    buffer_format(lines, "--keep-every %lld keeps what is saved, and that is the last step alone; give --save-every\n",
                  (long long)kept);
  } else if (kept > 0 && t->save_every > 0 && kept % t->save_every != 0 && t->steps > kept) {
    buffer_format(
        lines,
        "--keep-every %lld keeps what is saved: with a save every %lld steps, the multiples of %lld; --save-every "
        "with a divisor of %lld keeps all of its multiples\n",
        (long long)kept, (long long)t->save_every, (long long)shared_multiple(kept, t->save_every), (long long)kept);
  }
  if (check > 0 && t->line.step < t->steps && t->steps / check == t->line.step / check) {
    buffer_format(lines, "--check %lld runs none of the steps up to %lld twice\n", (long long)check,
                  (long long)t->steps);
  }
}

// What the recipe has for steps behind its last one.
static void recipe_doubt(const Trainer *t, Buffer *lines) {
  const PlanRun *run = &t->plan->run;
  const int64_t steps = t->steps > run->steps ? t->steps : run->steps, last = plan_batch_after(run, 0, steps);
  const PlanRange *skip = run->skip_count > 0 ? &run->skip[run->skip_count - 1] : NULL;
  if (skip && skip->first > last) {
    buffer_format(lines, "`skip` names batches from %lld on, and the last step, %lld, is of batch %lld\n",
                  (long long)skip->first, (long long)steps, (long long)last);
  }
  for (int i = 0; i < t->plan->phase_count; i++) {
    const PlanPhase *phase = &t->plan->phases[i];
    if (phase->first > steps) {
      buffer_format(lines, "the precision %s is that of steps from %lld on, and the last one is %lld\n",
                    phase->precision, (long long)phase->first, (long long)steps);
    }
  }
}

// Text that is held out now, and that this run, or the one that its weights are of, was trained on before.
static bool held_doubt(const Trainer *t, Buffer *lines, Error *error) {
  bool are[DATA_SETS_MOST] = {false};
  const double part = trained_part(&t->print, t->plan->run.validation_fraction);
  if (!trained_held(&t->trained, t->data, &t->print, part, are, error)) {
    return false;
  }
  for (int i = 0; i < t->validation.count; i++) {
    const char *name = t->validation.name[i];
    if (are[i] && t->print.validation == 0) {
      buffer_format(lines,
                    "the last %g%% of the data are held out, and were trained on before in part: validation losses "
                    "are not of new text alone\n",
                    t->plan->run.validation_fraction * 100);
    } else if (are[i]) {
      buffer_format(lines, "the validation source %s was trained on before: its loss is none of new text\n",
                    *name ? name : data_facts(t->validation.data[i]).path);
    }
  }
  return true;
}

bool trainer_doubts(Trainer *t, Error *error) {
  Buffer lines = {0};
  options_doubt(t, &lines);
  recipe_doubt(t, &lines);
  const bool done = data_doubts(t->data, &lines, error) && held_doubt(t, &lines, error) &&
                    (!t->options->from || weights_doubt(t, &lines, error));
  say_notes(t, &lines);
  buffer_free(&lines);
  return done;
}

// Batches are counted by number. Behind as many of another size begin other samples than those that come next.
static void say_samples(Trainer *t, int64_t batches, const ModelNumbers *before, const ModelNumbers *now) {
  const ModelNumber *was = model_number(before, "batch"), *is = model_number(now, "batch");
  const ModelNumber *length = model_number(before, "seq"), *other = model_number(now, "seq");
  if (batches > 0 && length && other && length->value != other->value) {
    log_line(&t->log, LOG_YELLOW
             "note      with another `seq` windows are cut anew: those that are trained on from here on are in "
             "an order of their own, and may have been trained on before" LOG_PLAIN);
  } else if (batches > 0 && was && is && was->value != is->value) {
    const double seen = (double)batches * was->value, next = (double)batches * is->value;
    log_line(&t->log,
             LOG_YELLOW
             "note      data goes on by the number of the batch: behind %lld batches of %.0f samples come those from "
             "sample %.0f on, so %.0f samples are %s" LOG_PLAIN,
             (long long)batches, was->value, next + 1, fabs(next - seen),
             next < seen ? "trained on again" : "passed over in this pass");
  }
}

enum { CHANGED_NAMED = 64 };

static void say_changed(Trainer *t, int64_t batches) {
  Arena *arena = arena_create();
  Unfit changed = {.arena = arena, .most = CHANGED_NAMED};
  if (arena && t->before && t->resolved) {
    constants_changed(arena, t->before, t->resolved, &changed);
    text_changed(arena, t->before, t->resolved, &changed);
  }
  log_line(&t->log,
           LOG_YELLOW
           "note      the text is not the one this run began with%s%s%s; it goes on with the new one" LOG_PLAIN,
           changed.count > 0 ? ": " : "", changed.count > 0 ? changed.text : "",
           changed.count > CHANGED_NAMED ? "; and more" : "");
  ModelNumbers was, is;
  Error ignored = {0};
  if (changed.count > 0 && numbers_of_text(arena, t->before, &was, &ignored) &&
      numbers_of_text(arena, t->resolved, &is, &ignored)) {
    say_samples(t, batches, &was, &is);
  }
  if (arena) {
    arena_destroy(arena);
  }
}

static void resume_say_passed(Trainer *t, const CheckpointFacts *facts, const Buffer *notes) {
  say_notes(t, notes);
  if (notes->text && *notes->text) {
    log_line(&t->log,
             LOG_YELLOW "note      training goes on from step %lld, of %s: the steps after it are made again" LOG_PLAIN,
             (long long)facts->step, t->run.checkpoint);
  }
}

void resume_say(Trainer *t, const CheckpointFacts *facts, const Buffer *notes) {
  if (t->run.unlocked) {
    log_line(&t->log,
             LOG_YELLOW
             "note      the file system of %s has no locks: see to it that no other program trains in it" LOG_PLAIN,
             t->run.path);
  }
  resume_say_passed(t, facts, notes);
  char damaged[IO_PATH_MAX];
  Error ignored;
  if (t->metrics.bad_lines > 0 && metrics_damaged(t->metrics.path, t->metrics.damaged, damaged, &ignored)) {
    log_line(&t->log,
             LOG_YELLOW
             "note      %lld line%s of %s, from line %zu on, %s none of metrics: left out; the file as it "
             "was is %s" LOG_PLAIN,
             (long long)t->metrics.bad_lines, t->metrics.bad_lines == 1 ? "" : "s", t->metrics.path,
             t->metrics.bad_line, t->metrics.bad_lines == 1 ? "is" : "are", damaged);
  }
  if (facts->step == 0) {
    if (t->options->restart) {
      log_line(&t->log, "restarted with step 1, as --restart asks; what was there before is in %s",
               t->run.before[0] ? t->run.before : "no other place: there was nothing");
    } else if (t->options->resume && t->saved < 0) {
      log_line(&t->log, "          there is no checkpoint yet: training begins with step 1");
    }
    trainer_say_weights(t);
    return;
  }
  if (t->metrics.bytes < facts->metrics_bytes && t->metrics.bad_lines == 0) {
    log_line(
        &t->log,
        LOG_YELLOW
        "note      %s had %lld bytes when step %lld was saved, and has %lld up to there now: lines are missing, and "
        "--patience counts the evaluations that are there" LOG_PLAIN,
        t->metrics.path, (long long)facts->metrics_bytes, (long long)facts->step, (long long)t->metrics.bytes);
  }
  if (t->keeps_best && !t->options->keep_best) {
    log_line(
        &t->log,
        "          the checkpoint of the lowest validation loss stays beside the newest, as --keep-best asked before; "
        "with that option again, evaluations that find a lower one save it");
  }
  resume_warn_precision(t);
  resume_warn_spike(t, facts);
  if (facts->version < 2) {
    log_line(&t->log, LOG_YELLOW
             "note      the checkpoint has a manifest without a hash of its own, as programs before wrote "
             "it; what it says was not checked" LOG_PLAIN);
  }
  if (!same_text(t, facts)) {
    say_changed(t, facts->batch);
  }
  if (facts->seed != t->plan->run.seed) {
    log_line(&t->log,
             LOG_YELLOW "note      the seed is not the one this run began with: the order of data changes" LOG_PLAIN);
  }
  resume_warn_data(t, facts);
  resume_warn_validation(t, facts);
}

// The wrong data by mistake cannot be unlearned: only --data makes it wanted.
static bool resume_data_holds(const Trainer *t, const CheckpointFacts *facts, Error *error) {
  const DataFacts data = data_facts(t->data);
  const char *named = data_parts(t->data) > 0 ? "FILE" : data.path;
  if (t->options->data) {
    return true;
  }
  if (facts->data_hash != 0 && facts->data_hash != t->print.data) {
    const char *mask = data_mask_path(t->data);
    if (mask && facts->data_bytes == data.bytes) {
      return error_set(error, 1,
                       "%s or its mask, %s, is not what this run was trained on when step %lld was saved; put the file "
                       "back, or give --data %s to go on with what there is",
                       data.path, mask, (long long)facts->step, named);
    }
    if (data.files > 0) {
      return error_set(error, 1,
                       "%s is not the data that this run was trained on: a file was added, removed, renamed or changed "
                       "(%d files of %lld bytes now; %lld bytes when step %lld was saved); put them back as they were, "
                       "or give --data FILE to go on with others",
                       data.path, data.files, (long long)data.bytes, (long long)facts->data_bytes,
                       (long long)facts->step);
    }
    return error_set(error, 1,
                     "%s is not the data that this run was trained on: its bytes differ (%lld now, %lld when step %lld "
                     "was saved); put that file back, or give --data %s to go on with this one",
                     data.path, (long long)data.bytes, (long long)facts->data_bytes, (long long)facts->step, named);
  }
  if (facts->tokenizer_hash != 0 && facts->tokenizer_hash != t->print.tokenizer) {
    return error_set(error, 1,
                     "the tokenizer of %s is not the one that this run was trained with: the same tokens mean other "
                     "text; put that file back, or give --data %s to go on with this one",
                     data.path, named);
  }
  return true;
}

// Does the text name the data with other options, such as a template, than the one that the checkpoint is of?
static bool data_written_otherwise(const Trainer *t, const CheckpointFacts *facts) {
  const char *before = same_text(t, facts) ? NULL : text_of(t, facts);
  Arena *arena = before && t->resolved ? arena_create() : NULL;
  const bool otherwise = arena && text_names_data_otherwise(arena, before, t->resolved);
  if (arena) {
    arena_destroy(arena);
  }
  return otherwise;
}

// What a run that goes on was trained on before, and since when its evaluations are what they are.
static void remember(Trainer *t, const CheckpointFacts *facts) {
  trained_of(facts, text_of(t, facts), &t->trained);
  if (data_written_otherwise(t, facts)) {
    trained_otherwise(&t->trained, facts->data_hash);
  }
  t->began = facts->step;
  t->began_with = (DataPrint){.data = facts->data_hash, .tokenizer = facts->tokenizer_hash};
  t->began_bytes = facts->data_bytes;
  t->began_text = facts->text_hash;
  t->began_program = facts->program_hash;
  t->began_seed = facts->seed;
  t->knows_itself = facts->trained.count > 0 || facts->data_hash == 0;
  t->validated_from = validates_otherwise(t, facts) ? facts->step : facts->validated_from;
  t->validated_with = t->validated_with ? t->validated_with : facts->validated_with;
}

// Of programs before, what the parameters that checkpoints leave out were trained on.
static bool remember_frozen(Trainer *t, const CheckpointFacts *facts) {
  Error unread = {0};
  if (t->frozen && facts->trained.count == 0) {
    trained_of_weights(t->frozen->from, &t->trained, &unread);
  }
  return true;
}

bool trainer_state(Trainer *t, CheckpointFacts *facts, Buffer *notes, Error *error) {
  bool found = false;
  *facts = (CheckpointFacts){.val_loss = NAN};
  t->session.trunk = t->options->trunk;
  t->keeps_best = t->options->keep_best;
  if (t->options->resume && !t->options->restart) {
    if (!checkpoint_resume(&t->session, t->run.checkpoints, t->run.checkpoint, &found, facts, notes, error)) {
      return false;
    }
    if (!found && !run_never_saved(&t->run, error)) {
      return false;
    }
  }
  if (!found) {
    *facts = (CheckpointFacts){.val_loss = NAN};
    return session_run(&t->session, PROGRAM_INITIALISE, 0, error) && trainer_weights(t, error);
  }
  t->saved = facts->step;
  t->keeps_best |= facts->keeps_best;
  remember(t, facts);
  return checkpoint_newest_good(t->run.checkpoints, &t->good, error) && resume_data_holds(t, facts, error) &&
         checkpoint_frozen(t->arena, t->run.checkpoint, &t->frozen, error) &&
         frozen_moved(t->frozen, t->options->trunk, error) && frozen_named(t->frozen, error) &&
         remember_frozen(t, facts) &&
         (!t->options->keep_best ||
          checkpoint_best(t->run.checkpoints, t->validated_with, t->validated_from, &t->best, error));
}
