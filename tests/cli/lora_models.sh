#!/bin/bash
# lora_models.sh: adapters in every model that has a mapping: trained, to PEFT and back, and merged, tensor by tensor
# against W + alpha / rank * B A.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt
DATA='data text("text.txt", tokenizer = bytes); batch = 2; seq = 16;'
cat > formula.py << 'END'
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    held = {}
    for name, t in header.items():
        values = struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f", data[slice(*t["data_offsets"])])
        held[name] = (t["shape"], values)
    return held


base, peft, merged, turned, modules = sys.argv[1:]
said = json.load(open(peft + "/adapter_config.json"))
assert said["fan_in_fan_out"] == (turned == "turned"), said
assert sorted(said["target_modules"]) == sorted(modules.split()), said["target_modules"]
base, held, merged = tensors(base + "/model.safetensors"), tensors(peft + "/adapter_model.safetensors"), tensors(merged + "/model.safetensors")
assert set(base) == set(merged)
changed = set()
for name, ((rank, width), a) in held.items():
    if not name.endswith(".lora_A.weight"):
        continue
    (height, _), b = held[name.replace("lora_A", "lora_B")]
    weight = name.removeprefix("base_model.model.").replace(".lora_A", "")
    shape, before = base[weight]
    assert shape == ([width, height] if turned == "turned" else [height, width]) and rank == said["r"], (name, shape)
    scale, after, moved = said["lora_alpha"] / rank, merged[weight][1], 0
    for o in range(height):
        for i in range(width):
            at = i * height + o if turned == "turned" else o * width + i
            more = scale * sum(b[o * rank + r] * a[r * width + i] for r in range(rank))
            moved = max(moved, abs(more))
            assert abs(before[at] + more - after[at]) < 1e-6, (weight, o, i)
    assert moved > 1e-3, weight + " has an adapter that adds nothing"
    changed.add(weight)
assert all(base[name] == merged[name] for name in set(base) - changed), "a weight without an adapter has changed"
END
scores() { "$BUILD/tests/convert_logits" "$1" 10 32 65 97 104; }
model() {  # NAME TURNED MODULES SIZES
  cp "$ROOT/models/$1.mdl" "$1.mdl"
  cat >> "$1.mdl" << END
recipe base_of_test { model $1($4); $DATA steps = 1; optimizer adamw(lr = constant(1e-2)); }
recipe tune_of_test { model $1($4, rank = 2, alpha = 6); $DATA steps = 3; freeze *;
  optimizer lora: adamw(lr = constant(3e-2), clip = 1.0); }
END
  train "$1.mdl" --recipe base_of_test --out "$1-base" --device cpu
  expect 0 "$MDL" convert "$1-base" --to hf -o "$1-hf"
  train "$1.mdl" --recipe tune_of_test --from "$1-hf" --save-trained --out "$1-tuned" --device cpu
  expect 0 "$MDL" convert "$1-tuned" --to peft -o "$1-peft"
  expect 0 "$MDL" convert "$1-tuned" --merge --to hf -o "$1-merged"
  python3 formula.py "$1-hf" "$1-peft" "$1-merged" "$2" "$3" || die "$1: merged"
  # Windows as long as those before: of fewer rows libraries of products may add in another order.
  expect 0 "$MDL" convert "$1-hf" --adapters "$1-peft" -o "$1-back" --data text.txt --set seq=16
  expect 0 "$MDL" convert "$1-back" --to peft -o "$1-again"
  cmp "$1-peft/adapter_model.safetensors" "$1-again/adapter_model.safetensors" || die "$1: PEFT, there and back"
  [ ! -x "$BUILD/tests/convert_logits" ] || same "$1: scores" "$(scores "$1-tuned")" "$(scores "$1-back")"
}
ATTENTION="q_proj k_proj v_proj o_proj"
model gpt2 turned "c_attn c_proj c_fc" "vocab = 256, places = 32, embed = 16, layers = 2, heads = 2"
model bloom plain "query_key_value dense dense_h_to_4h dense_4h_to_h" "vocab = 256, embed = 16, layers = 2, heads = 2"
model gemma plain "$ATTENTION gate_proj up_proj down_proj" \
  "vocab = 256, embed = 16, layers = 2, kv_heads = 1, group = 2, hd = 8, ffn = 24"
model qwen3 plain "$ATTENTION gate_proj up_proj down_proj" \
  "vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 8, ffn = 24"
model mixtral plain "$ATTENTION" "vocab = 256, embed = 16, layers = 1, kv_heads = 2, group = 2, hd = 4, ffn = 8, experts = 4"
model olmoe plain "$ATTENTION" "vocab = 256, embed = 16, layers = 1, heads = 4, hd = 4, ffn = 8, experts = 4, choice = 2"

# One matrix has one first factor: adapters of queries, keys and values apart, or some of them, have no place in PEFT.
apart() {  # NAME: gpt2.mdl with another adapter than its own
  train "$1.mdl" --recipe tune_of_test --from gpt2-hf --mapping apart.hf --out "$1-tuned" --device cpu --steps 1
  expect 1 "$MDL" convert "$1-tuned" --to peft --mapping apart.hf -o wrong
}
grep -v "lora.shared" "$ROOT/models/gpt2.hf" > apart.hf
sed '/if rank > 0 {/,/^    }/d; s/heads, hd, bias = true/heads, hd, bias = true, rank = rank, alpha = alpha/' gpt2.mdl > three.mdl
apart three
mentions err "are first factors of adapters of one tensor, 'transformer.h.{layers}.attn.c_attn.weight'"
sed '/if rank > 0 {/,/^    }/d; s/    v = linear(h over embed to heads, hd, bias = true/&, rank = rank, alpha = alpha/' gpt2.mdl > one.mdl
apart one
mentions err "some weights of the tensor 'transformer.h.{layers}.attn.c_attn.weight' have adapters, and some have none"
[ ! -e wrong ] || die "something is left"
