"""kills.py: a run is killed again and again, half the time inside a save, and ends with the bits of one that never was.

  kills.py COUNT DIR [WAY...]   COUNT kills in all, in an empty directory; ways: threads processes, background sync slow

Ranks are threads of `mdl`, or processes of tests/kill_ranks. Slow: beside training, and each write into a checkpoint takes a
few milliseconds (tests/crash/fail.c), so that training is steps further when it is killed. A kill counts as one inside a save
where an unfinished directory was left, and as one behind a copy where metrics know of steps after that of the directory.
After each: every committed checkpoint is whole (mdl verify), none is gone that was there before,
and no process of a rank is left. When a run has come to its end, its tensors and losses are those of the run that was
never killed, and the next one begins.
"""

import collections
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from crash import BUILD, MDL, ROOT, Try, attempt, execute, losses, preloaded, place, steps, text, wants, weights

STEPS, PATIENCE, CHAIN = 60, 120.0, 25  # steps of a run, seconds, kills of a try
SLOW = 4000  # microseconds


def unfinished(run):
    """A save is under way, or was when the run was killed."""
    try:
        return any(name.startswith("saving-") and not name.startswith("saving-old") for name in os.listdir(run / "checkpoints"))
    except FileNotFoundError:
        return False


def behind(run):
    """Training was further than the save that is not finished."""
    saving = [int(name.split("-")[1]) for name in os.listdir(run / "checkpoints") if re.match(r"saving-\d", name)]
    return bool(saving) and any(int(step) > max(saving) for step, _ in losses(run))


def command(model, ranks, saves, run, resume):
    if ranks == "threads":
        words = [MDL, "train", model, "--layout", "dp2", "--threads", 2, "--steps", STEPS, "--save-every", 4 if saves == "slow" else 1, "--out", run]
    else:
        words = [BUILD / "tests/kill_ranks", ROOT / "LICENSE", STEPS, run]
    return [str(word) for word in words] + ["--resume"] * resume + ["--sync-save"] * (saves == "sync")


def children(pid):
    """The processes of ranks."""
    try:
        tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
        return [int(word) for task in tasks for word in task.read_text().split()]
    except OSError:
        return []


def ends(pids):
    """All are gone, or are no more than entries that wait for somebody to take notice, within ten seconds."""
    for _ in range(500):
        alive = []
        for pid in pids:
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    alive.append(pid)
            except OSError:
                pass
        if not alive:
            return True
        time.sleep(0.02)
    return False


