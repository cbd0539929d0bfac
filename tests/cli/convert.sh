#!/bin/bash
# convert.sh: runs to directories of Hugging Face and back to the bit, training that begins with weights, and what is wrong
# with either. tests/convert compares scores with those of transformers.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt
SIZES="vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 4, ffn = 24"

# text FILE MODEL SIZES: a text with the recipe `own`
text() {
  cat "$ROOT/models/$2.mdl" > "$1"
  cat >> "$1" << END
recipe own {
  model $2($3);
  data text("text.txt", tokenizer = bytes);
  batch = 2;
  seq = 16;
  steps = 4;
  optimizer adamw(lr = constant(1e-2), clip = 1.0);
}
END
}

saved_weights() {  # RUN STEP
  sha256sum < "$(printf '%s/checkpoints/step-%08d/model.safetensors' "$1" "$2")"
}

# round MODEL SIZES: a run that was trained, as hf, is a run again with the same bits
round() {
  text "$1.mdl" "$1" "$2"
  train "$1.mdl" --recipe own --out "$1-run" --device cpu
  expect 0 "$MDL" convert "$1-run" --to hf -o "$1-hf"
  mentions out "of step 4" "by models/"
  expect 0 "$MDL" convert "$1-hf" -o "$1-back"
  same "$1: there and back" "$(saved_weights "$1-run" 4)" "$(saved_weights "$1-back" 0)"
  expect 0 "$MDL" convert "$1-back" --to hf -o "$1-again"
  same "$1: again" "$(sha256sum < "$1-hf/model.safetensors")" "$(sha256sum < "$1-again/model.safetensors")"
  same "$1: config.json" "$(cat "$1-hf/config.json")" "$(cat "$1-again/config.json")"
}
round llama "$SIZES"

# Numbers that are none stay, and it is said.
cp -r llama-hf odd-hf
truncate -s -4 odd-hf/model.safetensors
printf '\000\000\300\177' >> odd-hf/model.safetensors
expect 0 "$MDL" convert odd-hf -o odd
expect 0 "$MDL" convert odd --to hf -o odd-again
mentions out "note: 1 of the tensors holds numbers that are NaN or infinite, as in the run"
# What a killed program of the same number left, as in a container, is not mixed into what is made.
bash -c 'mkdir "stale-hf.part-$$" && echo {} > "stale-hf.part-$$/model.safetensors.index.json" && exec "$0" convert llama-run --to hf -o stale-hf' \
  "$MDL" > out
same "beside what a killed program left" "$(ls stale-hf)" "$(ls llama-hf)"
ls stale-hf.part-*/model.safetensors.index.json > /dev/null || die "what another left was removed"
round gpt2 "vocab = 256, places = 16, embed = 16, layers = 2, heads = 2"
round bloom "vocab = 256, embed = 16, layers = 2, heads = 2"
round gemma "vocab = 256, embed = 16, layers = 2, group = 2, hd = 8, ffn = 24"
round qwen3 "vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 8, ffn = 24"
round mixtral "vocab = 256, embed = 16, layers = 2, kv_heads = 2, group = 2, hd = 4, ffn = 24, experts = 4"
round olmoe "vocab = 256, embed = 16, layers = 2, heads = 2, hd = 8, ffn = 24, experts = 4, choice = 2"
# A size of a million is written as a text takes it, not as 1e+06.
cp -r llama-hf million-hf
sed -i 's/"vocab_size": 256/"vocab_size": 1000000/' million-hf/config.json
expect 1 "$MDL" convert million-hf -o million
mentions err "'model.embed_tokens.weight' is [256, 16] there, [1000000, 16] is wanted"
text tied.mdl llama "$SIZES, tied = true, biased = true"
train tied.mdl --recipe own --out tied-run --device cpu
expect 0 "$MDL" convert tied-run --to hf -o tied-hf
mentions out "qwen2 of step 4" "by models/qwen2.hf"
expect 0 "$MDL" convert tied-hf -o tied-back
same "biases and one table" "$(saved_weights tied-run 4)" "$(saved_weights tied-back 0)"
text window.mdl llama "$SIZES, window = 5"
train window.mdl --recipe own --out window-run --device cpu --steps 1
expect 0 "$MDL" convert window-run --to hf -o window-hf
mentions window-hf/config.json '"sliding_window": 5' '"model_type": "mistral"'

