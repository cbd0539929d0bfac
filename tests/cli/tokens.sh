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
for kind in raw llmc; do
  train "$kind.mdl" --steps 6 --eval-every 3 --out "$kind"
  same "the losses of $kind" "$(losses text)" "$(losses "$kind")"
done
expect 0 "$MDL" generate raw --prompt "You may" --tokens 4 --tokenizer bytes
mentions out "You may"
expect 0 "$MDL" eval raw
mentions out "perplexity" "bits per byte  not known: the recipe names no tokenizer for all of the data"
expect 0 "$MDL" train raw.mdl --steps 2 --eval-every 1 --out untold
mentions out "nats per token, perplexity"
! grep -q "bits per byte" out || die "bits per byte of tokens that are no known text: $(cat out)"
of 'tokens("range.bin", u16)' range.mdl
expect 1 "$MDL" train range.mdl --steps 1 --out range
mentions err "range.bin: token $(wc -c < "$ROOT/LICENSE"), at byte $((2 * $(wc -c < "$ROOT/LICENSE"))), is 256; the model has tokens below 256"
of 'tokens("raw.bin")' untyped.mdl
expect 1 "$MDL" train untyped.mdl --steps 1 --out untyped
mentions err "for raw tokens say of which type they are"
truncate -s 2001 llmc.bin
expect 1 "$MDL" train llmc.mdl --steps 1 --out short
mentions err "the file ends at byte 2001: it is truncated"
of "tokens(\"$ROOT/LICENSE\", u16)" licence.mdl
expect 1 "$MDL" train licence.mdl --steps 1 --out licence
mentions err "is text, not tokens of u16"
