#!/usr/bin/env python3
"""make.py: trains a tiny GPT-2, Llama and BLOOM with PyTorch and records what tests/parity_test.c compares with.

    python tests/parity/make.py          # needs torch; writes gpt2, llama and bloom.safetensors beside this file
    python tests/parity/make.py bloom    # one of them

The models are those of gpt2.mdl, llama.mdl and bloom.mdl, written with PyTorch's own layers, losses and optimizer. In each file:

    weight.NAME        BF16  initial parameters; every one is exact in bfloat16, so all precisions start alike
    tokens, targets    I32   [step, batch, seq]
    loss, grad_norm    F64   [step], computed in float64; the norm is that before clipping
    loss.f32           F64   [step], computed in float32
    lr                 F64   [step]
    gradient.S.NAME    I32   the gradient of the loss at step S (1 and the last), before clipping, computed in float64
    scale.S.NAME       F64   [1], what to multiply it by
    norm.NAME          F64   [1], the norm of the parameter after the last step, computed in float64
"""

import json
import math
import pathlib
import struct
import sys

import numpy
import torch
import torch.nn.functional as F

STEPS, WARMUP, PEAK, DECAY, CLIP = 10, 3, 3e-3, 0.1, 1.0
VOCAB, EMBED, LAYERS, BATCH, SEQ = 61, 32, 2, 4, 24
PLACES, HEADS = 32, 2
BLOOM_EMBED, BLOOM_HEADS = 24, 6
KV_HEADS, GROUP, HD, FFN, THETA, Z_WEIGHT = 2, 2, 8, 48, 10000.0, 1e-4


def learning_rate(step):
    """std.schedule's cosine: warmup from 0, then half a wave from the peak to a tenth of it."""
    progress = max(0.0, min(1.0, (step - WARMUP) / max(1, STEPS - WARMUP)))
    floor = 0.1 * PEAK
    return min(1.0, step / WARMUP) * (floor + (PEAK - floor) * 0.5 * (1 + math.cos(math.pi * progress)))


def affine(p, x, at, width):
    """x w + b, whose first axes, the product of which is `width`, are the last of x."""
    return F.linear(x, p[at + ".w"].reshape(width, -1).T, p[at + ".b"].reshape(-1))


def layer_norm(p, x, at):
    return F.layer_norm(x, x.shape[-1:], p[at + ".scale"], p[at + ".bias"], 1e-5)


def norm_shapes(at, embed):
    return {at + ".scale": (embed,), at + ".bias": (embed,)}


def block_shapes(at, embed, heads):
    """Of the parameters of block(), in the order in which GPT-2 and BLOOM have them."""
    hd, shapes = embed // heads, {}
    for part in "qkv":
        shapes[f"{at}{part}.w"] = (embed, heads, hd)
        shapes[f"{at}{part}.b"] = (heads, hd)
    shapes[at + "out.w"], shapes[at + "out.b"] = (heads, hd, embed), (embed,)
    shapes[at + "up.w"], shapes[at + "up.b"] = (embed, 4 * embed), (4 * embed,)
    shapes[at + "down.w"], shapes[at + "down.b"] = (4 * embed, embed), (embed,)
    return shapes | norm_shapes(at + "ln_1", embed) | norm_shapes(at + "ln_2", embed)


def block(p, x, at, heads, **attention):
    """A layer of GPT-2 or BLOOM; attention: how, for PyTorch."""
    embed = x.shape[-1]
    h = layer_norm(p, x, at + "ln_1")
    q, k, v = (affine(p, h, at + part, embed).unflatten(-1, (heads, -1)).transpose(1, 2) for part in "qkv")
    o = F.scaled_dot_product_attention(q, k, v, **attention)
    x = x + affine(p, o.transpose(1, 2).flatten(2), at + "out", embed)
    h = F.gelu(affine(p, layer_norm(p, x, at + "ln_2"), at + "up", embed), approximate="tanh")
    return x + affine(p, h, at + "down", 4 * embed)