# What is made is of use: evaluated, gone on from, trained on from, under another layout too.
expect 0 "$MDL" eval llama-run
loss=$(sed -n 's/^loss *\([0-9.]*\) .*/\1/p' out)
expect 0 "$MDL" convert llama-hf -o llama-eval --model llama.mdl --recipe own --data text.txt
expect 0 "$MDL" eval llama-eval
same "the loss" "$loss" "$(sed -n 's/^loss *\([0-9.]*\) .*/\1/p' out)"
mentions out "step           0"
train llama-eval --resume --steps 2 --device cpu
[ -f llama-eval/checkpoints/step-00000002/optimizer.safetensors ] || die "the run was not gone on with"
train llama.mdl --recipe own --from llama-hf --out from-hf --steps 2 --device cpu
mentions out "weights   from llama-hf"
train llama.mdl --recipe own --from llama-run --out from-run --steps 2 --device cpu
train llama.mdl --recipe own --from llama-run/checkpoints/step-00000004 --out from-step --steps 2 --device cpu
train llama.mdl --recipe own --layout fsdp4 --set batch=4 --from llama-hf --out from-four --steps 1 --device cpu
same "hf or run" "$(weights from-hf 2)" "$(weights from-run 2)"
same "run or checkpoint" "$(weights from-run 2)" "$(weights from-step 2)"
same "resumed or begun" "$(weights from-hf 2)" "$(weights llama-eval 2)"
expect 0 "$MDL" generate llama-back --prompt ab --tokens 3 --tokenizer bytes
expect 0 "$MDL" inspect llama-back
expect 0 "$MDL" inspect llama-back/checkpoints/step-00000000
expect 0 "$MDL" verify llama-back
mentions out "whole"
train llama.mdl --recipe own --from llama-hf --out from-hf --restart --steps 1 --device cpu
mentions out "weights   from llama-hf" "restarted"

sed '$a layout two { mesh pp = 2; layers -> pp; microbatches = 2; }' llama.mdl > two.mdl
expect 0 "$MDL" convert llama-hf -o stages --model two.mdl --recipe own --layout two
same "of two stages" "$(saved_weights llama-run 4)" "$(saved_weights stages 0)"
train stages --resume --steps 1 --device cpu

# Shards, and elements of 16 bits.
expect 0 "$MDL" convert llama-run --to hf -o shards --shard 1
expect 2 "$MDL" convert llama-run --to hf -o never --shard 18446744073710
mentions err "--shard takes at most 9223372036854"
[ -f shards/model.safetensors ] || die "a small model needs no shards"
text wide.mdl llama "vocab = 256, embed = 256, layers = 1, kv_heads = 2, group = 2, hd = 64, ffn = 512"
train wide.mdl --recipe own --out wide --steps 1 --device cpu
expect 0 "$MDL" convert wide --to hf -o wide-hf --shard 1
[ -f wide-hf/model-00002-of-00004.safetensors ] || die "there are no shards: $(ls wide-hf)"
expect 0 "$MDL" convert wide-hf -o wide-back
same "shards" "$(saved_weights wide 1)" "$(saved_weights wide-back 0)"
expect 0 "$MDL" convert wide --to hf -o half --dtype bf16
[ "$(stat -c %s half/model.safetensors)" -lt 1900000 ] || die "bf16 is not smaller"
expect 0 "$MDL" convert half -o half-run
expect 0 "$MDL" convert half-run --to hf -o half-again --dtype bf16
cmp half/model.safetensors half-again/model.safetensors || die "bf16 there and back is not the same"

