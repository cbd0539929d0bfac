"""crash.py: runs that are killed, replayed or given errors: how they are started, and what is compared of them."""

import hashlib
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
MDL = pathlib.Path(os.environ.get("MDL", BUILD / "mdl"))
LAYOUTS = """
layout dp2 { mesh dp = 2; batch -> dp; }
layout pp2 { mesh pp = 2; layers -> pp; microbatches = 2; }
"""


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
