#!/bin/bash
# resume.sh: six steps, and three steps resumed for three more, end with the same bits; so does the same run twice.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 6 --out whole
train "$SMALL" --steps 6 --out again
train "$SMALL" --steps 3 --out parts
train "$SMALL" --steps 6 --out parts --resume
same "the same run twice" "$(weights whole 6)" "$(weights again 6)"
same "3 + 3 steps and 6" "$(weights whole 6)" "$(weights parts 6)"
same "the losses" "$(losses whole | tail -n 1)" "$(losses parts | tail -n 1)"

# A control: another seed gives other weights.
train "$SMALL" --steps 6 --out other --set seed=4
[ "$(weights whole 6)" != "$(weights other 6)" ] || die "the seed changes nothing"

expect 0 "$MDL" inspect whole
mentions out "small"

# Other numbers of threads give the same numbers.
train "$SMALL" --steps 6 --out threads --threads 1
same "one thread" "$(weights whole 6)" "$(weights threads 6)"
