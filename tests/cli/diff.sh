#!/bin/bash
# diff.sh: layouts that agree, and one wrong number found and named.
. "${ROOT:?}/tests/cli/lib.sh"
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
cat >> small.mdl << 'END'
layout dp2 { mesh dp = 2; batch -> dp; }
layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
layout ring4 { mesh cp = 4; seq -> cp(zigzag); attention: key -> cp(ring); }
layout slots4 { mesh pp = 2; layers -> pp; microbatches = 4; }
layout ranks1 { microbatches = 4; }
layout later { mesh pp = 2; layers -> pp; schedule gpipe, microbatches = 4; }
layout split { mesh pp = 2; layers -> pp; schedule zero_bubble, microbatches = 4; }
layout z3 { mesh dp = 2; batch -> dp; param, grad, state -> dp; microbatches = 2; }
layout moved { recompute layers; offload layers; microbatches = 4; }
layout pad3 { mesh tp = 3; ffn, vocab -> tp(pad); }
layout zigzag { mesh cp = 2; seq -> cp(zigzag); }
layout eight { mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; heads, ffn, vocab -> tp; microbatches = 2; }
END
# The control has an epsilon to turn.
sed 's/axis key like seq;/&\n  const epsilon = 1e-5;/; s/(x over embed, name = mlp_norm)/(x over embed, eps = epsilon, name = mlp_norm)/' \
  small.mdl > control.mdl

for layout in dp2 tp2 pp2 ring4 eight; do
  expect 0 "$MDL" diff small.mdl layout=single layout=$layout
  mentions out "no difference beyond the error budgets: " " values compared" "the worst is at"
done
expect 0 "$MDL" diff small.mdl layout=pp2,eight --step 8
expect 0 "$MDL" diff small.mdl layout=pp2,slots4
mentions out "; not evaluate and generate, which take one microbatch: those of the two differ in size"
# Batches of two sizes are no microbatches of each other.
expect 1 "$MDL" diff small.mdl batch=4,8
mentions out "output loss" "not compared, since their axes differ: table"
for layout in eight z3 moved pad3 zigzag; do
  expect 0 "$MDL" diff small.mdl layout=single,$layout --precision fp64
done
expect 0 "$MDL" diff small.mdl layout=single,tp2 precision=fp64,fp32
expect 0 "$MDL" diff small.mdl layout=single,single --exact
mentions out "no difference: " "are the same to the bit"
expect 1 "$MDL" diff small.mdl layout=single,tp2 --exact
expect 0 "$MDL" diff small.mdl layout=single,tp2 --all
mentions out "value layers.1.mlp_norm" "gradient of layers.0.q.w" "new table.w" "output loss" "small.mdl:14" \
  "-- the plan with outputs of all values" "-- the plan that is trained" "-- a run of its own" "-- the program evaluate"
# What differs as its gradient may is not the same to the bit.
mentions out "elements differ as their gradients may"
whole=$(grep -c ' error 0  .*0 of it$' out)
mentions out "$whole of them to the bit"
expect 0 "$MDL" diff small.mdl layout=single,pp2 --step 3 --steps 2
mentions out "compared: steps 3 to 4 of the plan with outputs of all values and of the one that is trained, the losses of a run \
of 3 steps, evaluate, generate"
expect 0 "$MDL" diff small.mdl control.mdl
mentions out "no difference: "

# Stages alone: schedules to the bit in all precisions, one rank in those that are not rounded where stages begin, but for
# what several stages read.
for precision in fp32 bf16; do
  expect 0 "$MDL" diff small.mdl layout=slots4,later --exact --precision $precision
  expect 0 "$MDL" diff small.mdl layout=slots4,split --exact --precision $precision
done
for precision in fp32 fp64; do
  expect 0 "$MDL" diff small.mdl layout=ranks1,split --exact --precision $precision
done
expect 0 "$MDL" diff small.mdl layout=ranks1,slots4 --precision bf16
expect 1 "$MDL" diff small.mdl layout=ranks1,slots4 --exact --precision bf16
sed "s/^  repeat layers {/  memory = x;\\n&\\n    x = x + tanh(linear(memory over embed to embed', name = cross)[embed' -> embed]);/" small.mdl > shared.mdl
expect 0 "$MDL" diff shared.mdl layout=ranks1,slots4
expect 0 "$MDL" diff shared.mdl layout=slots4,split --exact
mentions out "are the same to the bit"

# A matrix that the trained step never makes, as the one with outputs of all values does: rules are of what the former
# keeps for its backward.
cat > made.mdl << END
import std.nn;
model made {
  axis batch, seq, vocab = 256, embed = 32, embed' like embed, layers = 2, low = 4, ffn = 48;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  repeat layers {
    param left: [embed, low] ~ normal(0.2);
    param right: [low, ffn] ~ normal(0.2);
    made = dot(left, right over low);
    h = layer_norm(x over embed, name = norm);
    x = x + dot(dot(h, made over embed), made[embed -> embed'] over ffn)[embed' -> embed] @product;
  }
  logits = linear(layer_norm(x over embed, name = final) over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab)) @end;
}
recipe made { model made(); data text("$ROOT/LICENSE", tokenizer = bytes); batch = 8; seq = 16; steps = 4;
  optimizer adamw(lr = 3e-3, clip = 1.0); }
