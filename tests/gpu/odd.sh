#!/bin/bash
# odd.sh: sizes that are no multiples of anything train on the GPU and lose what they lose on the CPU.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
for precision in fp32 bf16; do
  for device in cpu gpu; do
    curve odd "$device" "$precision-$device" --precision "$precision" --steps 3
  done
  case $precision in
    fp32) near_curves "odd $precision" "$precision-gpu" "$precision-cpu" 1:1e-5 2:1e-4 3:1e-4 ;;
    *) near_curves "odd $precision" "$precision-gpu" "$precision-cpu" 1:1e-2 2:1e-2 3:1e-2 ;;
  esac
done

# Other heads and lengths: 80 is cut into no power of two, 96 and 128 are; 1 and 77 positions.
for heads in 1:80:77 3:96:100 2:128:1 5:16:33; do
  IFS=: read -r count depth length <<< "$heads"
  for precision in fp32 bf16; do
    for device in cpu gpu; do
      curve gpt2 "$device" "$count-$depth-$precision-$device" --precision "$precision" --steps 3 --set heads="$count" \
        --set hd="$depth" --set seq="$length" --set embed=72 --set vocab=259 --set batch=5
    done
    near_curves "$count heads of $depth, $length positions, $precision" "$count-$depth-$precision-gpu" \
      "$count-$depth-$precision-cpu" 1:"$([ $precision = fp32 ] && echo 1e-5 || echo 1e-2)" \
      3:"$([ $precision = fp32 ] && echo 1e-4 || echo 1e-2)"
  done
done
