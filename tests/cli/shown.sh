#!/bin/bash
# shown.sh: outputs of a text reach the log, metrics, events and evaluations, and so do all metrics the events.
. "${ROOT:?}/tests/cli/lib.sh"
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e 's/^  axis key like seq;/&\n  axis one = 1;/' -e 's/^  loss = .*/&\
  (_, best) = top(logits over vocab to one);\
  output acc = mean(where(max(where(best == targets, 1, 0) over one) > 0, 1, 0));\
  output nats = mean(cross_entropy(logits, targets over vocab));\
  output tokens = 2 * nats;\
  output val_nats = 3 * nats;\
  output rest = (1 + (-7.5) % 2) * nats;\
  output place = mean(cross_entropy(logits, targets over vocab) over batch);\
  output every = logits;/' "$SMALL" > shown.mdl
echo 'layout eight { mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; heads, ffn, vocab -> tp; microbatches = 2; }' >> shown.mdl
train shown.mdl --steps 20 --eval-every 10 --log-every 5 --out run
mentions out "  acc 0." "  val_nats " "  place "
mentions err "warning[E056]: the output 'every' of 32768 numbers is shown nowhere"

# value RUN KEY: of the last line
value() {
  tail -n 1 "$1/metrics.jsonl" | sed -n "s/.*\"$2\":\([-+0-9.e]*\)[,}].*/\1/p"
}

# near NAME A B TIMES: A is B so many times, within a thousandth
near() {
  awk -v a="$2" -v b="$3" -v n="$4" 'BEGIN { b *= n; exit !(a != "" && b > 0 && a - b <= 1e-3 * b && b - a <= 1e-3 * b) }' ||
    die "$1: $2 is not $4 times $3"
}
near "the loss" "$(value run nats)" "$(value run loss)" 1
near "an output called as a key is" "$(value run output.tokens)" "$(value run loss)" 2
near "one called as those of evaluations" "$(value run output.val_nats)" "$(value run loss)" 3
near "a rest of numbers that are not whole" "$(value run rest)" "$(value run loss)" 1.5
near "the loss of validation" "$(value run val_nats)" "$(value run val_loss)" 1
near "an output of validation" "$(value run val_val_nats)" "$(value run val_loss)" 3
same "the tokens of the run" "$(value run tokens)" $((20 * 4 * 32))
same "outputs of many numbers" "$(grep -c every run/metrics.jsonl || true)" 0

# array RUN KEY: how many numbers it has in the last line, and their mean
array() {
  tail -n 1 "$1/metrics.jsonl" | sed -n "s/.*\"$2\":\[\([^]]*\)\].*/\1/p" | tr ',' '\n' | awk '{ sum += $1 } END { print NR, sum / NR }'
}
for key in place val_place; do
  same "numbers of $key" "$(array run $key | cut -d' ' -f1)" 32
done
near "the mean of a vector" "$(array run place | cut -d' ' -f2)" "$(value run loss)" 1
near "the mean of one of validation" "$(array run val_place | cut -d' ' -f2)" "$(value run val_loss)" 1
same "lines with an evaluation" "$(grep -c '"val_acc":' run/metrics.jsonl)" 2
awk -v x="$(value run val_acc)" 'BEGIN { exit !(x > 0.05 && x < 0.6) }' || die "an accuracy of $(value run val_acc)"

# mdl eval says what the run has logged.
expect 0 "$MDL" eval run
for key in acc nats val_nats; do
  near "$key of mdl eval" "$(awk -v key=$key '$1 == key { print $2 }' out)" "$(value run val_$key)" 1
done

near "the third number of a vector of mdl eval" "$(awk '$1 == "place.2" { print $2 }' out)" \
  "$(tail -n 1 run/metrics.jsonl | sed -n 's/.*"val_place":\[[^,]*,[^,]*,\([^,]*\),.*/\1/p')" 1

# A layout changes nothing of it.
train shown.mdl --layout eight --steps 20 --eval-every 10 --log-every 5 --out parts
for key in acc val_acc output.tokens val_tokens; do
  near "$key under a layout" "$(value parts $key)" "$(value run $key)" 1
