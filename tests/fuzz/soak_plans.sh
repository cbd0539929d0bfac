#!/bin/bash
# soak_plans.sh: plans.c for as long as one likes; what fails lies in a directory, and the figures in logs.
#
#   JOBS=16 tests/fuzz/soak_plans.sh SECONDS [DIR]      DIR: for what is found (default: build/plans-found)
#
# BUILD=DIR is where fuzz_plans was built (default: build), with MDL_SANITIZE; JOBS=N processes (default: 1), each with
# another seed from SEED=N on. The last line has the sums of all. What is found is run again by
# `fuzz_plans --replay FILE`. What is mended joins tests/unsound_plans_test.c.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=${2:-$BUILD/plans-found}
seed=${SEED:-$RANDOM}
mkdir -p "$out"
rm -f "$out"/log-*.txt
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=4:quarantine_size_mb=4
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0:allocator_release_to_os_interval_ms=-1
export UBSAN_OPTIONS=print_stacktrace=1
status=0 jobs=()
for ((i = 0; i < ${JOBS:-1}; i++)); do
  nice -n 19 timeout -s KILL $(($1 + 30)) "$BUILD/tests/fuzz_plans" --seconds "$1" --seed "$((seed + i))" --out "$out" \
    tests/layouts tests/programs tests/ir > "$out/log-$((seed + i)).txt" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || status=1
done
declare -A sum
for log in "$out"/log-*.txt; do  # a process that was stopped said how far it was a few seconds before
  last=$(grep ' tries, ' "$log" | tail -n 1)
  for what in plans tries accepted executed; do
    number=$(grep -o "[0-9]* $what" <<< "$last" | head -n 1 | cut -d ' ' -f 1) || true
    sum[$what]=$((${sum[$what]:-0} + ${number:-0}))
  done
  found=$(grep -c '^found ' "$log") || true
  sum[found]=$((${sum[found]:-0} + found))
done
kinds=$(grep -ho 'of [0-9]* of [0-9]* kinds' "$out"/log-*.txt | sort -k 2 -n | tail -n 1) || true
grep -h '^found ' "$out"/log-*.txt || true
echo "${JOBS:-1} processes, $1 seconds: ${sum[plans]} plans, ${sum[tries]} tries, ${sum[accepted]} accepted," \
  "${sum[executed]} executed (at most ${kinds:-?} in a process), ${sum[found]} found"
exit "$status"
