#!/bin/bash
# phases.sh: a precision that changes at a step: the same bits before it, in one run or several, killed, on any layout.
. "${ROOT:?}/tests/cli/lib.sh"
MORE="bf16 until 3, then fp8_hybrid"
train "$SMALL" --steps 8 --precision bf16 --out plain
train "$SMALL" --steps 8 --precision "$MORE" --out whole
mentions out "precision bf16 until step 3, from here on fp8_hybrid"
mentions whole/resolved.mdl "precision bf16 until 3, then fp8_hybrid;" "precision fp8_hybrid {" "precision bf16 {"
same "the losses before the switch" "$(losses plain | head -n 3)" "$(losses whole | head -n 3)"
[ "$(losses plain | tail -n 4)" != "$(losses whole | tail -n 4)" ] || die "the switch changes nothing"
same "steps in bf16" "$(grep -c '"precision":"bf16"' whole/metrics.jsonl)" 3
same "steps in fp8_hybrid" "$(grep -c '"precision":"fp8_hybrid"' whole/metrics.jsonl)" 5
! grep -q '"precision"' plain/metrics.jsonl || die "a run in one precision repeats it in every line"

# Interrupted before the switch, at it and behind it.
train "$SMALL" --steps 2 --precision "$MORE" --out parts
for steps in 3 5 8; do
  train "$SMALL" --steps "$steps" --out parts --resume --precision "$MORE"
done
same "a run in four parts" "$(weights whole 8)" "$(weights parts 8)"
same "its losses" "$(losses whole)" "$(losses parts)"

# Two processes with one precision each, and the other way round in one of them.
train "$SMALL" --steps 3 --precision bf16 --out other
train "$SMALL" --steps 8 --precision fp8_hybrid --out other --resume
same "the switch at a resume" "$(weights whole 8)" "$(weights other 8)"
mentions out "the precision was \`bf16\`, from here on it is \`fp8_hybrid\`"
train "$SMALL" --steps 12 --precision "fp8_hybrid until 10, then bf16" --out other --resume
mentions out "precision fp8_hybrid until step 10, from here on bf16"
train "$SMALL" --steps 10 --precision fp8_hybrid --out whole --resume
train "$SMALL" --steps 12 --precision bf16 --out whole --resume
same "back in one run, but for histories" "$(weights other 12 | grep model)" "$(weights whole 12 | grep model)"

# A precision that comes twice is compiled once.
expect 0 "$MDLC" explain "$SMALL" --precision "bf16 until 3, then fp8_current until 6, then bf16"
mentions out "bf16 from step 1 on (train), fp8_current from step 4 on (train_2), bf16 from step 7 on (train)"
! grep -q "train_3" out || die "a precision that comes twice has two programs"

# Killed while it runs.
"$MDL" train "$SMALL" --steps 200 --set save_every=1 --precision "$MORE" --out killed > log 2>&1 &
pid=$!
wait_for 60 saved killed 4
kill -KILL $pid
wait $pid || true
last=$(find killed/checkpoints -name 'step-*' | sort | tail -n 1)
steps=$((10#${last##*-} + 2))
train "$SMALL" --steps $steps --set save_every=1 --precision "$MORE" --out killed --resume
train "$SMALL" --steps $steps --precision "$MORE" --out straight
same "a killed run" "$(weights straight $steps)" "$(weights killed $steps)"

# Ranks that cut all there is.
LAYOUTS=$ROOT/examples/layouts.mdl
layouts="z3 tp2_sp d3 interleaved"
[ -z "${TESTS_SHORT:-}" ] || layouts=interleaved
for layout in $layouts; do
  train "$LAYOUTS" --data "$ROOT/LICENSE" --layout $layout --steps 6 --precision "$MORE" --out "$layout"
  train "$LAYOUTS" --data "$ROOT/LICENSE" --layout $layout --steps 4 --precision "$MORE" --out "${layout}_parts"
  train "$LAYOUTS" --data "$ROOT/LICENSE" --layout $layout --steps 6 --precision "$MORE" --out "${layout}_parts" --resume
  same "$layout in two parts" "$(weights $layout 6)" "$(weights ${layout}_parts 6)"
done
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --steps 4 --precision "bf16 until 2, then fp8_hybrid" --out pipeline
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --steps 2 --precision bf16 --out stages
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --steps 4 --precision fp8_hybrid --out stages --resume
same "a pipeline" "$(weights pipeline 4)" "$(weights stages 4)"

# Programs that give out all their values have them in the same places too, on the stages that make them.
for layouts in z3,tp2_sp gpipe,pp4; do
  expect 0 "$MDL" diff "$LAYOUTS" --data "$ROOT/LICENSE" layout=$layouts --precision "bf16 until 2, then fp8_hybrid" --step 3
done
expect 0 "$MDLC" explain "$LAYOUTS" --layout pp4 --precision "bf16 until 2, then fp8_hybrid" --json
python3 -c 'import json, sys
assert json.load(open("out"))["phases"] == [{"precision": "bf16", "from": 1, "program": "train"},
                                            {"precision": "fp8_hybrid", "from": 3, "program": "train_2"}]'
