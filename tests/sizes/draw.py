#!/usr/bin/env python3
"""draw.py: shipped models in sizes, layouts and precisions drawn at random compile, or are refused in words for their author.

  draw.py COUNT SEED DIRECTORY      MDLC names the compiler; DIRECTORY is for what is made

Tests have small and even sizes, and shipped recipes large and even ones; here are sizes of 1, odd ones, ones above the
lengths of rows that are stored otherwise, and directives that no recipe has. Not one may be called a bug (E099), end by a
signal, or take more than a minute. Each that is prints its command; status 1 if there was one.
"""

import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {
    "vocab": [257, 259, 301, 512, 1031, 50257],
    "layers": [1, 2, 3, 4, 5, 6],
    "width": [1, 7, 24, 96, 257, 260, 264, 300, 768],
    "depth": [2, 4, 6, 8, 10, 64, 128, 258],
    "few": [1, 2, 3, 4, 5, 6, 8],
}
KINDS = {"vocab": "vocab", "layers": "layers", "embed": "width", "ffn": "width", "inner": "width", "hd": "depth", "kd": "depth",
         "turned": "depth"}
WORDS = ["offload *;", "recompute *;", "offload *; microbatches = 2;", "recompute *; microbatches = 2;"]
PRECISIONS = ["bf16", "fp8_hybrid", "fp8_current", "fp8_block", "fp32", "fp64"]


def command(draw, models, directory):
    """The options of one compilation."""
    path = draw.choice(models)
    text = path.read_text()
    recipes, layouts = (re.findall(rf"^{word} (\w+)", text, re.M) for word in ("recipe", "layout"))
    axes = re.findall(r"(\w+) = \d+", " ".join(re.findall(r"axis ([^;]*);", text)))
    settings = [f"{axis}={draw.choice(SIZES[KINDS.get(axis, 'few')])}" for axis in axes if draw.random() < 0.5]
    settings += [f"batch={draw.choice([1, 2, 3, 4, 6, 8, 12, 16, 24])}", f"seq={draw.choice([1, 2, 5, 16, 31, 64, 257, 300])}"]
    if draw.random() < 0.4:
        more = draw.choice(WORDS)
        path = directory / "changed.mdl"
        path.write_text(re.sub(r"^(layout \w+ \{)", lambda found: f"{found[1]} {more}", text, flags=re.M))
    options = [path, "-o", directory / "made.mdlx", *(word for setting in settings for word in ("--set", setting))]
    options += ["--recipe", draw.choice(recipes)] if recipes else []
    options += ["--layout", draw.choice(layouts)] if layouts else []
    return options + (["--precision", draw.choice(PRECISIONS)] if draw.random() < 0.7 else [])


def main(count, seed, directory):
    draw = random.Random(f"sizes {seed}")
    models = sorted((ROOT / "models").glob("*.mdl")) + sorted((ROOT / "examples").glob("*.mdl"))
    compiled = wrong = 0
    for i in range(count):
        words = [os.environ["MDLC"], "compile", *map(str, command(draw, models, directory))]
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60, check=False)
            status, said = done.returncode, done.stderr
        except subprocess.TimeoutExpired:
            status, said = 124, "it takes more than a minute\n"
        compiled += status == 0
        if status not in (0, 1) or "E099" in said:
            wrong += 1
            kept = directory / f"wrong-{seed}-{i}.mdl"
            kept.write_text(pathlib.Path(words[2]).read_text())
            print(f"status {status}: {' '.join([*words[:2], str(kept), *words[3:]])}\n{said[:600]}")
    print(f"{count} drawn, {compiled} compiled, {wrong} wrong")
    return wrong > 0 or compiled * 10 < count


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])))
