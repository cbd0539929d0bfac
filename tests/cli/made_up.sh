#!/bin/bash
# made_up.sh: an evaluation that is made up for is known of the checkpoint that it is of, which stays what it is.
. "${ROOT:?}/tests/cli/lib.sh"
evaluated() { sed -n 's/^ "val_loss": \([-+0-9.e]*\),*$/\1/p' "$1/manifest.json"; }
# unevaluated RUN STEP: as a signal within the evaluation of that step leaves it, in a run of a program before
unevaluated() {
  local manifest
  manifest=$(printf '%s/checkpoints/step-%08d/manifest.json' "$1" "$2")
  sed -i "/\"step\":$2,/s/,\"val_loss\":.*}$/}/" "$1/metrics.jsonl"
  sed -z -i -e 's/,\n "manifest_xxh3_64": "[0-9a-f]*"//; s/"version": 2/"version": 1/; s/ "val_loss": [0-9.]*,\n//' "$manifest"
  [ -z "$(evaluated "${manifest%/*}")" ] || die "the manifest of $1 has a loss"
}

# What another plan has no state for, such as the losses that `spike` judges by, stays in the checkpoint.
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e 's/  seed = 3;/&  spike = 1.5;/' "$SMALL" > spike.mdl
train spike.mdl --set validation=0 --steps 4 --out run
cp -r run untouched
at=checkpoints/step-00000004
train "$SMALL" --out run --resume --steps 4 --eval-every 4 --keep-best
mentions out "eval 4"
same "tensors" "$(weights run 4)" "$(weights untouched 4)"
[ -n "$(evaluated run/$at)" ] || die "the checkpoint does not say how good it is"
expect 0 "$MDL" verify run
grep -v '"val_loss"\|"validated_\|manifest_xxh3' run/$at/manifest.json | sed 's/,$//' > is
grep -v '"val_loss"\|"validated_\|manifest_xxh3' untouched/$at/manifest.json | sed 's/,$//' > was
same "the rest of the manifest" "$(cat is)" "$(cat was)"
[ ! -e run/$at/manifest.json.tmp ] || die "something is left"

# What --keep-every kept is kept, and the best is one though --keep-best is not given again.
options="--eval-every 4 --save-every 2 --keep 1"
train "$SMALL" $options --steps 4 --out kept --keep-best --keep-every 4
unevaluated kept 4
train "$SMALL" $options --set optimizer.lr.peak=9 --steps 12 --out kept --resume
mentions kept/$at/manifest.json '"kept": true' '"val_loss"'
! grep -q manifest_xxh3 kept/$at/manifest.json || die "a manifest of a program before has a hash of its own"
train "$SMALL" $options --steps 4 --out best --keep-best
unevaluated best 4
train "$SMALL" $options --set optimizer.lr.peak=9 --steps 12 --out best --resume
[ -n "$(evaluated best/$at)" ] || die "the best checkpoint, whose evaluation was made up for, is gone: $(cat out)"

# Its line knows no more than the evaluation: runs that are the same to the bit differ in nothing. A loss that was no number is one.
options="--eval-every 4 --log-every 5 --save-every 4"
train "$SMALL" $options --steps 8 --out whole
cp -r whole parts
rm -r parts/checkpoints/step-00000008
unevaluated parts 4
sed -i '/"step":4,/d' parts/metrics.jsonl
train parts $options --steps 8 --resume
grep '"step":4,' parts/metrics.jsonl > line
mentions line '"val_loss":' '"tokens":'
! grep -q '"loss":\|null' line || die "a line says null of what it does not know: $(cat line)"
expect 0 "$MDL" diff whole parts
sed -i '/"step":4,/s/"tokens"/"loss":null,"step_ms":null,"tokens"/' parts/metrics.jsonl
expect 0 "$MDL" diff whole parts
expect 0 "$MDL" diff parts whole
sed -i '/"step":5,/s/"loss":[0-9.]*/"loss":null/' parts/metrics.jsonl
expect 1 "$MDL" diff whole parts
mentions out "the losses differ beyond rounding first at step 5"
cp -r parts both
expect 0 "$MDL" diff both parts
