"""sciml_par's errors that are of the kind, too, which programs written for Horovod catch."""

from __future__ import annotations

from sciml_par.errors import InputError, NotInitializedError


class UnsupportedError(InputError, NotImplementedError):
    """A reduction that tensors of a kind do not have."""


class NeedsGraphError(InputError, RuntimeError):
    """A function for graphs, called where TensorFlow executes eagerly."""


class NoRanksError(NotInitializedError, ValueError):
    """`init` has not run, or `shutdown` has."""
