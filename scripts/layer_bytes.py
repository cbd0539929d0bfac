#!/usr/bin/env python3
# layer_bytes.py: what each instruction of one layer moves, forward and backward, as the compiler reckons it.
#
#   scripts/layer_bytes.py FILE RECIPE [--unit MB] [OPTION of mdlc print...]
#
# Takes the second of two layers. --unit: megabytes that are one pass, such as those of the block's inner values.
# MDLC names the compiler: build/mdlc.
import os
import re
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: layer_bytes.py FILE RECIPE [--unit MB] [OPTION...]")
    file, recipe, options, unit = sys.argv[1], sys.argv[2], sys.argv[3:], 0.0
    if "--unit" in options:
        at = options.index("--unit")
        unit = float(options[at + 1])
        del options[at : at + 2]
    command = [os.environ.get("MDLC", "build/mdlc"), "print", file, "--recipe", recipe, "--set", "layers=2"]
    text = subprocess.run(command + options + ["--after", "lower"], check=True, capture_output=True, text=True).stdout
    total = products = 0.0
    for line in text.split("\n"):
        found = re.match(r"\s+(\d+) (\w+)\s+(\S*layers\.1\.\S*)\s+(.*?)([\d.e+-]+) MB", line)
        if found is None:
            continue
        megabytes = float(found[5])
        total += megabytes
        products += megabytes if found[2] == "gemm" else 0
        passes = f"{megabytes / unit:7.2f}" if unit else ""
        print(f"{megabytes:10.2f} MB {passes}  {found[2]:8} {found[3]:40} {found[4].strip()}")
    passes = f" {total / unit:7.1f} passes," if unit else ""
    print(f"{total:10.0f} MB,{passes} of which products {products:.0f}")


if __name__ == "__main__":
    main()
