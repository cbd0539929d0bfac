#!/bin/bash
# bench_gpus.sh: whole training steps on several GPUs of one machine, beside one GPU with the same layers, and peers.
#
#   tests/bench_gpus.sh [--small] [--gpus N] [--steps N] [--precision NAME] [--peers DIR] OUT [ROW...]
#
# Without a ROW, all of them; --list says which there are. Rows that begin with `one_` are for one GPU alone, and are
# compared with the same in bf16. A row's size follows the number of GPUs, 2 or 4 or 8, so that
# each does as much as one GPU does alone: the same layers and tokens. What is compared is the TFLOP/s of each GPU.
# OUT is a folder: raw.txt gets every line as it comes, log.txt what the programs said besides, table.md the table. A
# second call with the same OUT and other rows adds to them; a row that is run again replaces the one before.
#   --small      tiny models on virtual ranks of the CPU, a few steps: whether all of it runs
#   --gpus N     of the machine: all; 1 runs the rows for one GPU
#   --precision NAME  of all programs, peers too: bf16 (what it is without), fp8_current, fp8_hybrid,
#                fp8_block
#   --peers DIR  that has torch_step.py MODEL BATCH SEQ [--tp|--fsdp], jax_step.py MODEL BATCH SEQ dp|tp and
#                megatron_step.py --model M --batch B --seq T [--tp N] [--no-sp] [--fp8 delayed|current|block] and
#                olmoe_step.py --layers N --batch B [--recompute] and olmoe_ranks_step.py --layers N --batch B, each
#                printing a line with tok/s=;
#                those that are not there are skipped. BATCH is of a rank where data is parallel, else the whole.
#   PREBUILT=1   builds nothing
#   BUILD        folder that we were built in, or one that holds bench_train; from the root: build
#   PYTHON       that has what the peers need: python3
#   BENCH_TRAIN  more options of bench_train
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

ROWS_ONE='one_llama1b one_llama8b one_llama8b_b4 one_gpt2 one_olmoe one_olmoe14 one_olmoe4'
ROWS='tp tp_sp llama1b_dp llama1b_z1 gpt2_z1 gpt2xl_z1 z3 pp ulysses ring ep ep_bounded'
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
SMALL='' GPUS='' PEERS='' STEPS='' PRECISION=bf16
RUN_SECONDS=200  # that one program may take

usage() {
  echo "usage: tests/bench_gpus.sh [--small] [--gpus N] [--steps N] [--precision NAME] [--peers DIR] OUT [ROW...]; rows: $ROWS_ONE $ROWS" >&2
  exit 2
}

while [[ ${1:-} == --* ]]; do
  case $1 in
    --small) SMALL=1 ;;
    --gpus) GPUS=${2:-}; shift ;;
    --steps) STEPS=${2:-}; shift ;;
    --precision) PRECISION=${2:-}; shift ;;
    --peers) PEERS=${2:-}; shift ;;
    --list) echo "$ROWS_ONE $ROWS"; exit 0 ;;
    *) usage ;;
  esac
  shift || usage
done
[ $# -ge 1 ] || usage
OUT=$1
shift
case $PRECISION in
  bf16) PEER_FP8='' ;;
  fp8_current) PEER_FP8='--fp8 current' ;;
  fp8_hybrid) PEER_FP8='--fp8 delayed' ;;
  fp8_block) PEER_FP8='--fp8 block' ;;
  *) echo "bench_gpus.sh: --precision is bf16, fp8_current, fp8_hybrid or fp8_block" >&2; exit 2 ;;
esac
if [ -z "$GPUS" ] && [ -n "$SMALL" ]; then
  GPUS=2
elif [ -z "$GPUS" ]; then
  GPUS=$(nvidia-smi -L 2>/dev/null | wc -l)
