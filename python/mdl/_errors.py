"""_errors.py: what calls of the library raise."""

from __future__ import annotations

import dataclasses
import operator
import os
from typing import Any, Callable, Iterable, List, NoReturn, Optional, Sequence, Union

from mdl._library import MdlDiagnostic, MdlError

Path = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """A call that failed. `status` is the exit status that the program `mdl` would have had."""

    status = 1


class InputError(Error):
    """A file, a text or data is wrong."""


class UsageError(Error):
    """Options that do not go together, or a name that is not there."""

    status = 2


class OutOfMemoryError(Error):
    """Out of memory, of the host or of a device."""

    status = 3


class DivergedError(Error):
    """Training diverged."""

    status = 4


class RankLostError(Error):
    """A rank died, or did not answer before the deadline."""

    status = 5


class StepDiffersError(Error):
    """A step that was repeated gave other bits."""

    status = 6


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """What is wrong with a text, or looks so. Lines and columns count from 1; all are 0 where `file` is None."""

    severity: str  # "error", "warning", "note"
    code: str  # "E021"; `mdlc explain E021` shows an example
    file: Optional[str]
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    label: Optional[str]  # beside the place
    help: Optional[str]  # the fix

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        more = f" ({self.label})" if self.label else ""
        fix = f"; help: {self.help}" if self.help else ""
        return f"{place}{self.severity}[{self.code}]: {self.message}{more}{fix}"


class CompileError(InputError):
    """A text with errors: `diagnostics` are all that was said, the other attributes those of the first error."""

    def __init__(self, text: str, diagnostics: Sequence[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        errors = [one for one in diagnostics if one.severity == "error"]
        first = errors[0] if errors else None
        self.code: Optional[str] = first.code if first else None
        self.file: Optional[str] = first.file if first else None
        self.line: int = first.line if first else 0
        self.column: int = first.column if first else 0
        super().__init__("\n".join([text] + [str(one) for one in errors]))


_CLASSES = {kind.status: kind for kind in (InputError, UsageError, OutOfMemoryError, DivergedError, RankLostError,
                                           StepDiffersError)}


def decode(text: Optional[bytes]) -> Optional[str]:
    """Text of the library; bytes that are not UTF-8 come back as they were from os.fsencode."""
    return None if text is None else os.fsdecode(text)


def _wrong(name: str, wanted: str, value: object) -> TypeError:
    """What is said of an argument of another type."""
    kind = type(value).__name__
    article = "an" if kind[:1] in "aeiou" else "a"
    return TypeError(f"{name} is {wanted}, not {'None' if value is None else f'{article} {kind}'}")


def encode(name: str, text: Optional[Path], wanted: str = "a path, as text or of pathlib") -> Optional[bytes]:
    """A path for the library; None: there is none."""
    if text is None:
        return None
    if not isinstance(text, (str, bytes, os.PathLike)):
        raise _wrong(name, wanted, text)
    word = os.fsencode(text)
    if b"\0" in word:
        raise ValueError(f"{name}, {text!r}, holds a zero byte, where the library's texts end")
    return word


def needed(name: str, path: Path) -> bytes:
    """A path that there must be."""
    word = encode(name, path)
    if word is None:
        raise _wrong(name, "a path, as text or of pathlib", path)
    return word


def encode_text(name: str, text: Optional[str]) -> Optional[bytes]:
    """A text for the library, a str; None: there is none."""
    if text is not None and not isinstance(text, str):
        raise _wrong(name, "a text (str)", text)
    return encode(name, text)


def encode_texts(name: str, texts: Iterable[str]) -> List[bytes]:
    """Several of them."""
    if isinstance(texts, (str, bytes, bytearray)) or not isinstance(texts, Iterable):
        raise _wrong(name, "a list of texts", texts)
    words = list(texts)
    for word in words:
        if not isinstance(word, str):
            raise _wrong(f"each of {name}", "a text (str)", word)
    return [encode(name, word) or b"" for word in words]


def flag(name: str, value: bool) -> bool:
    """What is true or false; numpy has a type of its own for it."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise _wrong(name, "True or False", value)


def real(name: str, value: float) -> float:
    """A number."""
    if isinstance(value, (str, bytes, bytearray, bool)) or not hasattr(value, "__float__"):
        raise _wrong(name, "a number", value)
    return float(value)


def ends(value: Any) -> bool:
    """Whether what a function has returned is False, also one of numpy, which has a type of its own."""
    return type(value).__name__ in ("bool", "bool_") and not value


def called(name: str, value: Optional[Callable[..., Any]]) -> None:
    """Reports what is no function, before it is wanted."""
    if value is not None and not callable(value):
        raise _wrong(name, "a function", value)


def count(name: str, number: Optional[int], default: int = 0) -> int:
    """An option that counts something; None: the default."""
    if number is None:
        return default
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise _wrong(name, "a whole number", number)
    number = operator.index(number)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} is a whole number from 0 to {2**63 - 1}, not {number}")
    return number


def raise_error(error: MdlError) -> NoReturn:
    """Raises what the library says."""
    raise _CLASSES.get(error.status, Error)(decode(error.text))


def diagnostic_of(one: MdlDiagnostic) -> Diagnostic:
    """A copy."""
    return Diagnostic(decode(one.severity) or "", decode(one.code) or "", decode(one.file), one.line, one.column,
                      one.end_line, one.end_column, decode(one.message) or "", decode(one.label), decode(one.help))
