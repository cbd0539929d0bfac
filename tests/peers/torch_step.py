# torch_step.py: a peer of bench_train: one training step in PyTorch, written as its users write it for speed.
#
#   torch_step.py JOB [--steps N] [--compile step|block]
#
# torch.compile, bf16 by autocast over f32 parameters, cuDNN's attention, fused AdamW, clipping, random tokens.
# --compile block compiles one block, the head and the loss apart, so that a model of many layers is ready in seconds;
# step compiles the whole forward and backward.
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import jobs


class Attention(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.heads, self.kv_heads, self.depth = job.heads, job.kv_heads, job.width // job.heads
        bias = job.kind == "gpt2"
        self.sizes = [self.heads * self.depth, self.kv_heads * self.depth, self.kv_heads * self.depth]
        # GPT-2 in one product; Llama's are usually three.
        self.inward = nn.ModuleList(
            [nn.Linear(job.width, sum(self.sizes), bias=bias)]
            if bias
            else [nn.Linear(job.width, size, bias=False) for size in self.sizes]
        )
        self.outward = nn.Linear(job.width, job.width, bias=bias)

    def forward(self, x, turn):
        made = [layer(x) for layer in self.inward]
        if len(made) == 1:
            made = made[0].split(self.sizes, dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.depth)).transpose(1, 2) for part in made)
        if turn is not None:
            q, k = turned(q, turn), turned(k, turn)
        grouped = self.kv_heads != self.heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.outward(y.transpose(1, 2).flatten(2))


def turned(x, turn):
    """Rotary positions; turn: cosines and sines, [sequence, depth / 2] each."""
    cosine, sine = turn
    low, high = x.float().chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, job):
        super().__init__()
        bias = job.kind == "gpt2"
        self.gate = None if bias else nn.Linear(job.width, job.ffn, bias=False)
        self.up = nn.Linear(job.width, job.ffn, bias=bias)
        self.down = nn.Linear(job.ffn, job.width, bias=bias)

    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        return self.down(F.silu(self.gate(x)) * self.up(x))


def norm(job):
    return nn.LayerNorm(job.width) if job.kind == "gpt2" else nn.RMSNorm(job.width, eps=1e-5)


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.first_norm, self.attention = norm(job), Attention(job)
        self.second_norm, self.feed_forward = norm(job), FeedForward(job)

    def forward(self, x, turn):
        x = x + self.attention(self.first_norm(x), turn)
        return x + self.feed_forward(self.second_norm(x))


class Model(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.table = nn.Embedding(job.padded, job.width)
        self.places = nn.Embedding(job.sequence, job.width) if job.kind == "gpt2" else None
        self.blocks = nn.ModuleList(Block(job) for _ in range(job.layers))
        self.last_norm = norm(job)
        self.head = nn.Linear(job.width, job.padded, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        if job.kind == "gpt2":
            self.head.weight = self.table.weight
        self.turn = None if job.kind == "gpt2" else self.tables(job)

    @staticmethod
    def tables(job):
        depth = job.width // job.heads
        rate = job.theta ** (-torch.arange(0, depth, 2).float() / depth)
        angle = torch.outer(torch.arange(job.sequence).float(), rate)
        return angle.cos(), angle.sin()

    def tail(self, x, targets):
        logits = self.head(self.last_norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def forward(self, tokens, targets):
        x = self.table(tokens)
        if self.places is not None:
            x = x + self.places.weight
        for block in self.blocks:
            x = block(x, self.turn)
        return self.tail(x, targets)


def attention_of_cudnn():
    torch.backends.cuda.enable_cudnn_sdp(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def compiled(model, what):
    if what == "step":
        return torch.compile(model)
    for block in model.blocks:
        block.compile()
    model.tail = torch.compile(model.tail)
    return model


def measured(step, steps, over):
    """The last loss, and the median seconds of so many steps behind those until the load is over."""
    warming = True
    while warming:
        step()
        torch.cuda.synchronize()
        warming = not over()
    # The host runs ahead, as in training: events mark where steps end.
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        loss = step()
        mark.record()
    torch.cuda.synchronize()
    return loss, jobs.median([a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", choices=["step", "block"], help="block for models of more than 12 layers")
    chosen, job = jobs.arguments(parser)
    what = chosen.compile or ("block" if job.layers > 12 else "step")
    device = torch.device("cuda")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch._dynamo.config.recompile_limit = 64
    attention_of_cudnn()
    warm = jobs.Warm()
    with device:
        model = Model(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ready = compiled(model, what)

    def step():
        drawn = torch.randint(0, job.vocabulary, (job.batch, job.sequence + 1), device=device)
        with torch.autocast("cuda", torch.bfloat16):
            loss = ready(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    loss, seconds = measured(step, chosen.steps, warm.over)
    jobs.report("torch", chosen.job, job, seconds, torch.cuda.max_memory_allocated(), compile=what,
                warm_s=f"{warm.compiled - warm.start:.0f}", loss=f"{loss.item():.3f}", torch=torch.__version__)


if __name__ == "__main__":
    main()
