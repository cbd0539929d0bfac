#!/bin/bash
# chat.sh: training on the answers of conversations alone, under every layout and gone on with; and sources of their own
# to validate with.
. "${ROOT:?}/tests/cli/lib.sh"
for i in $(seq 60); do
  echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $i and one?\"}, {\"role\": \"assistant\", \"content\": \"It is $((i + 1)).\"}]}"
  echo "{\"prompt\": \"And $i and two?\", \"completion\": \"That is $((i + 2)).\"}"
done > talks.jsonl
sed 's/input tokens, targets: index(vocab)\[batch, seq\];/&\n  input share: real[batch, seq];/
     s/  loss = .*/  loss = sum(cross_entropy(logits, targets over vocab) * share);/
     s/data text.*/data chat("talks.jsonl");/' "$SMALL" > chat.mdl
cat >> chat.mdl <<'END'
layout micro { microbatches = 2; }
layout pair  { mesh dp = 2; batch -> dp; }
END

# Which tokens are of answers: those of the file, with answers in brackets.
expect 0 "$MDL" data encode talks.jsonl --chat --raw -o talks.bin
mentions out 'write `data tokens("talks.bin", u16, tokenizer = bytes, mask = "talks.bin.mask");`'
paste <(od -An -v -w2 -tu2 talks.bin) <(od -An -v -w1 -tu1 talks.bin.mask) | awk '
  { c = $1 == 0 ? "~" : $1 == 10 ? "/" : sprintf("%c", $1); d = $2 >= 2 ? "^" : ""; a = $2 % 2
    printf "%s%s%s", a && !was ? "[" : !a && was ? "]" : "", d, c; was = a }' > marked
mentions marked "^<|im_start|>user/What is 1 and one?<|im_end|>/<|im_start|>assistant/[It is 2.<|im_end|>]/[~]^<" \
  "user/And 1 and two?<|im_end|>/<|im_start|>assistant/[That is 3.<|im_end|>]/[~]^<"

# Tokens and their mask are replaced together: where the second has no space, the first is what it was too.
if command -v strace > /dev/null && strace -qq true 2> /dev/null; then
  before=$(sha256sum talks.bin talks.bin.mask)
  head -n 40 talks.jsonl > fewer.jsonl
  for n in 1 2; do
    expect 1 strace -f -qq -o trace -e trace=fsync -e inject=fsync:error=ENOSPC:when=$n \
      "$MDL" data encode fewer.jsonl --chat --raw -o talks.bin
    same "what stood there before fsync $n failed" "$(sha256sum talks.bin talks.bin.mask)" "$before"
    [ ! -e talks.bin.part ] || die "a part is left"
  done
  # Where one cannot be named, no mask stands beside tokens of others.
  for n in 1 2; do
    cp talks.bin named.bin
    cp talks.bin.mask named.bin.mask
    expect 1 strace -f -qq -o trace -e trace=rename,renameat,renameat2 \
      -e inject=rename,renameat,renameat2:error=EIO:when=$n "$MDL" data encode fewer.jsonl --chat --raw -o named.bin
    mentions err "cannot rename to"
    [ ! -e named.bin.mask ] || die "a mask is left where rename $n failed"
  done
fi

train chat.mdl --steps 8 --eval-every 4 --out one
mentions out "mdl generate one --chat --prompt TEXT"
expect 0 "$MDL" train chat.mdl --steps 8 --eval-every 4 --out micro --layout micro
# Generation asks as the data does: the answer stops where the model has learned to end it.
expect 0 "$MDL" generate one --chat --prompt "What is 3 and one?" --tokens 20 --temperature 0 --json
mentions out '"prompt":"What is 3 and one?"'
answer=$(sed 's/.*"text":"//; s/"}$//' out)
asked='<|im_start|>system
Be short.<|im_end|>
<|im_start|>user
What is 3 and one?<|im_end|>
<|im_start|>assistant
'
expect 0 "$MDL" generate one --prompt "${asked#*<|im_end|>?}" --tokens 20 --temperature 0 --stop '<|im_end|>' --json
same "an answer, and the text that it goes on with" "$(sed 's/.*"text":"//; s/"}$//' out)" "$answer"
expect 0 "$MDL" generate one --prompt "$asked" --tokens 20 --temperature 0.8 --stop '<|im_end|>'
cp out spelled
expect 0 "$MDL" generate one --chat --system "Be short." --prompt "What is 3 and one?" --tokens 20 --temperature 0.8
same "an answer behind what the system says" "$(cat spelled)" "$asked$(cat out)"
expect 2 "$MDL" generate one --system "Be short." --prompt x
expect 2 "$MDL" generate one --chat

