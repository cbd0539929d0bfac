#!/bin/bash
# soak.sh: programs drawn at random under layouts drawn at random, against one rank, for as long as asked.
#
#   tests/draw/soak.sh DIRECTORY [SECONDS | COUNTx] [FIRST]      # default 3600 seconds; 500x: so many programs
#
# Prints where its seeds begin, a line each minute, and the sums at the end; status 1 if anything failed. Each new symptom
# is shrunk into DIRECTORY/SEED-LAYOUT.mdl, the symptom in its first lines; all failures are in DIRECTORY/failures.txt.
# FIRST is the first seed (default: the date and the time). BUILD=DIR: where draw_run was built. MOST: so many
# layouts a program (default 12), and KEEP: so many shrunk programs at most (default 40).
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD=${BUILD:-$ROOT/build}
exec python3 "$ROOT/tests/draw/soak.py" "$@"
