#!/bin/bash
# bench_gpu.sh: whole training steps on one GPU: ours, in both kinds of reproducibility, between those of the peers.
#
#   tests/bench_gpu.sh [--quick] [--jobs 'JOB...'] [--peers 'torch jax llm.c'] OUT
#
# OUT is a folder: raw.txt gets every line as it comes, log.txt what the programs said besides, table.md the table.
# Each job is ours, the peer known to be the best at it, and ours again, strictly; then come the other peers. Peers
# that are missing, or for which no time is left, are skipped, and that is said.
#   BUILD   folder that we were built in, or one that holds bench_train and bench_cuda; from the root: build
#   PYTHON  that has torch and jax: python3
#   LLMC    llm.c's train_gpt2cu, built elsewhere
#   COMMIT  of our programs, where there is no git
#   BENCH_SECONDS   that all of it may take: 410
#   BENCH_TRAIN, BENCH_TORCH   more options of bench_train and of torch_step.py
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
[ -x "$BUILD/bench_train" ] || BUILD=$BUILD/tests
PYTHON=${PYTHON:-python3}
BENCH_SECONDS=${BENCH_SECONDS:-410}
JOBS='gpt2 llama1b llama8b-8 gpt2-xl'
PEERS='torch jax llm.c'
STEPS=20
OURS_SECONDS=20 PEER_LEAST=35 PEER_MOST=130  # what a run is expected to take, and may take
while [ $# -gt 1 ]; do
  case $1 in
    --quick) STEPS=8 ;;
    --jobs) JOBS=$2; shift ;;
    --peers) PEERS=$2; shift ;;
    *) break ;;
  esac
  shift
done
if [ $# -ne 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/bench_gpu.sh [--quick] [--jobs 'JOB...'] [--peers 'PEER...'] OUT" >&2
  exit 2
fi
OUT=$1
mkdir -p "$OUT" || exit 1
: >"$OUT/raw.txt"
: >"$OUT/log.txt"
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-${TMPDIR:-/tmp}/jax-cache}
export PYTHONDONTWRITEBYTECODE=1

say() { echo "$*" | tee -a "$OUT/raw.txt"; }

# take SECONDS COMMAND...: its lines that hold figures go into raw.txt, all of them into log.txt
take() {
  local limit=$1 status lines=$OUT/lines.txt
  shift
  echo "# $*" | tee -a "$OUT/log.txt" >>"$OUT/raw.txt"
  timeout "$limit" "$@" >"$lines" 2>>"$OUT/log.txt"
  status=$?
  cat "$lines" >>"$OUT/log.txt"
  grep -E '^(copy|OURS|PEER) ' "$lines" | tee -a "$OUT/raw.txt"
  rm -f "$lines"
  if [ $status -eq 124 ]; then
    say "SKIPPED after $limit s: $*"
  elif [ $status -ne 0 ]; then
    say "FAILED with status $status (log.txt): $*"
  fi
}

# peer NAME JOB: runs it, unless it is missing or time is short
peer() {
  local name=$1 job=$2 left
  local command=("$PYTHON" "tests/peers/${name}_step.py" "$job" --steps "$STEPS")
  case $name in
    torch | jax)
      if ! "$PYTHON" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$name'))" 2>>"$OUT/log.txt"; then
        say "SKIPPED: $name $job: $PYTHON has no $name"
        return
      fi
      # shellcheck disable=SC2206
      [ "$name" = torch ] && command+=(${BENCH_TORCH:-})
      ;;
    llm.c)
      if [ ! -x "${LLMC:-}" ]; then
        say "SKIPPED: llm.c $job: LLMC names no program"
        return
      fi
      command[1]=tests/peers/llmc_step.py
      command+=(--program "$LLMC")
      ;;
    *) say "SKIPPED: there is no peer '$name'"; return ;;
  esac
  left=$((BENCH_SECONDS - SECONDS - OURS_SECONDS * ours_left))
  if [ "$left" -lt "$PEER_LEAST" ]; then
    say "SKIPPED: $name $job: no time is left after $SECONDS s"
    return
  fi
  take "$((left < PEER_MOST ? left : PEER_MOST))" "${command[@]}"
}

# Those that are known to be fast at a job, the best first; jax and llm.c have models of one kind alone.
peers_of() {
  local name
  case $1 in
    gpt2*) set -- llm.c torch ;;
    llama1b) set -- jax torch ;;
    *) set -- torch jax ;;
  esac
  for name in "$@"; do
    [[ " $PEERS " == *" $name "* ]] && echo "$name"
  done
}

# ours JOB OPTION...
ours() {
  local job=$1
  shift
  ours_left=$((ours_left - 1))
  # shellcheck disable=SC2086
  take 90 "$BUILD/bench_train" --steps "$STEPS" "$@" ${BENCH_TRAIN:-} "$job"
}

table() {
  awk '
    function value(name,   i) {
      for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) { return substr($i, length(name) + 2) }
      return ""
    }
    $1 == "OURS" && !($2 in seen) { seen[$2] = 1; job[++jobs] = $2 }
    $1 == "OURS" && $4 == "fast" { fast[$2] = value("tok/s"); tflops[$2] = value("TFLOPs"); mfu[$2] = value("mfu")
                                   memory[$2] = value("GiB") }
    $1 == "OURS" && $4 == "strict" { strict[$2] = value("tok/s") }
    $1 == "PEER" { all[$3] = all[$3] (all[$3] ? ", " : "") $2 " " value("tok/s")
                   if (value("tok/s") + 0 > best[$3] + 0) { best[$3] = value("tok/s"); who[$3] = $2 } }
    function ratio(a, b) { return a && b ? sprintf("%.3f", a / b) : "" }
    END {
      print "| job | ours, tok/s | strict, tok/s | best peer | its tok/s | ours / best | strict / best | TFLOP/s | MFU | GiB | all peers, tok/s |"
      print "|---|---|---|---|---|---|---|---|---|---|---|"
      for (i = 1; i <= jobs; i++) {
        j = job[i]
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", j, fast[j], strict[j], who[j], best[j],
               ratio(fast[j], best[j]), ratio(strict[j], best[j]), tflops[j], mfu[j], memory[j], all[j]
      }
    }' "$OUT/raw.txt"
}

gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true; }

COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo 'not known')}
HEAD="$(date -u +%Y-%m-%d), $(gpu name), driver $(gpu driver_version), power limit $(gpu power.limit), commit $COMMIT"
say "$HEAD"
take 60 "$BUILD/bench_cuda" copy
ours_left=$(($(wc -w <<<"$JOBS") * 2))
for job in $JOBS; do
  ours "$job"
  mapfile -t peers < <(peers_of "$job")
  [ ${#peers[@]} -gt 0 ] && peer "${peers[0]}" "$job"
  ours "$job" --strict
done
for job in $JOBS; do
  mapfile -t peers < <(peers_of "$job")
  for name in "${peers[@]:1}"; do
    peer "$name" "$job"
  done
done
{
  echo "$HEAD, $SECONDS s, bf16, medians of $STEPS steps"
  echo
  table
  echo
  grep -E '^(copy|SKIPPED|FAILED)' "$OUT/raw.txt"
} >"$OUT/table.md"
echo
cat "$OUT/table.md"
! grep -q '^FAILED' "$OUT/raw.txt"
