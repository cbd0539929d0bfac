# olmoe_ranks_step.py: a peer of experts over several GPUs: the step of olmoe_step.py, each rank with its share of the experts.
#
#   torchrun --nproc_per_node N olmoe_ranks_step.py [--layers N] [--batch B] [--steps N]
#
# --batch is of a rank. Rows go to the ranks of their experts and back by all-to-alls, as large as the counts on the device
# say (the host waits for those, once a layer); nothing is dropped. Everything else is the same on all ranks: its gradients
# are averaged by DistributedDataParallel, beside the backward. What is before, between and behind the exchanges is compiled.
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import jobs
import olmoe_step as one
import torch_step


class Exchange(torch.autograd.Function):
    """Rows in the order of their ranks, to those. got, sent: how many come from and go to each."""

    @staticmethod
    def forward(ctx, rows, got, sent):
        ctx.got, ctx.sent = got, sent
        out = rows.new_empty(sum(got), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), got, sent)
        return out

    @staticmethod
    def backward(ctx, grad):
        back = grad.new_empty(sum(ctx.sent), grad.shape[1])
        dist.all_to_all_single(back, grad.contiguous(), ctx.sent, ctx.got)
        return back, None, None


class Block(nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.first_norm, self.attention = nn.RMSNorm(one.WIDTH, eps=1e-5), one.Attention()
        self.second_norm = nn.RMSNorm(one.WIDTH, eps=1e-5)
        self.router = nn.Linear(one.WIDTH, one.EXPERTS, bias=False)
        self.ranks, self.mine = ranks, one.EXPERTS // ranks
        self.gate = nn.Parameter(torch.empty(self.mine, one.WIDTH, one.FFN))
        self.up = nn.Parameter(torch.empty(self.mine, one.WIDTH, one.FFN))
        self.down = nn.Parameter(torch.empty(self.mine, one.FFN, one.WIDTH))

    def experts(self):
        return [self.gate, self.up, self.down]

    def before(self, x, turn):
        x = x + self.attention(self.first_norm(x), turn)
        h = self.second_norm(x).flatten(0, 1)
        scores = self.router(h).float()
        chances = scores.softmax(-1)
        weights, who = chances.topk(one.CHOICES, dim=-1)
        who = who.flatten()
        order = torch.sort(who, stable=True)[1]
        place = torch.empty_like(order).scatter_(0, order, torch.arange(who.numel(), device=who.device))
        counts = torch.zeros(one.EXPERTS, dtype=torch.int64, device=who.device).scatter_add_(0, who, torch.ones_like(who))
        share = counts.float() / who.numel()
        loss = one.BALANCE * one.EXPERTS * (share * chances.mean(0)).sum()
        loss = loss + one.Z * scores.logsumexp(-1).square().mean()
        return x, one.Dispatch.apply(h, order // one.CHOICES, place, one.CHOICES), weights, place, counts, loss

    def multiply(self, rows, received):
        mine = torch.arange(self.mine, device=rows.device).repeat(self.ranks)
        who = torch.repeat_interleave(mine, received, output_size=rows.shape[0])
        source, place, ends, _ = one.ordered(who, self.mine)
        rows = one.Dispatch.apply(rows, source, place, 1)
        g = F.silu(torch._grouped_mm(rows, self.gate, offs=ends)) * torch._grouped_mm(rows, self.up, offs=ends)
        return one.Combine.apply(torch._grouped_mm(g, self.down, offs=ends), source, place)

    def behind(self, x, rows, weights, place):
        y = rows.index_select(0, place).unflatten(0, (-1, one.CHOICES))
        return x + (y * weights.to(y.dtype).unsqueeze(-1)).sum(1).view_as(x)

    def forward(self, x, turn):
        x, rows, weights, place, counts, loss = self.before(x, turn)
        received = torch.empty_like(counts)
        dist.all_to_all_single(received, counts)
        sent, got = torch.stack((counts, received)).view(2, self.ranks, -1).sum(-1).tolist()
        rows = self.multiply(Exchange.apply(rows, got, sent), received)
        return self.behind(x, Exchange.apply(rows, sent, got), weights, place), loss


def compiled(model):
    for block in model.blocks:
        block.before, block.behind = torch.compile(block.before), torch.compile(block.behind)
        block.multiply = torch.compile(block.multiply, dynamic=True)
    model.tail = torch.compile(model.tail)


def clip(rest, mine, ranks):
    """Gradients to a norm of 1 at most; those of the rank's experts are sums over the ranks, not yet means."""
    rest, mine = [p.grad for p in rest], [p.grad for p in mine]
    squares = (nn.utils.get_total_norm(mine, foreach=True).float() / ranks).square()
    dist.all_reduce(squares)
    norm = (nn.utils.get_total_norm(rest, foreach=True).float().square() + squares).sqrt()
    scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(rest, scale)
    torch._foreach_mul_(mine, scale / ranks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4, help="of a rank")
    parser.add_argument("--steps", type=int, default=20, help="measured, after 3 s of load")
    chosen = parser.parse_args()
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.optimize_ddp = False  # blocks are compiled, not what is around them
    torch_step.attention_of_cudnn()
    warm = jobs.Warm()
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = one.Model(Block(ranks) for _ in range(chosen.layers))
    mine = [p for block in model.blocks for p in block.experts()]
    known = {id(p) for p in mine}
    names = [name for name, p in model.named_parameters() if id(p) in known]
    rest = [p for p in model.parameters() if id(p) not in known]
    compiled(model)
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
    ready = nn.parallel.DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    update = one.Update(model)
    torch.manual_seed(2 + rank)

    def step():
        drawn = torch.randint(0, one.VOCABULARY, (chosen.batch, one.SEQUENCE + 1), device=device)
        loss = ready(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())
        loss.backward()
        with torch.no_grad():
            clip(rest, mine, ranks)
            update.step()
        return loss.detach()

    def over():  # for all when it is for the first
        said = torch.tensor(float(warm.over()), device=device)
        dist.broadcast(said, 0)
        return said.item() > 0

    loss, seconds = torch_step.measured(step, chosen.steps, over)
    if rank == 0:
        jobs.report("torch", f"olmoe-{chosen.layers}", one.Job(chosen.batch * ranks, one.SEQUENCE), seconds,
                    torch.cuda.max_memory_allocated(), ranks=ranks, warm_s=f"{warm.compiled - warm.start:.0f}",
                    loss=f"{loss.item():.3f}", torch=torch.__version__)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
