#!/bin/bash
# doubts.sh: what can be trained and is probably not what was meant is said: data that is hardly text, tokens of another
# tokenizer, sources to validate with that are trained on, frozen weights that nobody trained, losses without a unit.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 3000 "$ROOT/LICENSE" > text.txt
of() {  # DATA FILE: the small model on other data
  sed "s|data text.*|data $1;|" "$SMALL" > "$2"
}
one() { train "$1" --steps 1 --eval-every 0 --out "$2"; }

# Text.
tr ' ' '\0' < text.txt > nul.txt
{ cat text.txt; printf 'caf\xe9\n%.0s' 1 2 3 4 5; } > some.txt
iconv -f utf-8 -t latin1 << 'END_OF_TEXT' > latin.txt
déjà vu, çà et là: é è ê ë à â ä î ï ô ö û ü ç, « où » est l'été, où était-ce? Là-bas, après le café, très tôt.
END_OF_TEXT
for name in nul latin text some; do
  of "text(\"$name.txt\")" $name.mdl
  train $name.mdl --set seq=16 --set batch=1 --steps 1 --eval-every 0 --out $name
  case $name in
    nul | latin) mentions out "$name.txt is hardly text in UTF-8: of its first" "\`data tokens(...)\`" ;;
    *) ! grep -q "hardly text" out || die "$name.txt is text" ;;
  esac
  for command in "encode $name.txt" "encode $name.txt --quiet" "train-tokenizer $name.txt --vocab 258"; do
    expect 0 "$MDL" data $command -o made
    case $name in
      nul | latin) mentions err "note: $name.txt is hardly text in UTF-8: of its first" ;;
      *) ! grep -q "hardly text" err || die "$name.txt is text" ;;
    esac
  done
done
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' > pointer.txt
expect 1 "$MDL" train "$SMALL" --data pointer.txt --out pointer
mentions err "pointer.txt is a pointer of Git LFS" "git lfs pull"

printf '\357\273\277' | cat - text.txt > marked.txt
of 'text("marked.txt")' marked.mdl
train marked.mdl --steps 1 --out marked
mentions out "marked.txt begins with a byte order mark"
expect 0 "$MDL" data encode text.txt marked.txt -o marked.bin
mentions err "note: marked.txt begins with a byte order mark"
printf '\357\273\277{"text": "a"}\r\n{"text": "b"}\r\n' > marked.jsonl
expect 0 "$MDL" data encode marked.jsonl --field text -o marked.bin
mentions out "4 tokens" "2 documents of 2 bytes"
! grep -q note err || die "a mark ahead of JSON lines is none of a text"

# Tokens.
expect 0 "$MDL" data train-tokenizer text.txt -o tokenizer.json --vocab 300
expect 0 "$MDL" data encode text.txt -o tokens.bin --tokenizer tokenizer.json
of 'tokens("tokens.bin", tokenizer = "tokenizer.json")' tokens.mdl
train tokens.mdl --set vocab=300 --steps 1 --out same
! grep -q "another tokenizer" out || die "the same tokenizer is another"
rev text.txt > reversed.txt
expect 0 "$MDL" data train-tokenizer reversed.txt -o tokenizer.json --vocab 300
train tokens.mdl --set vocab=300 --steps 1 --out other
mentions out "the tokens of tokens.bin were made by another tokenizer than tokenizer.json" "mdl data encode"
of 'mix(a = text("text.txt", tokenizer = "tokenizer.json"), b = tokens("tokens.bin"))' mixed.mdl
train mixed.mdl --set vocab=300 --steps 1 --out mixed
mentions out "the tokens of tokens.bin were made by another tokenizer than tokenizer.json"
expect 0 "$MDL" data encode text.txt -o bytes.bin
of 'mix(a = tokens("tokens.bin"), b = tokens("bytes.bin"))' unnamed.mdl
train unnamed.mdl --set vocab=300 --steps 1 --out unnamed
mentions out "the tokens of tokens.bin and of bytes.bin were made by two tokenizers"
of 'tokens("tokens.bin"); validation text("text.txt")' apart.mdl
train apart.mdl --set vocab=300 --steps 1 --out apart
mentions out "the tokens of tokens.bin and of the validation source text.txt are of two tokenizers"
expect 0 "$MDL" data encode text.txt -o raw.bin --raw
of 'tokens("raw.bin", u16); validation text("text.txt")' rawly.mdl
train rawly.mdl --set vocab=300 --steps 1 --out rawly
mentions out "nothing says of which tokenizer the tokens of raw.bin are"
of 'tokens("bytes.bin"); validation text("text.txt")' bytewise.mdl
train bytewise.mdl --set vocab=300 --steps 1 --out bytewise
! grep -q "tokenizer" out || die "tokens that are bytes are doubted beside text"
of 'mix(a = text("text.txt"), b = tokens("bytes.bin"))' alike.mdl
train alike.mdl --steps 1 --out alike
! grep -q "tokenizer" out || die "bytes are another tokenizer than bytes"

