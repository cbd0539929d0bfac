#!/bin/bash
# profile.sh: mdl train --profile: a table, and a trace that is JSON with every instruction, its line and its time.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 6 --out run --profile 2
[ -s run/profile.txt ] || die "there is no profile.txt"
expect 2 "$MDL" train "$SMALL" --steps 6 --out long --profile 9223372036854775807
mentions err "profile is a whole number from 0 to"
grep -q 'instructions a step' run/profile.txt || die "the table has no last line"
train "$SMALL" --steps 6 --out plain
[ ! -e plain/profile.json ] || die "a run without --profile left a trace"
same "the losses" "$(losses run)" "$(losses plain)"

# The evaluation after the last step is no part of what was timed.
instructions() {
  sed -n 's/.*in all, \([0-9]*\) instructions a step.*/\1/p' "$1/profile.txt"
}
train "$SMALL" --steps 2 --out short --profile 2
same "instructions a step" "$(instructions run)" "$(instructions short)"
! grep -q exposed run/profile.txt || die "one rank communicates"

# Ranks of the CPU do one thing after the other: all communication is exposed.
expect 0 "$MDL" train "$ROOT/examples/layouts.mdl" --layout dp4 --data "$ROOT/LICENSE" --steps 6 --out ranks --profile 2
awk '/ms +[0-9.]+ ms .* dp$/ { found = $1 > 0 && $1 == $3 } END { exit !found }' ranks/profile.txt ||
  die "the table does not say what is exposed over dp: $(tail -n 4 ranks/profile.txt)"
command -v python3 > /dev/null || exit 0  # the rest reads JSON
python3 - << 'END' || die "profile.json is not the trace of two steps"
import json
events = json.load(open("run/profile.json"))["traceEvents"]
spans = [event for event in events if event["ph"] == "X"]
count = int(open("run/profile.txt").read().split("in all, ")[1].split()[0])
assert len(spans) == 2 * count, (len(spans), count)
assert all(span["dur"] >= 0 and span["ts"] >= 0 for span in spans)
assert any(".mdl:" in span["args"]["source"] for span in spans)
assert {"gemm", "kernel"} <= {span["cat"] for span in spans}
ranks = json.load(open("ranks/profile.json"))["traceEvents"]
told = json.load(open("ranks/profile.json"))["otherData"]["communication"]
assert sorted(told) == ["rank %d" % rank for rank in range(4)], told
assert all(list(rank) == ["dp"] and rank["dp"]["exposed"] == rank["dp"]["seconds"] > 0 for rank in told.values()), told
assert any(event["args"].get("over") == "dp" and event["args"]["sent"] > 0 for event in ranks if event["ph"] == "X")
END
# A place that is no UTF-8 stands in the trace all the same.
odd=$'d\xff'
mkdir "$odd"
cp "$ROOT/LICENSE" "$odd/licence.txt"
sed 's#"[^"]*LICENSE"#"licence.txt"#' "$SMALL" > "$odd/small.mdl"
train "$odd/small.mdl" --steps 6 --out odd --profile 2
events() { grep -c '"ph":"X"' "$1/profile.json"; }
same "events" "$(events run)" "$(events odd)"
