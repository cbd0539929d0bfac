#!/bin/bash
# profile.sh: --profile on the GPU: a table, a trace with how each instruction was done, and the same losses.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
curve gpt2 gpu profiled --precision bf16 --layout strict --steps 8 --profile 3
curve gpt2 gpu plain --precision bf16 --layout strict --steps 8
same "the losses" "$(losses plain)" "$(losses profiled)"
[ ! -e plain/profile.json ] || die "a run without --profile left a trace"
grep -q 'instructions a step' profiled/profile.txt || die "the table has no last line"
mentions profiled/profile.txt "gemm" "attention_grad" ".mdl:"
[ "$DEVICE" = cpu ] || mentions profiled/log.txt "attention forward" "backward kernels of our own (cuDNN: not reproducible)"
head -n 12 profiled/profile.txt

# The last steps, and an evaluation after them: what was timed is the steps alone.
curve gpt2 gpu short --precision bf16 --layout strict --steps 2 --profile 2
count() {
  sed -n 's/.*in all, \([0-9]*\) instructions a step.*/\1/p' "$1/profile.txt"
}
same "instructions a step" "$(count profiled)" "$(count short)"

curve gpt2 gpu fast --precision bf16 --layout fast --steps 8 --profile 3
need_python json
python3 - profiled fast "$DEVICE" << 'END' || die "profile.json is not what was asked for"
import json, sys


def spans(run):
    return [event for event in json.load(open(f"{run}/profile.json"))["traceEvents"] if event["ph"] == "X"]


strict, fast = spans(sys.argv[1]), spans(sys.argv[2])
count = int(open(f"{sys.argv[1]}/profile.txt").read().split("in all, ")[1].split()[0])
assert len(strict) == len(fast) == 3 * count, (len(strict), len(fast), count)
assert all(span["dur"] >= 0 and span["ts"] >= 0 for span in strict + fast)
assert sum(span["dur"] for span in strict) > 0
assert {"gemm", "kernel", "attention", "attention_grad"} <= {span["cat"] for span in strict}
begins = [span["ts"] for span in strict]
assert begins == sorted(begins), "instructions of one stream are not in order"
for before, after in zip(strict, strict[1:]):
    assert after["ts"] >= before["ts"] + before["dur"] - 5, (before, after)
if sys.argv[3] != "cpu":
    assert all(span["args"].get("form") for span in strict), "not every instruction says how it was done"
    assert any("cuBLASLt" in span["args"]["form"] for span in strict)
# What `strict` replaces is the gradient of attention, and nothing else.
other = {a["cat"] for a, b in zip(strict, fast) if a["args"].get("form") != b["args"].get("form")}
print("strict does otherwise than fast:", ", ".join(sorted(other)) or "nothing")
assert other <= {"attention_grad"}, other
END
