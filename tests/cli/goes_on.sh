#!/bin/bash
# goes_on.sh: a run is what its newest checkpoint is, however it was begun to go on: its plan, its text, its data.
. "${ROOT:?}/tests/cli/lib.sh"

cp "$ROOT/LICENSE" own.txt
seq 3000 > other.txt
seq 9000 12000 > third.txt
sed -e "s,../../LICENSE,own.txt," -e 's/  seed = 3;/&  validation = 0.5;/' "$SMALL" > small.mdl
evaluated() { expect 0 "$MDL" eval "$@" --json; }
says() { grep -q "$1" out || die "$2: $(cat out)"; }

# Without a step, what was evaluated for a run that goes on with other data is none of its data.
train small.mdl --out unmade --steps 2
sed -i 's/,"val_loss":[^,]*,"validated_with":"[^"]*"//' unmade/metrics.jsonl
train small.mdl --out unmade --steps 2 --resume --data other.txt --keep-best
mentions out "eval 2" "saved"
evaluated unmade --data other.txt
says '"trained":false' "data of no step is called trained on"
train small.mdl --out unmade --steps 3 --resume --data own.txt
evaluated unmade --data other.txt
says '"trained":false' "data of no step is called trained on, a step later"

# Until the first save the plan and the text are those of the checkpoint that is there; a run that ends has its own.
train small.mdl --out killed --steps 2
cp killed/plan.mdlx killed/resolved.mdl .
"$MDL" train small.mdl --out killed --steps 100000 --resume --data other.txt --save-every 0 --log-every 1 > log 2>&1 &
wait_for 60 grep -q '^step  *[0-9]*/100000' log
kill -KILL $!
wait $! 2> /dev/null || true
cmp -s plan.mdlx killed/plan.mdlx && cmp -s resolved.mdl killed/resolved.mdl || die "plan or text are of no checkpoint"
evaluated killed --data other.txt
says '"trained":false,"changed":false' "data of a run that saved nothing is called trained on"
evaluated killed
says '"trained":false,"changed":false' "the data of the run is called changed"
train small.mdl --out killed --steps 2 --resume --set eval_batches=1
! cmp -s resolved.mdl killed/resolved.mdl || die "a run that has no step left has not the text that it was given"

# A file that was replaced is not what the weights were trained on, whatever its name.
train small.mdl --out replaced --steps 2
cp third.txt own.txt
evaluated replaced --data own.txt
says '"trained":true,"changed":true' "another text in the place of the data is called held out, or known"
expect 0 "$MDL" eval replaced --data own.txt
mentions out "of the data that the run's text names; as a whole that is not what these weights were trained on"
cp "$ROOT/LICENSE" own.txt
evaluated replaced --data own.txt
says '"trained":true,"changed":false' "the data of the run is not called trained on"

# Validation losses of the same sources can be compared, whatever rows are trained on.
sed -n '/^import/,/^}/p' "$SMALL" > rows.mdl
for name in a b; do
  file=own.txt
  [ $name = a ] || file=other.txt
  sed -n '/^recipe/,/^}/p' "$SMALL" | sed -e "s/recipe [a-z]*/recipe $name/" \
    -e "s|  data .*|  data text(\"$file\", tokenizer = bytes); validation text(\"third.txt\", tokenizer = bytes);|" >> rows.mdl
done
expect 0 "$MDL" ablate rows.mdl recipe=a,b --steps 2
mentions out "ranked by the mean of the validation losses"
! grep -q "different data" out || die "validation losses of the same windows are said to say little: $(cat out)"
sed -i '/recipe b/,$s/third.txt/own.txt/' rows.mdl
expect 0 "$MDL" ablate rows.mdl recipe=a,b --steps 2
mentions out "different data"

# In a directory whose name no table of sources can hold, the run's text is one all the same.
mkdir $'a\tb'
cp own.txt third.txt $'a\tb'
sed -n '1,/^recipe a/p' rows.mdl > $'a\tb/table.mdl'
cat >> $'a\tb/table.mdl' << 'EOF'
  model small();
  data text("own.txt", tokenizer = bytes);
  validation text("third.txt", tokenizer = bytes);
  batch = 4; seq = 32; optimizer adamw(lr = 1e-3);
}
EOF
cd $'a\tb'
train table.mdl --out table --steps 2
expect 0 "$MDLC" check table/resolved.mdl
train table.mdl --out table --steps 3 --resume
cd ..

# What a program before saved knows its data alone: its text says what of it was held out, now and of older checkpoints.
train small.mdl --out past --steps 2
older past
train small.mdl --out past --steps 3 --resume --set validation=0.6
evaluated past/checkpoints/step-00000002
says '"trained":true' "text that an older checkpoint was trained on is called held out"

# A plan that cannot be replaced is an error ahead of the first step.
if [ "$(id -u)" != 0 ]; then
  train small.mdl --out fixed --steps 2
  chmod 555 fixed
  expect 1 "$MDL" train small.mdl --out fixed --steps 3 --resume
  chmod 755 fixed
fi

# Without a step left, a run is given another plan of its own data, and of no other, with which it could not go on.
train small.mdl --out left --steps 2
cp left/resolved.mdl resolved.mdl
train small.mdl --out left --steps 2 --resume --data other.txt
cmp -s resolved.mdl left/resolved.mdl || die "the text is of data that no step was trained on"
expect 0 "$MDL" train left --steps 3 --resume
