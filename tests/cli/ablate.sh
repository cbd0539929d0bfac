#!/bin/bash
# ablate.sh: combinations in one table; what differs, fails or is misspelled is said; Ctrl-C leaves what there is.
. "${ROOT:?}/tests/cli/lib.sh"
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
cat >> small.mdl << 'END'
layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }
layout tp4 { mesh tp = 4; heads, ffn, vocab -> tp; }
layout eight { mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; heads, ffn, vocab -> tp; microbatches = 2; }
END

# records DIRECTORY KEY: the values of that key, one for each row
records() {
  sed "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/" "$1/ablate.jsonl"
}

# Layouts agree; the numbers beside the losses are those of the plans.
expect 0 "$MDL" ablate small.mdl layout=single,tp2,eight --steps 12 --out agree
mentions out "1/3  layout=single  loss" "loss 10" "loss 12" "sent/step" "s/step" "agree/ablate.svg"
same "verdicts" "$(records agree verdict | xargs)" "none same same"
same "ranks" "$(records agree ranks | xargs)" "1 2 8"
same "bytes sent by one rank" "$(records agree sent_bytes | head -1)" "0.0"
[ "$(records agree sent_bytes | sed -n 2p)" != "0.0" ] || die "tp2 sends nothing"
same "bubbles" "$(records agree bubble | sed 's/^0\.[0-9]*/some/' | xargs)" "null null some"
grep -q "</svg>" agree/ablate.svg || die "there is no picture"
expect 1 "$MDL" ablate small.mdl layout=single,tp2 --steps 1 --out agree
mentions err "--out"
mkdir taken
exec 9< taken
flock 9
expect 1 "$MDL" ablate small.mdl layout=single,tp2 --steps 1 --out taken
mentions err "another ablation is writing into taken"
exec 9<&-

# Settings are other computations, not judged; each is compared with its like.
expect 0 "$MDL" ablate small.mdl layout=single,tp2 precision=fp32,fp64 batch=4,8 --steps 3 --out settings
mentions out "= within 1e-05 at step 1 and 1e-04 later; 1e-05 and 1e-03 between f32 and f64"
mentions out "~ another computation"
same "rows to compare with" "$(records settings against | xargs)" "null 1 1 2 1 2 1 2"
same "verdicts of settings" "$(records settings verdict | xargs)" \
  "none not judged same same same same same same"
expect 0 "$MDL" ablate small.mdl "optimizer.lr.peak=1e-3,1e-2" --steps 2
! grep -q "every row is trained" out || die "nothing varies the steps of the recipe"
expect 0 "$MDL" ablate small.mdl steps=2,4 --steps 3
mentions out "every row is trained for 3 steps, as --steps says"
[ -f runs/ablate-1/ablate.jsonl ] || die "no fresh directory was made"

# The control: a difference is marked, and is the exit status.
expect 1 "$MDL" ablate small.mdl layout=single,eight --steps 12 --tolerance 1e-12 --out differ
mentions out "✗ row 2 (layout=eight) is not what row 1 (layout=single) computes: step " "mdl diff"
same "verdicts of a difference" "$(records differ verdict | xargs)" "none differs"

# What does not compile stands in the table, and the others go on.
expect 1 "$MDL" ablate small.mdl layout=tp4,single,tp2 --steps 2 --out failed
mentions out "2/3  layout=single  loss" "E043: axis 'heads' of size 2"
same "states" "$(records failed state | xargs)" "failed done done"
same "verdicts after a failure" "$(records failed verdict | xargs)" "none none same"

MDL_FAULT=die:1:40 expect 1 "$MDL" ablate small.mdl layout=single,tp2 --steps 3 --out lost
mentions out "rank 1 is lost"
same "verdicts of a lost rank" "$(records lost verdict | xargs)" "none none"

# Misspelled and senseless words are found before anything runs.
for word in layout=single,tq2:tp2 layuot=single,tp2:layout embd=16,32:embed precision=fp32,fp46:fp64 \
  optimizer.lr.peek=1,2:peak; do
  expect 1 "$MDL" ablate small.mdl "${word%:*}" --out never
  mentions err "${word#*:}"
