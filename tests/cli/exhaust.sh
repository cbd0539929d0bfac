#!/bin/bash
# exhaust.sh: short texts that ask for endless work, and long ones: each is done, or refused in words, soon.
. "$ROOT/tests/cli/lib.sh"
SECONDS_MOST=${SECONDS_MOST:-10}  # of processor time: a machine that does nothing else takes less than two

# model WORDS... : a model with these statements, read from stdin, and a recipe
model() {
  printf 'model t {\n  axis batch, seq, d = 2;\n  input x: real[batch, d];\n  param w: [d];\n'
  cat
  printf '  loss = mean(x) * mean(w);\n}\nrecipe r { model t(); batch = 2; seq = 2; %s }\n' "${1:-}"
}

# many FORMAT: 100,000 lines, each with its number twice
many() {
  awk -v format="$1" 'BEGIN { for (i = 0; i < 100000; i++) printf format "\n", i, i }'
}

# checked STATUS WORDS FILE: the status, what is said, and in time
checked() {
  local status=$1 words=$2 file=$3
  expect "$status" bash -c "ulimit -t $SECONDS_MOST; exec \"\$0\" check \"\$1\"" "$MDLC" "$file"
  [ -z "$words" ] || mentions err "$words"
}

# What is unrolled has a budget of steps.
echo 'repeat 100000 { repeat 100000 { repeat 100000 { } } }' | model > nested.mdl
checked 1 "the program takes more than 1000000 steps to unroll" nested.mdl
echo 'repeat 100000 { repeat 100000 { if 1 < 0 { y = 1; } } }' | model > branches.mdl
checked 1 "the program takes more than 1000000 steps to unroll" branches.mdl
{
  echo 'fn f0(x) { return x; }'
  awk 'BEGIN { for (i = 1; i < 40; i++) printf "fn f%d(x) { y = f%d(x); z = f%d(y); return z; }\n", i, i - 1, i - 1 }'
  echo 'h = f39(x);' | model
} > twice.mdl
checked 1 "the program takes more than 1000000 steps to unroll" twice.mdl
{
  echo 'fn f(x) { return g(x) + g(x); }'
  echo 'fn g(x) { return f(x) + f(x); }'
  echo 'h = f(x);' | model
} > mutual.mdl
checked 1 "the program takes more than 1000000 steps to unroll" mutual.mdl

{
  echo 'fn f0(x) { return x; }'
  awk 'BEGIN { for (i = 1; i < 15; i++) { printf "fn f%d(x) { return 0", i; for (j = 0; j < 9; j++) printf " + f%d(x)", i - 1; print "; }" } }'
  echo 'update u(p, g, lr) { return p - lr * f14(g); }'
  echo | model 'optimizer u(lr = 0.1);'
} > update.mdl
checked 1 "the program takes more than 1000000 steps to unroll" update.mdl

# Devices and pipes are no texts.
mkfifo pipe
for file in /dev/zero pipe; do
  { echo "import \"$file\";"; echo | model; } > device.mdl
  checked 1 "it is a device or a pipe, not a file" device.mdl
done
expect 1 timeout 20 "$MDL" train /dev/zero
mentions err "/dev/zero"

# 100,000 of what there may be any number of.
many '  a%d = 1;' | model > names.mdl
checked 0 "nothing reads the value" names.mdl
many '  param v%d: [d];' | model > parameters.mdl
checked 0 "nothing reads the parameter" parameters.mdl
many '  y%d = nothing%d;' | model > errors.mdl
checked 1 "there is no value 'nothing0' here" errors.mdl
{ many 'fn f%d(x) { return x; }'; echo | model; } > functions.mdl
checked 0 "nothing calls the function" functions.mdl
{ many 'import std.nn;'; echo | model; } > imports.mdl
checked 0 "nothing reads what this import brings" imports.mdl
many 'nothing%d = 1;' > settings
echo | model "$(cat settings)" > settings.mdl
checked 1 "has no axis or constant 'nothing0'" settings.mdl
many 'lr = 1;' > settings
echo | model "$(cat settings)" > given.mdl
checked 1 "'lr' is given twice" given.mdl
{ echo | model; echo 'layout l {'; many 'offload h%d;'; echo '}'; } > rules.mdl
checked 1 "" rules.mdl

# Depth has limits of its own.
{ printf 'y = '; head -c 100000 /dev/zero | tr '\0' '('; echo ';'; } | model > brackets.mdl
checked 1 "brackets are nested more than 200 deep" brackets.mdl
{ printf 'y = 1'; many ' + %d' | tr -d '\n'; echo ';'; } | model > chain.mdl
checked 1 "nested too deeply" chain.mdl
{ printf 'y = '; head -c 2000000 /dev/zero | tr '\0' 'a'; echo ';'; } | model > long.mdl
checked 1 "a name is longer than 1,000 characters" long.mdl

# A chain of sums is as deep as it is long: what recurses over it has the stack for that, and ends no program.
{
  printf 'model t {\n  axis batch, seq, d = 2, n = 20000;\n  input x: real[batch, d];\n  param w: [d];\n  y = x * w;\n'
  printf '  repeat n { y = y + x; }\n  loss = mean(square(y));\n}\nrecipe r { model t(); batch = 2; seq = 2; }\n'
} > chain.mdl
checked 0 "" chain.mdl

# Values that are read twice, one behind the other, in a loss and in a learning rate.
{
  echo 'import std.loss;'
  printf 'model t {\n  axis batch, seq, vocab = 8, embed = 4, layers = 60;\n  input tokens, targets: index(vocab)[batch, seq];\n'
  printf '  param table: [vocab, embed];\n  x = table[tokens];\n  y = mean(x);\n  repeat layers { y = y * y; }\n'
  printf '  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab)) + y;\n}\n'
  printf 'fn rate(n) { s = 2 * step - 1;\n'
  awk 'BEGIN { for (i = 0; i < 60; i++) print "s = s * s;" }'
  printf 'return 1e-9 * (s / n); }\nrecipe r { batch = 2; seq = 2; optimizer adamw(lr = rate(10)); }\n'
} > squares.mdl
checked 0 "" squares.mdl
