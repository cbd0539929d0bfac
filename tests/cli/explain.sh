#!/bin/bash
# explain.sh: what mdlc explain says of known layouts, and the graphs that mdlc print shows of single ranks.
. "${ROOT:?}/tests/cli/lib.sh"
LLAMA=$ROOT/tests/layouts/llama.mdl
MODEL=$ROOT/models/llama.mdl

# says PATTERN...: each is matched by a line of the last output; blanks match any number of blanks
says() {
  local pattern
  for pattern in "$@"; do
    grep -qE -- "${pattern// / +}" out || { cat out >&2; die "no line is like '$pattern'"; }
  done
}

says_not() {
  ! grep -qE -- "${1// / +}" out || { cat out >&2; die "a line is like '$1'"; }
}

# explain LAYOUT ARGUMENT...
explain() {
  expect 0 "$MDLC" explain "$LLAMA" --layout "$@"
  [ ! -s err ] || die "something is said on stderr: $(cat err)"
}

# One rank: memory and parameters, layers on one line.
expect 0 "$MDLC" explain "$SMALL"
says '^mesh: one rank$' 'parameters \([0-9]+\)' '^memory of a rank' \
  '^ the largest values of a step$' '^ [a-z_.*]+( and others)? [0-9.]+ KiB( in [0-9]+)? \([^ ]+\.mdl:[0-9]+\)$'
says_not 'what ranks send'

explain d3
says '^mesh dp 2 x cp 2 x tp 2: 8 ranks; rank = \(dp, cp, tp\), the last fastest$' \
  'layers\.0\.\.[0-9]+\.q\.w f32 \[embed 16, kv_heads 4/tp2, group 2, hd 4\] 2\.00 KiB 1\.00 KiB' \
  '@resid x [0-9]+ f32 \[batch 8/dp2, seq 16/cp2/tp2, embed 16\] 8\.00 KiB 1\.00 KiB' \
  'seq 4\.\.7 1 5$' \
  'all_gather cp \(2\) 2\.00 KiB 1\.00 KiB .* layers\.\*\.o: .* \[[0-9]\]' \
  ': @resid: seq -> cp, tp;$' ': kv_heads, ffn, vocab -> tp;$' ': seq -> cp;$' 'all 8 ranks together'
says_not 'layers\.1\.q\.w'
explain d3 --full
says 'layers\.1\.q\.w f32'

# Two blocks of the sequence on each rank.
explain cp2z
says 'seq 0\.\.3 0$' 'seq 4\.\.7 1$' 'seq 8\.\.11 1$' 'seq 12\.\.15 0$'

# Communication that nothing hides: by mesh axes, and by stages.
explain d3
says '^communication that nothing hides, reckoned for' ' over +sent by a rank +time +exposed +of it$' \
  '^ +tp +[0-9.]+ KiB +[0-9.e-]+ ms +[0-9.e-]+ ms +[0-9]+%$' '^ +together +- ' '^ a step takes [0-9.e-]+ ms$'
expect 0 "$MDLC" explain "$SMALL"
says_not 'nothing hides'

# What may have other bits than with overlap = false; a layout that says so is told nothing.
expect 0 "$MDLC" explain "$ROOT/models/llama.mdl" --recipe llama_1b --layout tp4_sp
says '^what may be summed otherwise than with overlap = false, where libraries go by size$' \
  '^ [0-9]+ products in parts by rows: .*$' '^ [0-9]+ sums over ranks in parts by rows: .* NCCL adds .*$'
explain dp2
says '^with overlap = false all sums are the same$'
{ cat "$LLAMA"; echo 'layout alone { mesh tp = 4; kv_heads -> tp; overlap = false; }'; } > alone.mdl
expect 0 "$MDLC" explain alone.mdl --layout alone
says_not 'overlap = false'

# Keys around a ring: blocks by name, one line for all steps and layers, the rule, and sums by mesh axis.
explain ring4
says 'forward 12 rotate cp \(4\) 4\.00 KiB 4\.00 KiB 48\.0 KiB layers\.\*\.o: keys and values std/nn\.mdl:[0-9]+ \[1\]' \
  ' 12 rotate cp \(4\) 4\.00 KiB 4\.00 KiB 48\.0 KiB layers\.\*\.o: gradients of keys and values ' \
  '^ \[1\] .*: attention: key -> cp\(ring\);$' '^ cp 48\.0 KiB in [0-9]+ 96\.0 KiB in 24 '
