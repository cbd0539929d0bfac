#!/bin/bash
# format.sh: every .mdl text of the repository is formatted, apart from those that test errors, faults and formatting.
. "${ROOT:?}/tests/cli/lib.sh"
cd "$ROOT"
find . -name '*.mdl' -not -path './build*' -not -path './runs/*' -not -path './tests/errors/*' -not -path './tests/fmt/*' \
  -not -path './tests/fuzz/found/*' |
  LC_ALL=C sort | xargs "$MDLC" fmt --check