fi
[ "$GPUS" = 1 ] && ROWS=''
[ $# -gt 0 ] || read -ra chosen <<<"$ROWS_ONE $ROWS"
[ $# -eq 0 ] || chosen=("$@")
for row in "${chosen[@]}"; do
  [[ " $ROWS_ONE $ROWS " == *" $row "* ]] || { echo "bench_gpus.sh: there is no row '$row'" >&2; usage; }
done
[ -z "$PEERS" ] || [ -d "$PEERS" ] || { echo "bench_gpus.sh: $PEERS is no folder" >&2; exit 2; }
case $GPUS in
  1 | 2 | 4 | 8) ;;
  *) echo "bench_gpus.sh: rows are made for 1, 2, 4 or 8 GPUs, and there are ${GPUS:-none}; --gpus N takes some of them" >&2; exit 2 ;;
esac
if [ -z "${PREBUILT:-}" ] && ! cmake --build "$BUILD" --target bench_train >/dev/null; then
  echo "bench_gpus.sh: bench_train cannot be built in $BUILD" >&2
  exit 1
fi
[ -x "$BUILD/bench_train" ] || BUILD=$BUILD/tests
[ -x "$BUILD/bench_train" ] || { echo "bench_gpus.sh: there is no bench_train in $BUILD" >&2; exit 1; }
mkdir -p "$OUT" || exit 1
touch "$OUT/raw.txt" "$OUT/log.txt"
export PYTHONDONTWRITEBYTECODE=1

