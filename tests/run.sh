#!/bin/sh
# run.sh: builds the project and runs every test that this machine can run: one line for each, the last line the sums.
#
#   tests/run.sh [WORD]    with a WORD, only those tests whose file name contains it
#
# BUILD=DIR builds elsewhere than in build/; CMAKE_FLAGS are given to cmake. Missing packages are installed first.
# PREBUILT=1 builds and installs nothing: for a machine that programs were carried to. MDL and MDLC may name them.
# JOBS=N programs and scripts run at a time, else one more than there are cores, since some of them wait: for ranks that
# hang, for files, for a second to pass. What times a GPU runs alone, behind the others.
set -eu
cd "$(dirname "$0")/.."
ROOT=$PWD
BUILD=${BUILD:-$ROOT/build}
ONLY=${1:-}
LOGS=$BUILD/test-logs
JOBS=${JOBS:-$(($(nproc) + 1))}
MDL=${MDL:-$BUILD/mdl}
MDLC=${MDLC:-$BUILD/mdlc}
export ROOT BUILD LOGS MDL MDLC
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

# Programs first by name, then scripts; those that take longest begin, so that none of them is left alone at the end.
LONG='layouts_test.c cuda_attention_test.c mutants_test.c cuda_generate_test.c cuda_ring_test.c fp8_test.c passes_test.c cli/models.sh
  draw/run.sh fuzz/run.sh cli/figures.sh'
listed() {  # WILDCARD...: the sources of tests that are wanted
  for source in "$@"; do  # not whatever older programs lie in the build directory
    if [ -f "$source" ] && [ "$(basename "$source")" != lib.sh ] && wanted "$source"; then
      echo "$source"
    fi
  done
}
for name in $LONG; do
  listed "tests/$name"
done > "$LOGS/long.list"
listed tests/*_test.c tests/*/run.sh tests/cli/*.sh | grep -vxFf "$LOGS/long.list" > "$LOGS/short.list" || true

rm -rf "$LOGS/sums"
mkdir -p "$LOGS/sums"
cat "$LOGS/long.list" "$LOGS/short.list" | xargs -r -P "$JOBS" -n 1 tests/one.sh || true
listed tests/gpu/*.sh | xargs -r -n 1 tests/one.sh || true
for source in $(cat "$LOGS/long.list" "$LOGS/short.list") $(listed tests/gpu/*.sh); do
  if ! take "$LOGS/sums/$(echo "$source" | tr / _)"; then
    fail "$source did not end"
  fi
done

echo "processor seconds of all: $(cat "$LOGS"/sums/*.processor 2> /dev/null | tr ms '  ' |
  awk '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f", sum }')"
echo "the longest took, in seconds: $(cat "$LOGS"/sums/*.seconds 2> /dev/null | sort -rn | head -n 5 | paste -sd , | sed 's/,/, /g')"
summary
