#!/bin/bash
# run.sh: the graph of each NAME.mdl here, after each PASS for which there is a NAME.PASS.expected, is that text.
#
#   tests/ir/run.sh --update [NAME.PASS]...    makes the texts anew (all, or these), to be read before they are committed
#
# Places in the sources are left out: they change with every comment of the library. A new case is a new NAME.mdl and an empty NAME.PASS.expected, then --update. What the texts mean is another test's
# business: passes_test evaluates them.
set -euo pipefail
cd "$(dirname "$0")"
MDLC=${MDLC:-../../build/mdlc}
update=""
if [ "${1:-}" = --update ]; then
  update=yes
  shift
fi
status=0

# print NAME PASS: of the training step, but for a pass that this does not have
print() {
  local program=train
  [ "$2" != decode ] || program=decode
  "$MDLC" print "$1.mdl" --program "$program" --after "$2" | sed -E 's/ (at )?#[0-9]+:[0-9]+-[0-9]+//g; s, +// .*$,,'
}

for expected in *.expected; do
  name=${expected%%.*}
  pass=${expected#*.}
  pass=${pass%.expected}
  if [ $# -gt 0 ] && [[ " $* " != *" $name.$pass "* ]]; then
    continue
  fi
  if ! found=$(print "$name" "$pass"); then
    echo "tests/ir/$name.mdl cannot be printed after $pass"
    status=1
  elif [ -n "$update" ]; then
    printf '%s\n' "$found" > "$expected"
  elif ! diff -u --label "$expected" --label "mdlc print $name.mdl --after $pass" "$expected" <(printf '%s\n' "$found"); then
    status=1
  fi
done
if [ "$status" != 0 ]; then
  echo "if the new texts are right: tests/ir/run.sh --update"
fi
exit "$status"
