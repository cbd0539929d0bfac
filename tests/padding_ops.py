#!/usr/bin/env python3
"""padding_ops.py: does every op that can meet padding meet some in a program? Reads graphs after localise.

    tests/padding_ops.py MDLC FILE.mdl     # prints the ops that no layout of the file tests; fails if there are any
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULE = re.compile(r"^OP\((\w+), \"(\w+)\",.*padding_(\w+),")
LAYOUT = re.compile(r"^layout (\w+) \{(.*?)\}", re.M | re.S)


def ops_wanted():
    """Those that see axes in localise, in fp32; the rest comes from other passes, or has no axes."""
    never = {"late", "number", "region", "output", "send", "parameter", "state", "assign", "part"}
    rules = list(filter(None, map(RULE.match, (ROOT / "compiler/ir/ops.def").read_text().split("\n"))))
    assert rules, "no line of ops.def is as this script reads it"
    eight = {"power_of_two", "quantise", "scaled_dot"}  # made by precision alone
    others = {"limit",  # a capacity, under which a program is another
              "receive", "is_finite", "input", "stop", "cast", "composite"}
    return {rule[2] for rule in rules if rule[3] not in never} - others - eight


def ops_padded(graph, mesh):
    """The ops that have an operand, or if they have none a result, with padding along some axis."""
    sizes = {name: int(size) for name, size in re.findall(r'^  axis "?([^"=]*?)"? = (\d+)', graph, re.M)}

    def padded(axis):
        whole, at, cut = axis.partition("@")
        parts = 1
        for name in cut.split(", ") if cut else []:
            parts *= mesh[name]
        return bool(cut) and not whole.startswith("pack.") and sizes[axis] * parts != sizes[whole]

    shapes, found = {}, set()
    for result, op, operands, shape in re.findall(
            r"%(\d+) = (\w+)(?: \"[^\"]*\")?(?:\(([^)]*)\))?[^\n]*? : [\w()\" @,.]*?\[([^\]]*)\]", graph):
        axes = [axis.strip('"') for axis in re.findall(r'"[^"]*"|[^, "]+', shape)]
        shapes[result] = axes
        seen = [axis for value in re.findall(r"%(\d+)", operands or "") for axis in shapes.get(value, [])] or axes
        if any(map(padded, seen)):
            found.add(op)
    return found


def main():
    mdlc, path = sys.argv[1:]
    wanted, met = ops_wanted(), set()
    for name, text in LAYOUT.findall(pathlib.Path(path).read_text()):
        mesh = {axis: int(size) for axis, size in re.findall(r"(\w+) = (\d+)", text.split(";")[0])}
        for program in ("train", "initialise"):
            graph = subprocess.run([mdlc, "print", path, "--layout", name, "--program", program, "--after", "localise"],
                                   capture_output=True, text=True, check=True).stdout
            met |= ops_padded(graph, mesh)
    missing = sorted(wanted - met)
    print(f"{len(met)} ops meet padding; none of these does: {' '.join(missing) or '-'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
