#!/usr/bin/env python3
"""rooms.py: no file of the compiler includes one of a room above its own; docs/architecture.md says what each holds.

    tests/style/rooms.py FILE...     # prints the includes that go up, and fails if there are any
"""

import re
import sys

ROOMS = ["base", "compiler/ir", "compiler/plan", "compiler/spec", "lang", "compiler/pass", "compiler/rewrite", "compiler/shard",
         "compiler/pipeline", "compiler/grad", "compiler/precision", "compiler/fuse", "compiler/lower",
         "compiler/report", "compiler", "lsp"]
# mdlc is the way into all rooms: it compiles kernels ahead of time, and is the language server too.
ABOVE = {"compiler/mdlc.c"}
INCLUDE = re.compile(r'^#include "([^"]+/[^"]+)"', re.MULTILINE)


def room(path):
    folder = path.rpartition("/")[0]
    while folder and folder not in ROOMS:
        folder = folder.rpartition("/")[0]
    return folder


def main():
    bad = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            includes = INCLUDE.findall(file.read())
        here = room(path)
        for include in includes:
            there = room(include)
            inside = include.startswith(("base/", "lang/", "compiler/", "lsp/"))
            up = (ROOMS.index(there) > ROOMS.index(here) if inside and there else not inside) and path not in ABOVE
            if up:
                print(f"{path}: includes {include}, which is above {here}/")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
