#!/bin/bash
# bench_grouped.sh: mixtures of experts on one GPU beside cuBLASLt, expert by expert, and PyTorch's grouped products, as a
# table with ratios.
#
#   tests/bench_grouped.sh [--check] [--forms] [--repeat N] OUT [ROW...]
#
# OUT is a folder: raw.txt gets every line as it comes, log.txt what PyTorch said besides, table.md the table. The last
# column says which targets (below) are missed, and which could not be judged since a figure is not there.
#   --check      first runs the tests of these kernels, and where there is compute-sanitizer, runs them under it: lines CHECK
#   --forms      also times the products with other tiles, stages and clusters: lines FORM
#   --repeat N   also calls each product of olmoe_even and olmoe_skewed so often, and compares all bits
#   PREBUILT=1   builds nothing
#   BUILD        folder that we were built in, or one that holds bench_grouped; from the root: build
#   PYTHON       that has torch: python3; without it, PyTorch is left out
#   COMMIT       of our programs, where there is no git
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# What an H200 should reach: row, what, least TFLOP/s, least ratio to PyTorch, least share of a copy, most microseconds.
TARGETS='
olmoe_even up      600 1.15 -    -
olmoe_even down    600 1.15 -    -
olmoe_even up_dx   600 1.15 -    -
olmoe_even down_dx 600 1.15 -    -
olmoe_even up_dw   600 1.15 -    -
olmoe_even down_dw 600 1.15 -    -
olmoe_even order   -   -    -    15
olmoe_even gather  -   -    0.85 -
olmoe_even back    -   -    0.85 -
'
BUILD=${BUILD:-build} PYTHON=${PYTHON:-python3} CHECK='' FORMS='' REPEAT=''
while [ $# -gt 1 ]; do
  case $1 in
    --check) CHECK=1 ;;
    --forms) FORMS=1 ;;
    --repeat) REPEAT=$2; shift ;;
    *) break ;;
  esac
  shift
done
if [ $# -lt 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/bench_grouped.sh [--check] [--forms] [--repeat N] OUT [ROW...]" >&2
  exit 2
fi
OUT=$1
shift
TESTS='cuda_grouped_test cuda_take_test mixture_test'
# shellcheck disable=SC2086
if [ -z "${PREBUILT:-}" ] && ! cmake --build "$BUILD" --target bench_grouped ${CHECK:+$TESTS} >/dev/null; then
  echo "bench_grouped.sh: bench_grouped and its tests cannot be built in $BUILD" >&2
  exit 1
fi
[ -x "$BUILD/bench_grouped" ] || BUILD=$BUILD/tests
mkdir -p "$OUT" || exit 1
: >"$OUT/raw.txt"
: >"$OUT/log.txt"
say() { echo "$*" | tee -a "$OUT/raw.txt"; }
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true; }

[ $# -gt 0 ] || mapfile -t chosen < <("$BUILD/bench_grouped" --list)
[ $# -eq 0 ] || chosen=("$@")
if [ ${#chosen[@]} -eq 0 ]; then
  echo "bench_grouped.sh: $BUILD/bench_grouped says no rows" >&2
  exit 1
fi
COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo 'not known')}
HEAD="$(date -u +%Y-%m-%d), $(gpu name), driver $(gpu driver_version), power limit $(gpu power.limit), commit $COMMIT"
say "$HEAD"

# check NAME COMMAND...: a line with how it ended, and what it said in log.txt
check() {
  local name=$1 status=0 begin=$SECONDS
  shift
  timeout 900 "$@" >>"$OUT/log.txt" 2>&1 </dev/null || status=$?
  say "CHECK $name: status $status, $((SECONDS - begin)) s"
  [ $status = 0 ] || say "FAILED (log.txt): $name"
}
if [ -n "$CHECK" ]; then
  for test in $TESTS; do
    check "$test" "$BUILD/$test"
  done
  SANITIZER=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null | head -n 1)
  for tool in ${SANITIZER:+memcheck racecheck synccheck}; do
    check "cuda_grouped_test, $tool" env TESTS_SHORT=1 "$SANITIZER" --tool "$tool" --error-exitcode 99 --print-limit 20 \
      "$BUILD/cuda_grouped_test"
  done
fi
for row in "${chosen[@]}"; do  # each by itself: what a library does to one cannot harm the others
  "$BUILD/bench_grouped" "$row" 2>&1 | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || say "FAILED: $row"
done
if "$PYTHON" -c 'import torch' 2>>"$OUT/log.txt"; then
  "$BUILD/bench_grouped" --counts "${chosen[@]}" | "$PYTHON" tests/peers/grouped_mm.py 2>>"$OUT/log.txt" | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[1]}" = 0 ] || say "FAILED (log.txt): PyTorch"
