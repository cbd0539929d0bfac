#!/bin/bash
# ahead.sh: kernels compiled ahead of time stand in the plan, the same each time, and the plan still trains.
. "${ROOT:?}/tests/cli/lib.sh"
PROGRAM=$ROOT/tests/ir/dot.mdl
export MDL_CACHE=$WORK/cache
status=0
"$MDLC" compile "$PROGRAM" -o plan.mdlx --target sm_90a,compute_80,sm_90a > out 2> err || status=$?
if [ "$status" = 1 ] && grep -q "nvrtc" err; then
  [ ! -e plan.mdlx ] || die "a plan was written without the kernels that were asked for"
  echo "NVRTC cannot be opened: $(head -n 1 err)"
  exit 77
fi
[ "$status" = 0 ] || die "exit status $status: $(cat err)"
mentions out "sm_90a: " "compute_80: " "by NVRTC"
expect 0 "$MDL" inspect plan.mdlx
mentions out "compiled ahead of time for" "sm_90a  " "compute_80  " "by NVRTC"
[ "$(grep -c '^  sm_90a' out)" = 1 ] || die "a target given twice is there twice"

# From the cache it is the same file.
expect 0 "$MDLC" compile "$PROGRAM" -o again.mdlx --target sm_90a,compute_80
cmp plan.mdlx again.mdlx
# Without a cache too: what the compiler gives is the same each time.
MDL_CACHE=$WORK/other expect 0 "$MDLC" compile "$PROGRAM" -o anew.mdlx --target sm_90a,compute_80
cmp plan.mdlx anew.mdlx

# A byte of the code that is another one is found.
size=$(stat -c %s plan.mdlx)
cp plan.mdlx damaged.mdlx
printf 'x' | dd of=damaged.mdlx bs=1 seek=$((size - 1000)) conv=notrunc status=none
expect 1 "$MDL" inspect damaged.mdlx

# Machine code cannot be checked: it is left out, of the run too, but for --trust.
"$MDLC" compile "$SMALL" -o small.mdlx --target sm_90a
expect 0 "$MDL" train small.mdlx --device cpu --data "$ROOT/LICENSE" --steps 1 --out left
mentions err "the machine code in small.mdlx is not run" "--trust"
expect 0 "$MDL" inspect left/plan.mdlx
! grep -q "compiled ahead of time for" out || die "the run has the machine code"
expect 0 "$MDL" train small.mdlx --device cpu --data "$ROOT/LICENSE" --steps 1 --out kept --trust
! grep -q "is not run" err || die "trusted code is left out"
expect 0 "$MDL" inspect kept/plan.mdlx
mentions out "compiled ahead of time for"
