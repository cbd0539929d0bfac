#!/bin/bash
# errors.sh: what can go wrong on a GPU: no GPU, no memory, no cache, a damaged cache, Ctrl-C.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu

# hides the GPUs: the CPU is taken if it may be
if [ "$DEVICE" = cuda ]; then
  CUDA_VISIBLE_DEVICES='' expect 1 "$MDL" train "$SMALL" --device cuda --steps 1 --out hidden
  mentions err "shows no GPU" "CUDA_VISIBLE_DEVICES"
  [ ! -e hidden ] || die "a run directory was made for nothing"
  CUDA_VISIBLE_DEVICES='' expect 0 "$MDL" train "$SMALL" --device auto --steps 1 --out automatic
  mentions out "on cpu"

  # A plan that does not fit: said before anything is compiled for the GPU, allocated or written.
  begin=$SECONDS
  expect 3 "$MDL" train "$CURVES" --recipe giant --device cuda --steps 1 --out giant
  [ $((SECONDS - begin)) -lt 60 ] || die "it took $((SECONDS - begin)) s to say that it does not fit"
  mentions err "does not fit" "GiB" "too few"
  cat err
  [ ! -e giant ] || die "a run directory was made for nothing"

  # Values of a step that do not fit are named, with their lines.
  expect 3 "$MDL" train "$CURVES" --recipe gpt2 --device cuda --steps 1 --out broad --set batch=16384 --set embed=4096 \
    --set heads=64 --set layers=24
  mentions err "does not fit" "the largest values of a step" ".mdl:" "microbatches"
  cat err
fi

# A cache that cannot be written: slower, but no error. /proc is there, but nothing can be made in it.
for cache in /proc/x /proc; do
  MDL_CACHE=$cache train "$SMALL" --device "$DEVICE" --steps 3 --out "uncached-${cache//\//-}"
done

# A damaged cache is as good as none: the same losses, and whole files again.
export MDL_CACHE=$WORK/damaged
train "$SMALL" --device "$DEVICE" --steps 5 --log-every 1 --out before
if [ "$DEVICE" = cuda ]; then
  # Nothing is compiled or timed a second time.
  contents() {
    find "$MDL_CACHE" -type f -print0 | LC_ALL=C sort -z | xargs -0 stat -c '%n %Y %i'
  }
  kept=$(contents)
  train "$SMALL" --device "$DEVICE" --steps 5 --log-every 1 --out again
  same "the cache after a second run" "$kept" "$(contents)"
  same "the losses of a second run" "$(losses before)" "$(losses again)"

  files=$(find "$MDL_CACHE" -type f | LC_ALL=C sort)
  [ -n "$files" ] || die "nothing was cached"
  hashes=$(find "$MDL_CACHE" -name '*.cubin' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
  turn=0
  for file in $files; do
    turn=$((turn + 1))
    case $((turn % 4)) in
      0) : > "$file" ;;
      1) truncate -s -1 "$file" ;;
      2) printf 'damaged' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc status=none ;;
      3) head -c 4096 /dev/urandom > "$file" ;;
    esac
  done
  train "$SMALL" --device "$DEVICE" --steps 5 --log-every 1 --out after
  near_curves "with a damaged cache" after before 1:1e-6 5:1e-5
  same "the cache" "$hashes" "$(find "$MDL_CACHE" -name '*.cubin' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)"

  # A tuning record whose numbers are no algorithms is timed again.
  record=$(find "$MDL_CACHE" -name 'tuning-*.txt')
  [ -s "$record" ] || die "there is no tuning record in $MDL_CACHE"
  sed -i '2,$s/[0-9a-f]*$/'"$(printf 'ff%.0s' {1..64})"'/' "$record"
  train "$SMALL" --device "$DEVICE" --steps 5 --log-every 1 --out record
  near_curves "with a damaged tuning record" record before 1:1e-6 5:1e-5
  MDL_TUNING=/proc/x/record expect 1 "$MDL" train "$SMALL" --device "$DEVICE" --steps 1 --out named
  mentions err "/proc/x/record"
fi

# Ctrl-C finishes the step, saves and exits with 130; the run goes on to the same bits.
interrupts stopped/metrics.jsonl "$MDL" train "$SMALL" --device "$DEVICE" --steps 1000000 --save-every 0 \
  --eval-every 0 --log-every 1 --out stopped
step=$(interrupted stopped)
mentions log "interrupted after step $step"
same "the last line of metrics" "$step" "$(losses stopped | tail -n 1 | cut -d ' ' -f 1)"
more=$((step + 3))
train "$SMALL" --device "$DEVICE" --steps "$more" --eval-every 0 --out stopped --resume
train "$SMALL" --device "$DEVICE" --steps "$more" --eval-every 0 --save-every 0 --out whole
same "interrupted and not" "$(weights whole "$more")" "$(weights stopped "$more")"
