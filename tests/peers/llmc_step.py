# llmc_step.py: a peer of bench_train: training steps of llm.c (karpathy/llm.c), whose program is built elsewhere.
#
#   llmc_step.py JOB --program PATH/train_gpt2cu [--steps N] [--gelu 0|1|2]
#
# Random tokens and random weights are written to a folder for the run; the flags are those of its own scripts for
# speed: no recomputation, f32 masters, gelu fused into the product (--gelu 1) as on Hopper.
import argparse
import array
import glob
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile

import jobs

TOKENS_MAGIC, MODEL_MAGIC = 20240520, 20240326  # of its files; both have a header of 256 ints
BF16_VERSION = 5
LEAST_STEPS, FILE_BATCHES = 20, 4


def header(*numbers):
    return array.array("i", list(numbers) + [0] * (256 - len(numbers))).tobytes()


def write_tokens(path, job):
    count = job.batch * job.sequence * FILE_BATCHES + 1
    draw = random.Random(1)
    tokens = array.array("H", (int(draw.random() * job.vocabulary) for _ in range(count)))
    with open(path, "wb") as out:
        out.write(header(TOKENS_MAGIC, 1, count))
        out.write(tokens.tobytes())


def parameters(job):
    """Its tensors in their order: how many elements, and the mean and deviation they begin with."""
    d, layers, ffn = job.width, job.layers, job.ffn
    out = 0.02 / (2 * layers) ** 0.5
    ones, zeros = lambda n: (n, 1.0, 0.0), lambda n: (n, 0.0, 0.0)
    normal = lambda n, deviation=0.02: (n, 0.0, deviation)
    return [
        normal(job.padded * d), normal(job.sequence * d),
        ones(layers * d), zeros(layers * d),
        normal(layers * 3 * d * d), zeros(layers * 3 * d), normal(layers * d * d, out), zeros(layers * d),
        ones(layers * d), zeros(layers * d),
        normal(layers * ffn * d), zeros(layers * ffn), normal(layers * d * ffn, out), zeros(layers * d),
        ones(d), zeros(d),
    ]


def write_model(path, job):
    """True if torch is there to draw the weights; without it llm.c draws them itself, which takes a minute."""
    try:
        import torch
    except ImportError:
        return False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open(path, "wb") as out:
        out.write(header(MODEL_MAGIC, BF16_VERSION, job.sequence, job.vocabulary, job.layers, job.heads, job.width,
                         job.padded))
        for count, mean, deviation in parameters(job):
            values = torch.full((count,), mean, device=device, dtype=torch.bfloat16)
            if deviation:
                values.normal_(mean, deviation)
            out.write(values.view(torch.int16).cpu().numpy().tobytes())
    return True


def library_path():
    """Folders of CUDA's libraries: those that PyTorch brings first, for it has the newest cuDNN as a rule."""
    folders = []
    for packages in sorted({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}):
        folders += sorted(glob.glob(os.path.join(packages, "nvidia", "*", "lib")))
    for variable in ("MDL_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        folders += os.environ.get(variable, "").split(":")
    return ":".join(folder for folder in folders + ["/usr/local/cuda/lib64"] if folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--gelu", default="1")
    chosen, job = jobs.arguments(parser)
    if job.kind != "gpt2":
        sys.exit("llmc_step.py: llm.c has GPT-2 alone")
    # The first steps are its load: they take at least 0.1 s each, and 0.3 s of the large model.
    load = int(jobs.LOAD_SECONDS / (0.1 if job.layers <= 12 else 0.3))
    steps = max(chosen.steps, LEAST_STEPS) + load
    with tempfile.TemporaryDirectory() as folder:
        tokens, model = os.path.join(folder, "tokens.bin"), os.path.join(folder, "model.bin")
        write_tokens(tokens, job)
        source = model if write_model(model, job) else f"d{job.layers}"
        command = [
            os.path.abspath(chosen.program), "-i", tokens, "-j", tokens, "-e", source,
            "-b", str(job.batch), "-t", str(job.sequence), "-x", str(steps), "-ge", chosen.gelu,
            "-r", "0", "-c", "0.1", "-l", "0.0006", "-q", "0.1", "-u", "10", "-v", "1000000", "-m", "1", "-s", "0",
        ]
        environment = {**os.environ, "LD_LIBRARY_PATH": library_path()}
        done = subprocess.run(command, env=environment, cwd=folder, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    times = [float(found) / 1e3 for found in re.findall(r"\| ([0-9.]+) ms \|", done.stdout)]
    if done.returncode != 0 or len(times) < steps:
        sys.exit(f"llmc_step.py: llm.c ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    memory = sum(int(found) for found in re.findall(r"device memory usage: (\d+) MiB", done.stdout)) * 2**20
    loss = re.findall(r"\| loss ([0-9.]+)", done.stdout)
    jobs.report("llm.c", chosen.job, job, jobs.median(times[load:]), memory, gelu=chosen.gelu, loss=loss[-1])


if __name__ == "__main__":
    main()