layout away { offload @product; }
layout none { offload @end; }
END
expect 0 "$MDL" diff made.mdl layout=single,away --precision fp64
expect 2 "$MDL" diff made.mdl layout=single,none --precision fp64
mentions err "E045" "offload @end" "moves nothing"

# Controls: the first wrong value by its name.
expect 1 "$MDL" diff control.mdl layout=single,eight epsilon=1e-5,1.01e-5
mentions out "layout=single epsilon=1e-5 and layout=eight epsilon=1.01e-5 differ at step 1, first in" \
  "value layers.0.mlp_norm  at nn.mdl:" "error " "budget" "where   [batch "
expect 1 "$MDL" diff control.mdl epsilon=1e-5,1.01e-5 --layout tp2 --all
mentions out "✗ value layers.0.mlp_norm" "✗ gradient of" "are beyond their error budgets"
expect 1 "$MDL" diff small.mdl seed=3,4
mentions out "first "
expect 1 "$MDL" diff small.mdl optimizer.lr.peak=1e-2,2e-2
mentions out "output lr"


# One wrong number in each stage: the forward, a gradient alone, the update, the optimizer's state, that of the model,
# a program that does not train.
cat > stages.mdl << 'END'
import std.nn;
model staged {
  axis batch, seq, vocab = 256, embed = 8;
  const forward = 1, backward = 0.5, decay = 0.9, shown = 1;
  input tokens, targets: index(vocab)[batch, seq];
  state center: [embed] = 0;
  param table: [vocab, embed] ~ normal(0.5);
  x = table[tokens];
  x = x * forward;
  x = tanh(x);
  y = backward * x + (1 - backward) * stop(x) - center;
  center = decay * center + (1 - decay) * stop(mean(x over batch, seq));
  logits = linear(y over embed to vocab, std = 0.5, name = head);
  loss = mean(cross_entropy(logits, targets over vocab));
  output spread = shown * mean(square(y));
}
recipe staged {
  model staged();
  data text("small.mdl");
  batch = 4;
  seq = 8;
  optimizer sgd(lr = 0.1, momentum = 0.5, decay = 0.1);
}
layout dp2 { mesh dp = 2; batch -> dp; }
layout tp2 { mesh tp = 2; embed, vocab -> tp; }
END
expect 0 "$MDL" diff stages.mdl layout=single,dp2 --precision fp64
expect 0 "$MDL" diff stages.mdl layout=single,tp2 --precision fp64
wrong() {  # wrong NAME=A,B WHAT
  expect 1 "$MDL" diff stages.mdl layout=single,tp2 "$1" --precision fp64
  mentions out "$2"
}
wrong forward=1.5,1.50001 "  value x.2  at stages.mdl:9"
wrong backward=0.5,0.50001 "  gradient of "
wrong optimizer.decay=0.1,0.11 "  new "
wrong decay=0.9,0.91 "  new center"
wrong shown=1,1.01 "differ in the program evaluate, first in
  output spread"
expect 1 "$MDL" diff stages.mdl optimizer.lr=0 optimizer.momentum=0.5,0.51 --precision fp64 --step 2
mentions out "  new sgd.m.head.w"

# Values are called what the text calls them: one that is simplified away does not shift the others.
expect 1 "$MDL" diff stages.mdl forward=1,1.00001 --precision fp64
mentions out "  value x.3  at stages.mdl:10" "1 not compared, since forward=1.00001 alone has them: x.2"

# Runs and checkpoints.
train small.mdl --steps 6 --save-every 3 --out one
train small.mdl --steps 6 --layout tp2 --out two
train small.mdl --steps 6 --set seed=4 --out other
expect 0 "$MDL" diff one one
mentions out "are the same to the bit"
expect 0 "$MDL" diff one two
mentions out "the losses of " "no difference"
expect 1 "$MDL" diff one other
mentions out "the losses differ beyond rounding first at step 1: " "first in"
expect 1 "$MDL" diff one/checkpoints/step-00000003 one/checkpoints/step-00000006
mentions out "is of step 3"
cp -r one changed
file=changed/checkpoints/step-00000006/model.safetensors
size=$(od -An -tu8 -N8 "$file" | tr -d ' ')
begin=$(head -c $((8 + size)) "$file" | grep -ao '"layers.1.q.w":{[^}]*}' | sed 's/.*"data_offsets":\[\([0-9]*\),.*/\1/')
printf '\000\000\000\077' | dd of="$file" bs=1 seek=$((8 + size + begin + 4 * (3 * 32 + 16 + 5))) conv=notrunc status=none  # 0.5
expect 1 "$MDL" diff one changed
mentions out "  layers.1.q.w" "where   [3, 1, 5]"
expect 0 "$MDL" diff one/checkpoints/step-00000006/optimizer.safetensors \
  changed/checkpoints/step-00000006/optimizer.safetensors