# Separators that no token is.
of 'tokens("tokens.bin", separator = 300)' separated.mdl
expect 1 "$MDL" train separated.mdl --set vocab=300 --out separated
mentions err "the separator of tokens.bin is the token 300" "no document would end"
of 'tokens("bytes.bin", separator = 256, tokenizer = bytes)' separated.mdl
expect 1 "$MDL" train separated.mdl --set vocab=300 --out separated
mentions err "the separator of bytes.bin is the token 256, and bytes has tokens below 256"

# What is validated with.
cp text.txt copy.txt
of 'text("text.txt"); validation text("gone.txt")' gone.mdl
expect 1 "$MDL" train gone.mdl --out gone
mentions err "the validation file gone.txt is neither in" "--data FILE leaves it as it is"
of 'text("text.txt"); validation text("copy.txt")' seen.mdl
one seen.mdl seen
mentions out "the validation source copy.txt is trained on too"
of 'text("text.txt"); validation text("some.txt")' unseen.mdl
one unseen.mdl unseen
! grep -q "is trained on too" out || die "other text is called the same"
of 'text("text.txt"); validation = 0' none.mdl
one none.mdl none
mentions out "there is no validation: the recipe keeps nothing back, \`validation = 0\`"
expect 0 "$MDL" eval text --data copy.txt
mentions out "all of copy.txt, which the run was trained on"
expect 0 "$MDL" eval text --data some.txt
! grep -q "trained on" out || die "other text is called what the run was trained on"
of 'mix(a = text("text.txt"), b = 0.1 * text("some.txt")); validation text("latin.txt")' several.mdl
one several.mdl several
for name in text some; do
  expect 0 "$MDL" eval several --data $name.txt
  mentions out "all of $PWD/$name.txt, which the run was trained on"
done
cp "$ROOT/README.md" other.txt
for name in latin other; do
  expect 0 "$MDL" eval several --data $name.txt
  ! grep -q "trained on" out || die "$name.txt is no source that the run was trained on"
done

echo "more of it" >> text.txt
expect 0 "$MDL" eval text
mentions out "the last 5% of" "it is not what these weights were trained on, or was changed since"
cp copy.txt text.txt
expect 0 "$MDL" eval text
mentions out ", which the run does not train on"

# Frozen weights without any to begin with.
of 'text("text.txt"); freeze *; optimizer head: adamw(lr = 1e-3)' all.mdl
sed '/^  optimizer/d' all.mdl > frozen.mdl
one frozen.mdl frozen
mentions out "parameters are frozen as they were drawn at random: --from DIR"
train frozen.mdl --steps 1 --eval-every 0 --from frozen --out begun
! grep -q "drawn at random" out || die "weights that were read are called random"

