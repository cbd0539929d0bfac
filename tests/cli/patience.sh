#!/bin/bash
# patience.sh: training ends where the validation loss gets no better, also across a resumption.
. "${ROOT:?}/tests/cli/lib.sh"
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e "s/cosine(peak = 1e-2, warmup = 5, steps = 60)/3e-2/" "$SMALL" > harm.mdl
evaluations() {
  sed -n 's/.*"step":\([0-9]*\),.*"val_loss":\([0-9.]*\).*/\1 \2/p' "$1/metrics.jsonl"
}

# stop RUN: the step with which so many evaluations were no better than the best one
stop() {
  evaluations "$1" | awk -v n="$2" 'NR == 1 || $2 < best { best = $2; since = 0; next } ++since == n { print $1; exit }'
}
train harm.mdl --steps 400 --eval-every 5 --save-every 100 --log-every 100 --out whole
first=$(stop whole 2)
later=$(stop whole 3)
[ -n "$first" ] && [ -n "$later" ] && [ "$first" -lt "$later" ] || { evaluations whole >&2; die "the validation loss always falls"; }

train harm.mdl --steps 400 --eval-every 5 --save-every 100 --log-every 100 --patience 2 --out two
mentions out "stopped   after step $first: no better than the evaluation of step " "in 2 evaluations"
same "the last evaluation" "$(evaluations two | tail -n 1 | cut -d' ' -f1)" "$first"
saved two "$first" || die "nothing was saved where it stopped"

# It goes on counting: nothing with as much patience, one evaluation or more with more of it, all without.
train two --resume --steps 400 --eval-every 5 --log-every 100 --patience 2
mentions out "stopped   after step $first" "no step was made"
train two --resume --steps 400 --eval-every 5 --save-every 100 --log-every 100 --patience 3
mentions out "stopped   after step $later"
same "the evaluations" "$(evaluations two)" "$(evaluations whole | awk -v last="$later" '$1 <= last')"
train two --resume --steps $((later + 5)) --eval-every 5 --log-every 100
! grep -q stopped out || die "it stopped without --patience"

# Where nothing is evaluated it is an error, and no run.
expect 2 "$MDL" train harm.mdl --steps 10 --eval-every 0 --patience 2 --out never
mentions err "--eval-every N"
expect 1 "$MDL" train harm.mdl --set validation=0 --steps 10 --patience 2 --out never
mentions err "nothing to evaluate on: the recipe keeps nothing back, \`validation = 0\`; give it a part of the data"
train harm.mdl --set validation=0 --steps 1 --out nothing
expect 1 "$MDL" eval nothing
mentions err "back, \`validation = 0\`; name what to evaluate on: --data FILE"
expect 1 "$MDL" train harm.mdl --set validation=0.0001 --steps 10 --patience 2 --out never
mentions err "nothing to evaluate on: the part of the data that is held out is shorter than one window; raise"
expect 2 "$MDL" train harm.mdl --steps 10 --log-every 0 --out never
mentions err "--log-every must be at least 1, not 0"
expect 2 "$MDL" train harm.mdl --steps 10 --patience 0 --out never
# Nor is the best kept of evaluations that there are none of; of a single one it is said that it is the last.
expect 1 "$MDL" train harm.mdl --set validation=0 --steps 10 --keep-best --out never
mentions err "--keep-best goes by evaluations, and there is nothing to evaluate on: the recipe keeps nothing back"
[ ! -e never ] || die "a run that was refused left a directory"
train harm.mdl --steps 3 --eval-every 0 --keep-best --out single
mentions out "the checkpoint that --keep-best keeps is the last one"
train harm.mdl --steps 3 --eval-every 1 --keep-best --out more
! grep -q "the last one" out || die "the best of several is said to be the last"
[ ! -e never ] || die "a run was made"

