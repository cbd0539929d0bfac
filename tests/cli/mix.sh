#!/bin/bash
# mix.sh: a mix of sources is the same row of samples under every layout, and after a run is gone on with.
. "${ROOT:?}/tests/cli/lib.sh"
cp "$ROOT/LICENSE" licence.txt
cat "$ROOT"/docs/layouts.md "$ROOT"/docs/language.md > pages.txt
expect 0 "$MDL" data encode pages.txt -o pages.bin --raw
sed "s|data text.*|data mix(law = 0.25 * text(\"licence.txt\"), pages = 0.75 * tokens(\"pages.bin\", u16));|" "$SMALL" > mix.mdl
cat >> mix.mdl <<'END'
layout micro { microbatches = 2; }
layout pair  { mesh dp = 2; batch -> dp; }
END
train mix.mdl --steps 8 --eval-every 4 --out one
mentions one/resolved.mdl "0.25 * text(\"$WORK/licence.txt\")" "0.75 * tokens(\"$WORK/pages.bin\", u16)"
for layout in micro pair; do
  train mix.mdl --layout $layout --steps 8 --eval-every 4 --out $layout
  paste -d ' ' <(losses one) <(losses $layout) | awk '{ d = $2 - $4; if (d < -1e-3 || d > 1e-3) exit 1 }' ||
    die "other losses under $layout: $(losses one) and $(losses $layout)"
done
train mix.mdl --steps 5 --eval-every 4 --out parts
train mix.mdl --steps 8 --eval-every 4 --out parts --resume
same "a mix that is gone on with" "$(weights one 8)" "$(weights parts 8)"
# Of a model that reads documents: the source of which nothing says where they end is named, and what would say it.
sed 's|^  input tokens|  input doc: int[batch, seq];\n&|; s|causal = true|causal = true, mask = documents(doc = doc)|' mix.mdl > doc.mdl
expect 1 "$MDL" train doc.mdl --steps 1 --out doc
mentions err "nothing says where the documents of pages.bin end" "separator = 50256" 'tokenizer = "tokenizer.json"'
sed 's|pages.bin", u16|&, separator = 10|' doc.mdl > told.mdl
train told.mdl --steps 1 --out told
expect 0 "$MDL" eval one
mentions out "loss" "bits per byte  not known: the recipe names no tokenizer for all of the data"
expect 0 "$MDL" train mix.mdl --steps 2 --eval-every 1 --out untold
! grep -q "bits per byte" out || die "bits per byte of a mix of which a part is no known text: $(cat out)"
expect 0 "$MDL" eval one --data licence.txt
# What a source names is read as it says; of raw tokens alone, another file has the type of all of them.
expect 0 "$MDL" eval one --data pages.bin
mentions out "tokens         $((($(wc -c < pages.bin) / 2 - 1) / 32 * 32)) in"
head -c 20000 pages.bin > some.bin
head -c 30000 pages.bin > more.bin
for of in 'tokens("some.bin", u16)' 'tokens("some.bin", u16, tokenizer = bytes)'; do
  sed "s|data text.*|data mix(a = $of, b = tokens(\"more.bin\", u16));|" "$SMALL" > raw.mdl
  train raw.mdl --steps 1 --out raw
  cp pages.bin new.bin
  for data in new.bin 'n*.bin'; do
    expect 0 "$MDL" eval raw --data "$data"
    mentions out "tokens         $((($(wc -c < pages.bin) / 2 - 1) / 32 * 32)) in"
  done
  rm -r raw
done
expect 0 "$MDL" generate one --prompt "You may" --tokens 4
expect 0 "$MDL" inspect one/plan.mdlx
mentions out "data mix law 0.25 text bytes $WORK/licence.txt;pages 0.75 tokens_u16 none $WORK/pages.bin;, tokenizer bytes"
# A run finds each source, its tokenizer and its mask from any directory.
expect 0 "$MDL" data train-tokenizer licence.txt -o small.json --vocab 300
sed "s|data text.*|data text(\"licence.txt\", tokenizer = \"small.json\"); validation text(\"pages.txt\", tokenizer = \"small.json\");|" \
  "$SMALL" | sed "s/vocab = 256/vocab = 300/" > held.mdl
train held.mdl --steps 1 --out held
mkdir away
for run in one held; do
  (cd away && expect 0 "$MDL" eval ../$run && expect 0 "$MDL" train ../$run --resume --steps 9)
done
rm pages.bin
expect 1 "$MDL" train mix.mdl --steps 1 --out none
mentions err "the data file pages.bin is neither"
