#!/bin/bash
# optimizers.sh: what no selector selects has the optimizer of all others, or the default, also beside `freeze` alone.
. "${ROOT:?}/tests/cli/lib.sh"

cat > model.mdl << 'END'
import std.nn;

model lm {
  axis batch = 4, seq = 16, vocab = 256, embed = 16, ffn = 32;
  input tokens, targets: index(vocab)[batch, seq];
  param table: [vocab, embed] ~ normal(0.02);
  x = table[tokens];
  x = x + mlp(rms_norm(x over embed, name = norm) over embed to ffn, name = mlp);
  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));
}
END

# states RECIPE SETTINGS: the parameters with the bytes of their state, one a line
states() {
  { cat model.mdl; echo "recipe $1 { model lm(); data text(\"$ROOT/LICENSE\"); steps = 2; $2 }"; } > "$1.mdl"
  expect 0 "$MDLC" explain "$1.mdl"
  awk '/^  name  /{ on = 1; next } !NF { on = 0 } on { print $1, $NF }' out
}

# Kilobytes are printed as two words, of which the last is taken: state is there or not.
states frozen 'freeze table;' > frozen
mentions frozen "table -" "mlp.up.w KiB" "norm.scale bytes"
states default '' > default
mentions default "table KiB" "mlp.up.w KiB" "norm.scale bytes"
states group 'optimizer norm: sgd(lr = 0.1);' > group
mentions group "table KiB" "mlp.up.w KiB" "norm.scale bytes"
states none 'optimizer table: none;' > none
same "both ways to freeze" "$(cat frozen)" "$(cat none)"

# The frozen table stays as it was made, and all else is trained.
train frozen.mdl --out frozen.run
expect 0 "$MDL" inspect frozen.run
mentions frozen.run/resolved.mdl "freeze table;" "optimizer adamw(lr = 3e-4, clip = 1.0);"

# An optimizer of everything is no default, and the default is none of its own.
states all 'optimizer *: sgd(lr = 0.1);' > all
mentions all "table KiB"
train all.mdl --out all.run
! grep -q adamw all.run/resolved.mdl || die "the default was added to an optimizer of everything"

# Muon as docs/language.md has it: lists of axes become one, so that singular values of the step come near 1, whatever
# axes the sides of a matrix have, under every layout.
sed -n '/^update muon/,/^}/p' "$ROOT/docs/language.md" > muon.mdl
cat >> muon.mdl << END
import std.nn;
model lm {
  axis batch = 4, seq = 16, vocab = 256, embed = 16, heads = 2, hd = 4;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  x = x + linear(tanh(linear(x over embed to heads, hd, name = up)) over heads, hd to embed, name = down);
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}
recipe r {
  model lm();
  data text("$ROOT/LICENSE");
  steps = 2;
  optimizer up, down: muon(lr = 1, decay = 0);
}
layout tp2 { mesh tp = 2; heads, vocab -> tp; }
layout z3 { mesh dp = 2; batch -> dp; param, grad, state -> dp; }
END
train muon.mdl --steps 1 --watch up --watch down --out muon.run
for name in up down; do
  sed "s/.*\"update_norm.$name\":\([0-9.e-]*\).*/\1/" muon.run/metrics.jsonl |
    awk '{ one = $1 / sqrt(8); exit !(one > 0.65 && one < 1.3) }' || die "$name: a step of $(cat muon.run/metrics.jsonl)"
done
for layout in tp2 z3; do
  expect 0 "$MDL" diff muon.mdl layout=single,$layout --precision fp64
done

