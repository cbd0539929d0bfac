#!/bin/sh
# generate.sh: makes lang/generated/ from lexer.re and grammar.y with re2c 3.0 and Bison 3.8.
# With --check it only says whether the committed files are up to date.
set -eu
cd "$(dirname "$0")"
out=generated
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -r "$out"' EXIT
fi
here=$PWD
mkdir -p "$out"
(
  cd "$out" # the guard of grammar.h is made from the path of the output
  bison -Wall -Werror=conflicts-sr,conflicts-rr,other --no-lines --header=grammar.h -o grammar.c "$here/grammar.y"
  re2c -W --no-debug-info --no-generation-date --no-version -o lexer.c "$here/lexer.re"
  chmod 644 grammar.c grammar.h lexer.c
)
if [ "$out" != generated ]; then
  for file in grammar.c grammar.h lexer.c; do
    cmp "$out/$file" "generated/$file"
  done
fi
