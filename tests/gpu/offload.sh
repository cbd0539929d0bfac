#!/bin/bash
# offload.sh: values that wait in the memory of the host change no bit of a run on the GPU, and leave room on it.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
cat > offload.mdl << END
import "$CURVES";

layout kept { reproducible = strict; }
layout offloaded { offload layers; reproducible = strict; }
layout recomputed { recompute layers; reproducible = strict; }
layout both { recompute layers; offload layers; reproducible = strict; }
layout cut_kept { microbatches = 16; reproducible = strict; }
layout cut { microbatches = 16; offload layers; reproducible = strict; }  // graphs are cut within copies
END

# run RECIPE LAYOUT OUT ARGUMENT...
run() {
  local recipe=$1 layout=$2 out=$3
  shift 3
  train offload.mdl --recipe "$recipe" --layout "$layout" --data "$ROOT/LICENSE" --device "$DEVICE" --out "$out" \
    --log-every 1 --steps 12 "$@"
}

# bytes RUN: measured
bytes() {
  sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}

SIZE=(--set layers=12 --set batch=64)
[ "$DEVICE" = cuda ] || SIZE=(--set layers=3 --set batch=16 --set seq=32)
for recipe in gpt2 llama; do
  for precision in fp32 bf16; do
    for pair in kept:offloaded recomputed:both cut_kept:cut; do
      name=$recipe-$precision
      run "$recipe" "${pair%:*}" "$name-${pair%:*}" --precision $precision "${SIZE[@]}"
      run "$recipe" "${pair#*:}" "$name-${pair#*:}" --precision $precision "${SIZE[@]}"
      same "$name ${pair#*:}: losses" "$(losses "$name-${pair%:*}")" "$(losses "$name-${pair#*:}")"
      same "$name ${pair#*:}: weights" "$(weights "$name-${pair%:*}" 12)" "$(weights "$name-${pair#*:}" 12)"
    done
  done
done

# Traced, the copies are beside the rest, and the losses are the same.
run gpt2 offloaded traced --precision bf16 --profile 2 "${SIZE[@]}"
same "traced: losses" "$(losses gpt2-bf16-kept)" "$(losses traced)"
mentions traced/profile.txt "offload" "fetch"
if [ "$DEVICE" = cuda ]; then
  mentions traced/profile.txt "offload, copy" "fetch, copy"
  mentions traced/profile.json "copies to the host" "copies from the host"
  grep -q '"tid":2' traced/profile.json || die "copies have no lanes of their own"
  grep -E 'offload|fetch' traced/profile.txt

  # Twelve layers keep some 400 MB, of which those of two or three stay.
  for name in gpt2-bf16 llama-bf16; do
    kept=$(bytes "$name-kept") offloaded=$(bytes "$name-offloaded")
    echo "$name: $kept bytes on the GPU, $offloaded with layers offloaded"
    [ "$offloaded" -lt $((kept - 200000000)) ] || die "$name: offloading leaves no room"
  done
fi
