#!/bin/bash
# mistakes.sh: files in place of directories and the contrary, plans that are none, runs that are damaged: what is said.
. "${ROOT:?}/tests/cli/lib.sh"
cp "$SMALL" small.mdl
mkdir folder other
: > other/file

# said STATUS WORDS COMMAND...: the status, and what stderr mentions
said() {
  local status=$1 words=$2
  shift 2
  expect "$status" "$@"
  mentions err "$words"
}

cp small.mdl laid.mdl
echo "layout one { mesh dp = 2; batch -> dp; } layout other { mesh dp = 4; batch -> dp; }" >> laid.mdl
said 1 "the layouts of this text are one, other" "$MDLC" check laid.mdl --layout unknown_here
said 1 "the data file ../../LICENSE is neither in the working directory nor beside the text" "$MDL" train small.mdl
mentions err "--data FILE"
said 1 "the directory folder is no run: it holds no plan.mdlx" "$MDL" train folder --resume
said 1 "the directory other is not empty; give another --out" "$MDL" train "$SMALL" --out other
said 1 "the name of the run directory is empty" "$MDL" train "$SMALL" --out ""
said 1 'the data file folder/ is a directory; a pattern names the files in it, such as "folder/*.txt"' \
  "$MDL" train "$SMALL" --data folder/ --out never
said 2 "--steps must be at least 1, not 0" "$MDL" train "$SMALL" --steps 0 --out never
[ ! -e never ] || die "a mistake made a run"
said 1 "small.mdl is a file and no run directory" "$MDL" eval small.mdl
said 1 "folder is neither a run (plan.mdlx) nor a checkpoint (manifest.json)" "$MDL" generate folder
said 2 "--steps takes a whole number, and 99999999999999999999 is out of range" \
  "$MDL" train "$SMALL" --steps 99999999999999999999

# A plan is no text, and a text is no plan, whatever their names say.
expect 0 "$MDLC" compile small.mdl -o plan.mdlx
said 1 "'plan.mdlx' is no text: it holds zero bytes" "$MDLC" check plan.mdlx
mentions err "a compiled plan goes to \`mdl train\`" "1 error"
cp small.mdl text.mdlx
said 1 "text.mdlx is no plan" "$MDL" train text.mdlx
said 1 "missing.mdlx" "$MDL" train missing.mdlx

# A checkpoint without its manifest is damaged; an older one can be named, and nobody is told to remove anything.
train "$SMALL" --steps 2 --save-every 1 --out run
mentions out "training  2 steps of" "done      2 steps in"
train "$SMALL" --steps 1 --out one
mentions out "training  1 step of" "done      1 step in"
rm run/checkpoints/step-00000002/manifest.json
said 1 "step-00000002 is damaged: manifest.json is not there; mdl verify says which are whole" "$MDL" eval run
expect 0 "$MDL" eval run/checkpoints/step-00000001

said 1 "the directory one is not empty; give another --out, or continue the run in it: mdl train one --resume" \
  "$MDL" train "$SMALL" --steps 1 --out one

# What other programs call it, and what the other of the two programs has.
said 2 "unknown option '--batch'; a setting of the recipe is --set batch=N" "$MDL" train small.mdl --batch 4
said 2 "unknown option '--lr'; it belongs to the optimizer: --set optimizer.lr=X" "$MDL" train small.mdl --lr=1e-3
said 2 "unknown option '--max_new_tokens'; did you mean --tokens?" "$MDL" generate run --max_new_tokens 3
said 2 "unknown command 'check'; did you mean 'mdlc check'?" "$MDL" check small.mdl
said 2 "unknown command 'train'; did you mean 'mdl train'?" "$MDLC" train small.mdl
said 2 "unknown command 'small.mdl'; did you mean 'mdl train small.mdl'?" "$MDL" small.mdl

# Commands that are suggested can be pasted.
train "$SMALL" --steps 1 --out "it's a run"
mentions out "mdl generate 'it'\\''s a run' --prompt TEXT"

