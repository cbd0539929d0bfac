#!/bin/bash
# scores.sh: attention is one kernel, whatever its scores are and however they are spelled; what it is not stays apart.
. "${ROOT:?}/tests/cli/lib.sh"

# A model whose attention has these scores of s, the product of queries and keys.
write() {
  cat > scores.mdl <<END
import std.nn;
model scores {
  axis batch, seq, vocab = 9, embed = 8, heads = 2, hd = 4;
  axis key like seq;
  input tokens, targets: index(vocab)[batch, seq];
  param table: [vocab, embed];
  axis near = 4;
  param slope: [heads] = 1;
  param far: [near, heads];
  param gate: [embed ; heads];
  param pairs: [vocab, heads];
  x = table[tokens];
  q = linear(x over embed to heads, hd);
  k = linear(x over embed to heads, hd)[seq -> key];
  v = linear(x over embed to heads, hd)[seq -> key];
  s = dot(q, k over hd);
  i = pos(seq);
  j = pos(key);
  doc = tokens / 3;
  gated = dot(x, gate over embed);
  t = $1;
  o = dot(softmax(t over key), v over key);
  x = x + linear(o over heads, hd to embed, name = out);
  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));
}
recipe test { model scores(); batch = 2; seq = 8; optimizer adamw(lr = constant(0.01)); }
END
}

attentions() {
  expect 0 "$MDLC" print scores.mdl --after recognise
  grep -c "= composite \"attention\"" out || true
}

while read -r scores; do
  write "$scores"
  [ "$(attentions)" = 1 ] || die "no kernel for: $scores"
done <<'END'
s
s / 2
0.5 * s
s * 0.5 * 3
where(j <= i, s, -inf)
where(i >= j, s * 0.5, -inf)
where(not (j > i), s, -inf)
where(j < i + 1, s, -inf)
where(i - j >= 0, s, -inf)
where(j - i <= 0, s, -inf)
where(j > i, -inf, s)
where(i < j, -inf, s / 2)
0.5 * where(j <= i, s, -inf)
where(j <= i, s, -inf) / 2
where(j <= i, s, -1e9)
s + where(j <= i, 0, -inf)
s - where(j <= i, 0, inf)
s * where(j <= i, 1, 0) + where(j <= i, 0, -1e9)
where(j <= i and i - j < 4, s, -inf)
where(j <= i, where(i - j < 4, s, -inf), -inf)
where(max(i - j, j - i) < 3, s, -inf)
where(j <= i or j < 2, s, -inf)
where(doc == doc[seq -> key], s, -inf)
where(doc == doc[seq -> key] and j <= i, s, -inf)
30 * tanh(s / 30)
where(j <= i, 30 * tanh(0.1 * s / 30), -inf)
where(j <= i and i - j < 4, 5 * tanh(s / 5), -inf)
max(min(s, 2), -2)
s - 0.5 * ((i - j) as real)
s - outer(stop(slope), (i - j) as real)
s - outer(slope, (i - j) as real)
s + gated * slope + slope * slope
s + tanh(outer(gated, gated[seq -> key])) + gated[seq -> key]
s + far[max(min(i - j, 3), 0) as index(near)]
s + far[((tokens as int) % 4) as index(near)]
where(j <= i, s - outer(alibi_slopes(pos(heads), 2), max(i - j, j - i) as real), -inf)
s - log(1 + (max(i - j, 0) as real))
s + 0.1 * (((i / 2) - (j / 2)) as real)
where(i % 2 == j % 2, s, -inf)
END

# Scores that training changes one by one, otherwise than through q and k, or that no gradient goes through.
while read -r scores; do
  write "$scores"
  [ "$(attentions)" = 0 ] || die "a kernel that cannot be for: $scores"
done <<'END'
s + pairs[((tokens as int) * j % 9) as index(vocab)]
stop(s)
s + stop(s)
s - sum(s over key)
floor(s)
END

# Queries are along the axis that stands beside the key, not along that of a group, wherever the product has them.
write "where(doc == doc[seq -> key], s, -inf)"
sed -i 's/heads = 2/heads = 2, group = 2/; s/linear(o over heads/linear(o over heads, group/
  s/^  q = .*/  param wq: [embed ; group, heads, hd];\n  q = dot(wq, x over embed);/' scores.mdl
[ "$(attentions)" = 1 ] || die "no kernel for a group"
grep -q 'composite "attention".* along seq to key' out || die "queries are along another axis"
