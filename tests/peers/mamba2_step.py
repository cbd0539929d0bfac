# mamba2_step.py: a peer of models/mamba2.mdl: one training step of Mamba-2 in PyTorch with Triton kernels of others.
#
#   mamba2_step.py [--batch B] [--seq T] [--layers N] [--vocab V] [--steps N] [--packages DIR]
#                  [--scan mamba_ssm|fla] [--compile]
#
# The model of the recipe mamba2_1b, bf16 by autocast over f32 parameters, fused AdamW, clipping, random tokens. One
# product makes all of gate, values, keys, queries and steps; the scan is mamba_ssm's (chunks of 256) or
# flash-linear-attention's, the convolution flash-linear-attention's or, without it, PyTorch's. DIR holds wheels or
# sources of mamba_ssm, fla-core and einops as they were downloaded, or what is unpacked of them; nothing is built: of
# mamba_ssm the Triton kernels alone are read. --compile compiles what stands around the kernels.
import argparse
import glob
import importlib
import math
import os
import sys
import tarfile
import tempfile
import types
import zipfile

import torch
import torch.nn.functional as F
from torch import nn

import jobs

HEAD, CELL, TAPS, WIDTH = 64, 128, 4, 2048


def unpack(folder):
    """Puts what was downloaded where it can be imported from."""
    place = tempfile.mkdtemp()
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        if path.endswith(".whl"):
            zipfile.ZipFile(path).extractall(place)
        elif path.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                archive.extractall(place, filter="data")
        elif os.path.isdir(path):
            sys.path.insert(0, path)
    sys.path[:0] = [place] + glob.glob(os.path.join(place, "*-*", ""))


def parts_of(name, *modules):
    """Modules of a package whose own __init__ wants compiled extensions: the folders without it."""
    for folder in sys.path:
        path = os.path.join(folder, *name.split("."))
        if os.path.isdir(path):
            package = types.ModuleType(name)
            package.__path__ = [path]
            sys.modules[name] = package
            return [importlib.import_module(f"{name}.{module}") for module in modules]
    raise ImportError(name)


class Kernels:
    """The scan and the convolution that were asked for."""

    def __init__(self, scan):
        self.kind = scan
        if scan == "mamba_ssm":
            (combined, norm) = parts_of("mamba_ssm", "ops.triton.ssd_combined", "ops.triton.layernorm_gated")
            self.chunk_scan, self.norm = combined.mamba_chunk_scan_combined, norm.rmsnorm_fn
        else:
            self.gated = importlib.import_module("fla.ops.simple_gla").chunk_simple_gla
            self.norm = None
        try:
            self.convolution = importlib.import_module("fla.modules.causal_conv1d").causal_conv1d
        except ImportError as wrong:
            print(f"mamba2_step.py: convolution of PyTorch: {wrong}", file=sys.stderr)
            self.convolution = None

    def scan(self, u, step, rate, b, c, skip, bias):
        if self.kind == "mamba_ssm":
            return self.chunk_scan(
                u, step, -torch.exp(rate), b, c, 256, D=skip, dt_bias=bias, dt_softplus=True
            )
        dt = F.softplus(step.float() + bias)
        spread = (-1, -1, u.shape[2], -1)
        y, _ = self.gated(
            q=c.expand(*spread).contiguous(),
            k=b.expand(*spread).contiguous(),
            v=(u * dt[..., None]).to(u.dtype),
            g=-dt * torch.exp(rate),
            scale=1.0,
        )
        return y + u * skip[:, None].to(u.dtype)