# A tokenizer goes with the weights.
if "$MDL" data train-tokenizer text.txt -o tokenizer.json --vocab 300 > /dev/null 2>&1; then
  text words.mdl llama "${SIZES/256/300}"
  sed -i 's/tokenizer = bytes/tokenizer = "tokenizer.json"/' words.mdl
  train words.mdl --recipe own --out words --steps 1 --device cpu
  expect 0 "$MDL" convert words --to hf -o words-hf
  cmp tokenizer.json words-hf/tokenizer.json || die "the tokenizer is another"
  ! grep -q "AutoTokenizer" out || die "a note on Qwen's tokenizer without Qwen"
  mentions words-hf/tokenizer_config.json '"PreTrainedTokenizerFast"' '"eos_token": "<|endoftext|>"'
  mentions words-hf/config.json '"eos_token_id": 299' '"bos_token_id": null' '"pad_token_id": null'
  text qwen.mdl llama "${SIZES/256/300}, biased = true"
  sed -i 's/tokenizer = bytes/tokenizer = "tokenizer.json"/' qwen.mdl
  train qwen.mdl --recipe own --out qwen --steps 1 --device cpu
  expect 0 "$MDL" convert qwen --to hf -o qwen-hf
  mentions out "AutoTokenizer of transformers cuts text as Qwen does"
  # Weights that are trained with the tokens of another tokenizer are said to be.
  train words.mdl --recipe own --steps 1 --out same-words --from words-hf
  ! grep -q "came with the tokenizer" out || die "the same tokenizer is called another"
  # So are those of a run that was trained with another one, or with bytes; several sources with one tokenizer have that.
  "$MDL" data train-tokenizer "$ROOT/README.md" -o readme.json --vocab 300 -q
  sed 's/tokenizer = "tokenizer.json"/tokenizer = "readme.json"/' words.mdl > readme.mdl
  sed 's/tokenizer = "tokenizer.json"/tokenizer = bytes/' words.mdl > in-bytes.mdl
  cp text.txt more.txt
  sed 's/data .*/data mix(a = text("text.txt", tokenizer = "tokenizer.json"), b = text("more.txt", tokenizer = "tokenizer.json"));/' \
    words.mdl > mix.mdl
  train mix.mdl --recipe own --steps 1 --out mixed --from words
  ! grep -q "trained with another tokenizer" out || die "the tokenizer of two sources is called another"
  train words.mdl --recipe own --steps 1 --out from-mixed --from mixed
  ! grep -q "trained with another tokenizer" out || die "the tokenizer of one source is called another"
  train readme.mdl --recipe own --steps 1 --out from-words --from words/checkpoints/step-00000001
  mentions out "the weights were trained with another tokenizer ($PWD/tokenizer.json) than the data has ($PWD/readme.json)"
  train in-bytes.mdl --recipe own --steps 1 --out bytes --from mixed
  mentions out "than the data has (bytes): they know none of its tokens"
  train words.mdl --recipe own --steps 1 --out from-bytes --from bytes
  mentions out "another tokenizer (bytes) than the data has"
  "$MDL" data train-tokenizer "$ROOT/README.md" -o tokenizer.json --vocab 300 -q
  train words.mdl --recipe own --steps 1 --out other-words --from words-hf
  mentions out "the weights came with the tokenizer words-hf/tokenizer.json, and the data has"
  expect 0 "$MDL" convert words-hf -o of-words
  expect 0 "$MDL" generate of-words --prompt A --tokens 2 --tokenizer words-hf/tokenizer.json
  if grep -q "note" err; then die "the tokenizer that came with the weights is taken for another"; fi
  expect 0 "$MDL" generate of-words --prompt A --tokens 2 --tokenizer readme.json
  mentions err "note: the tokenizer readme.json is not the one that this run was trained with"
  expect 0 "$MDL" convert words-hf -o words-back --data text.txt
  expect 0 "$MDL" generate words-back --prompt "You may" --tokens 3
  mentions out "You may"
  expect 0 "$MDL" eval words-back --batches 2
  # What transformers puts ahead of a text is said, since nothing is put there.
  ! grep -q "ahead of each text" out || die "no token is put ahead"
  sed -i 's/"post_processor": null/"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}]}/' words-hf/tokenizer.json
  expect 0 "$MDL" convert words-hf -o words-ahead
  mentions out "transformers puts <|endoftext|> ahead of each text" "--prompt '<|endoftext|>TEXT'"
  echo '{"add_bos_token": false, "bos_token": "<|endoftext|>"}' > words-hf/tokenizer_config.json
  expect 0 "$MDL" convert words-hf -o words-bare
  ! grep -q "ahead of each text" out || die "tokenizer_config.json says that none is"
fi

