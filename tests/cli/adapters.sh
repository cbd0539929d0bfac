#!/bin/bash
# adapters.sh: training and everything else that begins with adapters alone: of a run that saved what it trained, whose
# frozen weights may have moved, and of directories of PEFT.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt
SIZES="vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 4, ffn = 24"
DATA='data text("text.txt", tokenizer = bytes); batch = 2; seq = 16;'
cp "$ROOT/models/llama.mdl" tune.mdl
cat >> tune.mdl << END
recipe base { model llama($SIZES); $DATA steps = 2; optimizer adamw(lr = constant(1e-2), clip = 1.0); }
recipe tune { model llama($SIZES, rank = 2, alpha = 6); $DATA steps = 3; freeze *;
  optimizer lora: adamw(lr = constant(3e-2), clip = 1.0); }
recipe still { model llama($SIZES, rank = 2, alpha = 6); $DATA steps = 1; freeze *;
  optimizer lora: adamw(lr = constant(0.0), decay = 0, clip = 1.0); }
recipe some { model llama($SIZES, rank = 2, alpha = 6); $DATA steps = 2; freeze *;
  optimizer q.lora: adamw(lr = constant(3e-2), clip = 1.0); optimizer v.lora: adamw(lr = constant(3e-2), clip = 1.0); }
recipe norms { model llama($SIZES, rank = 2, alpha = 6); $DATA steps = 2; freeze *;
  optimizer lora: adamw(lr = constant(3e-2)); optimizer final_norm: adamw(lr = constant(1e-2)); }
END
tune() { train tune.mdl --recipe tune --device cpu "$@"; }
still() { train tune.mdl --recipe still --device cpu "$@"; }
model() { printf '%s/checkpoints/step-%08d/model.safetensors' "$1" "$2"; }
cat > tensors.py << 'END'
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], tuple(t["shape"]), data[slice(*t["data_offsets"])]) for name, t in header.items()}


def write(path, held):
    header, data = {}, b""
    for name, (dtype, shape, elements) in held.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(elements)]}
        data += elements
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


END
python() { cat tensors.py - > script.py && python3 script.py "$@"; }
train tune.mdl --recipe base --out base --device cpu
expect 0 "$MDL" convert base --to hf -o base-hf
sed -i 's/"eos_token_id": [a-z0-9]*/"eos_token_id": 7/' base-hf/config.json
echo '{}' > base-hf/tokenizer.json
tune --from base-hf --save-trained --out alone

# A run begins with adapters alone: frozen weights are found where those were trained.
still --from alone --out still
mentions out "weights   from alone"
python "$(model base 2)" "$(model alone 3)" "$(model still 1)" << 'END'
base, alone, still = (tensors(path) for path in sys.argv[1:])
assert len(alone) == 28 and still == base | alone, "something has changed on the way"
END
tune --from alone --save-trained --out chained --precision bf16_frozen
mentions out "21 frozen parameters stay in $PWD/base-hf"
expect 0 "$MDL" eval chained
still --from base --adapters alone --out beside
cmp "$(model still 1)" "$(model beside 1)" || die "beside the same weights named otherwise"
! grep -q "are others than those" out || die "weights that are the same are called others"
expect 0 "$MDL" convert alone --merge -o merged
cmp base-hf/config.json merged/hf/config.json || die "what came with the weights is lost"
expect 0 "$MDL" convert alone --merge --to hf -o merged-hf
cmp base-hf/tokenizer.json merged-hf/tokenizer.json || die "the tokenizer of the weights is lost"
mentions merged-hf/config.json '"eos_token_id": 7'
# What adapters, and what they were trained beside, were trained on goes with them.
trained_on() {
  sed -n '/"trained_on"/,/\]/s/.*"\(data_hash\|share\)": "*\([^",]*\).*/\2/p' \
    "$(printf '%s\n' "$1"/checkpoints/*/manifest.json | tail -n 1)" | xargs -n 2 | sort
}
grown() { train tune.mdl --recipe still --device cpu --set 'validation=0.5' "$@"; }
seq 5000 > numbers.txt
tune --data numbers.txt --from base --save-trained --out counted
same "of two" "$(trained_on counted | wc -w)" 4
expect 0 "$MDL" convert counted --merge -o counted-merged
same "merged" "$(trained_on counted-merged)" "$(trained_on counted)"
cp -r counted counted-past
older counted-past
expect 0 "$MDL" convert counted-past --merge -o past-merged
same "merged, of before" "$(trained_on past-merged)" "$(trained_on counted)"
grown --from counted-merged --out grown
mentions out "held out, and were trained on before in part"
grown --from base-hf --out ungrown
! grep -q "trained on before" out || die "weights that nothing is known of are called trained on something"
grown --from base-hf --adapters alone --out grown-beside
mentions out "held out, and were trained on before in part"
tune --data numbers.txt --from base-hf --adapters counted-past --save-trained --out beside-past
same "adapters of before" "$(trained_on beside-past | sort -u)" "$(trained_on counted | sort -u)"
expect 0 "$MDL" eval counted-merged --json
mentions out '"trained":false' '"changed":false'
expect 0 "$MDL" eval counted-merged --json --data numbers.txt
mentions out '"trained":true'
expect 0 "$MDL" inspect alone
mentions out "leaves out 21 frozen parameters, which are those of $PWD/base-hf"
expect 0 "$MDL" eval alone
cp out whole

