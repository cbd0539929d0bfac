#!/bin/bash
# scan.sh: recurrences that are solved at once compute, forward and backward, what they compute position by position:
# sequences of one chunk, of several, of a length without divisors, with every kind of decay. Generating reads all of them.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt

# text SEQ BODY: a model whose scan is BODY; what is carried goes through `carried`, which does nothing
text() {
  cat <<END
import std.nn;
fn carried(x) { return x; }
model scanned {
  axis batch, seq, vocab = 256, embed = 8, heads = 2, hd = 4, cell = 6;
  input tokens, targets: index(vocab)[batch, seq];
  param table: [vocab, embed] ~ normal(0.5);
  param first: [heads, hd, cell] ~ normal(0.5);
  param rate: [heads] ~ normal(0.5);
  param bonus: [heads, cell] ~ normal(0.5);
  x = table[tokens];
  v = linear(x over embed to heads, hd, std = 0.5);
  b = linear(x over embed to cell, std = 0.5);
  c = linear(x over embed to heads, cell, std = 0.5);
  f = linear(x over embed to heads, std = 0.5);
  g = linear(x over embed to heads, hd, std = 0.5);
  w = linear(x over embed to heads, hd, cell, std = 0.5);
  k = linear(x over embed to heads, cell, std = 0.5);
  d = linear(x over embed to heads, cell, std = 0.5);
  scan seq { $2 }
  x = x + linear(y over heads, hd to embed, std = 0.5, name = mixed);
  logits = dot(x, table over embed);
  loss = mean(cross_entropy(logits, targets over vocab));
}
recipe r { model scanned(); data text("text.txt", tokenizer = bytes); batch = 2; seq = $1; steps = 3;
  optimizer adamw(lr = constant(0.01)); }
END
}

# same SEQ BODY
same_both() {
  text "$1" "$2" > at_once.mdl
  sed 's/return x; }/return max(x, -1e30); }/' at_once.mdl > by_steps.mdl
  "$MDLC" print at_once.mdl --after recurrences > at_once.txt
  "$MDLC" print by_steps.mdl --after recurrences > by_steps.txt
  [ "$(wc -l < by_steps.txt)" -gt $(($(wc -l < at_once.txt) + $1)) ] || die "$2: nothing goes position by position"
  # A gradient of a rate is a sum over positions of terms that cancel: two orders of it differ by more than usual.
  "$MDL" diff at_once.mdl by_steps.mdl --precision fp64 --budget 4 > out 2>&1 || { cat out >&2; die "$1, $2: differs"; }
}

for seq in 40 127 192; do
  same_both $seq "carry h: [batch, heads, hd, cell] = 0;
    h = carried(h) * exp(-exp(f + rate)) + outer(v * sigmoid(f), b); y = dot(h, c over cell);"
  same_both $seq "carry h: [batch, heads, hd] = 0; h = sigmoid(g) * carried(h) + (1 - sigmoid(g)) * v; y = h;"
done
# What is carried on from nothing before, as a shift by one position.
text 40 "carry h: [batch, heads, hd] = 0; y = h; h = v;" > shift.mdl
text 40 "carry h: [batch, heads, hd] = 0; y = h; h = v + 0 * carried(h);" > shifted.mdl
"$MDL" diff shift.mdl shifted.mdl --precision fp64 > out 2>&1 || { cat out >&2; die "a shift differs"; }
# RetNet, gated linear attention and RWKV-6: one decay for each head, one for each channel of the keys, and one of those
# where the present position has a weight of its own and only what was before is read.
for seq in 40 127; do
  same_both $seq "carry h: [batch, heads, hd, cell] = 0;
    h = carried(h) * exp(-exp(rate)) + outer(v, k); y = dot(h, c over cell);"
  same_both $seq "carry h: [batch, heads, hd, cell] = 0;
    h = carried(h) * sigmoid(d) + outer(v, k); y = dot(h, c over cell);"
  same_both $seq "carry h: [batch, heads, hd, cell] = 0; old = dot(h, c over cell);
    h = carried(h) * exp(-exp(d)) + outer(v, k); y = old + v * sum(c * bonus * k over cell);"
done
same_both 127 "carry s: [batch, heads, hd, cell] = first; old = dot(s, c over cell);
  s = where(tokens == 32, v, carried(s) * sin(f)) - outer(b, g); y = old + sum(s * tanh(w) over cell);"
same_both 127 "carry p: [batch, heads, hd] = 0; carry q: [batch, heads, hd] = 1;
  p = 0.875 * carried(p) + v; q = (carried(q) - p) / 1.25; y = p + q;"

"$MDL" train at_once.mdl --out run > out 2>&1
"$MDL" generate run --prompt 'The ' --tokens 8 > out 2>&1 || { cat out >&2; die "it does not generate"; }
