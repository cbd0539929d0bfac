# grouped_mm.py: PyTorch's grouped products and what is around them, on the rows of bench_grouped: lines `TORCH`.
#
#   bench_grouped --counts | grouped_mm.py [ROW...]
#
# Rows of an expert begin at multiples of 8, as its kernels want them; operations are those of rows that are there.
import statistics
import sys
import traceback

import torch

ALIGN = 8
BURST_SECONDS = 0.2


def burst(call, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def median(call):
    burst(call, 3)
    count = max(3, min(1000, int(BURST_SECONDS / burst(call, 3))))
    burst(call, count)
    return statistics.median(burst(call, count) for _ in range(5))


def products(embed, ffn, ends, rows):
    """The calls, as a model with weights [experts, in, out] makes them."""
    new = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    experts = len(ends)
    narrow, wide, up, down = new(rows, embed), new(rows, ffn), new(experts, embed, ffn), new(experts, ffn, embed)
    offs = torch.tensor(ends, device="cuda", dtype=torch.int32)
    grouped = lambda a, b: (lambda: torch._grouped_mm(a, b, offs=offs))
    return {
        "up": grouped(narrow, up),
        "down": grouped(wide, down),
        "up_dx": grouped(wide, up.transpose(-2, -1)),
        "down_dx": grouped(narrow, down.transpose(-2, -1)),
        "up_dw": grouped(narrow.t(), wide),
        "down_dw": grouped(wide.t(), narrow),
    }


def moves(tokens, choices, embed, counts):
    """Sorting, rows of tokens, and their sums: without blocks, as many rows as there are positions."""
    who = torch.repeat_interleave(torch.arange(len(counts), device="cuda"), torch.tensor(counts, device="cuda"))
    who = who[torch.randperm(len(who), device="cuda")]
    x = torch.randn(tokens, embed, device="cuda", dtype=torch.bfloat16)
    order = torch.argsort(who, stable=True)
    place, token = torch.argsort(order), order // choices
    rows = x[token]
    back = torch.compile(lambda y, p: y[p].view(tokens, choices, -1).sum(1), dynamic=False)
    back(rows, place)
    size = x.element_size() * embed
    return {
        "order": (lambda: (torch.argsort(who, stable=True), torch.bincount(who, minlength=len(counts))), 0),
        "gather": (lambda: torch.index_select(x, 0, token), 2 * len(who) * size),
        "back": (lambda: back(rows, place), (len(who) + tokens) * size),
    }


def row_time(name, sizes, counts):
    tokens, choices, embed, ffn = (sizes[key] for key in ("tokens", "choices", "embed", "ffn"))
    ends, at = [], 0
    for count in counts:
        at += (count + ALIGN - 1) // ALIGN * ALIGN
        ends.append(at)
    flops = 2 * sum(counts) * embed * ffn
    for move, (call, moved) in moves(tokens, choices, embed, counts).items():
        seconds = median(call)
        print(f"TORCH {name} {move} us={seconds * 1e6:.1f} GBs={moved / seconds / 1e9:.0f}", flush=True)
    for way, call in products(embed, ffn, ends, at).items():
        try:
            seconds = median(call)
        except Exception as error:  # what it does not take
            traceback.print_exc()
            print(f"SKIPPED: PyTorch {name} {way}: {str(error).split(chr(10))[0]}", flush=True)
            continue
        print(f"TORCH {name} {way} us={seconds * 1e6:.1f} TFLOPs={flops / seconds / 1e12:.1f}", flush=True)


def main():
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] != "COUNTS" or (len(sys.argv) > 1 and words[1] not in sys.argv[1:]):
            continue
        sizes = {key: int(value) for key, value in (word.split("=") for word in words[2:6])}
        row_time(words[1], sizes, [int(word) for word in words[6:]])
        torch.cuda.empty_cache()


main()