# A mean over a parameter is one of it alone, wherever the text has it: in the update, in a function, in what a parameter
# of either is where nothing is given, and in a function that is given to another. Each step is then of the same size.
one_size() {  # NAME DECLARATIONS [ARGUMENT]: those of an update `even` of a learning rate, and what else it is given
  { echo "$2"; sed '1,/^import/d; /^recipe/,$d' muon.mdl; } | sed '1i import std.nn;' > "$1.mdl"
  echo "recipe r { model lm(); data text(\"$ROOT/LICENSE\"); steps = 1; optimizer even(lr = 0.1${3:+, $3}); }" >> "$1.mdl"
  train "$1.mdl" --watch up --watch table --precision fp64 --out "$1.run"
  grep -o '"update_norm[^,]*' "$1.run/metrics.jsonl" > "$1.norms"
  test "$(wc -l < "$1.norms")" = 2 || die "$1: $(cat "$1.run/metrics.jsonl")"
  same "$1" "$(cat body.norms)" "$(cat "$1.norms")"
}
RMS='fn rms(x) { return sqrt(mean(x * x)); } fn unit(x, f = rms) { return x / f(x); } fn by(x, m = rms(x)) { return x / m; }'
RMS="$RMS composite fn whole(x) { return sqrt(mean(x * x)); }"
one_size body 'update even(p, g, lr) { return p - lr * g / sqrt(mean(g * g)); }'
awk -F: '{ rows = /table/ ? 256 * 16 : 16 * 2 * 4; exit !(($2 / 0.1)^2 > 0.999 * rows && ($2 / 0.1)^2 < 1.001 * rows) }' body.norms ||
  die "a step of another size: $(cat body.norms)"
one_size called "$RMS update even(p, g, lr) { return p - lr * g / rms(g); }"
one_size default "$RMS update even(p, g, lr, size = rms(g)) { return p - lr * g / size; }"
one_size argument "$RMS update even(p, g, lr) { return p - lr * by(g); }"
one_size parameter "$RMS update even(p, g, lr, f = rms) { return p - lr * g / f(g); }"
one_size function "$RMS update even(p, g, lr) { return p - lr * unit(g); }"
one_size given "$RMS fn one(x) { return 1; } fn part(x, f = one) { return x / f(x); } update even(p, g, lr) { return p - lr * part(g, f = rms); }"
one_size composite "$RMS update even(p, g, lr) { return p - lr * g / whole(g); }"
one_size recipe "$RMS fn one(x) { return 1; } update even(p, g, lr, f = one) { return p - lr * g / f(g); }" 'f = rms'
one_size wanted "$RMS update even(p, g, lr, f) { return p - lr * g / f(g); }" 'f = rms'
one_size partly "$RMS fn most(x, least = 0) { return max(least, rms(x)); } update even(p, g, lr, f) { return p - lr * g / f(g); }" 'f = most(least = 1e-9)'

# A total over all parameters is of each by itself, wherever the text has it, also of those that another rule updates
# element by element, of which ranks store pieces; a sum over elements is that of the pieces.
total_of() {  # NAME DECLARATIONS [ARGUMENT]: those of an update `even` of a learning rate, and what else it is given
  { echo "$2"; sed '1,/^import/d; /^recipe/,$d' muon.mdl; } | sed '1i import std.nn;' > "total_$1.mdl"
  cat >> "total_$1.mdl" << END
recipe r { model lm(); data text("$ROOT/LICENSE"); batch = 12; watch *; optimizer even(lr = 0.1${3:+, $3}); optimizer up, down: sgd(lr = 0.1); }
layout z3 { mesh dp = 3; batch -> dp; param, grad, state -> dp; }
END
  expect 0 "$MDL" diff "total_$1.mdl" layout=single,z3 --precision fp64 --step 2
}
total_of largest 'update even(p, g, lr) { return p - lr * g / total(max(abs(g))); }'
total_of called "$RMS fn all(p, g) { return total(rms(g)); } update even(p, g, lr) { return p - lr * g / all(p, g); }"
total_of default "$RMS update even(p, g, lr, size = total(rms(g))) { return p - lr * g / size; }"
total_of recipe "$RMS update even(p, g, lr, size = 1) { return p - lr * g / size; }" 'size = total(sum(g * max(p)))'
total_of nested 'update even(p, g, lr) { return p - lr * g / total(sum(g * g * total(sum(g) ^ 2))); }'
total_of number 'update even(p, g, lr) { return p - lr * g / total(sum(2)); }'
total_of counted 'update even(p, g, lr) { return p - lr * (g / total(sum(exp(g))) + exp(p)); }'

