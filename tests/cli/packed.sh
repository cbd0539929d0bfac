#!/bin/bash
# packed.sh: text that gzip, zstd or xz packed, or that comes through a pipe, gives the tokens of the text itself.
. "${ROOT:?}/tests/cli/lib.sh"
command -v gzip > /dev/null && command -v xz > /dev/null && command -v python3 > /dev/null || exit 77
python3 - "$ROOT/LICENSE" <<'PY'
import json, sys
text = open(sys.argv[1]).read()
open("long.txt", "w").write(text * 250)  # several pieces of a mebibyte
with open("lines.jsonl", "w") as lines:
    for line in text.splitlines() * 100:
        lines.write(json.dumps({"text": line, "number": 1}) + "\n")
PY
expect 0 "$MDL" data train-tokenizer long.txt -o of.json --vocab 400 --quiet
expect 0 "$MDL" data encode long.txt --tokenizer of.json -o long.bin
mentions out "from 1 document"
expect 0 "$MDL" data encode lines.jsonl --field text --tokenizer of.json -o lines.bin
cp "$ROOT/LICENSE" small.txt
packers=(gzip xz)
! command -v zstd > /dev/null || packers+=(zstd)
declare -A ending=([gzip]=gz [xz]=xz [zstd]=zst)

# refused MESSAGE...: the file was refused for this, and nothing is left
refused() {
  mentions err "$@"
  [ ! -e none.bin ] && [ ! -e none.bin.mdl-part ] || die "what failed has left a file"
}

for by in "${packers[@]}"; do
  end=${ending[$by]}
  $by -qc long.txt > long.txt.$end
  $by -qc lines.jsonl > lines.jsonl.$end
  expect 0 "$MDL" data encode long.txt.$end --tokenizer of.json -o made.bin
  mentions out "from 1 document of"
  cmp made.bin long.bin || die "$by: other tokens"
  expect 0 "$MDL" data encode lines.jsonl.$end --field text --tokenizer of.json -o made.bin
  cmp made.bin lines.bin || die "$by: other tokens of lines"
  expect 0 "$MDL" data train-tokenizer long.txt.$end -o made.json --vocab 400
  cmp made.json of.json || die "$by: another tokenizer"
  expect 1 "$MDL" data encode lines.jsonl.$end -o none.bin
  refused "lines.jsonl.$end is JSON lines; say which field is the text: --field text"
  cp lines.jsonl.$end "lines.JSONL.${end^^}"
  expect 1 "$MDL" data encode "lines.JSONL.${end^^}" -o none.bin
  refused "lines.JSONL.${end^^} is JSON lines"

  # Several behind one another are one text, as their programs have it.
  { $by -qc small.txt; $by -qc small.txt; } > two.$end
  expect 0 "$MDL" data encode two.$end -o made.bin
  cat small.txt small.txt > two.txt
  expect 0 "$MDL" data encode two.txt -o two.bin
  cmp made.bin two.bin || die "$by: the second part is left out"

  # Also where one has no bytes, or as many as are read at once, so that its checks are read by themselves.
  : > nothing.txt
  head -c 1048577 long.txt > piece.txt
  for first in small piece; do
    for part in $first nothing small; do $by -qc $part.txt; done > parts.$end
    cat $first.txt small.txt > parts.txt
    expect 0 "$MDL" data encode parts.$end -o made.bin
    expect 0 "$MDL" data encode parts.txt -o parts.bin
    cmp made.bin parts.bin || die "$by: a part of no bytes ends the text"
    $by -qc $first.txt > parts.$end
    $by -qc small.txt >> parts.$end
    expect 0 "$MDL" data encode parts.$end -o made.bin
    cmp made.bin parts.bin || die "$by: the second part begins a document"
  done

  # Some of them may be empty, as those are that some packers end with: what stands behind them is none the less there,
  # and no document ends before them.
  for part in 1 2 3 4 5; do
    $by -qc < /dev/null
    $by -qc < /dev/null
    $by -qc small.txt
    $by -qc < /dev/null
  done > empty.$end
  for part in 1 2 3 4 5; do cat small.txt; done > five.txt
  expect 0 "$MDL" data encode five.txt -o five.bin
  expect 0 "$MDL" data encode empty.$end -o made.bin
  cmp made.bin five.bin || die "$by: what stands behind an empty part is left out, or a document ends there"

  # Cut anywhere, it is known to be; a changed byte is never another text.
  size=$(wc -c < two.$end)
  for cut in 1 7 20 $((size / 3)) $((size - 1)); do
    head -c "$cut" two.$end > cut.$end
    expect 1 "$MDL" data encode cut.$end -o none.bin
    refused "cut.$end ends at its byte $cut, within what was packed: it is truncated"
  done
  for at in 40 $((size / 4)) $((size / 2 - 3)) $((size * 3 / 4)); do
    python3 -c '
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[int(sys.argv[2])] ^= 0x10
open(sys.argv[3], "wb").write(data)' two.$end "$at" bad.$end
    status=0
    "$MDL" data encode bad.$end -o none.bin > out 2> err || status=$?
    [ "$status" = 1 ] || cmp none.bin two.bin || die "$by: byte $at was changed, and the text is another"
    [ "$status" = 0 ] || mentions err "bad.$end"
    rm -f none.bin
  done
  { cat two.$end; echo more; } > behind.$end
  expect 1 "$MDL" data encode behind.$end -o none.bin
  refused "behind.$end"

  # Packed twice it is no text; and recipes read no packed text, but say what does.
  $by -qc two.$end > twice.$end
  expect 1 "$MDL" data encode twice.$end -o none.bin
  refused "twice.$end is packed by $by, not text; unpack it first"
  sed "s|data text.*|data text(\"two.$end\");|" "$SMALL" > packed.mdl
  expect 1 "$MDL" train packed.mdl --steps 1 --out packed
  mentions err "two.$end is packed by $by, which recipes do not read; make tokens of it first: \`mdl data encode"
  expect 1 "$MDL" train "$SMALL" --data two.$end --steps 1 --out packed
  mentions err "two.$end is packed by $by, which recipes do not read; make tokens of it first: \`mdl data encode two.$end -o tokens.bin\`"
