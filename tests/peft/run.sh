#!/bin/bash
# run.sh: adapters of the package peft have the same scores here, and what is written is what it loads.
. "${ROOT:?}/tests/cli/lib.sh"
python=${PYTHON:-python3}
"$python" -c "import torch, transformers, peft" 2> why || {
  echo "there is no $(sed -n "s/^ModuleNotFoundError: No module named '\(.*\)'$/package \1/p" why) for $python; PYTHON names another one"
  exit 77
}
"$python" "$ROOT/tests/peft/compare.py" "$MDL" "$BUILD/tests/convert_logits"
