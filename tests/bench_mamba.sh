#!/bin/bash
# bench_mamba.sh: whole steps of Mamba-2 1.3B on one GPU, ours and in the same run PyTorch with Triton kernels of others.
#
#   tests/bench_mamba.sh [--quick] [--packages DIR] [--layers N] OUT
#
# OUT is a folder: raw.txt gets every line as it comes, log.txt what the programs said besides, profile-*.txt where the time
# of our steps goes, table.md tokens a second and ratios. Shapes: 8 x 4096 and 1 x 32768. What has no room keeps less: ours
# takes the layouts `scanned_again`, then `recomputed`, the peer computes its blocks again; the table says who did.
#
# DIR holds the peers' packages as a package index gives them, which nothing here brings along:
#   pip download --no-deps -d DIR fla-core einops packaging
#   pip download --no-deps --no-build-isolation --no-binary :all: -d DIR mamba-ssm
# They are read, not built; a peer that cannot be imported is skipped, and that is said.
#   --quick    8 of the 48 layers, fewer steps
#   BUILD      folder that we were built in, or one that holds bench_train; from the root: build
#   PYTHON     that has torch and triton: python3
#   SECONDS_EACH   that one program may take: 150
#   COMMIT     of our programs, where there is no git
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} PYTHON=${PYTHON:-python3} LIMIT=${SECONDS_EACH:-150}
[ -x "$BUILD/bench_train" ] || BUILD=$BUILD/tests
LAYERS=48 STEPS=10 PACKAGES=''
while [ $# -gt 1 ]; do
  case $1 in
    --quick) LAYERS=8 STEPS=5 ;;
    --packages) PACKAGES=$2; shift ;;
    --layers) LAYERS=$2; shift ;;
    *) break ;;
  esac
  shift
done
if [ $# -ne 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/bench_mamba.sh [--quick] [--packages DIR] [--layers N] OUT" >&2
  exit 2
fi
OUT=$1
mkdir -p "$OUT" || exit 1
: >"$OUT/raw.txt"
: >"$OUT/log.txt"
export PYTHONDONTWRITEBYTECODE=1
say() { echo "$*" | tee -a "$OUT/raw.txt"; }
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true; }

# take SHAPE COMMAND...: its lines of figures behind the shape; false if there are none
take() {
  local shape=$1 status lines=$OUT/lines.txt
  shift
  echo "# $*" >>"$OUT/log.txt"
  timeout "$LIMIT" "$@" >"$lines" 2>>"$OUT/log.txt"
  status=$?
  cat "$lines" >>"$OUT/log.txt"
  if grep -E '^(OURS|PEER) ' "$lines" | sed "s/^/$shape /" | tee -a "$OUT/raw.txt" | grep -q .; then
    return 0
  fi
  say "NOT RUN ($status, log.txt): $shape $*"
  return 1
}

# ours BATCH SEQ: as it stands, else under layouts that keep less; then the table of its profile
ours() {
  local shape=$1x$2 tried
  local -a layout job=(--steps "$STEPS" --set "batch=$1" --set "seq=$2" --set "layers=$LAYERS")
  for tried in single scanned_again recomputed; do
    layout=(--layout "$tried")
    [ $tried != single ] || layout=()
    if take "$shape" "$BUILD/bench_train" ${layout[@]+"${layout[@]}"} "${job[@]}" models/mamba2.mdl:mamba2_1b; then
      [ $tried = single ] || say "$shape NOTE $tried"
      timeout "$LIMIT" "$BUILD/bench_train" ${layout[@]+"${layout[@]}"} "${job[@]}" --profile models/mamba2.mdl:mamba2_1b \
        >"$OUT/profile-$shape.txt" 2>>"$OUT/log.txt"
      head -n 40 "$OUT/profile-$shape.txt"
      return
    fi
  done
  say "FAILED: ours, $shape, under every layout"
}

peers() {
  local shape=$1x$2 scan
  for scan in mamba_ssm fla; do
    take "$shape" "$PYTHON" tests/peers/mamba2_step.py --batch "$1" --seq "$2" --layers "$LAYERS" --steps "$STEPS" \
      --scan "$scan" ${PACKAGES:+--packages "$PACKAGES"}
  done
  return 0
}

COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo 'not known')}
HEAD="$(date -u +%Y-%m-%d), $(gpu name), driver $(gpu driver_version), power limit $(gpu power.limit), commit $COMMIT"
say "$HEAD, $LAYERS layers"
for shape in '8 4096' '1 32768'; do
  read -r batch seq <<<"$shape"
  ours "$batch" "$seq"
  peers "$batch" "$seq"
done

{
  echo "$HEAD, $LAYERS layers, bf16, medians of $STEPS steps"
  echo
  awk '
    function value(name,   i) {
      for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) { return substr($i, length(name) + 2) }
      return ""
    }
    function ratio(shape, who) { return rate[shape, who] ? sprintf("%.2f", rate[shape, "OURS"] / rate[shape, who]) : "" }
    $2 == "OURS" || $2 == "PEER" {
      who = $2 == "OURS" ? "OURS" : $3
      if (!($1 in seen)) { seen[$1] = 1; order[++count] = $1 }
      rate[$1, who] = value("tok/s"); room[$1, who] = value("GiB"); how[$1, who] = value("blocks")
    }
    $2 == "NOTE" { how[$1, "OURS"] = $3 }
    END {
      print "| shape | ours, tok/s | GiB | mamba_ssm | GiB | fla | GiB | ours / mamba_ssm | ours / fla |"
      print "|---|---|---|---|---|---|---|---|---|"
      for (i = 1; i <= count; i++) {
        s = order[i]; line = "| " s
        split("OURS torch+mamba_ssm torch+fla", all, " ")
        for (j = 1; j <= 3; j++) line = line " | " rate[s, all[j]] (how[s, all[j]] != "" && how[s, all[j]] != "kept" ? " (" how[s, all[j]] ")" : "") " | " room[s, all[j]]
        print line " | " ratio(s, "torch+mamba_ssm") " | " ratio(s, "torch+fla") " |"
      }
    }' "$OUT/raw.txt"
  echo
  grep -E '^(FAILED|NOT RUN)' "$OUT/raw.txt"
} >"$OUT/table.md"
echo
cat "$OUT/table.md"
! grep -q '^FAILED' "$OUT/raw.txt"
