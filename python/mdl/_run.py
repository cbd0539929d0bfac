"""_run.py: what is done with runs: their loss, and text from them."""

from __future__ import annotations

import ctypes
import dataclasses
import queue
import threading
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from mdl import _library as c
from mdl._errors import (Path, called, count, decode, encode, encode_text, encode_texts, ends, flag, needed,
                         raise_error, real)


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """The loss over one of the sources that a recipe validates with."""

    name: str  # a single one may have none
    data: str  # the file
    loss: float
    bits_per_byte: float
    windows: int
    all_windows: int  # that it has; fewer are read where `batches` is a limit
    tokens: int  # that counted; 0: none is of an answer, and the loss is NaN
    trained: bool  # the run was trained on it, or on one of its files


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The loss of a checkpoint."""

    loss: float
    perplexity: float  # NaN where the loss is not in nats per token, or has other terms
    bits_per_byte: float  # NaN where no tokenizer is known
    step: int
    windows: int
    all_windows: int  # that there are; fewer are read where `batches` is a limit
    tokens: int
    seconds: float
    data: str  # the file
    held_out: float  # its last part, which the run is not trained on; 0: all of it, whatever the run has read
    outputs: Dict[str, float]  # of the text; of vectors each number, as `name.0`
    sets: Tuple[EvaluationSet, ...]  # of validation sources that the recipe names; then `loss` is their mean
    trained: bool  # it is what the run was trained on, or one of its files is
    changed: bool  # the run's data is not what the weights were trained on, so what was read may, or may not, be
    unit: str  # of the loss: "nats per token", "a sum over the tokens of a batch", "without a unit", "nats per token and other terms"


def evaluate(run: Path, *, device: Optional[str] = None, data: Optional[Path] = None, batches: int = 0,
             threads: int = 0, trust: bool = False, trunk: Optional[Path] = None) -> Evaluation:
    """The loss of the newest checkpoint of a run, on what the run holds out of its data or on all of the file `data`.

    `trust`: the machine code for GPUs in the run's plan is run; for runs of one's own. `trunk`: where frozen parameters
    are that the run left out; default: where they were.
    """
    outputs: Dict[str, float] = {}

    def take(_: Optional[int], name: bytes, value: float) -> None:
        outputs[decode(name) or ""] = value

    options = c.MdlEvaluateOptions(
        device=encode_text("device", device), data=encode("data", data), batches=count("batches", batches),
        threads=count("threads", threads), trust=flag("trust", trust), trunk=encode("trunk", trunk),
        output=c.ON_OUTPUT(take))
    error, result = c.MdlError(), c.MdlEvaluation()
    if c.library.mdl_evaluate(needed("run", run), ctypes.byref(options), ctypes.byref(result), ctypes.byref(error)):
        raise_error(error)
    values = {name: getattr(result, name) for name, _ in result._fields_ if name not in ("set_count", "sets")}
    values["data"] = decode(result.data)
    values["unit"] = decode(result.unit)
    sets = tuple(EvaluationSet(decode(one.name) or "", decode(one.data) or "", one.loss, one.bits_per_byte, one.windows,
                               one.all_windows, one.tokens, one.trained)
                 for one in result.sets[:result.set_count])
    return Evaluation(**values, outputs=outputs, sets=sets)


def generate(run: Path, prompt: str = "", *, tokens: int = 256, temperature: float = 0.8, top_k: int = 0,
             top_p: float = 1, stops: Sequence[str] = (), seed: int = 1, device: Optional[str] = None,
             tokenizer: Optional[Path] = None, threads: int = 0, trust: bool = False,
             chat: bool = False, system: Optional[str] = None, trunk: Optional[Path] = None,
             each: Optional[Callable[[str], Optional[bool]]] = None) -> str:
    """Text from the newest checkpoint of a run, without the prompt.

    The same seed gives the same text. `each(text)` is called with every piece as it is made; where it returns False,
    also one of numpy, the text ends. `trust` and `trunk` are those of `evaluate`. With `chat` the prompt is a question of a conversation,
    and the text its answer; `system` is said ahead of it.
    """
    if real("top_p", top_p) == 0:  # which is the default in C
        raise ValueError("top_p is a probability above 0 and at most 1, not 0; temperature=0 takes the likeliest")
    words = encode_texts("stops", stops)
    called("each", each)
    if prompt is None:
        raise TypeError("prompt is a text (str), not None; '' begins with nothing")
    if not isinstance(prompt, str):
        encode_text("prompt", prompt)
    options = c.MdlGenerateOptions(
        device=encode_text("device", device), prompt=encode("prompt", prompt.encode(errors="surrogateescape")),
        tokens=count("tokens", tokens), temperature=real("temperature", temperature), top_k=count("top_k", top_k),
        top_p=real("top_p", top_p), stops=(ctypes.c_char_p * len(words))(*words) if words else None,
        stop_count=len(words), tokenizer=encode("tokenizer", tokenizer), seed=count("seed", seed),
        threads=count("threads", threads), trust=flag("trust", trust), chat=flag("chat", chat),
        system=encode_text("system", system), trunk=encode("trunk", trunk))
    return b"".join(_generate(needed("run", run), options, each)).decode(errors="replace")


def _generate(run: bytes, options: c.MdlGenerateOptions,
              each: Optional[Callable[[str], Optional[bool]]]) -> List[bytes]:
    """Calls the library in a thread of its own: Ctrl-C interrupts the one that waits here, never a callback of C."""
    pieces: List[bytes] = []
    error = c.MdlError()
    made: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()  # None: there is no more
    goes_on: "queue.SimpleQueue[bool]" = queue.SimpleQueue()  # for each piece

    def take(_: Optional[int], text: "ctypes._Pointer[ctypes.c_char]", length: int) -> bool:
        made.put(ctypes.string_at(text, length))
        return goes_on.get()

    callback = c.ON_TEXT(take)

    def work() -> None:
        try:
            c.library.mdl_generate(run, ctypes.byref(options), callback, None, ctypes.byref(error))
        finally:
            made.put(None)

    thread = threading.Thread(target=work, name="mdl.generate", daemon=True)
    thread.start()
    try:
        for piece in iter(made.get, None):
            pieces.append(piece)
            goes_on.put(each is None or not ends(each(piece.decode(errors="replace"))))
    except BaseException:
        goes_on.put(False)
        while made.get() is not None:
            goes_on.put(False)
        raise
    finally:
        thread.join()
    if error.status:
        raise_error(error)
    return pieces
