#!/bin/bash
# other_tokens.sh: what is held out is counted in tokens: of the same file as other tokens it is another text, and no part of it is called new.
. "${ROOT:?}/tests/cli/lib.sh"
NOTE="are held out, and were trained on before in part"
cp "$ROOT/LICENSE" text.txt
sed -e 's,../../LICENSE,text.txt,' -e 's/  seed = 3;/&  validation = 0.5;  eval_batches = 1;/' "$SMALL" > bytes.mdl
head -c 4000 text.txt > begin.txt
expect 0 "$MDL" data train-tokenizer begin.txt -o own.json --vocab 300
sed -e 's/vocab = 256/vocab = 512/' bytes.mdl > wide.mdl
sed -e 's/tokenizer = bytes/tokenizer = "own.json"/' wide.mdl > own.mdl
held() { expect 0 "$MDL" eval "$1" --json; grep -q "\"trained\":$2,\"changed\":false" out || die "$3: $(cat out)"; }
silent() { ! grep -q "$NOTE" out || die "$1: $(cat out)"; }

# Another tokenizer, in a run that goes on and in one that begins with its weights; and of programs before.
train own.mdl --steps 2 --out run
held run false "what is held out was trained on"
train own.mdl --steps 3 --out run --resume
silent "the same tokens are taken for others"
cp -r run older
older older
for run in run older; do
  train wide.mdl --from $run --steps 2 --out "from-$run"
  mentions out "$NOTE"
  held "from-$run" true "text that weights were trained on is called held out"
done
train wide.mdl --resume --data text.txt --steps 4 --out run
mentions out "$NOTE"
held run true "text that was trained on as other tokens is called held out"
train run --resume --steps 5
mentions out "$NOTE"

# Another template.
for i in 1 2 3 4 5 6 7 8; do talks; done > talks.jsonl
sed -e 's/data text(.*);/data chat("talks.jsonl", template = "{role}:{content}{end}");/' bytes.mdl > short.mdl
sed -e 's/{role}:{content}{end}/<a message of the role {role}> {content}{end}/' short.mdl > long.mdl
train short.mdl --steps 2 --out chat
cp -r chat past
older past
train short.mdl --steps 3 --out past --resume --set batch=2
silent "the same template is taken for another"
for run in chat past; do
  train long.mdl --resume --steps 4 --out $run
  mentions out "$NOTE"
  held $run true "text that was trained on by another template is called held out"
done
