#!/usr/bin/env python3
"""draw.py: writes well-typed .mdl programs drawn at random, for tests/passes_test.c and tests/draw_run.c.

    tests/draw/draw.py DIRECTORY FIRST COUNT      # d00017.mdl is the same program on every machine and every day
    tests/draw/draw.py DIRECTORY FIRST COUNT LAYOUTS      # and so many layouts for each; l00017.mdl
"""

import pathlib
import random
import sys

import blocks
import statements
from layout import Layout
from program import Program

COMMON = [statements.unary] * 5 + [statements.binary] * 4 + [statements.reduce] * 2 + [statements.product] * 3 + [
    statements.scale] * 2 + [statements.softmax, statements.layer, statements.norm, statements.contract]
# A program has two or three of these, each several times, so that pairs of them meet.
FEATURES = [
    statements.reduce, statements.softmax, statements.layer, statements.norm, statements.contract, statements.window,
    statements.cut, statements.cut, statements.join, statements.one, statements.merge, statements.split, statements.rows,
    statements.positions, statements.masks, statements.random_numbers, statements.more_input, statements.look_up,
    statements.look_up, statements.look_up_twice, statements.top, statements.top, statements.embed, statements.classify,
    statements.classify, statements.state, statements.parameters_alone, statements.parameters_alone, blocks.attend, blocks.attend,
    blocks.two_attentions, blocks.turn, blocks.functions, blocks.functions, blocks.repeat, blocks.repeat, blocks.repeat,
    blocks.repeat_of_parameters, statements.meet, statements.mixture, statements.mixture, statements.mixture, statements.recurrence,
    statements.recurrence,
]


def draw(seed, layouts):
    program = Program(seed, layouts)
    begin = program.random.choice(["x", "table", "both"])
    if begin != "table":
        program.add(f"x * {program.weight(['a'])}", {"a", "batch", "seq"}, "begin")
    if begin != "x":
        program.add(f"{program.weight(['v', 'a'])}[tokens]", {"a", "batch", "seq"})
    features = program.random.sample(FEATURES, program.random.choice([2, 3, 3, 4]))
    for _ in range(program.random.randint(3, 11)):
        statement = program.random.choice(features if program.chance(0.6) else COMMON)
        if statement is blocks.repeat:
            blocks.repeat(program, [one for one in features if one not in (blocks.repeat, blocks.repeat_of_parameters, statements.meet)])
        else:
            statement(program)
    if program.chance(0.004):
        statements.halves(program)
    program.add_loss()
    of_layouts = random.Random(f"layouts {seed}")
    texts = [f"layout l{i} {{ {Layout(program, of_layouts).text()} }}" for i in range(layouts)]
    if not texts and program.runs_in_parts():
        texts = ["layout two { microbatches = 2; }"]
    return program.text(texts)


def main():
    directory, first, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    layouts = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    directory.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        (directory / f"{'l' if layouts else 'd'}{seed:05}.mdl").write_text(draw(seed, layouts))


if __name__ == "__main__":
    main()
