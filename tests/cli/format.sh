#!/bin/bash
# format.sh: every .mdl text of the repository is formatted, apart from those that test errors and formatting.
. "$ROOT/tests/cli/lib.sh"
cd "$ROOT"
find . -name '*.mdl' -not -path './build*' -not -path './runs/*' -not -path './tests/errors/*' -not -path './tests/fmt/*' |
  LC_ALL=C sort | xargs "$MDLC" fmt --check
