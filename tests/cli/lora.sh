#!/bin/bash
# lora.sh: adapters beside frozen weights: what a plan has of those, training from weights of others, checkpoints of adapters
# alone, and a model into which adapters are merged.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt
SIZES="vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 4, ffn = 24"
cp "$ROOT/models/llama.mdl" lora.mdl
cat >> lora.mdl << END
recipe base {
  model llama($SIZES);
  data text("text.txt", tokenizer = bytes);
  batch = 2;
  seq = 16;
  steps = 4;
  optimizer adamw(lr = constant(1e-2), clip = 1.0);
}
recipe tune {
  model llama($SIZES, rank = 2, alpha = 6);
  data text("text.txt", tokenizer = bytes);
  batch = 2;
  seq = 16;
  steps = 6;
  freeze *;
  optimizer lora: adamw(lr = constant(3e-2), clip = 1.0);
}
layout two { mesh tp = 2; kv_heads, ffn, vocab -> tp; }
layout z1 { mesh dp = 2; batch -> dp; state -> dp; }
layout fsdp { mesh dp = 2; batch -> dp; param, grad, state -> dp; }
layout stages { mesh pp = 2; layers -> pp; microbatches = 2; }
END
tune() { train lora.mdl --recipe tune --device cpu "$@"; }

# The plan: gradients and moments of adapters alone; frozen weights in 16 bits, without copies, if the precision says so.
expect 0 "$MDLC" check lora.mdl --recipe tune
expect 0 "$MDLC" compile lora.mdl --recipe tune -o tune.mdlx
expect 0 "$MDL" inspect tune.mdlx
mentions out "parameters          49 tensors" "of these frozen     21 tensors"
for precision in bf16 bf16_frozen fp8_frozen; do
  expect 0 "$MDLC" explain lora.mdl --recipe tune --precision $precision --json
  cp out $precision.json
done
cat > states.py << 'END'
import json


def size(tensors):
    return sum(t["bytes"] for t in tensors)


def states(precision):
    said = json.load(open(precision + ".json"))
    parameters = [t for t in said["tensors"] if t["role"] == "parameter"]
    adapters = [t for t in parameters if ".lora." in t["name"]]
    frozen = [t for t in parameters if t["frozen"]]
    moments = [t for t in said["tensors"] if t["role"] == "optimizer"]
    copies = [t for t in said["tensors"] if t["role"] == "copy"]
    assert len(adapters) == 28 and len(adapters) + len(frozen) == len(parameters), (len(adapters), len(frozen))
    assert {t["name"] for t in moments} == {f"adamw.{m}.{t['name']}" for m in "mv" for t in adapters}
    assert said["memory"][0]["gradients"] <= size(adapters) * 1.5, said["memory"][0]
    return frozen, copies, said["memory"][0]


frozen, copies, wide = states("bf16")
narrow_frozen, narrow_copies, narrow = states("bf16_frozen")
assert {t["type"] for t in frozen} == {"f32"} and {t["type"] for t in narrow_frozen} == {"bf16"}
assert 2 * size(narrow_frozen) == size(frozen)
assert any(".lora." not in t["name"] for t in copies) and all(".lora." in t["name"] for t in narrow_copies)
saved = wide["parameters"] + wide["copies"] - narrow["parameters"] - narrow["copies"]
assert saved >= 0.6 * size(frozen), (wide, narrow)

coded, scales, least = states("fp8_frozen")
weights = [t for t in coded if t["type"] == "e4m3"]
others = {"table", "final_norm.scale"} | {f"layers.{i}.{n}_norm.scale" for i in (0, 1) for n in ("attn", "mlp")}
assert {t["name"] for t in coded if t["type"] == "bf16"} == others and len(weights) == 15, coded
assert {t["name"] for t in scales if ".lora." not in t["name"]} == {"scale." + t["name"] for t in weights}
assert least["parameters"] == narrow["parameters"] - size(weights)
END
python3 states.py || die "what a plan has of frozen weights"
expect 0 "$MDLC" print lora.mdl --recipe tune --precision fp8_frozen --layout stages --rank 1
mentions out '"scale.layers.1.q.w"'

