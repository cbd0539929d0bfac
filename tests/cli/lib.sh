# lib.sh: for the scripts here. Each is one test: it runs in bash, stops at the first failure, and exit 77 skips it.
#
# From tests/run.sh come ROOT (the repository), MDL and MDLC (the programs) and WORK (an empty directory).
set -euo pipefail
cd "${WORK:?no directory is given to write in}"  # else the one it stands in would be filled

SMALL=$ROOT/tests/cli/small.mdl   # trains on the text of the licence: a few milliseconds a step

die() {
  echo "$*" >&2
  exit 1
}

# expect STATUS COMMAND...: runs it, output to out and err, and demands this exit status
expect() {
  local wanted=$1 status=0
  shift
  "$@" > out 2> err || status=$?
  if [ "$status" != "$wanted" ]; then
    cat out err >&2
    die "exit status $status instead of $wanted: $*"
  fi
}

# train ARGUMENT...: quietly, and it must succeed
train() {
  expect 0 "$MDL" train "$@"
}

# weights RUN STEP: a hash of all state in that checkpoint
weights() {
  local at
  at=$(printf '%s/checkpoints/step-%08d' "$1" "$2")
  [ -f "$at/manifest.json" ] || die "there is no checkpoint $at"
  (cd "$at" && find . -name '*.safetensors' | LC_ALL=C sort | xargs sha256sum)
}

# older RUN: its checkpoints say no more of data and evaluations than those of programs before
older() {
  sed -z -i -e 's/,\n "manifest_xxh3_64": "[0-9a-f]*"//; s/"version": 2/"version": 1/; s/ "trained_on": \[[^]]*\],\n//' \
    -e 's/ "validated_with": "[0-9a-f]*",\n//; s/ "validated_from": [0-9]*,\n//' "$1"/checkpoints/*/manifest.json
  ! grep -q 'manifest_xxh\|trained_on\|validated_' "$1"/checkpoints/*/manifest.json || die "$1 has manifests of now"
}

# same NAME A B: the two texts are equal
same() {
  if [ "$2" != "$3" ]; then
    printf '%s\n--- and ---\n%s\n' "$2" "$3" >&2
    die "$1: not the same"
  fi
}

# said KEY...: these numbers of the line of JSON in `out`
said() {
  local key
  for key in "$@"; do
    sed -n "s/.*\"$key\":\([-+0-9.e]*\)[,}].*/\1/p" out
  done
}

# close WHAT A B [MOST]: as near as sums in another order are
close() {
  awk -v a="$2" -v b="$3" -v most="${4:-2e-6}" 'BEGIN { exit !(a != "" && b != "" && a - b < most && b - a < most) }' ||
    die "$1: $2 is not $3"
}

# talks: six conversations as JSON lines
talks() {
  local i
  for i in 1 2 3 4 5 6; do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $i$i$i?\"}, {\"role\": \"assistant\", \"content\": \"It is the number $i, three times.\"}]}"
  done
}

# losses RUN: step and loss of every line of metrics
losses() {
  sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([-+0-9.eE]*\).*/\1 \2/p' "$1/metrics.jsonl"
}

# mentions FILE WORD...: each of the words is in the file
mentions() {
  local file=$1 word
  shift
  for word in "$@"; do
    grep -qF -- "$word" "$file" || { cat "$file" >&2; die "'$word' is not said in $file"; }
  done
}

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
  local tries=$(($1 * 50))
  shift
  while ! "$@" > /dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || die "waited in vain for: $*"
    sleep 0.02
  done
}

# saved RUN STEP: there is a whole checkpoint of that step or a later one, since older ones are removed
saved() {
  local manifest step
  for manifest in "$1"/checkpoints/step-*/manifest.json; do
    step=$(basename "$(dirname "$manifest")")
    if [ -f "$manifest" ] && [ "$((10#${step#step-}))" -ge "$2" ]; then
      return 0
    fi
  done
  return 1
}

# interrupts FILE COMMAND...: Ctrl-C once FILE is not empty; what it said is in log, and it must end with status 130
interrupts() {
  local file=$1 status=0
  shift
  "$@" > log 2>&1 &
  wait_for 60 test -s "$file"
  kill -INT $!
  wait $! || status=$?
  [ "$status" = 130 ] || { cat log >&2; die "exit status $status instead of 130: $*"; }
}

# interrupted RUN: the step of the checkpoint that an interrupted run, whose words are in log, has saved
interrupted() {
  local last
  last=$(find "$1/checkpoints" -name 'step-*' | sort | tail -n 1)
  [ -f "$last/manifest.json" ] || { cat log >&2; die "nothing was saved"; }
  echo $((10#${last##*-}))
}
