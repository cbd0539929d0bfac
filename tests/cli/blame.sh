#!/bin/bash
# blame.sh: of a step that is not finite, the first value that is not is named: its operation, its line, its place.
. "${ROOT:?}/tests/cli/lib.sh"
# A logarithm of 0 where token 101 ('e') stands, behind step 2 alone, in a function of its own, without a name.
# Masks of attention written out hold -inf, which is no fault.
cat > bad.mdl <<'END'
import std.nn;

fn squashed(x, tokens over embed to hd) {
  y = linear(linear(x over embed to hd, name = inner) over hd to embed, name = outer);
  hit = where(tokens == 101, where((step as real) > 2.5, 1, 0), 0);
  return y + log(1 - hit);
}

fn rooted(x) {
  hit = where((step as real) > 2.5, 0, 1);
  return x + sqrt(x * x * hit);
}

model bad {
  axis batch, seq;
  axis vocab = 256, embed = 16, hd = 8, layers = 2;
  axis key like seq;
  const forward = true;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  repeat layers {
    q = linear(x over embed to hd);
    k = linear(x over embed to hd);
    s = dot(q, k[seq -> key] over hd);
    s = where(pos(key) <= pos(seq), s, -inf) + 1;
    x = x + dot(softmax(s over key), x[seq -> key] over key);
  }
  if forward {
    x = squashed(x, tokens over embed to hd, name = squash);
  } else {
    x = rooted(x, name = root);
  }
  logits = linear(x over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab));
}

recipe bad {
  model bad();
  data text("LICENSE", tokenizer = bytes);
  batch = 4;
  seq = 16;
  steps = 4;
  optimizer adamw(lr = 1e-3);
}

layout dp2 { mesh dp = 2; batch -> dp; microbatches = 2; }
layout tp2 { mesh tp = 2; vocab -> tp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
END
cp "$ROOT/LICENSE" .
line() {
  grep -nF -- "$1" "$2" | head -n 1 | cut -d: -f1
}
log=bad.mdl:$(line "log(1 - hit)" bad.mdl)
root=bad.mdl:$(line "sqrt(x * x" bad.mdl)

for layout in single dp2 tp2 pp2; do
  train bad.mdl --layout $layout --blame --out $layout
  mentions out "blame     step 3, batch 3: the first value that is not finite is a value that has no name, in squash, made by log at $log: it is -inf at [" \
    " values before it are finite"
  mentions $layout/log.txt "made by log at $log"
  same "$layout: the first of bad steps in a row alone" "$(grep -c blame out)" 1
done
# The place it names is one where the token stands.
grep -o 'at \[.*\]' out | grep 'batch .*seq ' > /dev/null || { cat out >&2; die "no place is named"; }

# The backward: the root of 0 has no slope.
train bad.mdl --set forward=false --blame --out back
mentions out "the gradient of " "made by the backward of sqrt at $root: it is "

# What a composite does inside is one value, and called by its name: here scores that are none of hidden keys.
cat > scores.mdl << 'END'
import std.nn;

fn far(s over seq, key) {
  return s * log(1 + ((pos(seq) - pos(key)) as real));
}

model scores {
  axis batch = 2, seq = 16, vocab = 256, embed = 8;
  axis key like seq;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  k = x[seq -> key];
  x = x + attention(x, k, k over embed, seq, key, causal = true, score = far);
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}

recipe scores { model scores(); data text("LICENSE"); steps = 2; }
END
expect 4 "$MDL" train scores.mdl --blame --out scores
mentions out "made by the backward of attention at "

# Looking changes nothing that is trained, and is not done where nobody asks.
train bad.mdl --out plain
same "weights" "$(weights plain 4)" "$(weights single 4)"
! grep -q blame out || die "blamed without --blame"
train bad.mdl --blame --steps 2 --out good
! grep -q blame out || die "blamed without a bad step"

# A plan holds its text: lines are those of the run's resolved.mdl.
train bad.mdl --steps 2 --out parts
train parts --resume --steps 4 --blame
resolved=resolved.mdl:$(line "log(1 - hit)" parts/resolved.mdl)
mentions out "made by log at $resolved: it is -inf"
same "weights of a run in parts" "$(weights plain 4)" "$(weights parts 4)"

# Where no step was good a run has diverged, however few there were; a run that has had good ones may end with bad ones.
sed 's/^  loss = .*/  loss = mean(cross_entropy(logits, targets over vocab)) + log(-1 - mean(square(logits)));/' "$SMALL" |
  sed "s,../../LICENSE,$ROOT/LICENSE," > never.mdl
expect 4 "$MDL" train never.mdl --steps 1 --out never-one
mentions err "training diverged: the loss was not a finite number and the update was skipped in the only step, up to step 1" \
  "the newest checkpoint is of step 1" "--blame says which value"
expect 4 "$MDL" train never.mdl --steps 4 --save-every 2 --out never
mentions err "in all 4 steps, up to step 4; the newest checkpoint is of step 4"
expect 4 "$MDL" train never.mdl --steps 6 --out never --resume
mentions err "in all 2 steps, up to step 6"
