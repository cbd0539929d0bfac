"""faults.py: each call of a kind fails, once and from then on, and so does each allocation; nothing is lost by it.

  faults.py DIR [STRIDE [WHAT...]]   every STRIDE-th call (1), in an empty directory; WHAT: of the kinds below, and memory,
                                     of which a twentieth is tried (soak.py: all)

A run begins, or is gone on with, while strace makes the n-th call fail (of each thread, as strace counts) or
tests/crash/fail.c the n-th allocation. It ends by itself, not by a signal, and where it fails it says why; memory that is
missing is status 3 and is never called damage. Checkpoints that were there are there and whole, and what is gone on with
afterwards, without faults, comes to the bits of the run that had none.
"""

import collections
import os
import pathlib
import re
import shutil
import signal
import sys
import time

from crash import MDL, Try, attempt, execute, losses, preloaded, place, steps, text, wants, weights

KINDS = {  # calls, and the error that each gives
    "open": ("open,openat", "EMFILE"), "read": ("read,pread64", "EIO"), "write": ("write,pwrite64", "ENOSPC"),
    "fsync": ("fsync,fdatasync", "EIO"), "rename": ("rename,renameat,renameat2", "EIO"),
    "stat": ("stat,lstat,fstat,newfstatat,statx,statfs,fstatfs", "EIO"), "readdir": ("getdents64", "EIO"),
    "mkdir": ("mkdir,mkdirat", "ENOSPC"), "unlink": ("unlink,unlinkat,rmdir", "EIO"), "close": ("close", "EIO"),
    "thread": ("clone,clone3", "EAGAIN"), "mapping": ("mmap,mremap", "ENOMEM"), "protect": ("mprotect", "ENOMEM")}
MISSING = ("memory", "mapping", "protect")  # kinds that are memory
RUN, FIRST, LAST = "run", 2, 4
LIMIT = 120  # seconds


class Case:
    """A command that is given faults, in a directory as it was prepared."""

    def __init__(self, work, name, words, before):
        self.work, self.name, self.words, self.before = work, name, words, before

    def prepare(self, root):
        if self.before:
            shutil.copytree(self.before, root / RUN)

    def command(self, kind, number, always, log):
        """With a fault; number 0: with none, and calls are counted in `log`."""
        plain = [MDL] + self.words
        if kind == "memory":
            return ["env", f"LD_PRELOAD={preloaded()}", f"FAIL_COUNT={log}"] + [f"FAIL_ALLOCATION={number}"] * bool(number) + \
                ["FAIL_ALWAYS=1"] * always + plain
        calls, error = KINDS[kind]
        known = ",".join("?" + call for call in calls.split(","))
        fault = ["-e", f"inject={known}:error={error}:when={number}{'+' * always}"] if number else []
        return ["strace", "-f", "-qq", "-o", log, "-e", f"trace={known}", "-e", "signal=none"] + fault + plain

    def ends_the_loader(self, kind, number, always, log):
        """Whether the loader of programs ends by a signal itself, whatever program it was to begin."""
        other = Case(self.work, self.name, [], None).command(kind, number, always, log)[:-1] + ["true"]
        return execute(other)[0] == -signal.SIGSEGV

    def count(self, kind):
        """The most calls of that kind that any thread makes."""
        root, log = self.work / f"count-{kind}-{self.name}", self.work / "count"
        root.mkdir()
        self.prepare(root)
        status, said = execute(self.command(kind, 0, False, log), cwd=root, timeout=LIMIT)
        wants(status == 0, f"{self.name}: without faults: status {status}", said)
        if kind == "memory":
            return int(log.read_text())
        by = collections.Counter(line.split()[0] for line in log.read_text().splitlines() if "resumed>" not in line)
        return max(by.values(), default=0)

    def one(self, root, kind, number, always, whole):
        self.prepare(root)
        status, said = execute(["timeout", "-k", "5", LIMIT] + self.command(kind, number, always, root / "log"), cwd=root)
        came = collections.Counter({f"status {status}": 1})
        if status == 127 and re.search("shared librar|cannot |dynamic", said):
            return came  # the program was never begun
        if status == -signal.SIGSEGV and kind == "mapping" and number == 1 and self.ends_the_loader(kind, number, always, root / "log"):
            return came + collections.Counter({"the loader ends every program": 1})
        if "Operating system error: Cannot allocate memory" in said:
            return came + collections.Counter({"libgfortran says it": 1})  # and ends the program with status 1 while OpenBLAS is opened
        wants(status in (0, 1, 3), f"status {status}", said)
        mute = kind == "write"  # what is said is written too
        wants(status == 0 or mute or re.search(r"\w+ \w+", said), "nothing was said")
        if kind in MISSING:
            wants("damaged" not in said, "missing memory is called damage", said)
            wants(status != 1, "missing memory is not status 3", said)
        run = root / RUN
        there = steps(run)
        wants(not self.before or (there and there[-1] >= FIRST), f"the checkpoint of step {FIRST} is gone", said)
        if there:
            verified, why = execute([MDL, "verify", RUN], cwd=root)
            wants(verified == 0, "a checkpoint is not whole", why)
        if status != 0 or not there or there[-1] != LAST:
            begins = not (run / "checkpoints").is_dir()
            if begins:
                shutil.rmtree(run, ignore_errors=True)
            again, why = execute([MDL] + [word for word in self.words if word != "--resume"] + ["--resume"] * (not begins), cwd=root)
            wants(again == 0 or not there, "it is not gone on with afterwards", f"{said}\n{why}")
            if again != 0:
                return came  # nothing was saved yet, and it says what is missing
        wants(weights(run, LAST) == whole[0], "other bits", said)
        return came


def prepared(work):
    """The two commands that are given faults, and what the run without faults comes to."""
    text(work / "model.mdl", tiny=True)
    train = ["train", str(work / "model.mdl"), "--out", RUN, "--threads", "2", "--save-every", "1", "--steps"]
    for name, last in (("whole", LAST), ("begun", FIRST)):
        (work / name).mkdir()
        status, said = execute([MDL] + train + [str(last)], cwd=work / name)
        wants(status == 0, "the run without faults failed", said)
    whole = (weights(work / "whole" / RUN, LAST), losses(work / "whole" / RUN))
    return [Case(work, "fresh", train + [str(LAST)], None), Case(work, "resumed", train + [str(LAST), "--resume"], work / "begun" / RUN)], whole


def tries(work, kinds, stride, memory_stride):
    """One for each fault; also says how many calls of each kind there are."""
    (cases, whole), found = prepared(work), []
    for kind in kinds:
        for case in cases:
            count, step = case.count(kind), memory_stride if kind == "memory" else stride
            print(f"{kind}, {case.name}: {count} calls", flush=True)
            for number in range(1 + count % step, count + 1, step):
                for always in (False, True):
                    found.append(Try(kind, f"{case.name}: {kind} {number}{' and all after it' * always}", case.one, (kind, number, always, whole)))
    return found


def main(work, stride, chosen):
    began = time.monotonic()
    table = attempt(tries(work, chosen or [*KINDS, "memory"], stride, 20 * stride), work, int(os.environ.get("JOBS", "1")))
    for kind, row in table.items():
        print(f"{kind}: {', '.join(f'{name} {count}' for name, count in sorted(row.items()))}", flush=True)
    print(f"faults.py: {sum(row['tried'] for row in table.values())} faults; nothing was lost; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(place(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:])
