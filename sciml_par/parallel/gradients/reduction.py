"""The reduction of gradients over the ranks, for the tape and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any

from sciml_par._checks import is_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.fused import fused_allreduce
from sciml_par.parallel.collectives.one_tensor import allreduce
from sciml_par.parallel.collectives.tensor_bundle import by_groups
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.xla_custom_call import in_compiled_function
from sciml_par.parallel.gradients.optimizer_state import backend_of
from sciml_par.parallel.gradients.replicas import compare_when_due
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.reduce_op import Adasum, Average, ReduceOp, Sum
from sciml_par.parallel.tensors.compression import Compressor, ScalingAndCompression
from sciml_par.parallel.tensors.packing import shape_digest

Gradient = Any
"""A tensor, `tf.IndexedSlices`, or None."""

_NUMBERS_SHOWN = 8


@dataclass(frozen=True, eq=False)
class GradientReduction:
    """How gradients are reduced over the ranks."""

    op: ReduceOp = Average
    _: KW_ONLY
    compression: type[Compressor] | None = None
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    groups: int | Sequence[Sequence[Any]] | None = None
    scale_local_gradients: bool = True
    local: frozenset[Hashable] = frozenset()
    communicator: Communicator | None = None
    device: str | None = None
    where: str = "gradients"

    def __post_init__(self) -> None:
        if not isinstance(self.op, ReduceOp) or self.op not in (Average, Sum, Adasum):
            raise InputError(
                f"{self.where}: gradients can be combined by Average, Sum or Adasum; got op = "
                f"{self.op!r}."
            )
        ScalingAndCompression(1.0, 1.0, self.compression, self.where)  # checks the compression
        self._check_factor()
        groups = self.groups
        if groups is None or (is_integer(groups) and groups >= 1):  # type: ignore[operator]
            return
        if not isinstance(groups, Sequence) or not all(
            isinstance(group, Sequence) and not isinstance(group, str) for group in groups
        ):
            raise InputError(
                f"{self.where}: expected groups to be None, an integer ≥ 1 or a list of lists of "
                f"variables; got {groups!r}."
            )
        keys = [key_of(variable) for group in groups for variable in group]
        if len(set(keys)) < len(keys):
            raise InputError(f"{self.where}: a variable stands in groups twice; name it once.")

    def _check_factor(self) -> None:
        factor = self.gradient_predivide_factor
        if not isinstance(factor, Real) or not 0 < factor < math.inf:
            raise InputError(
                f"{self.where}: expected gradient_predivide_factor to be a positive number; got "
                f"{factor!r}."
            )
        if factor != 1 and self.op is not Average:
            raise InputError(
                f"{self.where}: gradient_predivide_factor divides an Average in two; got it with "
                f"op = {self.op!r}. Use Average, or leave the factor at 1."
            )

    def with_local(self, *variables: Any) -> GradientReduction:
        """Return this reduction without the gradients by `variables`."""
        return replace(self, local=self.local | {key_of(variable) for variable in variables})

    def without_variables(self) -> GradientReduction:
        """Return this reduction for another model, whose variables are others."""
        groups = self.groups if is_integer(self.groups) else None
        return replace(self, groups=groups, local=frozenset())

    def is_local(self, variable: Any) -> bool:
        """Return whether the gradient of `variable` is not reduced."""
        return key_of(variable) in self.local

    @not_converted
    def reduce(
        self, gradients: Sequence[Gradient], sources: Sequence[Any], *, optimizer: Any = None
    ) -> list[Gradient]:
        """Return the gradients of all ranks together, one for each of this rank's (collective).

        From time to time the ranks compare the variables, and the settings of `optimizer`.
        """
        shared_sources = [source for source in sources if not self.is_local(source)]
        with tf.control_dependencies(
            compare_when_due(shared_sources, optimizer, self.communicator)
        ):
            return self._reduce(gradients, sources)

    def _reduce(self, gradients: Sequence[Gradient], sources: Sequence[Any]) -> list[Gradient]:
        results = [self._local_part(g, s) for g, s in zip(gradients, sources, strict=True)]
        shared = [i for i, source in enumerate(sources) if not self.is_local(source)]
        present = [i for i in shared if gradients[i] is not None]
        missing = [n for n, i in enumerate(shared) if gradients[i] is None]
        name = _name(len(shared), missing)
        if shared and not present:
            # If other ranks have gradients, this fails on all ranks, and none waits.
            nothing = tf.zeros([0])
            allreduce(nothing, Sum, name=name, communicator=self.communicator, device=self.device)
        for i in present:
            results[i] = self._prepared(gradients[i], sources[i])
        groups = self._in_groups(present, results, sources)
        return by_groups(results, groups, lambda part: self._reduce_together(part, name))

    def _local_part(self, gradient: Gradient, source: Any) -> Gradient:
        if gradient is None or not (self.scale_local_gradients and self.is_local(source)):
            return gradient
        size = (self.communicator or current_world().communicator).size
        return on_values(lambda values: tf.convert_to_tensor(values) / size, gradient)

    def _prepared(self, gradient: Gradient, source: Any) -> Gradient:
        """Return the gradient as a tensor of known shape, or as slices that can be gathered."""
        if isinstance(gradient, tf.IndexedSlices):
            known = gradient.values.shape.is_fully_defined() or tf.executing_eagerly()
            if not self.sparse_as_dense and (known or not in_compiled_function()):
                return gradient
        dense = tf.convert_to_tensor(gradient)
        return dense if dense.shape.is_fully_defined() else tf.ensure_shape(dense, source.shape)

    def _reduce_together(self, gradients: list[Gradient], name: str) -> list[Gradient]:
        op, before, after = self.op, 1.0, 1.0
        if self.gradient_predivide_factor != 1:
            size = (self.communicator or current_world().communicator).size
            before = 1 / self.gradient_predivide_factor
            op, after = Sum, self.gradient_predivide_factor / size
        return fused_allreduce(
            gradients,
            op,
            prescale_factor=before,
            postscale_factor=after,
            compression=self.compression,
            name=name,
            communicator=self.communicator,
            device=self.device,
        )

    def _in_groups(
        self, indices: list[int], gradients: Sequence[Gradient], sources: Sequence[Any]
    ) -> list[list[int]]:
        """Return `indices` in parts that travel together, in the same order on all ranks."""
        if self.groups is None:
            parts = [indices]
        elif isinstance(self.groups, Sequence):
            listed = [{key_of(variable) for variable in group} for group in self.groups]
            parts = [[i for i in indices if key_of(sources[i]) in keys] for keys in listed]
            known = {i for part in parts for i in part}
            parts.append([i for i in indices if i not in known])
        else:
            parts = _of_equal_length(indices, gradients, int(self.groups))
        return [part for part in parts if part]


def key_of(variable: Any) -> Hashable:
    """Return a variable's identity, the same for a `keras.Variable` and its `tf.Variable`."""
    inner = backend_of(variable)
    if not hasattr(inner, "ref"):
        raise InputError(f"Expected a tf.Variable or a keras.Variable; got {variable!r}.")
    key: Hashable = inner.ref()
    return key


