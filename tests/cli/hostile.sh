#!/bin/bash
# hostile.sh: pipes in the place of a run's files, manifests that were changed, and variables that say what nobody can do.
. "$ROOT/tests/cli/lib.sh"
cp "$SMALL" small.mdl
train "$SMALL" --steps 2 --save-every 1 --out run
STEP=run/checkpoints/step-00000002

# said STATUS WORDS COMMAND...: the status, what stderr mentions, and an end to it
said() {
  local status=$1 words=$2
  shift 2
  expect "$status" timeout 60 "$@"
  mentions err "$words"
}

# A pipe is named, whoever comes across it, and nobody waits for what it never says; also with somebody at its other end.
for file in metrics.jsonl log.txt plan.mdlx checkpoints/step-00000002/manifest.json; do
  mv "run/$file" kept
  mkfifo "run/$file"
  expect 1 timeout 60 "$MDL" train "$SMALL" --steps 3 --resume --out run
  mentions err "run/$file"
  exec 3<> "run/$file"
  expect 1 timeout 60 "$MDL" train "$SMALL" --steps 3 --resume --out run
  mentions err "run/$file"
  exec 3>&-
  rm "run/$file"
  mv kept "run/$file"
done
# A host may have any name: events are named by it.
if unshare -u sh -c 'printf %s "a/../b" > /proc/sys/kernel/hostname' 2> /dev/null; then
  # shellcheck disable=SC2016
  expect 0 unshare -u sh -c 'printf %s "a/../b" > /proc/sys/kernel/hostname && exec "$@"' sh \
    "$MDL" train "$SMALL" --steps 1 --out hosted
  ls hosted/events.out.tfevents.*.a_.._b.* > /dev/null || die "no events: $(ls hosted)"
fi

# What cannot be looked at, here a link in a circle, is neither absent nor damaged.
mkdir circle
for file in manifest.json plan.mdlx config.json adapter_config.json; do
  ln -s $file circle/$file
done
for command in inspect verify eval "generate --prompt A" "convert --to hf -o made" "convert -o made" "train --resume"; do
  # shellcheck disable=SC2086
  said 1 "cannot read circle/" "$MDL" $command circle
done
said 1 "cannot read circle/config.json: Too many levels" "$MDL" train "$SMALL" --from circle --out made
said 2 "cannot read circle/manifest.json" "$MDL" diff circle run
said 2 "cannot read circle/plan.mdlx" "$MDL" diff circle/plan.mdlx run
[ ! -e made ] || die "what cannot be looked at was made something of"
train "$ROOT/examples/layouts.mdl" --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out two
rm two/resolved.mdl
mkfifo two/resolved.mdl
said 1 "two/resolved.mdl" "$MDL" eval two
mkfifo data
said 1 "the data file data is not a regular file" "$MDL" train "$SMALL" --data data --out never

# What a manifest says is what was saved; and a checkpoint is of the step that its name says.
cp -r run changed
sed -i 's/"step": 2/"step": 1/' changed/checkpoints/step-00000002/manifest.json
for command in "eval changed" "inspect changed/checkpoints/step-00000002" "verify changed"; do
  expect 1 "$MDL" $command
  cat out err > said
  mentions said "manifest.json was changed: its hash does not fit what it says"
done
train changed --resume --steps 3
mentions out "manifest.json was changed: its hash does not fit what it says" "training goes on from step 1"
cp -r run renamed
cp -r renamed/checkpoints/step-00000002 renamed/checkpoints/step-00000009
said 1 "step-00000009 is damaged: manifest.json is of step 2" "$MDL" eval renamed
train renamed --resume --steps 3
mentions out "step-00000009 is damaged: manifest.json is of step 2" "damaged-00000009" "training goes on from step 2"
[ -f "$STEP/manifest.json" ] || die "the run itself was touched"

# Variables say what they mean, or the command does not run.
cp "$ROOT/examples/layouts.mdl" ranks.mdl
for order in abc 1x 0x10 -1 +1 " 1" 18446744073709551616; do
  MDL_ORDER=$order said 2 "MDL_ORDER is '$order'" "$MDL" train ranks.mdl --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out never
done
for fault in die:+1:1 "die: 1:1" die:1:0 die:1 die:1:1: dies:1:1 :1:1 die:1:9223372036854775808 die:18446744073709551617:1 \
  die:0x1:1 hang:-1:1; do
  MDL_FAULT=$fault said 2 "MDL_FAULT is '$fault'; it says die, hang, skip or flip" \
    "$MDL" train ranks.mdl --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out never
done
MDL_FAULT=die:2:1 said 2 "there are the ranks 0 to 1 alone" \
  "$MDL" train ranks.mdl --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out never
MDL_FAULT=die:0:1 said 2 "one rank meets no others" "$MDL" train "$SMALL" --steps 1 --out never
[ ! -e never ] || die "a wrong variable made a directory"
MDL_ORDER=17 train ranks.mdl --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out ordered
MDL_FAULT=die:1:1 expect 5 "$MDL" train ranks.mdl --data "$ROOT/LICENSE" --layout tp2 --steps 1 --out died

# Rows that are finished are on the disk when an ablation is killed, as they would have been.
expect 0 "$MDL" ablate small.mdl batch=2,4 --data "$ROOT/LICENSE" --steps 2 --out table
"$MDL" ablate small.mdl batch=2,4,8,16,32,64 --data "$ROOT/LICENSE" --steps 400 --out killed > log 2>&1 &
pid=$!
wait_for 60 test -s killed/ablate.jsonl
kill -KILL $pid
wait $pid || true
[ ! -e killed/ablate.svg ] || die "the ablation had ended before it was killed"
rows=$(wc -l < killed/ablate.jsonl)
{ [ "$rows" -ge 1 ] && [ "$rows" -lt 6 ]; } || die "$rows rows of a killed ablation"
same "rows" "$(sed 's/^{"row":\([0-9]*\),.*"state":"done".*}$/\1/' killed/ablate.jsonl | xargs)" "$(seq "$rows" | xargs)"
fields() {
  grep -o '"[a-z_]*":' "$1/ablate.jsonl" | LC_ALL=C sort -u
}
same "fields of a row" "$(fields killed)" "$(fields table)"
