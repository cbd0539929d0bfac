#!/bin/bash
# seeds.sh: what the readers (readers.h) begin with: a directory of small files for each, from files of this repository.
#
#   tests/fuzz/seeds.sh DIR      BUILD=DIR is where mdl and mdlc were built (default: build); MDL and MDLC may name them
#
# Texts, graphs, mappings and tokenizers are copied, plans compiled, files of tokens encoded; the others are short.
set -euo pipefail
cd "$(dirname "$0")/../.."
MDL=${MDL:-${BUILD:-build}/mdl}
MDLC=${MDLC:-${BUILD:-build}/mdlc}
out=${1:?a directory is needed}
mkdir -p "$out"/{text,graph,plan,safetensors,manifest,metrics,tuning,tokens,index,tokenizer,chat,lines,mix,mapping}
mkdir -p "$out"/{config,shards,frames,model,packed}
export LC_ALL=C

find tests/programs tests/layouts tests/fmt tests/errors tests/fuzz/found -name '*.mdl' -size -1001c -exec cp -n -t "$out/text/" {} +
find tests/programs tests/fuzz/found -name '*.mdl' -size -2001c ! -name rounds.mdl -exec cp -n -t "$out/model/" {} +  # seconds each
find tests/ir -name '*.expected' -size -9k -exec cp -t "$out/graph/" {} +
cp models/*.hf models/*.peft "$out/mapping/"

plan() {  # NAME ARGUMENT...
  if ! said=$("$MDLC" compile "${@:2}" -o "$out/plan/$1" 2>&1); then
    echo "$said" >&2
    exit 1
  fi
}
for name in alibi biases compress dot eight experts kept microbatches norm shared stopped; do
  plan "$name" "tests/ir/$name.mdl"
done
for name in halves left_out; do  # under the first of their layouts
  plan "$name" "tests/layouts/$name.mdl" --layout "$(sed -n 's/^layout \([a-z0-9_]*\).*/\1/p' "tests/layouts/$name.mdl" | sed -n 1p)"
done

# --- what runs leave behind ---

number() {  # BYTES VALUE: little-endian
  local i value=$2
  for ((i = 0; i < $1; i++)); do
    printf "\\x$(printf %02x $((value & 255)))"
    value=$((value >> 8))
  done
}

