#!/bin/bash
# memory.sh: what the GPU gives away is what was said before: within 3% or 512 MiB, with the driver and the libraries.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu

# mebibytes NUMBER UNIT
mebibytes() {
  awk -v n="$1" -v unit="$2" 'BEGIN { f["B"] = 1 / 1048576; f["KiB"] = 1 / 1024; f["MiB"] = 1; f["GiB"] = 1024
    if (!(unit in f)) exit 1
    printf "%.1f\n", n * f[unit] }'
}

# compare RUN: the line with which it ended
compare() {
  local run=$1 line number='([0-9.]+) ([KMG]?i?B)'
  line=$(grep 'measured' "$run/log.txt" | tail -n 1 | sed 's/\x1b\[[0-9;]*m//g')
  if [ "$DEVICE" = cpu ]; then
    return 0
  fi
  [[ $line =~ peak\ $number\ measured,\ $number\ predicted\ for\ the\ plan\ \+\ $number\ of\ the\ driver ]] ||
    die "$run: no memory in '$line'"
  local m=("${BASH_REMATCH[@]}") measured predicted
  measured=$(mebibytes "${m[1]}" "${m[2]}")
  predicted=$(awk -v a="$(mebibytes "${m[3]}" "${m[4]}")" -v b="$(mebibytes "${m[5]}" "${m[6]}")" 'BEGIN { print a + b }')
  echo "$run: $measured MiB measured, $predicted MiB predicted"
  awk -v a="$measured" -v b="$predicted" 'BEGIN { d = a > b ? a - b : b - a; exit !(d <= 512 || d <= 0.03 * a) }' ||
    die "$run: $measured MiB measured, $predicted MiB predicted"
}

for recipe in gpt2 llama odd; do
  for precision in fp32 bf16; do
    curve "$recipe" gpu "$recipe-$precision" --precision "$precision" --steps 5
    compare "$recipe-$precision"
  done
done
if [ "$DEVICE" != cpu ]; then
  cat > large.mdl <<EOF
import "$ROOT/models/llama.mdl";
recipe large {
  model llama(vocab = 32000, embed = 2048, layers = 4, kv_heads = 8, group = 4, hd = 64, ffn = 8192);
  data text("$ROOT/LICENSE", tokenizer = bytes);
  batch = 4;
  seq = 512;
  optimizer adamw(lr = 1e-5, clip = 1.0);
}
EOF
  for precision in bf16 fp32; do
    train large.mdl --precision "$precision" --steps 3 --device "$DEVICE" --out "large-$precision"
    compare "large-$precision"
  done
fi
