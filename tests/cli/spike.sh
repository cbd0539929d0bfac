#!/bin/bash
# spike.sh: a step whose loss leaps up changes nothing, to the bit, under every layout and across a resumption.
. "${ROOT:?}/tests/cli/lib.sh"
# The loss is 50 times what it is, from step LEAP on for so many steps.
sed -e 's|../../LICENSE|'"$ROOT"'/LICENSE|' -e 's|axis key like seq;|&\n  const leap = 12, until = 14;|' -e \
  's|loss = mean(cross_entropy(logits, targets over vocab));|loss = mean(cross_entropy(logits, targets over vocab)) * where((step as real) >= leap, where((step as real) < until, 50, 1), 1);|' \
  -e 's|recipe small {|& spike = 5;|' "$SMALL" > spiky.mdl
cat >> spiky.mdl <<'END'
layout dp2 { mesh dp = 2; batch -> dp; microbatches = 2; }
layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }
layout z3 { mesh dp = 2; batch -> dp; param, grad, state -> dp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
END
for layout in single dp2 tp2 z3 pp2; do
  train spiky.mdl --layout $layout --steps 16 --save-every 1 --keep 0 --out $layout
  mentions out "spike     step 12, batch 12: the loss is " "spike     step 13, batch 13"
  same "$layout: spikes" "$(grep -c '^spike' $layout/log.txt)" 2
  same "$layout: neither weights nor state change" "$(weights $layout 11)" "$(weights $layout 13)"
  [ "$(weights $layout 13)" != "$(weights $layout 14)" ] || die "$layout: nothing is trained behind a spike"
  mentions $layout/checkpoints/step-00000016/manifest.json '"skipped": 2,'
done

# A run in parts, and under another layout, decides the same.
train spiky.mdl --layout single --steps 10 --out parts
train parts --steps 16 --resume
same "a run in parts" "$(weights single 16)" "$(weights parts 16)"
train spiky.mdl --layout single --steps 11 --out other
train spiky.mdl --layout dp2 --steps 13 --out other --resume
mentions out "spike     step 12" "spike     step 13"

# Without it, or before there are 8 losses to judge by, they are trained on; --blame has nothing to say of a spike.
sed 's| spike = 5;||' spiky.mdl > plain.mdl
train plain.mdl --steps 13 --save-every 1 --out plain
! grep -q '^spike' plain/log.txt || die "a spike without the entry"
[ "$(weights plain 11)" != "$(weights plain 12)" ] || die "nothing was trained"
train spiky.mdl --set leap=8 --set until=9 --steps 9 --out early
! grep -q '^spike' early/log.txt || die "judged by fewer than 8 losses"
train spiky.mdl --steps 12 --blame --out blamed
! grep -q '^blame' blamed/log.txt || die "a spike is blamed on a value"
mentions single/resolved.mdl "spike = 5;"

# A run that had none goes on with it: it judges once it has the losses of 8 steps. So does one that has it no longer.
train plain.mdl --steps 3 --out begun
train spiky.mdl --steps 10 --resume --out begun
mentions out "the run had no \`spike\` and kept no losses to judge by" "\`spike = 5\` is new"
! grep -q '^spike' begun/log.txt || die "judged without losses"
train spiky.mdl --steps 16 --resume --out begun
! grep -q "kept no losses" out || die "the losses of the run are not known"
same "spikes of a run that began without" "$(grep -c '^spike' begun/log.txt)" 2
train plain.mdl --steps 18 --resume --out begun
mentions out "\`spike = 5\` is gone"
sed 's|^  optimizer norm.*||; s|optimizer adamw(.*|optimizer sgd(lr = 1e-2);|' plain.mdl > plainer.mdl
train plainer.mdl --steps 3 --out least
train plainer.mdl --set spike=5 --layout z3 --steps 16 --resume --out least
same "spikes under another layout" "$(grep -c '^spike' least/log.txt)" 2
# With another optimizer it is no matter of the losses.
expect 1 "$MDL" train plainer.mdl --set spike=5 --steps 20 --resume --out begun
mentions err "it was trained with another optimizer"
! grep -q "spike.losses" err || die "the losses are missing"

# One that never ends ends the run.
expect 4 "$MDL" train spiky.mdl --set until=100 --steps 40 --out ever
mentions err "training diverged: the loss was a spike and the update was skipped in 10 steps in a row, up to step 21"

for wrong in 0.5 -1 seq; do
  expect 1 "$MDL" train spiky.mdl --set "spike=$wrong" --out wrong
  mentions err "E051" "spike must be a number from 1 to"
done
