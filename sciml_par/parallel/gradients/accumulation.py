"""Sums of the gradients of several backward passes, on this rank."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.reduction import Gradient, key_of


class GradientPasses:
    """Adds up the gradients of n passes.

    Its variables are not the optimizer's, so that a saved optimizer is a plain one.

    Attributes
    ----------
    counter : the number of passes in the sums, an integer variable; None before `build`.
    """

    def __init__(self, number: int, *, average: bool) -> None:
        self._number = number
        self._average = average
        self.counter: Any = None
        self._sums: dict[Hashable, Any] = {}

    def build(self, variables: Sequence[Any]) -> None:
        """Create the sums for gradients by `variables`."""
        with tf.init_scope():
            if self.counter is None:
                # TensorFlow keeps a GPU's int32 in host memory, where XLA cannot use it.
                self.counter = tf.Variable(0, dtype=tf.int64, trainable=False)
            for variable in variables:
                key = key_of(variable)
                if key not in self._sums:
                    zero = tf.zeros(variable.shape, variable.dtype)
                    self._sums[key] = tf.Variable(zero, trainable=False)

    @not_converted
    def add(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        then: Callable[[list[Gradient]], Any],
        otherwise: Callable[[], Any] = lambda: None,
    ) -> None:
        """Add `gradients` to the sums; at every n-th call run `then` on the sums and reset them."""
        sums = [
            None if g is None else self._sums[key_of(v)]
            for g, v in zip(gradients, variables, strict=True)
        ]
        for total, gradient in zip(sums, gradients, strict=True):
            if total is not None:
                total.assign_add(tf.cast(tf.convert_to_tensor(gradient), total.dtype))
        passed = self.counter.assign_add(1, read_value=True)

        def finish() -> None:
            factor = 1 / self._number if self._average else None
            then([None if s is None else _scaled(s, factor) for s in sums])
            for total in sums:
                if total is not None:
                    total.assign(tf.zeros_like(total))
            self.counter.assign(tf.zeros_like(self.counter))

        def wait() -> None:
            otherwise()

        tf.cond(passed >= self._number, finish, wait)


def _scaled(total: Any, factor: float | None) -> Any:
    value = tf.convert_to_tensor(total)
    return value if factor is None else value * factor