# set_row NAME: what it is. ONE_*: what one GPU is given; PEER_*: what peers call it, and the batch as they want it
set_row() {
  RANKS=$GPUS ONE_PRECISION=$PRECISION
  [[ $1 != one_* ]] || RANKS=1 ONE_PRECISION=bf16
  SEQ=4096 SETS='' ONE_SETS='' ONE_SEQ='' PEER_MODEL='' MICROBATCHES='' RECIPE=llama3_8b VOCAB=32000 FILE=bench_gpus.mdl
  ROW_PRECISION=$PRECISION
  local layers=8
  case $1 in
    one_llama1b) RECIPE=llama_1b LAYOUT=single AXIS='' BATCH=4 ONE_BATCH=4 PEER_MODEL=llama1b PEER_BATCH=4 layers='' ;;
    one_llama8b) LAYOUT=single AXIS='' BATCH=2 ONE_BATCH=2 PEER_MODEL=llama8b-8 PEER_BATCH=2 ;;
    one_llama8b_b4) LAYOUT=single AXIS='' BATCH=4 ONE_BATCH=4 PEER_MODEL=llama8b-8 PEER_BATCH=4 ;;
    one_gpt2) RECIPE=gpt2_124m LAYOUT=single AXIS='' BATCH=64 SEQ=1024 ONE_BATCH=64 PEER_MODEL=gpt2 PEER_BATCH=64 layers='' ;;
    tp | tp_sp) LAYOUT=$1 AXIS=tp BATCH=$GPUS ONE_BATCH=1 PEER_MODEL=llama8b-8 PEER_BATCH=$GPUS ;;
    llama1b_dp | llama1b_z1)
      RECIPE=llama_1b LAYOUT=${1#llama1b_} AXIS=dp BATCH=$((4 * GPUS)) ONE_BATCH=4 PEER_MODEL=llama1b PEER_BATCH=4 layers='' ;;
    gpt2_z1) RECIPE=gpt2_124m LAYOUT=z1 AXIS=dp BATCH=$((64 * GPUS)) SEQ=1024 ONE_BATCH=64 PEER_MODEL=gpt2 PEER_BATCH=64 layers='' ;;
    gpt2xl_z1) RECIPE=gpt2_1558m LAYOUT=z1 AXIS=dp BATCH=$((16 * GPUS)) SEQ=1024 ONE_BATCH=16 PEER_MODEL=gpt2-xl PEER_BATCH=16 layers='' ;;
    z3)  # the whole model fits on four; one GPU has the layers that fit on it
      LAYOUT=z3 AXIS=dp BATCH=$((2 * GPUS)) SEQ=8192 ONE_BATCH=2 layers=$((GPUS < 4 ? 16 : 32)) ONE_SETS='layers=8'
      [ "$layers" != 32 ] || { PEER_MODEL=llama8b-32 PEER_BATCH=2; } ;;
    pp) LAYOUT=pp AXIS=pp BATCH=$((2 * GPUS)) MICROBATCHES=$((2 * GPUS)) ONE_BATCH=2 ;;
    one_olmoe) RECIPE=olmoe_1b_7b LAYOUT=again AXIS='' BATCH=4 ONE_BATCH=4 layers='' ;;
    one_olmoe14) RECIPE=olmoe_1b_7b LAYOUT=again AXIS='' BATCH=4 ONE_BATCH=4 PEER_MODEL=olmoe PEER_LAYERS=14 layers=14 ;;  # it has no more
    one_olmoe4) RECIPE=olmoe_1b_7b LAYOUT=single AXIS='' BATCH=4 ONE_BATCH=4 PEER_MODEL=olmoe PEER_LAYERS=4 layers=4 ;;
    ep | ep_bounded)
      RECIPE=olmoe_1b_7b LAYOUT=$1 AXIS=ep BATCH=$((4 * GPUS)) ONE_BATCH=4 layers=4
      [ "$1" != ep ] || { PEER_MODEL=olmoe PEER_BATCH=4; } ;;
    ulysses | ring) LAYOUT=$1 AXIS=cp BATCH=$((GPUS / 2)) SEQ=16384 ONE_BATCH=1 ONE_SEQ=8192 ;;
  esac
  ONE_SEQ=${ONE_SEQ:-$SEQ}
  SETS=${layers:+layers=$layers}
  if [ "$RECIPE" = olmoe_1b_7b ]; then  # what chooses is in f32
    FILE=bench_experts.mdl ROW_PRECISION=bf16_router ONE_PRECISION=bf16_router
    [ "$LAYOUT" != again ] || ROW_PRECISION=bf16_small ONE_PRECISION=bf16_small
  fi
  if [ -n "$SMALL" ]; then
    small_row
  elif [ "$RECIPE" = olmoe_1b_7b ]; then
    VOCAB=50304
  elif [[ $RECIPE == llama* ]]; then
    SETS+=" vocab=$VOCAB"
  else
    VOCAB=50257
  fi
  ONE_SETS="$SETS $ONE_SETS"
  [ -z "$AXIS" ] || SETS+=" mesh.$AXIS=$GPUS${MICROBATCHES:+ microbatches=$MICROBATCHES}"
}

# The same row of a tiny model.
small_row() {
  VOCAB=512
  case $RECIPE in
    gpt2*)
      BATCH=$((2 * RANKS)) ONE_BATCH=2 SEQ=64 ONE_SEQ=64
      SETS='vocab=512 places=64 embed=64 layers=2 heads=4' ;;
    olmoe*)
      BATCH=$((2 * RANKS)) ONE_BATCH=2 SEQ=64 ONE_SEQ=64
      SETS='vocab=512 embed=64 layers=2 heads=4 hd=16 ffn=32 experts=16 choice=4' ;;
    *)
      SEQ=$((SEQ / 64)) ONE_SEQ=$((ONE_SEQ / 64))
      SETS="vocab=512 embed=64 layers=8 kv_heads=8 group=2 hd=8 ffn=128" ;;
  esac
}

