"""soak.py: late copies under all options, faults, kills and power losses, all of them, on many cores; a line for each kind.

  soak.py SECONDS JOBS DIR [WHAT...]     in a directory that is made; WHAT: late faults kills power memory (all, in this order)

BUILD=DIR is where the programs are. KILLS=N (1000). PART=K/N: the K-th of N parts (from 1) of what is named, so that several
calls try all of it; FROM=N leaves out the first N tries of a part, which a call before had time for. What did not hold is in
DIR/failed, a file for each; what there was no time for is counted as left. Work is done in WORK (default: DIR/work), which a
directory in memory makes quicker. Where strace cannot record, what needs it (faults, power) is said and left out. Status 1 if
anything did not hold.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import faults
import kills
import late
import power
from crash import attempt, execute, shown

WHAT = ("late", "faults", "kills", "power", "memory")


def prepared(what, work, seed):
    """The tries of a kind, in an order in which those that there is time for are spread over all."""
    place = work / what
    place.mkdir(parents=True)
    if what == "late":
        found = late.tries(place, 1)
    elif what == "kills":
        found = kills.tries(place, int(os.environ.get("KILLS", "1000")), [], seed)
    elif what == "power":
        found = power.tries(place, None)
    else:
        found = faults.tries(place, list(faults.KINDS) if what == "faults" else ["memory"], 1, 1)
    random.Random(seed).shuffle(found)
    return found


def records():
    """strace is there, and may look at programs."""
    try:
        status, said = execute(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=?rmdir:error=EIO:when=1", "true"])
    except FileNotFoundError:
        status, said = 127, "strace is not there"
    return status == 0, said.strip()


def main(seconds, jobs, out, chosen):
    began = time.monotonic()
    until, seed = began + seconds, int(os.environ.get("SEED", "16"))
    part, parts = (int(word) for word in os.environ.get("PART", "1/1").split("/"))
    first = int(os.environ.get("FROM", "0"))
    logs, work = out / "failed", pathlib.Path(os.environ.get("WORK", out / "work"))
    logs.mkdir(parents=True)
    may, why = records()
    print(f"{os.cpu_count()} cores, {jobs} processes, {seconds} s, seed {seed}, part {part} of {parts}; "
          f"{'strace records here' if may else 'STRACE CANNOT RECORD HERE, faults and power are left out: ' + why}", flush=True)
    table = {}
    for what in chosen or WHAT:
        if what in ("faults", "power") and not may or time.monotonic() > until:
            print(f"{what}: not begun", flush=True)
            continue
        try:
            tries = prepared(what, work, seed)[part - 1::parts][first:]
        except (SystemExit, subprocess.SubprocessError) as broken:
            (logs / f"{what}-begin.txt").write_text(f"{broken}\n")
            print(f"FAILED {what}: it does not begin: {broken}", flush=True)
            table[f"{what}: begin"] = {"tried": 1, "held": 0, "failed": 1, "left": 0}
            continue
        print(f"{what}: {len(tries)} tries, from {time.monotonic() - began:.0f} s on", flush=True)
        table.update(attempt(tries, work, jobs, until, logs))
        (out / "table.txt").write_text(shown(table) + "\n")
        shutil.rmtree(work, ignore_errors=True)
    print(shown(table))
    print(f"soak.py: {time.monotonic() - began:.0f} s")
    return any(row["failed"] for row in table.values())


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4:]))
