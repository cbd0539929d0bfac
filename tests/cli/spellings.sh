#!/bin/bash
# spellings.sh: two spellings of the same model send the same bytes.
. "${ROOT:?}/tests/cli/lib.sh"

# One expert a token, as a slice of the choices and as a sum over the only one.
cat > sliced.mdl << 'EOF'
import std.nn;
model m {
  axis batch, seq, vocab = 256, embed = 32, layers = 3, experts = 4, choice = 1, inner = 48;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table);
  repeat layers {
    h = rms_norm(x over embed, name = norm);
    (best, whom) = top(softmax(linear(h over embed to experts, name = router) over experts) over experts to choice);
    param up: [experts | embed ; inner] ~ normal(0.2);
    param down: [experts | inner ; embed] ~ normal(0.2);
    who = whom[choice: 0];
    x = x + dot(gelu(dot(h, up[who] over embed)), down[who] over inner) * best[choice: 0];
  }
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}
recipe m { model m(); batch = 8; seq = 16; optimizer sgd(lr = 0.1); }
layout free { mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none; }
layout capped { mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none; capacity = 1.25; }
layout apart { mesh dp = 2, ep = 2; batch -> dp, ep; experts -> ep; router: experts -> none; }
EOF
sed -e 's/who = whom\[choice: 0\];/who = whom;/' \
  -e 's/x = x + dot(\(.*\)) \* best\[choice: 0\];/x = x + sum(dot(\1) * best over choice);/' sliced.mdl > summed.mdl
cmp -s sliced.mdl summed.mdl && die "both are spelled in the same way"
for layout in free capped apart; do
  for text in sliced summed; do
    expect 0 "$MDLC" explain $text.mdl --layout $layout
    grep -E '^ +(dp|ep|dp, ep) .* in ' out > $text.sent
  done
  same "what is sent under $layout" "$(cat summed.sent)" "$(cat sliced.sent)"
done

# What is made of an index in many steps is looked through once, not once for each way through it.
{ printf '    param bias: [experts, embed] ~ normal(0.2);\n    b = bias[who];\n'
  for _ in $(seq 60); do echo '    b = sin(b * b + 0.1) - b;'; done; } > steps
sed -e '/who = whom/r steps' -e 's/over inner) \* best/over inner) * best + b * best/' summed.mdl > deep.mdl
expect 0 timeout 20 "$MDLC" check deep.mdl --layout capped

# A value that two names are read by is gathered once, wherever the rename stands.
cat > named.mdl << 'EOF'
import std.nn;
model m {
  axis batch, seq, vocab = 32, embed = 16, heads = 2, hd = 8, layers = 2;
  axis key like seq;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed, name = table) @resid;
  repeat layers {
    h = rms_norm(x over embed, name = norm);
    q = linear(h over embed to heads, hd);
    k = linear(h[seq -> key] over embed to heads, hd);
    v = linear(h[seq -> key] over embed to heads, hd);
    x = x + linear(attention(q, k, v over hd, seq, key, causal = true) over heads, hd to embed, name = out) @resid;
  }
  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));
}
recipe m { model m(); batch = 4; seq = 16; optimizer sgd(lr = 0.1); }
layout sp { mesh tp = 2; heads -> tp; @resid: seq -> tp; }
EOF
sed 's/linear(h\[seq -> key\] over embed to heads, hd)/linear(h over embed to heads, hd)[seq -> key]/' named.mdl > renamed.mdl
cmp -s named.mdl renamed.mdl && die "both are spelled in the same way"
for text in named renamed; do
  expect 0 "$MDLC" explain $text.mdl --layout sp
  grep -E '^  tp .* in ' out > $text.sent
done
same "what is sent of two names" "$(cat renamed.sent)" "$(cat named.sent)"
