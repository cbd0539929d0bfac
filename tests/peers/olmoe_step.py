# olmoe_step.py: a peer of mixtures of experts: a training step of the shape of OLMoE 1B-7B in PyTorch.
#
#   olmoe_step.py [--layers N] [--batch B] [--steps N] [--compile step|block] [--recompute]
#
# 2048 wide, 16 heads of 128, 64 experts of 1024, the best 8 of them, a vocabulary of 50304, sequences of 4096. Rows are
# sorted by expert and multiplied by torch._grouped_mm; nothing is dropped. All is compiled, attention is cuDNN's.
# Weights and gradients are bf16, masters and moments f32, so a parameter takes 16 bytes: 103 GiB for all 16 layers. The
# update goes over the layers one by one with the fused kernel of AdamW, so that only one has its gradients in f32. With
# what 4 x 4096 tokens leave for the backward, an H200 holds 12 layers; --recompute computes the experts' activations again,
# which makes room for 14.
import argparse
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import jobs
import torch_step

WIDTH, HEADS, EXPERTS, CHOICES, FFN, VOCABULARY, SEQUENCE, ALIGN = 2048, 16, 64, 8, 1024, 50304, 4096, 8
BALANCE, Z = 0.01, 0.001  # weights of the losses of the router
Job = namedtuple("Job", "batch sequence")


class Dispatch(torch.autograd.Function):
    """Rows of tokens: row r is that of token[r], or zeros at the end of x. Back: a sum over the choices of a token."""

    @staticmethod
    def forward(ctx, x, token, place, choices):
        ctx.save_for_backward(place)
        ctx.choices = choices
        return torch.cat((x, x.new_zeros(1, x.shape[1]))).index_select(0, token)

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        back = grad.index_select(0, place)
        return back if ctx.choices == 1 else back.unflatten(0, (-1, ctx.choices)).sum(1), None, None, None


class Combine(torch.autograd.Function):
    """The rows of all positions, in their order. Back: to rows."""

    @staticmethod
    def forward(ctx, rows, source, place):
        ctx.save_for_backward(source)
        return rows.index_select(0, place)

    @staticmethod
    def backward(ctx, grad):
        (source,) = ctx.saved_tensors
        return torch.cat((grad, grad.new_zeros(1, grad.shape[1]))).index_select(0, source), None, None


