#!/bin/bash
# tokenizer.sh: a tokenizer that is trained, tokens that are made with it, a model that learns them, text that it makes.
. "${ROOT:?}/tests/cli/lib.sh"
cp "$ROOT/LICENSE" licence.txt
if "$MDL" data train-tokenizer licence.txt -o none.json 2>&1 | grep "built without PCRE2"; then exit 77; fi
rm none.json
expect 0 "$MDL" data train-tokenizer licence.txt -o tiny.json --vocab 400
mentions out "tiny.json: 400 tokens from" 'write `data text(..., tokenizer = "tiny.json");` and `vocab = 400`'
cmp tiny.json "$ROOT/tests/tokenizer/tiny.json" || die "the same text gives another tokenizer than it did"
for pattern in gpt2 qwen; do
  expect 0 "$MDL" data train-tokenizer licence.txt -o $pattern.json --vocab 300 --pattern $pattern
done
# Words have no longest one: tokens of a million letters, and of text that is a single word.
head -c 3000000 /dev/zero | tr '\0' a > one.txt
expect 0 timeout 60 "$MDL" data train-tokenizer one.txt -o one.json --vocab 300
mentions out "one.json: 277 tokens from" "1 different word;"
expect 0 "$MDL" data encode one.txt --tokenizer one.json -o one.bin --json
mentions out '"tokens":12,'
tr -dc 'a-z' < licence.txt > word.txt
expect 0 "$MDL" data train-tokenizer word.txt -o word.json --vocab 400
mentions out "word.json: 400 tokens from" "1 different word;"
expect 0 "$MDL" data train-tokenizer licence.txt -o large.json --vocab 50000
mentions out "note: fewer than the 50000 that were asked for"

# Text with a tokenizer, and the tokens of that text in a file, are the same data but for the end of the document.
of() {  # DATA FILE
  sed "s|data text.*|data $1;|; s|vocab = 256|vocab = 400|" "$SMALL" > "$2"
}
expect 0 "$MDL" data encode licence.txt --tokenizer tiny.json -o tokens.bin
mentions out "tokens of u16 from 1 document" 'write `data tokens("tokens.bin", tokenizer = "tiny.json");`'
[ ! -e tokens.bin.mdl-part ] || die "a part is left"
of 'text("licence.txt", tokenizer = "tiny.json")' text.mdl
of 'tokens("tokens.bin", tokenizer = "tiny.json")' tokens.mdl
of 'tokens("tokens.bin")' untold.mdl
train text.mdl --steps 40 --eval-every 20 --out text
train tokens.mdl --steps 40 --eval-every 20 --out tokens
train untold.mdl --steps 4 --out untold
same "the first losses" "$(losses text | head -n 1 | cut -c 1-6)" "$(losses tokens | head -n 1 | cut -c 1-6)"
for run in text tokens; do
  expect 0 "$MDL" eval $run
  sed -n 's/^bits per byte  \([0-9.]*\)$/\1/p' out > bits
  awk '{ exit !($1 > 0.5 && $1 < 5) }' bits || die "bits per byte are wrong: $(cat out)"
  same "the same seed" "$("$MDL" generate $run --prompt "You may" --tokens 20)" "$("$MDL" generate $run --prompt "You may" --tokens 20)"
  case $("$MDL" generate $run --prompt "You may" --tokens 20) in
    "You may"*) ;;
    *) die "the text does not begin with its prompt" ;;
  esac
  expect 0 "$MDL" generate $run --tokens 5
done
for bytes in $(seq 3 30); do  # of the longest token: room for so many would wrap round to a few bytes
  expect 3 "$MDL" generate text --tokens $((9223372036854775807 / bytes * 2 + 2))