# A text without an end, and a directory or a pipe in its place.
expect 1 timeout 60 "$MDLC" check /dev/zero
mentions err "cannot read '/dev/zero': File too large"
printf 'import "%s/pipe";\n' "$PWD" > pipe.mdl
mkfifo pipe
said 1 "it is a device or a pipe, not a file" timeout 60 "$MDLC" check pipe.mdl
said 1 "cannot read 'folder': Is a directory" "$MDLC" check folder

# Sizes beyond what a plan can say.
printf 'model t { axis batch, a = 9000000000000000; input x: real[batch]; param w: [a]; loss = mean(x) * mean(w); }\n' > huge.mdl
said 1 "error[E090]: what is computed here for one rank has more than 2^50 elements" "$MDLC" explain huge.mdl --set batch=2

# What ends by a signal says what to report.
mkfifo silent
"$MDLC" fmt - < silent 2> ended &
exec 3> silent
sleep 1
kill -ABRT $!
wait $! || true
exec 3>&-
grep -q "This is a bug of mdlc" ended
grep -q "the command:.*mdlc fmt -" ended

# What trains on something else than was meant, or not at all.
printf '\xff\xfeA\0B\0' > wide.txt
expect 1 "$MDL" train "$SMALL" --data wide.txt --out w --steps 1
mentions err "wide.txt is UTF-16, not UTF-8; convert it first: \`iconv -f utf-16 -t utf-8 wide.txt > wide.utf8.txt\`"
for i in $(seq 200); do printf '\x05\0\0\0\x07\0\0\0'; done > wide.bin
sed 's/data text.*/data tokens("wide.bin", u16);/' "$SMALL" > wide.mdl
expect 1 "$MDL" train wide.mdl --out w --steps 1
mentions err "every second token" "astype(numpy.uint16)"
printf '\x93NUMPY\x01\0%0300d' 0 > array.npy
sed 's/data text.*/data tokens("array.npy", u16);/' "$SMALL" > array.mdl
expect 1 "$MDL" train array.mdl --out w --steps 1
mentions err "numpy.save"
cat > still.mdl <<'END'
model m {
  axis batch, seq, vocab = 256, embed = 8;
  input tokens, targets: index(vocab)[batch, seq];
  param w: [vocab, embed];
  param head: [embed, vocab];
  loss = mean(cross_entropy(dot(w[tokens], head over embed), targets over vocab));
}
recipe r { batch = 2; seq = 8; steps = 2; optimizer adamw(lr = 1e-3, clip = 0); }
END
train still.mdl --data "$ROOT/LICENSE" --out still
mentions out "all gradients of step 1 are 0, so nothing is learned from its batch"
sed 's/\(param [^;]*\);/\1 ~ normal(0.1);/; s/dot(w/dot(0 * w/' still.mdl > flat.mdl
train flat.mdl --data "$ROOT/LICENSE" --out flat
mentions out "all gradients of step 1 are 0"
! grep -q "product of two" out || die "a cause is made up: $(cat out)"
sed 's/param .*;/& /; s/\(param [^;]*\);/\1 ~ normal(0.1);/' still.mdl > moves.mdl
train moves.mdl --data "$ROOT/LICENSE" --out moves
[ "$(weights moves 2)" != "$(weights still 2)" ] || die "clip = 0 stops a model"
if grep -q "gradients of step 1" out; then die "a model that learns is called still"; fi

