"""allreduce: combine the ranks' tensors, for every rank."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import hidden_from_autograph, tf
from sciml_par.parallel.collectives.adasum import adasum
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.primitives import reduced
from sciml_par.parallel.collectives.sparse import reduced_slices
from sciml_par.parallel.execution.at_once import reduced_at_once
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Adasum, Average, ReduceOp, check_reducible
from sciml_par.parallel.tensors.scaling import ScalingAndCompression


@hidden_from_autograph
def allreduce(
    tensor: Tensor,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Any = None,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Combine the ranks' tensors element by element; every rank gets the result (collective).

        Sum: y = Σ_r x_r    Average: y = (1/P) Σ_r x_r    Min, Max, Product alike
        Adasum: see `sciml_par.parallel.collectives.adasum`

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank. Floating point, integer, complex (Sum,
        Average, Product), or boolean (Min, Max, Product). 16-bit floating-point types are combined
        in float32 by MPI, in their own type by NCCL.
    op : one of Sum, Average, Min, Max, Product.
    communicator : the ranks that take part; all by default.
    device : "/CPU:0" or "/GPU:0", the memory to send from; by default the tensor's own.

    Returns
    -------
    tensor of the same shape and type, the same on every rank.

    Raises
    ------
    InputError
        `tensor` is not a dense tensor of numbers; the operation or a factor is not defined for its
        type; its shape is unknown in a compiled function; an option is invalid.
    CollectiveMismatchError
        The ranks call different collectives. Compiled functions raise a
        `tf.errors.FailedPreconditionError` with the same text.

    Notes
    -----
    Gradients: Sum ↦ Σ_r ḡ_r, Average ↦ (1/P) Σ_r ḡ_r, Min and Max ↦ Σ_r ḡ_r on the ranks that
    hold the extreme value, divided by their number, Product ↦ (Σ_r ḡ_r) Π_{r≠s} x_r (conjugated if
    complex, as in TensorFlow). The gradient of Adasum is exact as well. If a graph that XLA does
    not compile leaves the shape open, the collective reads it when the graph runs.
    """
    plain = name is None and device is None and compression is None
    if plain and prescale_factor == 1.0 and postscale_factor == 1.0:
        y = reduced_at_once(tensor, op, communicator)
        if y is not None:
            return y
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, compression, "allreduce")
    return _in_any_context(tensor, op, scaling, name, communicator, device)


@not_converted
def _in_any_context(
    tensor: Tensor,
    op: ReduceOp,
    scaling: ScalingAndCompression,
    name: str | None,
    communicator: Communicator | None,
    device: str | None,
) -> Tensor:
    options = CallOptions.of("allreduce", name, communicator, device)
    if isinstance(tensor, tf.IndexedSlices):
        return reduced_slices([tensor], op, scaling, options)[0]
    x = options.tensor(tensor)
    check_reducible(op, x.dtype.name, where="allreduce")
    if op is Adasum:
        return scaling.around(lambda x: adasum([x], options)[0], x)
    return scaling.around(lambda x: reduced(x, op, options), x)
