#!/bin/bash
# compared.sh: in bf16 what is compared has the same bits for all that compare it, so the largest is found and has its
# gradient: beside what else reads it, computed again, and on ranks that have parts of it.
. "${ROOT:?}/tests/cli/lib.sh"
head -c 20000 "$ROOT/LICENSE" > text.txt

# text VALUE AXES MORE: a model that goes by the largest of a value
text() {
  cat <<END
model largest {
  axis batch, seq, vocab = 256, embed = 32, wide = 64, k = 2;
  input tokens: index(vocab)[batch, seq];
  param table: [vocab, embed] ~ normal(1.0);
  param w: [embed ; wide] ~ normal(0.2);
  e = table[tokens] * mean(w over wide);
  s = $1;
  m = max(s over $2);
  loss = mean(square(3 - m))$3;
}
recipe r { model largest(); data text("text.txt", tokenizer = bytes); batch = 8; seq = 32; steps = 1;
  optimizer adamw(lr = constant(0.01)); }
layout one { }
layout again { recompute *; }
layout named { recompute s; }
layout cut { mesh tp = 2; ${2%%,*} -> tp; }
END
}

gradient() {  # PRECISION LAYOUT: of the first step, its norm
  rm -rf run
  train m.mdl --precision "$1" --layout "$2" --out run
  grep -o '"grad_norm":[^,]*' run/metrics.jsonl | head -n 1 | cut -d: -f2
}

compared() {
  text "$@" > m.mdl
  exact=$(gradient fp32 one)
  for layout in one again named cut; do
    found=$(gradient bf16 "$layout")
    awk -v a="$exact" -v b="$found" 'BEGIN { exit !(a > 0 && b > 0.9 * a && b < 1.1 * a) }' ||
      die "$1, layout $layout: the gradient is $found in bf16 and $exact in fp32"
  done
}

compared "e * 13.7" "embed" ""
compared "e * sum(e over embed)" "embed, seq" ""
compared "dot(table[tokens], w over embed) * 1.1" "wide" " + mean(square(s))"
compared "dot(table[tokens], w over embed) * 1.1" "wide" "; (t, _) = top(s over wide to k); loss = loss + 0.01 * mean(t)"
