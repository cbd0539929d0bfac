"""kills.py: a run is killed again and again, half the time inside a save, and ends with the bits of one that never was.

  kills.py COUNT DIR [WAY...]   COUNT kills in all, in an empty directory; ways: threads processes, background sync

Ranks are threads of `mdl`, or processes of tests/kill_ranks. A kill counts as one inside a save where an unfinished
directory was left. After each: every committed checkpoint is whole (mdl verify), none is gone that was there before,
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

from crash import BUILD, MDL, ROOT, execute, losses, steps, text, wants, weights

STEPS, PATIENCE = 60, 120.0  # seconds


def unfinished(run):
    """A save is under way, or was when the run was killed."""
    try:
        return any(name.startswith("saving-") and not name.startswith("saving-old") for name in os.listdir(run / "checkpoints"))
    except FileNotFoundError:
        return False


def command(ranks, sync, run, resume):
    if ranks == "threads":
        words = [MDL, "train", "model.mdl", "--layout", "dp2", "--steps", STEPS, "--save-every", 1, "--out", run]
    else:
        words = [BUILD / "tests/kill_ranks", "LICENSE", STEPS, run]
    return [str(word) for word in words] + ["--resume"] * resume + ["--sync-save"] * sync


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

    def __init__(self, ranks, sync, run, draw):
        self.ranks, self.sync, self.run, self.draw = ranks, sync, run, draw
        self.kills = self.inside = 0

    def moment(self, process, inside, begun):
        """Returns when it is time to kill, or the process has ended."""
        saves, until = self.draw.randrange(3), time.monotonic() + self.draw.random() * 0.4
        while process.poll() is None:
            now = time.monotonic()
            wants(now - begun < PATIENCE, f"{self.run} hangs")
            if inside and len(set(steps(self.run)) - self.before) >= saves and unfinished(self.run):
                time.sleep(self.draw.choice((0, 0, 0.0005, 0.002)))
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
            process = subprocess.Popen(command(self.ranks, self.sync, self.run, resume), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
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
        self.inside += killed and unfinished(self.run)
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


def soak(count, directory, words, seed):
    draw, sums = random.Random(seed), collections.Counter()
    os.chdir(directory)
    text("model.mdl")
    shutil.copy(ROOT / "LICENSE", "LICENSE")
    ways = [(r, s) for r, s in itertools.product(("threads", "processes"), ("background", "sync"))
            if not words or (r in words or not {"threads", "processes"} & set(words)) and (s in words or not {"background", "sync"} & set(words))]
    print(f"seed {seed}: {count} kills, {', '.join(' '.join(way) for way in ways)}", flush=True)
    began = time.monotonic()
    for number, (ranks, saves) in enumerate(ways):
        sync, wanted = saves == "sync", count // len(ways) + (number < count % len(ways))
        whole = pathlib.Path(f"whole-{ranks}")
        if not whole.exists():
            status, said = execute(command(ranks, False, whole, False))
            wants(status == 0, "the run that is not killed failed", said)
        kills = inside = lives = 0
        while kills < wanted or 2 * inside < wanted:
            run, lives = pathlib.Path(f"{ranks}-{saves}-{lives}"), lives + 1
            life = Life(ranks, sync, run, draw)
            while life.die(2 * (inside + life.inside) <= kills + life.kills):
                pass
            life.same(whole)
            kills, inside = kills + life.kills, inside + life.inside
            shutil.rmtree(run)
            os.remove(f"{run}.log")
            print(f"{ranks} {saves}: {kills} kills, {inside} inside a save, {lives} runs ended as one that was not killed", flush=True)
        sums.update(kills=kills, inside=inside, runs=lives)
    print(f"kills.py: {sums['kills']} kills, {sums['inside']} of them inside a save; {sums['runs']} runs, each with the bits of one that was "
          f"never killed; every checkpoint whole after every kill; {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    soak(int(sys.argv[1]), sys.argv[2], sys.argv[3:], int(os.environ.get("SEED", random.SystemRandom().randrange(10**6))))
