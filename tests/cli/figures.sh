#!/bin/bash
# figures.sh: docs/layouts.md says what the commands on it print.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || exit 77
[ -z "${TESTS_SHORT:-}" ] || { echo "TESTS_SHORT leaves it out"; exit 77; }
for name in docs examples models LICENSE; do
  ln -s "$ROOT/$name" "$name"
done
export MDL MDLC
python3 "$ROOT/tests/cli/figures.py" docs/layouts.md examples/layouts.mdl

# The control: another figure, and another loss.
sed 's/^| `z1` | 417 KiB/| `z1` | 416 KiB/; s/loss 3.6633$/loss 3.6634/' docs/layouts.md > changed.md
if python3 "$ROOT/tests/cli/figures.py" changed.md examples/layouts.mdl > out; then die "wrong figures are not noticed"; fi
mentions out "z1, parameters of a rank: 416 KiB" "step 10/10  loss 3.6634"
