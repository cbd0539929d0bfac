#!/bin/bash
# run.sh: tokens that `mdl data encode` makes by models of SentencePiece are those of the package sentencepiece
# (compare.py). Without the package, sentence_test compares with what lies here.
#
#   MEGABYTES=10 tests/run.sh sentence      on more text, each kind of model also on all of it as one document
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
python3 "$ROOT/tests/sentence/compare.py" "$MDL" "$ROOT" "${MEGABYTES:-0.1}"