class Life:
    """One run, from its first step to its last, through all its deaths."""

    def __init__(self, model, ranks, saves, run, draw):
        self.model, self.ranks, self.saves, self.run, self.draw = model, ranks, saves, run, draw
        self.kills = self.inside = self.behind = 0
        self.environment = dict(os.environ)
        if saves == "slow":
            self.environment.update(LD_PRELOAD=preloaded(), FAIL_SLOW=str(SLOW))

    def moment(self, process, inside, begun):
        """Returns when it is time to kill, or the process has ended."""
        saves, until = self.draw.randrange(3), time.monotonic() + self.draw.random() * 0.4
        while process.poll() is None:
            now = time.monotonic()
            wants(now - begun < PATIENCE, f"{self.run} hangs")
            if inside and len(set(steps(self.run)) - self.before) >= saves and unfinished(self.run):
                time.sleep(self.draw.choice((0, 0, 0.0005, 0.002)) if self.saves != "slow" else self.draw.random() * 0.05)
                return
            if not inside and now >= until:
                return
            time.sleep(0.0002)

    def die(self, inside):
        """One start and one death. False: it came to its end before."""
        resume = self.run.is_dir() and (self.run / "checkpoints").is_dir()
        if not resume:
            shutil.rmtree(self.run, ignore_errors=True)  # killed before there was a run: not a word was promised
        self.before = set(steps(self.run))
        with open(f"{self.run}.log", "ab") as log:
            process = subprocess.Popen(command(self.model, self.ranks, self.saves, self.run, resume), stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, env=self.environment)
            self.moment(process, inside, time.monotonic())
            ranks = children(process.pid)
            process.send_signal(signal.SIGKILL)
            status = process.wait()
        said = pathlib.Path(f"{self.run}.log").read_text(errors="replace")[-2000:]
        wants(status in (0, -signal.SIGKILL), f"{self.run}: status {status}", said)
        wants(ends(ranks), f"{self.run}: processes of ranks are left")
        self.whole()
        killed = status != 0
        self.kills += killed
        within = killed and unfinished(self.run)
        self.inside += within
        self.behind += within and behind(self.run)
        return killed

    def whole(self):
        """What is committed is whole, and the newest that was there is there."""
        there = steps(self.run)
        if self.before:
            wants(there and there[-1] >= max(self.before), f"{self.run}: step {max(self.before)} is gone, {there} are there")
        if there:
            status, said = execute([MDL, "verify", self.run])
            wants(status == 0, f"{self.run}: a committed checkpoint is damaged", said)

    def same(self, whole):
        wants(weights(self.run, STEPS) == weights(whole, STEPS), f"{self.run}: other bits than {whole}")
        wants(losses(self.run) == losses(whole), f"{self.run}: other losses than {whole}")
        log = (self.run / "log.txt").read_text()
        wants("damaged" not in log and not re.search(r"^note .*not the", log, re.MULTILINE), f"{self.run}: its log speaks of damage", log)


def chain(place, model, ranks, saves, wanted, whole, seed):
    """Runs, each to its end, until there are so many kills."""
    draw, sums, run = random.Random(seed), collections.Counter(), place / "run"
    while sums["kills"] < wanted or 2 * sums["inside"] < wanted:
        life = Life(model, ranks, saves, run, draw)
        while life.die(2 * (sums["inside"] + life.inside) <= sums["kills"] + life.kills):
            pass
        life.same(whole)
        sums.update(kills=life.kills, inside=life.inside, behind=life.behind, runs=1)
        shutil.rmtree(run)
        os.remove(f"{run}.log")
    return sums


def tries(work, count, words, seed):
    """COUNT kills in chains, of all ways in turn."""
    model, draw = work / "model.mdl", random.Random(seed)
    text(model)
    ways = [(r, s) for r, s in itertools.product(("threads", "processes"), ("background", "sync", "slow"))
            if not words or (r in words or not {"threads", "processes"} & set(words)) and (s in words or not {"background", "sync", "slow"} & set(words))]
    for ranks in dict.fromkeys(way[0] for way in ways):
        status, said = execute(command(model, ranks, "background", work / f"whole-{ranks}", False))
        wants(status == 0, "the run that is not killed failed", said)
    found = []
    for number, (ranks, saves) in enumerate(ways):
        left = count // len(ways) + (number < count % len(ways))
        while left > 0:
            wanted, own = min(left, CHAIN), draw.randrange(10**6)
            found.append(Try("kills", f"{ranks} {saves}, seed {own}", chain, (model, ranks, saves, wanted, work / f"whole-{ranks}", own)))
            left -= wanted
    draw.shuffle(found)
    return found


def main(count, work, words, seed):
    began = time.monotonic()
    print(f"seed {seed}: {count} kills", flush=True)
    sums = attempt(tries(work, count, words, seed), work, int(os.environ.get("JOBS", "1")))["kills"]
    print(f"kills.py: {sums['kills']} kills, {sums['inside']} of them inside a save, {sums['behind']} when training was further than it; "
          f"{sums['runs']} runs, each with the bits of one that was "
          f"never killed; every checkpoint whole after every kill; {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), place(sys.argv[2]), sys.argv[3:], int(os.environ.get("SEED", random.SystemRandom().randrange(10**6))))
