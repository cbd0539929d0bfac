#!/bin/bash
# padding.sh: tests/layouts/padding.mdl has every op meet padding, so that tests/layouts_test.c poisons it there.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3 to read graphs with"; exit 77; }
"$ROOT/tests/padding_ops.py" "$MDLC" "$ROOT/tests/layouts/padding.mdl"
