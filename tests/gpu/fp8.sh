#!/bin/bash
# fp8.sh: a GPT-2 and a Llama with products in 8 bits lose on the GPU what they lose on the CPU, twice the same, and near
# to what they lose in bf16.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
status=0
"$MDL" train "$CURVES" --recipe llama --device "$DEVICE" --precision fp8_current --steps 1 --out there > out 2> err ||
  status=$?
if [ "$status" != 0 ] && grep -q 'compute capability 8.9' err; then
  tail -n 1 err
  exit 77
fi
[ "$status" = 0 ] || { cat out err >&2; die "fp8_current: exit status $status"; }
precisions="fp8_current fp8_hybrid fp8_block"
if ! "$MDL" train "$CURVES" --recipe gpt2 --device "$DEVICE" --precision fp8_block --steps 1 --out blocks > out 2> err; then
  grep -q 'compute capability 9.0' err || { cat out err >&2; die "fp8_block does not run"; }
  precisions="fp8_current fp8_hybrid"
fi
for recipe in gpt2 llama; do
  curve "$recipe" gpu "$recipe-bf16" --precision bf16
  for precision in $precisions; do
    name=$recipe-$precision
    for device in cpu gpu; do
      curve "$recipe" "$device" "$name-$device" --precision "$precision"
    done
    near_curves "$recipe $precision" "$name-gpu" "$name-cpu" 1:2e-3 50:4e-2
    near "$recipe $precision, steps 151 to 200" "$(mean_of "$name-gpu" 151 200)" "$(mean_of "$name-cpu" 151 200)" 4e-2
    near_curves "$recipe $precision and bf16" "$name-gpu" "$recipe-bf16" 50:4e-2
    near "$recipe $precision and bf16, steps 151 to 200" "$(mean_of "$name-gpu" 151 200)" \
      "$(mean_of "$recipe-bf16" 151 200)" 4e-2
    near "$recipe $precision, first norm of the gradient" "$(norm_at "$name-gpu" 1)" "$(norm_at "$name-cpu" 1)" 5e-2
    curve "$recipe" gpu "$name-again" --precision "$precision" --steps 20
    losses "$name-gpu" | head -n 20 > first
    losses "$name-again" > second
    cmp -s first second || die "$recipe $precision: a second run on the GPU loses something else"
  done
done
