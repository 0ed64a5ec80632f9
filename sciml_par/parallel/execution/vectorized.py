"""Collectives inside `tf.vectorized_map` and the Jacobians of tapes, which pfor converts.

TensorFlow's pfor replaces each operation of a loop's body by one for all passes. It silently drops
custom gradients. So the operations of a collective carry a converter, which creates one collective
on stacked tensors, with its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

Tensor = Any
Operation = Any


@dataclass(frozen=True)
class AllPasses:
    """The collective for all passes of a loop.

    Parameters
    ----------
    collective : takes the tensors that travel, and then others, which are the same in every pass;
        returns the results of the former, and then others, which are the same as well.
    """

    collective: Callable[[list[Tensor]], Sequence[Tensor]]
    kind: str
    by_rows: bool = False

    def convert(self, operation: Operation, count: int, rest: int | None = None) -> None:
        """Set the converter of `operation`, which carries the collective of `count` tensors.

        rest : the index of the input that is also the last result; by default this is False.
        """

        def converter(call: Any) -> list[Any]:
            from tensorflow.python.ops.parallel_for.pfor import wrap

            if any(each.is_stacked for each in call.inputs[count:]):
                raise InputError(
                    f"{self.kind}: expected the same numbers of rows in each pass of "
                    f"tf.vectorized_map or of a Jacobian; got numbers that are computed in the "
                    f"pass. Use tf.map_fn, or jacobian(..., experimental_use_pfor=False)."
                )
            stacked = any(each.is_stacked for each in call.inputs[:count])
            if stacked:
                call.stack_inputs(range(count))
            tensors = [each.t for i, each in enumerate(call.inputs) if i != rest]
            swapped = _swapped if stacked and self.by_rows else list
            ys = self.collective([*swapped(tensors[:count]), *tensors[count:]])
            return [
                *(wrap(y, stacked) for y in swapped(ys[:count])),
                *(wrap(y, False) for y in ys[count:]),
                wrap(tf.constant(False), False) if rest is None else call.inputs[rest],
            ]

        operation.pfor_converter = converter


def convert_to_nothing(operation: Operation) -> None:
    """Let pfor drop `operation`, which the converted collective contains itself."""

    def converter(call: Any) -> Any:
        from tensorflow.python.ops.parallel_for.pfor import wrap

        if not call.op.outputs:
            return tf.raw_ops.NoOp()
        return [wrap(tf.constant(False), False) for _ in call.op.outputs]

    operation.pfor_converter = converter


def _swapped(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return [passes, rows, ...] from [rows, passes, ...], and vice versa."""
    return [tf.transpose(x, [1, 0, *range(2, x.shape.rank)]) for x in tensors]
