#!/bin/bash
# bench_attention.sh: attention on one GPU beside cuDNN and PyTorch's FlexAttention, compiled, as a table with ratios.
#
#   tests/bench_attention.sh [--repeat N] OUT [ROW...]
#
# OUT is a folder: raw.txt gets every line as it comes, table.md the table. A line of it ends in `below` where ours is
# slower than the rival should be beaten by: 1.05 x cuDNN forward, 0.98 x backward at a depth of 128 and 1.0 x else, and
# 1.2 x FlexAttention where the mask or the score is more than causal.
#   --repeat N   also calls both directions so often and compares all bits (10000 is usual)
#   PREBUILT=1   builds nothing
#   BUILD        folder that we were built in, or one that holds bench_attention; from the root: build
#   PYTHON       that has torch: python3; without it, FlexAttention is left out
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} PYTHON=${PYTHON:-python3} REPEAT=''
if [ "${1:-}" = --repeat ]; then
  REPEAT=${2:-}
  shift 2
fi
if [ $# -lt 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/bench_attention.sh [--repeat N] OUT [ROW...]" >&2
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
status=0
[ $# -gt 0 ] || mapfile -t chosen < <("$BUILD/bench_attention" --list)
[ $# -eq 0 ] || chosen=("$@")
if [ ${#chosen[@]} -eq 0 ]; then
  echo "bench_attention.sh: $BUILD/bench_attention says no rows" >&2
  exit 1
fi
for row in "${chosen[@]}"; do  # each by itself: what a library does to one cannot harm the others
  "$BUILD/bench_attention" "$row" 2>&1 | tee -a "$OUT/raw.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || { echo "FAILED: $row" | tee -a "$OUT/raw.txt"; status=1; }
done
if "$PYTHON" -c 'import torch' 2>/dev/null; then
  "$PYTHON" tests/peers/flex_attention.py "$@" 2>"$OUT/log.txt" | tee -a "$OUT/raw.txt"
else
  echo "SKIPPED: $PYTHON has no torch" | tee -a "$OUT/raw.txt"
fi
if [ -n "$REPEAT" ]; then
  "$BUILD/bench_attention" --repeat "$REPEAT" | tee -a "$OUT/raw.txt"
  status=$((status + PIPESTATUS[0]))
fi
awk '
  function value(name,   i) {
    for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) { return substr($i, length(name) + 2) }
    return ""
  }
  $1 == "OURS" || $1 == "CUDNN" || $1 == "FLEX" {
    key = $2 " " $3
    if ($1 == "OURS") { order[++count] = key; us[key] = value("us"); scratch[key] = value("scratch") / 1048576 }
    rate[$1, key] = value("TFLOPs")
  }
  function ratio(key, who) { return rate[who, key] ? rate["OURS", key] / rate[who, key] : 0 }
  END {
    print "| row | direction | us | TFLOP/s | cuDNN | ours / cuDNN | FlexAttention | ours / Flex | scratch, MiB | |"
    print "|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= count; i++) {
      key = order[i]
      split(key, part, " ")
      c = ratio(key, "CUDNN")
      f = ratio(key, "FLEX")
      least = part[2] == "forward" ? 1.05 : part[1] ~ /^d128/ ? 0.98 : 1
      below = (c && c < least) || (part[1] ~ /^(window|cap|documents)/ && f && f < 1.2)
      printf "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f | %s |\n", part[1], part[2], us[key], rate["OURS", key],
             rate["CUDNN", key], c ? sprintf("%.3f", c) : "", rate["FLEX", key], f ? sprintf("%.3f", f) : "",
             scratch[key], below ? "below" : ""
    }
  }' "$OUT/raw.txt" | tee "$OUT/table.md"
exit "$((status > 0))"
