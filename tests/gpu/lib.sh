# lib.sh: for the scripts here. Each is one test of training on a GPU, as in tests/cli; without a GPU it is skipped.
#
# MDL_TEST_DEVICE=cpu runs them on the CPU instead, to test the scripts themselves.
. "${ROOT:?}/tests/cli/lib.sh"

CURVES=$ROOT/tests/gpu/curves.mdl
DEVICE=${MDL_TEST_DEVICE:-cuda}
export MDL_CACHE=${MDL_CACHE:-$(dirname "$WORK")/cache}   # kernels and tuning records, for all scripts

# need_gpu: skips, with the driver's words, where there is none
need_gpu() {
  local status=0
  "$MDL" train "$SMALL" --device "$DEVICE" --steps 1 --out gpu-is-there > out 2> err || status=$?
  if [ "$status" != 0 ] && grep -qE 'NVIDIA driver|compute capability' err; then
    tail -n 1 err
    exit 77
  fi
  [ "$status" = 0 ] || { cat out err >&2; die "mdl train --device $DEVICE: exit status $status"; }
}

# gpu_count: those that programs see
gpu_count() {
  local seen
  if [ -n "${CUDA_VISIBLE_DEVICES+x}" ]; then
    tr ',' '\n' <<< "$CUDA_VISIBLE_DEVICES" | grep -c . || true
  else
    seen=$(nvidia-smi -L 2> /dev/null) || true
    grep -c . <<< "$seen" || true
  fi
}

# need_python MODULE...: skips where python3 or one of its modules is missing
need_python() {
  local module
  command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
  for module in "$@"; do
    python3 -c "import $module" 2> /dev/null || { echo "python3 has no module $module"; exit 77; }
  done
}

# curve RECIPE cpu|gpu OUT ARGUMENT...: trains there, with a line of metrics for each step
curve() {
  local recipe=$1 device=$2 out=$3
  [ "$device" = cpu ] || device=$DEVICE
  shift 3
  train "$CURVES" --recipe "$recipe" --device "$device" --out "$out" --log-every 1 "$@"
}

# loss_at RUN STEP: nothing if there is no such line, or if the loss is no number
loss_at() {
  losses "$1" | awk -v step="$2" '$1 == step { print $2 }'
}

# norm_at RUN STEP: of the gradient
norm_at() {
  sed -n "s/.*\"step\": *$2,.*\"grad_norm\": *\([-+0-9.eE]*\).*/\1/p" "$1/metrics.jsonl"
}

# differs A B: the relative difference of two numbers
differs() {
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; d = d < 0 ? -d : d; m = b < 0 ? -b : b; printf "%.3g\n", d / (m > 0 ? m : 1) }'
}

# near NAME A B BOUND: both are numbers, and their relative difference is within the bound
near() {
  local number='^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$' apart
  [[ $2 =~ $number ]] && [[ $3 =~ $number ]] || die "$1: '$2' and '$3' are not both numbers"
  apart=$(differs "$2" "$3")
  echo "$1: $2 and $3 differ by $apart of $4"
  awk -v a="$apart" -v bound="$4" 'BEGIN { exit !(a <= bound) }' || die "$1: $2 and $3 differ by $apart, more than $4"
}

# near_curves NAME RUN REFERENCE STEP:BOUND...
near_curves() {
  local name=$1 run=$2 reference=$3 pair
  shift 3
  for pair in "$@"; do
    near "$name, step ${pair%:*}" "$(loss_at "$run" "${pair%:*}")" "$(loss_at "$reference" "${pair%:*}")" "${pair#*:}"
  done
}

# mean_of RUN FROM TO: of the losses of these steps
mean_of() {
  losses "$1" | awk -v from="$2" -v to="$3" '$1 >= from && $1 <= to { sum += $2; count++ } END { printf "%.6g\n", sum / count }'
}

# eval_loss ARGUMENT...: nats per token, by mdl eval
eval_loss() {
  expect 0 "$MDL" eval "$@"
  sed -n 's/^loss *\([0-9.eE+-]*\).*/\1/p' out
}
