#!/bin/bash
# run.sh: the shape of what every shipped recipe, and each of those here, compiles to under every layout, without
# running it, is that of expected.txt; and it keeps limits that no table can move.
#
#   tests/gate/run.sh --update    writes expected.txt anew: what has become worse in it wants a reason
#
# Sizes are those of the recipes, but for the number of layers, which repeat: 2, or enough for the stages of a pipeline.
# Each line is a recipe under a layout in a precision (- : the recipe's; fp8: fp8_current, block: fp8_block, of some
# recipes). Right and slow is a failure too. `exposed` is how many milliseconds of a step communicate and compute nothing,
# as reckoned, on the stage with most of them.
set -euo pipefail
cd "$(dirname "$0")/../.."
ROOT=$PWD
MDLC=${MDLC:-$ROOT/build/mdlc}
if [ -z "${WORK:-}" ]; then
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
fi
TABLE=$ROOT/tests/gate/expected.txt
update=""
if [ "${1:-}" = --update ]; then
  update=yes
fi
export MDLC WORK

# names WORD FILE: of the recipes or layouts of a file
names() {
  { grep -o "^$1 [A-Za-z0-9_]*" "$2" || true; } | cut -d' ' -f2
}

# layers FILE LAYOUT: as many as its stages need
layers() {
  case $2 in
    ranks1024) echo 16 ;;
    *)
      awk -v layout="$2" '$1 == "layout" { inside = $2 == layout } inside && /layers ->/ { staged = 1 } END { print staged ? 8 : 2 }' "$1"
      ;;
  esac
}

# precisions RECIPE
precisions() {
  case $1 in
    llama_1b) echo - bf16 fp8 block ;;
    gpt2_124m | llama3_8b | small) echo - bf16 fp8 ;;
    llm_jp_172b_fp8) echo - ;;
    *) echo - bf16 ;;
  esac
}

# one NUMBER FILE RECIPE LAYOUT PRECISION LAYERS: one line of the table
# shellcheck disable=SC2317 # xargs calls it
one() {
  local number=$1 file=$2 recipe=$3 layout=$4 precision=$5 layers=$6 name
  local -a options=(--recipe "$recipe" --set "layers=$layers" --json)
  [ "$layout" = single ] || options+=(--layout "$layout")
  case $precision in
    -) ;;
    fp8) options+=(--precision fp8_current) ;;
    block) options+=(--precision fp8_block) ;;
    *) options+=(--precision "$precision") ;;
  esac
  name="$(basename "$file" .mdl) $recipe $layout $precision"
  if "$MDLC" explain "$file" "${options[@]}" > "$WORK/$number.json" 2> "$WORK/$number.err"; then
    awk -v name="$name" '
      /^ "exposure": / { reckoned = 1 }
      reckoned && /^   "exposed": / && $2 + 0 > exposed { exposed = $2 + 0 }
      /^ "work": / { inside = 1 }
      inside && /^   "/ { gsub(/[",:]/, " "); axes = ""; for (i = 1; i < NF; i++) axes = axes (i > 1 ? "+" : "") $i
        sent = sent sprintf(" %s:%.4g", axes, $NF / 1e6) }
      inside && /^  "/ { gsub(/[",:]/, " "); v[$1] = $2 }
      END {
        split(name, at, " ")
        ratio = v["ideal"] > 0 ? v["moved"] / v["ideal"] : 1
        printf "%-8s %-11s %-13s %-5s %5d %5d %6d %6d %6d %5d %7d %5d %9.4g %9.4g %7.3f %8.3g %s\n", at[1], at[2], at[3], at[4], v["instructions"],
          v["products"], v["least_m"], v["least_n"], v["least_k"], v["split"], v["separate"], v["copies"],
          v["moved"] / 1e6, v["ideal"] / 1e6, ratio, exposed * 1e3, sent
      }' "$WORK/$number.json"
  else
    awk -v name="$name" '{ if (match($0, /error\[E[0-9]+\]/)) { split(name, at, " ")
      printf "%-8s %-11s %-13s %-5s %s\n", at[1], at[2], at[3], at[4], substr($0, RSTART + 6, RLENGTH - 7); exit } }' "$WORK/$number.err"
  fi > "$WORK/$number.line"
  rm -f "$WORK/$number.json"
}
export -f one

number=1000
for file in models/*.mdl examples/*.mdl tests/gate/*.mdl; do
  for recipe in $(names recipe "$file"); do
    for layout in single $(names layout "$file"); do
      for precision in $(precisions "$recipe"); do
        number=$((number + 1))
        echo "$number $file $recipe $layout $precision $(layers "$file" "$layout")"
      done
    done
  done
done > "$WORK/list"
xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' one < "$WORK/list"

{
  printf '%-8s %-11s %-13s %-5s %5s %5s %6s %6s %6s %5s %7s %5s %9s %9s %7s %8s  %s\n' text recipe layout in instr prod 'm >=' 'n >=' 'k >=' split \
    parts copies MB ideal ratio exposed 'MB sent by a rank, by mesh axis'
  cat "$WORK"/*.line
} > "$WORK/found.txt"
[ "$(wc -l < "$WORK/found.txt")" = $((number - 1000 + 1)) ] || { cat "$WORK"/*.err; echo "a layout says nothing"; exit 1; }

# limits TABLE: no product is split into products that could be one, and little is moved that need not be
limits() {
  awk 'NR > 1 && NF > 5 && ($10 > 0 || $15 > 1.25) {
    printf "%s %s %s %s: %d products are split into %d that could be one, and %.2f times the bytes are moved\n", $1, $2, $3, $4, $10, $11, $15
    bad = 1
  } END { exit bad }' "$1"
}

status=0
limits "$WORK/found.txt" || status=1

# A control, which must fail: what sequence parallelism once was, with 4,096 products of 4 rows in the place of one.
printf 'heading\nllama llama_1b tp4_sp bf16 119 27 4 512 512 10 20500 7 276300 12160 22.730 57.9 tp:1186\n' > "$WORK/control.txt"
if limits "$WORK/control.txt" > "$WORK/control.out"; then
  echo "the limits let split products pass"
  status=1
fi

if [ -n "$update" ]; then
  cp "$WORK/found.txt" "$TABLE"
elif ! diff -u --label expected.txt --label found "$TABLE" "$WORK/found.txt"; then
  echo "if the new lines are right: tests/gate/run.sh --update"
  status=1
fi
exit "$status"
