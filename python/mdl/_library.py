"""_library.py: the structures and functions of runtime/mdl.h, and where the shared library is.

`tests/python` compares sizes and offsets with those of the C compiler.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p

MAX_AXES = 16


class MdlError(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", c_char * 1024)]


class MdlDiagnostic(ctypes.Structure):
    _fields_ = [("severity", c_char_p), ("code", c_char_p), ("file", c_char_p),
                ("line", c_int), ("column", c_int), ("end_line", c_int), ("end_column", c_int),
                ("message", c_char_p), ("label", c_char_p), ("help", c_char_p)]


ON_DIAGNOSTIC = CFUNCTYPE(None, c_void_p, POINTER(MdlDiagnostic))


class MdlCompileOptions(ctypes.Structure):
    _fields_ = [("recipe", c_char_p), ("layout", c_char_p), ("precision", c_char_p),
                ("set", POINTER(c_char_p)), ("set_count", c_int),
                ("watched", POINTER(c_char_p)), ("watch_count", c_int), ("diagnostics", c_void_p), ("diagnostics_json", c_bool),
                ("text", c_char_p), ("diagnostic", ON_DIAGNOSTIC), ("context", c_void_p)]


class MdlStep(ctypes.Structure):
    _fields_ = [("step", c_int64), ("steps", c_int64), ("tokens", c_int64), ("skipped", c_int64),
                ("loss", c_double), ("grad_norm", c_double), ("lr", c_double), ("val_loss", c_double),
                ("seconds_per_step", c_double)]


class MdlTrainOptions(ctypes.Structure):
    _fields_ = [("device", c_char_p), ("out", c_char_p), ("data", c_char_p), ("resume", c_bool), ("restart", c_bool),
                ("from", c_char_p), ("adapters", c_char_p), ("trunk", c_char_p), ("mapping", c_char_p), ("partial", c_bool), ("save_trained", c_bool),
                ("profile", c_int64), ("steps", c_int64), ("save_every", c_int64), ("eval_every", c_int64),
                ("log_every", c_int64), ("keep", c_int64), ("keep_every", c_int64), ("keep_best", c_bool),
                ("sync_save", c_bool), ("blame", c_bool), ("check", c_int64), ("patience", c_int64),
                ("threads", c_int64), ("deadline_seconds", c_double),
                ("screen", c_void_p), ("lines", c_void_p), ("step", c_void_p), ("context", c_void_p)]


class MdlTrainResult(ctypes.Structure):
    _fields_ = [("run", c_char * 4096), ("step", c_int64), ("loss", c_double), ("val_loss", c_double)]


class MdlValue(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("type", c_char_p), ("element_bytes", c_size_t),
                ("axis_count", c_int), ("axis", c_char_p * MAX_AXES), ("size", c_int64 * MAX_AXES),
                ("stride", c_int64 * MAX_AXES), ("data", c_void_p)]


ON_OUTPUT = CFUNCTYPE(None, c_void_p, c_char_p, c_double)


class MdlEvaluateOptions(ctypes.Structure):
    _fields_ = [("device", c_char_p), ("data", c_char_p), ("batches", c_int64), ("threads", c_int64),
                ("trust", c_bool), ("trunk", c_char_p), ("output", ON_OUTPUT), ("context", c_void_p), ("notes", c_void_p)]


class MdlEvaluationSet(ctypes.Structure):
    _fields_ = [("name", c_char * 64), ("data", c_char * 4096), ("loss", c_double), ("bits_per_byte", c_double),
                ("windows", c_int64), ("all_windows", c_int64), ("tokens", c_int64), ("trained", c_bool)]


class MdlEvaluation(ctypes.Structure):
    _fields_ = [("loss", c_double), ("perplexity", c_double), ("bits_per_byte", c_double),
                ("step", c_int64), ("windows", c_int64), ("tokens", c_int64), ("seconds", c_double),
                ("data", c_char * 4096), ("held_out", c_double),
                ("set_count", c_int), ("sets", MdlEvaluationSet * 8), ("trained", c_bool), ("changed", c_bool), ("unit", c_char * 48),
                ("all_windows", c_int64)]


ON_TEXT = CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t)


class MdlGenerateOptions(ctypes.Structure):
    _fields_ = [("device", c_char_p), ("prompt", c_char_p), ("prompts", POINTER(c_char_p)), ("prompt_count", c_int),
                ("tokens", c_int64), ("temperature", c_double), ("top_k", c_int64), ("top_p", c_double),
                ("stops", POINTER(c_char_p)), ("stop_count", c_int), ("tokenizer", c_char_p), ("whole", c_bool),
                ("notes", c_void_p), ("begin", c_void_p), ("seed", c_uint64), ("threads", c_int64), ("trust", c_bool),
                ("chat", c_bool), ("system", c_char_p), ("trunk", c_char_p)]


STRUCTURES = (MdlError, MdlDiagnostic, MdlCompileOptions, MdlStep, MdlTrainOptions, MdlTrainResult, MdlValue,
              MdlEvaluateOptions, MdlEvaluation, MdlGenerateOptions)

_ERROR = POINTER(MdlError)
_FUNCTIONS = {
    "mdl_version": (c_char_p, []),
    "mdl_compile": (c_int, [c_char_p, POINTER(MdlCompileOptions), POINTER(c_void_p), _ERROR]),
    "mdl_plan_open": (c_int, [c_char_p, POINTER(c_void_p), _ERROR]),
    "mdl_plan_open_trusted": (c_int, [c_char_p, POINTER(c_void_p), _ERROR]),
    "mdl_plan_write": (c_int, [c_void_p, c_char_p, _ERROR]),
    "mdl_plan_close": (None, [c_void_p]),
    "mdl_trainer_open": (c_int, [c_void_p, POINTER(MdlTrainOptions), POINTER(c_void_p), _ERROR]),
    "mdl_trainer_step": (c_int, [c_void_p, POINTER(MdlStep), POINTER(c_bool), _ERROR]),
    "mdl_trainer_save": (c_int, [c_void_p, _ERROR]),
    "mdl_trainer_finish": (c_int, [c_void_p, POINTER(MdlTrainResult), _ERROR]),
    "mdl_trainer_close": (None, [c_void_p]),
    "mdl_trainer_run": (c_char_p, [c_void_p]),
    "mdl_trainer_value_count": (c_int, [c_void_p]),
    "mdl_trainer_value_at": (c_bool, [c_void_p, c_int, POINTER(MdlValue)]),
    "mdl_trainer_value": (c_int, [c_void_p, c_char_p, POINTER(MdlValue), _ERROR]),
    "mdl_trainer_read": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, _ERROR]),
    "mdl_evaluate": (c_int, [c_char_p, POINTER(MdlEvaluateOptions), POINTER(MdlEvaluation), _ERROR]),
    "mdl_generate": (c_int, [c_char_p, POINTER(MdlGenerateOptions), ON_TEXT, c_void_p, _ERROR]),
}


def _candidates() -> list[str]:
    """Where the library may be: as the environment says; beside this file, as in a wheel; where the system has it."""
    if os.environ.get("MDL_LIBRARY"):
        return [os.environ["MDL_LIBRARY"]]
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libmdl.so")
    found = ctypes.util.find_library("mdl")
    return ([here] if os.path.exists(here) else []) + ([found] if found else []) + ["libmdl.so.0"]


def _load() -> ctypes.CDLL:
    why = ""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            why = str(error)
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library
    raise ImportError(f"libmdl.so could not be loaded ({why}); install mdl, or say in MDL_LIBRARY where it is")


library = _load()
