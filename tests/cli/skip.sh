#!/bin/bash
# skip.sh: batches that are passed over: their data is not trained on, steps go on, and a run in parts ends the same.
. "${ROOT:?}/tests/cli/lib.sh"
sed 's|recipe small {|recipe small { skip = 3 .. 4, 7;|; s|../../LICENSE|'"$ROOT"'/LICENSE|' "$SMALL" > skips.mdl
train skips.mdl --steps 8 --out whole
mentions out "batches 3 .. 4, 7: 3 are passed over" "batches 3 .. 4: step 3 trains on batch 5" \
  "batch 7: step 5 trains on batch 8"
mentions whole/resolved.mdl "skip = 3 .. 4, 7;"
mentions whole/checkpoints/step-00000008/manifest.json '"batch": 11,'
expect 0 "$MDLC" explain skips.mdl
mentions out "batches 3 .. 4, 7: 3 are passed over"
expect 0 "$MDL" inspect whole
mentions out "batches 3 .. 4, 7: 3 are passed over"

# Two steps are those of a run that passes over nothing; the third has other data.
train "$SMALL" --steps 8 --out plain
same "what comes before" "$(losses plain | head -n 2)" "$(losses whole | head -n 2)"
[ "$(losses plain | sed -n 3p)" != "$(losses whole | sed -n 3p)" ] || die "nothing is passed over"

# Interrupted before what is passed over, behind it, and between.
train skips.mdl --steps 2 --out parts
train skips.mdl --steps 3 --out parts --resume
train skips.mdl --steps 5 --out parts --resume
train parts --steps 8 --resume
same "a run in four parts" "$(weights whole 8)" "$(weights parts 8)"
same "its losses" "$(losses whole)" "$(losses parts)"

# Ranges may be added where a run is resumed: those before what it has read change nothing, those behind do.
train "$SMALL" --steps 2 --out later
train "$SMALL" --steps 4 --out later --resume --set "skip=3 .. 4"
train "$SMALL" --steps 8 --out later --resume --set "skip=1 .. 2, 7"
same "ranges of resumed runs" "$(weights whole 8)" "$(weights later 8)"

# A checkpoint that does not say which batch was the last is of a run that passed over none. It has no hash either.
train "$SMALL" --steps 2 --out older
sed -z -i 's/,\n "manifest_xxh3_64": "[0-9a-f]*"//; s/"version": 2/"version": 1/; s/ "batch": [0-9]*,\n//' \
  older/checkpoints/step-00000002/manifest.json
train "$SMALL" --steps 8 --out older --resume
same "without the number of a batch" "$(weights plain 8)" "$(weights older 8)"

# On ranks, and killed.
train skips.mdl --steps 40 --set save_every=1 --out straight
"$MDL" train skips.mdl --steps 40 --set save_every=1 --out killed > log 2>&1 &
pid=$!
wait_for 60 saved killed 4
kill -KILL $pid
wait $pid || true
train killed --steps 40 --resume
same "a killed run" "$(weights straight 40)" "$(weights killed 40)"
LAYOUTS=$ROOT/examples/layouts.mdl
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --steps 4 --set "skip=2 .. 9" --out ranks
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --steps 1 --set "skip=2 .. 9" --out ranks_parts
train ranks_parts --data "$ROOT/LICENSE" --steps 4 --resume
same "a pipeline in two parts" "$(weights ranks 4)" "$(weights ranks_parts 4)"

for wrong in 0 "5 .. 2" 1.5 "1 .. 3, 3" seq; do
  expect 1 "$MDL" train "$SMALL" --set "skip=$wrong" --out wrong
  mentions err "E051"
done
