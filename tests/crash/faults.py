"""faults.py: each call of a kind fails, once and from then on, and so does each allocation; nothing is lost by it.

  faults.py DIR [STRIDE [WHAT...]]   every STRIDE-th call (1), in an empty directory; WHAT: of the kinds below, and memory

A run begins, or is gone on with, while strace makes the n-th call fail (of each thread, as strace counts) or
tests/crash/fail.c the n-th allocation. It ends by itself, not by a signal, and where it fails it says why; memory that is
missing is status 3 and is never called damage. Checkpoints that were there are there and whole, and what is gone on with
afterwards, without faults, comes to the bits of the run that had none.
"""

import collections
import pathlib
import re
import shutil
import sys
import time

from crash import BUILD, MDL, execute, losses, steps, text, wants, weights

KINDS = {  # calls, and the error that each gives
    "open": ("openat", "EMFILE"), "read": ("read,pread64", "EIO"), "write": ("write,pwrite64", "ENOSPC"), "fsync": ("fsync", "EIO"),
    "rename": ("rename,renameat2", "EIO"), "stat": ("newfstatat,statx,statfs", "EIO"), "readdir": ("getdents64", "EIO"),
    "mkdir": ("mkdir", "ENOSPC"), "unlink": ("unlink,rmdir", "EIO"), "mapping": ("mmap", "ENOMEM")}
RUN, FIRST, LAST = "run", 2, 4
LIMIT = 120  # seconds


class Case:
    """A command that is given faults, in a directory as it was prepared."""

    def __init__(self, work, name, words, before):
        self.work, self.name, self.words, self.before = work, name, words, before
        self.root = work / name
        self.statuses = collections.Counter()

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        if self.before:
            shutil.copytree(self.before, self.root / RUN)

    def command(self, kind, number, always, log):
        """With a fault; number 0: with none, and calls are counted in `log`."""
        plain = [MDL] + self.words
        if kind == "memory":
            return ["env", f"LD_PRELOAD={BUILD / 'tests/libfail.so'}", f"FAIL_COUNT={log}"] + [f"FAIL_ALLOCATION={number}"] * bool(number) + \
                ["FAIL_ALWAYS=1"] * always + plain
        calls, error = KINDS[kind]
        known = ",".join("?" + call for call in calls.split(","))
        fault = ["-e", f"inject={known}:error={error}:when={number}{'+' * always}"] if number else []
        return ["strace", "-f", "-qq", "-o", log, "-e", f"trace={known}", "-e", "signal=none"] + fault + plain

    def count(self, kind):
        """The most calls of that kind that any thread makes."""
        self.prepare()
        log = self.work / "count"
        status, said = execute(self.command(kind, 0, False, log), cwd=self.root, timeout=LIMIT)
        wants(status == 0, f"{self.name}: without faults: status {status}", said)
        if kind == "memory":
            return int(log.read_text())
        by = collections.Counter(line.split()[0] for line in log.read_text().splitlines() if "resumed>" not in line)
        return max(by.values(), default=0)

    def one(self, kind, number, always, whole):
        self.prepare()
        what = f"{self.name}: {kind} {number}{' and all after it' * always}"
        status, said = execute(["timeout", "-k", "5", LIMIT] + self.command(kind, number, always, self.work / "log"), cwd=self.root)
        self.statuses[status] += 1
        if status == 127 and "shared librar" in said:
            return  # the program was never begun
        wants(status in (0, 1, 3), f"{what}: status {status}", said)
        mute = kind == "write"  # what is said is written too
        wants(status == 0 or mute or re.search(r"\w+ \w+", said), f"{what}: nothing was said")
        if kind in ("memory", "mapping"):
            wants("damaged" not in said, f"{what}: missing memory is called damage", said)
        run = self.root / RUN
        there = steps(run)
        wants(not self.before or (there and there[-1] >= FIRST), f"{what}: the checkpoint of step {FIRST} is gone", said)
        if there:
            verified, why = execute([MDL, "verify", RUN], cwd=self.root)
            wants(verified == 0, f"{what}: a checkpoint is not whole", why)
        if status != 0 or not there or there[-1] != LAST:
            begins = not (run / "checkpoints").is_dir()
            if begins:
                shutil.rmtree(run, ignore_errors=True)
            again, why = execute([MDL] + [word for word in self.words if word != "--resume"] + ["--resume"] * (not begins), cwd=self.root)
            wants(again == 0 or not there, f"{what}: it is not gone on with afterwards", why)
            if again != 0:
                return  # nothing was saved yet, and it says what is missing
        wants(weights(run, LAST) == whole[0], f"{what}: other bits", said)


def main(work, stride, chosen):
    began = time.monotonic()
    text(work / "model.mdl", tiny=True)
    train = ["train", str(work / "model.mdl"), "--out", RUN, "--threads", "2", "--save-every", "1", "--steps"]
    for name, last in (("whole", LAST), ("begun", FIRST)):
        (work / name).mkdir()
        status, said = execute([MDL] + train + [str(last)], cwd=work / name)
        wants(status == 0, "the run without faults failed", said)
    whole = (weights(work / "whole" / RUN, LAST), losses(work / "whole" / RUN))
    cases = [Case(work, "fresh", train + [str(LAST)], None), Case(work, "resumed", train + [str(LAST), "--resume"], work / "begun" / RUN)]
    tried = collections.Counter()
    for kind in chosen or [*KINDS, "memory"]:
        for case in cases:
            case.statuses.clear()
            count, step = case.count(kind), stride * (20 if kind == "memory" else 1)
            for number in range(1 + count % step, count + 1, step):
                for always in (False, True):
                    case.one(kind, number, always, whole)
                    tried[kind] += 1
            print(f"{kind}, {case.name}: {count} calls; statuses {dict(sorted(case.statuses.items()))}", flush=True)
    print(f"faults.py: {sum(tried.values())} faults ({', '.join(f'{kind} {n}' for kind, n in tried.items())}); nothing was lost; "
          f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:])
