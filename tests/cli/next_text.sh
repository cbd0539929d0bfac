#!/bin/bash
# next_text.sh: killed between the first save with another text or other data and the writing of plan and text, a run is all the same what its newest checkpoint is.
. "${ROOT:?}/tests/cli/lib.sh"
cp "$ROOT/LICENSE" own.txt
seq 3000 > other.txt
sed -e "s,../../LICENSE,own.txt," -e 's/  seed = 3;/&  validation = 0.5;/' "$SMALL" > small.mdl
train small.mdl --out begun --steps 2
for options in "--set optimizer.lr.peak=3e-2" "--data other.txt"; do
  rm -rf after whole
  cp -r begun after
  train small.mdl $options --out after --steps 4 --resume
  [ -z "$(ls after | grep next- || true)" ] || die "something is left: $(ls after)"
  mentions after/checkpoints/step-00000004/manifest.json '"text_hash"'
  cp -r after whole
  train whole --resume --steps 6
  expect 0 "$MDL" eval after --json
  wanted=$(said loss held_out trained)
  # Killed: before the save, behind it, between the two names, and behind both.
  for killed in before behind between; do
    rm -rf run
    cp -r after run
    cp after/plan.mdlx run/next-plan.mdlx
    cp after/resolved.mdl run/next-resolved.mdl
    cp begun/plan.mdlx begun/resolved.mdl run
    [ $killed != before ] || rm -r run/checkpoints/step-00000004
    [ $killed != between ] || mv run/next-plan.mdlx run/plan.mdlx
    if [ $killed != before ]; then
      expect 0 "$MDL" eval run --json
      same "$killed: evaluated" "$(said loss held_out trained)" "$wanted"
      [ -e run/next-resolved.mdl ] || die "an evaluation changed the run"
      expect 0 "$MDL" inspect run
      sed 's/run\//after\//g' out > is
      expect 0 "$MDL" inspect after
      same "inspected" "$(grep -v '^newest\|^checkpoint\|[0-9]s$' is | grep "data\|optimizer")" "$(grep "data\|optimizer" out)"
      train run --resume --steps 6
      same "$killed: gone on" "$(weights run 6)" "$(weights whole 6)"
    else
      touch run/next-plan.mdlx.tmp-0a1b2c
      train run --resume --steps 4
      ! grep -q "^note" out || die "a run whose next text was never saved goes on with it: $(cat out)"
    fi
    [ -z "$(ls run | grep next- || true)" ] || die "$killed: something is left: $(ls run)"
  done
done

# By its text it goes on as well, and a link in the place of what is written is refused.
cp -r after linked
ln -s "$PWD/own.txt" linked/next-resolved.mdl
expect 1 "$MDL" train linked --resume --steps 6
mentions err "next-resolved.mdl is a link"
