#!/bin/sh
# run.sh: every .mdl here is a program with errors, and .expected beside it what `mdlc check` says of it, byte for byte.
#
#   tests/errors/run.sh [--update] [NAME...]
#
# A first line `// options: ...` holds options for the command. --update writes what is said now into .expected.
# MDLC is the program, else build/mdlc.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
MDLC=$(realpath "${MDLC:-$HERE/../../build/mdlc}")
cd "$HERE" || exit 1
SAID=$(mktemp)
trap 'rm -f "$SAID"' EXIT
update=false
if [ "${1:-}" = --update ]; then
  update=true
  shift
fi
if [ $# = 0 ]; then
  set -- *.mdl
fi

total=0
wrong=0
for name in "$@"; do
  name=${name%.mdl}
  options=$(sed -n '1s,^// options: ,,p' "$name.mdl")
  status=0
  # shellcheck disable=SC2086 # options are words
  "$MDLC" check "$name.mdl" $options 2> "$SAID" > /dev/null || status=$?
  total=$((total + 1))
  if $update; then
    cp "$SAID" "$name.expected"
    continue
  fi
  expected_status=1
  grep -q '^[0-9]* error' "$name.expected" || expected_status=0
  if [ "$status" != "$expected_status" ]; then
    echo "$name: exit status $status, expected $expected_status"
    wrong=$((wrong + 1))
  elif ! cmp -s "$SAID" "$name.expected"; then
    echo "$name: another text"
    diff "$name.expected" "$SAID"
    wrong=$((wrong + 1))
  fi
done
echo "$total programs, $wrong wrong"
[ "$wrong" = 0 ]
