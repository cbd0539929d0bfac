#!/bin/bash
# vim.sh: the files for Vim load, and words have the groups that they should.
set -euo pipefail
cat > "$WORK/colours.mdl" <<'END'
// a comment
model m {
  x = mean(y over seq) @resid;
}
END
cat > "$WORK/colours.vim" <<END
set nocompatible runtimepath^=$ROOT/docs/editors/vim
filetype plugin on
syntax on
edit $WORK/colours.mdl
let found = [&filetype, &commentstring]
for place in [[1, 4], [2, 1], [3, 7], [3, 14], [3, 26]]
  call add(found, synIDattr(synID(place[0], place[1], 1), 'name'))
endfor
call writefile(found, '$WORK/colours.found')
qall!
END
HOME=$WORK vim -es -u NONE -i NONE -S "$WORK/colours.vim" < /dev/null > "$WORK/vim.log" 2>&1 || true
if [ ! -f "$WORK/colours.found" ]; then
  cat "$WORK/vim.log"
  echo "vim has not loaded the files"
  exit 1
fi
printf '%s\n' mdl '// %s' mdlComment mdlDeclaration mdlBuiltin mdlWord mdlLabel | diff - "$WORK/colours.found"
