#!/bin/bash
# lost.sh: nothing of a run is lost without a word: unseen and damaged checkpoints, torn lines, other data, mdl verify.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 6 --out whole
train "$SMALL" --steps 4 --save-every 2 --out run

# Checkpoints that cannot be seen are no reason to begin anew: as on a volume that is not mounted, or is so late.
cp -r run unseen
kept=$(cat unseen/metrics.jsonl)
for way in absent empty; do
  rm -rf unseen/checkpoints
  [ $way = absent ] || mkdir unseen/checkpoints
  expect 1 "$MDL" train "$SMALL" --steps 6 --out unseen --resume
  mentions err "log.txt says that" "step-00000004 was saved" "is a volume not mounted?" "--restart"
  same "metrics of a run that stopped" "$(cat unseen/metrics.jsonl)" "$kept"
  expect 1 "$MDL" verify unseen
  mentions err "log.txt says that" "step-00000004 was saved: is a volume not mounted?"
  [ $way = empty ] || [ ! -e unseen/checkpoints ] || die "a directory was made"
  [ $way = absent ] || cp -r run/checkpoints/. unseen/checkpoints
done
train "$SMALL" --steps 6 --out unseen --resume
same "checkpoints that are seen again" "$(weights whole 6)" "$(weights unseen 6)"
rm -r unseen/checkpoints unseen/log.txt  # the metrics know it too
expect 1 "$MDL" train "$SMALL" --steps 6 --out unseen --resume
mentions err "is not there, but metrics.jsonl has steps up to 6"
# Lines of metrics say when a save has ended, whatever has become of the log.
train "$SMALL" --steps 6 --save-every 2 --log-every 1 --out cleared
rm -r cleared/checkpoints && mkdir cleared/checkpoints && : > cleared/log.txt
expect 1 "$MDL" train "$SMALL" --steps 6 --out cleared --resume
mentions err "holds no checkpoint, but metrics.jsonl has steps up to 6, and some were saved"
long=$(printf '%0100d' 1)/$(printf '%0100d' 2)/$(printf '%0100d' 3)
train "$SMALL" --steps 2 --out "$long"
rm -r "$long"/checkpoints/*
expect 1 "$MDL" train "$SMALL" --steps 6 --out "$long" --resume
mentions err "log.txt says that"

line=$'of\ntwo lines'
train "$SMALL" --steps 2 --out "$line"
rm -r "$line"/checkpoints/*
expect 1 "$MDL" train "$SMALL" --steps 6 --out "$line" --resume
mentions err "log.txt says that"

# --restart begins anew, says so, and keeps what there was; what is resumed after it is the new run.
cp -r run again
expect 2 "$MDL" train "$SMALL" --steps 2 --out again --restart --resume
mentions err "leave one of them out"
train "$SMALL" --steps 2 --out again --restart
mentions out "restarted with step 1, as --restart asks; what was there before is in again/before-1"
[ -f again/before-1/checkpoints/step-00000004/manifest.json ] || die "--restart lost a checkpoint"
same "metrics that were set aside" "$(losses again/before-1)" "$(losses run)"
cp -r run apart  # what is set aside is of use with another text in its place too
expect 0 "$MDL" eval run
cp out before
train "$SMALL" --steps 2 --out apart --restart --set embed=16 --set hd=8
expect 0 "$MDL" eval apart/before-1
same "evaluated" "$(grep '^loss' before)" "$(grep '^loss' out)"
rm -r apart/checkpoints/*  # as where it ends behind that, as on a full disk
expect 1 "$MDL" train "$SMALL" --steps 6 --out apart --resume
mentions err "or did --restart end before it began anew, which has set aside what is in apart/before-1, a run by itself?"
train apart/before-1 --resume --steps 6
same "gone on with" "$(weights whole 6)" "$(weights apart/before-1 6)"
train "$SMALL" --steps 6 --out again --resume
same "begun anew and whole" "$(weights whole 6)" "$(weights again 6)"
# A run that was stopped before its first save was never saved, whatever its metrics say: nothing is unseen.
train "$SMALL" --steps 2 --out fresh
rm -r fresh/checkpoints/* && sed -i '/^saved/d' fresh/log.txt
expect 0 "$MDL" verify fresh
mentions out "fresh/checkpoints holds no checkpoint"
train "$SMALL" --steps 6 --out fresh --resume
mentions out "there is no checkpoint yet: training begins with step 1"

# A damaged newest one: the next older whole one is gone on with, loudly, to the same bits.
cp -r run damaged
printf X | dd of=damaged/checkpoints/step-00000004/model.safetensors bs=1 seek=2000 conv=notrunc 2> /dev/null
expect 1 "$MDL" verify damaged
mentions out "DAMAGED" "step-00000004 is damaged: model.safetensors has hash" "good     damaged/checkpoints/step-00000002: whole" \
  "2 checkpoints, 1 damaged; --resume goes on from step 2"
expect 1 "$MDL" eval damaged
mentions err "step-00000004 is damaged"
train "$SMALL" --steps 6 --out damaged --resume
mentions out "step-00000004 is damaged" "it is kept as damaged/checkpoints/damaged-00000004" "training goes on from step 2"
same "after damage" "$(weights whole 6)" "$(weights damaged 6)"
same "metrics after damage" "$(losses damaged)" "$(losses whole)"
expect 0 "$MDL" verify damaged
mentions out "damaged-00000004 was found damaged before"
expect 0 "$MDL" verify damaged/checkpoints/step-00000006
expect 1 "$MDL" verify "$ROOT/tests"
mentions err "neither a run nor a checkpoint"

# So are a version that was changed, which is none of a program to come, and a manifest beyond all sizes.
for way in version size; do
  cp -r run odd
  manifest=odd/checkpoints/step-00000004/manifest.json
  if [ $way = version ]; then sed -i 's/"version": [0-9]*/"version": 99/' $manifest; else truncate -s 1T $manifest; fi
  expect 1 "$MDL" verify odd
  mentions out "step-00000004 is damaged" "2 checkpoints, 1 damaged"
  train "$SMALL" --steps 6 --out odd --resume
  mentions out "it is kept as odd/checkpoints/damaged-00000004" "training goes on from step 2"
  rm -r odd
