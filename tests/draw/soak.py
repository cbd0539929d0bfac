"""soak.py: what soak.sh does."""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from draw import draw
from shrink import TESTS, shrink_layout, symptom

BATCH = 100  # programs
SUMS = re.compile(r"draw_run: (\d+) programs, (\d+) combinations as one rank, (\d+) failures; (\d+) of (\d+) layouts not legal \((.*?)\); "
                  r"(\d+) programs refused, (\d+) not finite or rounding alone")


class Soak:
    """The sums so far."""

    def __init__(self, directory, first):
        self.directory, self.seed, self.began = directory, first, time.monotonic()
        self.most, self.keep = int(os.environ.get("MOST", "12")), int(os.environ.get("KEEP", "40"))
        self.sums, self.codes = collections.Counter(), collections.Counter()
        self.symptoms = collections.Counter()

    def batch(self, count):
        """Draws and runs so many programs."""
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as work:
            for seed in range(self.seed, self.seed + count):
                (pathlib.Path(work) / f"l{seed}.mdl").write_text(draw(seed, self.most))
            self.seed += count
            said = subprocess.run([TESTS / "draw_run", work], capture_output=True, text=True, check=False, errors="replace")
            found = SUMS.search(said.stdout)
            if not found:
                sys.exit(f"soak.py: draw_run said\n{said.stdout[-2000:]}{said.stderr[-2000:]}")
            for name, number in zip(("programs", "combinations", "failures", "illegal", "layouts"), found.groups()):
                self.sums[name] += int(number)
            self.sums["refused"] += int(found[7])
            self.sums["unfinite"] += int(found[8])
            self.codes.update({code: int(n) for code, n in re.findall(r"(E\d+) (\d+)", found[6])})
            for path, layout, text in re.findall(r"^FAIL (\S+), layout (\w+): (.*)$", said.stdout, re.MULTILINE):
                self.failure(pathlib.Path(path), layout, text)
            for line in re.findall(r"^REFUSED .*$", said.stdout, re.MULTILINE):
                self.note(line.replace(work + "/", ""))

    def note(self, line):
        with open(self.directory / "failures.txt", "a") as file:
            file.write(line + "\n")

    def failure(self, path, layout, text):
        kind = symptom(text)
        self.symptoms[kind] += 1
        self.note(f"FAIL {path.name}, layout {layout}: {text[:400]}")
        if self.symptoms[kind] > 3 or len(list(self.directory.glob("*.mdl"))) >= self.keep:
            return
        name = self.directory / f"{path.stem[1:]}-{layout}.mdl"
        small, still = shrink_layout(path.read_text(), layout)
        if small is None:
            shutil.copy(path, name)
            print(f"{name}: {kind}; it did not fail again", flush=True)
            return
        lines = [line for line in small.split("\n") if line.strip()]
        name.write_text("\n".join([f"// {name.name}: {still}", f"// drawn with seed {path.stem[1:]}: {text[:200]}", *lines, ""]))
        print(f"{name}: {still}", flush=True)

    def say(self):
        s, seconds = self.sums, time.monotonic() - self.began
        codes = ", ".join(f"{code} {n}" for code, n in sorted(self.codes.items()))
        print(f"{seconds / 60:6.1f} min: {s['programs']} programs to seed {self.seed - 1}, {s['combinations']} combinations as one rank, "
              f"{s['failures']} failures; {s['illegal']} of {s['layouts']} layouts not legal ({codes}); {s['refused']} programs refused, "
              f"{s['unfinite']} not finite or rounding alone", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: soak.sh DIRECTORY [SECONDS | COUNTx] [FIRST]")
    directory = pathlib.Path(sys.argv[1])
    length = sys.argv[2] if len(sys.argv) > 2 else "3600"
    first = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.strftime("%Y%m%d%H%M", time.gmtime())) * 100000
    directory.mkdir(parents=True, exist_ok=True)
    soak = Soak(directory, first)
    print(f"seeds from {first}", flush=True)
    said = 0
    while True:
        seconds = time.monotonic() - soak.began
        left = int(length[:-1]) - (soak.seed - first) if length.endswith("x") else BATCH if seconds < float(length) else 0
        if left <= 0:
            break
        if seconds >= said + 60:
            soak.say()
            said = seconds
        soak.batch(min(BATCH, left))
    soak.say()
    for kind, count in soak.symptoms.most_common():
        print(f"  {count} times {kind}")
    s = soak.sums
    blind = s["programs"] < 19 * s["refused"] or s["combinations"] < 9 * s["unfinite"] or not s["combinations"]
    sys.exit(1 if s["failures"] or blind else 0)


if __name__ == "__main__":
    main()
