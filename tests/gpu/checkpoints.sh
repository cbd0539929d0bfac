#!/bin/bash
# checkpoints.sh: what was saved on the GPU loads on the CPU and the other way round; eval and generate on the GPU.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
for recipe in gpt2 llama; do
  for from in cpu gpu; do
    curve "$recipe" "$from" "$recipe-$from" --precision fp32 --steps 100
    near "$recipe of $from: evaluated on both" "$(eval_loss "$recipe-$from" --device "$DEVICE")" \
      "$(eval_loss "$recipe-$from" --device cpu)" 1e-4
  done
  near "$recipe: evaluated where it was trained" "$(eval_loss "$recipe-gpu" --device "$DEVICE")" \
    "$(eval_loss "$recipe-cpu" --device cpu)" 1e-2

  # Trained on one, gone on with on the other, against going on where it was.
  cp -r "$recipe-cpu" "$recipe-moved"
  cp -r "$recipe-gpu" "$recipe-back"
  curve "$recipe" gpu "$recipe-moved" --precision fp32 --steps 110 --resume
  curve "$recipe" cpu "$recipe-cpu" --precision fp32 --steps 110 --resume
  curve "$recipe" cpu "$recipe-back" --precision fp32 --steps 110 --resume
  curve "$recipe" gpu "$recipe-gpu" --precision fp32 --steps 110 --resume
  near_curves "$recipe, from the CPU to the GPU" "$recipe-moved" "$recipe-cpu" 101:1e-5 110:1e-3
  near_curves "$recipe, from the GPU to the CPU" "$recipe-back" "$recipe-gpu" 101:1e-5 110:1e-3
done

# bf16: the checkpoint is f32 all the same.
curve gpt2 gpu half --precision bf16 --steps 20
near "bf16: evaluated on both" "$(eval_loss half --device "$DEVICE")" "$(eval_loss half --device cpu)" 1e-2

generate() {
  "$MDL" generate "llama-gpu" --prompt "Permission is" --tokens 48 "$@"
}
text=$(generate --device "$DEVICE" --temperature 0)
same "the likeliest text twice" "$text" "$(generate --device "$DEVICE" --temperature 0)"
same "the same seed" "$(generate --device "$DEVICE" --seed 4)" "$(generate --device "$DEVICE" --seed 4)"
[ "$(generate --device "$DEVICE" --seed 4)" != "$(generate --device "$DEVICE" --seed 5)" ] || die "the seed changes nothing"
case $text in
  "Permission is"?*) ;;
  *) die "the text does not begin with its prompt: $text" ;;
esac
# Where two letters are as likely, rounding decides; the first ones are clear.
on_cpu=$(generate --device cpu --temperature 0)
same "the first letters on both" "${text:0:18}" "${on_cpu:0:18}"
