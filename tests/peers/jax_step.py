# jax_step.py: a peer of bench_train: one training step in JAX, for the Llama jobs.
#
#   jax_step.py JOB [--steps N]
#
# One jitted step with donated state: bf16 over f32 parameters, cuDNN's attention, AdamW, clipping, random tokens.
# The optimizer is written out here: optax is not needed.
import argparse
import functools
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")

import jax
import jax.numpy as jnp
import numpy as np

import jobs


def shapes(job):
    depth = job.width // job.heads
    each = {
        "first_norm": (job.width,),
        "second_norm": (job.width,),
        "q": (job.width, job.heads, depth),
        "k": (job.width, job.kv_heads, depth),
        "v": (job.width, job.kv_heads, depth),
        "out": (job.heads, depth, job.width),
        "gate": (job.width, job.ffn),
        "up": (job.width, job.ffn),
        "down": (job.ffn, job.width),
    }
    once = {"table": (job.padded, job.width), "last_norm": (job.width,), "head": (job.width, job.padded)}
    return {**{name: (job.layers, *shape) for name, shape in each.items()}, **once}


def first(job):
    made, key = {}, jax.random.PRNGKey(1)
    for number, (name, shape) in enumerate(shapes(job).items()):
        if name.endswith("norm"):
            made[name] = jnp.ones(shape, jnp.float32)
        else:
            made[name] = 0.02 * jax.random.normal(jax.random.fold_in(key, number), shape, jnp.float32)
    return made


def rms_norm(x, scale):
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + 1e-5) * scale).astype(jnp.bfloat16)


def turned(x, cosine, sine):
    low, high = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate((low * cosine - high * sine, high * cosine + low * sine), axis=-1).astype(jnp.bfloat16)


def loss_of(job):
    depth = job.width // job.heads
    rate = job.theta ** (-np.arange(0, depth, 2) / depth)
    angle = np.outer(np.arange(job.sequence), rate)[None, :, None, :]
    cosine, sine = jnp.asarray(np.cos(angle), jnp.float32), jnp.asarray(np.sin(angle), jnp.float32)

    def block(x, w):
        h = rms_norm(x, w["first_norm"])
        q, k, v = (jnp.einsum("btd,dhk->bthk", h, w[name]) for name in "qkv")
        q, k = turned(q, cosine, sine), turned(k, cosine, sine)
        o = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
        x = x + jnp.einsum("bthk,hkd->btd", o, w["out"])
        h = rms_norm(x, w["second_norm"])
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]

    def loss(parameters, tokens, targets):
        low = {n: p if n.endswith("norm") else p.astype(jnp.bfloat16) for n, p in parameters.items()}
        x = low["table"][tokens]
        for layer in range(job.layers):  # unrolled: XLA fuses across layers
            once = ("table", "last_norm", "head")
            x = block(x, {name: value[layer] for name, value in low.items() if name not in once})
        logits = (rms_norm(x, low["last_norm"]) @ low["head"]).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)

    return loss


def step_of(job):
    loss = loss_of(job)

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(parameters, m, v, number, tokens, targets):
        value, gradient = jax.value_and_grad(loss)(parameters, tokens, targets)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
        clip = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
        one, two = 1 - 0.9**number, 1 - 0.95**number

        def update(p, g, m_, v_):
            g = g * clip
            m_ = 0.9 * m_ + 0.1 * g
            v_ = 0.95 * v_ + 0.05 * g * g
            return p - 3e-4 * ((m_ / one) / (jnp.sqrt(v_ / two) + 1e-8) + 0.1 * p), m_, v_

        new = {name: update(p, gradient[name], m[name], v[name]) for name, p in parameters.items()}
        return tuple({name: three[part] for name, three in new.items()} for part in range(3)) + (value,)

    return step


def main():
    parser = argparse.ArgumentParser()
    chosen, job = jobs.arguments(parser)
    if job.kind != "llama":
        sys.exit("jax_step.py: Llama jobs alone are written")
    warm = jobs.Warm()
    parameters = first(job)
    m, v = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    step = step_of(job)
    draw = np.random.default_rng(1)
    tokens, targets = (
        jax.device_put(draw.integers(0, job.vocabulary, (job.batch, job.sequence)).astype(np.int32)) for _ in range(2)
    )
    number, over = 0, False
    while not over:
        number += 1
        parameters, m, v, loss = step(parameters, m, v, float(number), tokens, targets)
        loss.block_until_ready()
        over = warm.over()
    # One step behind: the next is on its way while the one before is waited for.
    times, before, last = [], None, loss
    for _ in range(chosen.steps + 2):
        number += 1
        parameters, m, v, loss = step(parameters, m, v, float(number), tokens, targets)
        last.block_until_ready()
        now = time.monotonic()
        times.append(now - (before or now))
        before, last = now, loss
    loss.block_until_ready()
    memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    jobs.report("jax", chosen.job, job, jobs.median(times[2:]), memory,
                warm_s=f"{warm.compiled - warm.start:.0f}", loss=f"{float(loss):.3f}", jax=jax.__version__)


if __name__ == "__main__":
    main()