def ordered(who, experts=EXPERTS):
    """Of the expert of each position: where each row is from, where each position is, and where experts end."""
    positions = who.numel()
    rows = positions + experts * (ALIGN - 1)
    sorted_who, order = torch.sort(who, stable=True)
    counts = torch.zeros(experts, dtype=torch.int64, device=who.device).scatter_add_(0, who, torch.ones_like(who))
    ends = torch.cumsum((counts + ALIGN - 1) // ALIGN * ALIGN, 0)
    begins = ends - (counts + ALIGN - 1) // ALIGN * ALIGN
    before = torch.cumsum(counts, 0) - counts
    to = begins[sorted_who] + torch.arange(positions, device=who.device) - before[sorted_who]
    ends[-1] = rows  # the last expert multiplies the zeros behind all, or what nobody has written would be read
    source = torch.full((rows,), positions, dtype=torch.int64, device=who.device).scatter_(0, to, order)
    place = torch.empty_like(to).scatter_(0, order, to)
    return source, place, ends.to(torch.int32), counts


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate = nn.Parameter(torch.empty(EXPERTS, WIDTH, FFN))
        self.up = nn.Parameter(torch.empty(EXPERTS, WIDTH, FFN))
        self.down = nn.Parameter(torch.empty(EXPERTS, FFN, WIDTH))

    def multiply(self, x, source, place, ends):
        tokens = x.shape[0]
        rows = Dispatch.apply(x, torch.where(source < tokens * CHOICES, source // CHOICES, tokens), place,
                              CHOICES)
        g = F.silu(torch._grouped_mm(rows, self.gate, offs=ends)) * torch._grouped_mm(rows, self.up, offs=ends)
        return Combine.apply(torch._grouped_mm(g, self.down, offs=ends), source, place)

    def forward(self, h, recompute):
        x = h.flatten(0, 1)
        scores = self.router(x).float()
        chances = scores.softmax(-1)
        weights, who = chances.topk(CHOICES, dim=-1)
        source, place, ends, counts = ordered(who.flatten())
        if recompute:
            y = checkpoint(self.multiply, x, source, place, ends, use_reentrant=False)
        else:
            y = self.multiply(x, source, place, ends)
        y = (y.unflatten(0, (-1, CHOICES)) * weights.to(y.dtype).unsqueeze(-1)).sum(1)
        share = counts.float() / who.numel()
        loss = BALANCE * EXPERTS * (share * chances.mean(0)).sum() + Z * scores.logsumexp(-1).square().mean()
        return y.view_as(h), loss


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2))
        self.outward = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, turn):
        q, k, v = (layer(x) for layer in self.inward)
        q, k = self.norms[0](q), self.norms[1](k)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(torch_step.turned(q, turn), torch_step.turned(k, turn), v, is_causal=True)
        return self.outward(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.first_norm, self.attention = nn.RMSNorm(WIDTH, eps=1e-5), Attention()
        self.second_norm, self.experts = nn.RMSNorm(WIDTH, eps=1e-5), Experts()
        self.recompute = recompute

    def forward(self, x, turn):
        x = x + self.attention(self.first_norm(x), turn)
        y, loss = self.experts(self.second_norm(x), self.recompute)
        return x + y, loss


class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(blocks)
        self.last_norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        depth = WIDTH // HEADS
        angle = torch.outer(torch.arange(SEQUENCE).float(), 10000 ** (-torch.arange(0, depth, 2).float() / depth))
        self.turn = angle.cos(), angle.sin()

    def tail(self, x, targets):
        return F.cross_entropy(self.head(self.last_norm(x)).flatten(0, 1).float(), targets.flatten())

    def forward(self, tokens, targets):
        x, balance = self.table(tokens), 0
        for block in self.blocks:
            x, loss = block(x, self.turn)
            balance = balance + loss
        return self.tail(x, targets) + balance / len(self.blocks)


class Update:
    """AdamW over f32 masters, in parts, each with its gradients in f32 for a moment."""

    def __init__(self, model):
        self.parts = []
        for part in list(model.blocks) + [model.table, model.last_norm, model.head]:
            parameters = list(part.parameters())
            masters = [p.detach().float() for p in parameters]
            moments = [[torch.zeros_like(m) for m in masters] for _ in range(2)]
            steps = [torch.zeros((), device=m.device, dtype=torch.float32) for m in masters]  # as the kernel reads them
            self.parts.append((parameters, masters, *moments, steps))

    def step(self):
        for parameters, masters, first, second, steps in self.parts:
            gradients = [p.grad.float() for p in parameters]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(masters, gradients, first, second, [], steps, lr=3e-4, beta1=0.9, beta2=0.95,
                                weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
            torch._foreach_copy_(parameters, masters)
            for p in parameters:
                p.grad = None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="measured, after 3 s of load")
    parser.add_argument("--compile", choices=["step", "block"], default="block")
    parser.add_argument("--recompute", action="store_true")
    chosen = parser.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(1)
    torch._dynamo.config.recompile_limit = 64
    torch_step.attention_of_cudnn()
    warm = jobs.Warm()
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = Model(Block(chosen.recompute) for _ in range(chosen.layers))
    update = Update(model)
    ready = torch_step.compiled(model, chosen.compile)

    @torch.no_grad()
    def clip_and_step():
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        update.step()

    def step():
        drawn = torch.randint(0, VOCABULARY, (chosen.batch, SEQUENCE + 1), device=device)
        loss = ready(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())
        loss.backward()
        clip_and_step()
        return loss.detach()

    loss, seconds = torch_step.measured(step, chosen.steps, warm.over)
    jobs.report("torch", f"olmoe-{chosen.layers}", Job(chosen.batch, SEQUENCE), seconds,
                torch.cuda.max_memory_allocated(), compile=chosen.compile, recompute=int(chosen.recompute),
                warm_s=f"{warm.compiled - warm.start:.0f}", loss=f"{loss.item():.3f}", torch=torch.__version__)


if __name__ == "__main__":
    main()
