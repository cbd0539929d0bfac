#!/bin/bash
# bench.sh: the benchmark of several GPUs at tiny sizes on virtual ranks: rows in parts, ratios, peers, mistakes.
. "${ROOT:?}/tests/cli/lib.sh"
[ -z "${PREBUILT:-}" ] || [ -x "$BUILD/tests/bench_train" ] || { echo "bench_train was not built"; exit 77; }
BENCH=$ROOT/tests/bench_gpus.sh

# cell ROW NUMBER: of the table
cell() {
  awk -F ' *[|] *' -v row="$1" -v number="$2" '$2 == row { print $number }' "$WORK/out.d/table.md"
}

# Stand-ins for peers: Megatron is said to make ten tokens a second, PyTorch twenty.
mkdir peers
cat > python << 'END'
#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
case $* in
  *megatron*) echo "MEGATRON llama8b-8 bf16 tok/s=10 ms=1" ;;
  *torch_step*) echo "TORCH llama8b-8 bf16 tok/s=20 ms=1" ;;
esac
END
chmod +x python
touch peers/megatron_step.py peers/torch_step.py
PYTHON=$WORK/python expect 0 "$BENCH" --small --gpus 4 --peers "$WORK/peers" "$WORK/out.d" tp_sp llama1b_dp pp
same "rows" "$(grep -c '^| [a-z0-9_]* | 4 |' out.d/table.md)" 3
same "the batch of a row" "$(cell tp_sp 4) $(cell llama1b_dp 4) $(cell pp 4)" "4 16 8"
for row in tp_sp llama1b_dp pp; do
  awk -v a="$(cell $row 11)" 'BEGIN { exit !(a > 0.01 && a < 10) }' || die "$row of one GPU: '$(cell $row 11)'"
  awk -v a="$(cell $row 15)" 'BEGIN { exit !(a > 5.9 && a < 6.6) }' || die "$row: first loss '$(cell $row 15)'"  # ln 512
done
same "the best peer" "$(cell tp_sp 12) $(cell tp_sp 13)" "torch 20"
mentions asked "--nproc_per_node 4 $WORK/peers/megatron_step.py --model llama8b-8 --batch 4 --seq 64 --tp 4" \
  "torch_step.py llama1b 4 64"
mentions out.d/table.md "SKIPPED tp_sp jax: it is not in" "no measurement"

# Other rows are added, and one that is run again is there once.
expect 0 "$BENCH" --small --gpus 4 "$WORK/out.d" gpt2_z1 pp
same "rows after another call" "$(grep -c '^| [a-z0-9_]* | 4 |' out.d/table.md)" 4
same "lines of a row" "$(grep -c '^OURS pp ' out.d/raw.txt)" 1

expect 2 "$BENCH" --small "$WORK/none" tq
mentions err "there is no row 'tq'" "llama1b_z1"
expect 2 "$BENCH" --small --gpus 3 "$WORK/none"
mentions err "2, 4 or 8 GPUs"
expect 2 "$BENCH" --small --peers nowhere "$WORK/none"
expect 2 "$BENCH" --small
BENCH_TRAIN="--set nothing=3" expect 1 "$BENCH" --small "$WORK/failed" tp
mentions out "FAILED tp with status 1"
