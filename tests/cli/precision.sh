#!/bin/bash
# precision.sh: a run in bf16 goes on from a checkpoint in f32 and back; checkpoints hold f32; policies are compared.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 4 --precision fp32 --out mixed
train "$SMALL" --steps 8 --precision bf16 --out mixed --resume
train "$SMALL" --steps 12 --precision bf16_fp32_residual --out mixed --resume
train "$SMALL" --steps 12 --precision fp32 --out plain
[ "$(weights mixed 12)" != "$(weights plain 12)" ] || die "bf16 computes the same bits as f32"
expect 0 "$MDL" inspect mixed
mentions out "bf16_fp32_residual"
grep -q "precision bf16_fp32_residual;" mixed/resolved.mdl || die "resolved.mdl does not say the precision"

# The same run twice has the same bits.
train "$SMALL" --steps 6 --precision bf16 --out once
train "$SMALL" --steps 6 --precision bf16 --out twice
same "the same run twice" "$(weights once 6)" "$(weights twice 6)"

# Copies of weights are no part of a checkpoint, and are there again after it was loaded.
train "$SMALL" --steps 3 --precision bf16 --out parts
train "$SMALL" --steps 6 --precision bf16 --out parts --resume
same "a run in two parts" "$(weights once 6)" "$(weights parts 6)"
! grep -q "bf16\." parts/checkpoints/*/model.safetensors || die "a checkpoint holds copies"

expect 0 "$MDL" diff "$SMALL" precision=fp32,bf16
expect 0 "$MDL" ablate "$SMALL" precision=fp32,tf32,bf16,bf16_fp32_residual --steps 8 --out table
# Products in 8 bits: in two parts to the bit, from a checkpoint of bf16, and back.
train "$SMALL" --steps 6 --precision fp8_current --out eight
train "$SMALL" --steps 3 --precision fp8_current --out halves
train "$SMALL" --steps 6 --precision fp8_current --out halves --resume
same "a run in 8 bits in two parts" "$(weights eight 6)" "$(weights halves 6)"
[ "$(weights eight 6)" != "$(weights once 6)" ] || die "products in 8 bits compute the same bits as bf16"
train "$SMALL" --steps 8 --precision fp8_current --out parts --resume
train "$SMALL" --steps 9 --precision bf16 --out parts --resume
expect 0 "$MDLC" explain "$SMALL" --precision fp8_current
mentions out "e5m2 x e4m3"

# Histories of largest numbers are state: killed and resumed, under another layout too; other precisions have none.
train "$SMALL" --steps 6 --precision fp8_hybrid --out history
train "$SMALL" --steps 3 --precision fp8_hybrid --out killed
train "$SMALL" --steps 6 --precision fp8_hybrid --out killed --resume
same "a run with histories in two parts" "$(weights history 6)" "$(weights killed 6)"
grep -q "fp8.layers.1.mlp.down.dy.amax" history/checkpoints/step-00000006/*.safetensors || die "no history is saved"
[ "$(weights history 6)" != "$(weights eight 6)" ] || die "histories change nothing"
train "$SMALL" --steps 9 --precision bf16 --out killed --resume
train "$SMALL" --steps 12 --precision fp8_hybrid --out killed --resume

# So they are on the stages of a pipeline.
LAYOUTS=$ROOT/examples/layouts.mdl
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --precision fp8_hybrid --steps 6 --out stages
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout pp4 --precision fp8_hybrid --steps 3 --out stages_parts
train stages_parts --data "$ROOT/LICENSE" --steps 6 --resume
same "stages with histories in two parts" "$(weights stages 6)" "$(weights stages_parts 6)"
train "$LAYOUTS" --data "$ROOT/LICENSE" --layout z3 --precision fp8_hybrid --steps 8 --out stages_parts --resume

# A policy for frozen parameters says so where none is frozen.
expect 0 "$MDLC" explain "$SMALL" --precision fp8_frozen
mentions err "no parameter is frozen, so 'fp8_frozen' stores none in e4m3"
sed 's/optimizer adamw/freeze table; &/' "$SMALL" > frozen.mdl
sed -i "s,../../LICENSE,$ROOT/LICENSE," frozen.mdl
expect 0 "$MDLC" explain frozen.mdl --precision bf16_frozen
! grep -q "no parameter is frozen" err || die "the table is frozen"
