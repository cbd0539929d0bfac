#!/usr/bin/env python3
"""shrink.py: takes lines, settings, calls and terms away from a program as long as a test still fails on it.

    tests/draw/shrink.py FILE.mdl [WORD]      # passes_test; WORD: must be in what it says; prints the small program
    tests/draw/shrink.py --layout NAME FILE.mdl      # draw_run under this layout, as long as the symptom is the same

BUILD=DIR is where the tests were built (default: build).
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
AT_ONCE = 16  # candidates


def symptom(text):
    """What draw_run says of a failure, without what differs from program to program."""
    if text.startswith("'"):
        when, _, name = text[1 : text.find("'", 1)].partition(" ")
        kind = "a gradient" if " gradient." in name or name.startswith("gradient.") else "first values" if when == "first" else (
            "new values" if when == "last" else "an output")
        return f"wrong: {kind}"
    if text.startswith("ranks disagree"):
        return "ranks disagree"
    text = re.sub(r"error\[E(\d+)\]", lambda match: f"error {match[1].replace('0', 'o')}", text)
    text = re.sub(r"'[^']*'", "'..'", text.split(", in: ")[0])
    return re.sub(r"%?\d+", "N", text)[:110]


def same_kind(a, b):
    """Wrong numbers are one thing to shrink, wherever they show first."""
    return a == b or (a.startswith("wrong: ") and b.startswith("wrong: "))


def inner_of_calls(text):
    """Each call with its first argument in its place."""
    for match in re.finditer(r"\b[a-z_]+\(", text):
        depth, end, first = 0, match.end(), None
        while end < len(text) and depth >= 0:
            depth += (text[end] in "([") - (text[end] in ")]")
            if depth == 0 and first is None and (text[end] == "," or text.startswith(" over ", end)):
                first = end
            end += 1
        argument = text[match.end() : first if first is not None else end - 1]
        yield f"{text[:match.start()]}{argument}{text[end:]}" if re.fullmatch(r"[\w.']+", argument) else (
            f"{text[:match.start()]}({argument}){text[end:]}")


def smaller(text):
    """Every text with some lines, one setting, call or term of a sum less; large parts first."""
    lines = text.split("\n")
    for count in (16, 8, 4, 2, 1):
        for i in range(0, len(lines), max(1, count // 2)):
            if any(lines[i : i + count]):
                yield "\n".join(lines[:i] + lines[i + count :])
    for opened in (i for i, line in enumerate(lines) if line.strip().startswith("repeat ")):
        closed = next((j for j in range(opened + 1, len(lines)) if lines[j].strip() == "}"), None)
        if closed:
            yield "\n".join(lines[:opened] + lines[opened + 1 : closed] + lines[closed + 1 :])
    for match in re.finditer(r"(?<=[{;]) [^;{}\n]*;(?=[^\n]*\})", text):
        yield text[: match.start()] + text[match.end() :]
    for match in re.finditer(r" \+ [^+;]*| [-*/] [^-+;*/()]*(?=[-+*/;)])| @l\d+|, [a-z]\w* (?==)[^,;]*|, m\d = \d", text):
        yield text[: match.start()] + text[match.end() :]
    for match in re.finditer(r"(?<== )[^+;\n]* \+ ", text):
        yield text[: match.start()] + text[match.end() :]
    yield from inner_of_calls(text)
    for match in re.finditer(r"(?<== )\d+(?=[,;])|(?<=optimizer )[a-z]+\([^;]*(?=;)", text):
        for less in ("2", "4") if match[0].isdigit() else ("sgd(lr = 0.1)",):
            if match[0] not in (less, "2"):
                yield text[: match.start()] + less + text[match.end() :]


def failures_passes(directory, texts, word):
    """Numbers of the texts on which passes_test fails so."""
    failing = []
    for i, text in enumerate(texts):
        own = directory / str(i)
        own.mkdir(exist_ok=True)
        (own / "program.mdl").write_text(text)
        said = subprocess.run([TESTS / "passes_test", own], capture_output=True, text=True, timeout=300, check=False)
        said = said.stdout + said.stderr
        # What is no program any more fails in another way.
        wrong = "times the allowed error" in said or "E099" in said or "cannot be" in said
        if wrong and word in said and "program.mdl" in said:
            failing.append(i)
    return failing


def said_of(directory, texts, layout):
    """What draw_run says of each text that fails."""
    paths = []
    for i, text in enumerate(texts):
        paths.append(directory / f"{i}.mdl")
        paths[-1].write_text(text)
    said = subprocess.run([TESTS / "draw_run", "-l", layout, *paths], capture_output=True, text=True, check=False, errors="replace")
    found = re.findall(r"^FAIL \S*/(\d+)\.mdl, layout (\w+): (.*)$", said.stdout, re.MULTILINE)
    return {int(i): symptom(text) for i, name, text in found if name == layout}


def failures_layout(directory, texts, layout, wanted):
    said = said_of(directory, texts, layout)
    return [i for i in range(len(texts)) if i in said and same_kind(said[i], wanted)]


def shrink(text, failures):
    """The smallest text that can be found with failures(texts) not empty."""
    shrunk = True
    while shrunk:
        shrunk, batch = False, []
        for candidate in [*dict.fromkeys(smaller(text)), None]:
            if candidate is not None and len(candidate) < len(text) + 8 and candidate != text:
                batch.append(candidate)
            if batch and (len(batch) == AT_ONCE or candidate is None):
                found = failures(batch)
                if found:
                    text, shrunk = batch[found[0]], True
                    break
                batch = []
    return text


def shrink_layout(text, layout):
    """The small program and its symptom; (None, None) if it does not fail."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        kept = [line for line in text.split("\n") if not line.startswith("layout ") or line.startswith(f"layout {layout} ")]
        alone = "\n".join(kept)
        wanted = said_of(directory, [alone], layout).get(0)
        if wanted is None:
            return None, None
        small = shrink(alone, lambda texts: failures_layout(directory, texts, layout, wanted))
        return small, said_of(directory, [small], layout)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout")
    parser.add_argument("file")
    parser.add_argument("word", nargs="?", default="")
    given = parser.parse_args()
    text = pathlib.Path(given.file).read_text()
    if given.layout:
        text, _ = shrink_layout(text, given.layout)
    else:
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            if failures_passes(directory, [text], given.word):
                text = shrink(text, lambda texts: failures_passes(directory, texts, given.word))
            else:
                text = None
    if text is None:
        sys.exit(f"shrink.py: the test does not fail on {given.file}")
    print(text)


if __name__ == "__main__":
    main()
