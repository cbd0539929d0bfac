#!/bin/bash
# tutorial.sh: docs/tutorial.md can be followed: its files are written, its commands run, with few steps of training.
. "${ROOT:?}/tests/cli/lib.sh"
mkdir build
ln -s "$MDL" build/mdl
ln -s "$MDLC" build/mdlc
ln -s "$ROOT/models" models
for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$ROOT/LICENSE"; done > build/bible.txt

mkdir -p try
awk '
  /^```mdl / { file = "try/" $2; next }
  /^```sh/ { file = "commands"; next }
  /^```/ { file = ""; next }
  file == "commands" && /^mdl train / { sub(/ --steps [0-9]+/, ""); $0 = $0 " --steps 3" }
  file != "" { print > file }
' "$ROOT/docs/tutorial.md"
[ "$(grep -c '^mdl train' commands)" -ge 4 ] || die "the tutorial has lost its commands"
for file in try/*.mdl; do
  expect 0 "$MDLC" fmt --check "$file"
done
bash -euxo pipefail commands

# What it says about mistakes and layouts.
cd try
expect 0 "$MDLC" check mine.mdl
[ ! -s err ] || { cat err >&2; die "the check of mine.mdl is not silent"; }
read -r all quarter < <(sed -n 's/.* from \([0-9.]*\) to \([0-9.]*\) MiB.*/\1 \2/p' "$ROOT/docs/tutorial.md")
expect 0 "$MDLC" explain hybrid.mdl
mentions out "recipe hybrid" " ${all:?} MiB"
expect 0 "$MDLC" explain hybrid.mdl --layout quarters
mentions out " ${quarter:?} MiB"
sed "s/\[embed' -> embed\]//" mine.mdl > wrong.mdl
expect 1 "$MDLC" check wrong.mdl
mentions err "error[E022]"
expect 0 "$MDL" train hybrid.mdl --recipe hybrid --out a --steps 3 --precision fp64
expect 0 "$MDL" train hybrid.mdl --recipe hybrid --layout quarters --out b --steps 3 --precision fp64
paste <(losses a) <(losses b) |
  awk '{ d = $2 / $4 - 1; if (d > 1e-9 || d < -1e-9) exit 1 } END { exit NR < 3 }' || die "a layout changed the losses"
mentions runs/steady/checkpoints/step-00000003/manifest.json "steady.agreement.layers.0.mix.filter"
