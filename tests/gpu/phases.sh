#!/bin/bash
# phases.sh: a precision that changes at a step, on a GPU: the losses before it are those of the first precision, and a
# run that is interrupted at it, or behind it, ends with the same bits as one that is not.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
MORE="bf16 until 6, then fp8_hybrid until 12, then bf16"
status=0
"$MDL" train "$CURVES" --recipe llama --device "$DEVICE" --precision fp8_hybrid --steps 1 --out there > out 2> err ||
  status=$?
if [ "$status" != 0 ] && grep -q 'compute capability 8.9' err; then
  tail -n 1 err
  exit 77
fi
[ "$status" = 0 ] || { cat out err >&2; die "fp8_hybrid: exit status $status"; }
curve llama gpu plain --precision bf16 --steps 15
curve llama gpu whole --precision "$MORE" --steps 15
mentions out "precision bf16 until step 6, from here on fp8_hybrid" "precision fp8_hybrid until step 12, from here on bf16"
[ "$(losses plain | head -n 6)" = "$(losses whole | head -n 6)" ] || die "losses before the switch are others"
[ "$(losses plain | tail -n 8)" != "$(losses whole | tail -n 8)" ] || die "the switch changes nothing"
near "the last loss" "$(loss_at whole 15)" "$(loss_at plain 15)" 2e-2
for steps in 6 9 12 15; do
  again=$([ $steps = 6 ] || echo --resume)
  curve llama gpu parts --precision "$MORE" --steps $steps $again
done
[ "$(losses parts)" = "$(losses whole)" ] || die "a run in four parts loses something else"
[ "$(weights parts 15)" = "$(weights whole 15)" ] || die "a run in four parts ends with other weights"
