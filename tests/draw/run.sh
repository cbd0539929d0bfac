#!/bin/bash
# run.sh: programs drawn at random mean the same after every pass and in the plan (tests/passes_test.c), and under
# layouts drawn at random what they mean on one rank (tests/layouts_test.c).
#
#   DRAW_FIRST=5000 DRAW_COUNT=2000 tests/run.sh draw      others, and more of them
#
# A program that fails: tests/draw/shrink.py FILE, or shrink.py --layout NAME FILE, makes it small; then it joins
# tests/programs or tests/layouts.
set -euo pipefail
command -v python3 > /dev/null || { echo "there is no python3 to draw programs with"; exit 77; }
BUILD=${BUILD:-$ROOT/build}
"$ROOT/tests/draw/draw.py" "$WORK/programs" "${DRAW_FIRST:-0}" "${DRAW_COUNT:-60}"
"$ROOT/tests/draw/draw.py" "$WORK/layouts" "${DRAW_FIRST:-0}" "${DRAW_COUNT:-60}" 6
"$BUILD/mdlc" fmt "$WORK"/programs/*.mdl "$WORK"/layouts/*.mdl
"$BUILD/tests/passes_test" "$WORK/programs" 2>&1 | grep -vE '^\[ +(RUN|OK) '
LAYOUTS_DRAWN=1 "$BUILD/tests/layouts_test" "$WORK/layouts" 2>&1 | grep -E 'FAIL|not what|disagree|compile|E099|PASSED'