# Beside other weights it is said; what is no adapters alone is refused.
train tune.mdl --recipe base --out other --device cpu --steps 1
still --from other --adapters alone --out on-other
mentions out "21 parameters are others than those beside which alone was trained"
expect 1 "$MDL" train tune.mdl --recipe tune --device cpu --from base --adapters still --out wrong-1
mentions err "still holds a whole model, not adapters alone"
expect 1 "$MDL" train tune.mdl --recipe tune --device cpu --from base --adapters nowhere --out wrong-2
mentions err "no adapters to begin with: nowhere"
expect 2 "$MDL" train tune.mdl --recipe tune --device cpu --adapters alone --out wrong-3
mentions err "--from DIR"
expect 1 "$MDL" train tune.mdl --recipe tune --set rank=4 --device cpu --from base --adapters alone --out wrong-4
mentions err "do not fit the model" "'layers.0.down.lora.a' is [24, 2] there, [24, 4] is wanted"

# Another scale than the adapters were trained with is refused; other constants are said.
expect 1 "$MDL" train tune.mdl --recipe tune --set alpha=12 --device cpu --from alone --out wrong-scale
mentions err "trained with alpha / rank = 3, which is 6 in the model: --set alpha=6 makes it the same"
expect 1 "$MDL" train tune.mdl --recipe tune --set alpha=12 --device cpu --from base --adapters alone --out wrong-scale
mentions err "trained with alpha / rank = 3, which is 6 in the model"
still --set alpha=12 --from alone --partial --out other-scale
mentions out "trained with alpha / rank = 3, which is 6 in the model"
still --set theta=500000 --set seq=8 --from base --out other-theta
mentions out "constants of the model that the weights are of: theta is 10000 there, 500000 here"
! grep -q "alpha is\|seq is\|key is" out || die "what training chooses, or has no part in it, is called another constant"

# Adapters that are not trained are frozen and fresh: the checkpoint holds them.
train tune.mdl --recipe some --device cpu --from base-hf --save-trained --out some
mentions out "28 parameters of adapters are fresh" "21 frozen parameters stay in $PWD/base-hf"
expect 0 "$MDL" eval some
train some --resume --device cpu --steps 3
expect 0 "$MDL" convert some --merge -o some-merged

# To PEFT: names, shapes and settings; and back beside the weights.
expect 0 "$MDL" convert alone --to peft -o peft
mentions out "28 tensors" "adapters of step 3"
expect 0 "$MDL" convert some --to peft -o peft-some
python peft "$PWD/base-hf" "$(model alone 3)" << 'END'
path, base, alone = sys.argv[1:]
held, ours = tensors(path + "/adapter_model.safetensors"), tensors(alone)
said = json.load(open(path + "/adapter_config.json"))
name = "base_model.model.model.layers.1.self_attn.q_proj.lora_%s.weight"
assert len(held) == 28 and held[name % "A"][1] == (2, 16) and held[name % "B"][1] == (16, 2), held[name % "A"][:2]
a = struct.unpack("<32f", ours["layers.1.q.lora.a"][2])
assert struct.unpack("<32f", held[name % "A"][2]) == tuple(a[i * 2 + j] for j in range(2) for i in range(16))
want = dict(peft_type="LORA", task_type="CAUSAL_LM", r=2, lora_alpha=6, bias="none", base_model_name_or_path=base)
assert {key: said[key] for key in want} == want, said
assert sorted(said["target_modules"]) == sorted(f"{m}_proj" for m in ("q", "k", "v", "o", "gate", "up", "down"))
some = tensors("peft-some/adapter_model.safetensors")
assert len(some) == 8 and all("q_proj" in n or "v_proj" in n for n in some), "adapters that add nothing are written"
assert sorted(json.load(open("peft-some/adapter_config.json"))["target_modules"]) == ["q_proj", "v_proj"]
END
expect 0 "$MDL" convert peft -o back --data text.txt    # the model is where adapter_config.json says
expect 0 "$MDL" convert base-hf --adapters peft -o back-too --data text.txt
cmp "$(model back 0)" "$(model back-too 0)" || die "with the model named and found"
# In 8 bits the run holds what training would begin with: weights rounded once.
expect 0 "$MDL" convert base-hf --adapters peft -o back-8 --data text.txt --precision fp8_frozen
still --from base-hf --adapters peft --out still-8 --precision fp8_frozen
cmp "$(model back-8 0)" "$(model still-8 1)" || die "converted to 8 bits, and read in 8 bits"
python "$(model base 2)" "$(model alone 3)" "$(model back 0)" << 'END'
base, alone, back = (tensors(path) for path in sys.argv[1:])
assert back == base | alone, "adapters of PEFT are others than those written"
END
expect 0 "$MDL" convert back --to peft -o peft-again
cmp peft/adapter_model.safetensors peft-again/adapter_model.safetensors || die "PEFT, there and back"
expect 0 "$MDL" convert back --merge -o back-merged
cmp "$(model merged 0)" "$(model back-merged 0)" || die "merged, there and back"
grep -q "rank = 2, alpha = 6" back/model.mdl && grep -q "freeze \*;" back/model.mdl || die "the recipe has no adapters"
expect 0 "$MDL" convert base-hf --adapters peft-some -o back-some --data text.txt  # those that it lacks add nothing
expect 0 "$MDL" convert back-some --to peft -o peft-some-again
cmp peft-some/adapter_model.safetensors peft-some-again/adapter_model.safetensors || die "some of PEFT, there and back"
still --from peft --out from-peft
cmp "$(model still 1)" "$(model from-peft 1)" || die "training that begins with PEFT"
tune --from base-hf --adapters peft-some --save-trained --out from-some
mentions out "20 parameters of adapters are fresh" "adapters from peft-some" "stay in $PWD/base-hf"