says_not 'all_gather'
explain ring2tp2
says 'rotate cp \(2\) 4\.00 KiB 4\.00 KiB 16\.0 KiB .* keys and values' 'all_gather tp \(2\)'

# How often a step sends the parameters' bytes.
explain dp2
says '2\.00 x .* all_reduce 2\.00;$' '^ known for data parallelism: 2$'
explain z1
says '2\.00 x .* all_gather 1\.00 \+ reduce_scatter 1\.00;$' '^ known for ZeRO-1: 2$' 'q\.w .* dp$'
explain z2
says '2\.00 x .*;$' '^ known for ZeRO-2: 2$'
explain z3
says '3\.00 x .* all_gather 2\.00 \+ reduce_scatter 1\.00;$' '^ known for ZeRO-3: 3$' 'q\.w .* dp dp dp$'
explain z3m
says '6\.00 x .*;$' '^ known for ZeRO-3 with 2 microbatches: 6$'

# Pipelines: messages, bubble, memory of each stage, a picture.
explain pp2 --svg pipeline.svg
says '^pipeline over pp: .* 2 stages, 4 microbatches' '\(p - 1\) / \(v m\) = 1 / \(1 x 4\) = 25\.00%' \
  'send pp .* to the next stage' 'send pp .* to the previous stage' ' x 2$' ' x 1$'
mentions pipeline.svg '<svg' 'stage 0' 'stage 1' 'memory of saved values'
explain tp2 --svg memory.svg
mentions memory.svg '<svg' 'memory of a rank' 'layout tp2' ' instructions'
explain one4 --svg slots.svg
mentions slots.svg 'microbatch 3'

# The same for scripts: collectives one by one.
explain tp2 --json
[ "$(grep -c '"kind": "all_reduce"' out)" -ge 8 ] || die "collectives are missing"
mentions out '"ranks": 2' '"name": "layers.0.q.w"' '"phase": "backward"' '"working"'
mentions out '"work"' '"split": 0' '"least_m"' '"ideal"' '"tp": '
if command -v python3 > /dev/null; then
  python3 -c 'import json, sys; json.load(open("out"))'
fi

# What waits in the memory of the host: marks, copies with their lines, and memory that is not the device's.
cat "$LLAMA" - > offload.mdl << 'END'
layout away { offload layers; }
layout soon { offload layers.3.mlp.down; }
END
expect 0 "$MDLC" explain offload.mdl --layout away
says '^ ?beside arithmetic: copies to the host, copies from the host$' ' together offloaded$' '^ what a microbatch offloads$' '^ layers\.\*\.[a-z_.]+ [0-9.]+ KiB in [0-9]+ \(std/nn\.mdl:[0-9]+\)$'
says '^ selected, but stays on the device, since it is read again before it could have left and come back$'
expect 0 "$MDLC" explain offload.mdl --layout soon
mentions err 'warning[E045]: `offload layers.3.mlp.down` moves nothing: what it selects is read again before'
says '^ selected, but stays on the device, since it is read again '
says_not '^ what a microbatch offloads$'
expect 0 "$MDLC" explain offload.mdl --layout away --json
says '"offloaded": [1-9][0-9]*'
expect 0 "$MDLC" print offload.mdl --layout away
says ' offload [0-9]+'
expect 0 "$MDLC" print offload.mdl --layout away --after lower
says '^ [0-9]+ offload layers\.0\.' '^ [0-9]+ fetch layers\.0\.'
says_not '^ [0-9]+ fetch layers\.3\.mlp\.group'
explain tp2
says_not 'offloaded'

# A large model on a thousand ranks: quick, and not longer than a few screens.
cat "$MODEL" - > large.mdl << 'END'
layout large {
  mesh pp = 16, dp = 8, tp = 8;
  layers -> pp; batch -> dp; kv_heads, ffn, vocab -> tp; @resid: seq -> tp; state -> dp;
  microbatches = 216; recompute attention;
}
END
expect 0 "$MDLC" explain large.mdl --recipe llm_jp_172b --layout large
says '^mesh pp 16 x dp 8 x tp 8: 1024 ranks' '172G parameters \(172394557440\): 642 GiB' \
  'layers\.0\.\.95\.q\.w .* \[embed 12288, kv_heads 16/tp8, group 6, hd 128\] 0\.\.15' \
  '96 x 216 all_gather tp \(8\) 192 MiB 168 MiB' '= 15 / \(1 x 216\) = 6\.94%' '2\.00 x ' 'known for ZeRO-1 with 216 microbatches: 2$'
