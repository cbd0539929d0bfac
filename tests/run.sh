#!/bin/sh
# run.sh: builds the project and runs every test that this machine can run: one line for each, the last line the sums.
#
#   tests/run.sh [WORD]    with a WORD, only those tests whose file name contains it
#
# BUILD=DIR builds elsewhere than in build/; CMAKE_FLAGS are given to cmake. Missing packages are installed first.
set -eu
cd "$(dirname "$0")/.."
ROOT=$PWD
BUILD=${BUILD:-$ROOT/build}
ONLY=${1:-}
LOGS=$BUILD/test-logs
export ROOT BUILD
. tests/lib.sh

wanted() {
  case $1 in
    *"$ONLY"*) return 0 ;;
  esac
  return 1
}

scripts/install.sh build test

mkdir -p "$LOGS"
if ! { cmake -S . -B "$BUILD" -DMDL_TESTS=ON ${CMAKE_FLAGS:-} && cmake --build "$BUILD" -j "$(nproc)"; } > "$LOGS/build.log" 2>&1; then
  fail "build" "$LOGS/build.log"
  summary
  exit 1
fi
pass "build"

if [ ! -e tests/lib.sh ] || [ -z "$(ls "$BUILD"/tests/*_test 2> /dev/null)" ]; then
  fail "no test programs were built"
fi
for source in tests/*_test.c; do  # not whatever older ones lie in the build directory
  program=$BUILD/tests/$(basename "$source" .c)
  if wanted "$source" && [ -x "$program" ]; then
    cmocka_program "$program"
  elif wanted "$source"; then
    fail "$(basename "$program"): it was not built"
  fi
done

MDL=$BUILD/mdl
MDLC=$BUILD/mdlc
export MDL MDLC
for script in tests/*/run.sh tests/cli/*.sh; do  # each is a test; it gets an empty directory
  if [ "$script" = "tests/cli/lib.sh" ] || [ ! -f "$script" ] || ! wanted "$script"; then
    continue
  fi
  name=$(echo "$script" | sed 's,^tests/,,; s,/run\.sh$,,; s,\.sh$,,')
  if [ ! -x "$MDL" ] || [ ! -x "$MDLC" ]; then
    fail "$name: mdl and mdlc were not built"
    continue
  fi
  WORK=$BUILD/test-work/$name
  export WORK
  rm -rf "$WORK"
  mkdir -p "$WORK"
  check "$name" timeout 300 "$script"
done

summary