# What cannot be compared has status 2.
expect 2 "$MDL" diff
expect 2 "$MDL" diff small.mdl
mentions err "layout="
expect 2 "$MDL" diff small.mdl layout=single,tp3
mentions err "tp2"
expect 2 "$MDL" diff small.mdl layout=single,tp2,dp2
for option in --step=9223372036854775807 --steps=9223372036854775807 --threads=4294967297; do
  expect 2 "$MDL" diff small.mdl layout=single,tp2 "$option"
  mentions err "is a whole number from 0 to"
done
expect 2 "$MDL" diff one
expect 2 "$MDL" diff one missing
expect 2 "$MDL" diff one two layout=tp2
expect 2 "$MDL" diff one two small.mdl
expect 2 "$MDL" diff one small.mdl

# State of the model, with microbatches on stages: what only the state waits for is an output, or named as left out.
cat > combined.mdl << 'END'
import std.nn;
model combined {
  axis batch, seq, vocab = 256, embed = 4, layers = 2;
  input tokens, targets: index(vocab)[batch, seq];
  state newest: [] = 0, combine = last;
  state largest: [] = 0;
  param table: [vocab, embed] ~ normal(0.3);
  x = table[tokens];
  repeat layers {
    param g: [embed] ~ normal(1.0);
    param unread: [embed] = 1;
    state var: [embed] = 1, combine = mean;
    state mu: [embed] = 0;
    m = mean(x over batch, seq);
    again = mean(x over batch, seq) + 0;
    scaled = 2 * again;
    v = mean(square(x - m) over batch, seq);
    dropped = x * unread;
    x = x + x * g * var;
    var = 0.8 * var + 0.2 * stop(v);
    mu = 0.9 * mu + 0.1 * stop(m - scaled);
  }
  newest = stop(max(x));
  sums = square(mean(x)) + 1;
  largest = max(0.9 * largest, stop(sums));
  loss = mean(square(x * table[targets]));
}
recipe combined { model combined(); data text("small.mdl", tokenizer = bytes); batch = 8; seq = 8; }
layout slots { microbatches = 2; }
layout more { microbatches = 4; }
layout stages { mesh pp = 2; layers -> pp; microbatches = 2; }
layout gpipe { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; microbatches = 2; schedule gpipe; }
layout whole { mesh pp = 2; layers -> pp; }
layout zero { mesh pp = 2; layers -> pp; microbatches = 2; schedule zero_bubble; recompute layers; }
END
for layout in stages gpipe zero; do
  expect 0 "$MDL" diff combined.mdl layout=slots,$layout --precision fp64 --all
  mentions out "value layers.0.m " "value layers.1.scaled " "value sums " "new layers.0.var" "new newest" \
    "not compared, since neither has them: " "gradient.layers.0.unread"
done
expect 0 "$MDL" diff combined.mdl layout=single,whole --precision fp64 --all
mentions out "value layers.0.m " "value layers.0.v " \
  "2 not compared, since neither has them: gradient.layers.1.unread, gradient.layers.0.unread"
expect 1 "$MDL" diff combined.mdl layout=more,stages --precision fp64
mentions out "  new layers.0.var"  # of microbatches of another size

cat > norms.mdl << 'END'
import std.nn;
model norms {
  axis batch, seq, vocab = 256, embed = 4, layers = 4;
  const together = 2;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  repeat layers {
    h = batch_norm(x over embed, batch, seq, member = together, name = norm);
    x = x + tanh(linear(h over embed to embed', name = turn)[embed' -> embed]);
  }
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}
recipe norms { model norms(); data text("small.mdl", tokenizer = bytes); batch = 8; seq = 8; }
layout slots { microbatches = 2; }
layout stages { mesh pp = 2; layers -> pp; microbatches = 2; }
layout chunks { mesh pp = 2; layers -> pp; schedule interleaved(chunks = 2); microbatches = 4; }
layout eight { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; param, grad, state -> dp; microbatches = 2; }
layout whole { mesh pp = 4, dp = 2; layers -> pp; batch -> dp; }
END
for layout in slots stages chunks eight; do
  expect 0 "$MDL" diff norms.mdl layout=single,$layout --precision fp64 --all
  mentions out "value layers.0.norm.m " "value layers.3.norm.v " "new layers.3.norm.running_variance"
done
expect 0 "$MDL" diff norms.mdl layout=single,whole together=0 --precision fp64 --all
mentions out "value layers.3.norm.m " "new layers.3.norm.running_variance"

# Without outputs of gradients, whose pieces then begin elsewhere on every rank.
expect 0 "$MDL" diff "$ROOT/tests/layouts/deep_losses.mdl" layout=single,t --precision fp64 --data "$ROOT/LICENSE"