done

# One that cannot be read, as behind a bad sector, keeps the others from nothing.
if strace -f -qq -o /dev/null true 2> /dev/null; then
  expect 1 strace -f -qq -o /dev/null -e trace=pread64 -e inject=pread64:error=EIO \
    -P "$PWD/run/checkpoints/step-00000004/model.safetensors" "$MDL" verify "$PWD/run"
  mentions out "UNREAD   cannot read $PWD/run/checkpoints/step-00000004/model.safetensors" \
    "good     $PWD/run/checkpoints/step-00000002: whole"
  mentions err "Input/output error"
  # What cannot be moved or removed, as of a lower layer of a container, is said, and --restart changes nothing.
  cp -r run fixed
  expect 1 strace -f -qq -o /dev/null -e trace=rename -e inject=rename:error=EXDEV -P "$PWD/fixed/checkpoints" \
    "$MDL" train "$SMALL" --steps 2 --out "$PWD/fixed" --restart
  mentions err "cannot move $PWD/fixed/checkpoints to $PWD/fixed/before-1/checkpoints"
  diff -r run fixed || die "--restart that failed has changed a run"
  expect 0 strace -f -qq -o /dev/null -e trace=rename -e inject=rename:error=EXDEV \
    -P "$PWD/fixed/checkpoints/step-00000002" "$MDL" train --resume --steps 8 --save-every 1 --keep 1 "$PWD/fixed"
  same "warnings" "$(grep -c "warning   an older checkpoint stays, and takes space: cannot remove $PWD/fixed/checkpoints/step-00000002" out)" 1
fi

# A torn line, and one that is none, block nothing.
cp -r run torn
sed -i '1s/.*/{"step": 1, "lo/' torn/metrics.jsonl
printf '{"step":5,"loss":' >> torn/metrics.jsonl
expect 0 "$MDL" verify torn
mentions out "metrics.jsonl: 1 lines are none of metrics"
train "$SMALL" --steps 6 --out torn --resume
mentions out "1 line of torn/metrics.jsonl, from line 1 on, is none of metrics"
[ -f torn/metrics.jsonl.damaged ] || die "the file as it was is gone"
first=$(cat torn/metrics.jsonl.damaged)
printf 'nonsense\n' >> torn/metrics.jsonl
train "$SMALL" --steps 6 --out torn --resume
mentions out "the file as it was is torn/metrics.jsonl.damaged-1"
same "what was damaged first" "$(cat torn/metrics.jsonl.damaged)" "$first"
grep -q nonsense torn/metrics.jsonl.damaged-1 || die "the second file as it was is gone"
cp -r torn anew
train "$SMALL" --steps 1 --out anew --restart
[ -f anew/before-1/metrics.jsonl.damaged ] && [ -f anew/before-1/metrics.jsonl.damaged-1 ] ||
  die "--restart left behind what was damaged"
