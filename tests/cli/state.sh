#!/bin/bash
# state.sh: state of the model goes on to the bit when a run is resumed, and an evaluation is the same under each layout.
. "${ROOT:?}/tests/cli/lib.sh"
cat > state.mdl << 'END'
import std.nn;

model keeps {
  axis batch, seq, vocab = 256, embed = 16, wide = 16, layers = 2;
  input tokens, targets: index(vocab)[batch, seq];
  param table: [vocab, embed] ~ normal(0.5);
  state teacher: [vocab, embed] = 0;
  state spread: [embed] = 1;
  state newest: [] = 0, combine = last;
  x = table[tokens];
  repeat layers {
    h = batch_norm(x over embed, batch, seq, member = 2, name = norm);
    x = x + tanh(linear(h over embed to wide, name = up))[wide -> embed];
  }
  spread = 0.5 * spread + 0.5 * (mean(x * x over batch, seq) - square(mean(x over batch, seq)));
  newest = max(x);
  teacher = 0.9 * teacher + 0.1 * table;
  logits = dot(x, table over embed) + 0.1 * dot(x / sqrt(spread + 1), teacher over embed);
  loss = sum(cross_entropy(logits, targets over vocab)) / 100 + 0.01 * mean(square(table));
}

recipe keeps {
  model keeps();
  data text("LICENSE", tokenizer = bytes);
  batch = 8;
  seq = 32;
  steps = 4;
  optimizer adamw(lr = constant(0.01), clip = 1.0);
}

layout one { microbatches = 1; }
layout two { microbatches = 2; }
layout stages { mesh pp = 2; layers -> pp; microbatches = 4; }
END
cp "$ROOT/LICENSE" LICENSE

for layout in one two stages; do
  train state.mdl --layout $layout --precision fp64 --steps 4 --out "whole-$layout"
  train state.mdl --layout $layout --precision fp64 --steps 2 --out "parts-$layout"
  train state.mdl --layout $layout --precision fp64 --steps 4 --out "parts-$layout" --resume
  same "2 + 2 steps and 4, $layout" "$(weights "whole-$layout" 4)" "$(weights "parts-$layout" 4)"
done

# An evaluation takes a microbatch at a time, of a layout of one rank: a batch of the recipe is eight windows, whatever
# takes them. The loss is a sum.
evaluated() {
  expect 0 "$MDL" eval "whole-$1" --batches "$2"
  sed -n 's/^loss *\([-0-9.]*\).*/\1/p' out
}
one=$(evaluated one 1)
[ -n "$one" ] || die "no loss is said: $(cat out)"
same "evaluations of one and two microbatches" "$one" "$(evaluated two 1)"
same "evaluations of one rank and of stages" "$one" "$(evaluated stages 1)"

# A control: other windows give another loss.
[ "$one" != "$(evaluated one 2)" ] || die "the evaluation does not depend on its data"
