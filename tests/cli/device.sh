#!/bin/bash
# device.sh: --device where there is no GPU to be seen: a plain error before anything is written, or the CPU.
. "${ROOT:?}/tests/cli/lib.sh"
export CUDA_VISIBLE_DEVICES=''
expect 1 "$MDL" train "$SMALL" --device cuda --steps 1 --out refused
mentions err "NVIDIA driver"
expect 1 "$MDL" train "$SMALL" --device tpu --steps 1 --out refused
mentions err "no device 'tpu'" "cpu" "cuda"
[ ! -e refused ] || die "a run directory was made for nothing"
train "$SMALL" --device auto --steps 2 --out automatic
expect 0 grep -F "on cpu" automatic/log.txt
train "$SMALL" --device cpu --steps 2 --out told
same "auto and cpu" "$(weights automatic 2)" "$(weights told 2)"
expect 1 "$MDL" eval told --device cuda
mentions err "NVIDIA driver"
expect 1 "$MDL" generate told --device cuda
mentions err "NVIDIA driver"