else
  say "SKIPPED: $PYTHON has no torch"
fi
if [ -n "$FORMS" ]; then
  "$BUILD/bench_grouped" --forms "${chosen[@]}" 2>&1 | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || say "FAILED: --forms"
fi
if [ -n "$REPEAT" ]; then
  "$BUILD/bench_grouped" --repeat "$REPEAT" olmoe_even olmoe_skewed 2>&1 | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || say "FAILED: --repeat $REPEAT"
fi

table() {
  awk '
    function value(name,   i) {
      for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) { return substr($i, length(name) + 2) }
      return ""
    }
    function rest(from,   i, text) {
      for (i = from; i <= NF; i++) { text = text (text ? " " : "") $i }
      return text
    }
    function ratio(who) { return us["OURS", key] && us[who, key] ? us[who, key] / us["OURS", key] : 0 }
    function shown(number) { return number ? sprintf("%.3f", number) : "" }
    function missed(what) { verdict = verdict (verdict ? "; " : "") what }
    function judge(what, found, least) {
      if (least == "" || least == "-") { return }
      if (!found) { missed(what " is not there"); return }
      if (found + 0 < least + 0) { missed("below " least " " what) }
    }
    FNR == NR { if (NF) { key = $1 " " $2; least["rate", key] = $3; least["TORCH", key] = $4; least["copy", key] = $5; most[key] = $6 } }
    FNR < NR && ($1 == "OURS" || $1 == "CUBLAS" || $1 == "TORCH") && value("us") {
      key = $2 " " $3
      us[$1, key] = value("us")
      if ($1 == "OURS") {
        order[++count] = key; rate[key] = value("TFLOPs"); share[key] = value("ofcopy"); bytes[key] = value("GBs")
        form[key] = rest(value("TFLOPs") ? 6 : 7)
      }
    }
    END {
      print "| row | what | us | TFLOP/s | GB/s | of a copy | cuBLASLt, us | its time / ours | PyTorch, us | its time / ours | kernel | missed |"
      print "|---|---|---|---|---|---|---|---|---|---|---|---|"
      for (i = 1; i <= count; i++) {
        key = order[i]
        split(key, part, " ")
        verdict = ""
        judge("TFLOP/s", rate[key], least["rate", key])
        judge("x PyTorch", ratio("TORCH"), least["TORCH", key])
        judge("of a copy", share[key], least["copy", key])
        if (most[key] != "" && most[key] != "-" && us["OURS", key] + 0 > most[key] + 0) { missed("above " most[key] " us") }
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", part[1], part[2], us["OURS", key],
               rate[key], bytes[key], share[key], us["CUBLAS", key], shown(ratio("CUBLAS")), us["TORCH", key],
               shown(ratio("TORCH")), form[key], verdict
      }
    }' <(echo "$TARGETS") "$OUT/raw.txt"
}

{
  echo "$HEAD, bf16, medians of 5 bursts"
  echo
  table
  echo
  grep -E '^(copy|CHECK|FORM|REPEAT|SKIPPED|FAILED|#)' "$OUT/raw.txt"
} >"$OUT/table.md"
echo
cat "$OUT/table.md"
! grep -q '^FAILED' "$OUT/raw.txt"