# From weights of others: adapters are fresh, and add nothing yet.
train lora.mdl --recipe base --out base --device cpu
expect 0 "$MDL" convert base --to hf -o base-hf
tune --from base --out from-run
mentions out "parameters, of which 928 are trained, adamw"
mentions out "28 parameters of adapters are fresh: 'layers.0.down.lora.a'"
tune --from base-hf --out from-hf
same "run or hf" "$(weights from-run 6)" "$(weights from-hf 6)"
expect 1 "$MDL" train lora.mdl --recipe tune --set layers=3 --from base --out missing --device cpu
mentions err "missing: 'layers.2.attn_norm.scale' [16]"
! grep -q "lora" err || die "fresh adapters are called missing"

# Frozen weights are as they were; adapters are not.
cat > tensors.py << 'END'
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def same(a, b, names):
    return all(a[n][1] == b[n][1] for n in names)


before, after = (tensors(path) for path in sys.argv[1:])
assert set(before) <= set(after) and same(before, after, before), "a frozen weight has changed"
adapters = [n for n in after if ".lora." in n]
assert set(adapters) | set(before) == set(after) and all(any(after[n][1]) for n in adapters), "an adapter is 0"
END
model() { printf '%s/checkpoints/step-%08d/model.safetensors' "$1" "$2"; }
python3 tensors.py "$(model base 4)" "$(model from-run 6)"

# Under layouts, and in 16 bits, losses are those of one rank.
losses from-run > plain
for layout in two z1 fsdp stages; do
  tune --from base --out "from-$layout" --layout $layout
  losses "from-$layout" > other
  paste -d' ' plain other | awk '{ if ($2 - $4 > 1e-4 || $4 - $2 > 1e-4) exit 1 }' || { cat plain other; die "$layout"; }
done
tune --from base --out bf16 --precision bf16
for layout in single fsdp stages; do
  tune --from base --out "bf16-$layout" --precision bf16_frozen --layout $layout
  losses "bf16-$layout" > other
  losses bf16 | paste -d' ' - other | awk '{ if ($2 - $4 > 0.02 || $4 - $2 > 0.02) exit 1 }' || die "16 bits, $layout"
done
# In 8 bits: rounded once, alike under all layouts and when it goes on; checkpoints hold the numbers in 16 bits.
for layout in single two fsdp stages; do
  tune --from base --out "fp8-$layout" --precision fp8_frozen --layout $layout --steps 3
  losses "fp8-$layout" > other
  losses bf16 | head -3 | paste -d' ' - other | awk '{ if ($2 - $4 > 0.05 || $4 - $2 > 0.05) exit 1 }' || die "8 bits, $layout"
done
cat > eight.py << 'END'
from array import array
import sys

names = sys.argv[1:]
sys.argv[2:] = sys.argv[1:2]
exec(open("tensors.py").read().split("before, after")[0])


def numbers(tensor):
    dtype, data = tensor
    return array("f", data if dtype == "F32" else b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2)))


base, *runs = (tensors(name) for name in names)
worst = 0
for name, tensor in base.items():
    assert all(run[name] == runs[0][name] for run in runs), name + " depends on the layout"
    # The nearest of e4m3 is wrong by 1/17 at most; by way of the nearest of 16 bits it would be by more.
    most = 0.05883 if name.endswith(".w") else 0.004
    for was, now in zip(numbers(tensor), numbers(runs[0][name])):
        error = abs(was - now) / max(abs(was), 1e-4)
        assert error <= most, (name, was, now)
        worst = max(worst, error)
assert worst > 0.03, "nothing was rounded to 8 bits"
END
python3 eight.py "$(model base 4)" "$(model fp8-single 3)" "$(model fp8-two 3)" "$(model fp8-fsdp 3)" "$(model fp8-stages 3)" ||
  die "weights in 8 bits"
