"""_trainer.py: a run a step at a time, and its values."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Iterator, List, NoReturn, Optional, Tuple

from mdl import _library as c
from mdl._errors import Path, count, decode, encode, encode_text, flag, raise_error, real

if TYPE_CHECKING:
    import numpy

    from mdl._plan import PlanHandle

KINDS = ("parameter", "optimizer", "state", "output")
# Of an element, for memoryview and for numpy. Of bf16 and formats of 8 bits the bits.
FORMATS = {"f64": "d", "f32": "f", "f16": "e", "bf16": "H", "e4m3": "B", "e5m2": "B", "int": "i", "index": "i",
           "bool": "i"}


@dataclasses.dataclass(frozen=True)
class Step:
    """What a step said. Numbers that there are none of are NaN."""

    step: int  # that is done, from 1
    steps: int  # of the whole run
    tokens: int  # that the run has been trained on
    skipped: int  # steps whose update was not made, since gradients were not finite
    loss: float  # nats per token
    grad_norm: float
    lr: float
    val_loss: float  # NaN: there was no evaluation behind this step; infinite: one that gave no number
    seconds_per_step: float  # mean since the last line of the log


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended."""

    run: str  # the run directory
    step: int
    loss: float
    val_loss: float  # NaN: none


class TrainerHandle:
    """The trainer in C, with all memory of its devices; freed when neither it nor a value is referred to any longer."""

    def __init__(self, pointer: ctypes.c_void_p, plan: "PlanHandle"):
        self.pointer, self.plan, self._free = pointer, plan, c.library.mdl_trainer_close
        self._lock, self._owner, self._process = threading.RLock(), os.getpid(), os.getpid

    @contextlib.contextmanager
    def held(self) -> Iterator[ctypes.c_void_p]:
        """One thread at a time, and only of the process that has opened it."""
        if self._process() != self._owner:
            raise ValueError("the trainer is of the process that this one was forked from: open another one here")
        with self._lock:
            yield self.pointer

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a trainer and its values cannot be copied or pickled")

    def __del__(self) -> None:
        if self._process() == self._owner:  # one that was forked lacks the threads that would be waited for
            self._free(self.pointer)


class Value:
    """A tensor of a run by name: what it is, and its elements as numpy array, memoryview or bytes."""

    def __init__(self, handle: TrainerHandle, value: c.MdlValue):
        count = value.axis_count
        self._handle, self._data = handle, value.data
        self.name: str = decode(value.name) or ""
        self.kind: str = KINDS[value.kind]  # "parameter", "optimizer", "state", "output"
        self.type: str = decode(value.type) or ""  # of an element: f64, f32, bf16, f16, int, ...
        self.axes: Tuple[str, ...] = tuple(decode(value.axis[i]) or "" for i in range(count))
        self.shape: Tuple[int, ...] = tuple(value.size[i] for i in range(count))
        self.itemsize: int = value.element_bytes
        self._strides = tuple(value.stride[i] * self.itemsize for i in range(count))

    @property
    def shared(self) -> bool:
        """Whether `numpy()` shows the memory of the run, without a copy."""
        return self._data is not None and self.type != "bf16"

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return math.prod(self.shape) * self.itemsize

    def read(self) -> bytes:
        """A copy of the elements, dense, the last axis innermost."""
        error, to = c.MdlError(), ctypes.create_string_buffer(max(self.nbytes, 1))
        with self._handle.held() as pointer:
            if c.library.mdl_trainer_read(pointer, os.fsencode(self.name), to, self.nbytes, ctypes.byref(error)):
                raise_error(error)
        return to.raw[:self.nbytes]

    def _memory(self) -> Any:
        """The memory where the elements lie. It keeps the trainer alive."""
        reach = self.itemsize + sum((size - 1) * stride for size, stride in zip(self.shape, self._strides))
        memory = (ctypes.c_char * reach).from_address(self._data)
        memory.owner = self._handle
        return memory

    def memory(self) -> memoryview:
        """The elements as a memoryview that is read only: without a copy where they lie densely in this process."""
        dense, stride = True, self.itemsize
        for size, at in reversed(list(zip(self.shape, self._strides))):
            dense &= size == 1 or at == stride
            stride *= size
        view = memoryview(self._memory() if self._data is not None and dense else self.read()).cast("B")
        return view.cast(FORMATS[self.type], shape=self.shape).toreadonly()

    def numpy(self) -> "numpy.ndarray":
        """The elements as an array that is read only and changes with each step: `.copy()` keeps what they are now.

        It is a copy already where `shared` is False: values of a GPU, of ranks that hold pieces, and bf16, which numpy
        does not know and which becomes f32. Of e4m3 and e5m2 it has the bits.
        """
        import numpy as np  # here, so that everything else works without numpy

        kind = np.dtype(FORMATS[self.type])
        if self._data is not None:
            flat = np.frombuffer(memoryview(self._memory()).toreadonly(), kind)  # which no flag makes writable
            array = np.ndarray(self.shape, kind, flat, 0, self._strides)
        else:
            array = np.frombuffer(self.read(), kind).reshape(self.shape)
        if self.type == "bf16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        array.flags.writeable = False
        return array

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis} {size}" for axis, size in zip(self.axes, self.shape))
        return f"<mdl.Value {self.name}: {self.type}[{axes}], {self.kind}>"


