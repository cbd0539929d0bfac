#!/bin/bash
# large.sh: a model of 172 billion parameters compiles in 2 seconds of processor time and 1 GiB of memory.
. "${ROOT:?}/tests/cli/lib.sh"
[ -x /usr/bin/time ] || { echo "there is no /usr/bin/time"; exit 77; }
/usr/bin/time -f '%U %S %M' -o cost "$MDLC" compile "$ROOT/models/llama.mdl" --recipe llm_jp_172b -o large.mdlx
read -r user system kilobytes < cost
echo "user $user s, system $system s, $((kilobytes / 1024)) MiB, plan $(stat -c %s large.mdlx) bytes"
awk -v seconds="$user" -v more="$system" 'BEGIN { exit !(seconds + more <= 2) }' || die "more than 2 s of processor time"
[ "$kilobytes" -le 1048576 ] || die "more than 1 GiB"
