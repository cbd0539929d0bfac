#!/bin/bash
# output.sh: where output goes: to a full device, to nowhere, through a link, to a device that stays one.
. "${ROOT:?}/tests/cli/lib.sh"
cp "$SMALL" small.mdl

# What cannot be written is said, and the status is 1; training only talks.
for words in "mdlc print small.mdl" "mdlc explain small.mdl" "mdlc --help" "mdlc compile --help"; do
  status=0
  "$MDLC" ${words#mdlc } > /dev/full 2> err || status=$?
  [ "$status" = 1 ] || die "$words > /dev/full: exit status $status"
  mentions err "mdlc: not all of the output could be written"
done
train "$SMALL" --steps 1 --out run
status=0
"$MDL" inspect run > /dev/full 2> err || status=$?
[ "$status" = 1 ] || die "mdl inspect > /dev/full: exit status $status"
"$MDL" train "$SMALL" --steps 1 --out full > /dev/full

# Nor does it need a reader: one that is gone before the first line ends nothing.
mkfifo gone
: < gone &
{
  wait_for 20 sh -c "! kill -0 $! 2> /dev/null"
  "$MDL" train "$SMALL" --steps 1 --out unread
} > gone
saved unread 1 || die "training ended with its reader"

# Closed streams: no file of the run becomes stdout.
"$MDL" train "$SMALL" --steps 1 --out closed <&- >&-
"$MDL" train "$SMALL" --steps 1 --out closed2 <&- >&- 2>&-
cmp run/plan.mdlx closed/plan.mdlx
cmp run/plan.mdlx closed2/plan.mdlx
same "weights with closed streams" "$(weights run 1)" "$(weights closed2 1)"

# A result that goes nowhere is no success, nor is a text that cannot be read; training only talks.
for words in "eval run" "eval run --json" "verify run" "generate run --tokens 1" "--version"; do
  status=0
  "$MDL" $words >&- 2> err || status=$?
  [ "$status" = 1 ] || die "mdl $words with stdout closed: exit status $status"
  mentions err "mdl: not all of the output could be written"
done
status=0
"$MDLC" check - <&- 2> err || status=$?
[ "$status" = 1 ] || die "mdlc check - with stdin closed: exit status $status"
mentions err "cannot read '<stdin>': Bad file descriptor"
"$MDLC" check small.mdl <&- >&-

# A plan goes through a link, which stays one, and to what is no file without replacing it.
ln -s real.mdlx link.mdlx
: > real.mdlx
expect 0 "$MDLC" compile small.mdl -o link.mdlx
[ -L link.mdlx ] || die "the link was replaced"
"$MDL" inspect real.mdlx > out
mkfifo pipe
cat pipe > piped &
expect 0 "$MDLC" compile small.mdl -o pipe
wait
cmp piped real.mdlx
[ -p pipe ] || die "the pipe was replaced"
mkdir folder
expect 1 "$MDLC" compile small.mdl -o folder
mentions err "cannot write 'folder': Is a directory"
