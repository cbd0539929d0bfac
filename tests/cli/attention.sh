#!/bin/bash
# attention.sh: what attention says with arguments is one kernel of no matrix, and trains to the bits of the same scores
# written out.
. "${ROOT:?}/tests/cli/lib.sh"

# write FILE RESULT: a model whose attention of q, k and v is this.
write() {
  cat > "$1" <<END
import std.nn;

axis places = 8;

fn sliding(size over seq, key) {
  return pos(seq) - pos(key) < size;
}

fn own(doc over seq, key) {
  return documents(doc over seq, key) and pos(key) <= pos(seq);
}

fn nearer(s over seq, key, rate = 0.1) {
  return s - rate * log(1 + (max(pos(seq) - pos(key), 0) as real));
}

fn through(s, by over seq, key) {
  return by(by(s over seq, key) over seq, key);
}

fn place_bias(s, table over seq, key) {
  return s + table[min(max(pos(seq) - pos(key), 0), size(places) - 1) as index(places)];
}

fn spelled(s, v over key) {
  return dot(softmax(s over key), v over key);
}

fn handed(q, k, v, by over hd, seq, key) {
  return attention(q, k, v over hd, seq, key, causal = true, score = by);
}

model m {
  axis batch, seq, vocab = 256, embed = 8, heads = 2, group = 2, hd = 4;
  axis key like seq;
  input tokens, targets: index(vocab)[batch, seq];
  param table: [vocab, embed] ~ normal(0.5);
  param fixed: [heads, places] ~ normal(0.5);
  x = table[tokens];
  q = linear(x over embed to heads, group, hd, std = 0.4);
  k = linear(x over embed to heads, hd, std = 0.4)[seq -> key];
  v = linear(x over embed to heads, hd, std = 0.4)[seq -> key];
  doc = tokens / 16;
  slopes = alibi_slopes(pos(heads) * size(group) + pos(group), size(heads, group));
  bias = stop(fixed);
  i = pos(seq);
  j = pos(key);
  s = dot(q, k over hd) * (1 / sqrt(size(hd)));
  o = $2;
  x = x + linear(o over heads, group, hd to embed, name = out);
  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));
}

recipe r {
  model m();
  data text("$ROOT/LICENSE", tokenizer = bytes);
  batch = 2;
  seq = 32;
  steps = 3;
  optimizer adamw(lr = 0.01);
}
END
}

# fused FILE: without a warning, one kernel, forward and backward. A matrix of scores would take 512 MiB; what the kernel
# reads besides has queries or keys, or of a table both.
fused() {
  expect 0 "$MDLC" check "$1" --set seq=4096
  grep -q E046 err && die "scores in memory: $said"
  expect 0 "$MDLC" print "$1" --after recognise
  [ "$(grep -c '= composite "attention"' out)" = 1 ] || die "no kernel for: $said"
  if [[ $said != *table* ]] && grep -qE '^ +\(%.*\[[^]]*(seq[^]]*key|key[^]]*seq)' out; then
    die "a matrix is read: $said"
  fi
  expect 0 "$MDLC" compile "$1" -o plan.mdlx --set seq=4096
  local peak
  peak=$(cat out err | sed -n 's/.*peak memory \([0-9.]* [KMG]iB\).*/\1/p')
  case $peak in
    *KiB) ;;
    *MiB) [ "${peak%%[. ]*}" -lt 320 ] || die "a matrix of $peak: $said" ;;
    *) die "a matrix of $peak: $said" ;;
  esac
}

trained() {
  rm -rf run
  train "$1" --out run
  weights run 3
}

cases=0
while IFS='|' read -r arguments scores; do
  said="attention(q, k, v over hd, seq, key, $arguments)"
  write said.mdl "$said"
  fused said.mdl
  write spelled.mdl "spelled($scores, v over key)"
  fused spelled.mdl
  same "$said" "$(trained said.mdl)" "$(trained spelled.mdl)"
  cases=$((cases + 1))
done <<'END'
causal = true|where(j <= i, s, -inf)
causal = true, window = 5|where(j <= i and i - j < 5, s, -inf)
window = 5|where(i - j < 5 and j - i < 5, s, -inf)
cap = 3|3 * tanh(s / 3)
causal = true, window = 6, cap = 3|where(j <= i and i - j < 6, 3 * tanh(s / 3), -inf)
causal = true, score = alibi(slopes = slopes)|where(j <= i, s - outer(slopes, (i - j) as real), -inf)
causal = true, cap = 3, score = alibi(slopes = 0.2)|where(j <= i, 3 * tanh(s / 3) - 0.2 * ((i - j) as real), -inf)
score = nearer|s - 0.1 * log(1 + (max(i - j, 0) as real))
score = nearer(rate = 0.3), causal = true|where(j <= i, s - 0.3 * log(1 + (max(i - j, 0) as real)), -inf)
score = through(by = nearer(rate = 0.2))|s - 0.2 * log(1 + (max(i - j, 0) as real)) - 0.2 * log(1 + (max(i - j, 0) as real))
causal = true, score = place_bias(table = bias)|where(j <= i, s + bias[min(max(i - j, 0), 7) as index(places)], -inf)
mask = sliding(size = 4), causal = true|where(j <= i and i - j < 4, s, -inf)
mask = documents(doc = doc)|where(doc == doc[seq -> key], s, -inf)
mask = documents(doc = doc), causal = true|where(doc == doc[seq -> key] and j <= i, s, -inf)
mask = own(doc = doc), window = 7, cap = 2|where(doc == doc[seq -> key] and j <= i and i - j < 7 and j - i < 7, 2 * tanh(s / 2), -inf)
mask = prefix(length = 5)|where(j < 5 or j <= i, s, -inf)
mask = prefix(length = 5), cap = 4, score = alibi(slopes = slopes)|where(j < 5 or j <= i, 4 * tanh(s / 4) - outer(slopes, (i - j) as real), -inf)
mask = documents(doc = doc), causal = true, window = 9, cap = 2, score = alibi(slopes = slopes)|where(doc == doc[seq -> key] and j <= i and i - j < 9, 2 * tanh(s / 2) - outer(slopes, (i - j) as real), -inf)
END
[ "$cases" = 18 ] || die "$cases cases were tried"

# A function goes through a function.
said="handed(q, k, v, alibi(slopes = slopes) over hd, seq, key)"
write said.mdl "$said"
fused said.mdl
write spelled.mdl "spelled(where(j <= i, s - outer(slopes, (i - j) as real), -inf), v over key)"
same "$said" "$(trained said.mdl)" "$(trained spelled.mdl)"
