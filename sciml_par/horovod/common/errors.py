"""sciml_par's errors that are of the kind, too, which programs written for Horovod catch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sciml_par.errors import InputError, NotInitializedError


class UnsupportedError(InputError, NotImplementedError):
    """A reduction that tensors of a kind do not have."""


class NeedsGraphError(InputError, RuntimeError):
    """A function for graphs, called where TensorFlow executes eagerly."""


class NoRanksError(NotInitializedError, ValueError):
    """`init` has not run, or `shutdown` has."""


@contextlib.contextmanager
def invalid_arguments() -> Iterator[None]:
    """Let an `InputError` be a `tf.errors.InvalidArgumentError` as well."""
    try:
        yield
    except InputError as error:
        from sciml_par.horovod.common.tensorflow_errors import InvalidInputError

        raise InvalidInputError(str(error)) from None
