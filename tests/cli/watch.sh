#!/bin/bash
# watch.sh: norms of gradients, parameters and updates by group, against checkpoints, and the same under layouts.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
LAYOUTS=$ROOT/examples/layouts.mdl
watched() {
  train "$LAYOUTS" --data "$ROOT/LICENSE" --steps 2 --save-every 1 --set batch=16 --watch 'layers.*' --watch '*' "$@"
}
watched --out one
# Selectors that tell the same groups apart: each counts once.
train "$LAYOUTS" --data "$ROOT/LICENSE" --steps 2 --save-every 1 --set batch=16 --watch 'layers.*' --watch layers.1 \
  --watch 'layers.*' --watch '*' --out again
for layout in z3 d3 interleaved tp2_sp; do
  watched --out "$layout" --layout "$layout"
done
python3 "$ROOT/tests/cli/watch.py" one again z3 d3 interleaved tp2_sp
if sed 's/"update_norm.layers.1":0.4/"update_norm.layers.1":0.5/' one/metrics.jsonl > changed && ! cmp -s changed one/metrics.jsonl; then
  mkdir control
  cp -r one/checkpoints control
  mv changed control/metrics.jsonl
  if python3 "$ROOT/tests/cli/watch.py" control > /dev/null 2>&1; then die "a wrong norm passes"; fi
else
  die "there is no update of layers.1 to spoil"
fi

# Watching changes nothing where ranks store no pieces.
train "$LAYOUTS" --data "$ROOT/LICENSE" --steps 2 --set batch=16 --out plain
same "weights" "$(weights plain 2)" "$(weights one 2)"

# In the text, and what selects nothing.
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e 's/^recipe .*{/&\n  watch norm, layers.0;/' "$SMALL" > said.mdl
train said.mdl --steps 1 --out said
mentions said/metrics.jsonl '"grad_norm.norm":' '"update_norm.layers.0":'
expect 1 "$MDL" train "$LAYOUTS" --data "$ROOT/LICENSE" --watch 'layerz.*'
mentions err E015 "'layerz.*'" "to watch"
expect 1 "$MDL" train "$LAYOUTS" --data "$ROOT/LICENSE" --watch @resid
mentions err E051 "names of parameters"
expect 0 "$MDLC" compile said.mdl -o said.mdlx
expect 2 "$MDL" train said.mdlx --watch 'layers.*'
mentions err --watch