# What came with the weights and cannot be read, as a link into a cache that was cleared, is not left out without a word.
for file in tokenizer.json generation_config.json; do
  cp -r llama-hf broken-hf
  ln -s nowhere/$file broken-hf/$file
  expect 1 "$MDL" convert broken-hf -o broken
  mentions err "cannot read broken-hf/$file"
  [ ! -e broken/plan.mdlx ] || die "a run was made"
  rm -rf broken-hf broken
done

# Where /proc is not mounted, texts are read all the same.
if unshare -m true 2> /dev/null; then
  expect 0 unshare -m bash -c 'mount -t tmpfs none /proc && exec "$@"' - "$MDL" convert llama-run --to hf -o unmounted-hf
  same "without /proc" "$(sha256sum < llama-hf/model.safetensors)" "$(sha256sum < unmounted-hf/model.safetensors)"
fi

# So does a model of SentencePiece, which is used where there is no tokenizer.json that can be read.
cp "$ROOT/tests/sentence/bpe.model" .
text pieces.mdl llama "${SIZES/256/700}"
sed -i 's/tokenizer = bytes/tokenizer = "bpe.model"/' pieces.mdl
train pieces.mdl --recipe own --out pieces --steps 1 --device cpu
expect 0 "$MDL" convert pieces --to hf -o pieces-hf
cmp bpe.model pieces-hf/tokenizer.model || die "the model of SentencePiece is another"
[ ! -e pieces-hf/tokenizer.json ] || die "a tokenizer.json was made"
echo '{"model": {"type": "WordPiece", "vocab": {"a": 0}}}' > unread.json
for json in none unread.json; do
  rm -rf pieces-back
  if [ $json != none ]; then cp $json pieces-hf/tokenizer.json; fi
  expect 0 "$MDL" convert pieces-hf -o pieces-back --data text.txt
  mentions pieces-back/model.mdl 'data text("text.txt", tokenizer = "hf/tokenizer.model");'
  expect 0 "$MDL" generate pieces-back --prompt "You may" --tokens 3
  mentions out "You may"
done
expect 0 "$MDL" convert pieces-back --to hf -o pieces-again
cmp bpe.model pieces-again/tokenizer.model || die "the model of SentencePiece is not what came"
head -c 2000 bpe.model > pieces-hf/tokenizer.model
expect 0 "$MDL" convert pieces-hf -o pieces-none
mentions out "text is not made into tokens by it"
rm pieces-hf/tokenizer.json
expect 0 "$MDL" convert pieces-hf -o pieces-damaged
mentions out "tokenizer.model is damaged" "text is not made into tokens by it"

