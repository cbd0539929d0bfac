#!/bin/sh
# soak.sh: all of the tests of which tests/run.sh runs a sample; their lines, and how long it took.
#
#   tests/soak.sh [SECONDS]      so long for programs drawn at random, and for texts changed at random (default 600 each)
set -eu
cd "$(dirname "$0")/.."
export TESTS_LONG=1 DRAW_COUNT=60 DRAW_SECONDS="${1:-600}" SECONDS_LONG="${1:-600}"
status=0
for word in layouts_test mutants_test fp8_test compress_test cuda_attention_test cuda_ring_test cuda_generate_test draw fuzz; do
  began=$(date +%s)
  tests/run.sh "$word" || status=1
  echo "$word: $(($(date +%s) - began)) s"
done
exit "$status"
