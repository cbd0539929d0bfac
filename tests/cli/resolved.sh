#!/bin/bash
# resolved.sh: resolved.mdl of a run is a text by itself that trains to the same bits.
. "$ROOT/tests/cli/lib.sh"
train "$SMALL" --steps 4 --out first --set embed=48 --set batch=2 --precision fp32
[ -s first/resolved.mdl ] || die "there is no resolved.mdl"
expect 0 "$MDLC" check first/resolved.mdl
expect 0 "$MDLC" fmt --check first/resolved.mdl
cp first/resolved.mdl alone.mdl
train alone.mdl --steps 4 --out second
same "the losses" "$(losses first)" "$(losses second)"
same "the weights" "$(weights first 4)" "$(weights second 4)"
same "resolved again" "$(cat first/resolved.mdl)" "$(cat second/resolved.mdl)"
