#!/bin/bash
# ablate.sh: combinations on the GPU, a process for each row: losses agree, and what is measured is there.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
echo "layout wide { mesh dp = 1024; batch -> dp; }" >> small.mdl
expect 0 "$MDL" ablate small.mdl layout=single microbatches=1,2 precision=fp32,bf16 --device "$DEVICE" --steps 8 --out table
cat out
python3 -c '' 2> /dev/null || exit 0
python3 - "$DEVICE" << 'END' || die "ablate.jsonl is not what was asked for"
import json, sys

rows = [json.loads(line) for line in open("table/ablate.jsonl")]
assert len(rows) == 4 and all(row["state"] == "done" for row in rows)
assert [row["verdict"] for row in rows] == ["none", "same", "same", "same"]
for row in rows:
    assert row["tokens_per_s"] > 0 and row["val_loss"] > 0 and row["tflops"] > 0
    assert row["measured_bytes"] > 0.5 * row["memory_bytes"], row
    if sys.argv[1] != "cpu":
        assert 0 < row["mfu"] < 1 and row["beside_bytes"] > 0
        assert row["measured_bytes"] < row["memory_bytes"] + (64 << 20), row
END
[ "$DEVICE" != cpu ] || exit 0
mentions out "a process for each rank" "TFLOP/s" "of peak"
# More ranks than there are GPUs: said, and no failure of the others.
expect 0 "$MDL" ablate small.mdl layout=single,wide batch=1024 --device "$DEVICE" --steps 1 --out absent
mentions out "not run: 1024 ranks, each on a GPU of its own"
