#!/bin/bash
# kill.sh: killed at bad moments, again and again, a run that is resumed ends with the bits of one that never was.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 60 --save-every 1 --out whole

"$MDL" train "$SMALL" --steps 60 --save-every 1 --out killed > log 2>&1 &
for moment in 0.00 0.03 0.05; do
  wait_for 20 compgen -G 'killed/checkpoints/step-*'
  sleep "$moment"
  kill -9 $! 2> /dev/null || true
  wait $! || true
  "$MDL" train "$SMALL" --steps 60 --save-every 1 --out killed --resume >> log 2>&1 &
done
wait $! || { cat log >&2; die "the last continuation failed"; }
same "killed and not" "$(weights whole 60)" "$(weights killed 60)"
grep -q "" killed/metrics.jsonl
same "steps of metrics" "$(losses whole)" "$(losses killed)"

# What a kill leaves of a plan is removed when the run goes on, and nothing else that is called alike.
touch killed/plan.mdlx.tmp-0a1b2c killed/plan.mdlx.backup killed/plan.mdlx.261126  # a date
train killed --resume --steps 61
[ ! -e killed/plan.mdlx.tmp-0a1b2c ] || die "a part of a plan is left"
[ -e killed/plan.mdlx.backup ] && [ -e killed/plan.mdlx.261126 ] || die "a file of somebody else was removed"
