#!/bin/bash
# curves.sh: 200 steps of a GPT-2 and a Llama on the GPU lose what they lose on the CPU, under every precision policy.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
for recipe in gpt2 llama; do
  for precision in fp32 bf16; do
    for device in cpu gpu; do
      curve "$recipe" "$device" "$recipe-$precision-$device" --precision "$precision"
    done
    cpu=$recipe-$precision-cpu gpu=$recipe-$precision-gpu
    case $precision in
      fp32) near_curves "$recipe fp32" "$gpu" "$cpu" 1:1e-5 50:1e-4 200:1e-3 ;;
      *) near_curves "$recipe $precision" "$gpu" "$cpu" 1:2e-3 50:1e-2 200:2e-2 ;;
    esac
    near "$recipe $precision, first norm of the gradient" "$(norm_at "$gpu" 1)" "$(norm_at "$cpu" 1)" \
      "$([ $precision = fp32 ] && echo 1e-4 || echo 3e-2)"
    awk -v first="$(loss_at "$gpu" 1)" -v last="$(loss_at "$gpu" 200)" 'BEGIN { exit !(last < first - 2) }' ||
      die "$recipe $precision learns nothing: $(losses "$gpu" | tail -n 1)"
  done
done
for precision in tf32 bf16_fp32_residual; do
  curve gpt2 cpu "gpt2-$precision-cpu" --precision "$precision" --steps 50
  curve gpt2 gpu "gpt2-$precision-gpu" --precision "$precision" --steps 50
  near_curves "gpt2 $precision" "gpt2-$precision-gpu" "gpt2-$precision-cpu" 1:2e-3 50:1e-2
done

# Four microbatches, run as one, differ in rounding alone.
curve gpt2 gpu "parts" --layout parts --precision fp32
near_curves "microbatches" parts "gpt2-fp32-gpu" 1:1e-5 50:1e-4 200:1e-3

# Recomputing, too.
curve llama gpu "again" --layout again --precision bf16
near_curves "recomputing" again "llama-bf16-gpu" 1:2e-3 200:2e-2

# A control: other weights are noticed.
curve gpt2 gpu other --precision fp32 --set seed=9 --steps 50
if (near_curves "other weights" other "gpt2-fp32-gpu" 1:1e-5 50:1e-4) > /dev/null 2>&1; then
  die "another seed goes unnoticed"
fi
