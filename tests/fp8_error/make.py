#!/usr/bin/env python3
"""make.py: records how far products in 8 bits of Transformer Engine are from exact ones, for tests/fp8_error_test.c.

    python tests/fp8_error/make.py       # needs a GPU, PyTorch and Transformer Engine; writes figures.txt beside this file

The product is that of product.mdl, y = x w, with its two gradients, on the numbers that the test draws: exact in
bfloat16, some of them large. Each line of figures.txt is

    NAME RMS LARGEST

of y, of the gradient of x and of that of w: the root of the mean square and the largest of the differences from the
product in float64, as shares of the root of the mean square of that.
"""

import pathlib

import numpy
import torch
import transformer_engine.pytorch as te
from transformer_engine.common import recipe

ROWS, INPUTS, OUTPUTS = 256, 512, 384


def drawn(seed, rows, columns, power, outlier):
    """Numbers of drawn() in tests/fp8_error_test.c, bit by bit."""
    h = numpy.arange(rows * columns, dtype=numpy.uint64) * 2654435761 + seed * 0x9E3779B9
    h &= 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    parts = sum((h >> shift & 63).astype(numpy.int64) for shift in (0, 6, 12, 18)) - 126
    large = numpy.where(h >> 24 == 0, outlier, 1)
    return torch.from_numpy((parts * large * 2.0**power).reshape(rows, columns))


def line(name, exact, made):
    scale = exact.square().mean().sqrt()
    error = (made.double().cpu() - exact) / scale
    return f"{name} {error.square().mean().sqrt():.6f} {error.abs().max():.6f}\n"


def main():
    x = drawn(1, ROWS, INPUTS, -6, 8)
    w = drawn(2, INPUTS, OUTPUTS, -12, 2)
    g = drawn(3, ROWS, OUTPUTS, -16, 32)
    layer = te.Linear(INPUTS, OUTPUTS, bias=False, params_dtype=torch.bfloat16, device="cuda")
    with torch.no_grad():
        layer.weight.copy_(w.T.to("cuda", torch.bfloat16))
    given = x.to("cuda", torch.bfloat16).requires_grad_()
    with te.fp8_autocast(enabled=True, fp8_recipe=recipe.Float8CurrentScaling(fp8_format=recipe.Format.HYBRID)):
        y = layer(given)
    y.backward(g.to("cuda", torch.bfloat16))
    with open(pathlib.Path(__file__).with_name("figures.txt"), "w", encoding="ascii") as file:
        file.write(line("y", x @ w, y.detach()))
        file.write(line("x", g @ w.T, given.grad))
        file.write(line("w", x.T @ g, layer.weight.grad.T))


if __name__ == "__main__":
    main()
