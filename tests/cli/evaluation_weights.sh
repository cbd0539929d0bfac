#!/bin/bash
# evaluation_weights.sh: each term of a loss and of an output counts in an evaluation by what it is a mean of.
. "${ROOT:?}/tests/cli/lib.sh"

talks > talks.jsonl
head -c 2000 "$ROOT/LICENSE" > text.txt

# each: the sum of the vector of this name in `out`
each() {
  grep -o '"each\.[0-9]*":[-0-9.e]*' out | awk -F: '{ sum += $2 } END { printf "%.9f", sum }'
}

# A mean over answers beside one over all tokens: each by its own, in batches and microbatches of any size.
cat > terms.mdl << 'EOF'
import std.nn;
model told {
  axis batch, seq, vocab = 256, embed = 16;
  input tokens, targets: index(vocab)[batch, seq];
  input share, mask: real[batch, seq];
  logits = linear(embedding(tokens over vocab to embed, name = table) over embed to vocab, name = head);
  ce = cross_entropy(logits, targets over vocab);
  answers = sum(ce * share);
  all = mean(square(logsumexp(logits over vocab)));
  loss = (answers + 0.25 * all) * 2 - 3 * mean(mask);
  output answers;
  output all;
  output masked = masked_mean(ce, mask) - all / 4;
  output answered = mean(mask);
  output later = where(step > 0, answers + 0.25 * all, all);
  output each = mean(ce over batch) + 4 * sum(ce * share over batch);
  output once = mean(ce);
  output size = abs(mean(ce * mask));
}
layout four { microbatches = 2; }
layout two { mesh dp = 2; batch -> dp; }
recipe told {
  model told();
  data chat("talks.jsonl", tokenizer = bytes);
  validation chat("talks.jsonl", tokenizer = bytes);
  allow E053;
  batch = 4; seq = 32; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
for case in "1 single" "4 single" "64 single" "4 four" "8 two"; do
  read -r batch layout <<< "$case"
  train terms.mdl --out run --set batch="$batch" --layout "$layout"
  expect 0 "$MDL" eval run --json
  answers=$(said answers) all=$(said all)
  close "terms in batches of $case" "$(said loss)" \
    "$(awk -v a="$answers" -v b="$all" -v c="$(said answered)" 'BEGIN { printf "%.9f", 2 * a + 0.5 * b - 3 * c }')" 2e-5
  test "$layout" = four || close "terms of an output in batches of $case" "$(said masked)" \
    "$(awk -v a="$answers" -v b="$all" 'BEGIN { printf "%.9f", a - b / 4 }')"
  close "terms behind a condition in batches of $case" "$(said later)" \
    "$(awk -v a="$answers" -v b="$all" 'BEGIN { printf "%.9f", a + b / 4 }')" 2e-5
  close "terms of a vector in batches of $case" "$(each)" \
    "$(awk -v a="$answers" -v b="$(said once)" 'BEGIN { printf "%.9f", 32 * b + 4 * a }')" 2e-4
  echo "$answers $all" >> "terms-of"
  rm -r run
done
while read -r answers all; do
  close "answers" "$answers" "$(awk 'NR == 1 { print $1 }' terms-of)"
  close "all tokens" "$all" "$(awk 'NR == 1 { print $2 }' terms-of)" 2e-5
done < terms-of

# Groups of samples under a mask are the mean of what the batches have, and each window counts once.
cat > pairs.mdl << 'EOF'
import std.nn;
model pairs {
  axis batch, seq, vocab = 256, embed = 16, pair = batch / 2, two = 2;
  input tokens, targets: index(vocab)[batch, seq];
  input mask: real[batch, seq];
  logits = linear(embedding(tokens over vocab to embed, name = table) over embed to vocab, name = head);
  s = sum(cross_entropy(logits, targets over vocab) * mask over seq)[batch -> (pair, two)];
  loss = mean(log(1 + exp(0.1 * (s[two: 0] - s[two: 1]))));
  output last = mean(s[two: 1]);
}
recipe pairs {
  model pairs();
  data chat("twelve.jsonl", tokenizer = bytes);
  validation chat("twelve.jsonl", tokenizer = bytes);
  allow E053;
  batch = 2; seq = 32; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
cat talks.jsonl talks.jsonl > twelve.jsonl
for batch in 2 4 6; do
  train pairs.mdl --out "pairs-$batch" --set batch=$batch
  expect 0 "$MDL" eval "pairs-$batch" --batches $((12 / batch)) --json
  echo "$(said windows) $(said loss) $(said last)" > "of-$batch"
done
same "the windows of pairs" 12 "$(cut -d" " -f1 of-2)"
for batch in 4 6; do
  close "pairs in batches of $batch" "$(cut -d' ' -f2 of-$batch)" "$(cut -d' ' -f2 of-2)"
  close "the second of each pair in batches of $batch" "$(cut -d' ' -f3 of-$batch)" "$(cut -d' ' -f3 of-2)" 5e-5
done

# What knows where a sample stands is not taken away again: a part of a group, an element of each, random numbers.
cat > places.mdl << 'EOF'
import std.nn;
model places {
  axis batch, seq, vocab = 256, quad = batch / 4, four = 4, row like batch;
  input tokens, targets: index(vocab)[batch, seq];
  logits = embedding(tokens over vocab to vocab', name = table)[vocab' -> vocab];
  blank = mean(where(tokens == 32, 1.0, 0.0) over seq);
  drawn = mean(where(draw_uniform(blank) < 0.5, blank, 0.0));
  loss = mean(cross_entropy(logits, targets over vocab));
  output third = mean(blank[batch -> (quad, four)][four: 2]);
  output each = blank[batch -> row];
  output drawn;
  output noise = mean(draw_uniform(blank));
}
recipe places {
  model places();
  data text("text.txt", tokenizer = bytes);
  validation text("seven.txt", tokenizer = bytes);
  batch = 8; seq = 16; steps = 1; eval_batches = 0; seed = 3;
  optimizer adamw(lr = 1e-9);
}
EOF
{ printf '%17s' ''; head -c 4000 "$ROOT/LICENSE" | tail -c 96; } > seven.txt
train places.mdl --out places
expect 0 "$MDL" eval places
awk '$1 ~ /^(third|each|drawn)/ { bad = bad || !($2 >= 0 && $2 <= 1); n++ } END { exit bad || n != 10 }' out ||
  die "a share of blanks is outside of 0 and 1: $(cat out)"

# Random numbers are others in each batch, and the same in each evaluation; `step` is that of the checkpoint.
sed -e 's/axis batch, .*/axis batch, seq, vocab = 256;/; /third\|each/d' -e 's/  output drawn;/  output at = step as real;/' places.mdl > draws.mdl
train draws.mdl --out draws --set batch=1 --steps 5 --eval-every 2
grep -o '"val_at":[0-9]*' draws/metrics.jsonl | tr '\n' ' ' > at
same "the steps of evaluations" '"val_at":2 "val_at":4 "val_at":5 ' "$(cat at)"
expect 0 "$MDL" eval draws --json
cp out first
same "the step of the checkpoint" 5.0 "$(said at)"
awk -v a="$(said noise)" 'BEGIN { exit !(a > 0.2 && a < 0.8) }' || die "the mean of seven draws is $(said noise)"
expect 0 "$MDL" eval draws --json
same "two evaluations" "$(sed 's/"seconds.*//' first)" "$(sed 's/"seconds.*//' out)"
expect 0 "$MDL" eval draws --batches 1 --json
cp out one
test "$(sed 's/.*"noise":\([0-9.]*\).*/\1/' one)" != "$(sed 's/.*"noise":\([0-9.]*\).*/\1/' first)" ||
  die "all batches have the same random numbers"

# A mean near the largest number of fp32 is infinite where windows fill a batch, and not another mean.
sed -e '/third\|each/d; s/  output drawn;/  output big = mean(where(tokens == 32, 1e38, 0.0)) * 16;/' -e 's/axis batch, .*/axis batch, seq, vocab = 256;/' places.mdl > big.mdl
train big.mdl --out big
expect 0 "$MDL" eval big
same "a mean that is too large" inf "$(awk '$1 == "big" { print $2 }' out)"

# An evaluation that is infinite is no better one, and its line has no number.
sed -e 's/  loss = mean(.*/  loss = mean(cross_entropy(logits, targets over vocab)) + (1 - what) * (exp(200 * max(0, (step as real) - 3)) - 1);/' \
  -e '/  output/d; s/axis batch, .*/axis batch, seq, vocab = 256;/' \
  -e 's/  logits = /  what = 0;\n  if training { what = 1; }\n  logits = /' places.mdl > far.mdl
train far.mdl --out far --steps 40 --eval-every 1 --patience 3
test "$(tail -n 1 far/metrics.jsonl | sed 's/.*"step":\([0-9]*\).*/\1/')" -lt 12 || die "patience has no end"
grep -q '"val_loss":null' far/metrics.jsonl || die "no line says that its evaluation gave no number"

# A set without an answer in what is read leaves the others their outputs, and has its own.
echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$(head -c 400 text.txt | tr -c 'a-z' ' ')\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}]}" > asked.jsonl
sed -e 's/  validation chat.*/  validation sets(told = chat("talks.jsonl", tokenizer = bytes), asked = chat("asked.jsonl", tokenizer = bytes));/' \
  -e '/  loss = /d; s/  all = .*/  loss = mean(ce);/; /output \(all\|masked\|later\|each\|once\|size\)/d; s/  output answers;/  output answers;\n  output plain = mean(ce);/' \
  terms.mdl > sets.mdl
train sets.mdl --out sets --set batch=1
expect 0 "$MDL" eval sets --batches 6 --json
awk -v a="$(said answers)" 'BEGIN { exit !(a > 1) }' || die "the answers of one set are '$(said answers)' beside a set without one"
close "the loss of two sets" "$(said plain)" "$(sed 's/.*"loss":\([0-9.]*\),"unit".*/\1/' out)"

# Stages that send each other terms in both directions: every schedule says what one rank says.
cp "$ROOT/tests/layouts/stage_terms.mdl" stages.mdl
for layout in single pp2 pp2_4 pp4 chunks both cp2; do
  train stages.mdl --data text.txt --precision fp64 --steps 2 --out run --layout $layout
  expect 0 "$MDL" eval run --json
  for name in loss apart size late early known; do
    value=$(said $name)
    [ $layout != single ] || echo "$value" > "single-$name"
    close "$name under $layout" "$value" "$(cat single-$name)" 1e-9
  done
  rm -r run
done
