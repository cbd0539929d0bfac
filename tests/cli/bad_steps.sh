#!/bin/bash
# bad_steps.sh: bad steps in a row are counted across a resumption; the lowest validation loss behind a skipped step is kept.
. "${ROOT:?}/tests/cli/lib.sh"
# In training the loss is 50 times what it is, from step LEAP on until before step UNTIL.
sed -e 's|../../LICENSE|'"$ROOT"'/LICENSE|' -e 's|axis key like seq;|&\n  const leap = 12, until = 1000;|' -e \
  's|loss = mean(cross_entropy(logits, targets over vocab));|loss = leaps(mean(cross_entropy(logits, targets over vocab)), leap, until);|' \
  -e 's|recipe small {|& spike = 5;  validation = 0.1;  eval_batches = 4;  allow E054;|' "$SMALL" > spiky.mdl
cat >> spiky.mdl <<'END'
fn leaps(x, leap, until) {
  if training {
    return x * where((step as real) >= leap, where((step as real) < until, 50, 1), 1);
  }
  return x;
}
END
expect 4 "$MDL" train spiky.mdl --steps 40 --save-every 4 --eval-every 0 --out straight
mentions err "in 10 steps in a row, up to step 21"
train spiky.mdl --steps 18 --eval-every 0 --save-every 0 --out parts
mentions parts/checkpoints/step-00000018/manifest.json '"bad_steps": 7,'
expect 4 "$MDL" train parts --resume --steps 40 --save-every 1 --eval-every 0
mentions err "in 10 steps in a row, up to step 21"
mentions parts/checkpoints/step-00000020/manifest.json '"bad_steps": 9,'
train spiky.mdl --steps 18 --eval-every 0 --out parts --restart
train spiky.mdl --set until=19 --steps 20 --out parts --resume
mentions parts/checkpoints/step-00000020/manifest.json '"bad_steps": 0,'

# A run that goes on from a bad checkpoint knows the good one before it.
train spiky.mdl --steps 14 --eval-every 0 --save-every 7 --keep 1 --out good
train good --resume --steps 16 --eval-every 0 --save-every 2 --keep 1
mentions out "the newest good checkpoint, of step 7, is kept"
expect 4 "$MDL" train good --resume --steps 40 --eval-every 0 --save-every 0
mentions err "the newest good checkpoint is of step 7"

# The step behind which the loss is the lowest was skipped: its parameters are those of the step before.
train spiky.mdl --set until=13 --steps 12 --eval-every 4 --save-every 0 --out short
train spiky.mdl --set until=13 --steps 13 --eval-every 4 --save-every 0 --keep-best --out best
mentions best/checkpoints/step-00000012/manifest.json '"val_loss"' '"bad_steps": 1,'
same "parameters" "$(weights best 12)" "$(weights short 12)"
train spiky.mdl --set until=13 --set optimizer.lr.peak=3 --steps 17 --eval-every 1 --save-every 1 --keep 1 --out best --resume --keep-best
kept=$(sed -n 's/.*"step":\([0-9]*\),.*"val_loss":\([0-9.]*\).*/\2 \1/p' best/metrics.jsonl | sort -g | head -n 1 | cut -d' ' -f2)
[ -d "best/checkpoints/step-$(printf %08d "$kept")" ] || die "the best, of step $kept, is gone: $(ls best/checkpoints)"
train spiky.mdl --set until=13 --steps 12 --eval-every 4 --save-every 4 --keep 1 --keep-best --out twelve
same "what is kept" "$(ls twelve/checkpoints | xargs)" "step-00000008 step-00000012"
