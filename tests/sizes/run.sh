#!/bin/sh
# run.sh: shipped models in sizes, layouts and precisions drawn at random (draw.py): the same ones, and others each day.
#
#   SIZES_COUNT=3000 SEED=7 tests/run.sh sizes      more of them
set -eu
command -v python3 > /dev/null || { echo "there is no python3 to draw with"; exit 77; }
export MDLC
count=${SIZES_COUNT:-${TESTS_SHORT:+20}}
count=${count:-100}
"$ROOT/tests/sizes/draw.py" "$count" 1 "$WORK"
"$ROOT/tests/sizes/draw.py" "$count" "${SEED:-$(date +%j)}" "$WORK"
