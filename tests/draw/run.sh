#!/bin/bash
# run.sh: programs drawn at random mean the same after every pass and in the plan (tests/passes_test.c), and under
# layouts drawn at random what they mean on one rank (tests/draw_run.c): always the same ones, and others each day.
#
#   DRAW_FIRST=5000 DRAW_COUNT=2000 tests/run.sh draw      others, and more of them
#   DRAW_SECONDS=600 DRAW_SEED=123000 tests/run.sh draw      longer, or another day's
#
# What fails is shrunk into $WORK/failures; when it is mended it joins tests/layouts. docs/testing.md says more.
set -euo pipefail
command -v python3 > /dev/null || { echo "there is no python3 to draw programs with"; exit 77; }
export BUILD=${BUILD:-$ROOT/build}
if [ -n "${TESTS_SHORT:-}" ]; then few=4 seconds=1 texts=/gathered_rows.mdl; else few=24 seconds=10 texts=; fi
"$ROOT/tests/draw/draw.py" "$WORK/programs" "${DRAW_FIRST:-0}" "${DRAW_COUNT:-$few}"
"$BUILD/mdlc" fmt "$WORK"/programs/*.mdl
"$BUILD/tests/passes_test" "$WORK/programs" 2>&1 | grep -vE '^\[ +(RUN|OK) '
"$BUILD/tests/draw_run" "$ROOT/tests/layouts$texts"  # here a third of them without outputs of gradients
"$ROOT/tests/draw/soak.sh" "$WORK/failures" "${DRAW_COUNT:-$few}x" "${DRAW_FIRST:-0}"
"$ROOT/tests/draw/soak.sh" "$WORK/failures" "${DRAW_SECONDS:-$seconds}" "${DRAW_SEED:-$(date -u +%Y%m%d)00000}"
