#!/bin/bash
# bench_attention.sh: attention on one GPU beside cuDNN and PyTorch's FlexAttention, compiled, as a table with ratios.
#
#   tests/bench_attention.sh [--repeat [N]] OUT [ROW...]
#
# OUT is a folder: raw.txt gets every line as it comes, log.txt what FlexAttention said besides, table.md the table. The
# last column says which targets (below) are missed, and which could not be judged since a figure is not there.
#   --repeat N   also calls both directions so often, 10000 without N, and compares all bits
#   PREBUILT=1   builds nothing
#   BUILD        folder that we were built in, or one that holds bench_attention; from the root: build
#   PYTHON       that has torch: python3; without it, FlexAttention is left out
#   COMMIT       of our programs, where there is no git
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# What an H200 should reach: row, direction, least TFLOP/s, least ratio to cuDNN, least ratio to FlexAttention.
TARGETS='
d128_4k      forward  600 1.05 -
d128_4k      backward 455 0.98 -
d128_32k     forward  650 1.05 -
d128_32k     backward 520 0.98 -
d64_1k       forward  -   1.05 -
d64_1k       backward -   1.00 -
d64_4k       forward  -   1.05 -
d64_4k       backward -   1.00 -
window_8k    forward  -   -    1.2
window_8k    backward -   -    1.2
cap_8k       forward  -   -    1.2
cap_8k       backward -   -    1.2
documents_8k forward  -   -    1.2
documents_8k backward -   -    1.2
'
BUILD=${BUILD:-build} PYTHON=${PYTHON:-python3} REPEAT=''
if [ "${1:-}" = --repeat ]; then
  shift
  REPEAT=10000
  if [[ ${1:-} =~ ^[0-9]+$ ]]; then
    REPEAT=$1
    shift
  fi
fi
if [ $# -lt 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/bench_attention.sh [--repeat [N]] OUT [ROW...]" >&2
  exit 2
fi
OUT=$1
shift
if [ -z "${PREBUILT:-}" ] && ! cmake --build "$BUILD" --target bench_attention >/dev/null; then
  echo "bench_attention.sh: bench_attention cannot be built in $BUILD" >&2
  exit 1
fi
[ -x "$BUILD/bench_attention" ] || BUILD=$BUILD/tests
mkdir -p "$OUT" || exit 1
: >"$OUT/raw.txt"
: >"$OUT/log.txt"
say() { echo "$*" | tee -a "$OUT/raw.txt"; }
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true; }

[ $# -gt 0 ] || mapfile -t chosen < <("$BUILD/bench_attention" --list)
[ $# -eq 0 ] || chosen=("$@")
if [ ${#chosen[@]} -eq 0 ]; then
  echo "bench_attention.sh: $BUILD/bench_attention says no rows" >&2
  exit 1
fi
COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo 'not known')}
HEAD="$(date -u +%Y-%m-%d), $(gpu name), driver $(gpu driver_version), power limit $(gpu power.limit), commit $COMMIT"
say "$HEAD"
for row in "${chosen[@]}"; do  # each by itself: what a library does to one cannot harm the others
  "$BUILD/bench_attention" "$row" 2>&1 | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || say "FAILED: $row"
done
if "$PYTHON" -c 'import torch' 2>>"$OUT/log.txt"; then
  "$PYTHON" tests/peers/flex_attention.py "${chosen[@]}" 2>>"$OUT/log.txt" | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || say "FAILED (log.txt): FlexAttention"
else
  say "SKIPPED: $PYTHON has no torch"
fi
if [ -n "$REPEAT" ]; then
  "$BUILD/bench_attention" --repeat "$REPEAT" 2>&1 | tee -a "$OUT/raw.txt"
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
    function mebibytes(who) { return (who, key) in scratch ? sprintf("%.0f", scratch[who, key] / 1048576) : "" }
    function ratio(who) { return rate[who, key] ? rate["OURS", key] / rate[who, key] : 0 }
    function shown(number) { return number ? sprintf("%.3f", number) : "" }
    function judge(what, found, least) {
      if (least == "" || least == "-") { return }
      if (!found) { verdict = verdict (verdict ? "; " : "") what " is not there"; return }
      if (found < least + 0) { verdict = verdict (verdict ? "; " : "") "below " least " " what }
    }
    FNR == NR { if (NF) { key = $1 " " $2; least["rate", key] = $3; least["CUDNN", key] = $4; least["FLEX", key] = $5 } }
    FNR < NR && ($1 == "OURS" || $1 == "CUDNN" || $1 == "FLEX") && value("TFLOPs") {
      key = $2 " " $3
      if ($1 == "OURS") { order[++count] = key; us[key] = value("us"); form[key] = rest(7) }
      if (value("scratch") != "") { scratch[$1, key] = value("scratch") }
      rate[$1, key] = value("TFLOPs")
    }
    END {
      print "| row | direction | us | TFLOP/s | cuDNN | ours / cuDNN | FlexAttention | ours / Flex | scratch, MiB | cuDNN, MiB | kernel | missed |"
      print "|---|---|---|---|---|---|---|---|---|---|---|---|"
      for (i = 1; i <= count; i++) {
        key = order[i]
        split(key, part, " ")
        verdict = ""
        judge("TFLOP/s", rate["OURS", key], least["rate", key])
        judge("x cuDNN", ratio("CUDNN"), least["CUDNN", key])
        judge("x FlexAttention", ratio("FLEX"), least["FLEX", key])
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", part[1], part[2], us[key],
               rate["OURS", key], rate["CUDNN", key], shown(ratio("CUDNN")), rate["FLEX", key], shown(ratio("FLEX")),
               mebibytes("OURS"), mebibytes("CUDNN"), form[key], verdict
      }
    }' <(echo "$TARGETS") "$OUT/raw.txt"
}

{
  echo "$HEAD, bf16, medians of 5 bursts"
  echo
  table
  echo
  grep -E '^(REPEAT|SKIPPED|FAILED|#)' "$OUT/raw.txt"
} >"$OUT/table.md"
echo
cat "$OUT/table.md"
! grep -q '^FAILED' "$OUT/raw.txt"