done

# A part that is passed over stands before each frame of pzstd.
if command -v zstd > /dev/null; then
  for part in 1 2 3; do
    printf 'P*M\x18\x04\0\0\0size'
    zstd -qc small.txt
  done > parts.zst
  cat small.txt small.txt small.txt > three.txt
  expect 0 "$MDL" data encode three.txt -o three.bin
  expect 0 "$MDL" data encode parts.zst -o made.bin
  cmp made.bin three.bin || die "parts that are passed over: other tokens"
  expect 1 "$MDL" train "$SMALL" --data parts.zst --steps 1 --out packed
  mentions err "parts.zst is packed by zstd, which recipes do not read"
fi

# Standard input, packed or not, alone or among files.
expect 0 "$MDL" data encode - --tokenizer of.json -o made.bin < long.txt
cmp made.bin long.bin || die "standard input: other tokens"
expect 0 bash -c "cat long.txt.gz | '$MDL' data encode - --tokenizer of.json -o made.bin"
cmp made.bin long.bin || die "a pipe: other tokens"
expect 0 bash -c "(head -c 1000 lines.jsonl; sleep 0.1; tail -c +1001 lines.jsonl) | '$MDL' data encode - --field text --tokenizer of.json -o made.bin"
cmp made.bin lines.bin || die "a slow pipe: other tokens"
expect 0 bash -c "'$MDL' data encode small.txt - -o made.bin < small.txt"
expect 0 "$MDL" data encode small.txt small.txt -o two.bin
cmp made.bin two.bin || die "standard input behind a file: other tokens"
cp small.txt kept.txt
expect 2 "$MDL" data encode - -o kept.txt < kept.txt
mentions err "<stdin> is read, and -o kept.txt would overwrite it"
expect 2 "$MDL" data train-tokenizer - -o kept.txt < kept.txt
cmp kept.txt small.txt || die "what was read was overwritten"
expect 0 "$MDL" data encode kept.txt -o small.bin
expect 0 python3 -c '
import os, subprocess, sys, time
read, write = os.pipe()
os.set_blocking(read, False)
child = subprocess.Popen([sys.argv[1], "data", "encode", "-", "-o", "made.bin"], stdin=read)
text = open("small.txt", "rb").read()
time.sleep(0.1)
os.write(write, text[:100])
time.sleep(0.1)
os.write(write, text[100:])
os.close(write)
sys.exit(child.wait())' "$MDL"
cmp made.bin small.bin || die "a pipe that does not block: other tokens"
expect 1 "$MDL" data encode - -o none.bin < /dev/null
refused "there is no text: the files are empty"
: > empty.txt
expect 1 "$MDL" data encode empty.txt -o none.bin
refused "there is no text: the files are empty"
# What does not begin as its name says is no text of its own.
for end in gz zst xz GZ Zst; do
  : > "odd.$end"
  expect 1 "$MDL" data encode small.txt "odd.$end" -o none.bin
  refused "odd.$end does not begin as a file that was packed does, as its name says: it is cut or damaged"
  head -c 5000 /dev/zero > "odd.$end"
  expect 1 "$MDL" data encode "odd.$end" -o none.bin
  refused "odd.$end does not begin as a file that was packed does"
