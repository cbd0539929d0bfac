#!/bin/bash
# run.sh: rules of the source that no compiler knows.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v python3 > /dev/null || { echo "there is no python3 to read sources with"; exit 77; }
if [ -z "${WORK:-}" ]; then
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
fi

# What lets keys be bounded is work for each op, and four of them do none.
find compiler -name '*.[ch]' ! -name visible.c -print0 | xargs -0 python3 tests/style/op_lists.py

# Controls, which must fail: a list of comparisons, a list of labels, a range.
controls=('return op == OP_RENAME || op == OP_SPLIT || op == OP_MERGE ||\n  op == OP_SLICE;'
  'switch (op) { case OP_SUM:\n case OP_DOT:\n case OP_PUT:\n case OP_FOLD:\n return true; }'
  'return op >= OP_ADD;')
for control in "${controls[@]}"; do
  printf 'bool moves(Op op) {\n%b\n}\n' "$control" > "$WORK/control.c"
  if python3 tests/style/op_lists.py "$WORK/control.c" > "$WORK/control.out"; then
    echo "a list of ops passes: $control"
    exit 1
  fi
done

# And rooms: with a control.
find base lang compiler lsp -name '*.[ch]' -print0 | xargs -0 python3 tests/style/rooms.py
mkdir -p "$WORK/compiler/ir"
echo '#include "compiler/lower/lower.h"' > "$WORK/compiler/ir/control.c"
if (cd "$WORK" && python3 "$OLDPWD/tests/style/rooms.py" compiler/ir/control.c > control.out); then
  echo "an include that goes up passes"
  exit 1
fi

# Text of JSON is made in guarded work alone: where memory is missing, the library leaves parts out.
if grep -rnE '\<json_dump(s|f|b|fd|_file|_callback)\>' base lang compiler lsp runtime --include='*.[ch]' | grep -v '^base/json_guard\.'; then
  echo "JSON is written: json_dumped or json_made of base/json_guard.h"
  exit 1
fi

# Every function of the library stands in the reference, but for what only its schedules call.
for part in stdlib/*.mdl; do
  name=$(basename "$part" .mdl)
  row=$(grep -F "| \`std.$name\` |" docs/language.md || true)
  sed -n 's/^\(fn\|update\) \([a-z0-9_]*\).*/\2/p' "$part" | while read -r function; do
    case $name.$function in
      schedule.warmed | schedule.progress) continue ;;
    esac
    grep -q "[\` ]${function}[\` ]" <<< "$row" || { echo "std.$name has $function, which docs/language.md does not name"; exit 1; }
  done
done
