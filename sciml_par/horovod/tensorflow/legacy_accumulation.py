"""Several backward passes before each reduction, for optimizers of TensorFlow 1.

A graph of TensorFlow 1 runs in any order that its edges allow. So every step here depends on the
step before it. Executed eagerly, the same code runs from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.tensor_bundle import by_groups
from sciml_par.parallel.execution.dispatch import outside_the_order

Tensor = Any


class Counter:
    """A counter of this rank's passes, from 1 to `number`."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._passed = local_variable(tf.zeros([], tf.int64), "passes")

    def at_the_start(self) -> Tensor:
        """Return whether no pass has been counted since the last reset."""
        return tf.equal(self._passed.read_value(), 0)

    def count(self) -> Tensor:
        """Count a pass, and return whether it was the last."""
        return tf.convert_to_tensor(self._passed.assign_add(1)) >= self._number

    def reset(self) -> Any:
        """Return the operation that sets the counter to 0."""
        return done(self._passed.assign(0))


class LegacyAccumulation:
    """The sum of the gradients of n passes."""

    def __init__(self, number: int, *, average: bool) -> None:
        self._number = number
        self._factor = 1 / number if average else 1.0
        self._counter: Counter | None = None
        self._sums: list[Any] = []

    def add(
        self, gradients: Sequence[Tensor], reduce: Callable[[list[Tensor]], list[Tensor]]
    ) -> list[Tensor]:
        """Return the reduced sums at every n-th pass, zeros at the others."""
        present = [i for i, g in enumerate(gradients) if g is not None]
        dense = [tf.convert_to_tensor(gradients[i]) for i in present]
        if self._counter is None:
            self._counter = Counter(self._number)
            self._sums = [local_variable(tf.zeros(g.shape, g.dtype), "sum") for g in dense]
        added = [done(s.assign_add(g)) for s, g in zip(self._sums, dense, strict=True)]
        with tf.control_dependencies(added):
            complete = self._counter.count()
        with outside_the_order():
            results = tf.cond(
                complete,
                lambda: self._finish(present, gradients, reduce),
                lambda: [tf.zeros(g.shape, g.dtype) for g in dense],
            )
        return by_groups(gradients, [present], lambda _: results)

    def _finish(
        self,
        present: list[int],
        gradients: Sequence[Tensor],
        reduce: Callable[[list[Tensor]], list[Tensor]],
    ) -> list[Tensor]:
        assert self._counter is not None
        sums = [total.read_value() * tf.cast(self._factor, total.dtype) for total in self._sums]
        reduced = reduce(by_groups(gradients, [present], lambda _: sums))
        results = [tf.convert_to_tensor(reduced[i]) for i in present]
        with tf.control_dependencies(results):
            cleared = [done(s.assign(tf.zeros(s.shape, s.dtype))) for s in self._sums]
            cleared.append(self._counter.reset())
        with tf.control_dependencies(cleared):
            return [tf.identity(result) for result in results]

    def when_complete(
        self, gradients: Sequence[Tensor], apply: Callable[[], Any], otherwise: Callable[[], Any]
    ) -> Any:
        """Run `apply` if `add` has just returned its sums, or else `otherwise`."""
        assert self._counter is not None
        with tf.control_dependencies([g for g in gradients if g is not None]):
            complete = self._counter.at_the_start()
        chosen = tf.cond(complete, lambda: after(apply()), lambda: after(otherwise()))
        return chosen if tf.executing_eagerly() else tf.group(chosen)


def local_variable(value: Tensor, name: str) -> Any:
    """Return a variable of this rank, which is not saved, trained or broadcast."""
    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or graph.building_function:
        with tf.init_scope():
            return tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False, name=name)
    return tf.compat.v1.Variable(
        value,
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
        name=f"sciml_par_{name}",
    )


def done(assigned: Any) -> Any:
    """Return the operation of a variable's `assign`."""
    return None if tf.executing_eagerly() else getattr(assigned, "op", assigned)


def after(operation: Any) -> Tensor:
    """Return a tensor that depends on `operation`."""
    with tf.control_dependencies([] if operation is None else [done(operation)]):
        return tf.constant(True)