done
expect 1 bash -c "printf 'a\n' | '$MDL' data encode - --field text -o none.bin"
refused "<stdin>:1: no JSON"

# Standard input is read once, and is not overwritten either.
expect 2 "$MDL" data encode - small.txt - -o none.bin < small.txt
refused '`-`, standard input, is named 2 times, and can be read once'
cp small.txt kept.txt
ln -sf kept.txt link.txt
for out in kept.txt link.txt; do
  expect 2 "$MDL" data encode - -o $out < kept.txt
  mentions err "<stdin> is read, and -o $out would overwrite it"
  expect 2 "$MDL" data train-tokenizer - -o $out --vocab 300 < kept.txt
  mentions err "<stdin> is read, and -o $out would overwrite it"
done
cmp small.txt kept.txt || die "standard input was overwritten"

# It has no name that says it is JSON lines; what else it is, is said without one.
expect 0 "$MDL" data encode - -o made.bin < lines.jsonl
mentions err "note: <stdin> begins as JSON lines do, and is read as text"
expect 0 "$MDL" data encode - -o made.bin --field text < lines.jsonl
! grep -q note err || die "a field was taken"
printf '{ "one": 1,\n  "two": 2 }\n{a} {"b"}\n' | expect 0 "$MDL" data encode - -o made.bin
! grep -q note err || die "these are no JSON lines"
expect 1 "$MDL" data encode - -o none.bin < made.bin
refused '<stdin> is a file of tokens of llm.c, not text; a recipe reads it by `data tokens(FILE);`'
tar -cf texts.tar small.txt
expect 1 "$MDL" data encode - -o none.bin < texts.tar
refused '<stdin> is an archive of tar, not text; unpack it first, as `tar -xOf FILE` does'
printf '%%PDF-1.7\n' > page.pdf
expect 1 "$MDL" data encode page.pdf -o none.bin
refused 'page.pdf is a PDF, not text; convert it first: `pdftotext page.pdf - > page.pdf.txt`'

# pzstd begins with frames that are to be skipped.
if command -v zstd > /dev/null; then
  for first in 50 5e; do
    for part in long small; do
      printf "\\x$first\\x2a\\x4d\\x18\\x04\\0\\0\\0size"
      zstd -qc $part.txt
    done > parallel.zst
    cat long.txt small.txt > both.txt
    expect 0 "$MDL" data encode both.txt -o two.bin
    expect 0 "$MDL" data encode parallel.zst -o made.bin
    cmp made.bin two.bin || die "pzstd: other tokens"
  done
  printf '\x50\x2a\x4d\x18\x04\0\0\0size' | cat - small.txt > parallel.zst
  expect 1 "$MDL" data encode parallel.zst -o none.bin
  refused "parallel.zst cannot be unpacked beyond its byte"
  expect 1 "$MDL" train "$SMALL" --data parallel.zst --steps 1 --out packed
  mentions err "parallel.zst is packed by zstd, which recipes do not read"
fi
