# flex_attention.py: PyTorch's FlexAttention, compiled, on the rows of bench_attention: lines `FLEX`.
#
#   flex_attention.py [ROW...]
import statistics
import sys

import torch
import torch._functorch.config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# name: batch, length, key heads, groups, depth, window, cap, documents
ROWS = {
    "d128_4k": (2, 4096, 8, 4, 128, 0, 0, False),
    "d64_4k": (4, 4096, 8, 4, 64, 0, 0, False),
    "window_8k": (1, 8192, 8, 4, 128, 1024, 0, False),
    "cap_8k": (1, 8192, 8, 4, 128, 0, 50, False),
    "documents_8k": (1, 8192, 8, 4, 128, 0, 0, True),
}
ENDS = [1024, 1536, 3072, 5120, 5888, 7168, 8192]


def burst(call, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def main():
    torch._dynamo.config.cache_size_limit = 64
    torch._functorch.config.donated_buffer = False  # the backward is run more than once
    for name in sys.argv[1:] or ROWS:
        if name not in ROWS:
            continue
        batch, length, heads, groups, depth, window, cap, documents = ROWS[name]
        ids = torch.bucketize(torch.arange(length, device="cuda"), torch.tensor(ENDS, device="cuda"), right=True)

        def mask(b, h, q, k):
            seen = q >= k
            if window:
                seen = seen & (q - k < window)
            if documents:
                seen = seen & (ids[q] == ids[k])
            return seen

        def score(s, b, h, q, k):
            return cap * torch.tanh(s / cap)

        pairs = 0
        for q in range(length):
            first = max([0] + [e for e in ENDS if e <= q]) if documents else 0
            pairs += min(q + 1 - first, window or length)
        blocks = create_block_mask(mask, None, None, length, length, device="cuda")
        flex = torch.compile(flex_attention)
        q, k, v = (
            torch.randn(batch, n, length, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for n in (heads * groups, heads, heads)
        )
        options = {"block_mask": blocks, "enable_gqa": groups > 1, "score_mod": score if cap else None}
        o = flex(q, k, v, **options)
        d = torch.randn_like(o)
        o.backward(d, retain_graph=True)
        calls = {
            "forward": (lambda: flex(q, k, v, **options), 4),
            "backward": (lambda: torch.autograd.grad(o, (q, k, v), d, retain_graph=True), 10),
        }
        for direction, (call, operations) in calls.items():
            burst(call, 10)
            seconds = statistics.median(burst(call, 50) for _ in range(5))
            flops = operations * pairs * batch * heads * groups * depth
            print(f"FLEX {name} {direction} us={seconds * 1e6:.1f} TFLOPs={flops / seconds / 1e12:.1f}", flush=True)


main()