done
expect 1 "$MDL" generate untold --prompt "You may"
mentions err "its recipe names no tokenizer" "--tokenizer FILE"
expect 0 "$MDL" generate untold --prompt "You may" --tokens 20 --tokenizer tiny.json
(cd / && "$MDL" generate "$WORK/text" --prompt "You may" --tokens 3) > out || die "the run knows its tokenizer from here only"
"$MDL" data train-tokenizer licence.txt -o less.json --vocab 300 > /dev/null
of 'tokens("tokens.bin", tokenizer = "less.json")' other.mdl
expect 1 "$MDL" train other.mdl --steps 1 --out other
mentions err "tokens.bin: token " ", at byte " "the tokenizer less.json has tokens below 300: the file is of another tokenizer"
number=$(sed -n 's/.*token \([0-9]*\), at byte \([0-9]*\), is \([0-9]*\);.*/\1 \2 \3/p' err)
same "the place of the token" "$number" "$(od -An -v -tu2 -w2 -j1024 tokens.bin | awk '$1 >= 300 { print NR - 1, 1024 + 2 * (NR - 1), $1; exit }')"
sed 's|vocab = 400|vocab = 256|' text.mdl > narrow.mdl
expect 1 "$MDL" train narrow.mdl --steps 1 --out narrow
mentions err "go up to 399; make that axis at least 400"
of 'text("licence.txt", tokenizer = "none.json")' missing.mdl
expect 1 "$MDL" train missing.mdl --steps 1 --out missing
mentions err "the tokenizer none.json is neither in the working directory nor beside the text" "nothing is downloaded"
expect 1 "$MDL" data encode "$ROOT/LICENSE" -o none.bin --tokenizer someone/model
mentions err "cannot read someone/model" "huggingface-cli download someone/model tokenizer.json --local-dir model" \
  "the tokenizer is model/tokenizer.json"

# Bytes, JSON lines, types.
expect 0 "$MDL" data encode licence.txt -o bytes.bin
expect 0 "$MDL" data encode licence.txt -o bytes.bin --tokenizer bytes
mentions out 'write `data tokens("bytes.bin", tokenizer = bytes);`'
expect 0 "$MDL" data encode licence.txt -o raw.bin --raw --type u32
same "raw tokens" "$(wc -c < raw.bin)" "$((4 * ($(wc -c < licence.txt) + 1)))"
printf '{"id": 1, "text": "a\\nb \\u00e9"}\n\n{"text": "the second", "more": [1]}\n' > two.jsonl
expect 0 "$MDL" data encode two.jsonl --field text -o two.bin --raw
mentions out "tokens of u16 from 2 documents of 16 bytes"
same "the bytes of two documents" "$(od -An -v -tu2 two.bin | tr -s ' \n' ' ')" " 97 10 98 32 195 169 0 116 104 101 32 115 101 99 111 110 100 0 "
expect 1 "$MDL" data encode two.jsonl -o none.bin
mentions err "two.jsonl is JSON lines; say which field is the text: --field text"
expect 1 "$MDL" data encode two.jsonl --field body -o none.bin
mentions err "two.jsonl:1: the object has no such field; --field is 'body'"
expect 1 "$MDL" data encode two.jsonl --field more -o none.bin
echo '{"text": 7' > broken.jsonl
expect 1 "$MDL" data encode broken.jsonl --field text -o none.bin
mentions err "broken.jsonl:1: no JSON, at byte"
[ ! -e none.bin ] && [ ! -e none.bin.mdl-part ] || die "what failed has left a file"
of 'text("two.jsonl", tokenizer = "tiny.json")' lines.mdl
expect 1 "$MDL" train lines.mdl --steps 1 --out lines
mentions err "two.jsonl is JSON, not text" "mdl data encode"
expect 2 "$MDL" data encode licence.txt
mentions err "Give -o FILE"
expect 2 "$MDL" data train-tokenizer licence.txt -o small.json --vocab 20
expect 2 "$MDL" data decode licence.txt
mentions err "unknown command 'decode'"
expect 1 "$MDL" data encode licence.txt -o none.bin --tokenizer licence.txt
mentions err "licence.txt: line 2, at byte 1, is no token in base64" "neither a tokenizer.json nor a rank file of tiktoken"

