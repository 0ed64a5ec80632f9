"""Failures of one rank that all ranks are to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sciml_par._text import one_line
from sciml_par.errors import SciMLParError, TrainingError
from sciml_par.parallel.groups.communicator import Communicator

T = TypeVar("T")


def together(communicator: Communicator, action: Callable[[], T]) -> T:
    """Do what does not communicate; if it fails on one rank, fail on all (collective)."""
    return communicator.attempt(lambda: as_training_error(action))


def as_training_error(action: Callable[[], T]) -> T:
    """Do it, and raise what is no error of this package as one, which ranks can share (local)."""
    try:
        return action()
    except SciMLParError:
        raise
    except Exception as error:  # TensorFlow, NumPy and a user's residual raise all kinds
        raise TrainingError(f"{type(error).__name__}: {one_line(error)}") from error
