#!/bin/bash
# sentence.sh: a model of SentencePiece wherever a tokenizer is named: tokens of a file, a recipe, an evaluation, text that
# is generated, directories of Hugging Face; and files that are none, or damaged.
. "${ROOT:?}/tests/cli/lib.sh"
for kind in bpe unigram; do
  cp "$ROOT/tests/sentence/$kind.model" .
  expect 0 "$MDL" data encode "$ROOT/tests/sentence/text" --tokenizer $kind.model --raw --type u32 -o raw.bin
  mentions out "write \`data tokens(\"raw.bin\", u32, tokenizer = \"$kind.model\");\`"
  od -An -v -tu4 -w4 raw.bin | tr -d ' ' > ids
  { tr " " "\n" < "$ROOT/tests/sentence/$kind.tokens"; echo 2; } | cmp ids - || die "$kind: the tokens are not those of the package"
done

# It is known by what it holds, whatever its name.
cp bpe.model named.txt
expect 0 "$MDL" data encode "$ROOT/LICENSE" --tokenizer named.txt -o tokens.bin
cp "$ROOT/LICENSE" licence.txt
of() {  # DATA FILE
  sed "s|data text.*|data $1;|; s|vocab = 256|vocab = 700|" "$SMALL" > "$2"
}
of 'text("licence.txt", tokenizer = "bpe.model")' text.mdl
of 'tokens("tokens.bin", tokenizer = "bpe.model")' tokens.mdl
train text.mdl --steps 30 --out text
train tokens.mdl --steps 30 --out tokens
same "the first losses" "$(losses text | head -n 1 | cut -c 1-6)" "$(losses tokens | head -n 1 | cut -c 1-6)"
for run in text tokens; do
  expect 0 "$MDL" eval $run
  sed -n 's/^bits per byte  \([0-9.]*\)$/\1/p' out > bits
  awk '{ exit !($1 > 0.5 && $1 < 6) }' bits || die "bits per byte are wrong: $(cat out)"
  expect 0 "$MDL" generate $run --prompt "You may" --tokens 20
  case $(cat out) in
    "You may"*) ;;
    *) die "the text does not begin with its prompt: $(cat out)" ;;
  esac
done
# Text without a prompt begins without the space that SentencePiece puts ahead of it.
for seed in 1 2 3 4 5 6; do
  expect 0 "$MDL" generate text --tokens 8 --seed $seed
  case $(cat out) in
    " "*) die "the text begins with a space: $(cat out)" ;;
  esac
done
printf '%s\n' '{"messages": [{"role": "user", "content": "May I?"}, {"role": "assistant", "content": "You may."}]}' > talks.jsonl
expect 0 "$MDL" data encode talks.jsonl --chat --template '<sym>{role}: {content}{end} ' --tokenizer bpe.model -o talks.bin
of 'text("licence.txt", tokenizer = "bpe.model", separator = "</s>")' separated.mdl
train separated.mdl --steps 1 --out separated

# The tokenizer of the data goes with the weights, called by what it holds, whatever its name.
mkdir odd.json
cp bpe.model odd.json/pieces
cp "$ROOT/models/llama.mdl" odd.mdl
cat >> odd.mdl << 'END'
recipe odd {
  model llama(vocab = 700, embed = 8, layers = 1, kv_heads = 1, group = 1, hd = 4, ffn = 8);
  data text("licence.txt", tokenizer = "odd.json/pieces");
  batch = 1;
  seq = 8;
  steps = 1;
  optimizer adamw(lr = constant(1e-2));
}
END
train odd.mdl --recipe odd --out odd --device cpu
expect 0 "$MDL" convert odd --to hf -o odd-hf
cmp bpe.model odd-hf/tokenizer.model || die "the tokenizer did not go with the weights"
[ ! -e odd-hf/tokenizer.json ] || die "a model of SentencePiece is called tokenizer.json"
cp unigram.model odd.json/pieces
expect 1 "$MDL" convert odd --to hf -o odd-other
mentions err "odd.json/pieces is not the one that this run was trained with"
[ ! -e odd-other ] || die "weights were written beside another tokenizer"
mv odd.json gone
expect 0 "$MDL" convert odd --to hf -o gone-hf
mentions out "gone-hf has no tokenizer"

# Tokens that files of transformers add to a model that they lie beside, in every command; they go with the weights.
mkdir added
cp bpe.model added/tokenizer.model
cat > added/tokenizer_config.json << 'END'
{"tokenizer_class": "LlamaTokenizer", "additional_special_tokens": ["<|turn|>"], "added_tokens_decoder": {
  "0": {"content": "<unk>"}, "1": {"content": "<s>"}, "2": {"content": "</s>"}, "700": {"content": "<|turn|>"}}}
END
encoded() {  # TEXT TOKENIZER
  printf '%s' "$1" > part.txt
  expect 0 "$MDL" data encode part.txt --tokenizer "$2" --raw --type u32 -o part.bin
  od -An -v -tu4 -w4 part.bin | tr -d ' ' | sed '$d'
}
same "text is cut at added tokens" "$(encoded "You may<|turn|> copy it</s>x" added/tokenizer.model)" \
  "$(encoded "You may" bpe.model; echo 700; encoded " copy it" bpe.model; echo 2; encoded x bpe.model)"
sed 's|odd.json/pieces|added/tokenizer.model|' odd.mdl > added.mdl
expect 1 "$MDL" train added.mdl --recipe odd --out added-run --device cpu
mentions err "701"
train added.mdl --recipe odd --set vocab=704 --out added-run --device cpu
expect 0 "$MDL" convert added-run --to hf -o added-hf
cmp added/tokenizer_config.json added-hf/tokenizer_config.json || die "what adds tokens did not go with the weights"
expect 0 "$MDL" convert added-hf -o added-back --data licence.txt
cmp added/tokenizer_config.json added-back/hf/tokenizer_config.json || die "what adds tokens was not kept"
sed -i 's/turn/change/g' added/tokenizer_config.json
expect 1 "$MDL" eval added-run
mentions err "is not the one that this run was trained with"

# What is damaged, or is no such model, is said.
head -c 3000 bpe.model > short.model
expect 1 "$MDL" data encode licence.txt --tokenizer short.model -o none.bin
mentions err "short.model is damaged: at byte " "fetch or copy the file again"
[ ! -e none.bin ] || die "a damaged tokenizer has made tokens"
printf '\n\016\n\005<unk>\025\n\014\n\003<s>' > begun.model
expect 1 "$MDL" data encode licence.txt --tokenizer begun.model -o none.bin
mentions err "begun.model is damaged: at byte "
printf 'x' | cat - bpe.model > shifted.model
expect 1 "$MDL" data encode licence.txt --tokenizer shifted.model -o none.bin
mentions err "the file is neither a tokenizer.json nor a rank file of tiktoken, nor a .model of SentencePiece"
of 'text("licence.txt", tokenizer = "short.model")' short.mdl
expect 1 "$MDL" train short.mdl --steps 1 --out none
mentions err "short.model is damaged"
