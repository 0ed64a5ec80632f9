"""sciml_par's errors that are TensorFlow's as well, as Horovod's operations raise them.

Defining them imports TensorFlow. So only functions import this module, after `init`.
"""

from __future__ import annotations

from sciml_par._tensorflow import tf
from sciml_par.errors import CollectiveMismatchError, InputError


class MismatchError(CollectiveMismatchError, tf.errors.FailedPreconditionError):
    """A difference of the ranks in shape, type, root or operation; all of them raise it."""

    def __init__(self, message: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class InvalidInputError(InputError, tf.errors.InvalidArgumentError):
    """Splits that do not fit, or a collective of a process set without this rank."""

    def __init__(self, message: str) -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)
