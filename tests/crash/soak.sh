#!/bin/bash
# soak.sh: power losses, kills and faults, all of them; for hours on a small machine.
#
#   tests/crash/soak.sh [KILLS] [DIR]      so many kills (1000), in a directory that is made (default: build/crash)
#
# BUILD=DIR is where the programs are (default: build). Stops at the first thing that was lost, which lies in DIR.
set -euo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-$PWD/build} PYTHONDONTWRITEBYTECODE=1
out=${2:-$BUILD/crash}
rm -rf "$out"
mkdir -p "$out/kills" "$out/power" "$out/faults"
nice python3 tests/crash/kills.py "${1:-1000}" "$out/kills"
nice python3 tests/crash/power.py "$out/power" all
nice python3 tests/crash/faults.py "$out/faults"