done
# What cannot be the value of a setting is an error of the rows that have it alone.
expect 1 "$MDL" ablate small.mdl embed=32,0,x batch=4 --steps 1 --out values
mentions out "2/3  embed=0 batch=4  " "the size of axis 'embed' must be" "3/3  embed=x batch=4  " "there is no value 'x' here"
same "states of values" "$(records values state | xargs)" "done failed failed"
expect 1 "$MDL" ablate small.mdl embed=0,32 btch=4 --steps 1 --out never
mentions err "did you mean \`batch\`"
expect 1 "$MDL" ablate small.mdl batch=2,4 --set embed=0 --steps 1 --out never
mentions err "the size of axis 'embed' must be"
expect 2 "$MDL" diff small.mdl embed=32,x
mentions err "embed=x: there is no value 'x' here"
expect 2 "$MDL" ablate small.mdl
mentions err "layout="
expect 2 "$MDL" ablate small.mdl single
expect 2 "$MDL" ablate small.mdl batch=4,8,4
mentions err "batch=4 is given twice"
expect 2 "$MDL" ablate small.mdl layout=tp2 layout=single
expect 2 "$MDL" ablate small.mdl layout=tp2 --layout single
expect 1 "$MDL" ablate missing.mdl layout=tp2
expect 1 "$MDL" ablate small.mdl layout=single,tp2 --data $'none\xff' --out odd --json
mentions out '"problem":"'
# Numbers that would not fit where they are counted on, or into what they are stored in.
for option in --steps=9223372036854775807 --threads=4294967297; do
  expect 2 "$MDL" ablate small.mdl layout=tp2 "$option" --out never
  mentions err "is a whole number from 0 to"
done
[ ! -e never ] || die "a wrong word made a directory"

# Ctrl-C ends with the table of what there is.
"$MDL" ablate small.mdl layout=single,tp2 batch=4,8 --steps 100000 --out stopped > log 2>&1 &
wait_for 20 test -d stopped
sleep 0.5
kill -INT $!
status=0
wait $! || status=$?
[ "$status" = 130 ] || { cat log >&2; die "interrupted with status $status"; }
mentions log "stopped after step" "not run"
same "states after Ctrl-C" "$(records stopped state | xargs)" "stopped not run not run not run"

# Sizes of one layout: what the text does not allow is listed with its error and is no failure; they compute the same.
cat >> small.mdl << 'END'
layout cut { mesh tp = 2, dp = 1; heads, ffn, vocab -> tp; batch -> dp; }
layout dp4 { mesh dp = 4; batch -> dp; }
END
expect 0 "$MDL" ablate small.mdl layout=cut mesh.tp=1,2,4 microbatches=1,3 mesh.dp=2 --steps 3 --out sweep
mentions out "E043: axis 'heads' of size 2 cannot be split over tp = 4" "cannot be split over dp = 2 with 3 microbatches" \
  "tok/s" "val loss" "measured"
same "states of a sweep" "$(records sweep state | xargs)" "done illegal done illegal illegal illegal"
same "verdicts of a sweep" "$(records sweep verdict | xargs)" "none none same none none none"
same "ranks of a sweep" "$(records sweep ranks | xargs)" "2 0 4 0 0 0"
for key in tokens_per_s val_loss measured_bytes; do
  [ "$(records sweep $key | grep -c null)" = 4 ] || die "not every row that ran has $key"
done
same "the validation" "$(records sweep val_loss | sed -n 1p | cut -c1-6)" "$(records sweep val_loss | sed -n 3p | cut -c1-6)"
train small.mdl --layout cut --set mesh.dp=2 --set mesh.tp=1 --steps 3 --eval-every 3 --out alone
near=$(sed -n 's/.*"val_loss": *\([0-9.]*\).*/\1/p' alone/metrics.jsonl | tail -n 1)
same "the validation of a run" "${near:0:6}" "$(records sweep val_loss | sed -n 1p | cut -c1-6)"
expect 1 "$MDL" ablate small.mdl layout=cut mesh.tp=1,2 embed=32,x --steps 1 --out mistaken
same "states of a sweep with a wrong value" "$(records mistaken state | xargs)" "done failed done failed"
expect 1 "$MDL" ablate small.mdl layout=cut mesh.tp=4,8 --steps 1 --out none
expect 1 "$MDL" ablate small.mdl layout=cut mesh.pp=1,2 --out never
mentions err "the layout 'cut' has no mesh axis 'pp'; its mesh has tp, dp"
expect 1 "$MDL" ablate small.mdl layout=cut,single mesh.tp=1,2 --out never
mentions err "the layout 'single' has no mesh axis 'tp'"
expect 2 "$MDL" ablate small.mdl mesh.tp=1,2 --layout cut --set mesh.tp=2
[ ! -e never ] || die "a mesh axis that is not there made a directory"