# take KIND ROW SECONDS COMMAND...: its lines that hold figures go into raw.txt behind KIND and ROW, all into log.txt
take() {
  local kind=$1 row=$2 limit=$3 status lines=$OUT/lines.txt
  shift 3
  echo "# $*" >>"$OUT/log.txt"
  timeout "$limit" "$@" >"$lines" 2>>"$OUT/log.txt"
  status=$?
  cat "$lines" >>"$OUT/log.txt"
  grep -E '(^| )tok/s=' "$lines" | tail -n 1 | sed "s,^,$kind $row gpus=$RANKS ," | tee -a "$OUT/raw.txt"
  if [ $status -ne 0 ] || ! grep -qE '(^| )tok/s=' "$lines"; then
    echo "FAILED $row with status $status (log.txt): $*" | tee -a "$OUT/raw.txt"
  fi
  rm -f "$lines"
}

# ours KIND ROW PRECISION LAYOUT BATCH SEQ SET...
ours() {
  local kind=$1 row=$2 options=(--precision "$3" --layout "$4" --set "batch=$5" --set "seq=$6") steps=20 set
  shift 6
  local -A last=()  # of a name that is set twice, the row's
  for set in "$@"; do
    last[${set%%=*}]=$set
  done
  for set in "${last[@]}"; do
    options+=(--set "$set")
  done
  if [ -n "$SMALL" ]; then
    steps=2
    options+=(--device cpu --warm 0)
  else
    options+=(--device cuda)
  fi
  # shellcheck disable=SC2086
  take "$kind" "$row" "$RUN_SECONDS" "$BUILD/bench_train" --steps "${STEPS:-$steps}" "${options[@]}" \
    ${BENCH_TRAIN:-} "tests/$FILE:$RECIPE"
}

# One GPU is asked once for rows that have the same of it.
one() {
  local row=$1 key="$RECIPE $ONE_BATCH $ONE_SEQ $ONE_SETS" line
  [[ $row != one_* || $PRECISION != bf16 ]] || return 0
  line=${known[$key]:-}
  if [ -n "$line" ]; then
    echo "ONE $row ${line#ONE * }" >>"$OUT/raw.txt"
    return
  fi
  # shellcheck disable=SC2086
  ours ONE "$row" "$ONE_PRECISION" single "$ONE_BATCH" "$ONE_SEQ" $ONE_SETS
  known[$key]=$(grep "^ONE $row " "$OUT/raw.txt" | tail -n 1)
}

# peer NAME ROW COMMAND...
peer() {
  local name=$1 row=$2
  shift 2
  if [ ! -f "$PEERS/${name}_step.py" ]; then
    echo "SKIPPED $row $name: it is not in $PEERS" | tee -a "$OUT/raw.txt"
    return
  fi
  take "PEER-$name" "$row" "$RUN_SECONDS" "$@"
}

peers() {
  local row=$1 spread=("$PYTHON" -m torch.distributed.run --standalone --nproc_per_node "$RANKS")
  local megatron=("${spread[@]}" "$PEERS/megatron_step.py" --model "$PEER_MODEL" --batch "${PEER_BATCH:-}" --seq "$SEQ")
  # shellcheck disable=SC2206
  megatron+=($PEER_FP8)
  local torch=("${spread[@]}" "$PEERS/torch_step.py" "$PEER_MODEL" "${PEER_BATCH:-}" "$SEQ")
  local experts=("$PYTHON" "$PEERS/olmoe_step.py" --layers "${PEER_LAYERS:-}" --batch "$BATCH" --compile block --steps "${STEPS:-20}")
  local jax=("$PYTHON" "$PEERS/jax_step.py" "$PEER_MODEL" "${PEER_BATCH:-}" "$SEQ")
  case $row in
    tp) peer megatron "$row" "${megatron[@]}" --tp "$GPUS" --no-sp ;;
    tp_sp)
      peer megatron "$row" "${megatron[@]}" --tp "$GPUS"
      peer torch "$row" "${torch[@]}" --tp
      peer jax "$row" "${jax[@]}" tp ;;
    llama1b_dp)
      peer torch "$row" "${torch[@]}"
      peer jax "$row" "${jax[@]}" dp ;;
    z3) peer torch "$row" "${torch[@]}" --fsdp ;;
    one_olmoe14) peer olmoe "$row" "${experts[@]}" --recompute ;;
    one_olmoe4) peer olmoe "$row" "${experts[@]}" ;;
    ep) peer olmoe_ranks "$row" "${spread[@]}" "$PEERS/olmoe_ranks_step.py" --layers 4 --batch "$PEER_BATCH" --steps "${STEPS:-20}" ;;
    *) peer megatron "$row" "${megatron[@]}" ;;
  esac
}

