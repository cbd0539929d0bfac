# flex_attention.py: PyTorch's FlexAttention, compiled, on the rows of bench_attention: lines `FLEX`.
#
#   flex_attention.py [ROW...]
import statistics
import sys
import traceback

import torch
import torch._functorch.config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# name: batch, length, key heads, groups, depth, depth of values, window, cap, documents
ROWS = {
    "d128_4k": (2, 4096, 8, 4, 128, 128, 0, 0, False),
    "d128_32k": (1, 32768, 8, 4, 128, 128, 0, 0, False),
    "d64_1k": (16, 1024, 8, 4, 64, 64, 0, 0, False),
    "d64_4k": (4, 4096, 8, 4, 64, 64, 0, 0, False),
    "d64_1k_mha": (64, 1024, 12, 1, 64, 64, 0, 0, False),
    "d96_4k": (2, 4096, 8, 4, 96, 96, 0, 0, False),
    "d256_4k": (2, 4096, 8, 2, 256, 256, 0, 0, False),
    "mla_4k": (2, 4096, 16, 1, 192, 128, 0, 0, False),
    "window_8k": (1, 8192, 8, 4, 128, 128, 1024, 0, False),
    "cap_8k": (1, 8192, 8, 4, 128, 128, 0, 50, False),
    "documents_8k": (1, 8192, 8, 4, 128, 128, 0, 0, True),
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


def row_time(name):
    batch, length, heads, groups, depth, value_depth, window, cap, documents = ROWS[name]
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
    # Else sizes that differ from those of the row before would be taken for unknown ones, and the code be slower.
    torch._dynamo.reset()
    flex = torch.compile(flex_attention, dynamic=False)
    q, k, v = (
        torch.randn(batch, n, length, d, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for n, d in ((heads * groups, depth), (heads, depth), (heads, value_depth))
    )
    options = {"block_mask": blocks, "enable_gqa": groups > 1, "score_mod": score if cap else None}
    o = flex(q, k, v, **options)
    d = torch.randn_like(o)
    calls = {
        "forward": (lambda: flex(q, k, v, **options), 2),
        "backward": (lambda: torch.autograd.grad(o, (q, k, v), d, retain_graph=True), 5),
    }
    for direction, (call, operations) in calls.items():
        burst(call, 10)
        seconds = statistics.median(burst(call, 50) for _ in range(5))
        flops = operations * pairs * batch * heads * groups * (depth + value_depth)
        print(f"FLEX {name} {direction} us={seconds * 1e6:.1f} TFLOPs={flops / seconds / 1e12:.1f}", flush=True)


def main():
    torch._functorch.config.donated_buffer = False  # the backward is run more than once
    for name in sys.argv[1:] or ROWS:
        if name not in ROWS:
            print(f"SKIPPED: FlexAttention {name}: there is no such row", flush=True)
            continue
        try:
            row_time(name)
        except Exception as error:  # of the compiler: of what it does not take, the other rows are measured
            traceback.print_exc()
            print(f"SKIPPED: FlexAttention {name}: {str(error).split(chr(10))[0]}", flush=True)


main()
