"""The collectives on one tensor."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import hidden_from_autograph, tf
from sciml_par.parallel.collectives.arguments import check_rows
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.fused import (
    fused_allgather,
    fused_allreduce,
    fused_broadcast,
    fused_reducescatter,
)
from sciml_par.parallel.collectives.primitives import exchanged_by
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.eager import reduced_at_once
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp


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
        Adasum: see Maleki et al. 2020, arXiv 2006.02924

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank. Floating point, integer, complex (Sum,
        Average, Product), or boolean (Min, Max, Product). 16-bit floating-point types are combined
        in float32 by MPI, in their own type by NCCL.
    op : one of Sum, Average, Min, Max, Product, Adasum.
    prescale_factor, postscale_factor : multiply the input and the result.
    compression : the conversion for the transfer, such as Compression.fp16.
    name : the collective's name in messages and the timeline; the same on every rank.
    communicator : the ranks that take part; all by default.
    device : "/CPU:0" or "/GPU:0", the memory to send from; the tensor's own by default.

    Returns
    -------
    A tensor of the same shape and type, equal on all ranks.

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
    return fused_allreduce(
        [tensor],
        op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
        name=name,
        communicator=communicator,
        device=device,
    )[0]


@hidden_from_autograph
def broadcast(
    tensor: Tensor,
    root: int = 0,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Send the tensor of rank `root` to every rank: y = x_root (collective).

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank; any element type. Only the values of
        rank `root` matter.
    root : the rank that sends, 0 ≤ root < P.
    name, communicator, device : as for `allreduce`.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: Σ_r ḡ_r on rank `root`, zero on the others.
    """
    options: dict[str, Any] = {"name": name, "communicator": communicator, "device": device}
    return fused_broadcast([tensor], root, **options)[0]


@hidden_from_autograph
def allgather(
    tensor: Tensor,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Concatenate the ranks' tensors along the first dimension: y = (x_0; x_1; …) (collective).

    Parameters
    ----------
    tensor : [n_r, ...]; the first dimension may differ from rank to rank and be 0, the others not.
    name, communicator, device : as for `allreduce`.

    Returns
    -------
    [Σ_r n_r, ...], the same on every rank, in the order of ranks.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`; also for a scalar.

    Notes
    -----
    Gradient: rank s receives its rows of Σ_r ḡ_r. In functions compiled by XLA the ranks exchange
    their n_r when the function is traced. So tracing is collective as well: a rank must not trace
    alone. In other graphs they exchange them whenever the graph runs.
    """
    options: dict[str, Any] = {"name": name, "communicator": communicator, "device": device}
    return fused_allgather([tensor], **options)[0]


@hidden_from_autograph
def reducescatter(
    tensor: Tensor,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Combine the ranks' tensors; each rank gets its part of the rows of the result (collective).

    Parameters
    ----------
    tensor : [n, ...], the same shape and type on every rank.
    op : one of Sum, Average, Min, Max, Product.
    prescale_factor, postscale_factor, name, communicator, device : as for `allreduce`.

    Returns
    -------
    [n_r, ...]: n_r = ⌊n/P⌋ rows, one more on the first n mod P ranks; rank 0 has the first ones.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`; also for a scalar.

    Notes
    -----
    Gradients: those of `allreduce`, with (ḡ_0; ḡ_1; …) in place of Σ_r ḡ_r.
    """
    return fused_reducescatter(
        [tensor],
        op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
        communicator=communicator,
        device=device,
    )[0]


@not_converted
def alltoall(
    tensor: Tensor,
    splits: Any = None,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> tuple[Tensor, Any]:
    """Send different rows to each rank (collective).

    Parameters
    ----------
    tensor : [n_r, ...]; the first dimension may differ from rank to rank, the others not.
    splits : the number of rows for each rank, [P], in the order of the rows, with sum n_r; equal by
        default. In compiled functions they must be known when the function is traced.
    name, communicator, device : as for `allreduce`.

    Returns
    -------
    y : the rows that the ranks sent to this one, in the order of ranks.
    received : the number of rows from each rank, [P]: integers, or an int32 tensor in a graph that
        XLA does not compile.

    Raises
    ------
    InputError
        The splits do not fit.
    CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: the rows return to their origin. In functions compiled by XLA the ranks exchange their
    splits when the function is traced. So tracing is collective as well: a rank must not trace
    alone. In other graphs they exchange them whenever the graph runs.
    """
    options = CallOptions.of("alltoall", name, communicator, device)
    x = options.tensor(tensor)
    check_rows(x, "alltoall")
    y, received = exchanged_by(x, splits, options)
    return y, received if isinstance(received, tuple) else tf.cast(received, tf.int32)
