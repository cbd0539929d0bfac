#!/bin/bash
# begins_again.sh: a run that was ended before anything of it was saved begins again with the weights that it began with.
. "${ROOT:?}/tests/cli/lib.sh"
sed -e "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
sed -e 's/  seed = 3;/&  freeze table;/' small.mdl > frozen.mdl
unsaved() {  # RUN: as one that was killed before its first save
  rm -rf "$1"/checkpoints/step-* "$1/metrics.jsonl" "$1/log.txt" "$1/before-1"
}

train small.mdl --steps 20 --out weights
for options in "" --save-trained; do
  rm -rf run
  text=${options:+frozen.mdl}
  train "${text:-small.mdl}" --from weights $options --steps 4 --out run
  mentions run/resolved.mdl "// Hash of the weights of its beginning: "
  expect 0 "$MDLC" fmt --check run/resolved.mdl
  wanted=$(losses run)
  train run --restart --steps 4
  mentions out "weights   from $PWD/weights, with which the run began"
  same "restarted" "$(losses run)" "$wanted"
  unsaved run
  train run --resume --steps 4
  mentions out "weights   from $PWD/weights, with which the run began"
  same "begun again" "$(losses run)" "$wanted"
  if [ -n "$options" ]; then
    mentions out "frozen parameters stay in $PWD/weights"
    mentions run/checkpoints/step-00000004/manifest.json '"frozen"'
  fi
  train run --resume --steps 5
  mentions run/resolved.mdl "// Hash of the weights of its beginning: "
done

# Another text that is to begin anew says by itself with what.
rm -rf run
train small.mdl --from weights --steps 2 --out run
train small.mdl --restart --steps 2 --out run --set batch=2
mentions out "the run began with weights from elsewhere, and with another text it begins with random ones"
! grep -q "Weights of its" run/resolved.mdl || die "the text names weights that the run did not begin with"

# What a program before wrote has no hash: it is said that nobody knows whether the weights are those of then.
rm -rf run
train small.mdl --from weights --steps 2 --out run
wanted=$(losses run)
unsaved run
cp -r run older
sed -i '/^\/\/ Hash of/d' older/resolved.mdl
train older --resume --steps 2
mentions out "with which the run began, if they are what they were then"
same "of a program before" "$(losses older)" "$wanted"

# Weights that are others now, or not there, are refused, and nothing of the run is touched.
train weights --resume --steps 21
expect 1 "$MDL" train run --resume --steps 2
mentions err "which are others now" "mdl train run --restart --from DIR"
expect 1 "$MDL" train run --restart --steps 2
mentions err "which are others now"
mv weights away
expect 1 "$MDL" train run --resume --steps 2
mentions err "and they cannot be read" "mdl train run --restart --from DIR"
[ ! -e run/before-1 ] && [ ! -e run/checkpoints/step-00000002 ] || die "a run that was refused is another"
train run --restart --from away --steps 2
mentions out "weights   from away"
