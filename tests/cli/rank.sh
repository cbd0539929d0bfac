#!/bin/bash
# rank.sh: ablations of recipes, models and seeds: parameters, means, spreads and a ranking.
. "${ROOT:?}/tests/cli/lib.sh"
sed "s,../../LICENSE,$ROOT/LICENSE," "$SMALL" > small.mdl
sed -n '/^model small/,/^}/p' small.mdl | sed 's/^model small/model still/; s/  loss = /  logits = 0 * logits;\n&/' > still.mdl
cat still.mdl >> small.mdl
sed -n '/^recipe small/,/^}/p' small.mdl | sed 's/recipe small/recipe wide/; s/small()/small(ffn = 192)/' > wide.mdl
cat wide.mdl >> small.mdl

# numbers DIRECTORY KEY: the values of that key, one for each row
numbers() {
  sed "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/" "$1/ablate.jsonl"
}

# Two recipes from three seeds: six rows, two lines of a ranking, by the losses of validation.
expect 0 "$MDL" ablate small.mdl recipe=small,wide --seeds 3 --steps 15 --out seeds
mentions out "6/6  recipe=wide seed=3" "rank  recipe  parameters  val loss    spread  seeds" \
  "ranked by the mean of the validation losses"
small=$(numbers seeds parameters | sed -n 1p) wide=$(numbers seeds parameters | sed -n 4p)
same "more parameters" "$wide" "$(awk -v x="$small" 'BEGIN { printf "%.1f", x + 2 * 3 * 32 * 128 }')"
same "seeds that are no other" "$(numbers seeds val_loss | sort -u | wc -l)" 6
numbers seeds val_loss | awk '
  { x[NR] = $1; m[NR > 3] += $1 / 3 }
  END {
    for (i = 1; i <= 6; i++) v[i > 3] += (x[i] - m[i > 3]) ^ 2 / 2
    for (i = 0; i < 2; i++) printf "%.6f %.6f\n", m[i], sqrt(v[i])
  }' > wanted
paste -d ' ' <(numbers seeds rank_mean) <(numbers seeds rank_spread) | sed -n '1p; 4p' | awk '{ printf "%.6f %.6f\n", $1, $2 }' > found
same "means and spreads" "$(cat found)" "$(cat wanted)"
best=$(awk 'NR == 1 { m = $1 } END { print ($1 < m) ? "wide" : "small" }' wanted)
same "the best" "$(awk '$1 == 1 && NF >= 6 { name = $2 } END { print name }' out)" "$best"
same "ranks" "$(numbers seeds rank | sort | uniq -c | xargs)" "3 1 3 2"

# Seeds by name; another model of the text, which cannot learn, is the last and far behind.
expect 0 "$MDL" ablate small.mdl --recipe small model=still,small seed=4,7 --steps 15 --out models
mentions out "model=still seed=7"
same "ranks of models" "$(numbers models rank | xargs)" "2 2 1 1"
same "a loss that stands still" "$(numbers models val_loss | sed -n 1p | cut -c1-5)" 5.545
! grep -q '≈' out || die "a model that learns nothing is as good"
expect 1 "$MDL" ablate small.mdl --recipe small model=still,smull --out never
mentions err "there is no model 'smull'" "--set model=NAME: small, still"
train small.mdl --recipe small --set model=still --steps 2 --out alone
mentions out "still, recipe small"

# One seed has no spread; layouts alone are not ranked; without validation the last losses are.
expect 0 "$MDL" ablate small.mdl recipe=small,wide --steps 2 --out one
same "spreads of one seed" "$(numbers one rank_spread | xargs)" "null null"
expect 0 "$MDL" ablate small.mdl --recipe small precision=fp32,fp64 --steps 2 --out same
same "ranks of the same computation" "$(numbers same rank | xargs)" "null null"
expect 0 "$MDL" ablate small.mdl --recipe small --set validation=0 batch=2,4 --steps 20 --out blind
mentions out "last losses"
expect 0 "$MDL" ablate small.mdl --recipe small --seeds 2 --steps 2 --out two
same "ranks of one recipe" "$(numbers two rank | xargs)" "1 1"
expect 2 "$MDL" ablate small.mdl --seeds 2 seed=4,7 --out never
mentions err "--seeds and seed=4,7 do not go together"
expect 2 "$MDL" ablate small.mdl --seeds 0 recipe=small,wide --out never
sed '/^recipe wide/,/^}/s,tokenizer = bytes,&,; /^recipe wide/,/^}/s,/LICENSE,/README.md,' small.mdl > other.mdl
expect 0 "$MDL" ablate other.mdl recipe=small,wide --steps 2 --out other
mentions out "rows have different data or tokens"
! grep -q "other terms" out || die "these losses are the cross entropy"
sed 's/^model .* {/& const weight = 0;/; s/^  loss = .*/& if weight > 0 { loss = loss + weight * mean(square(logits)); }/' small.mdl > terms.mdl
expect 0 "$MDL" ablate terms.mdl --recipe small weight=0,0.1 --steps 2 --out terms
mentions out "losses of some rows have other terms than the cross entropy, which rank them too"
! grep -q "different data" out || die "data and tokens are the same"

