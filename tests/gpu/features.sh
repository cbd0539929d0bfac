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

# A step that is run twice gives the same bits, and those of a run that does not look; a bit that is turned is found.
for precision in fp32 bf16; do
  train "$LAYOUTS" --data "$ROOT/LICENSE" --precision $precision --device "$DEVICE" --steps 6 --set batch=16 --out "plain-$precision"
  train "$LAYOUTS" --data "$ROOT/LICENSE" --precision $precision --device "$DEVICE" --steps 6 --set batch=16 --check 2 \
    --save-every 2 --out "check-$precision"
  same "$precision: weights" "$(weights "plain-$precision" 6)" "$(weights "check-$precision" 6)"
done

# Saves beside training hold the bits of those that are waited for.
train "$LAYOUTS" --data "$ROOT/LICENSE" --precision bf16 --device "$DEVICE" --steps 6 --set batch=16 --save-every 2 --sync-save --out waited
for step in 2 4 6; do
  same "saved beside step $step" "$(weights waited $step)" "$(weights check-bf16 $step)"
done

# The first value that is not finite is the one that the CPU names.
sed -n "/^cat > bad.mdl/,/^END/p" "$ROOT/tests/cli/blame.sh" | sed '1d;$d' > bad.mdl
cp "$ROOT/LICENSE" .
for forward in true false; do
  for device in cpu "$DEVICE"; do
    train bad.mdl --set forward=$forward --blame --device "$device" --out "blame-$forward-$device-$RANDOM"
    grep blame out | sed 's/.*the first value/the first value/; s/ at \[.*//' > "blamed-$device"
  done
  [ -s blamed-cpu ] || die "nothing is blamed on the CPU"
  same "blame" "$(cat blamed-cpu)" "$(cat "blamed-$DEVICE")"
done

# Adapters beside frozen weights: losses as on the CPU; what is frozen keeps its bits; adapters alone are loaded again.
sed "s|\"../models|\"$ROOT/models|; s|\"LICENSE\"|\"$ROOT/LICENSE\"|; s|\"README.md\"|\"$ROOT/README.md\"|" "$ROOT/examples/lora.mdl" > lora.mdl
train lora.mdl --recipe base --precision fp32 --device cpu --steps 60 --out base
for precision in fp32 bf16_frozen; do
  for place in cpu gpu; do
    device=$DEVICE
    [ "$place" = gpu ] || device=cpu
    train lora.mdl --recipe tune --precision $precision --device "$device" --from base --save-trained --steps 30 --log-every 1 \
      --out "tune-$precision-$place"
  done
  near_curves "adapters, $precision" "tune-$precision-gpu" "tune-$precision-cpu" 1:1e-2 30:2e-2
  near "evaluated" "$(eval_loss "tune-$precision-gpu" --device "$DEVICE")" "$(eval_loss "tune-$precision-gpu" --device cpu)" 1e-2
done
