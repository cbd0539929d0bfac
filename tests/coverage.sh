#!/bin/bash
# coverage.sh: how many branches the tests take of readers, the verifier of plans and checkpoints: a line for each file
# of tests/coverage.list, then the sums.
#
#   tests/coverage.sh        builds in build-coverage, runs the tests that concern these files, and prints the table
#   tests/coverage.sh WORD   runs only the tests whose name contains it, on top of what ran before
#
# BUILD=DIR builds elsewhere; CMAKE_FLAGS are given to cmake; JOBS=N builds so many files at a time (default: 1). It needs
# gcc. Of a test that failed nothing is lost, but the exit status is 1.
#
# A branch is one way out of one condition, in code that is not optimised. Not counted are ways behind what always returns
# false, as `good || error_set(...)` would have one (tests/coverage_false.h); there are no asserts in these files. What
# processes that end by _exit have taken, as kills in tests do, is counted (tests/coverage_exit.c).
set -euo pipefail
cd "$(dirname "$0")/.."
ROOT=$PWD
BUILD=$(realpath -m "${BUILD:-build-coverage}")
WORD=${1:-}
export LC_ALL=C ROOT BUILD

# What tests these files: programs, scripts, and the readers on seeds changed at random, always the same.
PROGRAMS='api_test artefact_test attention_test background_test check_test checkpoint_faults_test checkpoint_test
  checkpoint_words_test convert_test data_test experts_test file_faults_test formats_test fp8_cold_test graph_test
  manifest_test memory_check_test mixture_test offload_test older_runs_test owners_test parse_test parts_test phases_test
  plan_fields_test plan_set_test processes_test ranks_test reader_faults_test readers_test reshard_test samples_test
  saves_test source_words_test states_test token_file_test tokenizer_test tokenizer_words_test tuning_test
  unsound_instructions_test unsound_plans_test verify_test waits_test'
SCRIPTS='cli/adapters.sh cli/chat.sh cli/convert.sh cli/diff.sh cli/generate.sh cli/hostile.sh cli/interrupt.sh
  cli/kill.sh cli/lora.sh cli/lost.sh cli/mix.sh cli/names.sh cli/plan.sh cli/resume.sh cli/state.sh cli/tokenizer.sh
  cli/tokens.sh'
READER_INPUTS=2000

mkdir -p "$BUILD/coverage"
cmake -S . -B "$BUILD" -DMDL_TESTS=ON -DMDL_COVERAGE=ON ${CMAKE_FLAGS:-} > "$BUILD/coverage/build.log"
programs=
for name in $PROGRAMS; do
  [ ! -e "tests/$name.c" ] || programs+=" $name"
done
# shellcheck disable=SC2086
cmake --build "$BUILD" -j "${JOBS:-1}" --target mdl mdlc fuzz_readers $programs >> "$BUILD/coverage/build.log" 2>&1 || {
  tail -n 40 "$BUILD/coverage/build.log" >&2
  exit 1
}
[ -n "$WORD" ] || find "$BUILD" -name '*.gcda' -delete

status=0
run() {  # NAME COMMAND...
  local log=$BUILD/coverage/$1.log
  case $1 in *"$WORD"*) ;; *) return 0 ;; esac
  if ! timeout 1200 "${@:2}" > "$log" 2>&1 < /dev/null && ! [ $? = 77 ]; then
    echo "FAIL  $1: $log" >&2
    status=1
  fi
}
for name in $programs; do
  TESTS_SHORT=1 run "$name" "$BUILD/tests/$name"
done
for script in $SCRIPTS; do
  [ -e "tests/$script" ] || continue
  export WORK=$BUILD/coverage/work MDL=$BUILD/mdl MDLC=$BUILD/mdlc
  rm -rf "$WORK"
  mkdir -p "$WORK"
  run "$(basename "$script" .sh)" bash "tests/$script"
done
BUILD=$BUILD tests/fuzz/seeds.sh "$BUILD/coverage/seeds"
(cd "$BUILD/coverage" && run fuzz_readers "$BUILD/tests/fuzz_readers" --count "$READER_INPUTS" --seed 1 seeds)

# --- the table ---

branches() {  # FILE: branches, and those that were taken
  local object=$BUILD/CMakeFiles/libmdl.dir/$1
  gcov -b -n -o "$object.gcda" "$1" 2> /dev/null | awk -v file="$1" '
    /^File / { ours = index($0, "/" file "\x27") || index($0, "\x27" file "\x27") }
    ours && /^Taken at least once:/ { split($4, part, "[:%]"); taken = part[2]; sub(/.* of /, ""); print $0, taken }'
}
row() {
  awk -v name="$1" -v all="$2" -v taken="$3" 'BEGIN {
    printf "%-40s %8d %8d %7.1f%%\n", name, all, taken, all ? 100 * taken / all : 0 }'
}
printf '%-40s %8s %8s %8s\n' file branches taken ''
declare -A all taken
while read -r what file; do
  [[ $what == [a-z]* ]] || continue
  read -r count percent < <(branches "$file") || { count=0 percent=0; echo "$file: nothing was counted" >&2; status=1; }
  hit=$(awk "BEGIN { printf \"%d\", $count * $percent / 100 + 0.5 }")
  row "$file" "$count" "$hit"
  for sum in "$what" everything; do
    all[$sum]=$((${all[$sum]:-0} + count))
    taken[$sum]=$((${taken[$sum]:-0} + hit))
  done
done < tests/coverage.list
for sum in readers verifier checkpoint everything; do
  row "all of $sum" "${all[$sum]}" "${taken[$sum]}"
done
exit "$status"
