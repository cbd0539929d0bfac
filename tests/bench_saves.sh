#!/bin/bash
# bench_saves.sh: how long training waits for its checkpoints: the waits, the whole saves, and the steps beside them.
#
#   tests/bench_saves.sh [--small] [--gpus N] [--steps N] [--sync] OUT
#
# Llama 8B with all 32 layers under ZeRO-3 on four GPUs or more, with 8 layers on fewer; sequences of 8192, two for each
# GPU, saved at every sixteenth step; the first save is what counts, which waits for no other. OUT gets table.md, and log.txt with what the program said.
#   --small      a tiny model on two virtual ranks of the CPU: whether all of it runs
#   --sync       saves that training waits for, to compare
#   --gpus N     of the machine: all
#   RUNS         folder for the run, which needs 12 bytes for each parameter, twice: /dev/shm, so that no disk is measured
#   BUILD        folder with mdl, from the root: build
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build} RUNS=${RUNS:-/dev/shm}
SMALL='' GPUS='' STEPS=33 SYNC=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --small) SMALL=1 ;;
    --gpus) GPUS=$2; shift ;;
    --steps) STEPS=$2; shift ;;
    --sync) SYNC=--sync-save ;;
    *) echo "usage: tests/bench_saves.sh [--small] [--gpus N] [--steps N] [--sync] OUT" >&2; exit 2 ;;
  esac
  shift
done
OUT=${1:?a folder for the table}
mkdir -p "$OUT"
work=$(mktemp -d "$RUNS/mdl-saves.XXXXXX")
trap 'kill $(jobs -p) 2> /dev/null; wait; rm -rf "$work"' EXIT
if [ -n "$SMALL" ]; then
  GPUS=2
  sets=(--set vocab=256 --set embed=64 --set layers=2 --set kv_heads=2 --set group=2 --set hd=16 --set ffn=128 --set batch=4 --set seq=64)
else
  GPUS=${GPUS:-$(nvidia-smi -L | wc -l)}
  sets=(--set vocab=32000 --set layers=$((GPUS < 4 ? 8 : 32)) --set "batch=$((2 * GPUS))" --set seq=8192)
fi
head -c 8000000 /dev/urandom | base64 > "$work/text.txt"
status=0
# shellcheck disable=SC2086
"$BUILD/mdl" train tests/bench_gpus.mdl --recipe llama3_8b --layout z3 --precision bf16 "${sets[@]}" --set "mesh.dp=$GPUS" \
  --device "$([ -n "$SMALL" ] && echo cpu || echo cuda)" --data "$work/text.txt" --out "$work/run" --steps "$STEPS" --save-every 16 \
  --keep 1 --log-every 1 $SYNC > "$OUT/log.txt" 2>&1 &
wait $! || status=$?
[ "$status" = 0 ] || { tail -n 20 "$OUT/log.txt" >&2; exit "$status"; }
bytes=$(du -sb "$work/run/checkpoints" | cut -f 1)
python3 - "$work/run/metrics.jsonl" "$bytes" > "$OUT/table.md" <<'END'
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
steps = [line for line in lines if line["step"] > 3]
saves = [line for line in lines if line.get("save_ms")]
step = statistics.median(line["step_ms"] for line in steps)
save, wait = saves[0]["save_ms"], saves[0]["save_wait_ms"]
print("| GiB of a checkpoint | step, ms, median | longest | a save, s | training waits for it, ms | of 100 steps |\n|---|---|---|---|---|---|")
print(f"| {int(sys.argv[2]) / 2**30:.3g} | {step:.1f} | {max(line['step_ms'] for line in steps):.1f} "
      f"| {save / 1e3:.2f} | {wait:.1f} | {wait / step:.2f}% |")
END
cat "$OUT/table.md"
grep -E 'saved|training will wait' "$OUT/log.txt"
