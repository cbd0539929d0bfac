#!/bin/bash
# shards.sh: files that a pattern names are one source: in order, each as often as it has windows, found from anywhere.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || exit 77
mkdir shards other
python3 - "$ROOT/LICENSE" <<'PY'
import sys
text = open(sys.argv[1]).read() * 4
cuts = [0, 9000, 21000, 22500, 36000]
for i in range(4):
    open(f"shards/part-{i}.txt", "w").write(text[cuts[i]:cuts[i + 1]])
PY
of() {  # DATA FILE: the small model on other data
  sed "s|data text.*|data $1;|" "$SMALL" > "$2"
}
of 'text("shards/part-*.txt")' all.mdl
train all.mdl --steps 6 --eval-every 3 --out all
mentions out "data      $PWD/shards/part-*.txt: 4 files by pattern, 35.2 KiB"

# It is the mix of these files by how many windows they have; of one file it is that file.
windows() {  # FILE: to train on: its tokens but for 5% to validate with, and one window for the shift
  local tokens
  tokens=$(wc -c < "$1")
  echo $(((tokens - tokens * 5 / 100 - 32) / 32))
}
mix="mix(a = $(windows shards/part-0.txt) * text(\"shards/part-0.txt\")"
for i in 1 2 3; do mix="$mix, p$i = $(windows shards/part-$i.txt) * text(\"shards/part-$i.txt\")"; done
of "$mix)" mix.mdl
train mix.mdl --steps 6 --eval-every 3 --out mix
same "losses of a pattern and of the mix" "$(losses all)" "$(losses mix)"
of 'text("shards/part-[1].txt")' one.mdl
of 'text("shards/part-1.txt")' plain.mdl
train one.mdl --steps 4 --out one
train plain.mdl --steps 4 --out plain
same "losses of one file" "$(losses one)" "$(losses plain)"

# Files of tokens, ranks that share a batch, a source of a mix, validation by name, --data.
for i in 0 1 2 3; do expect 0 "$MDL" data encode shards/part-$i.txt -o shards/s$i.bin --quiet; done
of 'tokens("shards/s?.bin", tokenizer = bytes)' tokens.mdl
train tokens.mdl --steps 3 --out tokens
expect 0 "$MDL" eval tokens
mentions out "bits per byte"
of 'mix(web = 0.7 * text("shards/part-*.txt"), code = 0.3 * text("'"$ROOT"'/LICENSE"))' both.mdl
train both.mdl --steps 3 --out both
mentions out "part-*.txt and 1 more"
of 'text("shards/part-0.txt"); validation sets(early = text("shards/part-[01].txt"), late = text("shards/part-[23].txt"))' late.mdl
train late.mdl --steps 2 --eval-every 2 --out late
expect 0 "$MDL" eval late
mentions out "early" "late"
train "$SMALL" --data 'shards/part-*.txt' --steps 6 --eval-every 3 --out given
same "losses with --data" "$(losses all)" "$(losses given)"

# A run knows its files from anywhere, and that they are others.
(cd other && expect 0 "$MDL" eval ../all && mentions out "the last 5% of")
(cd other && expect 0 "$MDL" train ../all.mdl --steps 8 --resume --out ../all && mentions out "resumed   after step 6")
expect 0 "$MDL" eval all --data shards/part-2.txt
mentions out "which the run was trained on"
cp shards/part-1.txt shards/part-9.txt
expect 1 "$MDL" train all.mdl --steps 10 --resume --out all
mentions err "part-*.txt is not the data that this run was trained on: a file was added, removed, renamed or changed" \
  "(5 files of "
rm shards/part-9.txt

# What is wrong is said of the file, or of the pattern.
of 'text("shards/none-*.txt")' none.mdl
expect 1 "$MDL" train none.mdl --steps 1 --out none
mentions err "the data file shards/none-*.txt: no file fits this pattern"
expect 1 "$MDL" train "$SMALL" --data 'none/**/*.txt' --steps 1 --out never
mentions err "\`**\` does not go into directories of directories"
: > shards/part-5.txt
expect 1 "$MDL" train all.mdl --steps 1 --out none
mentions err "shards/part-5.txt is empty"
echo short > shards/part-5.txt
expect 1 "$MDL" train all.mdl --steps 1 --out none
mentions err "shards/part-5.txt has" "tokens to train on, but one sample takes 33"
rm shards/part-5.txt
of 'tokens("shards/s?.bin", mask = "shards/s0.mask")' mask.mdl
expect 1 "$MDL" train mask.mdl --steps 1 --out none
mentions err "a mask is of one file"
of 'text("/*/*/*.txt")' wide.mdl
expect 1 "$MDL" train wide.mdl --steps 1 --out none
mentions err "at most 2 names of a path may have"
cp shards/part-0.txt 'shards/[odd].txt'
of 'text("shards/[odd].txt")' odd.mdl  # the name of a file that is there is that file
train odd.mdl --steps 1 --out odd
mentions out "[odd].txt: 8.79 KiB"