# So it is where the loss knows which sample of the batch it is of; without --patience the log says so.
sed 's/^  loss = .*/  loss = mean(cross_entropy(logits, targets over vocab) * (1 + pos(batch) as real));\n  output most = exp(mean(logits));/' harm.mdl > apart.mdl
echo 'layout apart { microbatches = 2; }' >> apart.mdl
expect 1 "$MDL" train apart.mdl --layout apart --steps 1 --eval-every 1 --patience 2 --out never
mentions err "'evaluate', whose batch is that of one microbatch, is left out: with 2" "the text cannot be evaluated under this layout"
[ ! -e never ] || die "a run was made"
train apart.mdl --layout apart --steps 1 --eval-every 1 --out apart
mentions out "there is no validation: the text cannot be evaluated under this layout"

# Losses that do not change at all are no better behind a resumption either.
sed 's/3e-2/0/' harm.mdl > still.mdl
train still.mdl --steps 20 --eval-every 1 --patience 3 --out still
mentions out "stopped   after step 4: no better than the evaluation of step 1"
train still.mdl --steps 20 --eval-every 1 --patience 6 --out still --resume
mentions out "stopped   after step 7: no better than the evaluation of step 1"

# The note on a patience that ends no run counts the evaluations before it as well; so does that on a single one.
train "$SMALL" --steps 4 --eval-every 2 --out noted
train "$SMALL" --steps 6 --eval-every 6 --patience 2 --out noted --resume
mentions out "--patience 2 does not end this run, which has 1 evaluation left; --eval-every N has more"
train still.mdl --steps 8 --eval-every 2 --out noted-still
train still.mdl --steps 24 --eval-every 8 --patience 4 --keep-best --out noted-still --resume
! grep -q "^note  *--patience" out || die "a patience that ends the run is said to end none: $(cat out)"
mentions out "stopped   after step 16: no better than the evaluation of step 2"
train still.mdl --steps 18 --eval-every 0 --keep-best --out noted-still --resume
! grep -q "only evaluation" out || die "the evaluations before are forgotten: $(cat out)"
expect 0 "$MDL" train "$SMALL" --steps 6 --eval-every 3 --patience 2 --out noted-fresh
mentions out "--patience 2 ends no run of 6 steps, which has 2 evaluations; --eval-every N has more"

# An evaluation that a signal cut short is made up for when the run goes on: a line of its own, and counted.
train "$SMALL" --steps 8 --eval-every 4 --out cut
kept=$(evaluations cut)
train "$SMALL" --steps 4 --eval-every 4 --out early
cp -r early again
sed -i 's/,"val_loss":[^,}]*//' again/metrics.jsonl
train "$SMALL" --steps 8 --eval-every 4 --out again --resume
same "the evaluations" "$(evaluations again)" "$kept"
same "the loss beside it" "$(losses again | grep -c '^4 ')" "$(losses early | grep -c '^4 ' | awk '{print $1 + 1}')"
train "$SMALL" --steps 8 --eval-every 4 --out early --resume
same "an evaluation that is there" "$(evaluations early)" "$kept"

# A run that was killed between the line of such an evaluation and the checkpoint that says how good it is: it stays the best.
train "$SMALL" --steps 8 --eval-every 0 --save-every 4 --log-every 4 --out killed
rm -r killed/checkpoints/step-00000008
sed -i '/"step":4,/s/}$/,"val_loss":0.5}/' killed/metrics.jsonl
train "$SMALL" --steps 12 --eval-every 4 --save-every 4 --keep 1 --keep-best --out killed --resume
mentions killed/checkpoints/step-00000004/manifest.json '"val_loss": 0.5,'

# Where the run goes on without --keep-best, what it kept so stays, and further on too; a run that never asked keeps none.
for steps in 16 20; do
  train killed --steps $steps --eval-every 4 --save-every 4 --keep 1 --resume
  mentions out "the checkpoint of the lowest validation loss stays beside the newest, as --keep-best asked before"
  same "checkpoints at $steps" "$(ls killed/checkpoints | xargs)" "step-00000004 step-000000$steps"