# A first loss far from that of a model that knows nothing: not all ranks have tokens, or sums are wrong.
check_loss() {
  awk -v row="$1" -v vocab="$VOCAB" '
    $1 == "OURS" && $2 == row { for (i = 1; i <= NF; i++) if (index($i, "first=") == 1) first = substr($i, 7) }
    END { off = first / log(vocab) - 1
          if (first != "" && !(off < 0.1 && off > -0.1))
            printf "FAILED %s: the first loss is %s, far from %.3f\n", row, first, log(vocab) }' "$OUT/raw.txt" |
    tee -a "$OUT/raw.txt"
}

table() {
  awk '
    function value(name,   i) {
      for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) { return substr($i, length(name) + 2) }
      return ""
    }
    function ratio(a, b) { return a + 0 > 0 && b + 0 > 0 ? sprintf("%.3f", a / b) : "" }
    $1 == "OURS" { if (!($2 in seen)) { seen[$2] = 1; row[++rows] = $2 }
                   gpus[$2] = value("gpus"); batch[$2] = value("B"); seq[$2] = value("T"); ours[$2] = value("tok/s")
                   tflops[$2] = value("TFLOPs"); mfu[$2] = value("mfu"); memory[$2] = value("GiB"); loss[$2] = value("first")
                   best[$2] = ""; who[$2] = "" }
    $1 == "ONE" { one[$2] = value("TFLOPs") }
    $1 ~ /^PEER-/ { if (value("tok/s") + 0 > best[$2] + 0) { best[$2] = value("tok/s"); who[$2] = substr($1, 6) } }
    END {
      print "| row | GPUs | batch | seq | tok/s | TFLOP/s each | MFU | GiB | one GPU, TFLOP/s | of one GPU | best peer | its tok/s | ours / best | first loss |"
      print "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
      for (i = 1; i <= rows; i++) {
        r = row[i]
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r, gpus[r], batch[r], seq[r],
               ours[r], tflops[r], mfu[r], memory[r], one[r], ratio(tflops[r], one[r]), who[r], best[r],
               ratio(ours[r], best[r]), loss[r]
      }
    }' "$OUT/raw.txt"
}

gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true; }

declare -A known
for row in "${chosen[@]}"; do
  set_row "$row"
  sed -i -E "/^(OURS|ONE|FAILED|SKIPPED|PEER-[a-z_]+) ${row}[: ]/d" "$OUT/raw.txt"
  # shellcheck disable=SC2086
  ours OURS "$row" "$ROW_PRECISION" "$LAYOUT" "$BATCH" "$SEQ" $SETS
  check_loss "$row"
  one "$row"
  [ -z "$PEERS" ] || [ -z "$PEER_MODEL" ] || peers "$row"
done
COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo 'not known')}
{
  if [ -n "$SMALL" ]; then
    echo "$(date -u +%Y-%m-%d), tiny models on $GPUS virtual ranks of a CPU: no measurement, commit $COMMIT"
  else
    echo "$(date -u +%Y-%m-%d), $GPUS x $(gpu name), driver $(gpu driver_version), power limit $(gpu power.limit), commit $COMMIT, $PRECISION, medians"
  fi
  echo
  table
  echo
  grep -E '^(SKIPPED|FAILED)' "$OUT/raw.txt"
} >"$OUT/table.md"
echo
cat "$OUT/table.md"
! grep -q '^FAILED' "$OUT/raw.txt"