# What cannot be looked at is no directory without files: some of the data would be missing.
mkdir -p deep/a && cp shards/part-1.txt deep/a/t.txt && ln -s loop deep/loop
of 'text("deep/*/t.txt")' deep.mdl
expect 1 "$MDL" train deep.mdl --steps 1 --out none
mentions err "the data file deep/*/t.txt: cannot read deep/loop/t.txt: Too many levels of symbolic links"
rm deep/loop
train deep.mdl --steps 1 --out deep-run
mentions out "1 file by pattern"
: > shards/part-6.txt.mdl-part
of 'text("shards/part-*")' left.mdl
expect 1 "$MDL" train left.mdl --steps 1 --out none
mentions err "is what a killed \`mdl data\` left unfinished"
rm shards/part-6.txt.mdl-part

# What is validated with and trained on is said, of whatever is called another way.
for with in 'shards/part-*.txt' 'shards/part-[01].txt' "$PWD/other/../shards/part-3*"; do
  of "text(\"shards/part-?.txt\"); validation text(\"$with\")" again.mdl
  train again.mdl --steps 1 --out "again-$RANDOM"
  mentions out "is trained on too"
done
cp shards/part-2.txt other/copy.txt
echo "something else, and rather short, but long enough for one window" > other/new.txt
of 'text("shards/part-?.txt"); validation text("other/*.txt")' copy.mdl
train copy.mdl --steps 1 --out copy
mentions out "1 of the 2 files of the validation source $PWD/other/*.txt, such as other/copy.txt, is trained on too"
expect 0 "$MDL" eval all --data 'shards/part-[13].txt'
mentions out "which the run was trained on"
expect 0 "$MDL" eval all --data other/copy.txt
mentions out "which the run was trained on"
expect 0 "$MDL" eval all --data other/new.txt
! grep -q "trained on" out || die "a new file was trained on"
expect 0 "$MDL" eval all --data 'other/*.txt'
mentions err "the run was trained on 1 of the 2 files of $PWD/other/*.txt, such as other/copy.txt, and not on the others"
mentions out "all of $PWD/other/*.txt, all or some of which the run was trained on"

# In the place of a mix of tokens without a tokenizer there are tokens, and other ones are said.
"$MDL" data train-tokenizer shards/part-1.txt --vocab 270 -o one.json -q
"$MDL" data train-tokenizer shards/part-3.txt --vocab 262 -o two.json -q
for i in 1 3; do "$MDL" data encode "shards/part-$i.txt" --tokenizer one.json -o "t$i.bin" -q; done
"$MDL" data encode shards/part-0.txt --tokenizer two.json -o u0.bin -q
for data in 'mix(a = tokens("t1.bin"), b = tokens("t3.bin"))' 'tokens("t?.bin")'; do
  of "$data" tokens.mdl
  train tokens.mdl --steps 1 --set vocab=270 --out "of-$i"
  expect 1 "$MDL" eval "of-$i" --data shards/part-1.txt
  expect 0 "$MDL" eval "of-$i" --data u0.bin
  mentions err "were made by two tokenizers, or by two states of one"
  ! grep -q "nan" out || die "nan bits"
  expect 0 "$MDL" eval "of-$i" --data 't[13].bin'
  mentions out "which the run was trained on"
  ((i++)) || true
done
# A mask beside the tokens is none that is read, and a pair of Megatron is one source.
head -c "$(python3 -c 'import os; print((os.path.getsize("t1.bin") - 1024) // 2)')" /dev/zero > t1.bin.mask
train tokens.mdl --steps 1 --set vocab=270 --out masked
mentions out "t1.bin.mask says which tokens of" "the recipe does not name it"
mv t1.bin.mask t3.bin.mask && head -c "$(python3 -c 'import os; print((os.path.getsize("t3.bin") - 1024) // 2)')" /dev/zero > t3.bin.mask
train tokens.mdl --steps 1 --set vocab=270 --out masked-other
mentions out "t3.bin.mask says which tokens of"
rm t3.bin.mask
# Nor is it tokens where a pattern fits it, too; one that does not fit its tokens is an error, not tokens.
mkdir beside && cp t1.bin beside
"$MDL" data encode shards/part-1.txt --tokenizer one.json --raw -o beside/raw.bin -q
for file in t1 raw; do
  size=$(wc -c < beside/$file.bin)
  [ "$file" = raw ] || size=$((size - 1024))
  head -c $((size / 2)) /dev/zero > "beside/$file.bin.mask"
