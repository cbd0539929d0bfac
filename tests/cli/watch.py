"""watch.py: norms in the last line of metrics.jsonl against those of the two newest checkpoints.

  watch.py RUN...     RUN: trained with --watch 'layers.*' --watch '*', --save-every 1 and at least two steps

Every run must say what the first one says, within 1e-5 of it.
"""

import array
import glob
import json
import math
import sys


def tensors(checkpoint):
    """The parameters of a checkpoint, each a list of numbers."""
    found = {}
    for path in glob.glob(f"{checkpoint}/model*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        for name, tensor in header.items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                assert tensor["dtype"] == "F32", tensor
                found[name] = array.array("f", data[begin:end])
    return found


def norm(vectors):
    return math.sqrt(math.fsum(x * x for vector in vectors for x in vector))


def near(what, a, b):
    if not abs(a - b) <= 1e-5 * abs(b):
        sys.exit(f"{what}: {a} is not {b}")


first = {}
for run in sys.argv[1:]:
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as lines:
        line = json.loads(lines.readlines()[-1])
    said = {key: value for key, value in line.items() if "_norm." in key}
    first = first or said
    if said.keys() != first.keys():
        sys.exit(f"{run} and {sys.argv[1]} watch other parameters: {sorted(said)}")
    for key, value in said.items():
        near(f"{run}: {key}", value, first[key])
    near(f"{run}: all gradients", line["grad_norm.all"], line["grad_norm"])
    before, after = (tensors(path) for path in sorted(glob.glob(f"{run}/checkpoints/step-*"))[-2:])
    groups = {key.split(".", 1)[1] for key in said}
    for group in sorted(groups):
        names = [name for name in after if group == "all" or f"{name}.".startswith(f"{group}.")]
        if not names:
            sys.exit(f"{run}: {group} is no group of parameters")
        near(f"{run}: parameters of {group}", line[f"param_norm.{group}"], norm(before[name] for name in names))
        change = norm([a - b for a, b in zip(after[name], before[name])] for name in names)
        near(f"{run}: updates of {group}", line[f"update_norm.{group}"], change)
    if not groups > {"all"}:
        sys.exit(f"{run}: only {groups}")