tensors() {  # NAME HEADER BYTES
  local text=$2
  while ((${#text} % 8)); do text+=' '; done
  { number 8 ${#text} && printf %s "$text" && head -c "$3" /dev/zero; } > "$out/safetensors/$1"
}
tensors one '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 24
tensors two '{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"b.c":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}' 16
tensors none '{}' 0

# The reader puts the hash of all of it right, and size and hash of a file that is said to have one byte.
file='{"name":"model.safetensors","bytes":1,"xxh3_64":"0"}'
state='{"name":"optimizer.safetensors","bytes":1,"xxh3_64":"0"}'
numbers='"step":1,"tokens":0,"skipped":0,"seed":"0","program_hash":"0","state_hash":"2a","data_bytes":0,"metrics_bytes":0'
table='"table":{"role":"parameter","type":"f32","axes":["vocab","next"],"shape":[4,4]}'
momentum='"momentum.table":{"role":"optimizer","type":"f32","axes":["vocab","next"],"shape":[4,4]}'
head='"format":"mdl checkpoint","version":'
echo "{${head}2,$numbers,\"batch\":1,\"bad_steps\":0,\"finite\":true,\"val_loss\":5.4,\"data_hash\":\"1\",\"files\":[$file,$state],\"tensors\":{$momentum,$table}}" > "$out/manifest/two"
echo "{${head}1,$numbers,\"files\":[$file,$state],\"tensors\":{$momentum,$table}}" > "$out/manifest/one"
echo "{${head}2,$numbers,\"finite\":false,\"not_finite\":\"table\",\"weights_alone\":true,\"files\":[$file],\"tensors\":{$table}}" > "$out/manifest/alone"
echo "{${head}2,$numbers,\"frozen\":{\"from\":\"/nowhere\",\"mapping\":\"x.hf\",\"tensors\":{\"table\":{\"axes\":[\"vocab\",\"next\"],\"shape\":[4,4],\"xxh3_64\":\"12\"}}},\"files\":[$file,$state],\"tensors\":{$momentum,$table}}" > "$out/manifest/frozen"

printf '{"step":1,"loss":5.5,"val_loss":5.3}\n{"step":2,"loss":null,"grad_norm":1.1}\n' > "$out/metrics/two"
printf 'no line of metrics\n{"step":7,"loss":5.5}\n{"step":8,"lo' > "$out/metrics/torn"
printf 'mdl tuning 1, a test, driver 1, library 1\none\t1.50\t0001020304050607\t0\ntwo\t2.50\tfeff\t0\n' > "$out/tuning/two"

# --- data ---

"$MDL" data encode tests/cli/small.mdl -q --type u16 -o "$out/tokens/u16"
"$MDL" data encode tests/ir/dot.mdl -q --type u32 -o "$out/tokens/u32"
"$MDL" data encode tests/ir/dot.mdl -q --type u16 --raw -o "$out/tokens/raw"
index() {  # NAME SEQUENCES LENGTH
  local i
  {
    printf 'MMIDIDX\0\0' && number 8 1 && printf '\x08' && number 8 "$2" && number 8 $(($2 + 1))
    for ((i = 0; i < $2; i++)); do number 4 "$3"; done
    for ((i = 0; i < $2; i++)); do number 8 $((i * $3 * 2)); done
    for ((i = 0; i <= $2; i++)); do number 8 "$i"; done
  } > "$out/index/$1"
}
index one 1 100
index four 4 25
cp tests/tokenizer/tiny.json "$out/tokenizer/"
digits=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/
for ((byte = 0; byte < 256; byte++)); do
  echo "${digits:byte >> 2:1}${digits:(byte & 3) << 4:1}== $byte"
done > "$out/tokenizer/ranks"
printf 'dGg= 256\ndGhl 257\nIHRoZQ== 258\nYWE= 259\nYWFh 260\n' >> "$out/tokenizer/ranks"
word='"vocab":{"<unk>":0,"<0x0A>":1,"▁":2,"a":3,"b":4,"▁a":5,"ab":6}'
echo "{\"added_tokens\":[{\"id\":7,\"content\":\"</s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},\"pre_tokenizer\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,$word,\"merges\":[\"▁ a\",\"a b\"]}}" > "$out/tokenizer/characters.json"

message='{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"why?"},{"role":"assistant","content":"it is so"}]}'
printf '\n%s\n{"prompt":"2+2=","completion":"4"}\n' "$message" > "$out/chat/usual"
printf 'template=<{role}>{content}</>{end}\\n;begin=B;separator=\\n\\n;\n%s' "$message" > "$out/chat/template"
printf '{"text":"a document"}\n\n{"id":1,"text":"\\u00e4\\n\\u0000"}\n' > "$out/lines/two"
for by in gzip xz zstd; do
  if command -v $by > /dev/null; then
    head -c 600 LICENSE | $by -qc > "$out/packed/$by"
    cat "$out/packed/$by" "$out/packed/$by" > "$out/packed/$by-twice"
  fi
done
printf '\t1\ttext\tbytes\ta.txt\nb\t0.5\ttokens_u16\tnone\tb.bin\tseparator#7;\nheld\t0\ttext\tbytes\ta.txt\n' > "$out/mix/three"
printf '\t3\ttext\tbytes\ta.txt\tseparator-;\n\t1\ttext\tbytes\tb.bin\n' > "$out/mix/two"

# --- directories of Hugging Face, and editors ---

echo '{"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":16,"hidden_size":4,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":8,"rms_norm_eps":1e-5,"rope_scaling":{"rope_type":"llama3","factor":8.0},"hidden_act":"silu"}' > "$out/config/llama"
echo '{"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":4,"n_head":2,"n_layer":1,"n_positions":16,"vocab_size":16,"activation_function":"gelu_new"}' > "$out/config/gpt2"
echo '{"metadata":{"total_size":4},"weight_map":{"a":"model.safetensors"}}' > "$out/shards/one"
echo '{"weight_map":{"a":"other.safetensors","b":"model.safetensors"}}' > "$out/shards/two"
printf 'zContent-Length: 44\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"shutdown"}Content-Length: 2\r\nX: y\r\n\r\n{}' > "$out/frames/two"