# wrong WORD...: converting the directory `bad` is an error that says these, and leaves nothing
wrong() {
  expect 1 "$MDL" convert bad -o bad-run
  mentions err "$@"
  [ ! -e bad-run ] || die "something is left: $*"
  rm -rf bad
}
bad() { rm -rf bad; cp -r "$1" bad; }
edit() { sed -i "$1" bad/config.json; }
bad wide-hf; rm bad/model-00002-of-00004.safetensors
wrong "the shard bad/model-00002-of-00004.safetensors is not there" "model.safetensors.index.json says"
bad wide-hf; sed -i 's/"model-00002-of-00004/"..\/model-00002-of-00004/' bad/model.safetensors.index.json
wrong "is no name of a file in this directory"
bad wide-hf; sed -i '0,/model-00001-of/s//model-00003-of/' bad/model.safetensors.index.json
wrong "but it is not"
expect 2 "$MDL" convert llama-hf -o unasked --recipe small
mentions err "give --model FILE"
expect 0 "$MDL" convert llama-hf -o watched --watch head
grep -q "watch head;" watched/resolved.mdl || die "--watch is left out"
# What save_pretrained leaves in a directory that held shards is not read: transformers reads the one file.
bad llama-hf; echo '{"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}' > bad/model.safetensors.index.json
expect 0 "$MDL" convert bad -o from-single
rm -r bad from-single
bad llama-hf; rm bad/model.safetensors; wrong "holds neither model.safetensors nor model.safetensors.index.json"
bad llama-hf; rm bad/model.safetensors; touch bad/pytorch_model.bin; wrong "pytorch_model.bin is not read"
bad llama-hf; truncate -s -4 bad/model.safetensors; wrong "model.safetensors is damaged"
bad llama-hf; edit 's/"hidden_size": 16/"hidden_size": 17/'; wrong "'model.embed_tokens.weight' is [256, 16] there, [256, 17] is wanted"
bad llama-hf; edit 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
wrong "missing: 'model.layers.2.input_layernorm.weight' [16]"
bad llama-hf; edit 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
wrong "left over, since the model has no such parameter: 'model.layers.1."
bad llama-hf; edit 's/"llama"/"lama"/'; wrong "model_type 'lama'; known are" "llama" "--mapping FILE"
bad llama-hf; edit 's/"silu"/"gelu"/'; wrong 'hidden_act is "gelu" there, "silu" in the model'
bad bloom-hf; edit 's/"bloom"/"bloom", "pretraining_tp": 2, "slow_but_exact": true/'; wrong "slow_but_exact is true there, false in the model"
# Other values that say the same: of the first Gemma, and another name of what GPT-2 has.
bad gemma-hf; edit 's/"hidden_act": "gelu_pytorch_tanh"/"hidden_act": "gelu"/; s/"hidden_activation": "gelu_pytorch_tanh"/"hidden_activation": null/'
grep -q '"hidden_act": "gelu"' bad/config.json || die "config.json has another form"
expect 0 "$MDL" convert bad -o gemma-first
same "the first Gemma" "$(saved_weights gemma-back 0)" "$(saved_weights gemma-first 0)"
bad gpt2-hf; edit 's/"gelu_new"/"gelu_pytorch_tanh"/'
expect 0 "$MDL" convert bad -o gpt2-tanh
bad gpt2-hf; edit 's/"gelu_new"/"gelu"/'; wrong 'activation_function is "gelu" there, "gelu_new" in the model'
bad llama-hf; edit 's/"LlamaForCausalLM"/"LlamaModel"/'; wrong "architectures"
bad llama-hf; edit 's/"silu"/"silu", "rope_scaling": {"type": "linear", "factor": 2}/'; wrong 'rope_scaling.type is "linear" there, null in the model'
bad llama-hf; edit 's/"silu"/"silu", "logit_cap": 30/'; wrong "logit_cap = 30" "models/llama.hf does not know"
bad llama-hf; rm bad/model.safetensors; ln -s ../blobs/none bad/model.safetensors; wrong "model.safetensors is a link that leads nowhere"
bad llama-hf; ln -sf none bad/config.json; wrong "its config.json is a link that leads nowhere"
bad llama-hf; ln -sf none bad/config.json
expect 1 "$MDL" train llama.mdl --recipe own --from bad --out never
mentions err "its config.json is a link that leads nowhere"
bad llama-hf; rm bad/config.json; mkfifo bad/config.json; wrong "its config.json is a pipe"
bad llama-hf; rm bad/config.json; mkdir bad/config.json; wrong "its config.json is a directory"
bad llama-hf; edit 's/"hidden_size": *\([0-9]*\)/"hidden_size": "\1"/'
wrong "config.json says \`hidden_size\` as the text \"16\"; models/llama.hf needs a number for embed of the model"
bad llama-hf; edit 's/"vocab_size"/"vocabulary"/'; wrong "config.json does not say \`vocab_size\`"
bad llama-hf; edit 's/"silu"/"silu/'; wrong "config.json:" "is not JSON"
bad window-hf; edit 's/"sliding_window": 5,//'; wrong "does not say sliding_window"
bad tied-hf; edit 's/"use_sliding_window": false/"use_sliding_window": true/'; wrong "use_sliding_window is true there"
# A head that config.json says is tied, and that is another in the file; and one that is the same.
head() {  # TENSOR: is the head too
  python3 - bad/model.safetensors "$1" << 'END'
import json
import struct
import sys

path, name = sys.argv[1:]
with open(path, "rb") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    header, data = json.loads(file.read(size)), file.read()
elements = data[slice(*header["model.embed_tokens.weight"]["data_offsets"])]
if name != "model.embed_tokens.weight":
    elements = elements[4:] + elements[:4]
header["lm_head.weight"] = dict(header["model.embed_tokens.weight"], data_offsets=[len(data), len(data) + len(elements)])
text = json.dumps(header).encode()
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data + elements)
END
}
bad tied-hf; head model.norm.weight
wrong "'lm_head.weight' is one with 'model.embed_tokens.weight' in this model, and holds other numbers there" "tie_word_embeddings"
bad tied-hf; head model.embed_tokens.weight; expect 0 "$MDL" convert bad -o tied-stored
same "a head that is stored too" "$(saved_weights tied-run 4)" "$(saved_weights tied-stored 0)"
bad llama-hf; printf 'version https://git-lfs.github.com/spec/v1\n' > bad/model.safetensors; wrong "a pointer of Git LFS" "git lfs pull"