# What PEFT cannot say, and what we cannot.
expect 1 "$MDL" convert base --to peft -o wrong
mentions err "has no adapters that"
train tune.mdl --recipe norms --device cpu --from base --out norms
expect 1 "$MDL" convert norms --to peft -o wrong
mentions err "'final_norm.scale' is trained and no adapter" "--merge --to hf"
expect 2 "$MDL" convert alone --to peft --merge -o wrong
refused() {  # KEY VALUE WORD...: adapter_config.json with another value
  rm -rf odd && cp -r peft odd
  python "$1" "$2" << 'END'
said = json.load(open("odd/adapter_config.json"))
said[sys.argv[1]] = json.loads(sys.argv[2])
json.dump(said, open("odd/adapter_config.json", "w"))
END
  expect 1 "$MDL" convert base-hf --adapters odd -o wrong
  mentions err "${@:3}"
}
refused use_dora true "use_dora is true there, false in the model"
refused peft_type '"IA3"' "peft_type"
refused modules_to_save '["lm_head"]' "modules_to_save"
refused rank_pattern '{"q_proj": 4}' "rank_pattern"
refused init_lora_weights '"pissa"' "init_lora_weights"
refused new_kind 1 "new_kind"
refused alpha_pattern '{"q_proj": 4}' "alpha_pattern"
refused target_modules '["q_proj", "proj"]' "target_modules leaves out the module 'model.layers.0." "lora_A.weight'"
refused target_modules '".*\\.(q|k|v|o|gate|up)_proj"' "target_modules leaves out the module 'model.layers.0.mlp.down_proj'"
refused target_modules '".*(q"' "target_modules: the pattern" "cannot be read"
refused target_modules null "target_modules is not understood"
refused target_modules '[]' "target_modules is not understood"
refused target_modules '["q_proj", 3]' "target_modules is not understood: a list of names alone is wanted"
refused exclude_modules '["lm_head", "layers.1.mlp.up_proj"]' "exclude_modules names the module 'model.layers.1.mlp.up_proj'"
refused exclude_modules '".*layers\\.1\\..*"' "exclude_modules names the module 'model.layers.1."
refused exclude_modules '{"a": 1}' "exclude_modules is not understood"
refused layers_to_transform '[1]' "layers_to_transform leaves out the module 'model.layers.0."
refused layers_to_transform '0' "layers_to_transform leaves out the module 'model.layers.1."
refused layers_to_transform '"all"' "layers_to_transform is not understood"
refused layers_pattern '"layers"' "layers_pattern is not understood"
taken() {  # KEY VALUE [KEY VALUE]: says the same otherwise
  rm -rf odd && cp -r peft odd
  python "$@" << 'END'
said = json.load(open("odd/adapter_config.json"))
for key, value in zip(sys.argv[1::2], sys.argv[2::2]):
    said[key] = json.loads(value)
json.dump(said, open("odd/adapter_config.json", "w"))
END
  rm -rf otherwise
  expect 0 "$MDL" convert base-hf --adapters odd -o otherwise --data text.txt
  cmp "$(model back 0)" "$(model otherwise 0)" || die "$*"
}
taken target_modules '"all-linear"'
taken target_modules '".*_proj"' exclude_modules '["lm_head"]'
taken layers_to_transform '[0, 1, 7]'
taken layers_to_transform '[0, 1]' layers_pattern '["h", "layers"]'
refused r 3 "is [2, 16] there, [3, 16] is wanted"
refused r 0 "says that r is 0: the rank of adapters is a whole number from 1 on"
refused lora_alpha null "lora_alpha"
expect 1 "$MDL" train tune.mdl --recipe tune --set alpha=7 --device cpu --from base --adapters peft --out wrong-5
mentions err "lora_alpha is 6 there, 7 in the model"
[ ! -e wrong-5 ] || die "training that could not begin has left its directory"
mkdir wrong-5  # and one that was there, with something in it, stays
touch wrong-5/mine
expect 1 "$MDL" train tune.mdl --recipe tune --device cpu --from base --out wrong-5
[ -e wrong-5/mine ] || die "a directory that was there is gone"
expect 1 "$MDL" train tune.mdl --recipe base --device cpu --from base --adapters peft --out wrong-6
mentions err "has no adapters that" "for those in peft"
for change in "del held[name % 'B']" "held['base_model.model.lm_head.weight'] = held[name % 'A']"; do
  rm -rf odd && cp -r peft odd
  python "$change" << 'END'
