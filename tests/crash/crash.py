"""crash.py: runs that are killed, replayed or given errors: how they are started, many at once, and what is compared of them."""

import collections
import hashlib
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
MDL = pathlib.Path(os.environ.get("MDL", BUILD / "mdl"))
LAYOUTS = """
layout dp2 { mesh dp = 2; batch -> dp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
"""


def preloaded():
    """The library of tests/crash/fail.c: without it a disk would not be slow, and no allocation would fail."""
    library = BUILD / "tests/libfail.so"
    if not library.exists():
        raise SystemExit(f"{library} is not there: cmake --build {BUILD} --target fail")
    return str(library)


def place(word):
    """A directory that a command names, made where it is not there."""
    path = pathlib.Path(word).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def text(path, tiny=False):
    """The model of tests/cli, with layouts of two ranks; a tiny one has a tenth of the parameters."""
    model = (ROOT / "tests/cli/small.mdl").read_text().replace("../../LICENSE", str(ROOT / "LICENSE"))
    if tiny:
        model = model.replace("embed = 32, layers = 2, heads = 2, hd = 16, ffn = 64", "embed = 4, layers = 2, heads = 2, hd = 2, ffn = 4")
        model = model.replace("batch = 4;", "batch = 2;").replace("seq = 32;", "seq = 8;")
    pathlib.Path(path).write_text(model + LAYOUTS)


def steps(run):
    """The steps of the checkpoints that are committed, oldest first."""
    try:
        names = os.listdir(pathlib.Path(run) / "checkpoints")
    except FileNotFoundError:
        return []
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{8,}", name))


def weights(run, step):
    """A hash of all tensors of a checkpoint."""
    folder = pathlib.Path(run) / "checkpoints" / f"step-{step:08d}"
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def losses(run):
    """Step and loss of every line of metrics."""
    lines = (pathlib.Path(run) / "metrics.jsonl").read_text()
    return re.findall(r'"step": *(\d+).*?"loss": *([-+0-9.eE]+)', lines)


def execute(command, **more):
    """Status, and all that was said."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, errors="replace", check=False, **more)
    return done.returncode, done.stdout


def wants(found, what, said=""):
    """Stops with a message unless `found` holds."""
    if not found:
        raise SystemExit(f"{what}\n{said}".rstrip())


# A try of a kind: function(place, *arguments) in an empty directory; it raises if something does not hold, and may return
# a Counter of what came of it.
Try = collections.namedtuple("Try", "kind name function arguments")
_under_way = {}  # what the processes of `attempt` look at


def _attempt(number):
    """One of the tries, in a process of its own: (number, what does not hold or None, what came of it or None)."""
    tries, work, until = _under_way["of"]
    if until and time.monotonic() >= until:
        return number, None, None
    place = pathlib.Path(work, f"place-{os.getpid()}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        return number, None, tries[number].function(place, *tries[number].arguments) or collections.Counter()
    except SystemExit as broken:
        return number, str(broken), collections.Counter()
    except Exception:  # a file that is not there, say: it is shown with the rest
        return number, traceback.format_exc(), collections.Counter()


def attempt(tries, work, jobs=1, until=None, logs=None):
    """Runs tries in so many processes, in order, until a moment of the monotonic clock.

    The first that does not hold ends the program; with a directory for logs it is written down there, and the others go on.
    Returns {kind: Counter of tried, held, failed, left and what came of them}.
    """
    _under_way["of"] = (tries, work, until)
    table = {kind: collections.Counter() for kind in dict.fromkeys(each.kind for each in tries)}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, broken, came in pool.imap_unordered(_attempt, range(len(tries))):
            kind, name = tries[number].kind, tries[number].name
            wants(not broken or logs, f"{kind}: {name}: {broken}")
            row = table[kind]
            row["left" if came is None else "tried"] += 1
            if came is not None:
                row["failed" if broken else "held"] += 1
                row.update(came)
            if broken and row["failed"] <= 200:
                pathlib.Path(logs, f"{kind}-{number}.txt").write_text(f"{name}: {broken}\n")
                print(f"FAILED {kind}: {name}: {broken.splitlines()[0]}", flush=True)
    return table


def shown(table):
    """A line for each kind."""
    lines = [f"{'kind':<10} {'tried':>8} {'held':>8} {'failed':>7} {'left':>8}  what came of them"]
    for kind, row in table.items():
        rest = ", ".join(f"{name} {row[name]}" for name in sorted(row) if name not in ("tried", "held", "failed", "left"))
        lines.append(f"{kind:<10} {row['tried']:>8} {row['held']:>8} {row['failed']:>7} {row['left']:>8}  {rest}")
    return "\n".join(lines)
