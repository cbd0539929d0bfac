#!/bin/bash
# names.sh: names and links that come from files lead nowhere else, and no terminal obeys them.
. "${ROOT:?}/tests/cli/lib.sh"
train "$SMALL" --steps 2 --out run
echo precious > victim
mkdir folder
mkdir folder/saving-00000001 folder/step-00000001

# Links in the place of what a run writes or removes.
for name in log.txt metrics.jsonl loss.svg plan.mdlx resolved.mdl tuning.txt; do
  cp -r run linked
  cp "linked/$name" target 2> /dev/null || echo nothing > target
  before=$(sha256sum < target)
  ln -sf "$PWD/target" "linked/$name"
  expect 1 "$MDL" train "$SMALL" --steps 3 --out linked --resume
  mentions err "linked/$name is a link"
  same "$name elsewhere" "$(sha256sum < target)" "$before"
  rm -r linked
done
cp -r run linked
rm -r linked/checkpoints
ln -s "$PWD/folder" linked/checkpoints
expect 1 "$MDL" train "$SMALL" --steps 3 --out linked --resume
mentions err "linked/checkpoints is a link"
[ -d folder/saving-00000001 ] && [ -d folder/step-00000001 ] || die "a folder elsewhere was removed"
# So it is with an ablation: a link that leads nowhere yet is none to write through.
mkdir rows
ln -s ../elsewhere rows/ablate.jsonl
expect 1 "$MDL" ablate "$SMALL" batch=2,4 --steps 1 --out rows
mentions err "rows holds an ablation already"
[ ! -e elsewhere ] || die "an ablation wrote elsewhere"
# The run itself may be a link.
ln -s "$PWD/run" alias
train "$SMALL" --steps 3 --out alias --resume
same "what the links led to" "$(cat victim)" precious

# A name that a .safetensors file keeps for itself is refused before anything is trained.
cat > metadata.mdl << 'END'
import std.nn;
model t { axis batch, seq; axis vocab = 256, embed = 2;
  input tokens, targets: index(vocab)[batch, seq];
  param __metadata__: [embed] = normal(1.0);
  x = embedding(tokens over vocab to embed, name = table) * __metadata__;
  logits = linear(x over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab)); }
recipe r { model t(); data text("victim", tokenizer = bytes); batch = 2; seq = 4; optimizer adamw(lr = 1e-2); }
END
expect 1 "$MDL" train metadata.mdl --data "$ROOT/LICENSE" --steps 2 --out metadata
mentions err "of the name '__metadata__'"

# A path that begins like an option is none in the command that is proposed.
train "$SMALL" --steps 1 --out -run
mentions out "mdl generate ./-run --prompt TEXT"

# Control characters of names are shown, not obeyed.
escape=$(printf '\033]0;owned\007\033[2J')
python3 - "$escape" << 'END' 2> /dev/null || python=missing
import json, struct, sys
header = json.dumps({sys.argv[1] + "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, ensure_ascii=False).encode()
header = header.replace(sys.argv[1].encode(), json.dumps(sys.argv[1])[1:-1].encode())
open("odd.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4))
END
if [ -z "${python:-}" ]; then
  expect 0 "$MDL" inspect odd.safetensors
  mentions out '\x1b]0;owned\x07\x1b[2J'
  ! grep -q "$(printf '\033')" out || die "an escape character was printed"
  expect 1 "$MDL" diff odd.safetensors run/checkpoints/step-00000002/model.safetensors
  mentions out '\x1b]0;owned\x07\x1b[2J'
  ! grep -q "$(printf '\033')" out || die "mdl diff printed an escape character"
fi
expect 1 "$MDL" inspect "no$escape.safetensors"
! grep -q "$(printf '\033')" err || die "an escape character was printed"

# Names may end in primes, as those of axes do: parameters, outputs, models and recipes.
cat > prime.mdl << END
import std.nn;

model prime' {
  axis batch = 4, seq = 16, vocab = 256, embed = 16;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  param gain': [embed] = 1;
  x' = linear(x over embed to embed')[embed' -> embed];
  x = (x + x') * gain' + linear(x over embed to embed', name = x'')[embed' -> embed];
  logits = linear(x over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab));
  output x'' = mean(square(x'));
}

recipe prime' { model prime'(); data text("$ROOT/LICENSE"); steps = 2; optimizer sgd(lr = 0.1); freeze x'; }
END
train prime.mdl --watch "x''" --out primes
mentions primes/metrics.jsonl "\"x''\":" "\"grad_norm.x''\":"
train prime.mdl --out primes --resume --steps 3
expect 0 "$MDL" inspect primes/checkpoints/step-00000003
mentions out "gain'" "x'.w" "x''.w" "sgd.m.x''.w"
! grep -q "sgd.m.x'.w" out || die "what is frozen has a state"
