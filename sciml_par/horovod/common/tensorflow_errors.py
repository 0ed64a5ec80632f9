"""sciml_par's errors that are TensorFlow's, too, as Horovod's operations raise them.

Defining them imports TensorFlow, which is to come after `init`: so this module is imported where it
is needed.
"""

from __future__ import annotations

from sciml_par._tensorflow import tf
from sciml_par.errors import CollectiveMismatchError, InputError


class MismatchError(CollectiveMismatchError, tf.errors.FailedPreconditionError):
    """The ranks differ in shape, type, root or operation; all of them raise it."""

    def __init__(self, message: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class InvalidInputError(InputError, tf.errors.InvalidArgumentError):
    """Splits that do not fit, or a collective of a process set outside of which this rank is."""

    def __init__(self, message: str) -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)
