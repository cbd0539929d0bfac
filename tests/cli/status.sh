#!/bin/bash
# status.sh: exit statuses and where output goes.
. "${ROOT:?}/tests/cli/lib.sh"
for program in "$MDL" "$MDLC"; do
  expect 0 "$program" --help
  [ -s out ] && [ ! -s err ] || die "help belongs on stdout"
  expect 0 "$program" --version
  expect 2 "$program"
  expect 2 "$program" nonsense
done
expect 2 "$MDL" train "$SMALL" --stepz 3
[ ! -s out ] && [ -s err ] || die "a usage error belongs on stderr"
mentions err "--steps"
expect 2 "$MDL" train
expect 2 "$MDL" train "$SMALL" --steps many
expect 2 "$MDLC" check
expect 2 "$MDLC" compile "$SMALL"
expect 1 "$MDLC" check missing.mdl
mentions err "missing.mdl"
expect 1 "$MDL" train missing.mdl
expect 1 "$MDL" generate missing --prompt x
printf 'model m { axis batch, seq; loss = x; }\n' > bad.mdl
expect 1 "$MDLC" check bad.mdl
mentions err "bad.mdl:1:" "error[E"
expect 1 "$MDLC" check bad.mdl --diagnostics json
expect 1 "$MDL" train bad.mdl
[ ! -e runs ] || die "a bad text made a run directory"
expect 1 "$MDL" train "$SMALL" --set embd=3
mentions err "embed"
expect 1 "$MDL" train "$SMALL" --recipe smal
mentions err "small"
expect 0 "$MDLC" check "$SMALL" "$ROOT"/examples/*.mdl "$ROOT"/models/*.mdl
expect 0 "$MDLC" explain "$SMALL"
expect 0 "$MDLC" print "$SMALL" --after list
train "$SMALL" --steps 1 --out taken
expect 1 "$MDL" train "$SMALL" --steps 1 --out taken
mentions err "--resume"
expect 1 "$MDL" train "$SMALL" --steps 1 --out data --data missing.txt
mentions err "missing.txt"
# What is made never takes the place of the text that it is made from, or of one that this imports; links lead there too.
cp "$SMALL" made.mdl
printf 'import made;\n' > main.mdl
ln -s made.mdl made.svg
for command in "compile made.mdl -o made.mdl" "compile made.mdl -o ./made.svg" "compile main.mdl -o made.mdl" \
  "explain made.mdl --svg made.svg"; do
  expect 2 "$MDLC" $command
  mentions err "made.mdl is read" "would overwrite it"
  cmp -s "$SMALL" made.mdl || die "a text was overwritten: mdlc $command"
done
expect 0 "$MDLC" compile made.mdl -o made.mdlx
# What others may not read says the user's mask; a file that is replaced keeps what it has.
(umask 077 && "$MDLC" compile made.mdl -o masked.mdlx > out)
same "rights of a plan" "$(stat -c %a masked.mdlx)" 600
chmod 640 masked.mdlx
expect 0 "$MDLC" compile made.mdl -o masked.mdlx
same "rights of a plan that is replaced" "$(stat -c %a masked.mdlx)" 640
# A limit of files ends no program: it is told as a full disk is.
limited() {
  bash -c "ulimit -f $1; shift; exec \"\$@\"" - "$@"
}
expect 1 limited 1 "$MDLC" compile "$SMALL" -o limited.mdlx
mentions err "limited.mdlx" "File too large"
[ ! -e limited.mdlx ] || die "a part of a plan has the name of one"
expect 1 limited 60 "$MDL" train "$SMALL" --steps 2 --save-every 1 --out limited
grep -q "File too large" out err || die "nobody said that files may be no larger"
# A small limit of stacks ends no program either.
for command in "train $SMALL --steps 2 --save-every 1 --out shallow" "eval shallow" "generate shallow --prompt A --tokens 2"; do
  expect 0 bash -c "ulimit -s 64; exec \"\$@\"" - "$MDL" $command
done
expect 0 bash -c "ulimit -s 64; exec \"\$@\"" - "$MDLC" check "$SMALL"
