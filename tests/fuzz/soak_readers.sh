#!/bin/bash
# soak_readers.sh: every reader under libFuzzer until it has had RUNS inputs, or SECONDS are over; a line of figures each.
#
#   JOBS=48 tests/fuzz/soak_readers.sh SECONDS [READER...]      SECONDS for all together; all readers by default
#
# BUILD=DIR has tests/libfuzzer, built with clang, MDL_SANITIZE and MDL_FUZZ (default: build-fuzz), and `seeds`, which are
# made if they are not there. JOBS=N processes (default: 1) are shared out so that all readers reach RUNS=N (default:
# 10000000) at the same time; readers that cannot reach it share what the others leave. Inputs are counted in a file that
# all processes have in memory, so that the figures are right however a process ends. What was learned stays in
# BUILD/corpus/READER, so that the next soak goes on from it; what fails lies in BUILD/found, and is run again by
# `libfuzzer READER FILE`. What is mended joins tests/fuzz/found/READER. COUNTS=FILE: BUILD/found/counts of an earlier soak,
# of which this one is the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=$(realpath "${BUILD:-build-fuzz}")
fuzzer=$BUILD/tests/libfuzzer seconds=${1:?SECONDS are needed} jobs=${JOBS:-1} runs=${RUNS:-10000000}
shift
mkdir -p "$BUILD/found" "$BUILD/corpus"
rm -f "$BUILD"/found/*.log
[ -d "$BUILD/seeds" ] || env BUILD="$BUILD" tests/fuzz/seeds.sh "$BUILD/seeds"
export UBSAN_OPTIONS=print_stacktrace=1
ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=6:quarantine_size_mb=1:thread_local_quarantine_size_kb=64
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0:allocator_release_to_os_interval_ms=-1
export MDL_FUZZ_COUNTS=$BUILD/found/counts MDL_FUZZ_RUNS=$runs
read -ra all < <("$fuzzer" 2>&1 | sed 's/.*is one of //')
if [ -n "${COUNTS:-}" ]; then cp "$COUNTS" "$MDL_FUZZ_COUNTS"; else : > "$MDL_FUZZ_COUNTS"; fi
truncate -s $((16 * ${#all[@]})) "$MDL_FUZZ_COUNTS"
# Some machines have no leaks found: what looks for them may not stop a process there.
env -u MDL_FUZZ_COUNTS -u MDL_FUZZ_RUNS "$fuzzer" tuning -runs=1 > "$BUILD/found/leaks.log" 2>&1 || true
if grep -q "LeakSanitizer has encountered a fatal error" "$BUILD/found/leaks.log"; then
  ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
fi

milliseconds() {  # sets now
  now=${EPOCHREALTIME/[.,]/}
  now=$((now / 1000))
}
milliseconds
begun=$now ends=$((now + seconds * 1000))
declare -A begun_of=() reader_of=()
running=() busy=() tried=() accepted=() wanted=()
for i in "${!all[@]}"; do
  running[i]=0 busy[i]=0 tried[i]=0 accepted[i]=0 wanted[i]=0
  [ $# = 0 ] && wanted[i]=1
  for reader in "$@"; do
    [ "$reader" = "${all[i]}" ] && wanted[i]=1
  done
done

counts_read() {
  local i=0 one two
  while read -r one two; do
    tried[i]=$one accepted[i]=$two
    i=$((i + 1))
  done < <(od -An -v -t d8 -w16 "$MDL_FUZZ_COUNTS")
}
counts_read
before=("${tried[@]}")

# Sets chosen to the reader that gets the next process, or to nothing. A reader's need is the time of one core that its
# inputs still take; none gets more than a level at which all that is needed fits into the time that is left.
choose() {
  local i pid new need=() spent=("${busy[@]}") sum=0 level high low=0 least=-1 best=-1
  counts_read
  milliseconds
  for pid in "${!begun_of[@]}"; do
    i=${reader_of[$pid]}
    spent[i]=$((spent[i] + now - begun_of[$pid]))
  done
  local budget=$(((ends - now) * jobs))
  high=$budget chosen=
  for i in "${!all[@]}"; do
    need[i]=0
    if ((wanted[i] && tried[i] < runs)); then
      new=$((tried[i] - before[i]))
      need[i]=$((new ? (runs - tried[i]) * (spent[i] + 1) / new + 1 : budget))
      sum=$((sum + need[i]))
      if ((running[i] == 0 && (least < 0 || spent[i] < least))); then
        least=${spent[i]} chosen=$i
      fi
    fi
  done
  [ -n "$chosen" ] && return
  for ((level = high; sum > budget && high - low > 10; )); do
    level=$(((low + high) / 2)) sum=0
    for i in "${!all[@]}"; do sum=$((sum + (need[i] < level ? need[i] : level))); done
    if ((sum > budget)); then high=$level; else low=$level; fi
    sum=$((budget + 1))
  done
  for i in "${!all[@]}"; do
    local share=$(((need[i] < level ? need[i] : level) / (running[i] + 1)))
    if ((share > best && need[i] > 0)); then best=$share chosen=$i; fi
  done
}

number=0
start() {  # INDEX SECONDS
  local reader=${all[$1]} most=4096 entropic=1
  number=$((number + 1))
  case $reader in plan) most=40000 ;; graph | tokenizer) most=8192 ;; text) most=1000 ;; model) most=2000 ;; esac
  case $reader in text | model) entropic=0 ;; esac  # a third of the time goes into how frequent their many features are
  mkdir -p "$BUILD/corpus/$reader"
  nice -n 19 timeout -s KILL $(($2 + 15)) "$fuzzer" "$reader" -max_total_time="$2" -seed=$((${SEED:-$RANDOM} * 1000 + number)) \
    -max_len=$most -timeout=25 -rss_limit_mb=3000 -reload=0 -entropic=$entropic -entropic_scale_per_exec_time=1 \
    -artifact_prefix="$BUILD/found/$reader-" "$BUILD/corpus/$reader" "$BUILD/seeds/$reader" \
    > "$BUILD/found/$reader.$number.log" 2>&1 &
  milliseconds
  begun_of[$!]=$now reader_of[$!]=$1
  running[$1]=$((running[$1] + 1))
}

while milliseconds && ((ends - now >= 1000)); do
  while ((${#begun_of[@]} < jobs)); do
    choose
    [ -n "$chosen" ] || break
    left=$(((ends - now) / 1000)) piece=$((now - begun < 15000 ? seconds / 50 + 2 : seconds / 3 + 5))  # each begins with the whole corpus
    start "$chosen" $((left < piece ? left + 1 : piece))
  done
  [ ${#begun_of[@]} -gt 0 ] || break
  wait -n -p pid "${!begun_of[@]}" || true
  milliseconds
  i=${reader_of[$pid]}
  busy[i]=$((busy[i] + now - begun_of[$pid])) running[i]=$((running[i] - 1))
  unset "begun_of[$pid]" "reader_of[$pid]"
done
for pid in "${!begun_of[@]}"; do
  wait "$pid" || true
  milliseconds
  i=${reader_of[$pid]}
  busy[i]=$((busy[i] + now - begun_of[$pid]))
done

counts_read
printf '%-12s %10s %10s %10s %10s %8s %8s %6s\n' reader core-secs inputs accepted 'a second' features corpus found
inputs=0 failed=0
for i in "${!all[@]}"; do
  reader=${all[i]}
  ((wanted[i])) || continue
  features=$(cat "$BUILD/found/$reader".*.log 2> /dev/null | grep -ao 'ft: [0-9]*' | cut -d ' ' -f 2 | sort -n | tail -n 1) || true
  found=$(find "$BUILD/found" -name "$reader-crash*" -o -name "$reader-timeout*" -o -name "$reader-oom*" -o -name "$reader-leak*" | wc -l)
  printf '%-12s %10s %10s %10s %10s %8s %8s %6s\n' "$reader" $((busy[i] / 1000)) "${tried[i]}" "${accepted[i]}" \
    $(((tried[i] - before[i]) * 1000 / (busy[i] + 1))) "${features:-?}" "$(find "$BUILD/corpus/$reader" -type f 2> /dev/null | wc -l)" "$found"
  inputs=$((inputs + tried[i])) failed=$((failed + found))
done
milliseconds
echo "$inputs inputs in $(((now - begun) / 1000)) seconds of $jobs processes, $failed found"
[ "$failed" = 0 ]
