#!/bin/bash
# kernels.sh: the CUDA C of a plan in words and as text, the same each time; targets that are none are refused.
#
# UPDATE=1 writes the expected listing anew, to be read before it is committed.
. "${ROOT:?}/tests/cli/lib.sh"
PROGRAM=$ROOT/tests/ir/dot.mdl
EXPECTED=$ROOT/tests/cli/kernels.expected

# What the generator wrote for this program: without what every text begins with.
shorten() {
  sed -e "s,$ROOT/,,g" -e 's/, text [0-9a-f]*$//' -e '/^\/\/ target\.cu: /,/^} Slots;$/d' -e '/^typedef [a-z]* R;$/,/^typedef .* Index;$/d' out
}

expect 0 "$MDLC" print "$PROGRAM" --after lower --kernels --program evaluate
shorten > listing
if [ -n "${UPDATE:-}" ]; then
  cp listing "$EXPECTED"
fi
diff "$EXPECTED" listing || die "the listing is another one"
expect 0 "$MDLC" print "$PROGRAM" --kernels --program evaluate --target sm_90a
shorten | cmp - listing
expect 0 "$MDLC" print "$PROGRAM" --kernels --program evaluate --target sm_80
mentions out "evaluate for sm_80 (108 multiprocessors"

# Layers share their kernels, those of random numbers too.
expect 0 "$MDLC" print "$SMALL" --kernels
mentions out "small.mdl:19  " "//     | x = x + swiglu(" "attention, causal"
expect 0 "$MDLC" print "$ROOT/models/llama.mdl" --recipe llama2_7b --kernels --program initialise
grep -q "; 32 instructions$" out || die "32 layers are not initialised by one kernel"

expect 2 "$MDLC" print "$PROGRAM" --kernels --target sm_91
mentions err "'sm_91' is none of" "sm_90a"
expect 2 "$MDLC" print "$PROGRAM" --kernels --after fuse
expect 2 "$MDLC" print "$PROGRAM" --target sm_80
expect 1 "$MDLC" print "$PROGRAM" --kernels --rank 7
mentions err "there is no rank 7"
expect 2 "$MDLC" compile "$PROGRAM" -o refused.mdlx --target sm_90a,gpu
mentions err "'gpu' is none of cpu, sm_80"
[ ! -e refused.mdlx ] || die "a plan was written for a target that is none"
expect 0 "$MDLC" compile "$PROGRAM" -o cpu.mdlx --target cpu
expect 0 "$MDLC" compile "$PROGRAM" -o none.mdlx
cmp cpu.mdlx none.mdlx