# Dry: the same plans, nothing run, no data needed, and no files but where they are asked for.
rm -rf runs
expect 0 "$MDL" ablate small.mdl layout=cut mesh.tp=1,2,4 microbatches=1,3 mesh.dp=2 --dry --data missing.txt
mentions out "2 of 6 combinations can be compiled; nothing was run" "E043: axis 'heads' of size 2"
[ ! -e runs ] || die "a dry table made a directory"
expect 0 "$MDL" ablate small.mdl layout=cut mesh.tp=1,2,4 microbatches=1,3 mesh.dp=2 --dry --out dry
for key in ranks sent_bytes memory_bytes; do
  same "$key, dry" "$(records dry $key | xargs)" "$(records sweep $key | xargs)"
done
same "states, dry" "$(records dry state | xargs)" "legal illegal legal illegal illegal illegal"
expect 1 "$MDL" ablate small.mdl layout=tp4,single --dry
expect 1 "$MDL" ablate small.mdl layout=cut mesh.tp=4,8 --dry
expect 1 "$MDL" ablate small.mdl layout=single,tp2 --device tpu --out never
mentions err "there is no device 'tpu'"

# In the picture every row has a stroke and a name of its own, whole, of what differs alone.
expect 0 "$MDL" ablate small.mdl --layout cut --set mesh.tp=1 mesh.dp=1,2 precision=fp32,bf16,bf16_fp32_residual \
  optimizer.lr.peak=1e-3,3e-3 optimizer.lr.warmup=5,10 microbatches=1,2 recipe=small --dry --out many
grep 'd="M32 ' many/ablate.svg > lines
same "rows of the picture" "$(wc -l < lines)" 48
same "strokes" "$(sed 's/ stroke-width.*//' lines | sort -u | wc -l)" 48
sed 's/<text class="name" x="478".*//; s/<text x=.*//; s/<[^>]*>/ /g; s/  */ /g' lines > names
same "names" "$(sort -u names | wc -l)" 48
same "the last name" "$(tail -n 1 names | xargs)" "dp=2 bf16_fp32_residual peak=3e-3 warmup=10 microbatches=2"

# Two GPUs that are stand-ins: rows of more ranks are not run, whatever is wrong with the others.
[ -d "$BUILD/tests/fake" ] || exit 0
export LD_LIBRARY_PATH=$BUILD/tests/fake FAKE_GPUS=2
expect 1 "$MDL" ablate small.mdl layout=eight,dp4 --steps 1 --out absent
mentions out "not run: 8 ranks, each on a GPU of its own, and this machine has 2"
same "states without GPUs" "$(records absent state | xargs)" "no devices no devices"
"$MDL" ablate small.mdl layout=eight,tp2,single --device cuda --steps 1 --out broken > out 2>&1 || true  # no kernels
same "rows of stand-ins" "$(records broken state | wc -l) $(records broken state | head -n 1)" "3 no devices"
expect 0 "$MDL" ablate small.mdl layout=eight,tp2 --device cpu --steps 1 --out threads
same "states on the CPU" "$(records threads state | xargs)" "done done"

# A loss that is a sum is not called one of a token, nor compared with a mean.
sed 's/loss = mean(/loss = sum(/' small.mdl > sum.mdl
expect 0 "$MDL" ablate sum.mdl batch=4,8 --device cpu --steps 2 --out sums
mentions out "losses are sums over the tokens of a batch, and not nats per token"
mentions out "a loss of one says little beside that of another"
mentions sums/ablate.svg "loss, a sum over the tokens of a batch"
same "sums" "$(records sums summed | xargs)" "true true"
mentions agree/ablate.svg "loss, nats per token"