train chat.mdl --layout pair --steps 8 --eval-every 4 --out pair
for layout in micro pair; do
  paste -d ' ' <(losses one) <(losses $layout) | awk '{ d = $2 - $4; if (d < -1e-3 || d > 1e-3) exit 1 }' ||
    die "other losses under $layout: $(losses one) and $(losses $layout)"
done
for layout in one micro pair; do
  expect 0 "$MDL" eval $layout
  awk '/^loss/ { print $2 }' out
done | awk 'NR == 1 { first = $1 } { d = $1 - first; if (d < -1e-3 || d > 1e-3) exit 1 } END { if (NR != 3) exit 1 }' ||
  die "other losses of an evaluation"
# By its definition, with what the whole batch has: mask and its sum.
sed 's/input share/input mask/; s/  loss = .*/  loss = sum(cross_entropy(logits, targets over vocab) * mask) \/ max(sum(mask), 1);/' \
  chat.mdl > mask.mdl
train mask.mdl --steps 8 --eval-every 4 --out mask
paste -d ' ' <(losses one) <(losses mask) | awk '{ d = $2 - $4; if (d < -1e-3 || d > 1e-3) exit 1 }' ||
  die "share is not the mask divided by its sum: $(losses one) and $(losses mask)"
train chat.mdl --steps 5 --eval-every 4 --out parts
train chat.mdl --steps 8 --eval-every 4 --out parts --resume
same "a run on chats that is gone on with" "$(weights one 8)" "$(weights parts 8)"

# The same tokens and mask out of files train to the same bits; without the mask, to others.
sed 's/data chat.*/data tokens("talks.bin", u16, tokenizer = bytes, mask = "talks.bin.mask");/' chat.mdl > files.mdl
sed 's/, mask = "talks.bin.mask"//' files.mdl > whole.mdl
train files.mdl --steps 8 --eval-every 4 --out files
same "files of tokens and of a mask" "$(weights one 8)" "$(weights files 8)"
train whole.mdl --steps 2 --out whole
[ "$(losses whole)" != "$(losses one | head -2)" ] || die "a mask changes nothing"