# from STATUS OPTION...: training from the weights of a run with other sizes
from() {
  local status=$1
  shift
  rm -rf from
  expect "$status" "$MDL" train llama.mdl --recipe own --steps 1 --out from --device cpu "$@"
}
from 1 --from llama-run --set ffn=25
mentions err "the weights in llama-run do not fit the model" "'layers.0.down.w' is [24, 16] there, [25, 16] is wanted"
from 1 --from llama-run --set layers=3
mentions err "missing: 'layers.2.attn_norm.scale' [16]"
from 0 --from llama-run --set layers=3 --partial
mentions out "9 missing, which keep their first values: 'layers.2.attn_norm.scale' [16]"
from 1 --from llama-run --set layers=1
mentions err "left over, since the model has no such parameter: 'layers.1."
from 0 --from llama-run --set layers=1 --partial
mentions out "9 left over: 'layers.1."
from 1 --from llama-hf --set theta=5000
mentions err "theta is 10000 there, 5000 in the model"
sed 's/^    x = x + linear(g over.*/&\n    x = x + linear(x over embed to embed'"'"', name = more)[embed'"'"' -> embed];/' llama.mdl > more.mdl
rm -rf from
expect 1 "$MDL" train more.mdl --recipe own --steps 1 --out from --device cpu --from llama-hf
mentions err "models/llama.hf does not say where these parameters of the model stand" "'layers.0.more.w' [16, 16]"
rm -rf from
expect 0 "$MDL" train more.mdl --recipe own --steps 1 --out from --device cpu --from llama-hf --partial
mentions out "2 missing, which keep their first values: 'layers.0.more.w' [16, 16]"
from 1 --from gpt2-hf
mentions err "weights of the model_type 'gpt2' are for the model 'gpt2', not for 'llama'"
from 1 --from nowhere
mentions err "no weights to begin with: nowhere"
from 2 --from llama-run --resume
from 2 --partial
from 1 --from text.txt
mentions err "text.txt"

# A mapping of one's own, beside the text; and what a mapping must say.
cp llama.mdl mine.mdl
sed 's/model\.embed_tokens/tokens/; s/"llama"/"mine"/' "$ROOT/models/llama.hf" > mine.hf
expect 0 "$MDL" convert llama-run --to hf -o mine-hf --mapping mine.hf
mentions mine-hf/config.json '"model_type": "mine"'
expect 0 "$MDL" convert mine-hf --model mine.mdl --recipe own -o mine-run
same "a mapping beside the text" "$(saved_weights llama-run 4)" "$(saved_weights mine-run 0)"
# What is written is read back by the same mapping, also where it ignores nothing.
sed '/^ignore/d' mine.hf > bare.hf
expect 0 "$MDL" convert llama-run --to hf -o bare-hf --mapping bare.hf
mentions bare-hf/config.json '"torch_dtype"' '"architectures"' '"model_type"'
expect 0 "$MDL" convert bare-hf --model mine.mdl --recipe own --mapping bare.hf -o bare-run
same "a mapping that ignores nothing" "$(saved_weights llama-run 4)" "$(saved_weights bare-run 0)"
# Windows of a text of one's own are those of its recipe, where it has some.
sed 's/  seq = 16;/  seq = 8;/' mine.mdl > short.mdl
expect 0 "$MDL" convert mine-hf --model short.mdl --recipe own --mapping mine.hf -o short-run
mentions out "note: windows of 8 tokens, of 16 that the model allows"
mentions short-run/resolved.mdl "  seq = 8;"
sed '/  seq = 16;/d' mine.mdl > none.mdl
expect 0 "$MDL" convert mine-hf --model none.mdl --recipe own --mapping mine.hf -o none-run
mentions none-run/resolved.mdl "seq = 16"
! grep -q "note: windows" out || die "noted of the window that config.json names"
expect 0 "$MDL" convert mine-hf --model short.mdl --recipe own --mapping mine.hf --set seq=32 -o long-run
mentions out "note: windows of 32 tokens, and the model was made for 16"
train mine.mdl --recipe own --from mine-hf --out mine-from --steps 1 --device cpu
sed -i '/q_proj/d' mine.hf
expect 1 "$MDL" convert llama-run --to hf -o other --mapping mine.hf
mentions err "mine.hf does not say where these parameters of the model stand" "'layers.0.q.w' [16, 2, 2, 4]"
[ ! -e other ] || die "a directory is left"
expect 1 "$MDL" convert llama-hf -o llama-run
mentions err "there is a run in llama-run already; give another directory with -o"