same "after a torn line" "$(weights whole 6)" "$(weights torn 6)"

# Other data of the same size is an error, unless it is asked for.
tr 'a' 'b' < "$ROOT/LICENSE" > other
cp "$ROOT/LICENSE" same
cp -r run corpus
sed "s|text(\"[^\"]*\"|text(\"other\"|" "$SMALL" > other.mdl
expect 1 "$MDL" train other.mdl --steps 6 --out corpus --resume
mentions err "other is not the data that this run was trained on: its bytes differ" "--data other"
train other.mdl --steps 6 --out corpus --resume --data other
mentions out "other is other data than this run was trained on so far"
sed "s|text(\"[^\"]*\"|text(\"same\"|" "$SMALL" > same.mdl
train same.mdl --steps 6 --out run --resume
same "the same data at another place" "$(weights whole 6)" "$(weights run 6)"

# So is another tokenizer of as many tokens.
if "$MDL" data train-tokenizer "$ROOT/LICENSE" -o none.json 2>&1 | grep "built without PCRE2"; then exit 0; fi
expect 0 "$MDL" data train-tokenizer "$ROOT/LICENSE" -o one.json --vocab 300
rev "$ROOT/LICENSE" > reversed
expect 0 "$MDL" data train-tokenizer reversed -o two.json --vocab 300
cp one.json used.json
sed "s|tokenizer = bytes|tokenizer = \"used.json\"|; s|\.\./\.\./LICENSE|same|; s|vocab = 256|vocab = 300|" "$SMALL" > tokens.mdl
train tokens.mdl --steps 2 --out tokens
cp two.json used.json
expect 1 "$MDL" train tokens.mdl --steps 3 --out tokens --resume
mentions err "is not the one that this run was trained with"
for words in "eval tokens" "generate tokens --prompt A --tokens 2"; do
  expect 1 "$MDL" $words
  mentions err "is not the one that this run was trained with" "put that file back"
done
expect 0 "$MDL" generate tokens --prompt A --tokens 2 --tokenizer one.json
if grep -q "note" err; then die "the tokenizer that the run was trained with is taken for another"; fi
cp one.json used.json
for other in two.json bytes; do
  expect 0 "$MDL" generate tokens --prompt A --tokens 2 --tokenizer "$other"
  mentions err "note: the tokenizer $other is not the one that this run was trained with" "used.json"
done
expect 0 "$MDL" eval tokens
expect 0 "$MDL" generate tokens --prompt A --tokens 2

# And of a mix.
sed 's|data text("same", tokenizer = "used.json")|data mix(a = text("same", tokenizer = "used.json"), b = text("reversed", tokenizer = "used.json"))|' tokens.mdl > mixed.mdl
train mixed.mdl --steps 2 --out mixed
expect 0 "$MDL" generate mixed --prompt A --tokens 2
cp two.json used.json
expect 1 "$MDL" generate mixed --prompt A --tokens 2
mentions err "the tokenizer $PWD/used.json is not the one that this run was trained with"
expect 1 "$MDL" train mixed.mdl --steps 3 --out mixed --resume
mentions err "is not the one that this run was trained with" "or give --data FILE"
expect 0 "$MDL" generate mixed --prompt A --tokens 2 --tokenizer one.json
if grep -q "note" err; then die "the tokenizer that the run was trained with is taken for another"; fi
cp two.json used.json
train tokens.mdl --steps 3 --out tokens --resume --data same
mentions out "the tokenizer is not the one this run began with"

# A plan that cannot be read is made again of the text that the run keeps.
cp -r run planless
truncate -s 1000 planless/plan.mdlx
expect 1 "$MDL" train planless --resume --steps 6
mentions err "planless/plan.mdlx" 'mdl train planless/resolved.mdl --out planless --resume'
train planless/resolved.mdl --steps 6 --out planless --resume
same "a run whose plan was made again" "$(weights whole 6)" "$(weights planless 6)"
printf '\1' | dd of=planless/plan.mdlx bs=1 seek=8 conv=notrunc status=none
expect 1 "$MDL" eval planless
mentions err "is a plan of format 1;" 'mdlc compile planless/resolved.mdl -o planless/plan.mdlx'
expect 0 "$MDLC" compile planless/resolved.mdl -o planless/plan.mdlx
expect 0 "$MDL" eval planless

