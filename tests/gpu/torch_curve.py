#!/usr/bin/env python3
"""torch_curve.py: trains what mdl trained, from its weights and on its batches, with PyTorch, and compares the losses.

    python3 tests/gpu/torch_curve.py gpt2|llama RUN FIRST DATA [--device cuda] [--dtype bf16|fp32] [--bounds 2:1e-2 ...]

RUN is a run of a recipe of curves.mdl with a line of metrics for each step. FIRST is one of the same recipe that was
stopped after step 1: its checkpoint, parameters and the optimizer's state, is where PyTorch begins, with step 2. DATA is
the text. The models are those of tests/parity/make.py, of PyTorch's own layers, losses and AdamW; bf16 is its autocast
around f32 parameters. Exit status 1: a loss differs more than its bound; the bounds are relative.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import re
import struct
import sys

import torch

WORD = (1 << 64) - 1
BATCH, SEQ, STEPS, WARMUP, PEAK, DECAY, CLIP = 8, 128, 200, 20, 2e-3, 0.1, 1.0
SIZES = {"VOCAB": 256, "EMBED": 128, "LAYERS": 2, "PLACES": 128, "HEADS": 2, "KV_HEADS": 1, "GROUP": 2, "HD": 64,
         "FFN": 320, "Z_WEIGHT": 0.0, "STEPS": STEPS, "WARMUP": WARMUP, "PEAK": PEAK}
RECIPES = pathlib.Path(__file__).with_name("curves.mdl")
VALIDATION = 0.05  # of the data


def seed_of(model):
    """What the recipe of that name sets."""
    return int(re.search(rf"recipe {model} {{.*?seed = (\d+);", RECIPES.read_text(), re.DOTALL).group(1))


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & WORD
    return x ^ x >> 31


def permute(key, count, index):
    half = 1
    while half < 31 and 1 << (2 * half) < count:
        half += 1
    mask, x = (1 << half) - 1, index
    while True:
        left, right = x >> half, x & mask
        for turn in range(4):
            left, right = right, left ^ (mix(key ^ mix(right ^ turn << 56)) & mask)
        x = left << half | right
        if x < count:
            return x


class Windows:
    """The order in which mdl trains on a text: runtime/data/data.c."""

    def __init__(self, path, seed):
        self.text, self.seed = pathlib.Path(path).read_bytes(), seed
        tokens = len(self.text) - int(len(self.text) * VALIDATION)
        self.count = (tokens - SEQ) // SEQ
        self.shifts = max(1, min(SEQ, tokens - self.count * SEQ))

    def begin(self, sample):
        key = mix(self.seed ^ mix(sample // self.count))
        return permute(key, self.count, sample % self.count) * SEQ + mix(key ^ 0x5F5F5F5F) % self.shifts

    def batch(self, step):
        begins = [self.begin((step - 1) * BATCH + row) for row in range(BATCH)]
        rows = torch.tensor([list(self.text[begin : begin + SEQ + 1]) for begin in begins])
        return rows[:, :-1], rows[:, 1:]


def read(path):
    """A safetensors file of f32 tensors."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, about in json.loads(raw[8 : 8 + length]).items():
        if name != "__metadata__":
            assert about["dtype"] == "F32", (name, about["dtype"])
            low, high = (8 + length + offset for offset in about["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(raw[low:high]), dtype=torch.float32).reshape(about["shape"])
    return tensors


def load(run, step):
    at = pathlib.Path(run) / "checkpoints" / f"step-{step:08}"
    return read(at / "model.safetensors"), read(at / "optimizer.safetensors")


def models():
    path = pathlib.Path(__file__).resolve().parent.parent / "parity" / "make.py"
    spec = importlib.util.spec_from_file_location("make", path)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    vars(make).update(SIZES)
    return make


def optimizer_of(p, state):
    plain = [name for name in p if name.rsplit(".", 1)[-1] in ("scale", "bias", "b")]
    groups = [{"params": [p[name] for name in p if name not in plain], "weight_decay": DECAY},
              {"params": [p[name] for name in plain], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for name, value in p.items():
        m, v = (state[f"adamw.{part}.{name}"].to(value.device) for part in "mv")
        optimizer.state[value] = {"step": torch.tensor(1.0), "exp_avg": m, "exp_avg_sq": v}
    return optimizer


def train(make, name, start, state, windows, device, dtype, last):
    model = {"gpt2": make.Gpt2, "llama": make.Llama}[name]
    shapes = {key: tuple(shape) for key, shape in model.shapes().items()}
    have = {key: tuple(value.shape) for key, value in start.items()}
    assert shapes == have, set(shapes.items()) ^ set(have.items())
    p = {key: value.to(device).requires_grad_() for key, value in start.items()}
    optimizer = optimizer_of(p, state)
    losses = {}
    for step in range(2, last + 1):
        tokens, targets = (part.to(device) for part in windows.batch(step))
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            loss = model.loss(p, tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = make.learning_rate(step)
        optimizer.step()
        losses[step] = loss.item()
    return losses


def metrics(run):
    lines = map(json.loads, (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines}


def compare(name, ours, theirs, bounds):
    good = True
    for step, bound in bounds.items():
        apart = abs(ours[step] - theirs[step]) / theirs[step] if ours[step] is not None else math.nan
        good &= apart <= bound
        print(f"{name} step {step:3}: mdl {ours[step]}, PyTorch {theirs[step]:.7f}, {apart:.2e} of {bound:.0e}")
    steps = [step for step in theirs if step > STEPS // 2]
    if not steps:
        return good
    gap = sum(ours[step] - theirs[step] for step in steps) / sum(theirs[step] for step in steps)
    print(f"{name} steps {steps[0]} to {steps[-1]}: mdl's loss is {gap:+.2e} from PyTorch's in the mean, of 1e-02")
    return good and abs(gap) <= 1e-2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("gpt2", "llama"))
    parser.add_argument("run")
    parser.add_argument("first")
    parser.add_argument("data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--bounds", nargs="+", default=["2:1e-2", "50:2e-2", "200:3e-2"])
    options = parser.parse_args()
    bounds = {int(step): float(bound) for step, bound in (pair.split(":") for pair in options.bounds)}
    start, state = load(options.first, 1)
    windows = Windows(options.data, seed_of(options.model))
    theirs = train(models(), options.model, start, state, windows, options.device, options.dtype,
                   max(bounds))
    return 0 if compare(f"{options.model} {options.dtype}", metrics(options.run), theirs, bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