done
# So it is with what --keep-every kept.
train "$SMALL" --steps 8 --eval-every 0 --save-every 2 --keep 1 --keep-every 4 --out every
same "kept" "$(ls every/checkpoints | xargs)" "step-00000004 step-00000008"
for steps in 12 14; do
  train every --steps $steps --eval-every 0 --save-every 2 --keep 1 --resume
  same "still kept at $steps" "$(ls every/checkpoints | xargs)" "step-00000004 step-00000008 step-000000$steps"
done
rm -r killed/checkpoints/step-00000020
train killed --steps 20 --eval-every 4 --save-every 4 --keep 1 --restart
! grep -q "keep-best" out || die "a run that begins anew was asked for something"
same "checkpoints of another" "$(ls killed/checkpoints | xargs)" "step-00000020"

# A signal within the evaluation of the last step: status 130, and --resume makes up for it.
for _ in {1..200}; do cat "$ROOT/LICENSE"; done > long.txt
sed -e "s,../../LICENSE,long.txt," -e 's/  seed = 3;/&  validation = 0.9;  eval_batches = 100000;/' "$SMALL" > last.mdl
status=0
"$MDL" train last.mdl --steps 2 --save-every 0 --log-every 1 --out last > log 2>&1 &
wait_for 60 grep -q '^step 2/2' log
kill -INT $!
wait $! || status=$?
[ "$status" = 130 ] || { cat log >&2; die "exit status $status instead of 130"; }
mentions log "interrupted after step 2, before it was evaluated" "mdl train last --resume"
train last.mdl --steps 2 --set eval_batches=1 --out last --resume
same "what was made up for" "$(evaluations last | cut -d' ' -f1)" 2

# Losses of other windows are not compared: patience and the best begin anew, here with a text that is harder.
head -c 4000 /dev/urandom > hard.txt
sed -e 's/  seed = 3;/&  validation text("..\/..\/LICENSE");/' -e "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > turned.mdl
train turned.mdl --steps 6 --eval-every 2 --save-every 2 --keep 1 --keep-best --out turned
sed -i 's,validation text("[^"]*"),validation text("hard.txt"),' turned.mdl
train turned.mdl --steps 12 --eval-every 2 --save-every 2 --keep 1 --keep-best --patience 3 --out turned --resume
mentions out "--patience and --keep-best go by those of the same windows alone"
least=$(evaluations turned | awk '$1 > 6 && (!best || $2 < best) { best = $2; step = $1 } END { print step }')
[ -d "turned/checkpoints/step-$(printf %08d "$least")" ] || die "the best of the new windows, of step $least, is gone"
[ -d turned/checkpoints/step-00000006 ] || die "the best of the windows before, which none was compared with, is gone"
[ "$(ls turned/checkpoints | wc -l)" -le 3 ] || die "more than the newest, and the best of each windows, stay"
train turned.mdl --steps 14 --eval-every 2 --out turned --resume
! grep -q "go by those of the same windows" out || die "the same windows were taken for others"

# So they do behind evaluations of a program that did not say of which windows they were; behind those of the same they go on.
sed -i 's,validation text("[^"]*"),validation = 0.1,' turned.mdl
train turned.mdl --steps 6 --eval-every 2 --save-every 2 --keep 1 --keep-best --out past
older past
cp -r past same
train turned.mdl --steps 8 --eval-every 2 --save-every 2 --keep 2 --keep-best --patience 3 --out same --resume
! grep -q "go by those of the same windows" out || die "the same windows of an older run were taken for others"
sed -i 's,validation = 0.1,validation text("hard.txt"),' turned.mdl
train turned.mdl --steps 16 --eval-every 2 --save-every 2 --keep 1 --keep-best --patience 3 --out past --resume
mentions out "--patience and --keep-best go by those of the same windows" "stopped   after step"
least=$(evaluations past | awk '$1 > 6 && (!best || $2 < best) { best = $2; step = $1 } END { print step }')
last=$(evaluations past | tail -n 1 | cut -d' ' -f1)
same "the best of the windows before, that of the new ones, and the last" "$(ls past/checkpoints | xargs)" \
  "$(printf 'step-%08d\n' 6 "$least" "$last" | sort -u | xargs)"
