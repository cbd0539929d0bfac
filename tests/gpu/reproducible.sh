#!/bin/bash
# reproducible.sh: under `reproducible = strict`, on the GPU, a run is the same bits again, also killed and resumed.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
for recipe in gpt2 llama; do
  for precision in fp32 bf16; do
    arguments=(--layout strict --precision "$precision")
    curve "$recipe" gpu "$recipe-$precision-once" "${arguments[@]}"
    curve "$recipe" gpu "$recipe-$precision-twice" "${arguments[@]}"
    same "$recipe $precision: weights" "$(weights "$recipe-$precision-once" 200)" "$(weights "$recipe-$precision-twice" 200)"
    same "$recipe $precision: losses" "$(losses "$recipe-$precision-once")" "$(losses "$recipe-$precision-twice")"
  done
done

# In f32 nothing is used that is not reproducible; `fast` is the same run.
curve llama gpu llama-fp32-fast --layout fast --precision fp32
same "f32, fast and strict" "$(weights llama-fp32-once 200)" "$(weights llama-fp32-fast 200)"

# In bf16 `fast` may differ in the gradient of attention, so not in the first loss, and a little after that.
for run in once twice; do
  curve gpt2 gpu "gpt2-fast-$run" --layout fast --precision bf16
done
same "bf16, fast, first loss" "$(loss_at gpt2-fast-once 1)" "$(loss_at gpt2-fast-twice 1)"
near_curves "bf16, fast twice" gpt2-fast-once gpt2-fast-twice 50:2e-2 200:3e-2
near_curves "bf16, fast and strict" gpt2-fast-once gpt2-bf16-once 1:1e-2 50:2e-2 200:3e-2
if [ "$(weights gpt2-fast-once 200)" = "$(weights gpt2-fast-twice 200)" ]; then
  echo "bf16, fast: the same bits twice; nothing that is not reproducible was used"
fi

# Killed in the middle and resumed.
STEPS=600
curve llama gpu whole --layout strict --precision bf16 --steps $STEPS --save-every 20
killed=no
for pause in 0.2 0.1 0.02; do
  rm -rf killed
  "$MDL" train "$CURVES" --recipe llama --device "$DEVICE" --out killed --log-every 1 --layout strict --precision bf16 \
    --steps $STEPS --save-every 20 > log 2>&1 &
  wait_for 60 compgen -G 'killed/checkpoints/step-0000*[1-9]*'
  sleep "$pause"
  kill -9 $! 2> /dev/null || true
  wait $! || true
  if [ ! -e "$(printf 'killed/checkpoints/step-%08d' $STEPS)" ]; then
    killed=yes
    break
  fi
done
[ $killed = yes ] || die "it was done each time before it could be killed"
last=$(find killed/checkpoints -name 'step-*' | sort | tail -n 1)
echo "killed after the checkpoint of step $((10#${last##*-}))"
# With an empty cache: which algorithm solves which problem is in the run's own record.
MDL_CACHE=$WORK/empty-cache curve llama gpu killed --layout strict --precision bf16 --steps $STEPS --save-every 20 --resume
same "killed and not: weights" "$(weights whole $STEPS)" "$(weights killed $STEPS)"
same "killed and not: losses" "$(losses whole)" "$(losses killed)"
