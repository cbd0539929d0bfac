#!/bin/bash
# run.sh: the power is lost at each moment of a run and each fsync is left out in turn; a few kills and faults; too little
# memory for OpenBLAS. All of it, and for long: soak.sh.
. "${ROOT:?}/tests/cli/lib.sh"
export PYTHONDONTWRITEBYTECODE=1

# Memory that is missing for OpenBLAS is said at once, with status 3: a product would wait for it for ever.
if ! ldd "$MDL" | grep -q asan; then  # its shadow takes more than any limit here
  for limit in 60000 150000 200000; do
    (ulimit -v "$limit" && expect 3 timeout -k 1 60 "$MDL" train "$SMALL" --steps 1 --threads 2 --out starved)
    mentions err "no memory"
    rm -rf starved
  done
  (ulimit -v 600000 && expect 0 timeout -k 1 60 "$MDL" train "$SMALL" --steps 1 --threads 2 --out enough)
  # So it is while a text is compiled, which is not called wrong then.
  for number in 64 66 68; do
    expect 3 env LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_ALLOCATION=$number FAIL_ALWAYS=1 "$MDL" train "$SMALL" --steps 1 --out starved
    mentions err "no memory to compile"
  done
  # Nor is the pattern of a tokenizer, or text that is packed.
  cat > of.json <<'JSON'
{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}
JSON
  for by in gzip zstd xz; do
    command -v $by > /dev/null || continue
    printf 'abba' | $by -c > abba.packed
    expect 0 env LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_COUNT=made "$MDL" data encode abba.packed --tokenizer of.json -o abba.bin
    for ((number = $(cat made); number > 0; number--)); do
      status=0
      LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_ALLOCATION=$number "$MDL" data encode abba.packed --tokenizer of.json -o less.bin > out 2> err ||
        status=$?
      case $status in
        0) cmp abba.bin less.bin || die "$by: without allocation $number it is another" ;;
        3) [ ! -e less.bin ] || die "$by: allocation $number: it was made, with status 3" ;;
        *) die "$by: allocation $number: status $status: $(cat err)" ;;
      esac
      rm -f less.bin
    done
  done
  # Weights for others are whole, or it is told that they are not: neither the index of shards nor config.json lacks a line.
  head -c 2000 "$ROOT/LICENSE" > short.txt
  { cat "$ROOT/models/llama.mdl"
    echo 'recipe own { model llama(vocab = 100000, embed = 2, layers = 1, kv_heads = 1, group = 1, hd = 2, ffn = 4);'
    echo 'data text("short.txt", tokenizer = bytes); batch = 1; seq = 8; steps = 1; optimizer sgd(lr = constant(1e-2)); }'
  } > wide.mdl
  expect 0 "$MDL" train wide.mdl --recipe own --device cpu --out wide
  # Nor is a line of --json left out without a word, by whatever command.
  starved_lines() {  # COMMAND...: with each of its last allocations missing, which are those of its line
    expect 0 env LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_COUNT=made "$@"
    for ((number = $(cat made); number > 0 && number > $(cat made) - 40; number--)); do
      status=0
      LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_ALLOCATION=$number "$@" > out 2> err || status=$?
      case $status in
        0) grep -q '^{.*}$' out || die "$*: without allocation $number there is no line" ;;
        3) grep -q "memory" err || die "$*: without allocation $number it does not say why" ;;
        *) die "$*: without allocation $number: status $status: $(cat err)" ;;
      esac
    done
  }
  starved_lines "$MDL" data encode short.txt -o lines.bin --json
  starved_lines "$MDL" data train-tokenizer short.txt -o lines.json --vocab 260 --json
  starved_lines "$MDLC" compile "$SMALL" -o lines.mdlx --json
  starved_lines "$MDL" eval wide --device cpu --json
  expect 0 env LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_COUNT=made "$MDL" convert wide --to hf -o hf --shard 1
  for ((number = $(cat made); number > $(cat made) - 300; number -= 3)); do
    status=0
    LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_ALLOCATION=$number "$MDL" convert wide --to hf -o hf-less --shard 1 > out 2> err ||
      status=$?
    case $status in
      0) diff -r hf hf-less || die "without allocation $number of $(cat made) it is another" ;;
      3) [ ! -e hf-less ] || die "allocation $number of $(cat made): it was made, with status 3" ;;
      *) die "allocation $number of $(cat made): status $status" ;;
    esac
    rm -rf hf-less
  done
fi

# And weights of others are not called wrong.
if ! ldd "$MDL" | grep -q asan; then
  expect 0 env LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_COUNT=made "$MDL" convert hf -o hf-back
  for ((number = $(cat made); number > 0; number -= 61)); do
    rm -rf hf-back
    status=0
    LD_PRELOAD="$BUILD/tests/libfail.so" FAIL_ALLOCATION=$number "$MDL" convert hf -o hf-back > out 2> err || status=$?
    [ $status -eq 0 ] || { [ $status -eq 3 ] && grep -q memory err; } ||
      die "allocation $number of $(cat made): status $status: $(cat err)"
  done
fi

python3 -c '' 2> /dev/null || { echo "python3 is not there"; exit 77; }
mkdir kills
SEED=1 python3 "$ROOT/tests/crash/kills.py" 4 kills background sync

# strace may be missing, or not allowed to look at programs.
if ! strace -qq -o trace true 2> /dev/null; then
  echo "strace cannot record here: power losses and faults were not tried"
  exit 77
fi
# Memory that is missing while the loader maps OpenBLAS is said too, and not that the library is not installed.
strace -f -qq -o trace -e trace=openat,mmap "$MDL" train "$SMALL" --steps 1 --threads 2 --out maps
number=$(awk '/mmap\(/ {n++} /libopenblas.so.0.* = [0-9]/ {print n + 1; exit}' trace)
expect 3 strace -f -qq -o trace -e trace=mmap -e "inject=mmap:error=ENOMEM:when=$number" "$MDL" train "$SMALL" --steps 1 --threads 2 --out maps2
mentions err "no memory to open OpenBLAS"
# Tokens have their name, and lose an older mask, also after a power loss: each name is flushed before the next.
echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}' > talk.jsonl
for names in "rename fsync rename fsync" "unlink fsync rename fsync rename fsync"; do
  strace -f -qq -o trace -e trace=unlink,rename,fsync "$MDL" data encode talk.jsonl --chat -o talk.bin > out
  same "names of tokens and their mask" "fsync fsync $names" "$(awk '/ = 0$/ {sub(/\(.*/, "", $2); printf "%s%s", s, $2; s = " "}' trace)"
done
mkdir power faults
python3 "$ROOT/tests/crash/power.py" power 2
python3 "$ROOT/tests/crash/faults.py" faults 9 fsync rename mkdir
