"""TensorFlow, imported at its first use and without its start-up messages.

Importing TensorFlow takes seconds, fixes its log level and its threads, and prints lines that P
ranks would print P times. So no module here imports it while being imported itself: each takes
`tf` from this one, and `sciml_par.init` can decide first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["hidden_from_autograph", "import_module", "is_recorded", "tf"]

F = TypeVar("F", bound=Callable[..., Any])

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
ALL, ONLY_FATAL = "0", "3"
IS_OURS = "tensorflow" not in sys.modules and LOG_LEVEL not in os.environ
"""Whether the package chooses the log level, which TensorFlow reads once, when it is imported."""

if IS_OURS:
    os.environ[LOG_LEVEL] = ONLY_FATAL


def import_module(name: str, *, quiet: bool = True) -> ModuleType:
    """Import TensorFlow or what is built on it, silently if `quiet`.

    Where the user has set the log level to "0", which asks for all messages, all are shown. What
    TensorFlow writes before its log level applies goes to the process's standard error, past
    Python; if the import fails it is shown.
    """
    if name not in sys.modules:
        with quiet_start(quiet):
            importlib.import_module(name)
    return sys.modules[name]


def hidden_from_autograph(function: F) -> F:
    """Mark `function` as one that AutoGraph must not convert, without importing TensorFlow.

    It runs as it is written, also in an eager `tf.map_fn`. AutoGraph would find no source of MPI's
    functions, and say so.
    """
    function.autograph_info__ = None  # type: ignore[attr-defined]
    return function


def is_recorded() -> bool:
    """Return whether a gradient tape, or an accumulator of forward derivatives, looks on.

    None does so in `tape.stop_recording()`. TensorFlow has no public function for it.
    """
    from tensorflow.python.eager import record

    return bool(record.could_possibly_record())


class _Tensorflow:
    """Stands for the module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("tensorflow"), name)
        setattr(self, name, value)
        return value


@contextlib.contextmanager
def quiet_start(quiet: bool) -> Iterator[None]:
    """Import TensorFlow within as `import_module` does."""
    with contextlib.ExitStack() as stack:
        if not quiet:
            if IS_OURS or LOG_LEVEL not in os.environ:
                os.environ[LOG_LEVEL] = ALL  # so that no import within is quiet
        elif os.environ.get(LOG_LEVEL) != ALL:
            os.environ[LOG_LEVEL] = ONLY_FATAL
            stack.enter_context(_standard_error_held_back())
        stack.enter_context(_never_collected())
        yield


@contextlib.contextmanager
def _never_collected() -> Iterator[None]:
    """Keep the garbage collector from all objects made here, and before.

    TensorFlow makes a million. Visiting them during the import and once more when Python ends
    takes two fifths of the processor time of a program that does nothing else.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _standard_error_held_back() -> Iterator[None]:
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = _Tensorflow()
