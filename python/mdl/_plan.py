"""_plan.py: texts become plans, and plans are trained."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Iterable, List, Mapping, NoReturn, Optional, Tuple, Union

from mdl import _library as c
from mdl._errors import (CompileError, Diagnostic, Path, called, decode, diagnostic_of, encode, encode_text,
                         encode_texts, ends, flag, needed, raise_error)
from mdl._trainer import Result, Step, Trainer


class PlanHandle:
    """The plan in C, freed when nobody refers to it any longer."""

    def __init__(self, pointer: ctypes.c_void_p):
        self.pointer, self._free = pointer, c.library.mdl_plan_close

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a plan cannot be copied or pickled; Plan.write makes a file of it")

    def __del__(self) -> None:
        self._free(self.pointer)


class Plan:
    """What every rank does, all of it decided. Made by `mdl.compile` or `mdl.open`; immutable.

    `diagnostics` holds the warnings of the text. Memory is freed with the last reference to the plan and its trainers,
    or to values of these.
    """

    def __init__(self, handle: PlanHandle, diagnostics: Iterable[Diagnostic] = ()):
        self._handle: Optional[PlanHandle] = handle
        self.diagnostics: Tuple[Diagnostic, ...] = tuple(diagnostics)

    def _live(self) -> PlanHandle:
        if self._handle is None:
            raise ValueError("the plan is closed")
        return self._handle

    def write(self, path: Path) -> None:
        """Writes a .mdlx file, which `mdl.open` and `mdl train` take."""
        error = c.MdlError()
        handle = self._live()
        if c.library.mdl_plan_write(handle.pointer, needed("path", path), ctypes.byref(error)):
            raise_error(error)

    def trainer(self, **options: Any) -> Trainer:
        """Opens a run; the options are those of `Trainer`."""
        return Trainer(self._live(), **options)

    def train(self, callback: Optional[Callable[[Trainer, Step], Optional[bool]]] = None, **options: Any) -> Result:
        """Trains to the end and returns the result.

        `callback(trainer, step)` is called behind each step; where it returns False, also one of numpy, the run ends
        there, saved. An exception from it, and Ctrl-C, save the run too and go on to the caller. The options are those
        of `Trainer`.
        """
        called("callback", callback)
        with self.trainer(**options) as trainer:
            for step in trainer:
                goes_on = callback(trainer, step) if callback is not None else None
                if ends(goes_on):
                    break
        assert trainer.result is not None
        return trainer.result

    def close(self) -> None:
        """Lets go of the plan; trainers keep it as long as they need it."""
        self._handle = None

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _settings(settings: Union[Mapping[str, Any], Iterable[str], None]) -> List[bytes]:
    if settings is None:
        return []
    if isinstance(settings, (str, bytes)) or not isinstance(settings, Iterable):
        raise TypeError("set is a dict, or a list of 'name=value', not "
                        f"{'one text' if isinstance(settings, (str, bytes)) else type(settings).__name__}")
    if isinstance(settings, Mapping):
        settings = [f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                    for name, value in settings.items()]
    return encode_texts("set", settings)


def _program(text: Optional[str]) -> Optional[bytes]:
    if isinstance(text, str) and "\0" in text:
        raise ValueError("the text holds zero bytes")
    encode_text("text", text)
    return None if text is None else text.encode()


def compile(file: Optional[Path] = None, *, text: Optional[str] = None,  # pylint: disable=redefined-builtin
            recipe: Optional[str] = None, layout: Optional[str] = None, precision: Optional[str] = None,
            set: Union[Mapping[str, Any], Iterable[str], None] = None,  # pylint: disable=redefined-builtin
            watch: Iterable[str] = ()) -> Plan:
    """Compiles a file, or a `text`, which `file` then only names ("<text>" where it is not given).

    `recipe`, `layout` and `precision` choose among those of the text, as the options of `mdl train` do; `set` gives
    other values: {"batch": 8, "optimizer.lr.peak": 1e-3}; `watch` names parameters whose gradients and updates are
    measured, such as ["layers.*"]. Imports and data are found from the directory of `file`.
    Raises CompileError where the text has errors.
    """
    if file is None and text is None:
        raise TypeError("mdl.compile needs a file or a text")
    if isinstance(file, str) and "{" in file and "}" in file and not os.path.exists(file):
        raise TypeError("file is a path, and this is a text; mdl.compile(text=...) takes one")
    said: List[Diagnostic] = []
    words, watched = _settings(set), encode_texts("watch", watch)
    options = c.MdlCompileOptions(
        recipe=encode_text("recipe", recipe), layout=encode_text("layout", layout),
        precision=encode_text("precision", precision),
        set=(ctypes.c_char_p * len(words))(*words) if words else None, set_count=len(words),
        watched=(ctypes.c_char_p * len(watched))(*watched) if watched else None, watch_count=len(watched),
        text=_program(text),
        diagnostic=c.ON_DIAGNOSTIC(lambda _, one: said.append(diagnostic_of(one.contents))))
    error, pointer = c.MdlError(), ctypes.c_void_p()
    name = needed("file", file if file is not None else "<text>")
    if c.library.mdl_compile(name, ctypes.byref(options), ctypes.byref(pointer), ctypes.byref(error)):
        if any(one.severity == "error" for one in said):
            raise CompileError(decode(error.text) or "", said)
        raise_error(error)
    return Plan(PlanHandle(pointer), said)


def open(path: Path, *, trust: bool = False) -> Plan:  # pylint: disable=redefined-builtin
    """Opens a plan (.mdlx) that `mdlc compile` or `Plan.write` has written.

    `trust` keeps the machine code for GPUs that it may have: for plans of one's own.
    """
    error, pointer = c.MdlError(), ctypes.c_void_p()
    function = c.library.mdl_plan_open_trusted if flag("trust", trust) else c.library.mdl_plan_open
    if function(needed("path", path), ctypes.byref(pointer), ctypes.byref(error)):
        raise_error(error)
    return Plan(PlanHandle(pointer))
