#!/bin/bash
# ranks.sh: several ranks as threads: resumed under other layouts, used by generate and eval, lost, killed, interrupted.
. "${ROOT:?}/tests/cli/lib.sh"
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > ranks.mdl
cat >> ranks.mdl << 'END'
layout dp2 { mesh dp = 2; batch -> dp; }
layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }
layout ring { mesh cp = 4; seq -> cp(zigzag); attention: key -> cp(ring); recompute attention; }
layout eight { mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; heads, ffn, vocab -> tp; microbatches = 2; }
END

# The same training, with what was saved under one layout continued under the next.
train ranks.mdl --steps 9 --out one
train ranks.mdl --steps 3 --layout eight --out moved
mentions out "8 ranks (pp 2 x dp 2 x tp 2) as threads"
train ranks.mdl --steps 6 --layout tp2 --out moved --resume
train ranks.mdl --steps 7 --layout ring --out moved --resume
train ranks.mdl --steps 9 --layout dp2 --out moved --resume
loss() {
  losses "$1" | sed -n 's/^9 \([0-9]*\.[0-9][0-9][0-9]\).*/\1/p'
}
[ -n "$(loss one)" ] || die "there is no loss of step 9"
same "losses of step 9" "$(loss one)" "$(loss moved)"

# Resuming under the same layout is to the bit; saving does not depend on how often.
train ranks.mdl --steps 9 --layout eight --out whole
train ranks.mdl --steps 4 --layout eight --out parts
train parts --steps 9 --resume
same "resumed and not" "$(weights whole 9)" "$(weights parts 9)"

train ranks.mdl --steps 4 --layout ring --out ring
train ranks.mdl --steps 4 --layout ring --out again
same "a ring twice" "$(weights ring 4)" "$(weights again 4)"

# A run of several ranks is used as one.
expect 0 "$MDL" eval whole
mentions out "step           9"
expect 0 "$MDL" generate whole --prompt The --tokens 20 --temperature 0
cp out several
train ranks.mdl --steps 1 --out alone
cp -r whole/checkpoints/step-00000009 alone/checkpoints/
expect 0 "$MDL" generate alone --prompt The --tokens 20 --temperature 0
same "text of one rank and of several" "$(cat out)" "$(cat several)"

# A rank that is lost ends all with status 5, and says where.
MDL_FAULT=die:5:40 expect 5 "$MDL" train ranks.mdl --steps 9 --layout eight --out died
mentions err "rank 5 is lost: its thread has ended; rank 5 was last at the " ".mdl:"
MDL_FAULT=hang:3:40 expect 5 "$MDL" train ranks.mdl --steps 9 --layout eight --out hung --deadline 0.5
mentions err "rank 3 has not arrived after 0.5 s at the " "rank 3 was last at the "
MDL_FAULT=skip:1:2 expect 5 "$MDL" train ranks.mdl --steps 9 --layout dp2 --out skipped --deadline 5
mentions err "ranks do not agree: rank 0 is at the "
MDL_FAULT=nonsense expect 2 "$MDL" train ranks.mdl --steps 9 --layout dp2 --out nonsense
train died --steps 9 --resume
same "died and not" "$(weights whole 9)" "$(weights died 9)"

# Being stopped for longer than the deadline is no reason to give up.
"$MDL" train ranks.mdl --steps 20000 --save-every 0 --eval-every 0 --layout eight --out paused --deadline 1 > log 2>&1 &
wait_for 20 grep -q "step" paused/metrics.jsonl
for round in 1 2 3; do
  kill -STOP $!
  sleep 1.2
  kill -CONT $!
  sleep 0.1
done
kill -INT $!
status=0
wait $! || status=$?
[ "$status" = 130 ] || { cat log >&2; die "stopped and continued: status $status"; }

# Killed and interrupted.
"$MDL" train ranks.mdl --steps 60 --save-every 1 --layout eight --out killed > log 2>&1 &
wait_for 20 saved killed 5
kill -9 $!
wait $! || true
train killed --steps 60 --save-every 1 --resume
train ranks.mdl --steps 60 --layout eight --out calm
same "killed and not" "$(weights calm 60)" "$(weights killed 60)"
interrupts stopped/metrics.jsonl \
  "$MDL" train ranks.mdl --steps 100000 --save-every 0 --eval-every 0 --layout eight --out stopped
grep -q "saved" log || die "nothing was saved"
