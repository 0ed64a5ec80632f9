"""Errors of collectives in graphs that XLA does not compile, as `tf.errors`.

An exception of a Python function in a graph reaches the program as `tf.errors.UnknownError`. A
mismatch must have the same class in every context, so that a program can catch it. XLA's errors
keep their class: the function only returns that it has failed, and then a foreign call fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.execution.vectorized import convert_to_nothing
from sciml_par.parallel.execution.xla_custom_call import bridge

Tensor = Any


class MismatchInGraph:
    """The mismatches at one call site of a plain graph."""

    def __init__(self) -> None:
        self._error: CollectiveMismatchError | None = None

    def caught(
        self, run: Callable[..., Sequence[Any]], blank: Callable[[], Sequence[Any]]
    ) -> Callable[..., list[Any]]:
        """Return `run` with one more result: whether there was a mismatch."""

        def caught(*tensors: Any) -> list[Any]:
            try:
                return [*run(*tensors), False]
            except CollectiveMismatchError as error:
                self._error = error
                return [*blank(), True]

        return caught

    def checked(self, ys: Sequence[Tensor], failed: Tensor) -> list[Tensor]:
        """Return `ys`, or fail with a `FailedPreconditionError` if `failed`."""
        failed.set_shape([])
        fails = tf.cond(failed, lambda: self._fail(failed), lambda: tf.constant(False))
        for condition in fails.op.inputs:
            convert_to_nothing(condition.op)
        with tf.control_dependencies([fails]):
            return [tf.identity(y) for y in ys]

    def _fail(self, failed: Tensor) -> Tensor:
        try:
            return bridge().failing(self._raise, failed)
        except InputError:  # no foreign calls here
            return tf.numpy_function(self._raise, [failed], tf.bool)

    def _raise(self, *_: Any) -> None:
        error, self._error = self._error, None
        raise error if error is not None else CollectiveMismatchError("The ranks differ.")
