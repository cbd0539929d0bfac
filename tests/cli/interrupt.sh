#!/bin/bash
# interrupt.sh: Ctrl-C finishes the step, saves, exits with 130, and the run goes on from there to the same bits.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --save-every 0 --eval-every 0 --out warm --set seed=9 --steps 2
interrupts stopped/metrics.jsonl \
  "$MDL" train "$SMALL" --steps 100000 --save-every 0 --eval-every 0 --log-every 1 --out stopped
step=$(interrupted stopped)
mentions log "interrupted after step $step"

more=$((step + 3))
train "$SMALL" --steps "$more" --out stopped --resume
train "$SMALL" --steps "$more" --eval-every 0 --out whole
same "interrupted and not" "$(weights whole "$more")" "$(weights stopped "$more")"

# Schedulers warn with other signals, and `timeout` and `srun` send theirs twice: all that comes at once is one wish.
for signals in "USR1" "XCPU" "TERM TERM" "INT TERM INT"; do
  "$MDL" train "$SMALL" --steps 100000 --save-every 0 --eval-every 0 --log-every 1 --out "signal-${signals// /-}" > log 2>&1 &
  wait_for 60 test -s "signal-${signals// /-}/metrics.jsonl"
  for signal in $signals; do
    kill -"$signal" $! 2> /dev/null || true
  done
  status=0
  wait $! || status=$?
  [ "$status" = 130 ] || { cat log >&2; die "exit status $status instead of 130 after $signals"; }
  step=$(interrupted "signal-${signals// /-}")
  mentions log "interrupted after step $step"
done