# What the compiler says of the text is in the log too, also under --quiet and when the run goes on; nothing where it says nothing.
train "$SMALL" --set steps=9 --steps 1 --eval-every 0 --out logged --quiet
mentions logged/log.txt "small.mdl:30:19: warning[E053]: the run ends at step 9" "   30 |   optimizer adamw(" "2 warnings"
diff err <(head -n "$(wc -l < err)" logged/log.txt) || die "another text than on the screen"
train "$SMALL" --set steps=9 --steps 2 --eval-every 0 --out logged --resume
same "said again" "$(grep -c '^2 warnings' logged/log.txt)" 2
! grep -q warning text/log.txt || die "a warning of a text that has none"

# A run that goes on with other constants.
train "$SMALL" --data text.txt --steps 2 --eval-every 0 --out text --resume --set batch=2
mentions out "the text is not the one this run began with: batch was 1 and is 2; seq was 16 and is 32"
mentions out "with another \`seq\` windows are cut anew"
train "$SMALL" --data text.txt --steps 3 --eval-every 0 --out text --resume --set batch=4
mentions out "behind 2 batches of 2 samples come those from sample 9 on, so 4 samples are passed over in this pass"
sed 's/  loss = .*/  loss = 2 * mean(cross_entropy(logits, targets over vocab));/' "$SMALL" > twice.mdl
train twice.mdl --data text.txt --steps 4 --eval-every 0 --out text --resume --set batch=1 --set steps=77 --set optimizer.lr=1e-5
mentions out "so 9 samples are trained on again" "steps was \`" "and is \`77\`" "optimizer was \`" "lr = 1e-5" "\`model small\` is another one"
train twice.mdl --data text.txt --steps 5 --eval-every 0 --out text --resume --set batch=1 --set steps=77 --set optimizer.lr=1e-5
! grep -q "is not the one this run began with" out || die "a text that is the same is called another"
# Also entries that say when a run is looked at, or with what.
cp -r text looked
train twice.mdl --data text.txt --steps 6 --eval-every 0 --out looked --resume --set batch=1 --set steps=77 --set optimizer.lr=1e-5 \
  --set validation=0.3 --set eval_batches=2 --set eval_every=8 --set save_every=9 --set log_every=11 --set seed=8
mentions out "validation was \`0.05\` and is \`0.3\`" "eval_batches was \`" "and is \`2\`" "eval_every was \`" "and is \`8\`" \
  "save_every was \`" "and is \`9\`" "log_every was \`" "and is \`11\`" "seed was \`" "and is \`8\`"
# Of long entries the part is shown that differs.
cp text.txt a-file-of-a-long-name.txt
of "mix(a = 1 * text(\"$PWD/a-file-of-a-long-name.txt\"), b = 1 * text(\"$PWD/a-file-of-a-long-name.txt\"), c = 1 * text(\"text.txt\"))" long.mdl
train long.mdl --steps 1 --eval-every 0 --out long
sed -i 's/c = 1 \*/c = 7 */' long.mdl
train long.mdl --steps 2 --eval-every 0 --out long --resume
mentions out "data was \`..." "), c = 1 * text(" "and is \`..." "), c = 7 * text("

# A schedule that goes below 0 behind the steps that it is made for.
sed '/^  optimizer norm/d; s/^  optimizer .*/  optimizer sgd(lr = 1e-3 * (2 - step));\n  steps = 2;/' "$SMALL" > falls.mdl
train falls.mdl --data text.txt --set batch=1 --set seq=8 --steps 4 --eval-every 0 --out falls
mentions out "the learning rate of step 3 is -0.001, below 0: updates make the loss larger; the recipe has 2 steps, behind which"
same "how often it is said" "$(grep -c "below 0" out)" 1

# Losses.
for loss in "mean(cross_entropy(logits, targets over vocab))" \
  "masked_mean(cross_entropy(logits, targets over vocab), targets != 10)" \
  "sum(where(pos(seq) < 4, 0, cross_entropy(logits, targets over vocab))) / (size(batch) * sum(where(pos(seq) < 4, 0, 1)))" \
  "0 - mean(sum(((pos(vocab) == targets) as real) * log(softmax(logits over vocab)) over vocab))"; do
  sed "s|  loss = .*|  loss = $loss;|" "$SMALL" > loss.mdl
  rm -rf loss
  train loss.mdl --steps 1 --out loss --data text.txt --set seq=8
  expect 0 "$MDL" eval loss
  mentions out "perplexity"
