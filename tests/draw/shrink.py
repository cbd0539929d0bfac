#!/usr/bin/env python3
"""shrink.py: takes lines and terms away from a program as long as a test still fails on it.

    tests/draw/shrink.py FILE.mdl [WORD]      # WORD: must be in what the test says; prints the small program
    tests/draw/shrink.py --layout NAME FILE.mdl [WORD]      # layouts_test under this layout, not passes_test

BUILD=DIR is where the test was built (default: build).
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTS = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "tests"


def smaller(text):
    """Every text with some lines, one setting or one term of a sum less; large parts first."""
    lines = text.split("\n")
    for count in (8, 4, 2, 1):
        for i in range(0, len(lines), max(1, count // 2)):
            if any(lines[i : i + count]):
                yield "\n".join(lines[:i] + lines[i + count :])
    for match in re.finditer(r" \+ [^;+]*|\b(abs|tanh|square|erf|sin|cos|exp|sigmoid|silu|gelu|relu)(?=\()", text):
        yield text[: match.start()] + text[match.end() :]
    for match in re.finditer(r"(?<=[{;]) [^;{}\n]*;(?=[^\n]*\})", text):
        yield text[: match.start()] + text[match.end() :]


def fails_passes(program, word):
    said = subprocess.run([TESTS / "passes_test", program.parent], capture_output=True, text=True, timeout=300, check=False)
    said = said.stdout + said.stderr
    # What is no program any more fails in another way.
    wrong = "times the allowed error" in said or "E099" in said or "cannot be" in said
    return wrong and word in said and "program.mdl" in said


def fails_layout(program, word, layout):
    environment = dict(os.environ, LAYOUT=layout, LAYOUTS_DRAWN="" if re.match(r"E\d", word) else "1")
    said = subprocess.run([TESTS / "layouts_test", program], capture_output=True, text=True, timeout=300, check=False,
                          env=environment, errors="replace")
    said = said.stdout + said.stderr
    return "FAIL " in said and word in said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout")
    parser.add_argument("file")
    parser.add_argument("word", nargs="?", default="")
    given = parser.parse_args()
    text = pathlib.Path(given.file).read_text()
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "program.mdl"

        def fails(candidate):
            program.write_text(candidate)
            return fails_layout(program, given.word, given.layout) if given.layout else fails_passes(program, given.word)

        if not fails(text):
            sys.exit(f"shrink.py: the test does not fail on {given.file}")
        shrunk = True
        while shrunk:
            shrunk = False
            for candidate in smaller(text):
                if fails(candidate):
                    text, shrunk = candidate, True
                    break
    print(text)


if __name__ == "__main__":
    main()
