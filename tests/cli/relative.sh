#!/bin/bash
# relative.sh: a small relative of 172 billion parameters on 8 ranks of the same layout: across the switch to 8 bits and
# passed-over batches, killed and resumed, to the same bits; the large one compiles.
. "${ROOT:?}/tests/cli/lib.sh"
RELATIVE=("$ROOT/models/llama.mdl" --recipe llm_jp_172b_fp8 --layout ranks1024 --data "$ROOT/LICENSE")
for size in vocab=256 embed=64 layers=4 kv_heads=4 group=2 hd=16 ffn=128 batch=16 seq=32 mesh.pp=2 mesh.dp=2 mesh.tp=2 \
  microbatches=4 optimizer.lr.peak=1e-2 optimizer.lr.warmup=2 save_every=1 log_every=1 "skip=5 .. 6"; do
  RELATIVE+=(--set "$size")
done
SWITCH=(--precision "bf16 until 3, then fp8_hybrid")
train "${RELATIVE[@]}" "${SWITCH[@]}" --steps 6 --out whole
mentions out "8 ranks (pp 2 x dp 2 x tp 2)" "precision bf16 until step 3, from here on fp8_hybrid" \
  "batches 5 .. 6: step 5 trains on batch 7"
train "${RELATIVE[@]}" --precision bf16 --steps 6 --out plain
same "what comes before the switch" "$(losses plain | head -n 3)" "$(losses whole | head -n 3)"
[ "$(losses plain | tail -n 1)" != "$(losses whole | tail -n 1)" ] || die "the switch changes nothing"
for steps in 1 3 4 6; do
  resume=()
  [ ! -d parts ] || resume=(--resume)
  train "${RELATIVE[@]}" "${SWITCH[@]}" --steps "$steps" --out parts "${resume[@]}"
done
same "a run in four parts" "$(weights whole 6)" "$(weights parts 6)"

"$MDL" train "${RELATIVE[@]}" "${SWITCH[@]}" --steps 500 --out killed > log 2>&1 &
pid=$!
wait_for 60 saved killed 2
kill -KILL $pid
wait $pid || true
last=$(find killed/checkpoints -name 'step-*' | sort | tail -n 1)
steps=$((10#${last##*-} + 4))
train killed --data "$ROOT/LICENSE" --steps $steps --resume
train "${RELATIVE[@]}" "${SWITCH[@]}" --steps $steps --out straight
same "a killed run" "$(weights straight $steps)" "$(weights killed $steps)"

# In fewer layers: one for each stage.
expect 0 "$MDLC" explain "$ROOT/models/llama.mdl" --recipe llm_jp_172b_fp8 --layout ranks1024 --set layers=16
mentions out "1024 ranks" "bf16 from step 1 on (train), fp8_hybrid from step 4001 on (train_2)" \
  "batches 61200 .. 61259: 60 are passed over"
