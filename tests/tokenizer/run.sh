#!/bin/bash
# run.sh: tokens and tokenizers that `mdl data` makes are those of the packages tokenizers and tiktoken (compare.py).
#
#   MEGABYTES=10 tests/run.sh tokenizer      on more text
. "${ROOT:?}/tests/cli/lib.sh"
if "$MDL" data train-tokenizer "$ROOT/LICENSE" -o none.json 2>&1 | grep "built without PCRE2"; then exit 77; fi
command -v python3 > /dev/null || exit 77
python3 "$ROOT/tests/tokenizer/compare.py" "$MDL" "$ROOT" "${MEGABYTES:-1}"
