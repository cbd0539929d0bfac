#!/bin/bash
# json.sh: --json prints one object a line on stdout and nothing else, --quiet nothing; both leave statuses as they are.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3 to read JSON with"; exit 77; }

# objects EXPRESSION: each line of out is an object, and the expression over their list `o` is true
objects() {
  python3 - "$1" << 'END' || { cat out err >&2; die "not so: $1"; }
import json, sys
with open("out", encoding="utf-8") as file:
    o = [json.loads(line) for line in file]
assert all(isinstance(one, dict) for one in o)
assert eval(sys.argv[1]), o
END
}
silent() {
  [ ! -s out ] || { cat out >&2; die "something is said on stdout"; }
}

expect 0 "$MDLC" check "$SMALL" --json
silent
printf 'model m {\n  axis a = 2;\n  loss = mean(no);\n}\n' > wrong.mdl
expect 1 "$MDLC" check wrong.mdl "$SMALL" wrong.mdl --json
objects 'len(o) == 2 and o[0] == o[1] and (o[0]["code"], o[0]["line"], o[0]["file"]) == ("E010", 3, "wrong.mdl")'
expect 1 "$MDLC" check wrong.mdl --quiet
silent
[ ! -s err ] || die "check --quiet says something"
expect 0 "$MDLC" compile "$SMALL" -o small.mdlx --json
objects 'len(o) == 1 and o[0]["plan"] == "small.mdlx" and o[0]["instructions"] > 9 and o[0]["targets"] == []'
expect 0 "$MDLC" compile "$SMALL" -o small.mdlx -q
silent

expect 0 "$MDL" train "$SMALL" --out run --steps 4 --log-every 2 --eval-every 4 --device cpu --json
objects '[x["step"] for x in o] == [1, 2, 4, 4] and o[-1]["run"] == "run" and not o[-1]["interrupted"]'
objects 'all(o[-1][k] == o[-2][k] for k in ("loss", "val_loss"))'
same "the lines of metrics" "$(head -n 3 out)" "$(cat run/metrics.jsonl)"
expect 0 "$MDL" train "$SMALL" --out quiet --steps 2 --device cpu --quiet
silent
[ -s quiet/log.txt ] || die "--quiet also leaves the log empty"
expect 1 "$MDL" train wrong.mdl --quiet
grep -q E010 err || die "--quiet hides errors"

expect 0 "$MDL" eval run --json --device cpu
objects 'len(o) == 1 and o[0]["step"] == 4 and o[0]["loss"] > 0 and o[0]["data"].endswith("LICENSE")'
objects 'o[0]["unit"] == "nats per token" and not o[0]["trained"] and not o[0]["changed"] and o[0]["sets"] == []'
# Numbers have the digits that they need, as in the lines of metrics.
expect 0 "$MDL" train "$SMALL" --out wide --steps 2 --precision fp64 --device cpu --json
objects 'all(o[-1][k] == o[-2][k] for k in ("loss", "val_loss"))'
cp out trained
expect 0 "$MDL" eval wide --json --device cpu
objects 'o[0]["loss"] == json.loads(open("trained").readlines()[-1])["val_loss"] and len(str(o[0]["loss"])) > 14'
expect 0 "$MDL" eval run --data "$ROOT/LICENSE" --json --device cpu
objects 'o[0]["trained"] and o[0]["held_out"] == 0'
head -c 4000 "$ROOT/LICENSE" > part.txt
sed 's/data text.*/data text("LICENSE"); validation text("part.txt");/' "$SMALL" > apart.mdl
cp "$ROOT/LICENSE" .
expect 0 "$MDL" train apart.mdl --out apart --steps 1 --device cpu
expect 0 "$MDL" eval apart --json --device cpu
objects 'o[0]["data"].endswith("/part.txt") and o[0]["sets"][0]["data"] == o[0]["data"] and not o[0]["trained"]'
expect 0 "$MDL" generate run --prompt 'a "b"' --prompt c --tokens 3 --device cpu --json
objects 'len(o) == 2 and [x["prompt"] for x in o] == ["a \"b\"", "c"] and all(x["text"] for x in o)'
expect 0 "$MDL" ablate "$SMALL" batch=2,4 --steps 2 --out table --device cpu --json
objects 'len(o) == 2 and [x["row"] for x in o] == [1, 2] and o[1]["combination"] == {"batch": "4"}'
same "the lines of ablate.jsonl" "$(cat out)" "$(cat table/ablate.jsonl)"
expect 0 "$MDL" ablate "$SMALL" batch=2,4 --dry --quiet
silent
expect 0 "$MDL" ablate "$SMALL" batch=2,4 --dry --json
objects 'len(o) == 2'
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o tokens.bin --json
objects 'len(o) == 1 and o[0]["file"] == "tokens.bin" and o[0]["documents"] == 1 and o[0]["type"] == "u16"'
expect 0 "$MDL" data encode "$ROOT/LICENSE" -o tokens.bin --quiet
silent
[ ! -s err ] || die "data encode --quiet says something"
if "$MDL" data train-tokenizer "$ROOT/LICENSE" -o tokenizer.json --vocab 300 --json > out 2> err; then
  objects 'len(o) == 1 and o[0]["tokens"] == 300'
else
  grep -q "built without PCRE2" err || die "$(cat err)"
fi