done
near "a vector under a layout" "$(array parts place | cut -d' ' -f2)" "$(array run place | cut -d' ' -f2)" 1

# With microbatches an evaluation does without outputs that it cannot have, and has all others.
sed -e 's/^  output every .*/  output ppl = exp(nats);\
  output apart = mean(abs(nats - mean(cross_entropy(logits, targets over vocab) over seq)) over batch);\
  output most = max(x);/' shown.mdl > late.mdl
echo 'layout two { microbatches = 2; }' >> late.mdl
train late.mdl --layout two --steps 2 --eval-every 1 --out late
mentions err "the output 'ppl' is left out of evaluations" "the output 'apart' is shown nowhere under this layout" \
  "the output 'most' is shown nowhere under this layout"
near "an output of sums in a step" "$(value late ppl)" "$(awk -v x="$(value late nats)" 'BEGIN { print exp(x) }')" 1
near "another one of the evaluation" "$(value late val_nats)" "$(value late val_loss)" 1
for key in val_ppl val_apart val_most apart most; do
  same "$key with microbatches" "$(value late $key)" ""
done
train late.mdl --steps 2 --eval-every 1 --out whole
for key in val_ppl val_apart val_most; do
  same "$key without microbatches" "$(test -n "$(value whole $key)" && echo there)" there
done

# Logits that are large are never whole while training: what is made of them is in evaluations alone.
"$MDLC" print shown.mdl --after elaborate > graph
mentions graph 'output "acc"' 'output "loss"'
sed 's/axis vocab = 256/axis vocab = 60000/; s/batch = 4/batch = 256/' shown.mdl > large.mdl
"$MDLC" print large.mdl --after elaborate > graph
mentions graph 'output "loss"'
! grep -q 'output "acc"' graph || die "large logits are read by outputs of a training step"

# Sums of infinities are infinite, and what is no number has no sign, nor a loss of none another unit.
sed -e "s,../../LICENSE,$ROOT/LICENSE," -e 's/^  loss = .*/&\
  each = cross_entropy(logits, targets over vocab);\
  output large = mean(exp(each * 50));\
  output least = max(sum(0 - exp(each * 50) over seq) over batch);\
  output none = mean(exp(each * 50)) - mean(exp(each * 50));/' "$SMALL" > odd.mdl
train odd.mdl --steps 2 --out odd
grep -q '^step 1/.*  large inf  least -inf  none nan' out || { cat out >&2; die "outputs that are not finite"; }
expect 0 "$MDL" eval odd --device cpu
grep -q '^none  *nan$' out || die "a sign of what is no number"
sed 's/^  loss = mean(\(.*\));/  loss = mean(\1) * mean(log(0 - exp(\1)));/' odd.mdl > lost.mdl
expect 4 "$MDL" train lost.mdl --steps 2 --out lost --device cpu
expect 0 "$MDL" eval lost --device cpu
grep -q '^loss  *nan, without a unit' out || { cat out >&2; die "a loss that is no number"; }

# Every number of metrics is in the events, under the same name; files are in the directories of their runs.
command -v python3 > /dev/null || exit 0
python3 "$ROOT/tests/cli/events.py" {run,parts}/events.out.tfevents.* > events
for run in run parts; do
  tail -n 1 $run/metrics.jsonl | python3 -c '
import json, sys
for key, value in json.load(sys.stdin).items():
    for i, one in enumerate(value if isinstance(value, list) else [value]):
        if one is not None and key != "step" and not isinstance(one, str):
            print(f"{key}.{i}" if isinstance(value, list) else key)' | LC_ALL=C sort > keys
  awk -v run=$run '$1 == run && $3 == 20 { print $2 }' events | LC_ALL=C sort > tags
  same "tags of $run" "$(cat keys)" "$(cat tags)"
done
near "the accuracy in the events" "$(awk '$1 == "run" && $2 == "acc" && $3 == 20 { print $4 }' events)" "$(value run acc)" 1
near "the validation in the events" "$(awk '$1 == "run" && $2 == "val_loss" && $3 == 10 { print $4 }' events)" \
  "$(sed -n 's/.*"step":10,.*"val_loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl)" 1