class Gpt2:
    name, seed = "gpt2", 20190214

    @staticmethod
    def shapes():
        shapes = {"wte": (VOCAB, EMBED), "wpe": (PLACES, EMBED)}
        for layer in range(LAYERS):
            shapes |= block_shapes(f"layers.{layer}.", EMBED, HEADS)
        return shapes | norm_shapes("ln_f", EMBED)

    @staticmethod
    def loss(p, tokens, targets):
        x = F.embedding(tokens, p["wte"]) + p["wpe"][: tokens.shape[1]]
        for layer in range(LAYERS):
            x = block(p, x, f"layers.{layer}.", HEADS, is_causal=True)
        logits = layer_norm(p, x, "ln_f") @ p["wte"].T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Llama:
    name, seed = "llama", 20230224

    @staticmethod
    def shapes():
        shapes = {"table": (VOCAB, EMBED)}
        for layer in range(LAYERS):
            at = f"layers.{layer}."
            shapes[at + "attn_norm.scale"] = (EMBED,)
            shapes[at + "q.w"] = (EMBED, KV_HEADS, GROUP, HD)
            shapes[at + "k.w"] = shapes[at + "v.w"] = (EMBED, KV_HEADS, HD)
            shapes[at + "out.w"] = (KV_HEADS, GROUP, HD, EMBED)
            shapes[at + "mlp_norm.scale"] = (EMBED,)
            shapes[at + "gate.w"] = shapes[at + "up.w"] = (EMBED, FFN)
            shapes[at + "down.w"] = (FFN, EMBED)
        shapes["final_norm.scale"] = (EMBED,)
        shapes["head.w"] = (EMBED, VOCAB)
        return shapes

    @staticmethod
    def loss(p, tokens, targets):
        def linear(x, at):
            width = x.shape[-1]
            return F.linear(x, p[at + ".w"].reshape(width, -1).T)

        def norm(x, at):
            return F.rms_norm(x, (EMBED,), p[at + ".scale"], 1e-5)

        def rotate(x):  # as in the published implementations: [batch, head, seq, hd], halves of hd turned together
            kind = {"dtype": torch.promote_types(x.dtype, torch.float32), "device": x.device}
            rate = THETA ** (-torch.arange(0, HD, 2, **kind) / HD)
            angle = torch.outer(torch.arange(x.shape[2], **kind), rate).repeat(1, 2)
            turned = torch.cat((-x[..., HD // 2 :], x[..., : HD // 2]), -1)
            return (x * angle.cos() + turned * angle.sin()).to(x.dtype)

        x = F.embedding(tokens, p["table"])
        for layer in range(LAYERS):
            at = f"layers.{layer}."
            h = norm(x, at + "attn_norm")
            q, k, v = (linear(h, at + part).unflatten(-1, (-1, HD)).transpose(1, 2) for part in "qkv")
            k, v = rotate(k).repeat_interleave(GROUP, 1), v.repeat_interleave(GROUP, 1)
            o = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
            x = x + linear(o.transpose(1, 2).flatten(2), at + "out")
            h = norm(x, at + "mlp_norm")
            x = x + linear(F.silu(linear(h, at + "gate")) * linear(h, at + "up"), at + "down")
        logits = linear(norm(x, "final_norm"), "head")
        z = logits.logsumexp(-1).square().mean()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) + Z_WEIGHT * z


def slopes(heads):
    """Of ALiBi: a geometric sequence; between two powers of two, the rest is every other one of the longer sequence."""
    if heads & (heads - 1) == 0:
        first = 2 ** -(8 / heads)
        return [first ** (i + 1) for i in range(heads)]
    below = 1 << (heads.bit_length() - 1)
    return slopes(below) + slopes(2 * below)[::2][: heads - below]


class Bloom:
    name, seed = "bloom", 20221109

    @staticmethod
    def shapes():
        shapes = {"table": (VOCAB, BLOOM_EMBED)}
        for layer in range(LAYERS):
            shapes |= block_shapes(f"layers.{layer}.", BLOOM_EMBED, BLOOM_HEADS)
        return shapes | norm_shapes("ln_embed", BLOOM_EMBED) | norm_shapes("ln_f", BLOOM_EMBED)

    @staticmethod
    def loss(p, tokens, targets):
        kind = {"dtype": p["table"].dtype, "device": p["table"].device}
        places = torch.arange(tokens.shape[1], **kind)
        bias = torch.tensor(slopes(BLOOM_HEADS), **kind)[:, None, None] * (places[None, :] - places[:, None])
        bias = bias.masked_fill(places[None, :] > places[:, None], -math.inf)
        x = layer_norm(p, F.embedding(tokens, p["table"]), "ln_embed")
        for layer in range(LAYERS):
            x = block(p, x, f"layers.{layer}.", BLOOM_HEADS, attn_mask=bias)
        logits = layer_norm(p, x, "ln_f") @ p["table"].T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def weights(model):
    """Random parameters, none at a value where a mistake would not show: scales around 1, biases around 0."""
    generator = torch.Generator().manual_seed(model.seed)
    made = {}
    for name, shape in model.shapes().items():
        part = name.rsplit(".", 1)[-1]
        noise = torch.randn(shape, generator=generator)
        value = 1 + 0.1 * noise if part == "scale" else 0.05 * noise if part in ("b", "bias") else 0.12 * noise
        made[name] = value.to(torch.bfloat16)
    return made


def batches(model):
    generator = torch.Generator().manual_seed(model.seed + 1)
    windows = torch.randint(0, VOCAB, (STEPS, BATCH, SEQ + 1), generator=generator)
    return windows[:, :, :-1].contiguous(), windows[:, :, 1:].contiguous()


def train(model, start, tokens, targets, dtype):
    p = {name: value.to(dtype).requires_grad_() for name, value in start.items()}
    matrices = [value for name, value in p.items() if name.rsplit(".", 1)[-1] not in ("scale", "bias", "b")]
    others = [value for name, value in p.items() if name.rsplit(".", 1)[-1] in ("scale", "bias", "b")]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    seen = {"loss": [], "grad_norm": [], "lr": [], "gradient": {}}
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = model.loss(p, tokens[step - 1], targets[step - 1])
        loss.backward()
        norm = torch.sqrt(sum(value.grad.square().sum() for value in p.values()))
        if step in (1, STEPS):
            seen["gradient"][step] = {name: value.grad.clone() for name, value in p.items()}
        for value in p.values():
            value.grad *= min(1.0, CLIP / norm.item())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        seen["loss"].append(loss.item())
        seen["grad_norm"].append(norm.item())
        seen["lr"].append(learning_rate(step))
    seen["norm"] = {name: value.detach().norm().item() for name, value in p.items()}
    return seen


def save(path, tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{path}: {path.stat().st_size} bytes")


def record(model, directory):
    start = weights(model)
    tokens, targets = batches(model)
    exact = train(model, start, tokens, targets, torch.float64)
    single = train(model, start, tokens, targets, torch.float32)
    out = {}
    for name, value in start.items():
        out["weight." + name] = ("BF16", value.view(torch.int16).numpy())
    out["tokens"] = ("I32", tokens.numpy().astype("<i4"))
    out["targets"] = ("I32", targets.numpy().astype("<i4"))
    for name in "loss", "grad_norm", "lr":
        out[name] = ("F64", numpy.array(exact[name], "<f8"))
    out["loss.f32"] = ("F64", numpy.array(single["loss"], "<f8"))
    for step, gradients in exact["gradient"].items():
        for name, value in gradients.items():
            scale = value.abs().max().item() / (2**31 - 1) or 1.0
            out[f"gradient.{step}.{name}"] = ("I32", numpy.rint(value.numpy() / scale).astype("<i4"))
            out[f"scale.{step}.{name}"] = ("F64", numpy.array([scale], "<f8"))
    for name, value in exact["norm"].items():
        out["norm." + name] = ("F64", numpy.array([value], "<f8"))
    save(directory / f"{model.name}.safetensors", out)
    for step in range(STEPS):
        print(f"  {step + 1:2} loss {exact['loss'][step]:.12f}  f32 off by {single['loss'][step] / exact['loss'][step] - 1:+.1e}"
              f"  norm {exact['grad_norm'][step]:.4f}")
    for step in (1, STEPS):
        worst = max((single["gradient"][step][name] - value).abs().max().item() / max(value.abs().max().item(), 1e-6)
                    for name, value in exact["gradient"][step].items())
        print(f"  gradients of step {step}: f32 off by {worst:.1e} of the largest element")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for each in Gpt2, Llama, Bloom:
        if each.name in sys.argv[1:] or len(sys.argv) == 1:
            record(each, pathlib.Path(__file__).resolve().parent)