done
# The class of a whole sample, which is computed from its tokens, is none of them.
sed "s/  loss = .*/  axis classes = 7;\n  kinds = linear(mean(x over seq) over embed to classes, name = kinds);\n\
  kind = ((targets[seq: 7] as int) % 7) as index(classes);\n&/" "$SMALL" > kinds.mdl
for loss in "mean(square(max(logits over vocab) - (targets as real)))" "0.5 * mean(cross_entropy(logits, targets over vocab))" \
  "exp(mean(cross_entropy(logits, targets over vocab)))" \
  "mean(logsumexp(logits over vocab) - mean(logits over vocab))" "mean(cross_entropy(kinds, kind over classes))" \
  "0 - mean(kinds[kind] - logsumexp(kinds over classes)) + 0.5 * mean(square(logits))" \
  "0 - mean(log(sum(softmax(kinds over classes) * ((pos(classes) == kind) as real) over classes)))" \
  "mean(where(pos(seq) < 4, 0, cross_entropy(logits, targets over vocab)))" \
  "mean(cross_entropy(logits, targets over vocab) * ((targets == 32) as real))" \
  "mean(cross_entropy(logits, targets over vocab) * where(targets == 101, 10, 1))" \
  "mean(min(cross_entropy(logits, targets over vocab), 3))" "max(cross_entropy(logits, targets over vocab))" \
  "masked_mean(targets != 10, cross_entropy(logits, targets over vocab))" \
  "0.5 * masked_mean(cross_entropy(logits, targets over vocab), targets != 10)" \
  "masked_mean(min(cross_entropy(logits, targets over vocab), 3), targets != 10)" \
  "sum(where(pos(seq) < 4, 0, cross_entropy(logits, targets over vocab))) / sum(where(pos(seq) < 4, 0, 1))" \
  "log(mean(cross_entropy(logits, targets over vocab)))" \
  "0 - mean(where(pos(vocab) == targets, log(sigmoid(logits)), log(1 - sigmoid(logits))))"; do
  sed "s|  loss = .*|  loss = $loss;|" kinds.mdl > loss.mdl
  rm -rf loss
  train loss.mdl --steps 1 --out loss --data text.txt --set seq=8
  mentions out ", without a unit"
  ! grep -q "nats" out loss/loss.svg || die "$loss is called nats"
  expect 0 "$MDL" eval loss
  mentions out ", without a unit"
  ! grep -q "perplexity\|bits per byte" out || die "$loss has a perplexity"
done
for loss in "mean(cross_entropy(logits, targets over vocab)) + 1e-4 * mean(z_loss(logits over vocab))" \
  "mean(0.9 * cross_entropy(logits, targets over vocab) - 0.1 * mean(logits over vocab))" \
  "1e-3 * mean(square(logits)) - mean(log(softmax(logits over vocab)[targets]))" \
  "mean(cross_entropy(logits, targets over vocab)) + 0.3 * mean(cross_entropy(2 * logits, targets over vocab))"; do
  sed "s/  loss = .*/  loss = $loss;/" "$SMALL" > loss.mdl
  rm -rf loss
  train loss.mdl --steps 1 --out loss --data text.txt --set seq=8
  mentions out ", nats per token and other terms"
  mentions loss/loss.svg "nats per token and other terms"
  expect 0 "$MDL" eval loss
  mentions out ", nats per token and other terms"
  ! grep -q "perplexity\|bits per byte" out || die "$loss has a perplexity"
