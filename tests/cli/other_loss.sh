#!/bin/bash
# other_loss.sh: --patience and --keep-best compare no losses that are of other quantities, and compare all that are of the same.
. "${ROOT:?}/tests/cli/lib.sh"
NOTE="validates with, or its loss, is not what it was when it was saved"
options="--eval-every 2 --save-every 2 --keep 1 --keep-best"
silent() { ! grep -q "or its loss, is not" out || die "$1: $(cat out)"; }
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e 's/  seed = 3;/&  validation = 0.1;  eval_batches = 4;/' "$SMALL" > nats.mdl

# A sum grows with the batch; with more windows of it, also of all windows there are.
sed -e 's/mean(cross_entropy/sum(cross_entropy/; s/eval_batches = 4/eval_batches = 0; allow E054/; s/validation = 0.1/validation = 0.02/' nats.mdl > sum.mdl
train sum.mdl $options --steps 4 --out sum
train sum.mdl $options --steps 6 --out sum --resume --set optimizer.lr.peak=2e-2
silent "a sum of the same batch is taken for another"
train sum.mdl $options --steps 14 --out sum --resume --set batch=8 --patience 2
mentions out "$NOTE"
! grep -q stopped out || die "sums of another batch were compared: $(cat out)"
train sum --resume --steps 16 --patience 9
silent "the same sum is taken for another"

# With another term, or another weight of it; as text and as constant. Another schedule is none.
sed -e 's/^  loss = \(.*\);/  const z = 0;\n  loss = \1 + z * mean(square(logits));/' nats.mdl > more.mdl
train more.mdl $options --steps 4 --out more
for z in 1 20; do
  cp -r more more-$z
  train more.mdl $options --steps 12 --out more-$z --resume --set z=$z --patience 2
  mentions out "$NOTE"
  ! grep -q stopped out || die "losses with another weight of a term were compared: $(cat out)"
  train more.mdl $options --steps $((z == 1 ? 6 : 8)) --out more --resume --set z=$z
done
train more.mdl $options --steps 10 --out more --resume --set z=20 --set optimizer.lr.peak=2e-2
silent "another schedule is taken for another loss"
older more
sed -e 's/const z = 0/const z = 0.5/' more.mdl > text.mdl
train text.mdl $options --steps 12 --out more --resume
mentions out "$NOTE"

# Nats per token are nats per token, whatever model they are of.
train nats.mdl $options --steps 4 --out nats
sed -e 's/^  logits = linear(\(.*\));/  logits = 0.5 * linear(\1);/' nats.mdl > half.mdl
train half.mdl $options --steps 6 --out nats --resume
mentions out "model small"
! grep -q "is not what it was when it was saved" out || die "nats per token are taken for others: $(cat out)"
