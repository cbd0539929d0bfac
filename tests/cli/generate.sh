#!/bin/bash
# generate.sh: the same seed makes the same text; eval and a run's files are what they are said to be.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 40 --eval-every 20 --out run
generate() {
  "$MDL" generate run --prompt "You may" --tokens 64 "$@"
}
same "the same seed" "$(generate --seed 5)" "$(generate --seed 5)"
[ "$(generate --seed 5)" != "$(generate --seed 6)" ] || die "the seed changes nothing"
same "temperature 0" "$(generate --temperature 0 --seed 1)" "$(generate --temperature 0 --seed 2)"
case $(generate --seed 5) in
  "You may"*) ;;
  *) die "the text does not begin with its prompt: $(generate --seed 5)" ;;
esac
expect 0 "$MDL" eval run
mentions out "loss" "perplexity" "bits per byte" "the last 5% of" "which the run does not train on"
expect 0 "$MDL" eval run --data "$ROOT/README.md"
mentions out "all of $ROOT/README.md"
expect 0 "$MDL" eval run --data "$ROOT/README.md" --batches 1
read_windows=$(sed -n 's/^tokens .* in \([0-9]*\) windows$/\1/p' out)
grep -Eq "^data +$read_windows of [0-9]+ windows of $ROOT/README.md" out || die "$(cat out)"
expect 0 "$MDL" eval run --batches 1
grep -Eq "^data +$read_windows of [0-9]+ windows of the last 5% of " out || die "$(cat out)"
expect 0 "$MDL" eval run --batches 1 --json
grep -Eq "\"windows\": ?$read_windows, ?\"all_windows\": ?[0-9]+" out || die "$(cat out)"

# A run knows where its data is, wherever it is asked from.
cp "$ROOT/LICENSE" corpus.txt
sed 's|"../../LICENSE"|"corpus.txt"|' "$SMALL" > here.mdl
train here.mdl --steps 4 --out here
here=$PWD/here
same "from another directory" "$("$MDL" eval here | grep -o 'loss [0-9.]*')" "$(cd / && "$MDL" eval "$here" | grep -o 'loss [0-9.]*')"
for file in resolved.mdl metrics.jsonl loss.svg log.txt checkpoints/step-00000040/manifest.json; do
  [ -s "run/$file" ] || die "run/$file is missing"
done
ls run/events.out.tfevents.* > out
grep -q '"val_loss"' run/metrics.jsonl || die "no validation loss in metrics.jsonl"
losses run | awk 'NR == 1 { first = $2 } { last = $2 } END { exit !(last < first - 0.5) }' || die "it learns nothing: $(losses run)"

# A model that cannot have a batch of 1 is trained and evaluated; generating says why it cannot.
sed 's|axis key like seq;|axis key like seq, half = batch / 2;|; s|^  loss = .*|&\n  pairs = logits[batch: 0 .. half -> half];|; s|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > halves.mdl
for layout in 1 2; do
  echo "layout ranks$layout { mesh dp = $layout; batch -> dp; }" >> halves.mdl
  train halves.mdl --layout "ranks$layout" --steps 4 --eval-every 2 --out "halves$layout"
  mentions err "note[E034]: the program 'generate', whose batch is 1, is left out: a size must be a whole number"
  mentions out "eval 4"
  expect 0 "$MDL" eval "halves$layout"
  expect 1 "$MDL" generate "halves$layout" --prompt "You may"
  mentions err "has no generate program: its batch is 1, and in" "a size must be a whole number"
done

# An output that needs targets is known in training and evaluation, and no hindrance to generating. Where logits need
# them, text cannot feed the model: nothing says to try.
sed 's|^  loss = .*|&\n  output second = mean(cross_entropy(logits * 0.5, targets over vocab));|; s|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > second.mdl
echo 'layout staged { mesh pp = 2; layers -> pp; microbatches = 2; }' >> second.mdl
for layout in "" "--layout staged"; do
  # shellcheck disable=SC2086 # options are words
  train second.mdl $layout --steps 2 --out second
  mentions out "mdl generate second --prompt TEXT"
  expect 0 "$MDL" generate second --prompt "You may" --tokens 4
  rm -r second
done
sed 's|^  x = embedding.*|  x = embedding(tokens over vocab to embed, name = table) + embedding(targets over vocab to embed, name = hint);|; s|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > told.mdl
train told.mdl --steps 2 --out told
if grep -q "mdl generate" out; then die "what cannot be done is proposed"; fi
expect 1 "$MDL" generate told --prompt "You may"
mentions err "the logits are computed from more inputs than 'tokens'"
[ ! -s out ] || die "the prompt stands there without a text: $(cat out)"
expect 2 "$MDL" generate run --stop ""
mentions err "--stop needs a text"
sed 's/logits/scores/g; s|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > scores.mdl
train scores.mdl --steps 1 --out scores
if grep -q "mdl generate" out; then die "what cannot be done is proposed"; fi
expect 1 "$MDL" generate scores --prompt "You may"
mentions err "its model assigns no \`logits\`"
sed 's/^  loss = .*/&\n  output width = mean(square(sum(pos(hd) as real)));/' scores.mdl > width.mdl
train width.mdl --steps 1 --out width
expect 1 "$MDL" generate width --prompt "You may"
mentions err "its model assigns no \`logits\`"
! grep -q "nothing can be kept" err || die "what is missing is said in another way"

