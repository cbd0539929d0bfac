#!/bin/bash
# check.sh: a step that is run twice has the same bits, and a bit that is turned is found, with the rank it is of.
. "${ROOT:?}/tests/cli/lib.sh"
sed 's|../../LICENSE|'"$ROOT"'/LICENSE|' "$SMALL" > small.mdl
cat >> small.mdl <<'END'
layout dp2 { mesh dp = 2; batch -> dp; }
layout z2 { mesh dp = 2; batch -> dp; param, grad, state -> dp; microbatches = 2; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
layout eight { mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; heads, ffn, vocab -> tp; microbatches = 2; }
END

# Running twice changes nothing, also where a run is resumed.
for layout in single dp2 z2 pp2 eight; do
  train small.mdl --layout $layout --steps 6 --out plain_$layout
  train small.mdl --layout $layout --steps 4 --check 2 --out check_$layout
  train small.mdl --layout $layout --steps 6 --check 3 --out check_$layout --resume
  same "$layout: weights" "$(weights plain_$layout 6)" "$(weights check_$layout 6)"
  same "$layout: losses" "$(losses plain_$layout)" "$(losses check_$layout)"
done

# A bit of what rank 1 gives to a collective of step 2, as it is trained or as it is repeated.
flipped() {  # LAYOUT RANK N: it must be found
  MDL_FAULT=flip:$2:$3 expect 6 "$MDL" train small.mdl --layout "$1" --steps 6 --check 1 --save-every 1 --out "flip_$1_$2_$3"
  mentions err "was run twice on the same data and gave other bits: on rank $2 of " "what it gives to '"
}
flipped dp2 1 2
flipped dp2 0 3
flipped z2 1 9
flipped eight 5 20
grep -qF "gave other bits" flip_eight_5_20/log.txt || die "the log does not say it"
# Nothing of the step is saved, and the run can be gone on with.
step=$(sed -n 's/.*: step \([0-9]*\) was run twice.*/\1/p' err)
[ "$step" -gt 0 ] || { cat err >&2; die "no step is named"; }
! saved flip_eight_5_20 "$step" || die "a step that differs was saved"
train small.mdl --layout eight --steps 6 --check 1 --out flip_eight_5_20 --resume
same "after a resumption" "$(weights plain_eight 6)" "$(weights flip_eight_5_20 6)"

# Not looked for: it stays unseen, and the numbers are others.
MDL_FAULT=flip:1:2 train small.mdl --layout dp2 --steps 6 --out unseen
expect 2 "$MDL" train small.mdl --check 0 --out never
expect 2 env MDL_FAULT=turn:1:2 "$MDL" train small.mdl --layout dp2 --out never
mentions err "die, hang, skip or flip"
