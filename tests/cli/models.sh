#!/bin/bash
# models.sh: every layout of every model and example, at a reduced size, in fp64: two steps are those of one rank; and
# with 16-bit copies, with an output of every value: no value differs by more than its error budget. What layouts compress
# has 16 bits, so those are compared in the second way alone; a capacity changes what is computed (experts_test).
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt

# compared FILE RECIPE SETTING...: all layouts of a copy of the file that reads text.txt, on fewer ranks
compared() {
  local file=$1 recipe=$2 layouts
  shift 2
  sed -e 's/data text("[^"]*"/data text("text.txt"/' -e 's/mesh pp = 16, dp = 8, tp = 8/mesh pp = 2, dp = 2, tp = 2/' \
    -e 's/microbatches = 216/microbatches = 2/' "$file" > model.mdl
  layouts=$(grep -v -e ' compress ' -e ' capacity = ' model.mdl | grep -o '^layout [A-Za-z0-9_]*' | cut -d' ' -f2 | paste -sd, -)
  [ -n "$layouts" ] || die "$file has no layouts"
  rm -rf compared
  "$MDL" ablate model.mdl --recipe "$recipe" "layout=single,$layouts" "$@" --steps 2 --precision fp64 --out compared > out 2>&1 ||
    { cat out >&2; die "$file: a layout is not what one rank computes"; }
  if grep -vE '^(note|warning): ' out | grep -qE 'E0[0-9][0-9]'; then
    cat out >&2
    die "$file: a layout does not compile"
  fi
  echo "$(basename "$file"): $(echo "$layouts" | tr ',' '\n' | wc -l) layouts"
}

# set NAME=VALUE...: as options
set_all() {
  local setting
  for setting in "$@"; do
    echo --set "$setting"
  done
}

# shellcheck disable=SC2046 # options are words
{
  compared "$ROOT/models/llama.mdl" small $(set_all batch=8 seq=16 embed=16 layers=4 kv_heads=4 group=2 hd=4 ffn=24)
  compared "$ROOT/models/gpt2.mdl" tiny $(set_all batch=8 seq=16 places=16 embed=16 layers=2 heads=4)
  compared "$ROOT/models/bloom.mdl" tiny $(set_all batch=8 seq=16 embed=16 layers=2 heads=4)
  compared "$ROOT/models/gemma.mdl" tiny $(set_all batch=8 seq=16 embed=16 layers=2 group=4 hd=4 ffn=24)
  compared "$ROOT/models/qwen3.mdl" tiny $(set_all batch=8 seq=16 embed=16 layers=2 hd=4 ffn=24)
  compared "$ROOT/models/mixtral.mdl" tiny $(set_all batch=8 seq=16 embed=16 layers=2 kv_heads=2 hd=4 ffn=24)
  compared "$ROOT/models/olmoe.mdl" tiny $(set_all batch=8 seq=16 embed=16 layers=2 heads=4 hd=4 ffn=8 experts=8 choice=2)
  compared "$ROOT/models/deepseek.mdl" tiny \
    $(set_all batch=12 seq=16 embed=16 layers=3 heads=4 hd=4 latent=8 turned=4 ffn=24 experts=8 choice=2 inner=8)
  compared "$ROOT/models/mamba2.mdl" small \
    $(set_all batch=8 seq=160 embed=8 layers=10 heads=2 hd=4 cell=4 hybrid=1 kv_heads=2 kd=4)  # layer 9 is attention
  compared "$ROOT/examples/layouts.mdl" small $(set_all batch=8 seq=16 embed=16 hd=4 ffn=24)
}
layouts=$(grep -o '^layout [A-Za-z0-9_]*' model.mdl | cut -d' ' -f2)  # of examples/layouts.mdl
[ -z "${TESTS_SHORT:-}" ] || layouts=$(echo "$layouts" | awk 'NR % 4 == 1')
for layout in $layouts; do
  # shellcheck disable=SC2046 # options are words
  "$MDL" diff model.mdl --recipe small "layout=single,$layout" --precision bf16 \
    $(set_all batch=8 seq=16 embed=16 hd=4 ffn=24) > out 2>&1 || { cat out >&2; die "layouts.mdl, $layout: bf16 differs"; }
done
for file in "$ROOT"/models/*.mdl "$ROOT"/examples/*.mdl; do  # a new one that has layouts is compared above
  if grep -q '^layout ' "$file" && ! grep -q "/$(basename "$file")\"" "$ROOT/tests/cli/models.sh"; then
    die "$(basename "$file") has layouts that are not compared"
  fi
done

# Packs of more than 2^31 numbers compile with rounded copies.
"$MDLC" compile "$ROOT/models/bloom.mdl" --recipe bloom_176b --layout dp4 --precision fp8_hybrid -o large.mdlx > out 2>&1 ||
  { cat out >&2; die "bloom_176b does not compile under dp4 in 8 bits"; }

# Mixtures of experts learn, and say how evenly; what a capacity drops is counted.
learns() {
  local model=$1 least=$2 run=$3 last
  shift 3
  sed 's/data text("[^"]*"/data text("text.txt"/' "$ROOT/models/$model.mdl" > "$model.mdl"
  "$MDL" train "$model.mdl" --recipe tiny --set steps=60 --set batch=4 --out "$run" "$@" > out 2>&1 ||
    { cat out >&2; die "$model.mdl does not train"; }
  last=$(sed -n 's/^step 60.60 *loss \([0-9.]*\).*/\1/p' out)
  awk -v a="$last" -v b="$least" 'BEGIN { exit !(a > 1 && a < b) }' ||
    die "$model.mdl: the loss is '$last' after 60 steps"  # it begins at ln 256
  grep -q '"busiest":[1-9]' "$run/metrics.jsonl" || die "$model.mdl: its metrics have no loads"
  grep -q '"load\.layers\.1\.[a-z]*":[1-9]' "$run/metrics.jsonl" || die "$model.mdl: its metrics have no loads of layers"
  grep -q '^step 60.60 .* load [0-9.]* in layers\.[0-9]' out || die "$model.mdl: the log has no load"
}
[ -n "${TESTS_SHORT:-}" ] || learns mixtral 3.6 mixtral
[ -n "${TESTS_SHORT:-}" ] || learns olmoe 3.6 olmoe
learns deepseek 3.6 deepseek
learns olmoe 3.7 bounded --layout ep4_bounded
grep -q '"dropped":[0-9]' bounded/metrics.jsonl || die "what a capacity drops is not in the metrics"
grep -q '"dropped\.layers\.0\.ffn":0\.[0-9]' bounded/metrics.jsonl || die "what one layer drops is not in the metrics"
"$MDLC" explain olmoe.mdl --recipe tiny > out || die "olmoe.mdl is not explained"
grep -q 'a step says: load.layers.0.ffn to load.layers.1.ffn$' out || die "explain does not say where loads are"
