#!/bin/bash
# kills.sh: killed in the middle of saves of a large state, a run on a GPU ends with the bits of one that never was.
#
# KILLS=N kills (8); each comes while a save is being written, some time after it began. What is saved is copied beside
# training, and the next step is under way.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
KILLS=${KILLS:-8} STEPS=$((2 * ${KILLS:-8} + 6))
cat > large.mdl << END
import "$CURVES";
layout strict { reproducible = strict; }
END
sizes=(--set vocab=4096 --set embed=512 --set layers=4)
[ "$DEVICE" = cpu ] || sizes=(--set vocab=32000 --set embed=1024 --set layers=6 --set ffn=4096)
words=(large.mdl --recipe llama --layout strict --precision bf16 --device "$DEVICE" "${sizes[@]}" --set batch=2
  --data "$ROOT/LICENSE" --set seq=32 --steps "$STEPS" --save-every 1)
train "${words[@]}" --out whole

under_way() {  # a save of which something was written since this run began
  [ -n "$(find killed/checkpoints -path '*/saving-*/*' -newer stamp 2> /dev/null)" ]
}
inside=0 resume=()
for ((i = 0; i < KILLS; i++)); do
  touch stamp
  "$MDL" train "${words[@]}" --out killed "${resume[@]}" > log 2>&1 &
  for ((turn = 0; turn < 20000; turn++)); do
    ! under_way || break
  done
  [ "$DEVICE" = cpu ] || sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
  kill -9 $! 2> /dev/null || true
  wait $! 2> /dev/null || true
  ! under_way || inside=$((inside + 1))
  for at in killed/checkpoints/step-*; do  # nothing, where the first save was killed
    [ ! -d "$at" ] || resume=(--resume)
  done
  if [ ${#resume[@]} -gt 0 ]; then
    "$MDL" verify killed > verified || { cat verified >&2; die "after kill $i a checkpoint is not whole"; }
  else
    rm -rf killed
  fi
done
echo "$KILLS kills, $inside inside a save"
[ "$inside" -gt 0 ] || die "no kill came inside a save"
train "${words[@]}" --out killed "${resume[@]}"
same "killed and not" "$(weights whole "$STEPS")" "$(weights killed "$STEPS")"
same "steps of metrics" "$(losses whole)" "$(losses killed)"
