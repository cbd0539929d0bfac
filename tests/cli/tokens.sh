#!/bin/bash
# tokens.sh: a run on a file of tokens is the run on the text that they are of; what is no such file is refused.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || exit 77
python3 - "$ROOT/LICENSE" <<'PY'
import struct, sys
text = open(sys.argv[1], "rb").read()
wide = b"".join(struct.pack("<H", byte) for byte in text)
open("raw.bin", "wb").write(wide)
open("llmc.bin", "wb").write(struct.pack("<256i", 20240520, 1, len(text), *[0] * 253) + wide)
open("range.bin", "wb").write(wide + struct.pack("<H", 256))
PY
of() {  # DATA FILE: the small model on other data
  sed "s|data text.*|data $1;|" "$SMALL" > "$2"
}
train "$SMALL" --steps 6 --eval-every 3 --out text
of 'tokens("raw.bin", u16)' raw.mdl
of 'tokens("llmc.bin")' llmc.mdl
mkdir none  # a name that the tokenizer of none of them is not found by
for kind in raw llmc; do
  train "$kind.mdl" --steps 6 --eval-every 3 --out "$kind"
  same "the losses of $kind" "$(losses text)" "$(losses "$kind")"
done
expect 0 "$MDL" generate raw --prompt "You may" --tokens 4 --tokenizer bytes
mentions out "You may"
expect 0 "$MDL" eval raw
mentions out "perplexity" "bits per byte  not known: the recipe names no tokenizer for all of the data"
expect 0 "$MDL" train raw.mdl --steps 2 --eval-every 1 --out untold
if grep -q "mdl generate" out; then die "text is proposed from tokens without a tokenizer"; fi
mentions out "nats per token, perplexity"
! grep -q "bits per byte" out || die "bits per byte of tokens that are no known text: $(cat out)"
of 'tokens("raw.bin", u16, tokenizer = bytes)' told.mdl
train told.mdl --steps 6 --eval-every 3 --out told
same "the losses of tokens that are bytes" "$(losses text)" "$(losses told)"
expect 0 "$MDL" generate told --prompt "You may" --tokens 4
mentions out "You may"
expect 0 "$MDL" eval told
bits=$(sed -n 's/^bits per byte  //p' out)
expect 0 "$MDL" eval text
same "bits per byte" "$bits" "$(sed -n 's/^bits per byte  //p' out)"
of 'tokens("range.bin", u16, tokenizer = bytes)' wide.mdl
expect 1 "$MDL" train wide.mdl --set vocab=300 --steps 1 --out wide
mentions err "range.bin: token $(wc -c < "$ROOT/LICENSE"), at byte" "is 256; the tokenizer bytes has tokens below 256"
of 'tokens("range.bin", u16)' range.mdl
expect 1 "$MDL" train range.mdl --steps 1 --out range
mentions err "range.bin: token $(wc -c < "$ROOT/LICENSE"), at byte $((2 * $(wc -c < "$ROOT/LICENSE"))), is 256; the model has tokens below 256"
of 'tokens("raw.bin")' untyped.mdl
expect 1 "$MDL" train untyped.mdl --steps 1 --out untyped
mentions err "raw tokens are read where the recipe says of which type they are, \`data tokens(\"raw.bin\", u16);\`" \
  "\`mdl data encode\` writes files that say it themselves"
of 'tokens("llmc.bin")' headed.mdl
train headed.mdl --steps 1 --out headed
expect 1 "$MDL" eval headed --data raw.bin
mentions err "and \`mdl data encode\` writes files that say it themselves"
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o says.bin
expect 0 "$MDL" eval headed --data says.bin
truncate -s 2001 llmc.bin
expect 1 "$MDL" train llmc.mdl --steps 1 --out short
mentions err "the file ends at byte 2001: it is truncated"
of "tokens(\"$ROOT/LICENSE\", u16)" licence.mdl
expect 1 "$MDL" train licence.mdl --steps 1 --out licence
mentions err "is text, not tokens of u16"
of "tokens(\"$ROOT/LICENSE\", tokenizer = bytes)" licence.mdl
expect 1 "$MDL" train licence.mdl --steps 1 --out licence
mentions err "make tokens of it first, \`mdl data encode $ROOT/LICENSE --tokenizer bytes -o tokens.bin\`" \
  "tokenizer = bytes);\`"

# What is said to be written is a string of the language, whatever the name.
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o 'of "me" \.bin'
advice=$(sed -n 's/^write `data \(.*\);`$/\1/p' out)
of "${advice//\\/\\\\}" named.mdl
expect 0 "$MDL" train named.mdl --steps 1 --out named

# A file that another program is writing is left to it; what one that was ended has left is not.
exec 9> two.bin.mdl-part
echo half >&9
flock 9
expect 1 "$MDL" data encode "$ROOT/LICENSE" -o two.bin
mentions err "another program is writing two.bin"
same "a file of another program" "$(cat two.bin.mdl-part)" half
exec 9>&-
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o two.bin
[ ! -e two.bin.mdl-part ] || die "what was left is there still"
mkdir two.bin.mdl-part  # nobody's file, and nobody to wait for
expect 1 "$MDL" data encode "$ROOT/LICENSE" -o two.bin
mentions err "two.bin.mdl-part: File exists"
rmdir two.bin.mdl-part

# Nor is one taken away that began after the other had looked for one, where strace can hold it there.
if strace -f -qq -o /dev/null true 2> /dev/null; then
  one=0 other=0
  strace -f -qq -o /dev/null -e trace=unlink,fsync -e inject=unlink:delay_enter=200000 \
    -e inject=fsync:delay_enter=400000 "$MDL" data encode "$ROOT/README.md" -o race.bin > one.log 2>&1 &
  sleep 0.1
  strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:delay_enter=300000 \
    "$MDL" data encode "$ROOT/LICENSE" -o race.bin > other.log 2>&1 || other=$?
  wait $! || one=$?
  expect 0 "$MDL" data encode "$ROOT/README.md" -o readme.bin
  expect 0 "$MDL" data encode "$ROOT/LICENSE" -o licence.bin
  { [ "$one" = 0 ] && cmp -s race.bin readme.bin; } || { [ "$other" = 0 ] && cmp -s race.bin licence.bin; } ||
    die "the tokens are not those of a program that ended well"
fi
