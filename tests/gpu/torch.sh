#!/bin/bash
# torch.sh: 200 steps of a GPT-2 and a Llama lose what PyTorch loses, from the same weights and on the same batches.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
need_python torch numpy
TORCH_DEVICE=${MDL_TEST_DEVICE:-cuda}
if [ "$TORCH_DEVICE" = cuda ]; then
  python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || { echo "PyTorch sees no GPU"; exit 77; }
fi
# against MODEL RUN FIRST BOUND...: what torch_curve.py says of a run
against() {
  local model=$1 run=$2 first=$3 dtype=$4
  shift 4
  python3 "$ROOT/tests/gpu/torch_curve.py" "$model" "$run" "$first" "$ROOT/LICENSE" --device "$TORCH_DEVICE" \
    --dtype "$dtype" --bounds "$@"
}
for model in gpt2 llama; do
  curve "$model" gpu "$model-first" --precision fp32 --steps 1
  curve "$model" gpu "$model-fp32" --precision fp32
  against "$model" "$model-fp32" "$model-first" fp32 2:1e-5 50:1e-4 200:1e-3 || die "$model, fp32: not PyTorch's losses"

  # What autocast does: 16-bit products, and the stream between the layers in f32; then 16 bits everywhere.
  curve "$model" gpu "$model-half-first" --precision bf16_fp32_residual --steps 1
  for precision in bf16_fp32_residual bf16; do
    curve "$model" gpu "$model-$precision" --precision "$precision"
    against "$model" "$model-$precision" "$model-half-first" bf16 2:2e-3 50:1e-2 200:2e-2 ||
      die "$model, $precision: not PyTorch's losses"
  done
done

# A control: a run of other weights is noticed.
curve gpt2 gpu other --precision fp32 --set seed=9
if against gpt2 other gpt2-first fp32 2:1e-5 50:1e-4 > /dev/null 2>&1; then
  die "another seed goes unnoticed"
fi