# Lines of metrics that are missing are said: evaluations are counted from them.
cp -r run unmetered
rm unmetered/metrics.jsonl
train unmetered --resume --steps 20
mentions out "unmetered/metrics.jsonl had" "lines are missing"
train unmetered --resume --steps 21
! grep -q "lines are missing" out || die "it is said once more"

# Readers of events go through files by name: a run that goes on when the clock was set back has the last name too.
cp -r run ahead
echo > ahead/events.out.tfevents.9000000000.host.1.0
train ahead --resume --steps 20
same "events of a run that goes on" "$(cd ahead && echo events.* | tr ' ' '\n' | LC_ALL=C sort | tail -n 1 | cut -d. -f4)" 9000000001

# Where what is validated with can no longer be read, what was trained is saved.
for _ in {1..100}; do cat "$ROOT/LICENSE"; done > long.txt
expect 0 "$MDL" data encode long.txt -o long.bin
sed -e 's,text("../../LICENSE"\, tokenizer = bytes),tokens("long.bin"),' -e 's/  seed = 3;/&  validation = 0.5;/' "$SMALL" > unread.mdl
"$MDL" train unread.mdl --steps 100000 --save-every 0 --eval-every 200 --log-every 1 --out unread > log 2>&1 &
wait_for 60 test -s unread/metrics.jsonl
truncate -s $((1024 + $(stat -c %s long.txt))) long.bin
status=0
wait $! || status=$?
[ "$status" = 1 ] || { cat log >&2; die "exit status $status instead of 1"; }
mentions log "while it was read"
saved unread 200 || die "nothing was saved"

# What cannot be written is said once: the picture, and not that metrics are written again since the picture is.
cp -r run drawn
rm drawn/loss.svg
mkdir drawn/loss.svg
train drawn --resume --steps 20 --save-every 2 --eval-every 3
same "warnings of the picture" "$(grep -c 'the picture of step' drawn/log.txt)" 1
! grep -q "written again" drawn/log.txt || die "it says that something is written again"

# Metrics that cannot be flushed keep no checkpoint from being saved.
if strace -f -qq -o /dev/null true 2> /dev/null; then
  expect 0 strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:error=EIO -P "$PWD/flushed/metrics.jsonl" \
    "$MDL" train "$SMALL" --steps 6 --save-every 2 --out "$PWD/flushed"
  mentions out "metrics of step 2 were not written"
  saved flushed 6 || die "nothing was saved"
fi

# A second program is refused.
"$MDL" train "$SMALL" --steps 1000000 --save-every 1 --out busy > log 2>&1 &
wait_for 60 saved busy 1
for option in --resume --restart; do
  expect 1 "$MDL" train busy $option
  mentions err "busy is being trained already"
done
kill -INT $!
wait $! || true
[ ! -e busy/before-1 ] || die "the run was set aside while it was trained"

# Where a file system has no locks, nothing keeps another program out, which is said.
if strace -f -qq -o /dev/null true 2> /dev/null; then
  expect 0 strace -f -qq -o /dev/null -e trace=flock -e inject=flock:error=ENOLCK "$MDL" train "$SMALL" --steps 2 --out unlocked
  mentions out "the file system of unlocked has no locks: see to it that no other program trains in it"
fi

# A file that has the name of a checkpoint keeps nobody from the older ones.
expect 0 "$MDL" train "$SMALL" --steps 6 --save-every 3 --quiet --out strange
: > strange/checkpoints/step-00000025
expect 1 "$MDL" verify strange
mentions out "step-00000025 is damaged: it is no directory"
expect 0 "$MDL" train "$SMALL" --steps 8 --resume --out strange
mentions out "resumed   after step 6" "step-00000025 is damaged"
saved strange 8 || die "the run went on and was not saved"
mv strange/checkpoints/step-00000008 strange/checkpoints/step-000000008  # which nobody has written
expect 0 "$MDL" verify strange
mentions out "--resume goes on from step 6"
expect 0 "$MDL" train "$SMALL" --steps 9 --resume --out strange
mentions out "resumed   after step 6"
