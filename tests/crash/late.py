"""late.py: checkpoints that are written late, beside training, under all combinations of options: each holds the bits of one
that training waited for, and is gone on with to the same bits.

  late.py DIR [STRIDE]      every STRIDE-th combination (1), in an empty directory

A run with --sync-save, one that saves beside training, and one that does so while each write into a checkpoint takes some
milliseconds (tests/crash/fail.c): steps, tensors, manifests and metrics of all are compared. Then the last checkpoint of the
slow one is taken away and it is resumed. All layouts are `reproducible = strict`, so that bits are to be the same.
"""

import collections
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import time

from crash import MDL, Try, attempt, execute, losses, preloaded, place, steps, text, wants, weights

LAYOUTS = """
layout strict_one { reproducible = strict; }
layout strict_zero { mesh dp = 2; batch -> dp; param, grad, state -> dp; reproducible = strict; }
layout strict_stages { mesh pp = 2; layers -> pp; microbatches = 2; reproducible = strict; }
"""
STEPS, SLOW = 7, 3000  # microseconds
CHOICES = {
    "layout": [["--layout", name] for name in ("strict_one", "strict_zero", "strict_stages")],
    "precision": [["--precision", name] for name in ("fp32", "bf16")],  # bf16: copies of the weights, which no checkpoint holds
    "microbatches": [["--set", f"microbatches={count}"] for count in (1, 2)],
    "save-every": [["--save-every", str(count)] for count in (1, 2, 3)],
    "keep": [["--keep", "1"], ["--keep", "0"]],
    "keep-every": [[], ["--keep-every", "3"]],
    "keep-best": [[], ["--keep-best"]],
}


def manifests(run):
    """What manifests say, but for the length of metrics, which hold seconds, and their own hash."""
    found = {}
    for step in steps(run):
        text_of = (run / "checkpoints" / f"step-{step:08d}" / "manifest.json").read_text()
        found[step] = {key: value for key, value in json.loads(text_of).items() if key not in ("metrics_bytes", "manifest_xxh3_64")}
    return found


def train(place, name, words, *more, slow=False):
    environment = dict(os.environ)
    if slow:
        environment.update(LD_PRELOAD=preloaded(), FAIL_SLOW=str(SLOW))
    status, said = execute([MDL] + words + ["--out", place / name, *more], env=environment, cwd=place, timeout=120)
    wants(status == 0, f"{name}: status {status}", said)
    return said


def lateness(said):
    """Checkpoints that were called saved behind a later step's line."""
    step, late = 0, 0
    for line in said.splitlines():
        found = re.search(r"step (\d+)/|saved\S* \S*/step-(\d+)", line)
        if found and found[1]:
            step = int(found[1])
        elif found:
            late += int(found[2]) < step
    return late


def same(place, name, waited):
    run, other = place / name, place / waited
    wants(steps(run) == steps(other), f"{name}: steps {steps(run)} instead of {steps(other)}")
    for step in steps(run):
        wants(weights(run, step) == weights(other, step), f"{name}: step {step} has other bits")
    wants(losses(run) == losses(other), f"{name}: other losses")
    mine, its = manifests(run), manifests(other)
    for step, facts in mine.items():
        differ = [key for key in facts if facts[key] != its[step].get(key)]
        wants(not differ, f"{name}: the manifest of step {step} differs in {', '.join(differ)}")


def combination(place, model, words):
    words = ["train", str(model), "--threads", "2", "--steps", str(STEPS), "--eval-every", "2"] + words
    train(place, "waited", words, "--sync-save")
    train(place, "beside", words)
    came = collections.Counter(late=lateness(train(place, "slow", words, slow=True)))
    for name in ("beside", "slow"):
        same(place, name, "waited")
    status, said = execute([MDL, "verify", place / "slow"])
    wants(status == 0, "a checkpoint is damaged", said)
    if len(steps(place / "slow")) > 1:
        shutil.rmtree(place / "slow" / "checkpoints" / f"step-{STEPS:08d}")
        train(place, "slow", words, "--resume", slow=True)
        wants(weights(place / "slow", STEPS) == weights(place / "waited", STEPS), "resumed from a late checkpoint it has other bits")
        wants(losses(place / "slow") == losses(place / "waited"), "resumed from a late checkpoint it has other losses")
        came["resumed"] += 1
    return came


def tries(work, stride):
    model = work / "model.mdl"
    text(model, tiny=True)
    model.write_text(model.read_text().replace("batch = 2;", "batch = 4;") + LAYOUTS)
    found = []
    for chosen in list(itertools.product(*CHOICES.values()))[::stride]:
        words = [word for choice in chosen for word in choice]
        found.append(Try("late", " ".join(words), combination, (model, words)))
    return found


def main(work, stride):
    began = time.monotonic()
    row = attempt(tries(work, stride), work, int(os.environ.get("JOBS", "1")))["late"]
    wants(row["late"], "no checkpoint was late")
    print(f"late.py: {row['tried']} combinations, each with the bits of saves that training waited for; {row['late']} checkpoints were called "
          f"saved behind a later step; {row['resumed']} runs resumed from one; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(place(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