done
of 'tokens("beside/t*")' beside-1.mdl
of 'tokens("beside/r*", u16)' beside-2.mdl
for i in 1 2; do
  train beside-$i.mdl --steps 1 --set vocab=270 --out "by-$i"
  mentions out "1 file by pattern" ".bin.mask says which tokens of"
  for file in beside/*.mask; do echo x >> "$file"; done
  expect 1 "$MDL" train beside-$i.mdl --steps 1 --set vocab=270 --out none
  mentions err ".bin.mask has the name of a mask of" "not one for each of its"
  for file in beside/*.mask; do truncate -s -2 "$file"; done
done
of 'text("shards/*/")' slash.mdl
expect 1 "$MDL" train slash.mdl --steps 1 --out none
mentions err "this is a pattern of directories, not of files"
expect 1 "$MDL" eval of-3 --data nothere.bin
mentions err "nothere.bin is neither in the working directory nor"
python3 - <<'PY'
import struct
for name in "ab":
    open(f"pair-{name}.bin", "wb").write(bytes(range(1, 101)) * 4)
    lengths, at = [100] * 4, [0, 100, 200, 300]
    open(f"pair-{name}.idx", "wb").write(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, 4, 5) + struct.pack("<4i", *lengths) + struct.pack("<4q", *at)
        + struct.pack("<5q", *range(5)))
PY
of 'tokens("pair-*")' pair.mdl
train pair.mdl --steps 1 --out pair
mentions out "2 files by pattern, 800 bytes"
[ -d of-4 ] || die "one run of two"
# In the place of a mix of texts a pair is read as tokens, and one that is damaged is no text.
of 'mix(a = text("shards/part-0.txt"), b = text("shards/part-1.txt"))' texts.mdl
train texts.mdl --steps 1 --out texts
for data in pair-a.bin pair-a.idx 'pair-*'; do
  expect 0 "$MDL" eval texts --data "$data"
  mentions out "tokens         $([ "$data" = 'pair-*' ] && echo 768 in 24 || echo 384 in 12) windows"
done
mkdir cut && cp pair-a.bin cut && head -c 90 pair-a.idx > cut/pair-a.idx
for data in cut/pair-a.bin cut/pair-a.idx 'cut/*'; do
  expect 1 "$MDL" eval texts --data "$data"
  mentions err "cut/pair-a.idx says at byte 18 that it has 4 sequences"
  expect 1 "$MDL" train texts.mdl --data "$data" --steps 1 --out none
  mentions err "cut/pair-a.idx says at byte 18 that it has 4 sequences"
done
expect 1 "$MDL" train "$SMALL" --data pair-a.idx --steps 1 --out none
mentions err "pair-a.idx is an index of Megatron, not text; a recipe reads it"
# Only a pattern of tokens passes over an index.
mkdir books && cp shards/part-1.txt books/one.bin && cp shards/part-2.txt books/one.idx
of 'text("books/*")' books.mdl
train books.mdl --steps 1 --out books-run
mentions out "2 files by pattern"

# What is validated with is all read, too: a file without a window is an error that names it.
mkdir brief && cp shards/part-1.txt brief/a.txt && echo short > brief/b.txt
of 'text("shards/part-0.txt"); validation sets(v = text("brief/*.txt"))' brief.mdl
expect 1 "$MDL" train brief.mdl --steps 1 --out none
mentions err "brief/b.txt has 6 tokens, less than one window of 33"
expect 1 "$MDL" eval texts --data 'brief/*.txt'
mentions err "brief/b.txt has 6 tokens, less than one window of 33"
# A link that leads nowhere is there.
ln -sf gone.txt brief/b.txt
expect 1 "$MDL" eval texts --data 'brief/*.txt'
mentions err "the data file brief/b.txt is a link that leads nowhere, to gone.txt"
expect 1 "$MDL" train brief.mdl --steps 1 --out none
mentions err "the validation file brief/b.txt is a link that leads nowhere, to gone.txt"

# A directory may be called what would be a pattern.
mkdir -p 'at[1]\*/deep'
cp shards/part-[01].txt 'at[1]\*/deep'
of 'text("shards/part-[01].txt")' two.mdl
train two.mdl --steps 2 --eval-every 2 --out two
of 'text("deep/part-*.txt")' 'at[1]\*/deep.mdl'
train 'at[1]\*/deep.mdl' --steps 2 --eval-every 2 --out beside-text
same "losses of files beside a text" "$(losses two)" "$(losses beside-text)"
(cd 'at[1]\*' && train deep.mdl --steps 1 --out run)
train 'at[1]\*/run' --steps 2 --resume
mentions out "resumed   after step 1"
expect 0 "$MDL" eval 'at[1]\*/run'
# The sources of a mix, too.
of 'mix(a = text("deep/part-*.txt"), b = text("deep/part-1.txt"))' 'at[1]\*/mix.mdl'
(cd 'at[1]\*' && train mix.mdl --steps 1 --out mixed)
mkdir -p elsewhere/deep && cp shards/part-2.txt elsewhere/deep
(cd elsewhere && train '../at[1]\*/mixed' --steps 2 --resume)
[ ! -e none ] || die "a run was left"