# Logits of a whole text, of two guesses at each position, or along the wrong axis are not those of the next token.
axes_refused() {  # NAME AXES LINE: the text of the logits
  sed 's|^  logits = .*|  axis ahead = 2;\n  '"$3"'|; s|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > "$1.mdl"
  train "$1.mdl" --steps 1 --eval-every 0 --out "$1"
  if grep -q "mdl generate" out; then die "what cannot be done is proposed"; fi
  for whole in "" --whole; do
    # shellcheck disable=SC2086 # none, or a word
    expect 1 "$MDL" generate "$1" --prompt "You may" $whole
    mentions err "its model assigns no \`logits\`, with the axes of \`tokens\` and one more" "have the axes [$2]"
    ! grep -q "nothing can be kept" err || die "what is never made is said to be slow: $(cat err)"
    [ ! -s out ] || die "the prompt stands there without a text: $(cat out)"
  done
}
grep -q '^  logits = .* over embed to vocab, name = head);' "$SMALL" || die "$SMALL has other logits"
axes_refused forgot "batch, vocab" 'logits = linear(mean(x over seq) over embed to vocab, name = head);'
axes_refused wrong "batch, embed, vocab" 'logits = linear(x over seq to vocab, name = head);'
axes_refused guesses "batch, seq, ahead, vocab" 'logits = linear(x over embed to ahead, vocab, name = head);'

# Keys and values that are kept change nothing: within the window, when it slides, and of a run of several ranks. Where
# they cannot be kept, one line says why.
train "$SMALL" --precision fp64 --steps 20 --out exact
for tokens in 20 64; do
  for seed in 1 2 3; do
    expect 0 "$MDL" generate exact --prompt "You may" --tokens "$tokens" --temperature 1 --seed "$seed"
    [ ! -s err ] || die "it says: $(cat err)"
    mv out kept
    expect 0 "$MDL" generate exact --prompt "You may" --tokens "$tokens" --temperature 1 --seed "$seed" --whole
    cmp kept out || die "seed $seed, $tokens tokens: the text is another one without the cache"
  done
done
sed 's|"../../LICENSE"|"'"$ROOT"'/LICENSE"|' "$SMALL" > two.mdl
echo 'layout two { mesh tp = 2; heads, ffn -> tp; }' >> two.mdl
train two.mdl --layout two --steps 4 --out two
same "a run of two ranks" "$("$MDL" generate two --prompt "You may" --tokens 40 --temperature 0)" \
  "$("$MDL" generate two --prompt "You may" --tokens 40 --temperature 0 --whole)"
sed 's|, causal = true||' two.mdl > both_ways.mdl
train both_ways.mdl --steps 2 --out both
expect 0 "$MDL" generate both --prompt "You may" --prompt "A" --tokens 4
mentions err "every token is made from the whole text again: both/resolved.mdl:" "may see keys behind its queries"
[ "$(wc -l < err)" = 1 ] || die "it is said more than once: $(cat err)"
mv out kept
expect 0 "$MDL" generate both --prompt "You may" --prompt "A" --tokens 4 --whole
[ ! -s err ] || die "what was asked for is explained: $(cat err)"
cmp kept out || die "the text is another one with --whole"

# A text ends where one to stop at would stand; the fewest likely tokens are the likeliest alone; several prompts.
long=$(generate --seed 5)
part=${long#You may}
part=${part:9:3}
stopped=$(generate --seed 5 --stop "never there" --stop "$part"; echo x)
same "--stop" "${stopped%?x}" "You may$(long=${long#You may}; printf %s "${long%%"$part"*}")"
same "--top-p" "$(generate --seed 5 --top-p 0.000001)" "$(generate --temperature 0)"
same "--top-p 1" "$(generate --seed 5 --top-p 1)" "$(generate --seed 5)"
for share in 0 1.01 50; do
  expect 2 "$MDL" generate run --top-p $share
  mentions err "--top-p " "at most 1"
done
printf 'You may\n\nThe\r\n' > prompts.txt
same "--prompts" "$("$MDL" generate run --tokens 9 --prompts prompts.txt)" \
  "$("$MDL" generate run --tokens 9 --prompt "You may")

$("$MDL" generate run --tokens 9 --prompt "The")"
: > empty.txt
expect 1 "$MDL" generate run --prompts empty.txt
mentions err "empty.txt has no line to go on with"
printf 'You may\n\0The\n' > zero.txt  # the second prompt would be lost
expect 1 "$MDL" generate run --tokens 2 --prompts zero.txt
mentions err "zero.txt holds zero bytes"
