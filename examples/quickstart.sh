#!/bin/sh
# quickstart.sh: from a fresh Debian or Ubuntu to a small language model trained on this machine, in minutes.
#
#   examples/quickstart.sh [STEPS]
#
# Installs what is missing, builds, makes a text of the King James Bible (public domain; a Debian package), trains
# examples/tiny.mdl on it, or with an NVIDIA GPU examples/large.mdl, and shows what came out. Run again, it goes on where
# it was. STEPS: to stop early.
set -eu
cd "$(dirname "$0")/.."

say() {
  printf '\n== %s\n' "$*"
}

say "packages"
scripts/install.sh build corpus
echo "all there"

say "build"
mkdir -p build
if ! { cmake -S . -B build && cmake --build build -j "$(nproc)" --target mdl mdlc; } > build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "the build failed: all of it is in build/quickstart.log" >&2
  exit 1
fi
ls -l build/mdlc build/mdl | awk '{ print $NF, int($5 / 1024) " KiB" }'

say "text"
if [ ! -s build/bible.txt ]; then
  # A line is a verse, "Ge1:1 In the beginning ...": the place goes, and an empty line stands between chapters.
  bible -f 'Gen1:1-Rev22:21' |
    awk '{ chapter = $1; sub(/:.*/, "", chapter); if (NR > 1 && chapter != last) print ""; last = chapter;
           sub(/^[^ ]* */, ""); print }' > build/bible.txt.part
  mv build/bible.txt.part build/bible.txt
fi
wc -lc build/bible.txt | awk '{ print $2 " bytes, " $1 " lines in " $3 }'
sed -n 1,2p build/bible.txt

MODEL=tiny
RUN=runs/quickstart
if nvidia-smi -L 2> /dev/null | grep GPU > /dev/null; then
  MODEL=large  # a hundred million parameters
  RUN=runs/quickstart-large
fi

say "train: examples/$MODEL.mdl, into $RUN"
if [ -d "$RUN/checkpoints" ]; then
  set -- --resume ${1:+--steps "$1"}
else
  rm -rf "$RUN"
  set -- ${1:+--steps "$1"}
fi
(cd build && ./mdl train "../examples/$MODEL.mdl" --out "../$RUN" "$@")  # build/ is where it finds bible.txt

say "what it learned: the part of the text that it was not shown"
(cd build && ./mdl eval "../$RUN")

say "what it writes after \"And God said\""
build/mdl generate "$RUN" --prompt "And God said" --tokens 400 --temperature 0.7

say "and now"
cat << END
the curve of the loss       $RUN/loss.svg
more of its writing         build/mdl generate $RUN --prompt "In the beginning" --seed 2
what was trained, exactly   $RUN/resolved.mdl
change it                   examples/$MODEL.mdl is one page; docs/tutorial.md goes on from here
END