train fp8-single --resume --steps 6 --device cpu
tune --from base --out fp8-whole --precision fp8_frozen
same "in two parts, 8 bits" "$(weights fp8-single 6)" "$(weights fp8-whole 6)"
tune --from base --out fp8-alone --precision fp8_frozen --save-trained
same "saved alone, 8 bits" "$(losses fp8-whole)" "$(losses fp8-alone)"
for run in fp8-whole fp8-alone; do
  expect 0 "$MDL" eval $run
  grep '^loss' out > $run.loss
  expect 0 "$MDL" generate $run --prompt ab --tokens 3 --tokenizer bytes
done
same "evaluated, 8 bits" "$(cat fp8-whole.loss)" "$(cat fp8-alone.loss)"
tune --out fp8-first --precision fp8_frozen --steps 1
train lora.mdl --recipe tune --resume --out fp8-whole --precision bf16_frozen --steps 7 --device cpu
cat lora.mdl - > both.mdl << 'END'
precision both { base bf16; frozen e4m3; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 8); }
END
expect 0 "$MDLC" explain both.mdl --recipe tune --precision both --set embed=32 --set ffn=32 --set rank=16 --set hd=16
mentions out "its parameter is stored in 8 bits, with other scales"

expect 0 "$MDL" eval bf16-single
tune --out biased --precision bf16_frozen --set biased=true --steps 2
train bf16-single --resume --steps 7 --device cpu
train lora.mdl --recipe tune --resume --out from-run --precision bf16_frozen --steps 7 --device cpu
expect 0 "$MDL" verify from-run

# Checkpoints of adapters alone: the same training, found again where the weights are, and refused where they changed.
tune --from base-hf --save-trained --out alone --steps 3
mentions out "checkpoints hold what is trained alone; 21 frozen parameters stay in $PWD/base-hf"
python3 - "$(model alone 3)" << 'END' || die "a checkpoint of adapters alone"
import sys
sys.argv = ["tensors.py", sys.argv[1], sys.argv[1]]
source = open("tensors.py").read().split("before, after")[0]
exec(source)
assert len(tensors(sys.argv[1])) == 28 and all(".lora." in n for n in tensors(sys.argv[1]))
END
train alone --resume --device cpu
same "in two parts" "$(losses alone)" "$(losses from-hf)"
expect 0 "$MDL" verify alone
expect 1 "$MDL" train lora.mdl --recipe tune --resume --out alone --precision fp64 --steps 9 --device cpu
mentions err "'layers.0.down.lora.a' is F32 [24, 2] there, F64 [24, 2] in the plan"
tune --from base-hf --save-trained --out alone-64 --steps 1 --precision fp64
expect 1 "$MDL" train lora.mdl --recipe tune --resume --out alone-64 --precision fp32 --steps 2 --device cpu
mentions err "'layers.0.down.lora.a' is F64 [24, 2] there, F32 [24, 2] in the plan"
expect 0 "$MDL" inspect alone
expect 0 "$MDL" eval from-hf
cp out whole
expect 0 "$MDL" eval alone
same "evaluated" "$(grep '^loss' whole)" "$(grep '^loss' out)"
expect 0 "$MDL" generate alone --prompt ab --tokens 3 --tokenizer bytes
tune --from base --save-trained --out alone-run --precision bf16_frozen --layout fsdp
mentions out "stay in $PWD/base/checkpoints/step-00000004"
expect 0 "$MDL" eval alone-run

# Merged: the plain model, whose scores are those of the adapted one.
logits() { "$BUILD/tests/convert_logits" "$1" 10 32 65 97 104; }
close() {  # A B MOST
  paste -d' ' "$1" "$2" | awk -v most="$3" '{ n = NF / 2; for (i = 1; i <= n; i++) { d = $i - $(i + n); d = d < 0 ? -d : d; if (d > worst) worst = d } }
    END { print worst; exit NR != 5 || worst > most }'
}
merged() {  # RUN: as a run, and as a directory of Hugging Face
  expect 0 "$MDL" convert "$1" --merge -o "$1-merged"
  mentions out "with 14 adapters added to its weights" "by models/llama.hf"
  expect 0 "$MDL" convert "$1" --merge --to hf -o "$1-merged-hf"
  expect 0 "$MDL" convert "$1-merged-hf" -o "$1-back"
  same "$1: a run or hf" "$(sha256sum < "$(model "$1-merged" 0)")" "$(sha256sum < "$(model "$1-back" 0)")"
}
merged from-hf
merged alone
merged alone-run
same "merged of adapters alone" "$(sha256sum < "$(model from-hf-merged 0)")" "$(sha256sum < "$(model alone-merged 0)")"
if [ -x "$BUILD/tests/convert_logits" ]; then
  logits from-hf > adapted
  logits from-hf-merged > one
  logits base > other
  close adapted one 1e-5 || die "scores of the merged model are others"
  ! close adapted other 1e-3 > /dev/null || die "adapters change nothing"
