#!/bin/bash
# memory_ranks.sh: what two GPUs give away is what was said before, within 3%: data, tensor and pipeline parallel.
#
# By hand: ROOT=$PWD MDL=$PWD/build/mdl MDLC=$PWD/build/mdlc WORK=$(mktemp -d) tests/gpu/memory_ranks.sh
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
[ "$DEVICE" = cpu ] || [ "$(gpu_count)" -ge 2 ] || { echo "there are not two GPUs"; exit 77; }

cat > ranks.mdl << EOF
import "$ROOT/examples/large.mdl";
layout dp2 { mesh dp = 2; batch -> dp; }
layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 4; }
EOF
cat "$ROOT"/docs/*.md > text
few=()
[ "$DEVICE" != cpu ] || few=(--set layers=2 --set batch=4 --set seq=32 --set embed=64 --set hd=8 --set heads=8 --set ffn=64)
far=''
for layout in dp2 tp2 pp2; do
  train ranks.mdl --layout "$layout" --data text --steps 2 --device "$DEVICE" --out "$layout" "${few[@]}"
  echo "$layout"
  sed 's/\x1b\[[0-9;]*m//g' "$layout/log.txt" | awk '/^data/ { exit } /^memory/ { said = 1 } said'
  [ "$DEVICE" != cpu ] || continue
  share=$(sed -n 's/.* measured (\([+-][0-9.]*\)%).*/\1/p' "$layout/log.txt" | head -n 1)
  [ -n "$share" ] || die "$layout: the head of the run does not say what was measured"
  awk -v share="$share" 'BEGIN { exit !(share <= 3 && share >= -3) }' || far="$far $layout ($share%)"
done
[ -z "$far" ] || die "further than 3% from what was predicted:$far"
