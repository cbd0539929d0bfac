#!/bin/bash
# resolved.sh: resolved.mdl of a run is a text by itself that trains to the same bits.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 4 --out first --set embed=48 --set batch=2 --precision fp32
[ -s first/resolved.mdl ] || die "there is no resolved.mdl"
expect 0 "$MDLC" check first/resolved.mdl
expect 0 "$MDLC" fmt --check first/resolved.mdl
cp first/resolved.mdl alone.mdl
train alone.mdl --steps 4 --out second
same "the losses" "$(losses first)" "$(losses second)"
same "the weights" "$(weights first 4)" "$(weights second 4)"
same "resolved again" "$(cat first/resolved.mdl)" "$(cat second/resolved.mdl)"

# Data that the text does not name stands in a comment behind it, and stays there when the run goes on.
! grep -q "^// Data of the run" first/resolved.mdl || die "data that the text names is named twice"
cp "$ROOT/README.md" other.txt
train "$SMALL" --steps 2 --out given --set batch=2 --data other.txt
same "the last line" "// Data of the run: --data \"$PWD/other.txt\"" "$(tail -n 1 given/resolved.mdl)"
expect 0 "$MDLC" fmt --check given/resolved.mdl
expect 0 "$MDL" train given --resume --steps 3
cp other.txt more.txt
expect 0 "$MDL" train given --resume --steps 4 --data "$PWD/other.txt"
train "$SMALL" --steps 2 --out pattern --set batch=2 --data '*.txt'
same "the last line of a pattern" "// Data of the run: --data \"$PWD/*.txt\"" "$(tail -n 1 pattern/resolved.mdl)"
sed 's/  data text(\(.*\));/  data mix(a = 0.5 * text(\1), b = 0.5 * text("other.txt"));/' "$SMALL" | sed "s,../../LICENSE,$ROOT/LICENSE," > mixed.mdl
train mixed.mdl --steps 2 --out mixed --set batch=2 --data more.txt
same "the last line in the place of a mix" "// Data of the run: --data \"$PWD/more.txt\"" "$(tail -n 1 mixed/resolved.mdl)"
same "the last line, later" "// Data of the run: --data \"$PWD/other.txt\"" "$(tail -n 1 given/resolved.mdl)"

# So do weights that the run began with, also when it goes on.
train "$SMALL" --steps 2 --out tuned --set batch=2 --from given --data other.txt
same "weights of the beginning" "// Weights of its beginning: --from \"$PWD/given\"" "$(tail -n 2 tuned/resolved.mdl | head -n 1)"
train tuned --resume --steps 3
same "weights of the beginning, later" "// Weights of its beginning: --from \"$PWD/given\"" "$(tail -n 2 tuned/resolved.mdl | head -n 1)"
expect 0 "$MDLC" fmt --check tuned/resolved.mdl
train "$SMALL" --steps 2 --out partly --set batch=2 --from given/checkpoints/step-00000004 --partial
same "a part of weights" "// Weights of its beginning: --from \"$PWD/given/checkpoints/step-00000004\" --partial" "$(tail -n 1 partly/resolved.mdl)"

# Patterns have absolute directories too, also in mixes and of validation sources: of the working directory, or else
# beside the text.
mkdir -p 'be[side/shards' here elsewhere
cp other.txt 'be[side/shards/p1.txt'
cp other.txt 'be[side/shards/p2.txt'
cp other.txt here/h1.txt
sed 's/  data text(.*);/  data mix(a = text("shards\/p*.txt"), b = text("here\/h?.txt"));\n  validation sets(s = text("shards\/*1.txt"), v = text("h*\/h1.txt"));/' \
  "$SMALL" > 'be[side/wild.mdl'
train 'be[side/wild.mdl' --steps 2 --out wild
mentions wild/resolved.mdl "text(\"$PWD/be\\\\[side/shards/p*.txt\")" "text(\"$PWD/here/h?.txt\")" \
  "text(\"$PWD/be\\\\[side/shards/*1.txt\")" "text(\"$PWD/h*/h1.txt\")"
(cd elsewhere && expect 0 "$MDL" train ../wild/resolved.mdl --steps 2 --out wild && cp -r wild ../wild-again)
same "the losses of patterns" "$(losses wild)" "$(losses wild-again)"
# What a text cannot hold stays as it is, which a comment says.
odd=$'control\001'
mkdir "$odd"
cp other.txt "$odd/t.txt"
sed 's/  data text(.*);/  data text("t.txt");/' "$SMALL" > "$odd/odd.mdl"
(cd "$odd" && train odd.mdl --steps 1 --out run && train odd.mdl --steps 1 --data "$PWD/t.txt" --out given)
for run in run given; do
  expect 0 "$MDLC" check "$odd/$run/resolved.mdl"
  expect 0 "$MDLC" fmt --check "$odd/$run/resolved.mdl"
  mentions "$odd/$run/resolved.mdl" 'data text("t.txt"' "// The directory of t.txt has a name that no text can hold"
done

# What --set changes in the layout stands there as well.
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
echo "layout split { mesh dp = 4, tp = 1; batch -> dp; heads, ffn -> tp; }" >> small.mdl
train small.mdl --steps 2 --out split --layout split --set mesh.dp=1 --set mesh.tp=2 --set microbatches=2
mentions split/resolved.mdl "dp = 1" "tp = 2" "microbatches = 2"
mentions split/log.txt "2 ranks (dp 1 x tp 2)"
expect 0 "$MDLC" fmt --check split/resolved.mdl
cp split/resolved.mdl alone.mdl
train alone.mdl --steps 2 --out split-again
same "the losses under that layout" "$(losses split)" "$(losses split-again)"
train small.mdl --steps 2 --out accumulated --set microbatches=4
mentions accumulated/resolved.mdl "layout single" "microbatches = 4"

# What it takes over of the library and of other files is not warned about where it did not stand: not of what nothing
# calls, `name = mlp` being no call, nor of a parameter's default that changes nothing, as `all_keys`.
cat > parts.mdl <<'T'
import std.nn;
fn used(x over a) { return x + rms_norm(x over a); }
fn unused(x) { return twice(x); }
fn twice(x) { return x + x; }
T
cat > main.mdl <<T
import std.nn;
import "parts.mdl";
model tiny {
  axis batch, seq, vocab = 256, embed = 8, heads = 2, hd = 4, ffn = 8;
  axis key like seq;
  input tokens, targets: index(vocab)[batch, seq];
  x = used(embedding(tokens over vocab to embed, name = table) over embed);
  q = linear(x over embed to heads, hd);
  k = linear(x over embed to heads, hd);
  v = linear(x over embed to heads, hd);
  x = x + linear(attention(q, k[seq -> key], v[seq -> key] over hd, seq, key, causal = true) over heads, hd to embed);
  x = x + swiglu(x over embed to ffn, name = mlp);
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}
recipe tiny {
  model tiny();
  batch = 2;
  seq = 8;
  data text("$ROOT/LICENSE");
  optimizer sgd(lr = 1e-2);
}
T
expect 0 "$MDLC" check main.mdl
[ ! -s err ] || die "$(cat err)"
train main.mdl --steps 1 --out parts
cp parts/resolved.mdl parts-alone.mdl
expect 0 "$MDLC" check parts-alone.mdl
[ ! -s err ] || die "$(cat err)"
mentions parts-alone.mdl "fn used(" "fn all_keys(" "fn swiglu("
! grep -Eq "^fn (mlp|unused|twice|gelu)\(" parts-alone.mdl || die "functions that nothing calls are taken over"
