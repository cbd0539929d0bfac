#!/bin/bash
# run.sh: the Python package: check.py with the standard library alone, with numpy where there is one, and from a wheel.
. "${ROOT:?}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
[ -e "$BUILD/libmdl.so" ] || { echo "$BUILD has no libmdl.so"; exit 77; }
# A library with sanitizers wants them to be loaded first.
if nm -D "$BUILD/libmdl.so" | grep __asan_init > /dev/null; then echo "libmdl.so has sanitizers, python3 has not"; exit 77; fi
export PYTHONDONTWRITEBYTECODE=1

# The structures are those of mdl.h.
if command -v cc > /dev/null; then
  MDL_LIBRARY=$BUILD/libmdl.so PYTHONPATH=$ROOT/python python3 "$ROOT/tests/python/layouts.py" > layouts.c
  cc -fsyntax-only -I"$ROOT/runtime" layouts.c || die "python/mdl/_library.py is not what runtime/mdl.h says"
  sed 's/offsetof(MdlTrainOptions, steps) == /&8 + /' layouts.c > control.c
  if cc -fsyntax-only -I"$ROOT/runtime" control.c 2> /dev/null; then die "a wrong offset passes"; fi
fi

# Without a wheel: the files as they lie here, and the library that was built. -S: no package of the system is seen.
mkdir plain
(cd plain && MDL_LIBRARY=$BUILD/libmdl.so PYTHONPATH=$ROOT/python python3 -S "$ROOT/tests/python/check.py" "$SMALL")
if python3 -c 'import numpy' 2> /dev/null; then
  mkdir numpy
  (cd numpy && MDL_LIBRARY=$BUILD/libmdl.so PYTHONPATH=$ROOT/python python3 "$ROOT/tests/python/check.py" "$SMALL" --numpy)
  # The example of docs/python.md, with fewer steps, on the text that is here.
  mkdir -p example/examples
  cp "$ROOT/examples/tiny.mdl" example/examples/
  cp "$ROOT/LICENSE" example/examples/bible.txt
  sed -n '/^```python/,/^```$/{/^```/d;p}' "$ROOT/docs/python.md" | sed 's/steps=20/steps=2/; s/tokens=50/tokens=2/' > example/example.py
  (cd example && MDL_LIBRARY=$BUILD/libmdl.so PYTHONPATH=$ROOT/python python3 example.py > ../example.out)
  grep -q '^2 [0-9.]* [0-9.]*$' example.out || { cat example.out >&2; die "docs/python.md: no second step"; }
  [ "$(wc -l < example.out)" -ge 4 ] || die "docs/python.md: no loss and no text"
else
  echo "without numpy: python3 has none"
fi

# Ctrl-C between or in steps is KeyboardInterrupt, and the run is saved.
cat > forever.py << 'END'
import sys, mdl
with mdl.compile(sys.argv[1]).trainer(device="cpu", out="interrupted", steps=1000000, log_every=1) as trainer:
    for step in trainer:
        pass
END
MDL_LIBRARY=$BUILD/libmdl.so PYTHONPATH=$ROOT/python python3 -c '
import signal, subprocess, sys, time, os
child = subprocess.Popen([sys.executable, "forever.py", sys.argv[1]], stderr=subprocess.PIPE, text=True)
while not (os.path.exists("interrupted/metrics.jsonl") and os.path.getsize("interrupted/metrics.jsonl") > 0):
    assert child.poll() is None, child.stderr.read()
    time.sleep(0.02)
child.send_signal(signal.SIGINT)
said = child.communicate(timeout=60)[1]
assert "KeyboardInterrupt" in said, said
' "$SMALL"
saved interrupted 1 || die "Ctrl-C in Python saved nothing"

# A wheel, where pip can make one: of a copy, so that nothing is left in the sources.
mkdir -p repository
cp -r "$ROOT/python" "$ROOT/CMakeLists.txt" repository/
rm -rf repository/python/build repository/python/*.egg-info
if python3 -c 'import pip, venv, ensurepip' 2> /dev/null && python3 -m venv venv > venv.log 2>&1; then
  pip=venv/bin/pip
  if MDL_BUILD=$BUILD timeout 120 $pip --disable-pip-version-check wheel --no-deps --retries 0 --timeout 10 \
    repository/python -w wheels > wheel.log 2>&1; then
    $pip install --no-deps --no-index wheels/mdl-*.whl > install.log
    mkdir installed
    (cd installed && ../venv/bin/python "$ROOT/tests/python/check.py" "$SMALL" --wheel)
  elif grep -qiE 'could not find a version|no matching distribution|connection|network|timed out|proxy' wheel.log; then
    echo "no wheel: pip cannot fetch setuptools"
  else
    cat wheel.log >&2
    die "pip makes no wheel"
  fi
else
  echo "no wheel: python3 has no pip and venv"
fi