sed '/^recipe small/,/^}/s|^  seed|  eval_batches = 1;\n&|' small.mdl > windows.mdl
# Losses of other windows of the same data are ranked, with a word on which rows have which.
for word in batch=2,4 eval_batches=1,2,0 validation=0.05,0.3 seq=16,32; do
  rm -rf windows
  expect 0 "$MDL" ablate windows.mdl --recipe small "$word" --steps 1 --out windows
  mentions out "rows are validated with other windows:"
  ! grep -q "different data" out || die "$word: data and tokens are the same"
  case $word in
    batch=*) mentions out "windows: 2 (row 1), 4 (row 2): a loss of one says little beside that of another; \`eval_batches = 0\` reads all" ;;
    eval*) same "windows of rows" "$(numbers windows windows | xargs)" "4 8 17" ;;
    valid*) mentions out "4 from the last 5% of the data (row 1), 4 from the last 30% of the data (row 2)" ;;
    seq=*) mentions out "4 of 16 tokens (row 1), 4 of 32 tokens (row 2)" ;;
  esac
done
expect 0 "$MDL" ablate windows.mdl --recipe small batch=2,4 --set eval_batches=0 --steps 1 --out all
! grep -q "other windows" out || die "both read all that is held out"

# A capacity of a layout changes what is computed: shown, not judged. The same layouts without it are.
cp "$ROOT"/models/mixtral.mdl .
cat >> mixtral.mdl << 'MDL'
layout whole { microbatches = 2; }
layout bounded { microbatches = 2; capacity = 0.5; }
MDL
expect 0 "$MDL" ablate mixtral.mdl --recipe tiny layout=single,whole,bounded --data "$ROOT/LICENSE" --steps 4 --out capacity
same "verdicts with a capacity" "$(numbers capacity verdict | xargs)" "none same not judged"

# In the picture no name reaches the losses, however wide its letters are.
long=$(printf 'W%.0s' $(seq 60))
sed "s/^recipe wide/recipe $long/" small.mdl > long.mdl
expect 0 "$MDL" ablate long.mdl "recipe=small,$long" --dry --out long
grep -o "<text class=\"name\"[^>]*>W*</text>" long/ablate.svg > names
same "the whole name" "$(sed 's/<[^>]*>//g' names | tr -d '\n')" "$long"
awk 'length($0) > 0 { gsub(/<[^>]*>/, ""); if (length($0) * 12 > 478 - 60 - 96) exit 1 }' names || die "a name lies on the losses"
[ ! -e never ] || die "a wrong word made a directory"

# Losses that are made in other ways are compared by outputs: their means, and the losses of named sources, beside the ranks.
sed -e 's/^  loss = .*/  const weight = 1;\
  plain = mean(cross_entropy(logits, targets over vocab));\
  loss = weight * plain;\
  output plain;\
  output place = mean(cross_entropy(logits, targets over vocab) over batch);/' \
  -e "/^recipe small/,/^}/s|^  seed|  validation sets(same = text(\"$ROOT/LICENSE\"), page = text(\"$ROOT/README.md\"));\n&|" small.mdl > weights.mdl
expect 0 "$MDL" ablate weights.mdl --recipe small weight=1,2 --seeds 2 --steps 3 --out weights
mentions out "val_loss.same  val_loss.page  val_plain  val_place.0"
awk '$1 == 1 || $1 == 2 { if ($3 ~ /k$/) print $4 / $10 }' out > ratios
same "how often the losses are the plain ones" "$(awk '{ printf "%.3f ", $1 }' ratios)" "1.000 2.000 "
paste -d ' ' <(numbers weights val_plain) <(numbers weights val_loss) <(numbers weights combination) |
  awk '{ r = $2 / $1; exit !(r > (NR > 2 ? 1.999 : 0.999) && r < (NR > 2 ? 2.001 : 1.001)) }' || die "outputs of rows"
same "outputs of vectors" "$(grep -c '"val_place.31":' weights/ablate.jsonl)" 4

# Rows that are trained beyond their schedules are named.
expect 0 "$MDL" ablate small.mdl --recipe small steps=2,5 --steps 4 --out beyond
mentions out "every row is trained for 4 steps" "for which schedules of learning rates are made: row 1 (2)"
! grep -q "2 (5)" out || die "a row within its schedule is said to be beyond"
