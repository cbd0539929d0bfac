// ranks_report.c: the first failure of the ranks in words: who, where in the text, and who waits.
#include <stdio.h>
#include <string.h>

#include "runtime/ranks_internal.h"

enum { WORDS_MAX = 320, NAMED_MAX = 4 };

typedef struct {
  char text[WORDS_MAX];
} Words;

// "'layers.0.x' (tiny.mdl:12)"
static void words_place(Words *words, const Plan *plan, const Instruction *instruction) {
  char place[WORDS_MAX / 2];
  int used = snprintf(words->text, sizeof words->text, "'%.150s'", instruction->name ? instruction->name : "?");
  plan_source(plan, instruction->span, place, sizeof place);
  if (*place) {
    snprintf(words->text + used, sizeof words->text - (size_t)used, " (%s)", place);
  }
}

static const char *kind_of(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE ? collective_kind_name(instruction->as.collective.kind)
                                                     : instruction_kind_name(instruction->kind);
}

// "0-3, 6"
static void words_list(Words *words, const int64_t *rank, int count) {
  size_t used = 0;
  words->text[0] = '\0';
  for (int i = 0; i < count;) {
    int last = i;
    while (last + 1 < count && rank[last + 1] == rank[last] + 1) {
      last++;
    }
    if (used + 40 > sizeof words->text) {
      snprintf(words->text + used, sizeof words->text - used, ", …");
      return;
    }
    const char *comma = i ? ", " : "";
    if (last > i + 1) {
      used += (size_t)snprintf(words->text + used, sizeof words->text - used, "%s%lld-%lld", comma, (long long)rank[i],
                               (long long)rank[last]);
    } else {
      last = i;
      used += (size_t)snprintf(words->text + used, sizeof words->text - used, "%s%lld", comma, (long long)rank[i]);
    }
    i = last + 1;
  }
}

// "rank 3" or "ranks 0-2, 4"
static Words words_ranks(const int64_t *rank, int count) {
  Words list, all;
  words_list(&list, rank, count);
  snprintf(all.text, sizeof all.text, "%s %.300s", count == 1 ? "rank" : "ranks", list.text);
  return all;
}

static const char *have(int count) {
  return count == 1 ? "has" : "have";
}

// "the all_reduce of 'x' (tiny.mdl:3), 64 bytes of f32 among ranks 0-3"
static Words words_operation(const Ranks *ranks, int64_t rank, const Instruction *instruction) {
  Words place, text;
  const Rank *who = &ranks->rank[rank];
  words_place(&place, who->plan, instruction);
  if (instruction->kind == INSTRUCTION_COLLECTIVE) {
    const Collective *collective = &instruction->as.collective;
    const Group *group = ranks->group_of[collective->mesh][rank];
    const Words members = words_ranks(group->rank, group->count);
    snprintf(text.text, sizeof text.text, "the %s of %.180s, %lld bytes of %s among %.80s", kind_of(instruction),
             place.text, (long long)(collective->count * element_type_bytes(collective->type)),
             element_type_name(collective->type), members.text);
  } else {
    const Transfer *transfer = &instruction->as.transfer;
    snprintf(text.text, sizeof text.text, "the %s of %.200s, %lld bytes of %s", kind_of(instruction), place.text,
             (long long)(transfer->count * element_type_bytes(transfer->type)), element_type_name(transfer->type));
  }
  return text;
}

// What a rank is at, or waits for.
static Words words_wait(const Ranks *ranks, int64_t rank) {
  const Rank *who = &ranks->rank[rank];
  if (who->wait.kind != WAIT_SENT) {
    return words_operation(ranks, rank, who->at);
  }
  Words place, text;
  words_place(&place, who->plan, who->at);
  snprintf(text.text, sizeof text.text, "the wait for what it sent of %.200s", place.text);
  return text;
}

// "; the last that rank 2 did was the all_gather of 'y' (tiny.mdl:2)", or that it did nothing yet.
static Words words_last(const Ranks *ranks, int64_t rank) {
  Words text, place;
  const Rank *who = &ranks->rank[rank];
  if (!who->at) {
    snprintf(text.text, sizeof text.text, "; rank %lld has not come to any yet", (long long)rank);
    return text;
  }
  words_place(&place, who->plan, who->at);
  snprintf(text.text, sizeof text.text,
           who->inside ? "; rank %lld is at the %s of %.200s" : "; rank %lld was last at the %s of %.200s",
           (long long)rank, kind_of(who->at), place.text);
  return text;
}

// Ranks that a wait is for and that do not wait themselves, or with `all` also those that do.
static int absent(const Ranks *ranks, const Wait *wait, bool all, int64_t *rank) {
  int count = 0;
  for (int64_t r = 0; r < ranks->count; r++) {
    if (wait_is_for(ranks, wait, r) && (all || ranks->rank[r].wait.kind == WAIT_NONE)) {
      rank[count++] = r;
    }
  }
  return count;
}

// Ranks that wait for the same.
static int waiting_with(const Ranks *ranks, const Wait *wait, int64_t *rank) {
  int count = 0;
  for (int64_t r = 0; r < ranks->count; r++) {
    const Wait *other = &ranks->rank[r].wait;
    if (other->kind == wait->kind && !wait_is_over(other) &&
        (wait->kind == WAIT_GROUP ? other->group == wait->group : other->box == wait->box)) {
      rank[count++] = r;
    }
  }
  return count;
}

