"""encoded.py: what `mdl data encode` makes of files, and whether it is what a package makes; for both comparisons."""

import subprocess


def ours(mdl, tokenizer, files):
    subprocess.run([mdl, "data", "encode", *files, "--tokenizer", tokenizer, "--raw", "--type", "u32", "-o", "tokens"],
                   check=True, capture_output=True)
    raw = open("tokens", "rb").read()
    return [int.from_bytes(raw[i:i + 4], "little") for i in range(0, len(raw), 4)]


def same(what, wanted, got):
    if wanted == got:
        print(f"{what}: {len(wanted)} tokens are the same")
        return True
    at = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), min(len(wanted), len(got)))
    print(f"{what}: token {at} is {got[at:at + 4]}, not {wanted[at:at + 4]}")
    return False