# The rate of a step is that of the rule for everything, however it is given, else of the first one.
runs=0
for rules in 'sgd(0.25)' 'norm: sgd(0.125); optimizer sgd(lr = 0.25)' '*: sgd(lr = 0.25)' 'mlp: sgd(lr = 0.25); freeze norm, table' \
  'table: sgd(0.25); optimizer norm: adamw(0.125); freeze mlp'; do
  { cat model.mdl; echo "recipe r { model lm(); data text(\"$ROOT/LICENSE\"); steps = 1; optimizer $rules; }"; } > rate.mdl
  train rate.mdl --out "rate.run$((++runs))"
  mentions "rate.run$runs/metrics.jsonl" '"lr":0.25,'
done

# The run is as long as the longest schedule, whichever optimizer has it.
{ cat model.mdl; echo "recipe longest { model lm(); optimizer adamw(lr = cosine(peak = 1e-3, steps = 100));
  optimizer norm: adamw(lr = cosine(peak = 1e-3, steps = 120)); }"; } > longest.mdl
expect 0 "$MDLC" explain longest.mdl
mentions out "120 steps"

# --set of an optimizer's argument: in rules with selectors too where they say the same, or they alone say it; or in one.
cat >> longest.mdl << END
recipe rules { model lm(); data text("$ROOT/LICENSE"); steps = 1; optimizer adamw(lr = 1e-3, decay = 0.1);
  optimizer norm: adamw(lr = 1e-3, decay = 0); optimizer table: sgd(lr = 1e-2, momentum = 0.5); }
END
set_of() {  # SETTING RULE...: what the rules are then
  rm -rf set
  train longest.mdl --recipe rules --set "$1" --out set
  shift
  for rule; do
    mentions set/resolved.mdl "$rule"
  done
}
set_of optimizer.decay=0.2 'adamw(lr = 1e-3, decay = 0.2)' 'norm: adamw(lr = 1e-3, decay = 0)' 'sgd(lr = 1e-2, momentum = 0.5)'
set_of optimizer.lr=2e-3 'adamw(lr = 2e-3, decay = 0.1)' 'norm: adamw(lr = 2e-3, decay = 0)' 'sgd(lr = 1e-2, momentum = 0.5)'
set_of optimizer.momentum=0.9 'adamw(lr = 1e-3, decay = 0.1)' 'norm: adamw(lr = 1e-3, decay = 0)' 'sgd(lr = 1e-2, momentum = 0.9)'
set_of optimizer.norm.decay=0.3 'adamw(lr = 1e-3, decay = 0.1)' 'norm: adamw(lr = 1e-3, decay = 0.3)' 'momentum = 0.5'
set_of 'optimizer.betas=(0.8, 0.9)' 'adamw(lr = 1e-3, decay = 0.1, betas = (0.8, 0.9))' \
  'norm: adamw(lr = 1e-3, decay = 0, betas = (0.8, 0.9))' 'sgd(lr = 1e-2, momentum = 0.5)'
sed -i 's/optimizer adamw(lr = 1e-3, decay = 0.1);/optimizer adamw(1e-3);/; s/norm: adamw(lr = 1e-3, decay/norm: adamw(lr = 0.001, decay/' longest.mdl
set_of optimizer.decay=0.2 'adamw(1e-3, decay = 0.2)' 'norm: adamw(lr = 0.001, decay = 0)'
set_of optimizer.lr=2e-3 'adamw(2e-3)' 'norm: adamw(lr = 2e-3, decay = 0)'
for first in optimizer.norm.lr=3e-3 optimizer.lr=2e-3; do
  rm -rf set
  second=optimizer.lr=2e-3
  [ "$first" != "$second" ] || second=optimizer.norm.lr=3e-3
  train longest.mdl --recipe rules --set "$first" --set "$second" --out set
  mentions set/resolved.mdl 'adamw(2e-3)' 'norm: adamw(lr = 3e-3, decay = 0)'
done
expect 1 "$MDLC" compile longest.mdl --recipe rules --set optimizer.norm.momentum=1 -o set.mdlx
mentions err "'adamw' has no parameter 'momentum'"
