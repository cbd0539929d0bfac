#!/usr/bin/env python3
"""op_lists.py: what an operation may do is said once, in ops.def: no condition in the compiler may name more than three.

    tests/style/op_lists.py FILE.c...     # prints the conditions that do, and fails if there are any

A condition is a statement that compares with ops, or labels of a switch that lead to the same place. A switch that
does something else for each op may stay.
"""

import re
import sys

MOST = 3
STATEMENT = re.compile(r"[^;{}]*[;{}]")
COMPARED = re.compile(r"[!=]=\s*OP_([A-Z0-9_]+)|OP_([A-Z0-9_]+)\s*[!=]=")
LABELS = re.compile(r"(?:case\s+OP_[A-Z0-9_]+\s*:\s*)+")
ORDERED = re.compile(r"[<>]=?\s*OP_(?!COUNT\b)[A-Z0-9_]+")  # the order of ops says nothing


def lists(text):
    """Line and ops of every condition that names too many."""
    text = re.sub(r"//[^\n]*", "", text)
    found = [(match, {a or b for a, b in COMPARED.findall(match[0])}) for match in STATEMENT.finditer(text)]
    found += [(match, set(re.findall(r"OP_([A-Z0-9_]+)", match[0]))) for match in LABELS.finditer(text)]
    found = [(match, ops) for match, ops in found if len(ops) > MOST]
    found += [(match, {match[0]}) for match in ORDERED.finditer(text)]
    return [(text.count("\n", 0, match.end()) + 1, sorted(ops)) for match, ops in found]


def main():
    bad = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for line, ops in lists(file.read()):
                print(f"{path}:{line}: {', '.join(ops)}: is this not a property? See compiler/ir/properties.def")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