# What is made never takes the place of what is read, by whatever name.
ln -s licence.txt link.txt
cp licence.txt made.part
cp licence.txt made.mdl-part
cp licence.txt made.tmp

# A link stays one, and what is no file is not replaced by one.
mkfifo pipe
: > real
ln -s real named
expect 0 "$MDL" data encode licence.txt -o named
expect 1 "$MDL" data encode licence.txt -o pipe
mentions err "cannot write pipe: it is a device or a pipe"
[ -L named ] && [ -s real ] && [ -p pipe ] || die "a link or a pipe was replaced"
: > real
expect 0 "$MDL" data train-tokenizer licence.txt -o named --vocab 300
[ -L named ] && [ -s real ] || die "a link was replaced by a tokenizer"
for out in licence.txt ./licence.txt link.txt tiny.json; do
  expect 2 "$MDL" data encode two.jsonl licence.txt --tokenizer tiny.json -o $out
  mentions err "is read, and -o $out would overwrite it"
done
expect 2 "$MDL" data encode made.mdl-part -o made
mentions err "made.mdl-part is read, and -o made would overwrite it"
expect 2 "$MDL" data train-tokenizer licence.txt -o licence.txt --vocab 300
mentions err "licence.txt is read, and -o licence.txt would overwrite it; give another name to what is made"
expect 0 "$MDL" data train-tokenizer made.tmp -o made --vocab 300
expect 0 "$MDL" data encode licence.txt -o made  # beside which a file may be called made.part
for text in licence.txt made.part made.tmp; do
  cmp $text "$ROOT/LICENSE" || die "$text is another one than it was"
done
cmp tiny.json "$ROOT/tests/tokenizer/tiny.json" || die "the tokenizer is another one than it was"
expect 1 "$MDL" data encode missing.txt -o none.bin
: > empty.txt
expect 1 "$MDL" data encode empty.txt -o none.bin
mentions err "there is no text"
expect 0 "$MDL" data encode --help
mentions out "--field NAME" "--raw"

# What is packed, or tokens already, is no text, whatever its name; the error says what to write.
refused() {  # FILE WORDS...: as text of a recipe, as --data, to be encoded, and to train a tokenizer on
  local file=$1
  shift
  of "text(\"$file\", tokenizer = bytes)" foreign.mdl
  expect 1 "$MDL" train foreign.mdl --steps 1 --out none
  mentions err "$file is" "$@"
  expect 1 "$MDL" train text.mdl --data "$file" --steps 1 --out none
  mentions err "$file is" "$@"
  expect 1 "$MDL" data encode "$file" -o none.bin
  mentions err "$file is" "$@"
  expect 1 "$MDL" data encode "$file" --field text -o none.bin
  mentions err "$file is" "$@"
  expect 1 "$MDL" data train-tokenizer "$file" -o none.json --vocab 300
  mentions err "$file is" "$@"
  [ ! -e none.bin ] && [ ! -e none.json ] && [ ! -e none ] || die "what was refused has left a file"
}
packed() {  # NAME BYTES WORDS...: the text of the licence behind these first bytes
  { printf %b "$2"; cat licence.txt; } > "$1"
  refused "$1" "${@:3}"
}
packed packed.txt 'BZh91AY&SY' 'packed by bzip2' '`bzip2 -dc packed.txt > packed.txt.txt`'
packed packed.txt 'PK\x03\x04' 'an archive of zip' '`unzip -p packed.txt > packed.txt.txt`'
packed "a b'c" 'PK\x03\x04' 'an archive of zip' "\`unzip -p 'a b'\''c' > 'a b'\''c.txt'\`"
packed packed.txt 'PAR1' 'Parquet, not text' 'lines of JSON'
refused tokens.bin 'a file of tokens of llm.c, not text; a recipe reads it by `data tokens("tokens.bin");`'
{ printf 'BZh, three letters that begin a text\n'; cat licence.txt; } > letters.txt
expect 0 "$MDL" data encode letters.txt -o letters.bin