done
for loss in "mean(cross_entropy(logits, targets over vocab)); more = 0; if training { more = mean(square(logits)); } loss = loss + more" \
  "mean(cross_entropy(logits, targets over vocab)) + 0 * mean(square(logits))" \
  "0 - mean(log(softmax(logits over vocab)[targets]))" \
  "0 - mean(log(sum(softmax(logits over vocab) * ((pos(vocab) == targets) as real) over vocab)))" \
  "mean(cross_entropy(logits[seq: 7], targets[seq: 7] over vocab))" "mean(mean(cross_entropy(logits, targets over vocab) over seq))"; do
  sed "s/  loss = .*/  loss = $loss;/" "$SMALL" > loss.mdl
  rm -rf loss
  train loss.mdl --steps 1 --out loss --data text.txt --set seq=8
  mentions out "nats per token"
done

expect 0 "$MDL" eval loss --data nul.txt
mentions err "note: nul.txt is hardly text in UTF-8"
expect 0 "$MDL" eval loss --data text.txt
! grep -q "note" err || die "text is said to be hardly any"

# Directories in the place of a run.
mkdir -p weights all
echo '{}' > weights/config.json
cp -r text all/one
expect 1 "$MDL" generate weights --prompt a
mentions err "\`mdl convert weights -o RUN\` makes a run"
expect 1 "$MDL" convert weights --to hf -o made
mentions err "weights is a directory of Hugging Face and no run"
expect 1 "$MDL" eval all
mentions err "it holds runs, such as all/one"
expect 1 "$MDL" train "$SMALL" --from text.txt --out from
mentions err "text.txt is a file; weights are given as the directory that holds them"

# Options that do nothing in the steps that there are, or less than it seems. notes WORDS OPTION...
notes() {
  local words=$1
  shift
  rm -rf optional
  train "$SMALL" --out optional "$@"
  if [ -n "$words" ]; then
    mentions out "note      $words"
  elif grep "^note" out; then
    die "noted of $*"
  fi
}
notes "--keep-every 7 keeps what is saved: with a save every 5 steps, the multiples of 35" --steps 12 --save-every 5 --keep-every 7
notes "" --steps 12 --save-every 5 --keep-every 10
notes "" --steps 6 --save-every 5 --keep-every 7
notes "--keep-every 10 keeps what is saved, and that is the last step alone" --steps 12 --save-every 0 --keep-every 10
notes "--check 50 runs none of the steps up to 5 twice" --steps 5 --check 50
notes "" --steps 5 --check 5
notes "--patience 2 ends no run of 20 steps, which has 2 evaluations" --steps 20 --eval-every 10 --patience 2
notes "" --steps 15 --eval-every 5 --patience 2
notes "\`skip\` names batches from 500 on, and the last step, 60, is of batch 62" --steps 3 --set "skip=3 .. 4, 500 .. 510"
notes "" --steps 3 --set "skip=3 .. 4, 62"
notes "the precision fp8_hybrid is that of steps from 501 on, and the last one is 60" --steps 3 \
  --precision "bf16 until 500, then fp8_hybrid"
notes "" --steps 3 --precision "bf16 until 50, then fp8_hybrid"

# Separators that occur nowhere; of a pattern, in none of its files. One that does is no doubt, wherever it stands.
mkdir split
split -b 1000 text.txt split/part-
printf '==end;' >> split/part-ac
{ head -c 16381 /dev/zero | tr '\0' a; printf '==end;'; cat text.txt; } > long.txt
separated() {  # DATA WORDS
  of "$1" separated.mdl
  train separated.mdl --set seq=16 --set validation=0 --steps 1 --eval-every 0 --out separated
  if [ -n "$2" ]; then
    mentions out "note      $2"
  elif grep separator out; then
    die "doubted of $1"
  fi
  rm -r separated
}
separated 'text("text.txt", separator = "==\\n")' 'the separator "==\n" occurs nowhere in text.txt, so that all of it is one document'
separated 'text("long.txt", separator = "==end;")' ""
separated 'text("text.txt", separator = none)' ""
separated 'text("text.txt")' ""
separated 'text("split/part-*", separator = "==end;")' ""
separated 'text("split/part-*", separator = "==the end;")' 'the separator "==the end;" occurs nowhere in split/part-aa and 2 more of its pattern'
separated 'tokens("bytes.bin", tokenizer = bytes, separator = 7)' "the separator, token 7, occurs nowhere in bytes.bin"
separated 'tokens("bytes.bin", tokenizer = bytes, separator = 10)' ""
separated 'mix(a = text("text.txt"), b = 0.5 * text("text.txt", separator = "=="))' 'the separator "==" occurs nowhere in text.txt'
of 'text("text.txt"); validation text("long.txt", separator = "==;")' held.mdl
train held.mdl --steps 1 --out held
mentions out 'note      the separator "==;" occurs nowhere in long.txt'
sed 's#data text.*#data text("text.txt", tokenizer = "tokenizer.json", separator = "<|endoftext|>");#' "$SMALL" > marked.mdl
train marked.mdl --set vocab=300 --steps 1 --out special
mentions out 'the separator "<|endoftext|>" occurs nowhere in text.txt'