fi
expect 0 "$MDL" eval from-hf-merged
! grep -q 'rank = 2\|freeze' from-hf-merged/resolved.mdl || die "the merged text has adapters"
train from-hf-merged --resume --steps 1 --device cpu
train lora.mdl --recipe base --from from-hf-merged --out again --steps 1 --device cpu

# What is wrong.
expect 1 "$MDL" convert from-hf --to hf -o wrong
mentions err "the model has adapters, such as 'layers.0." "--merge"
expect 1 "$MDL" convert base --merge -o wrong
mentions err "has no adapters that models/llama.hf names"
expect 2 "$MDL" convert from-hf --merge --set rank=1 -o wrong
expect 2 "$MDL" train lora.mdl --recipe tune --save-trained --out nothing --device cpu
expect 2 "$MDL" train lora.mdl --recipe base --from base --save-trained --out nothing --device cpu
mentions err "the recipe freezes none"
odd=$'d\xff'  # a manifest cannot name it: said before anything is trained
mkdir "$odd"
cp -r base "$odd/base"
expect 1 "$MDL" train lora.mdl --recipe tune --from "$odd/base" --save-trained --out nothing --device cpu
mentions err "is no UTF-8: give it another name"
[ ! -e nothing ] || die "a run was left that nothing could be saved of"
cp -r base again-base
expect 2 "$MDL" train lora.mdl --recipe tune --restart --out again-base --from again-base --save-trained --device cpu
mentions err "again-base/checkpoints/step-00000004, which --restart moves"
[ ! -e again-base/before-1 ] || die "what is refused has moved something"
tune --restart --out again-base --from again-base --steps 1
mkdir -m 700 mine  # by the user
expect 1 "$MDL" train lora.mdl --recipe tune --from "$odd/base" --save-trained --out mine --device cpu
same "what was there" "$(ls -ld mine | cut -c1-10) $(ls mine)" "drwx------ "
tune --from "$odd/base" --out from-odd --steps 1
expect 1 "$MDL" train lora.mdl --recipe tune --resume --out alone-run --steps 9 --precision bf16_frozen --trunk "$odd/base" --device cpu
mentions err "is no UTF-8: give it another name"
sed 's/^adapter \*\.w = .*/adapter *.w = *.lora.a/' "$ROOT/models/llama.hf" > bad.hf
expect 1 "$MDL" convert from-hf --merge --mapping bad.hf -o wrong
mentions err "bad.hf:" "one \`*\` in each name"
sed 's/^adapter \*\.w = .*/adapter *.v = *.lora.a, *.lora.b/' "$ROOT/models/llama.hf" > bad.hf
expect 1 "$MDL" convert from-hf --merge --mapping bad.hf -o wrong
mentions err "is a factor of an adapter, but there is no 'layers.0.down.v'"
[ ! -e wrong ] || die "something is left"
python3 - base-hf/model.safetensors << 'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-4, 2)
    file.write(b"\0\0\0\0")
END
expect 1 "$MDL" eval alone
mentions err "holds what was trained alone" "is another there"
expect 1 "$MDL" convert alone --merge -o wrong
mentions err "is not what it was in $PWD/base-hf"
python3 - base-hf/model.safetensors << 'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-4, 2)
    file.write(b"\0\0\xc0\x7f")
END
expect 4 "$MDL" train lora.mdl --recipe tune --from base-hf --out odd --steps 1 --device cpu
mentions err "holds numbers that are not finite, and no step changes it, since it is frozen"
rm -r base-hf
expect 1 "$MDL" train alone --resume --device cpu --steps 9
mentions err "$PWD/base-hf"
