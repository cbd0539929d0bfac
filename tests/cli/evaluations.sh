#!/bin/bash
# evaluations.sh: an evaluation says the same however many windows a batch has, and what it says is of its own tokens.
. "${ROOT:?}/tests/cli/lib.sh"

# What samples have together, as a largest loss, or a mean of what a condition leaves, is no mean of samples: a batch
# is not taken away from it again, so it stays among the numbers that there are.
head -c 11358 "$ROOT/LICENSE" > text.txt
{ printf '%17s' ''; head -c 4000 text.txt | tail -c 96; } > seven.txt  # windows, the first of which has blanks alone
cat > pad.mdl << 'EOF'
import std.nn;
model pad {
  axis batch, seq, vocab = 256, out = 256;
  input tokens, targets: index(vocab)[batch, seq];
  logits = embedding(tokens over vocab to out, name = table)[out -> vocab];
  ce = cross_entropy(logits, targets over vocab);
  loss = masked_mean(ce, targets != 32);
  output most = max(ce);
  output plain = mean(ce);
  output huge = mean(exp(40 * ce));
}
recipe pad {
  model pad();
  data text("text.txt", tokenizer = bytes);
  validation text("seven.txt", tokenizer = bytes);
  batch = 8; seq = 16; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
for batch in 1 5 7 8; do
  train pad.mdl --out "pad-$batch" --set batch=$batch
  expect 0 "$MDL" eval "pad-$batch" --json
  said loss most plain > "of-$batch"
done
for number in 1 2 3; do
  close "what seven windows have, in a batch of eight" "$(sed -n ${number}p of-7)" "$(sed -n ${number}p of-8)"
done
close "a mean of samples in batches of one" "$(sed -n 3p of-1)" "$(sed -n 3p of-7)"
close "a mean of samples in batches of five" "$(sed -n 3p of-5)" "$(sed -n 3p of-7)"
awk 'NR == FNR { most = $1; next } FNR == 2 { exit !($1 <= most + 1e-6) }' <(sed -n 2p of-7) of-5 ||
  die "a largest loss of $(sed -n 2p of-5), where none is above $(sed -n 2p of-7)"

expect 0 "$MDL" eval pad-5
same "a mean that has no end" inf "$(awk '$1 == "huge" { print $2 }' out)"

# Beside a mask: the loss is of the answers, and an output that does not read the mask is of all windows, once each.
talks > talks.jsonl
cat > chat.mdl << 'EOF'
import std.nn;
model told {
  axis batch, seq, vocab = 256, embed = 16;
  input tokens, targets: index(vocab)[batch, seq];
  input share, mask: real[batch, seq];
  logits = linear(embedding(tokens over vocab to embed, name = table) over embed to vocab, name = head);
  ce = cross_entropy(logits, targets over vocab);
  loss = sum(ce * share);
  output plain = mean(ce);
  output answered = mean(mask);
}
recipe told {
  model told();
  data chat("talks.jsonl", tokenizer = bytes);
  validation chat("talks.jsonl", tokenizer = bytes);
  allow E053;
  batch = 1; seq = 32; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
for batch in 1 6 64; do
  train chat.mdl --out "chat-$batch" --set batch=$batch
  expect 0 "$MDL" eval "chat-$batch" --json
  said loss plain bits_per_byte answered > "of-$batch"
  said windows tokens > "count-$batch"
done
for batch in 6 64; do
  same "windows and tokens" "$(cat count-1)" "$(cat count-$batch)"
  for number in 1 2 3 4; do
    close "beside a mask, in batches of $batch" "$(sed -n ${number}p of-1)" "$(sed -n ${number}p of-$batch)"
  done
done

# Rows of another name are rows, too.
sed -e 's/axis batch, seq, /axis rows, seq, /; s/\[batch, seq\]/[rows, seq]/; s/  batch = 1;/  rows = 5;/' chat.mdl > rows.mdl
train rows.mdl --out rows
expect 0 "$MDL" eval rows --json
for number in 1 2 3 4; do
  close "with rows of another name" "$(sed -n ${number}p of-1)" "$(said loss plain bits_per_byte answered | sed -n ${number}p)"
done

# Which axis is rows the names of those of tokens say, in whatever order the axes of another input stand.
sed -e 's/axis batch, seq, /axis sample, seq, /; s/\[batch, seq\]/[sample, seq]/; s/  batch = 1;/  sample = 32;/' chat.mdl > along.mdl
sed 's/share, mask: real\[sample, seq\]/share, mask: real[seq, sample]/' along.mdl > across.mdl
grep -q 'real\[seq, sample\]' across.mdl || die "the axes are not turned"
for order in along across; do
  train $order.mdl --out $order
  expect 0 "$MDL" eval $order --json
  said loss plain bits_per_byte answered > of-$order
done
for number in 1 2 3 4; do
  close "axes in another order" "$(sed -n ${number}p of-along)" "$(sed -n ${number}p of-across)"
done
same "losses of axes in another order" "$(losses along)" "$(losses across)"

# Where the loss does not read the mask, its tokens and their bytes are all there are.
sed -e '/loss = sum/d' -e 's/output plain = /loss = /' chat.mdl > all.mdl
train all.mdl --out all --set batch=5
expect 0 "$MDL" eval all --json
same "all tokens" $(($(said windows) * 32)) "$(said tokens)"
close "bits per byte of all of them" "$(said bits_per_byte)" "$(awk -v loss="$(said loss)" 'BEGIN { printf "%.9f", loss / log(2) }')"

# A limit is of batches of the recipe, whatever microbatches an evaluation has of them.
cat > plain.mdl << 'EOF'
import std.nn;
model plain {
  axis batch, seq, vocab = 256, embed = 16;
  input tokens, targets: index(vocab)[batch, seq];
  logits = linear(embedding(tokens over vocab to embed, name = table) over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab));
}
layout four { microbatches = 4; }
recipe plain {
  model plain();
  data text("text.txt", tokenizer = bytes);
  batch = 8; seq = 32; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
for layout in single four; do
  train plain.mdl --out "limit-$layout" --layout $layout
  expect 0 "$MDL" eval "limit-$layout" --batches 2 --json
  same "windows of two batches under $layout" 16 "$(said windows)"
done

# What a run on several ranks evaluates is the loss that it was trained with: terms beside the cross entropy are seen in
# resolved.mdl, too, which has the functions of the library.
sed 's/  loss = mean(/  loss = 1e-4 * mean(z_loss(logits over vocab)) + mean(/' plain.mdl > terms.mdl
echo 'layout both { mesh dp = 2; batch -> dp; }' >> terms.mdl
for layout in single both; do
  train terms.mdl --out "terms-$layout" --layout $layout
  expect 0 "$MDL" eval "terms-$layout"
  mentions out "and other terms"
  expect 1 grep -q perplexity out
done

# Bits per byte are of the bytes that were evaluated, however long tokens are elsewhere, in text as in its tokens.
{ for _ in $(seq 600); do printf 'information '; done; for _ in $(seq 250); do printf 'x y z w '; done; } > skew.txt
expect 0 "$MDL" data train-tokenizer skew.txt -o skew.json --vocab 300
expect 0 "$MDL" data encode skew.txt -o skew.bin --tokenizer skew.json
sed -e 's/vocab = 256/vocab = 300/' \
  -e 's/  data text(.*/  data text("skew.txt", tokenizer = "skew.json");\n  validation = 0.2;/' plain.mdl > skew.mdl
sed 's/text("skew.txt"/tokens("skew.bin"/' skew.mdl > skewed.mdl
for text in skew skewed; do
  train $text.mdl --out "run-$text"
  expect 0 "$MDL" eval "run-$text" --json
  said loss bits_per_byte > "of-$text"
done
same "of text and of its tokens" "$(cat of-skew)" "$(cat of-skewed)"
awk 'NR == 1 { loss = $1 } NR == 2 { bytes = loss / log(2) / $1; exit !(bytes > 1.5 && bytes < 2.5) }' of-skew ||
  die "tokens at the end of the text are of two bytes, and not of $(cat of-skew)"

# Where samples have numbers, one of several microbatches has no evaluation: what helps is said, and does.
sed -e '/^layout/d' -e 's/  logits = linear(\(.*\), name = head);/  x = embedding(tokens over vocab to embed, name = table);\n  x = x * where(pos(batch) >= 0, 1.0, 2.0);\n  logits = linear(x over embed to vocab, name = head);/' plain.mdl > counted.mdl
train counted.mdl --out counted --set microbatches=2 --eval-every 0
expect 1 "$MDL" eval counted
mentions err "has no evaluate program: its batch is a microbatch" \
  "with \`microbatches = 1\` its batch is the whole one: \`mdl train FILE --out RUN --resume --set microbatches=1\`"
train counted.mdl --out counted --resume --set microbatches=1 --eval-every 0
expect 0 "$MDL" eval counted

# What is held out and was trained on before is said: with a larger part, another source, other data, weights of a run.
{ cat "$ROOT/LICENSE"; seq 3000; } > before.txt
seq 4000 > other.txt
sed -e 's/  data text(.*/  data text("before.txt", tokenizer = bytes);/' -e 's/  validation [^;]*;//' plain.mdl > before.mdl
sed 's/  data text/  validation text("other.txt", tokenizer = bytes);\n&/' before.mdl > sourced.mdl

# trained_on SAID RUN OPTIONS...: what an evaluation says of what it read
trained_on() {
  local what=$1
  shift
  expect 0 "$MDL" eval "$@" --json
  grep -q "\"trained\":$what," out || die "$*: trained is not $what: $(cat out)"
}
train before.mdl --out larger --steps 2
trained_on false larger
train before.mdl --out larger --steps 3 --resume --set validation=0.5
mentions out "held out, and were trained on before in part"
trained_on true larger
expect 0 "$MDL" eval larger
mentions out "which the run does not train on, but did before in part"
train before.mdl --out larger --steps 4 --resume --set validation=0.01
trained_on false larger  # this part was always held out
train before.mdl --out from --steps 1 --from larger
mentions out "held out, and were trained on before in part"
trained_on true from
train sourced.mdl --out wholly --steps 2
trained_on false wholly
train before.mdl --out wholly --steps 3 --resume
trained_on true wholly
train before.mdl --out other --steps 2
train before.mdl --out other --steps 3 --resume --data other.txt
trained_on false other
trained_on true other --data before.txt

# So it is where the run was begun by a program that did not write this down: its own text says what was held out.
train before.mdl --out past --steps 2
train sourced.mdl --out past-sourced --steps 2
train before.mdl --out past-from --steps 2 --from larger --set validation=0.5
for run in past past-sourced past-from; do
  older $run
  cp -r $run $run-lost
  echo "recipe none {}" > $run-lost/resolved.mdl
done
# gone_on SAID RUN OPTIONS...: what is said of a copy of the run that is gone on with
gone_on() {
  local what=$1 run=$2
  shift 2
  rm -rf on
  cp -r "$run" on
  train "$@" --out on --steps 3 --resume
  cp out log
  trained_on "$what" on
}
turned() { grep -q "no continuation of those before" log; }
gone_on false past before.mdl
! turned || die "the same windows of an older run were taken for others"
gone_on false past before.mdl --set seed=4
! turned || die "another seed was taken for other windows"
gone_on true past before.mdl --set validation=0.5
mentions log "held out, and were trained on before in part" "what this run validates with is not what it was"
gone_on false past before.mdl --set validation=0.01
turned || die "the windows of a smaller part were taken for the same"
gone_on false past sourced.mdl
turned || die "a source was taken for a part of the data"
gone_on false past before.mdl --set eval_batches=1
turned || die "fewer windows were taken for the same"
gone_on true past-sourced before.mdl
mentions log "held out, and were trained on before in part" "what this run validates with is not what it was"
gone_on false past-sourced sourced.mdl
! turned || die "the same source of an older run was taken for another"
sed 's|  data text|  validation = 1 / 10;\n&|' before.mdl > tenth.mdl
train tenth.mdl --out past-tenth --steps 2
older past-tenth
gone_on false past-tenth before.mdl --set validation=0.1
! turned || die "a part that is written otherwise was taken for another"
gone_on false past-tenth before.mdl
turned || die "the windows of a smaller part were taken for the same"
gone_on true past-tenth before.mdl --set validation=0.2
sed 's|  data text.*|  data mix(a = text("before.txt"), b = 2 * text("other.txt"));|' before.mdl > mixed.mdl
train mixed.mdl --out past-mixed --steps 2
older past-mixed
sed -i 's/a = text/a = 3 * text/; s/2 \* text/1.5 * text/' mixed.mdl
gone_on false past-mixed mixed.mdl
! turned || die "what other weights hold out was taken for another part"
gone_on false past-mixed mixed.mdl --set validation=0.04
turned || die "a smaller part of each was taken for the same"
gone_on true past-mixed mixed.mdl --set validation=0.4
gone_on false past-from before.mdl --set validation=0.5
! turned || die "the same windows were taken for others, behind weights of others"
gone_on false past-lost before.mdl
gone_on true past-lost before.mdl --set validation=0.01
mentions log "what this run validated with when it was saved is not known"
train before.mdl --out on-past --from past --set validation=0.5
mentions out "held out, and were trained on before in part"
train before.mdl --out on-past-too --from past
trained_on false on-past-too
train before.mdl --out on-sourced --from past-sourced
trained_on true on-sourced
train before.mdl --out never-validated --steps 1 --set validation=0
train before.mdl --out never-validated --steps 2 --resume
! grep -q "no continuation" out || die "the first evaluations are said to be no continuation"

# Files that are read as other text, by another template or separator, are other windows.
train chat.mdl --out templates --steps 1
train chat.mdl --out templates --steps 2 --resume
! grep -q "no continuation" out || die "the same conversations were taken for others"
sed 's/chat("talks.jsonl"/&, template = "{role}: {content}{end}\\n"/' chat.mdl > templated.mdl
train templated.mdl --out templates --steps 3 --resume
mentions out "validation losses from here on are no continuation of those before"
sed 's/text("before.txt"/&, separator = "\\n"/' before.mdl > separated.mdl
train before.mdl --out separators --steps 1
train separated.mdl --out separators --steps 2 --resume
mentions out "validation losses from here on are no continuation of those before"

# A line of metrics that is of other windows is no evaluation of this run, whatever loss it has.
sed 's/steps = [0-9]*/steps = 2/' before.mdl > lines.mdl
train lines.mdl --out lines --eval-every 1
grep -q '"validated_with":"[0-9a-f]\{16\}"' lines/metrics.jsonl || die "lines of metrics do not say their windows"
sed -i '2s/"val_loss":[^,]*,"validated_with":"[^"]*"/"val_loss":0.5,"validated_with":"0123456789abcdef"/' lines/metrics.jsonl
train lines.mdl --out lines --eval-every 1 --patience 1 --steps 4 --resume
mentions out "no better than the evaluation of step 1"
