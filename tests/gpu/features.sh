#!/bin/bash
# features.sh: adapters, watched parameters, steps that are run twice, blame and saves beside training, on the GPU as on the CPU.
. "${ROOT:?}/tests/gpu/lib.sh"
need_gpu
LAYOUTS=$ROOT/examples/layouts.mdl

# Norms of gradients, parameters and updates by group are those of the CPU.
for place in cpu gpu; do
  device=$DEVICE
  [ "$place" = gpu ] || device=cpu
  train "$LAYOUTS" --data "$ROOT/LICENSE" --precision fp32 --device "$device" --steps 3 --save-every 1 --set batch=16 \
    --watch 'layers.*' --watch '*' --out "watch-$place"
done
python3 - watch-cpu watch-gpu <<'END'
import json, math, sys
a, b = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:])
names = [name for name in a[0] if "_norm." in name]
assert len(names) >= 9, names
for x, y in zip(a, b):
    for name in names:
        assert math.isclose(x[name], y[name], rel_tol=2e-3), (x["step"], name, x[name], y[name])
END

# A step that is run twice gives the same bits, and those of a run that does not look.
echo "import \"$LAYOUTS\"; layout strict { reproducible = strict; }" > strict.mdl
strict() {
  train strict.mdl --layout strict --data "$ROOT/LICENSE" --device "$DEVICE" --steps 6 --set batch=16 "$@"
}
for precision in fp32 bf16; do
  strict --precision $precision --out "plain-$precision"
  strict --precision $precision --check 2 --save-every 2 --out "check-$precision"
  same "$precision: weights" "$(weights "plain-$precision" 6)" "$(weights "check-$precision" 6)"
done

# Saves beside training hold the bits of those that are waited for, where copying takes longer than a step too.
cat > large.mdl << END
import "$CURVES";
layout strict { reproducible = strict; }
layout fsdp { reproducible = strict; mesh dp = 2; batch -> dp; param, grad, state -> dp; }
layout stages { reproducible = strict; mesh pp = 2; layers -> pp; microbatches = 2; }
END
layouts=strict sizes=(--set vocab=512 --set embed=128 --set layers=2)
if [ "$DEVICE" = cuda ]; then
  sizes=(--set vocab=32000 --set embed=1024 --set layers=6 --set ffn=4096)
  [ "$(gpu_count)" -lt 2 ] || layouts='strict fsdp stages'
fi
for layout in $layouts; do
  for way in beside waited; do
    sync=()
    [ $way = beside ] || sync=(--sync-save)
    train large.mdl --recipe llama --layout "$layout" --precision bf16 --device "$DEVICE" "${sizes[@]}" --set batch=2 \
      --data "$ROOT/LICENSE" --set seq=32 --steps 5 --save-every 2 --keep 0 "${sync[@]}" --out "$way"
  done
  for step in 2 4 5; do
    for part in model optimizer; do
      cmp waited/checkpoints/step-0000000$step/$part.safetensors beside/checkpoints/step-0000000$step/$part.safetensors ||
        die "$layout: the $part saved beside step $step"
    done
  done
  grep saved beside/log.txt
  rm -rf beside waited
done

# The first value that is not finite is the one that the CPU names.
sed -n "/^cat > bad.mdl/,/^END/p" "$ROOT/tests/cli/blame.sh" | sed '1d;$d' > bad.mdl
cp "$ROOT/LICENSE" .
for forward in true false; do
  for device in cpu "$DEVICE"; do
    train bad.mdl --set forward=$forward --blame --device "$device" --out "bad-$forward-$device-$RANDOM"
    grep "blame  " out | sed 's/.*the first value/the first value/; s/ at \[.*//' > "blamed-$device"
  done
  [ -s blamed-cpu ] || die "nothing is blamed on the CPU"
  same "blame" "$(cat blamed-cpu)" "$(cat "blamed-$DEVICE")"
done

# Adapters beside frozen weights: losses as on the CPU; what is frozen keeps its bits; adapters alone are loaded again.
sed "s|\"../models|\"$ROOT/models|; s|\"LICENSE\"|\"$ROOT/LICENSE\"|; s|\"README.md\"|\"$ROOT/README.md\"|" "$ROOT/examples/lora.mdl" > lora.mdl
train lora.mdl --recipe base --precision fp32 --device cpu --steps 60 --out base
for precision in fp32 bf16_frozen fp8_frozen; do
  for place in cpu gpu; do
    device=$DEVICE
    [ "$place" = gpu ] || device=cpu
    train lora.mdl --recipe tune --precision $precision --device "$device" --from base --save-trained --steps 30 --log-every 1 \
      --out "tune-$precision-$place"
  done
  near_curves "adapters, $precision" "tune-$precision-gpu" "tune-$precision-cpu" 1:1e-2 30:2e-2
  near "evaluated" "$(eval_loss "tune-$precision-gpu" --device "$DEVICE")" "$(eval_loss "tune-$precision-gpu" --device cpu)" 1e-2
done
