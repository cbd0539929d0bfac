"""mdl: compiles and trains large models from a page of text.

    import mdl

    plan = mdl.compile("model.mdl", layout="tp2")
    with plan.trainer(steps=100) as trainer:
        for step in trainer:
            print(step.step, step.loss, abs(trainer["layers.0.q.w"]).max())
    print(mdl.generate(trainer.run, "Once"))

Values are numpy arrays that show the memory of the trainer, without a copy, where a tensor lies whole in this process
(on the CPU, unless a layout cuts it); numpy is imported when the first is asked for. What fails raises `mdl.Error`.
"""

from __future__ import annotations

from mdl._errors import (CompileError, Diagnostic, DivergedError, Error, InputError, OutOfMemoryError, RankLostError,
                         StepDiffersError, UsageError)
from mdl._plan import Plan, compile, open  # pylint: disable=redefined-builtin
from mdl._run import Evaluation, evaluate, generate
from mdl._trainer import Result, Step, Trainer, Value
from mdl import _library

for _name in ("CompileError", "Diagnostic", "DivergedError", "Error", "Evaluation", "InputError", "OutOfMemoryError",
              "Plan", "RankLostError", "Result", "Step", "StepDiffersError", "Trainer", "UsageError", "Value"):
    globals()[_name].__module__ = "mdl"  # as its name is shown
del _name

__version__: str = _library.library.mdl_version().decode()

__all__ = ["CompileError", "Diagnostic", "DivergedError", "Error", "Evaluation", "InputError", "OutOfMemoryError",
           "Plan", "RankLostError", "Result", "Step", "StepDiffersError", "Trainer", "UsageError", "Value", "compile",
           "evaluate", "generate", "open"]