class Trainer:
    """A run that is being trained: an iterator over its steps, and a context that saves and ends it.

    device      "cpu", "cuda", "auto"
    out         the run directory; default: a fresh runs/MODEL-N, or with `resume` the newest of them
    data        another file than the recipe names
    resume      go on from the newest checkpoint of the run directory
    restart     begin with step 1 in the directory of a run; its checkpoints and metrics are moved to before-N in it
    weights     begin with those of a run, a checkpoint, a directory of Hugging Face, or adapters alone
    adapters    with `weights`: and with these, of a run that saved what it trained alone, or a directory of PEFT
    trunk       with `resume`: where frozen parameters are that the run left out; default: where they were
    mapping     how that directory names them: a file; default: the one that comes with mdl
    partial     with `weights`: what is missing there keeps its first values, and what is left over is left out
    save_trained
                with `weights`: checkpoints hold what is trained alone; frozen parameters stay where `weights` are
    steps       stop there, from 1 on; default, here and for the next three: as the recipe says
    save_every, eval_every, log_every
                steps between checkpoints, evaluations, lines of metrics; 0: only at the end
    keep        newest checkpoints to keep; 0: all
    keep_every  and those of steps that are a multiple of it; 0: no others
    keep_best   and the one of the lowest validation loss, which is saved when it is found
    sync_save   wait while a checkpoint is written; else a copy is written while training goes on
    blame       run the first bad step of several in a row again, and say in the log which value is not finite first
    check       run one step of so many twice and compare bits; 0: none
    patience    end where so many evaluations in a row are no better than the best before them; 0: never
    threads     of all ranks together; 0: all cores
    deadline    seconds for which a rank waits for another; 0: for ever
    screen      whether progress goes to stdout, as of `mdl train`

    However its block is left, the run is saved where it is, but after a step that failed. Threads may share a trainer:
    they take turns. A process that was forked cannot use it.
    """

    def __init__(self, plan: "PlanHandle", *, device: Optional[str] = None, out: Optional[Path] = None,
                 data: Optional[Path] = None, resume: bool = False, restart: bool = False,
                 weights: Optional[Path] = None, mapping: Optional[Path] = None, partial: bool = False,
                 save_trained: bool = False, adapters: Optional[Path] = None, trunk: Optional[Path] = None,
                 steps: Optional[int] = None, save_every: Optional[int] = None, eval_every: Optional[int] = None,
                 log_every: Optional[int] = None, keep: int = 3, keep_every: int = 0, keep_best: bool = False,
                 sync_save: bool = False, blame: bool = False, check: int = 0,
                 patience: int = 0, threads: int = 0, deadline: float = 60, screen: bool = False):
        if not hasattr(plan, "pointer"):
            raise TypeError("a trainer is opened by plan.trainer(...), of what mdl.compile or mdl.open returns")
        options = c.MdlTrainOptions(
            device=encode_text("device", device), out=encode("out", out), data=encode("data", data),
            resume=flag("resume", resume), restart=flag("restart", restart), mapping=encode("mapping", mapping),
            partial=flag("partial", partial), save_trained=flag("save_trained", save_trained),
            adapters=encode("adapters", adapters), trunk=encode("trunk", trunk),
            keep_every=count("keep_every", keep_every), keep_best=flag("keep_best", keep_best),
            sync_save=flag("sync_save", sync_save), blame=flag("blame", blame),
            check=count("check", check), patience=count("patience", patience), steps=count("steps", steps, -1),
            save_every=count("save_every", save_every, -1), eval_every=count("eval_every", eval_every, -1),
            log_every=count("log_every", log_every, -1), keep=count("keep", keep), threads=count("threads", threads),
            deadline_seconds=real("deadline", deadline),
            screen=ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout") if flag("screen", screen) else None)
        setattr(options, "from", encode("weights", weights))  # a word of Python's own
        error, pointer = c.MdlError(), ctypes.c_void_p()
        if c.library.mdl_trainer_open(plan.pointer, ctypes.byref(options), ctypes.byref(pointer), ctypes.byref(error)):
            raise_error(error)
        self._handle: Optional[TrainerHandle] = TrainerHandle(pointer, plan)
        self._failed = False
        self.run: str = decode(c.library.mdl_trainer_run(pointer)) or ""  # the run directory
        self.result: Optional[Result] = None  # once it has ended

    def _live(self) -> TrainerHandle:
        handle = self._handle
        if handle is None:
            raise ValueError("the trainer is closed")
        return handle

    def step(self) -> Optional[Step]:
        """Trains one more step, with its evaluation and checkpoint where they are due. None: all steps are done."""
        error, step, more = c.MdlError(), c.MdlStep(), ctypes.c_bool()
        handle = self._live()  # referred to until the call is over, whoever closes the trainer
        with handle.held() as pointer:
            if c.library.mdl_trainer_step(pointer, ctypes.byref(step), ctypes.byref(more), ctypes.byref(error)):
                self._failed = self.result is None
                raise_error(error)
        return Step(**{name: getattr(step, name) for name, _ in step._fields_}) if more.value else None

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        step = self.step()
        if step is None:
            raise StopIteration
        return step

    def save(self) -> None:
        """A checkpoint of the newest step, where there is none yet."""
        error, handle = c.MdlError(), self._live()
        with handle.held() as pointer:
            if c.library.mdl_trainer_save(pointer, ctypes.byref(error)):
                raise_error(error)

    def values(self) -> List[Value]:
        """All of them: parameters and states by name, then outputs of a step."""
        handle, value, all_of_them = self._live(), c.MdlValue(), []
        with handle.held() as pointer:
            for i in range(c.library.mdl_trainer_value_count(pointer)):
                if c.library.mdl_trainer_value_at(pointer, i, ctypes.byref(value)):
                    all_of_them.append(Value(handle, value))
        return all_of_them

    def value(self, name: str) -> Value:
        """The value of that name; UsageError: there is none."""
        error, value, handle = c.MdlError(), c.MdlValue(), self._live()
        word = encode_text("name", name)
        if word is None:
            raise TypeError("name is a text (str), not None")
        with handle.held() as pointer:
            if c.library.mdl_trainer_value(pointer, word, ctypes.byref(value), ctypes.byref(error)):
                raise_error(error)
            return Value(handle, value)

    def __getitem__(self, name: str) -> "numpy.ndarray":
        """`value(name).numpy()`."""
        return self.value(name).numpy()

    def finish(self) -> Result:
        """Ends the run, saved where it is not yet; values can still be looked at."""
        if self.result is not None:
            return self.result
        error, result, handle = c.MdlError(), c.MdlTrainResult(), self._live()
        with handle.held() as pointer:
            if self.result is None:
                if c.library.mdl_trainer_finish(pointer, ctypes.byref(result), ctypes.byref(error)):
                    self._failed = True
                    raise_error(error)
                self.result = Result(decode(result.run) or "", result.step, result.loss, result.val_loss)
        return self.result

    def close(self) -> None:
        """Lets go of the run, without saving; its memory is freed when no value shows it any longer."""
        self._handle = None

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None and not self._failed:
            self.finish()
        self.close()
