#!/bin/bash
# sanitize.sh: NVIDIA's compute-sanitizer finds nothing in any kernel template: memory, races, barriers, what is not set.
#
# Takes minutes, so it is asked for: MDL_SANITIZE_GPU=1. Other programs than those below: MDL_SANITIZE_PROGRAMS.
. "${ROOT:?}/tests/gpu/lib.sh"
[ "${MDL_SANITIZE_GPU:-}" = 1 ] || { echo "takes minutes; MDL_SANITIZE_GPU=1 asks for it"; exit 77; }
need_gpu
SANITIZER=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2> /dev/null | head -n 1)
[ -n "$SANITIZER" ] || { echo "there is no compute-sanitizer"; exit 77; }
TESTS=${BUILD:-$ROOT/build}/tests
PROGRAMS=${MDL_SANITIZE_PROGRAMS:-cuda_take_test cuda_grouped_test cuda_attention_test cuda_cudnn_test cuda_kernel_test mixture_test backends_test}
LIBRARIES='cublas|cutlass|cudnn|nvjet|cask|splitK|gemv|sm[0-9]+_xmma|fmha'   # in the names of kernels that are not ours
export TESTS_SHORT=1
runs=0 bad=0

# sanitize NAME TOOL LIMIT COMMAND...: a line with what the tool counted; its exit status is 99 if it found anything.
# Errors that libraries get from the driver and deal with are none of ours.
sanitize() {
  local name=$1 tool=$2 limit=$3 status=0 begin=$SECONDS log=$WORK/$1-$2.log found
  shift 3
  timeout "$limit" "$SANITIZER" --tool "$tool" --error-exitcode 99 --report-api-errors no --print-limit 20 \
    "$@" > "$log" 2>&1 < /dev/null || status=$?
  found=$(sed -n 's/^========= \(ERROR SUMMARY\|RACECHECK SUMMARY\): *//p' "$log" | tail -n 1)
  runs=$((runs + 1))
  if [ "$tool" = racecheck ] && [ "$status" = 99 ] && grep -q 'access at' "$log" &&
    ! grep 'access at' "$log" | grep -qvE "$LIBRARIES"; then
    found="$found, all in libraries" status=0
  fi
  echo "$name, $tool: ${found:-no summary}, status $status, $((SECONDS - begin)) s"
  if [ "$status" != 0 ] || [ -z "$found" ]; then
    bad=$((bad + 1))
    grep -v '^\[ \|^ok \|^1\.\.' "$log" | head -n 40
  fi
}

for program in $PROGRAMS; do
  [ -x "$TESTS/$program" ] || die "there is no $TESTS/$program"
  sanitize "$program" memcheck 900 "$TESTS/$program"
  case $program in
    cuda_take_test | cuda_grouped_test | cuda_attention_test | cuda_kernel_test)
      sanitize "$program" racecheck 900 "$TESTS/$program"
      sanitize "$program" synccheck 900 "$TESTS/$program"
      ;;
    backends_test) sanitize "$program" racecheck 1200 "$TESTS/$program" ;;
  esac
done

# Whole steps as graphs, with their inputs and outputs; in between memory that nothing has set.
for precision in fp32 bf16; do
  sanitize "train-$precision" memcheck 600 "$MDL" train "$CURVES" --recipe gpt2 --device "$DEVICE" --steps 3 \
    --precision "$precision" --out "memory-$precision"
  sanitize "train-$precision" racecheck 600 "$MDL" train "$CURVES" --recipe llama --device "$DEVICE" --steps 2 \
    --precision "$precision" --layout strict --out "race-$precision"
done
echo "compute-sanitizer: $bad of $runs runs found something"
[ "$bad" = 0 ]