def on_values(function: Callable[[Any], Any], x: Any) -> Any:
    """Return `function` of a tensor, or of the values of `tf.IndexedSlices`."""
    if isinstance(x, tf.IndexedSlices):
        return tf.IndexedSlices(function(x.values), x.indices, dense_shape=x.dense_shape)
    return function(x)


def _of_equal_length(
    indices: list[int], gradients: Sequence[Gradient], number: int
) -> list[list[int]]:
    """Return `indices` in `number` consecutive parts of about the same number of bytes."""
    lengths = [_bytes_of(gradients[i]) for i in indices]
    total, begin = max(sum(lengths), 1), 0
    parts: list[list[int]] = [[] for _ in range(number)]
    for i, length in zip(indices, lengths, strict=True):
        middle = begin + length / 2
        parts[min(int(number * middle / total), number - 1)].append(i)
        begin += length
    return parts


def _bytes_of(gradient: Gradient) -> int:
    # All ranks must cut alike, but may have different numbers of slices.
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    rows = values.shape[1:] if isinstance(gradient, tf.IndexedSlices) else values.shape
    return (rows.num_elements() or 1) * values.dtype.size


def _name(number: int, missing: list[int]) -> str:
    """Return a name for the gradients that differs between ranks with different gradients."""
    name = f"{number} gradients"
    if not missing:
        return name
    if len(missing) <= _NUMBERS_SHOWN:
        return f"{name}, None for {', '.join(map(str, missing))} of 0..{number - 1}"
    shown = ", ".join(map(str, missing[:_NUMBERS_SHOWN]))
    return f"{name}, None for {len(missing)}: {shown}, … ({shape_digest(missing)})"