# A loss that is no number in evaluations alone is said; what a type cannot hold is not fed.
sed 's|"../../LICENSE"|"'"$ROOT"'/LICENSE"|; s|^  loss = .*|&\n  if not training { loss = loss + log(loss - 1000); }|' "$SMALL" > nan.mdl
train nan.mdl --steps 2 --eval-every 0 --out nan
mentions out "the validation loss of step 2 is no number"
expect 0 "$MDL" eval nan
mentions err "warning: the loss is no number"
expect 0 "$MDL" eval still --batches 1
! grep -q warning err || die "a loss that is a number is doubted: $(cat err)"
sed 's|input tokens.*|&\n  input share: bool[batch, seq];|; s|^  loss = .*|  loss = sum(cross_entropy(logits, targets over vocab) * share);|; s|^  data.*||' "$SMALL" > share.mdl
expect 1 "$MDL" train share.mdl --data "$ROOT/LICENSE" --steps 1 --out share
mentions err "'share' has type bool, which cannot hold what the data feeds it (mask divided by its sum"

# What is wrong with the model comes first in all commands, and a layout is not blamed for what follows from it.
sed 's/= attention(/= atention(/' "$SMALL" > typo.mdl
echo 'layout tp2 { mesh tp = 2; heads -> tp; recompute attention; }' >> typo.mdl
for command in "$MDLC check" "$MDLC explain" "$MDLC compile -o typo.mdlx" "$MDL train --out typo" "$MDL ablate --dry"; do
  # shellcheck disable=SC2086 # a program and its arguments
  expect 1 $command typo.mdl $([ "${command% --dry}" = "$command" ] || echo layout=single,tp2)
  cat out err > both
  mentions both "there is no function 'atention' here"
  ! grep -q "to recompute" both || die "$command blames a layout: $(cat both)"
done
{ echo 'layout tp2 { mesh tp = 2; heads -> tp; recompute atention; }'; sed 's/ to embed, name = table/ to embd, name = table/' "$SMALL"; } > both.mdl
expect 1 "$MDL" train both.mdl --out typo
mentions err "there is no axis 'embd' here" "nothing called 'atention' to recompute"
expect 1 "$MDL" ablate --dry both.mdl layout=single,tp2
mentions out "there is no axis 'embd' here"

# Words of other programs, an argument too many, an option given twice, a text of another kind.
said 2 "--steps is given twice, as '1' and as '2'" "$MDL" train "$SMALL" --steps 1 --steps 2
said 2 "unexpected argument 'Hello'; a text to go on with is --prompt 'Hello'" "$MDL" generate run Hello
said 2 "unexpected argument 'batch=4'; a setting is --set 'batch=4'" "$MDL" train "$SMALL" batch=4
said 2 "unknown command 'finetune'; did you mean 'train'?" "$MDL" finetune "$SMALL"
said 2 "unknown command '--recipe'; options stand behind the command" "$MDLC" --recipe r check "$SMALL"
expect 0 "$MDLC" explain E22
mentions out "E022: "
said 1 "'$ROOT/LICENSE' is another kind of text" "$MDLC" check "$ROOT/LICENSE"
mentions err "1 error" "--data"

# Steps beyond those of the recipe, another optimizer, and a loss that is a sum.
train still.mdl --data "$ROOT/LICENSE" --steps 3 --out longer
mentions out "learning rates are those of the recipe, which has 2 steps; --set steps=3"
sed 's/adamw(lr = 1e-3, clip = 0)/lion(lr = 1e-3)/' still.mdl > lion.mdl
said 1 "it was trained with another optimizer" \
  "$MDL" train lion.mdl --data "$ROOT/LICENSE" --steps 4 --out longer --resume
sed 's/optimizer adamw/freeze head; &/' still.mdl > frozen.mdl
said 1 "or with other parameters frozen" \
  "$MDL" train frozen.mdl --data "$ROOT/LICENSE" --steps 4 --out longer --resume
sed 's/loss = mean(/loss = sum(/' moves.mdl > sum.mdl
train sum.mdl --data "$ROOT/LICENSE" --out sum
mentions out "a sum over the tokens of a batch"
if grep -q "nats per token" out sum/loss.svg; then die "a sum is called nats per token"; fi
mentions sum/loss.svg "loss, a sum over the tokens of a batch"
expect 0 "$MDL" eval sum
mentions out ", a sum over the tokens of a batch"
