#!/bin/sh
# run.sh: builds the project and runs every test that this machine can run: one line for each, the last line the sums.
#
#   tests/run.sh [WORD]    with a WORD, only those tests whose file name contains it
#
# BUILD=DIR builds elsewhere than in build/; CMAKE_FLAGS are given to cmake. Missing packages are installed first.
# PREBUILT=1 builds and installs nothing: for a machine that programs were carried to. MDL and MDLC may name them.
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

mkdir -p "$LOGS"
if [ -n "${PREBUILT:-}" ]; then
  echo "nothing is built: the programs are those of $BUILD"
elif ! { scripts/install.sh build test && cmake -S . -B "$BUILD" -DMDL_TESTS=ON ${CMAKE_FLAGS:-} && cmake --build "$BUILD" -j "$(nproc)"; } > "$LOGS/build.log" 2>&1; then
  fail "build" "$LOGS/build.log"
  summary
  exit 1
else
  pass "build"
fi

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

MDL=${MDL:-$BUILD/mdl}
MDLC=${MDLC:-$BUILD/mdlc}
export MDL MDLC
for script in tests/*/run.sh tests/cli/*.sh tests/gpu/*.sh; do  # each is a test; it gets an empty directory
  if [ "$(basename "$script")" = lib.sh ] || [ ! -f "$script" ] || ! wanted "$script"; then
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
  case $name in
    gpu/sanitize) limit=7200 ;;
    gpu/*) limit=900 ;;
    *) limit=300 ;;
  esac
  check "$name" timeout "$limit" "$script"
done

summary