# Usage.
expect 2 "$MDL" convert llama-run
mentions err "llama-run is a run; give --to hf"
expect 2 "$MDL" convert llama-run --to hf
expect 2 "$MDL" convert llama-hf --dtype bf16
expect 2 "$MDL" convert llama-run --to hf -o other --set seq=3
expect 1 "$MDL" convert llama-run --to hf -o text.txt
expect 1 "$MDL" convert llama-run --to hf -o llama-hf
mentions err "llama-hf is not empty"
expect 1 "$MDL" convert text.txt
mentions err "holds no config.json"
expect 1 "$MDL" convert someone/model
mentions err "there is no directory someone/model; nothing is downloaded"
mentions err "if that is a name on the Hugging Face hub, \`huggingface-cli download someone/model --local-dir model\`" \
  "then \`mdl convert model -o RUN\`"
# So it is of weights to begin with, adapters and runs; a path of files here is no such name.
for name in someone/model someone/model/ hf://someone/model https://huggingface.co/someone/model/tree/main; do
  expect 1 "$MDL" train "$SMALL" --from $name --out wrong
  mentions err "no weights to begin with: $name: No such file" "nothing is downloaded: " \
    "\`huggingface-cli download someone/model --local-dir model\` makes a directory of it, then --from model"
done
expect 1 "$MDL" generate someone/model --prompt a
mentions err "there is no run directory someone/model; nothing is downloaded" "then \`mdl convert model -o RUN\`"
mkdir -p someone
for name in ./someone/model someone/model a/b/c weights.safetensors /someone/model; do
  expect 1 "$MDL" train "$SMALL" --from $name --out wrong
  ! grep -q "downloaded" err || die "$name is called a name of the hub"
done
[ ! -e wrong ] || die "a run was made of nothing"
expect 1 "$MDL" convert llama-hf --model gpt2.mdl --recipe own -o other
expect 1 "$MDL" convert "$ROOT" --to hf -o other

# Names that come from outside end no comment and no string; what is said twice, or only looks like a key, is an error.
odd=$'odd\n} recipe evil { "\xff'
cp -r llama-hf "$odd"
expect 0 "$MDL" convert "$odd" -o odd-run --data $'a"; } \\ \n'
mentions odd-run/resolved.mdl 'tokens("a\"; } \\ \n");'
cp -r llama-hf dotted
sed -i 's/^{/{ "rope_parameters.rope_theta": 5,/' dotted/config.json
expect 1 "$MDL" convert dotted -o other
mentions err "'rope_parameters.rope_theta', a key with a dot in it"
cp -r llama-hf twice
mv twice/model.safetensors twice/a.safetensors
cp twice/a.safetensors twice/b.safetensors
echo '{"weight_map": {"lm_head.weight": "a.safetensors", "model.norm.weight": "b.safetensors"}}' > twice/model.safetensors.index.json
expect 1 "$MDL" convert twice -o other
mentions err "two shards of twice hold '"
{ cat "$ROOT/models/llama.hf"; echo 'tensor x.{vocab}.{vocab}.{vocab}.{vocab} [embed] = y'; } > many.hf
expect 1 "$MDL" convert llama-hf --mapping many.hf -o other
mentions err "the axes in { } make too many names of"
{ cat "$ROOT/models/llama.hf"; printf '\0skip x\n'; } > zero.hf
expect 1 "$MDL" convert llama-hf --mapping zero.hf -o other
mentions err "zero.hf holds zero bytes"
[ ! -e other ] || die "a directory is left"
