#!/bin/bash
# stdin.sh: check and fmt take - for standard input, which messages call <stdin>.
. "${ROOT:?}/tests/cli/lib.sh"

expect 0 "$MDLC" check - < "$SMALL"
[ ! -s out ] && [ ! -s err ] || die "nothing is wrong, and something is said"
printf 'model m {\n  axis batch, seq;\n  loss = x;\n}\n' > bad.mdl
expect 1 "$MDLC" check - < bad.mdl
mentions err "<stdin>:3:10: error[E010]"
expect 1 "$MDLC" check bad.mdl - --diagnostics json < bad.mdl
mentions err '"file": "<stdin>"' '"file": "bad.mdl"'

# Imports are looked for where the command runs; a file that is called - has a path.
mkdir parts
printf 'fn twice(x) { return x + x; }\n' > parts/twice.mdl
printf 'import parts.twice;\nmodel m {\n  axis a = 2;\n  param w: [a];\n  loss = sum(twice(w));\n}\n' > good.mdl
expect 0 "$MDLC" check - < good.mdl
cp bad.mdl ./-
expect 0 "$MDLC" check - < good.mdl
expect 1 "$MDLC" check ./- < good.mdl
mentions err "./-:3:10"
printf 'model m \0 {' | expect 1 "$MDLC" check -
mentions err "<stdin>" "zero bytes"
expect 1 "$MDLC" check - < /dev/null
mentions err "has no model"

printf 'model  m{loss=1;}\n' > loose.mdl
expect 0 "$MDLC" fmt - < loose.mdl
same "formatted" "$(cat out)" 'model m { loss = 1; }'
expect 1 "$MDLC" fmt - < <(printf 'model {')
mentions err "<stdin>:1:7"

# What cannot be read is no empty text.
for command in fmt check; do
  expect 1 "$MDLC" $command - < .
  [ ! -s out ] || die "something was said of a text that could not be read"
  mentions err "cannot read '<stdin>': Is a directory"
done

# A language server says nothing but messages; without a client it ends.
expect 1 "$MDLC" lsp < /dev/null
[ ! -s out ] && [ ! -s err ] || die "the language server talks to itself"
expect 2 "$MDLC" lsp file.mdl
expect 0 "$MDLC" help lsp
mentions out "language server" "--stdio"
expect 0 "$MDLC" --help
mentions out "lsp"