// Follows who waits for whom from this rank to one whose wait is for ranks that do not wait. -1: they wait in a ring.
static int64_t last_waiting(const Ranks *ranks, int64_t rank) {
  bool seen[RANKS_MAX] = {false};
  int64_t missing[RANKS_MAX], stack[RANKS_MAX];
  int depth = 0;
  stack[depth++] = rank;
  seen[rank] = true;
  while (depth > 0) {
    const int64_t at = stack[--depth];
    if (absent(ranks, &ranks->rank[at].wait, false, missing) > 0) {
      return at;
    }
    const int count = absent(ranks, &ranks->rank[at].wait, true, missing);
    for (int i = count - 1; i >= 0; i--) {
      if (!seen[missing[i]]) {
        seen[missing[i]] = true;
        stack[depth++] = missing[i];
      }
    }
  }
  return -1;
}

// The rank that this one waits for first, or -1.
static int64_t next_in_ring(const Ranks *ranks, int64_t rank) {
  int64_t missing[RANKS_MAX];
  return absent(ranks, &ranks->rank[rank].wait, true, missing) > 0 ? missing[0] : -1;
}

// Ranks of which each waits for the next: those that this one comes to, the lowest of the ring first.
static void report_ring(Ranks *ranks, int64_t rank) {
  bool seen[RANKS_MAX] = {false};
  Words each[NAMED_MAX];
  int count = 0;
  for (; rank >= 0 && !seen[rank]; rank = next_in_ring(ranks, rank)) {
    seen[rank] = true;
  }
  int64_t lowest = rank;
  for (int64_t at = rank < 0 ? -1 : next_in_ring(ranks, rank); at >= 0 && at != rank; at = next_in_ring(ranks, at)) {
    lowest = at < lowest ? at : lowest;
  }
  for (int64_t at = lowest; at >= 0 && count < NAMED_MAX && (count == 0 || at != lowest); count++) {
    const int64_t next = next_in_ring(ranks, at);
    Words place;
    words_place(&place, ranks->rank[at].plan, ranks->rank[at].at);
    snprintf(each[count].text, sizeof place.text, "rank %lld at the %s of %.160s for rank %lld", (long long)at,
             kind_of(ranks->rank[at].at), place.text, (long long)next);
    at = next;
  }
  char text[ERROR_MAX] = "";
  for (int i = 0; i < count; i++) {
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%.220s", i ? ", " : "", each[i].text);
  }
  ranks_poison(ranks, "ranks wait for each other, after %g s: %s", ranks->options.deadline_seconds, text);
}

void report_deadline(Ranks *ranks, int64_t rank) {
  int64_t missing[RANKS_MAX] = {0}, waiting[RANKS_MAX];
  const int64_t at = last_waiting(ranks, rank);
  if (at < 0) {
    report_ring(ranks, rank);
    return;
  }
  const Wait *wait = &ranks->rank[at].wait;
  const int count = absent(ranks, wait, false, missing), others = waiting_with(ranks, wait, waiting);
  const Words who = words_ranks(missing, count), there = words_ranks(waiting, others);
  const Words what = words_wait(ranks, at), last = words_last(ranks, missing[0]);
  ranks_poison(ranks, "%s %s not arrived after %g s at %s; %s %s%s", who.text, have(count),
               ranks->options.deadline_seconds, what.text, there.text, others == 1 ? "waits" : "wait", last.text);
}

void report_divergence(Ranks *ranks, int64_t a, const Instruction *at_a, int64_t b, const Instruction *at_b) {
  const int64_t first = a < b ? a : b, second = a < b ? b : a;
  const Words x = words_operation(ranks, first, a < b ? at_a : at_b);
  const Words y = words_operation(ranks, second, a < b ? at_b : at_a);
  ranks_poison(ranks, "ranks do not agree: rank %lld is at %s, its number %lld; rank %lld is at %s, its number %lld",
               (long long)first, x.text, (long long)ranks->rank[first].operations, (long long)second, y.text,
               (long long)ranks->rank[second].operations);
}

void report_ended(Ranks *ranks, int64_t rank, int64_t waiting) {
  int64_t all[RANKS_MAX];
  const Words there = words_ranks(all, waiting_with(ranks, &ranks->rank[waiting].wait, all));
  const Words what = words_wait(ranks, waiting), last = words_last(ranks, rank);
  ranks_poison(ranks, "ranks do not agree: rank %lld has ended the program '%s' without %s, where %s wait%s%s",
               (long long)rank, program_kind_name(ranks->rank[rank].program), what.text, there.text,
               strncmp(there.text, "ranks", 5) == 0 ? "" : "s", last.text);
}

void report_lost(Ranks *ranks, int64_t rank, const char *how) {
  const Words last = words_last(ranks, rank);
  ranks_poison(ranks, "rank %lld is lost: %s%s", (long long)rank, how, last.text);
}

void report_error(Ranks *ranks, int64_t rank, const Error *why) {
  const Words last = words_last(ranks, rank);
  ranks_poison(ranks, "rank %lld is lost: %.600s%s", (long long)rank, why->text, last.text);
}

void report_silent(Ranks *ranks, const int64_t *silent, int count, double seconds, const char *asked) {
  const Words who = words_ranks(silent, count), last = words_last(ranks, silent[0]);
  ranks_poison(ranks, "%s %s not finished %s, and no rank has moved for %g s%s", who.text, have(count), asked, seconds,
               last.text);
}

void report_stuck(Ranks *ranks, int64_t rank) {
  const Words what = words_wait(ranks, rank);
  ranks_poison(ranks, "rank %lld has been at %s for %g s, and so has every rank that it waits for", (long long)rank,
               what.text, ranks->options.deadline_seconds);
}
