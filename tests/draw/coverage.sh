#!/bin/bash
# coverage.sh: which lines and branches of the passes that divide work no drawn program reaches.
#
#   tests/draw/coverage.sh [PROGRAMS [FIRST]]      # default 1000 from seed 0; 12 layouts each
#
# Builds in build-coverage, with counters. Prints a table and then each line that is not reached (-) or of which a branch
# is not (?), with its text. Not all can be: what only wrong layouts reach is for tests/errors.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v gcovr > /dev/null || sudo -n apt-get install -y gcovr > /dev/null 2>&1 || { echo "there is no gcovr, and it cannot be installed"; exit 77; }
BUILD=${BUILD:-$PWD/build-coverage}
cmake -S . -B "$BUILD" -DMDL_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS="--coverage -O1" \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,-u,__gcov_dump > /dev/null
cmake --build "$BUILD" -j "$(nproc)" --target draw_run > /dev/null 2>&1
find "$BUILD" -name '*.gcda' -delete
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
tests/draw/draw.py "$WORK" "${2:-0}" "${1:-1000}" 12
"$BUILD/tests/draw_run" "$WORK" | tail -n 1 || true
gcovr -r . "$BUILD" --filter 'compiler/(shard|pipeline|grad)/(shard|reshard|localise|stage|differentiate)' \
  --filter 'compiler/(stages|mapping|schedule|split|gradients|state_map)\.c' --json "$WORK/coverage.json" > "$WORK/log" 2>&1 || {
  tail -n 5 "$WORK/log"
  exit 1
}
python3 - "$WORK/coverage.json" << 'END'
import json
import pathlib
import sys

files = json.load(open(sys.argv[1]))["files"]
for file in files:
    lines = [line for line in file["lines"] if not line.get("gcovr/noncode")]
    branches = [branch for line in lines for branch in line.get("branches", [])]
    reached = sum(line["count"] > 0 for line in lines)
    taken = sum(branch["count"] > 0 for branch in branches)
    print(f"{file['file']:36} lines {reached:4} of {len(lines):4}   branches {taken:4} of {len(branches):4}")
for file in files:
    text = pathlib.Path(file["file"]).read_text().split("\n")
    for line in file["lines"]:
        untaken = [branch for branch in line.get("branches", []) if branch["count"] == 0]
        if not line.get("gcovr/noncode") and (line["count"] == 0 or untaken):
            print(f"{'-' if line['count'] == 0 else '?'} {file['file']}:{line['line_number']}: {text[line['line_number'] - 1].strip()}")
END
