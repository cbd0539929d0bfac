#!/bin/bash
# interrupt.sh: Ctrl-C finishes the step, saves, exits with 130, and the run goes on from there to the same bits.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 2000 --save-every 0 --eval-every 0 --out warm --set seed=9 --steps 2
interrupts stopped/metrics.jsonl \
  "$MDL" train "$SMALL" --steps 100000 --save-every 0 --eval-every 0 --log-every 1 --out stopped
step=$(interrupted stopped)
mentions log "interrupted after step $step"

more=$((step + 3))
train "$SMALL" --steps "$more" --out stopped --resume
train "$SMALL" --steps "$more" --eval-every 0 --out whole
same "interrupted and not" "$(weights whole "$more")" "$(weights stopped "$more")"
