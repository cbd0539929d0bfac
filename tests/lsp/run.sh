#!/bin/bash
# run.sh: a client that is a program speaks with `mdlc lsp`; the words of the files for editors are the compiler's.
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
MDLC=${MDLC:-${BUILD:-$ROOT/build}/mdlc}
command -v python3 > /dev/null || { echo "there is no python3 to be a client"; exit 77; }
if [ -z "${WORK:-}" ]; then
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
fi
export ROOT MDLC WORK
export XDG_CACHE_HOME=$WORK/cache
unset MDL_CACHE

python3 "$ROOT/tests/lsp/session.py"
python3 "$ROOT/tests/lsp/frames.py"
python3 "$ROOT/tests/lsp/words.py"

# The extension of VS Code, with a stand-in for the editor.
if command -v node > /dev/null; then
  node "$ROOT/tests/lsp/vscode.js" "$ROOT/docs/editors/vscode" "$MDLC"
fi

# The files for Vim load without an error, and colour what they should.
if command -v vim > /dev/null && vim --version | grep '+syntax' > /dev/null; then
  "$ROOT/tests/lsp/vim.sh"
fi