class Mixer(nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.kernels, self.inner = kernels, 2 * WIDTH
        self.heads, self.mixed = self.inner // HEAD, self.inner + 2 * CELL
        self.inward = nn.Linear(WIDTH, self.inner + self.mixed + self.heads, bias=False)
        self.filter = nn.Parameter(torch.empty(self.mixed, TAPS).uniform_(-0.5, 0.5))
        self.filter_bias = nn.Parameter(torch.zeros(self.mixed))
        dt = torch.exp(torch.rand(self.heads) * math.log(100) + math.log(0.001))
        self.bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.rate = nn.Parameter(torch.log(torch.empty(self.heads).uniform_(1, 16)))
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.scale = nn.Parameter(torch.ones(self.inner))
        self.outward = nn.Linear(self.inner, WIDTH, bias=False)

    def convolved(self, x):
        weight, bias = self.filter.to(x.dtype), self.filter_bias.to(x.dtype)
        if self.kernels.convolution is not None:
            made = self.kernels.convolution(x, weight, bias, activation="silu")
            return made[0] if isinstance(made, tuple) else made
        made = F.conv1d(x.transpose(1, 2), weight[:, None], bias, padding=TAPS - 1, groups=self.mixed)
        return F.silu(made[..., : x.shape[1]].transpose(1, 2))

    def gated_norm(self, y, z):
        if self.kernels.norm is not None:
            return self.kernels.norm(y, self.scale, None, z=z, eps=1e-5, norm_before_gate=False)
        return F.rms_norm((y * F.silu(z)).float(), (self.inner,), self.scale, 1e-5).to(y.dtype)

    def forward(self, x):
        z, mixed, step = self.inward(x).split([self.inner, self.mixed, self.heads], dim=-1)
        u, b, c = self.convolved(mixed.contiguous()).split([self.inner, CELL, CELL], dim=-1)
        y = self.kernels.scan(
            u.unflatten(-1, (self.heads, HEAD)), step, self.rate, b[:, :, None], c[:, :, None], self.skip, self.bias
        )
        return self.outward(self.gated_norm(y.flatten(2), z.contiguous()))


class Block(nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(WIDTH, eps=1e-5), Mixer(kernels)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Model(nn.Module):
    def __init__(self, kernels, layers, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH)
        self.blocks = nn.ModuleList(Block(kernels) for _ in range(layers))
        self.last_norm = nn.RMSNorm(WIDTH, eps=1e-5)
        for parameter in self.parameters():
            if parameter.dim() > 1 and parameter.shape[-1] > TAPS:
                nn.init.normal_(parameter, std=0.02)
        self.again = False

    def tail(self, x, targets):
        """Logits in parts of 8192 rows, whose gradients are computed again: whole, they would not fit beside the rest."""
        x, targets = self.last_norm(x).flatten(0, 1), targets.flatten()
        total = 0
        for rows, wanted in zip(x.split(8192), targets.split(8192)):
            total = total + torch.utils.checkpoint.checkpoint(self.part, rows, wanted, use_reentrant=False)
        return total / targets.numel()

    def part(self, rows, wanted):
        return F.cross_entropy(F.linear(rows, self.table.weight).float(), wanted, reduction="sum")

    def forward(self, tokens, targets):
        x = self.table(tokens)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.tail(x, targets)


def measure(model, chosen):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    warm, device, times = jobs.Warm(), torch.device("cuda"), []

    def step():
        drawn = torch.randint(0, chosen.vocab, (chosen.batch, chosen.seq + 1), device=device)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    loss = step()
    torch.cuda.synchronize()
    while not warm.over():
        step()
        torch.cuda.synchronize()
    for _ in range(chosen.steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return jobs.median(times), float(loss)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--vocab", type=int, default=50288)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--scan", choices=["mamba_ssm", "fla"], default="mamba_ssm")
    parser.add_argument("--packages", help="folder of what was downloaded")
    parser.add_argument("--compile", action="store_true")
    chosen = parser.parse_args()
    if chosen.packages:
        unpack(chosen.packages)
    torch.manual_seed(1)
    kernels = Kernels(chosen.scan)
    with torch.device("cuda"):
        model = Model(kernels, chosen.layers, chosen.vocab)
    if chosen.compile:
        for block in model.blocks:
            block.compile()
    fits = "kept"
    try:
        seconds, loss = measure(model, chosen)
    except torch.OutOfMemoryError:  # then it computes its blocks again, as its users would
        model.again, fits = True, "recomputed"
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        seconds, loss = measure(model, chosen)
    job = types.SimpleNamespace(batch=chosen.batch, sequence=chosen.seq)
    jobs.report(
        f"torch+{chosen.scan}", f"mamba2-{chosen.layers}", job, seconds, torch.cuda.max_memory_allocated(),
        blocks=fits, compiled=int(chosen.compile), first_loss=f"{loss:.3f}",
    )


if __name__ == "__main__":
    main()
