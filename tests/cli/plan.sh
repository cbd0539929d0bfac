#!/bin/bash
# plan.sh: a plan compiled ahead of time trains to the same bits as its text; a damaged one is refused.
. "${ROOT:?}/tests/cli/lib.sh"
expect 0 "$MDLC" compile "$SMALL" -o small.mdlx
expect 0 "$MDLC" compile "$SMALL" -o twice.mdlx
cmp small.mdlx twice.mdlx
train "$SMALL" --steps 4 --out text
train small.mdlx --steps 4 --out plan
same "text and plan" "$(weights text 4)" "$(weights plan 4)"
expect 0 "$MDL" inspect small.mdlx
mentions out "small"

refused() {
  expect 1 "$MDL" train "$1" --steps 1 --out refused
  [ -s err ] || die "nothing is said about $1"
  [ ! -e refused/checkpoints ] || die "$1 was trained"
  expect 1 "$MDL" inspect "$1"
}

# flip FROM TO BYTE: one bit of one byte
flip() {
  local byte
  cp "$1" "$2"
  byte=$(od -An -tu1 -j "$3" -N 1 "$1" | tr -d ' ')
  printf "$(printf '\\%03o' $((byte ^ 4)))" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none
}

size=$(stat -c %s small.mdlx)
for at in 0 8 16 24 31 32 100 $((size / 3)) $((size / 2)) $((size - 1)); do
  flip small.mdlx flipped.mdlx "$at"
  refused flipped.mdlx
done
flip small.mdlx version.mdlx 8   # the number of the version stands after the magic
refused version.mdlx
mentions err "version"
for length in 0 7 31 $((size / 2)) $((size - 1)); do
  head -c "$length" small.mdlx > short.mdlx
  refused short.mdlx
done
cat small.mdlx small.mdlx > long.mdlx
refused long.mdlx
expect 2 "$MDL" train small.mdlx --set seed=2 --out refused

# A plan names its data as the text does, whether it is there or not; a run of it has the place of what it read.
mkdir -p home away
sed 's,../../LICENSE,here.txt,' "$SMALL" > home/text.mdl
(cd home && "$MDLC" compile text.mdl -o without.mdlx) > /dev/null
cp "$ROOT/LICENSE" home/here.txt
cp "$ROOT/README.md" away/here.txt
(cd home && "$MDLC" compile text.mdl -o with.mdlx) > /dev/null
cmp home/without.mdlx home/with.mdlx
cp home/with.mdlx away
(cd away && train with.mdlx --steps 2 --out run && cp -r run again)
mentions away/run/resolved.mdl "text(\"$PWD/away/here.txt\""
train away/run --resume --steps 3
! grep -q "the text is not the one" out || die "a run of a plan has another text"
(cd away && train with.mdlx --out again --resume --steps 3)
! grep -q "the text is not the one" away/out || die "the plan has another text than its run"
(cd home && train text.mdl --out ../away/again --resume --steps 4 --data ../away/here.txt)
mentions home/out "the text is not the one this run began with: data was"
