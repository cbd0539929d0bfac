"""_errors.py: what calls of the library raise."""

from __future__ import annotations

import dataclasses
import operator
import os
from typing import NoReturn, Optional, Sequence, Union

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


def encode(text: Optional[Path]) -> Optional[bytes]:
    """Text or a path for the library."""
    word = None if text is None else os.fsencode(text)
    if word is not None and b"\0" in word:
        raise ValueError(f"{text!r} holds a zero byte, where the library's texts end")
    return word


def count(name: str, number: Optional[int], default: int = 0) -> int:
    """An option that counts something; None: the default."""
    if number is None:
        return default
    number = operator.index(number)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} is a whole number from 0 on, not {number}")
    return number


def raise_error(error: MdlError) -> NoReturn:
    """Raises what the library says."""
    raise _CLASSES.get(error.status, Error)(decode(error.text))


def diagnostic_of(one: MdlDiagnostic) -> Diagnostic:
    """A copy."""
    return Diagnostic(decode(one.severity) or "", decode(one.code) or "", decode(one.file), one.line, one.column,
                      one.end_line, one.end_column, decode(one.message) or "", decode(one.label), decode(one.help))