# The mask is that of its own file: another file has the one beside it, or none.
ones=$(od -An -v -w1 -tu1 talks.bin.mask | awk -v seq=32 'NR > 1 { n[NR - 1] = $1 % 2 }
  END { w = int((NR - 1) / seq); for (i = 1; i <= w * seq; i++) s += n[i]; print s, w }')
windows=${ones#* }
mkdir beside
cp talks.bin beside/a.bin
cp talks.bin beside/b.bin
tr '\0\1\2\3' '\1\0\3\2' < talks.bin.mask > beside/b.bin.mask
counts() {  # DATA TOKENS: these are counted of windows of one file, or of two
  expect 0 "$MDL" eval files --data "$1"
  mentions out "tokens         $2 in"
}
counts talks.bin "${ones% *}"
! grep -q "note" err || die "the file has its mask"
counts beside/a.bin $((windows * 32))
mentions err "the mask that the recipe names is not of $WORK/beside/a.bin, and no .mask lies beside it: all of its tokens count"
counts beside/b.bin $((windows * 32 - ${ones% *}))
mentions err "beside/b.bin.mask says which tokens of $WORK/beside/b.bin are of answers, in the place of the mask"
counts 'beside/*' $((windows * 64 - ${ones% *}))
mentions err "beside/b.bin.mask says which" "and no .mask lies beside it"
sed 's/data tokens\(.*\);/data mix(a = tokens\1, b = chat("talks.jsonl"));/' files.mdl > mixed.mdl
train mixed.mdl --steps 1 --out mixed-files
"$MDL" data encode talks.jsonl --chat -o beside/c.bin -q
expect 0 "$MDL" eval mixed-files --data beside/c.bin
mentions out "tokens         ${ones% *} in"
mentions err "beside/c.bin.mask says which tokens of"
for data in beside/b.bin 'beside/[ab].bin'; do  # a run knows it without --data, too
  train files.mdl --data "$data" --steps 2 --out placed
  mentions out "beside/b.bin.mask says which tokens of"
  train placed --steps 3 --resume
  mentions out "beside/b.bin.mask says which tokens of"
  (cd beside && expect 0 "$MDL" eval ../placed)
  mv beside/b.bin.mask beside/kept
  expect 1 "$MDL" train placed --steps 4 --resume
  mv beside/kept beside/b.bin.mask
  rm -r placed
done
head -c 9 talks.bin.mask > beside/b.bin.mask
expect 1 "$MDL" eval files --data beside/b.bin
mentions err "beside/b.bin.mask has 9 bytes, but"

# The evaluation counts answers: as many as the mask has in the windows.
expect 0 "$MDL" eval one --data talks.jsonl
ones=$(od -An -v -w1 -tu1 talks.bin.mask | awk -v seq=32 'NR > 1 { n[NR - 1] = $1 % 2 }
  END { w = int((NR - 1) / seq); for (i = 1; i <= w * seq; i++) s += n[i]; print s, w }')
mentions out "tokens         ${ones% *} in ${ones#* } windows"

# Where nothing says how questions are written, and where a template has what stands for nothing.
cp talks.jsonl talks.txt
sed 's/data chat.*/data text("talks.txt");/' chat.mdl > unasked.mdl
train unasked.mdl --steps 1 --out unasked
expect 0 "$MDL" generate unasked --chat --prompt hi --tokens 2
mentions err "nothing says how the questions of this run are written"
expect 0 "$MDL" generate one --chat --prompt hi --tokens 2
! grep -q "nothing says" err || die "the run's data are conversations"
sed 's/data chat.*/data chat("talks.jsonl", template = "{Role}: {content}\\n");/' chat.mdl > strange.mdl
expect 1 "$MDL" train strange.mdl --out strange
mentions err "has {Role}, which stands for nothing"

# A number that is not read may be as large as it likes.
echo '{"id": 18446744073709551616, "prompt": "a", "completion": "b"}' > large.jsonl
expect 0 "$MDL" data encode large.jsonl --chat -o large.bin
expect 0 "$MDL" data encode large.jsonl --field prompt -o large.bin

# Answers by another name: said beside answers, and where there are none.
sed '5,20s/"assistant"/"Assistant"/' talks.jsonl > mixed.jsonl
sed 's/data chat.*/data chat("mixed.jsonl");/' chat.mdl > mixed.mdl
train mixed.mdl --steps 1 --out mixed
mentions out "mixed.jsonl has 8 messages of the role 'Assistant', which are no answers"
expect 0 "$MDL" data encode mixed.jsonl --chat -o mixed.bin --json
mentions err "note: what is read has 8 messages of the role 'Assistant', which are no answers"
expect 0 "$MDL" data encode talks.jsonl --chat -o whole.bin
! grep -q note err || die "all answers are"
echo '{"messages": [{"role": "human", "content": "a"}, {"role": "gpt", "content": "b"}]}' > odd.jsonl
sed 's/data chat.*/data chat("odd.jsonl");/' chat.mdl > odd.mdl
expect 1 "$MDL" train odd.mdl --out odd
mentions err "odd.jsonl has no answers" "call the role 'gpt' so"
expect 1 "$MDL" data encode odd.jsonl --chat -o odd.bin
mentions err "what is read has no answers" "call the role 'gpt' so"

# Messages are read alone, which is said where a prompt or a completion stands beside them.
sed '3s/^{/{"prompt": "a", "completion": "b", /; 5s/^{/{"completion": "b", /' talks.jsonl > both.jsonl
sed 's/data chat.*/data chat("both.jsonl");/' chat.mdl > both.mdl
train both.mdl --steps 1 --out both
mentions out 'both.jsonl has 2 lines with "messages" and also a "prompt" or a "completion": the messages alone are read'
expect 0 "$MDL" data encode both.jsonl --chat -o both.bin
mentions err 'what is read has 2 lines with "messages" and also'
cmp both.bin whole.bin

# Other templates and separators.
expect 0 "$MDL" data encode talks.jsonl --chat --raw --template '{role}> {content}
' -o other.bin
od -An -v -w2 -tu2 other.bin | awk '{ printf "%c", $1 == 0 ? 126 : $1 }' > other.txt
mentions other.txt "user> What is 1 and one?" "assistant> It is 2."

# Its escapes are those of a string of a recipe; one that is none is said.
expect 0 "$MDL" data encode talks.jsonl --chat --raw --template '{role}> {content}\n' -o escaped.bin
cmp escaped.bin other.bin
expect 0 "$MDL" data encode talks.jsonl --chat --raw --template '\t\"{role}\\n\" {content}' -o escaped.bin
od -An -v -w2 -tu2 escaped.bin | awk '{ printf "%c", $1 == 0 ? 126 : $1 }' > escaped.txt
mentions escaped.txt $'\t"user\\n" What is 1 and one?'
for template in '{role} {content}\r\n' '{content}\'; do
  expect 2 "$MDL" data encode talks.jsonl --chat --template "$template" -o never.bin
  mentions err "--template has a backslash that is none of the escapes"
done
sed 's/data chat.*/data chat("talks.jsonl", template = "{role}: {content}\\n", separator = "==;\\n", begin = "#");/' chat.mdl > told.mdl
train told.mdl --steps 1 --out told
expect 0 "$MDL" inspect told/plan.mdlx
mentions out 'template={role}: {content}\n;separator===\s\n;begin=#;'
expect 0 "$MDL" train told/resolved.mdl --steps 1 --out told_again
same "a resolved text" "$(weights told 1)" "$(weights told_again 1)"

# With a tokenizer that has the tokens for it, messages are written with these: one token each.
expect 0 "$MDL" data train-tokenizer "$ROOT/README.md" --vocab 300 -o tok.json
mark='"single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}'
sed "s/\"added_tokens\": \[/&{\"id\": 300, \"content\": \"<|im_start|>\", $mark, {\"id\": 301, \"content\": \"<|im_end|>\", $mark,/" \
  tok.json > chat.json
expect 0 "$MDL" data encode talks.jsonl --chat --raw --tokenizer chat.json -o chat.bin
ids=$(paste <(od -An -v -w2 -tu2 chat.bin) <(od -An -v -w1 -tu1 chat.bin.mask) |
  awk '$1 >= 299 { printf "%d:%d ", $1, $2 }' | cut -d ' ' -f 1-6)
same "tokens of a chat" "$ids" "300:2 301:0 300:0 301:1 299:1 300:2"
sed 's/data chat.*/data chat("talks.jsonl", tokenizer = "chat.json");/; s/vocab = 256/vocab = 302/' chat.mdl > bpe.mdl
train bpe.mdl --steps 3 --out bpe
sed 's/data chat.*/data tokens("chat.bin", u16, mask = "chat.bin.mask", tokenizer = "chat.json");/' bpe.mdl > bpe_file.mdl
train bpe_file.mdl --steps 3 --out bpe_file
same "a tokenizer, at once or before" "$(weights bpe 3)" "$(weights bpe_file 3)"
sed 's/data text.*/data text("talks.txt", tokenizer = "chat.json", separator = "two words");/; s/vocab = 256/vocab = 302/' "$SMALL" > parted.mdl
cp "$ROOT/README.md" talks.txt
expect 1 "$MDL" train parted.mdl --steps 1 --out never
mentions err "the separator 'two words' of talks.txt is"

# A model without a mask learns the questions too, and is told.
sed 's/data text.*/data chat("talks.jsonl");/' "$SMALL" > plain.mdl
expect 0 "$MDL" train plain.mdl --steps 1 --out plain
mentions out 'the model has no input `mask` or `share`'

# What is wrong is said, with file and line.
wrong() {
  printf '%s\n' "$1" > wrong.jsonl
  expect 1 "$MDL" train chat.mdl --data wrong.jsonl --steps 1 --out never
  mentions err "$2"
}
good='{"prompt": "a", "completion": "b"}'
wrong "$good
{\"text\": \"c\"}" 'wrong.jsonl:2: the line has no "messages"'
wrong '{"messages": [{"role": "user"}]}' 'wrong.jsonl:1: message 1 has no "content" that is text'
wrong 'not json' 'wrong.jsonl:1: the line is no JSON'
wrong '{"messages": [{"role": "user", "content": "a"}]}' 'has no answers'
sed 's/data chat.*/data text("talks.jsonl");/' chat.mdl > text.mdl
expect 1 "$MDL" train text.mdl --steps 1 --out never
mentions err 'data chat("talks.jsonl")'
head -c 10 talks.bin.mask > short.mask
sed 's/talks.bin.mask/short.mask/' files.mdl > short.mdl
expect 1 "$MDL" train short.mdl --steps 1 --out never
mentions err "the mask short.mask has 10 bytes"
sed 's/data chat.*/data chat("talks.jsonl", template = "{role}");/' chat.mdl > broken.mdl
expect 1 "$MDL" train broken.mdl --steps 1 --out never
mentions err "has no {content}"
sed 's/data chat.*/data text("talks.jsonl", mask = "x");/' chat.mdl > broken.mdl
expect 1 "$MDLC" check broken.mdl
mentions err "takes a path in quotes, a tokenizer and a separator"

# Sources of their own to validate with, by name.
cp "$ROOT/LICENSE" licence.txt
cp "$ROOT/README.md" readme.txt
sed 's|data text.*|data text("licence.txt");\n  validation sets(law = text("licence.txt"), pages = text("readme.txt"));|' "$SMALL" > sets.mdl
train sets.mdl --steps 4 --eval-every 2 --out sets
mentions sets/metrics.jsonl '"val_loss.law":' '"val_loss.pages":'
mentions sets/resolved.mdl "law = text(\"$WORK/licence.txt\")"
mentions out "eval 4 law: " "eval 4 pages: " "eval 4, their mean: "
awk -F'[:,}]' '/val_loss/ { for (i = 1; i < NF; i++) v[$i] = $(i + 1); d = v["\"val_loss\""] - (v["\"val_loss.law\""] + v["\"val_loss.pages\""]) / 2
  if (d < -1e-5 || d > 1e-5) exit 1 }' sets/metrics.jsonl || die "val_loss is not the mean: $(cat sets/metrics.jsonl)"
expect 0 "$MDL" eval sets
mentions out "law  " "pages  " "readme.txt"
grep -q "^law .*licence.txt, .* windows, which the run was trained on$" out || die "the law is trained on"
grep -q "^pages .*readme.txt, .* windows$" out || die "the pages are not trained on"
mentions err "note: the validation source $WORK/licence.txt is trained on too: its loss is none of text that was held out"
pages=$(awk '/^pages/ { print $2 }' out)
expect 0 "$MDL" eval sets --json
mentions out '"trained":true,"changed":' '"name":"law"' '"trained":true},' '"name":"pages"' '"trained":false}]'
expect 0 "$MDL" eval sets --data readme.txt
mentions out "loss           $pages nats per token" "data           all of"
sed 's|data text.*|data text("licence.txt");\n  validation text("readme.txt");|' "$SMALL" > single.mdl
train single.mdl --steps 2 --out single
! grep -q '"val_loss\.' single/metrics.jsonl || die "a source without a name has one"
mentions single/metrics.jsonl '"val_loss":'
expect 0 "$MDL" eval single
mentions out "data           all of $WORK/readme.txt, which the recipe validates with"
[ ! -s err ] || die "noted of what is held out: $(cat err)"
cp licence.txt copy.txt
sed 's|data text.*|data text("licence.txt");\n  validation text("copy.txt");|' "$SMALL" > single.mdl
train single.mdl --steps 1 --out copied
mentions out "the validation source copy.txt is trained on too"
expect 0 "$MDL" eval copied
mentions out "copy.txt, which the recipe validates with and which the run was trained on"
mentions err "copy.txt is trained on too"
expect 0 "$MDL" eval copied --json
mentions out '"trained":true,"changed":false' '"trained":true}]'
sed 's|data text.*|data text("licence.txt");\n  validation = 0.1;\n  validation text("readme.txt");|' "$SMALL" > both.mdl
expect 1 "$MDLC" check both.mdl
mentions err "both a part of the data and a source of its own"

# Windows without answers have no loss, and are not counted as one; nothing can be patient with them.
{ cat talks.jsonl; for i in $(seq 40); do echo '{"messages": [{"role": "user", "content": "nothing to answer here at all"}]}'; done; } > tail.jsonl
{ tail -40 tail.jsonl; head -3 talks.jsonl; } > late.jsonl
sed 's/talks.jsonl/tail.jsonl/' chat.mdl > tail.mdl
train tail.mdl --steps 2 --eval-every 1 --out tail
mentions out "eval 2: no answers in "
expect 1 "$MDL" eval tail
mentions err "is of an answer: there is no loss of them"
# None either where the only answer stands behind the last whole window; the files that were read are named.
{ tail -3 tail.jsonl; echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'; } > none.jsonl
sed 's/data chat("talks.jsonl");/&\n  validation chat("none.jsonl");/' chat.mdl > none.mdl
train none.mdl --steps 1 --out unanswered
expect 1 "$MDL" eval unanswered
mentions err "windows of $WORK/none.jsonl is of an answer"
sed 's/data chat("talks.jsonl");/&\n  validation sets(a = chat("none.jsonl"), b = chat("none2.jsonl"));/' chat.mdl > none2.mdl
cp none.jsonl none2.jsonl
train none2.mdl --steps 1 --out unanswered2
expect 1 "$MDL" eval unanswered2
mentions err "windows of $WORK/none.jsonl and $WORK/none2.jsonl is of an answer"
expect 1 "$MDL" train tail.mdl --steps 2 --eval-every 1 --patience 1 --out never
mentions err "none of the windows that they read has an answer"
sed 's/data chat("talks.jsonl");/&\n  validation sets(all = chat("talks.jsonl"), late = chat("late.jsonl"));\n  eval_batches = 1;/' chat.mdl > late.mdl
train late.mdl --steps 2 --out late
mentions out "eval 2 late: no answers in "
mentions late/metrics.jsonl '"val_loss.late":null'
! grep -q '"val_loss":null' late/metrics.jsonl || die "a source without answers has a part in the mean"
expect 0 "$MDL" eval late --batches 1
mentions out "no answers, and so no loss: 4 of 80 windows of $WORK/late.jsonl"
expect 0 "$MDL" eval late
mentions out ": all of $WORK/late.jsonl, "
# Gradients of such a batch are 0, and not since products of parameters are.
{ for i in $(seq 60); do tail -1 tail.jsonl; done; tail -1 talks.jsonl; } > still.jsonl
sed 's/talks.jsonl/still.jsonl/' chat.mdl > still.mdl
train still.mdl --steps 1 --eval-every 0 --out still
mentions out "all gradients of step 1 are 0, so nothing is learned from its batch: no target in it counts, as \`mask\` and \`share\`"

# Masks and what is validated with are of the data that a run was trained on.
train files.mdl --steps 2 --out masked
cp talks.bin.mask kept.mask
tr '\0\1\2\3' '\1\0\3\2' < kept.mask > talks.bin.mask
expect 1 "$MDL" train files.mdl --steps 4 --out masked --resume
mentions err "talks.bin or its mask, talks.bin.mask, is not what this run was trained on"
head -c "$(wc -c < kept.mask)" /dev/zero > talks.bin.mask
expect 1 "$MDL" train files.mdl --steps 1 --out never
mentions err "the mask talks.bin.mask has no answers"
mv kept.mask talks.bin.mask
train files.mdl --steps 4 --out masked --resume
train late.mdl --steps 3 --out late --resume
! grep -q "validates with" out || die "the same sources are said to be others"
head -50 talks.jsonl >> late.jsonl
train late.mdl --steps 4 --out late --resume
mentions out "what this run validates with is not what it was"

# What is in a line or a template twice is neither.
encode_wrong() {  # LINE TEMPLATE WORD
  printf '%s\n' "$1" > wrong.jsonl
  expect 1 "$MDL" data encode wrong.jsonl --chat --template "$2" -o never.bin
  mentions err "$3"
}
encode_wrong "$good" '{content}{end}{end}' 'has {end} twice'
encode_wrong '{"messages": [{"role": "assistant\u0000x", "content": "a"}]}' '{content}' 'has a zero byte'
encode_wrong '{"messages": [{"role": "user", "role": "assistant", "content": "a"}]}' '{content}' 'duplicate object key'
cp talks.jsonl source.bin.mask
expect 2 "$MDL" data encode source.bin.mask --chat -o source.bin
mentions err "source.bin.mask is read, and"

# Tokens that take the place of a conversation's, without a mask, leave the old one to whoever removes it, and say so.
: > plain.bin.mask
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o plain.bin
mentions err "note: plain.bin.mask stands beside it, and is of other tokens: remove it"
