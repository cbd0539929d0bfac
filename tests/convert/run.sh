#!/bin/bash
# run.sh: models that `transformers` makes on the spot have the same scores here, and what is written is what it loads.
. "${ROOT:?}/tests/cli/lib.sh"
python=${PYTHON:-python3}
"$python" -c "import torch, transformers, safetensors" 2> why || {
  echo "there is no $(sed -n "s/^ModuleNotFoundError: No module named '\(.*\)'$/package \1/p" why) for $python; PYTHON names another one"
  exit 77
}
"$python" "$ROOT/tests/convert/compare.py" "$MDL" "$BUILD/tests/convert_logits" "$ROOT/models"
