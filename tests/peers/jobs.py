# jobs.py: the jobs of bench_train.c as peers see them, and the line that a peer prints.
import sys
import time
from collections import namedtuple

Job = namedtuple("Job", "kind batch sequence width layers heads kv_heads ffn vocabulary padded theta")

# GPT-2's vocabulary is padded to a multiple of 128, which is what its users do for speed: tokens stay below 50257.
JOBS = {
    "gpt2": Job("gpt2", 64, 1024, 768, 12, 12, 12, 3072, 50257, 50304, 0),
    "gpt2-xl": Job("gpt2", 16, 1024, 1600, 48, 25, 25, 6400, 50257, 50304, 0),
    "llama1b": Job("llama", 4, 4096, 2048, 16, 32, 8, 8192, 32000, 32000, 10000),
    "llama8b-8": Job("llama", 2, 4096, 4096, 8, 32, 8, 14336, 32000, 32000, 500000),
}

LOAD_SECONDS = 3  # before the first step that counts: the clocks of the chip settle


def arguments(parser):
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--steps", type=int, default=20, help="measured, after 3 s of load")
    chosen = parser.parse_args()
    return chosen, JOBS[chosen.job]


def median(values):
    return sorted(values)[len(values) // 2]


def report(peer, name, job, seconds, memory_bytes, **more):
    rest = "".join(f" {key}={value}" for key, value in more.items())
    print(
        f"PEER {peer} {name} bf16 B={job.batch} T={job.sequence} "
        f"tok/s={job.batch * job.sequence / seconds:.0f} ms={seconds * 1e3:.2f} GiB={memory_bytes / 2**30:.1f}{rest}",
        flush=True,
    )


class Warm:
    """Says when warm-up is over: the compiler is done and the chip has been busy for a while."""

    def __init__(self):
        self.start = time.monotonic()
        self.compiled = None

    def over(self):
        now = time.monotonic()
        if self.compiled is None:
            self.compiled = now
            print(f"{sys.argv[0]}: first step after {now - self.start:.0f} s", file=sys.stderr)
        return now - self.compiled > LOAD_SECONDS
