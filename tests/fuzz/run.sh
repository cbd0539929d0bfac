#!/bin/sh
# run.sh: a short burst of texts changed at random (fuzz.c): none may end the compiler by a signal, by E099, or after
# more than five seconds.
#
#   SECONDS_LONG=600 SEED=7 tests/run.sh fuzz      longer, with other texts
#
# Then the same for plans (plans.c), and for everything else that reads bytes from outside (burst.c). The texts under
# tests/fuzz/found are those that once failed, and so are the inputs of readers in its directories. The day of the year
# is the seed, so that each day sees others. .ci/run gives one, and FUZZ_COUNT=N, how many texts (and 40 times as many
# plans, and 10 times as many inputs of each reader), so that its result is one of the change alone and neither of the
# day nor of how fast the machine is. What fails lies, small, in WORK. For hours: soak.sh.
set -eu
BUILD=${BUILD:-$ROOT/build}
seconds=${SECONDS_LONG:-${TESTS_SHORT:+6}}
seconds=${seconds:-12}
long() {  # PARTS TIMES: for a part of the seconds, or so many times FUZZ_COUNT
  if [ -n "${FUZZ_COUNT:-}" ]; then echo "--count $((FUZZ_COUNT * $2))"; else echo "--seconds $((seconds / $1))"; fi
}
texts="tests/programs tests/fmt examples"  # each is compiled under all its layouts first
[ -n "${TESTS_SHORT:-}" ] || texts="tests/programs tests/layouts tests/ir tests/fmt models examples"
cd "$ROOT"
"$BUILD/tests/fuzz" --check --limit "${LIMIT:-10}" tests/fuzz/found tests/errors tests/fmt
# shellcheck disable=SC2046,SC2086
"$BUILD/tests/fuzz" $(long 1 1) --seed "${SEED:-$(date +%j)}" --limit "${LIMIT:-10}" --out "$WORK" $texts
# shellcheck disable=SC2046
ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0:allocator_may_return_null=1 "$BUILD/tests/fuzz_plans" \
  $(long 3 40) --seed "${SEED:-$(date +%j)}" --out "$WORK" tests/layouts tests/programs tests/ir
"$ROOT/tests/fuzz/seeds.sh" "$WORK/seeds"
cd "$WORK"
readers=
if "$BUILD/mdl" data train-tokenizer "$ROOT/LICENSE" -o none.json 2>&1 | grep "built without PCRE2"; then rm -r seeds/tokenizer; fi
for found in "$ROOT"/tests/fuzz/found/*/; do
  [ -d "$found" ] && "$BUILD/tests/fuzz_readers" --replay "$(basename "$found")" "$found"*
done
for seed in seeds/*; do readers="$readers ${seed#seeds/}"; done
# shellcheck disable=SC2046,SC2086
"$BUILD/tests/fuzz_readers" $(long 6 10) --seed "${SEED:-$(date +%j)}" seeds $readers