[ "$(wc -l < out)" -lt 180 ] || die "$(wc -l < out) lines are said"
[ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' out)" -le 145 ] || die "a line is too long"

# Each rank's stage.
expect 0 "$MDLC" print "$LLAMA" --layout pp2tp2
cp out first
expect 0 "$MDLC" print "$LLAMA" --layout pp2tp2 --rank 1
same "ranks of one stage" "$(cat first)" "$(cat out)"
expect 0 "$MDLC" print "$LLAMA" --layout pp2tp2 --rank 2
mentions first "table.w" "to stage 1"
mentions out "head.w" "to stage 0"
grep -qE '= param "table\.w"' first || die "the table is not on the first stage"
! grep -qE '= param "table\.w"' out || die "the table is on the second stage"
expect 0 "$MDLC" print "$LLAMA" --layout pp2tp2 --after lower --rank 3
mentions out "segment forward" "head"
! grep -q "table" out || die "the table is on the second stage"
expect 0 "$MDLC" print "$LLAMA" --layout z3pp --program evaluate --rank 3
mentions out "head.w"
expect 1 "$MDLC" print "$LLAMA" --layout pp2tp2 --rank 4
mentions err "there is no rank 4" "0 to 3"
expect 1 "$MDLC" print "$LLAMA" --layout pp2tp2 --after lower --rank 4
mentions err "there is no rank 4" "0 to 3"
expect 1 "$MDLC" print "$SMALL" --rank 1
mentions err "rank 0 alone"
expect 0 "$MDLC" print "$LLAMA" --after list
mentions out "elaborate" "lower"

# With histories of scales a plan has two training steps; what ranks send is that of the one that all steps but the first
# run.
for precision in fp8_current fp8_hybrid; do
  expect 0 "$MDLC" explain "$ROOT/examples/layouts.mdl" --layout z1 --precision "$precision"
  mentions out "all_gather"
  ! grep -E '(all_gather|all_reduce|reduce_scatter) .* - +(adamw|[a-z])' out || die "$precision: collectives that no step runs"
  sed -n '/^sent by one rank/,/^$/p' out | sed -n 3p | grep ' in [0-9]' > /dev/null || die "$precision: nothing is sent"
done

# A page about an error: its title, a text that has it, and what is said of that.
expect 0 "$MDLC" explain E022
mentions out "E022: axes do not match" "y = x * scale;" "error[E022]: the operands of '*' have axes"
expect 0 "$MDLC" explain e016
mentions out "E016: nothing reads" "warning[E016]"
expect 1 "$MDLC" explain E777
mentions err "there is no error E777"

# Gradients over two mesh axes are summed where they are made, one collective behind the other, and not sent along the
# pipeline first: as much as ZeRO-2 sends elsewhere, and no more on one stage than on another.
cat > both.mdl << 'EOF'
import "layouts.mdl";
layout summed_twice { mesh pp = 2, a = 2, b = 2; layers -> pp; batch -> a, b; grad, state -> a; microbatches = 2; }
recipe two {
  model small();
  data text("LICENSE", tokenizer = bytes);
  batch = 8; seq = 64; steps = 10;
  optimizer adamw(lr = constant(3e-3), clip = 1.0);
}
EOF
cp "$ROOT/examples/layouts.mdl" .
expect 0 "$MDLC" explain both.mdl --recipe two --layout summed_twice
mentions out "parameters and gradients over a: 3.00 x" "parameters and gradients over b: 2.00 x"

# Rules for samples hold for what is made of them, `-> none` too; and what is looked up in less than a lookup makes is
# gathered.
expect 0 "$MDLC" explain "$ROOT/tests/layouts/rows_off.mdl" --layout call
says 'forward 2 all_gather dp \(2\) 1\.00 KiB 512 bytes 1\.00 KiB layers\.\*\.a\.u: dot y' \
  '1 all_gather dp \(2\) 1\.00 KiB 512 bytes 512 bytes take picked'