# Rows of a table: each once, with the rows that it is of where others have it not, whatever is quiet.
sed "s|causal = true|causal = look|; s|^  input|  const look = true;\n  input|; s|peak = 1e-2, warmup = 5, steps = 60|1e-2, 500, 1000|" "$SMALL" > leak.mdl
sed -i "s|data text.*|data text(\"nul.txt\"); validation text(\"nul.txt\"); steps = 20;|" leak.mdl
expect 0 "$MDL" ablate leak.mdl look=true,false batch=1,2 --set seq=16 --steps 1 --out rows --quiet
[ ! -s out ] || die "a quiet table says something"
mentions err "warning: rows 3, 4: leak.mdl:18: E049: positions see the tokens behind them" "; write \`causal = true\`" \
  "warning: leak.mdl:" ": E053: the learning rate still rises in the last step, 20" \
  "note: nul.txt is hardly text" "note: the validation source nul.txt is trained on too"
same "each once" "$(grep -c E049 err) $(grep -c hardly err) $(grep -c "trained on too" err)" "1 1 1"
same "rows of a leak" "$(grep -n E049 rows/ablate.jsonl | cut -d: -f1 | xargs)" "3 4"
same "rows of a note" "$(grep -c '"notes":\[.*"note: the validation source nul.txt is trained on too' rows/ablate.jsonl)" 4
expect 0 "$MDL" ablate leak.mdl look=true,false --dry --json
mentions err "warning: row 2 (look=false): leak.mdl:18: E049"
printf '{"messages": [{"role": "user", "content": "a question"}, {"role": "assistant", "content": "an answer"}]}\n%.0s' 1 2 3 4 > asked.jsonl
of 'chat("asked.jsonl")' asked.mdl
expect 0 "$MDL" ablate asked.mdl batch=1,2 --set seq=16 --steps 1 --out asked
mentions err "note: the data says which tokens are of answers, but the model has no input"
expect 0 "$MDL" ablate "$SMALL" batch=1,2 --steps 1 --out plain
[ ! -s err ] || { cat err >&2; die "something is said of a plain table"; }

# A constant that is infinite there or here, and numbers of a tuple, are compared as others are.
sed 's/^  input tokens/  const wide = inf;\n  const pair = (1, 2);\n&/; s/^  loss = /  reach = where(wide > 8, pair.0, pair.1);\n  loss = reach * /' \
  "$SMALL" > consts.mdl
train consts.mdl --data text.txt --steps 1 --set seq=8 --eval-every 0 --out consts
train consts.mdl --data text.txt --steps 1 --set seq=8 --eval-every 0 --out others --from consts --set wide=4 --set 'pair=(1, 3)'
mentions out "wide is inf there, 4 here" "pair.1 is 2 there, 3 here"
train consts.mdl --data text.txt --steps 2 --set seq=8 --eval-every 0 --out consts --resume --set wide=4 --set 'pair=(1, 3)'
mentions out "wide was inf and is 4" "pair.1 was 2 and is 3"
