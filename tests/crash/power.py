"""power.py: the power is lost at each moment of a run, and what is left is looked at, and gone on with.

  power.py DIR [RESUMED]   in an empty directory; RESUMED: how many of the states are gone on with by `mdl train --resume`
                           (all: every one that differs; default: 6 of each run;
                           with less than 3 the run with --sync-save is left out)

strace records what a run does to its directory. Between any two events of the record, record.py makes the states that a
power loss may leave, and each must keep what docs/reliability.md promises: a checkpoint that the log calls saved is there
to the byte, no checkpoint is a mixture, files that are replaced are whole, lines of metrics up to the checkpoint are there.
Then each fsync of the record is left out in turn: one that no state needs is an error, so that a program without it
would fail here.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import time

from crash import MDL, Try, attempt, execute, losses, place, steps, text, wants, weights
from record import Disk, Record, apply, moments, restore, tree

RUN = "runs/one"
REPLACED = ("plan.mdlx", "resolved.mdl", "loss.svg", "metrics.jsonl.damaged")
# Syncs that no state needs, and why they are there.
SPARE = {("resumed", RUN): "plan.mdlx is written as mdlc writes any file, name and all; this run had the name already"}
STEP = re.compile(r"^step-(\d{8,})$")


class Promise:
    """What must hold of a state, from what the run said and did."""

    def __init__(self, record):
        self.record, self.versions, self.said, self.gone, self.metrics, self.replaced = record, {}, {}, {}, {}, {}
        self.planned = None
        directories = {d: dict(names) for d, names in record.first[0].items()}
        files = dict(record.first[1])
        for path, data in tree(record, directories, files).items():
            found = STEP.match(path.rsplit("/", 1)[-1])
            if found and data is None:
                self.commit(int(found[1]), directories, files, self.inode(path, directories))
                self.said[int(found[1])] = 0
            if path == f"{RUN}/plan.mdlx":
                self.planned = 0
            self.remember(path.rsplit("/", 1)[-1], data)
        for number, operation in enumerate(record.operations):
            if operation.changes:
                self.names(number, operation.changes, directories)
            apply(directories, files, operation)
            self.contents(number, operation, directories, files)

    def inode(self, path, directories):
        at = 0
        for part in path.split("/"):
            at = directories[at][part]
        return at

    def remember(self, name, data):
        if name in REPLACED and data is not None:
            self.replaced.setdefault(name, []).append(data)

    def commit(self, step, directories, files, inode):
        found = {name: files[child] for name, child in directories[inode].items()}
        self.versions.setdefault(step, []).append(found)
        length = json.loads(found["manifest.json"])["metrics_bytes"]
        here = self.inode(RUN, directories)
        self.metrics[step] = files[directories[here]["metrics.jsonl"]][:length]
        wants(len(self.metrics[step]) == length, f"step {step} knows more metrics than there are")

    def names(self, number, changes, directories):
        for folder, name, inode in changes:
            found = STEP.match(name)
            if found and inode is None:
                self.gone.setdefault(int(found[1]), number)

    def contents(self, number, operation, directories, files):
        if operation.changes:
            for folder, name, inode in operation.changes:
                found = STEP.match(name)
                if found and inode is not None:
                    self.commit(int(found[1]), directories, files, inode)
                    self.gone.pop(int(found[1]), None)
                if inode is not None:
                    self.remember(name, files.get(inode))
                self.planned = number if name == "plan.mdlx" and self.planned is None else self.planned
        elif operation.data:
            for step in re.findall(rb"saved\S* \S*/step-(\d{8,})", operation.data):
                self.said.setdefault(int(step), number + 1)

    def broken(self, found, moment):
        """What of it does not hold in a state, or None."""
        there = {}
        for path, data in found.items():
            folder, _, name = path.rpartition("/")
            parent, _, last = folder.rpartition("/")
            if parent == f"{RUN}/checkpoints" and STEP.match(last):
                there.setdefault(int(last[5:]), {})[name] = data
            elif folder == f"{RUN}/checkpoints" and STEP.match(name):
                there.setdefault(int(name[5:]), {})
            elif folder == RUN and name in REPLACED and data not in self.replaced.get(name, ()):
                return f"{name} is neither what it was nor what it is to be"
        for step, files in there.items():
            if files not in self.versions.get(step, ()):
                return f"step {step} is not what was saved"
        newest = -1
        for step, at in self.said.items():
            if at <= moment[0]:
                newest = max(newest, step)
                if step not in there and not self.gone.get(step, moment[0]) < moment[0]:
                    return f"step {step} was saved and is gone"
        if newest > max(there, default=-1):
            return f"neither step {newest}, which was saved, nor a later one is there"
        if newest >= 0:
            lines = found.get(f"{RUN}/metrics.jsonl") or b""
            if not lines.startswith(self.metrics[newest]):
                return f"lines of metrics up to step {newest} are lost"
            if f"{RUN}/plan.mdlx" not in found:
                return "the plan is gone"
        return None


def recorded(work, name, words, before=None):
    """Runs `mdl` in a directory that holds what `before` left."""
    root, log = pathlib.Path(work, name), pathlib.Path(work, f"{name}.strace")
    root.mkdir()
    if before:
        shutil.copytree(pathlib.Path(work, before, "runs"), root / "runs")
    record = Record(root)
    status, said = record.run([MDL] + words, log)
    wants(status == 0, f"{name}: status {status}", said)
    wants(record.syncs, f"{name}: nothing was flushed: was it recorded?")
    log.unlink()
    return record, Promise(record)


def every_state(record, promise, name):
    """Looks at all states; returns those that differ, with the newest step that was saved before, and where each comes from."""
    distinct, count = {}, 0
    for moment in moments(record):
        for which, directories, files in Disk(record, moment).states():
            found = tree(record, directories, files)
            count += 1
            broken = promise.broken(found, moment)
            wants(not broken, f"{name}: power lost behind operation {moment[0]} and sync {moment[1]} ({which}): {broken}")
            key = hashlib.sha256(repr(sorted((path, data and hash(data)) for path, data in found.items())).encode()).digest()
            saved = max((step for step, at in promise.said.items() if at <= moment[0]), default=0)
            distinct[key] = (found, max(saved, distinct.get(key, (None, 0))[1]), f"behind operation {moment[0]} and sync {moment[1]}: {which}")
    return list(distinct.values()), count


def needed(record, promise, sync):
    """Why this sync is needed: what a power loss would break without it; or None."""
    begin = record.syncs.index(sync) + 1
    for moment in moments(record):
        if moment[1] < begin:
            continue
        if any(other.inode == sync.inode and other.at >= sync.done for other in record.syncs[begin:moment[1]]):
            return None
        for _, directories, files in Disk(record, moment, sync).states():
            broken = promise.broken(tree(record, directories, files), moment)
            if broken:
                return broken
    return None


def every_sync(record, promise, name):
    spare = [sync for sync in record.syncs if not needed(record, promise, sync) and (name, sync.what) not in SPARE]
    for sync in spare:
        print(f"{name}: nothing needs the fsync of {sync.what} behind operation {sync.at}")
    return spare


def gone_on(root, found, saved, words, last, whole):
    """Resumes a state by the program itself; it must come to the bits of the run that lost nothing."""
    restore(found, root)
    if f"{RUN}/checkpoints" in found:
        status, said = execute([MDL, "verify", RUN], cwd=root)
        wants(status == 0 or saved == 0, "a checkpoint is damaged", said)
    status, said = execute([MDL] + words + ["--resume"], cwd=root)
    if saved == 0 and status == 1 and not steps(root / RUN):
        return {"nothing yet": 1}  # nothing was promised, and it says what is missing
    wants(status == 0, f"a run that had saved step {saved} is not gone on with", said)
    wants(weights(root / RUN, last) == whole[0], "it ends with other bits", said)
    wants([line for line in losses(root / RUN)] == whole[1], "it ends with other losses", said)
    return {"same bits": 1}


def tries(work, wanted):
    """Looks at every state and every sync of all runs; one for each state that is to be resumed."""
    text(pathlib.Path(work, "model.mdl"), tiny=True)
    train = ["train", str(pathlib.Path(work, "model.mdl").resolve()), "--out", RUN, "--threads", "1", "--save-every", "1"]
    cases = [("beside", train + ["--steps", "3", "--keep", "1"], None, 3),
             ("waiting", train + ["--steps", "3", "--keep", "1", "--sync-save"], None, 3),
             ("resumed", train + ["--steps", "5", "--keep", "1", "--resume"], "beside", 5)]
    if wanted is not None and wanted < 3:
        cases = [case for case in cases if case[0] != "waiting"]  # the same file operations as beside training
    found = []
    for name, words, before, last in cases:
        record, promise = recorded(work, name, words, before)
        run = pathlib.Path(work, name, RUN)
        wants(promise.said and max(promise.said) == last, f"{name}: the log does not say what was saved")
        whole = (weights(run, last), losses(run))
        states, count = every_state(record, promise, name)
        spare = every_sync(record, promise, name)
        wants(not spare, f"{name}: {len(spare)} of {len(record.syncs)} syncs could be left out and nobody would notice")
        again = [word for word in words if word != "--resume"]
        chosen = states if wanted is None or wanted >= len(states) else [states[i * len(states) // wanted] for i in range(wanted)]
        print(f"{name}: {len(record.operations)} operations, {len(record.syncs)} syncs, each needed{' but one' * (name == 'resumed')}; "
              f"{count} states keep what is promised, {len(states)} differ", flush=True)
        found += [Try("power", f"{name} {where}", gone_on, (state, saved, again, last, whole)) for state, saved, where in chosen]
    return found


def main(work, wanted):
    began = time.monotonic()
    row = attempt(tries(work, wanted), work, int(os.environ.get("JOBS", "1")))["power"]
    print(f"power.py: {row['tried']} states resumed, {row['same bits']} of them to the same bits, {row['nothing yet']} had saved nothing; "
          f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(place(sys.argv[1]), None if sys.argv[2:] == ["all"] else int(sys.argv[2]) if len(sys.argv) > 2 else 6)