name = "base_model.model.model.layers.0.self_attn.q_proj.lora_%s.weight"
held = tensors("odd/adapter_model.safetensors")
exec(sys.argv[1])
write("odd/adapter_model.safetensors", held)
END
  expect 1 "$MDL" convert base-hf --adapters odd -o wrong
  mentions err "do not fit the model" "base_model.model."
done
sed -i 's/"base_model_name_or_path": [^,]*/"base_model_name_or_path": "meta\/none"/' odd/adapter_config.json
expect 1 "$MDL" convert odd -o wrong
mentions err "'meta/none', which is no directory here" "--adapters odd"

# A sum that no f32 holds is no weight.
rm -rf odd && cp -r peft odd
sed -i 's/"lora_alpha": [^,]*/"lora_alpha": 1e300/' odd/adapter_config.json
expect 0 "$MDL" convert base-hf --adapters odd -o huge
for to in "" "--to hf"; do
  # shellcheck disable=SC2086
  expect 1 "$MDL" convert huge --merge $to -o wrong
  mentions err "with its adapter" "is more than F32 can hold"
done
[ ! -e wrong ] || die "weights that are not finite were made"

# Frozen weights move: every command says so and what to do, and takes them from there, if they are the same.
mv base-hf moved
expect 0 "$MDL" verify alone
mentions out "whole" "frozen parameters that it leaves out are no longer in $PWD/base-hf: --trunk DIR says where"
for command in "eval alone" "generate alone --prompt a --tokens 2 --tokenizer bytes" "convert alone --merge -o wrong" \
    "convert alone --to hf -o wrong --merge" "train alone --resume --steps 4 --device cpu" \
    "train tune.mdl --recipe tune --from alone --out wrong-run --device cpu"; do
  # shellcheck disable=SC2086
  expect 1 "$MDL" $command
  mentions err "holds what was trained alone" "$PWD/base-hf" "--trunk DIR"
done
[ ! -e wrong ] || die "something is left"
expect 0 "$MDL" convert alone --to peft -o peft-moved  # adapters need nothing else
expect 0 "$MDL" eval alone --trunk moved
same "evaluated" "$(grep '^loss' whole)" "$(grep '^loss' out)"
expect 0 "$MDL" eval alone --trunk base
expect 1 "$MDL" eval alone --trunk other
mentions err "is another there"
expect 0 "$MDL" generate alone --trunk moved --prompt a --tokens 2 --tokenizer bytes
expect 0 "$MDL" convert alone --trunk moved --merge -o moved-merged
cmp "$(model merged 0)" "$(model moved-merged 0)" || die "merged with weights that moved"
train alone --resume --steps 4 --device cpu --trunk moved
expect 0 "$MDL" eval alone  # the new checkpoint knows where they are
train alone --resume --steps 5 --device cpu --keep 1 --trunk alone  # which is no checkpoint that --keep removes
expect 0 "$MDL" eval alone
expect 0 "$MDL" inspect alone
mentions out "$PWD/moved"
expect 2 "$MDL" train tune.mdl --recipe tune --from base --trunk moved --out wrong-7 --device cpu

# Where nothing is left out, nothing can be elsewhere.
expect 1 "$MDL" eval base --trunk moved
mentions err "the checkpoint has all weights, so that --trunk moved says nothing"
expect 1 "$MDL" eval alone --trunk ""
mentions err "the directory of --trunk has no name"
