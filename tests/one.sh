#!/bin/sh
# one.sh: runs one test program, tests/NAME_test.c, or one script, and prints its lines together; called by run.sh.
#
# The sums go to $LOGS/sums/, and how many seconds it took, of clocks and of processors. A script gets an empty directory, $WORK.
set -eu
. tests/lib.sh

results() {
  name=$(echo "$1" | sed 's,^tests/,,; s,/run\.sh$,,; s,\.sh$,,')
  case $1 in
    *_test.c)
      program=$BUILD/tests/$(basename "$1" .c)
      if [ -x "$program" ]; then
        cmocka_program "$program"
      else
        fail "$(basename "$program"): it was not built"
      fi
      ;;
    *)
      WORK=$BUILD/test-work/$name
      export WORK
      rm -rf "$WORK"
      mkdir -p "$WORK"
      case $name in
        gpu/sanitize) limit=7200 ;;
        *) limit=${TESTS_LONG:+1}900 ;;
      esac
      if [ -x "$MDL" ] && [ -x "$MDLC" ]; then
        check "$name" timeout "$limit" "$1"
      else
        fail "$name: mdl and mdlc were not built"
      fi
      ;;
  esac
}

sums=$LOGS/sums/$(echo "$1" | tr / _)
began=$(date +%s)
{
  results "$1"
  summary > "$sums.part" || true
} > "$sums.lines"
echo "$(($(date +%s) - began)) $1" > "$sums.seconds"
times > "$sums.processor"
flock "$LOGS/sums" cat "$sums.lines"
mv "$sums.part" "$sums"
