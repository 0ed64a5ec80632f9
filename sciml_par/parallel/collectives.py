"""The collectives on tensors.

Each works on eager tensors, in `tf.function`, and in `tf.function(jit_compile=True)` with its
loops and branches; and each can be differentiated, any number of times. The gradient is the
adjoint: with L = Σ_r L_r, the sum over the ranks' losses, rank s receives ∂L/∂x_s.

Tensors travel from where they are: from a GPU's memory by NCCL, from the host's by MPI. All take
the two options

communicator : the ranks that take part; all by default.
device : "/CPU:0" or "/GPU:0", to have them carried from there (host memory, by MPI; the GPU's, by
    NCCL) wherever they are; the same on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.arguments import check_rows, rows_for_each, static_shape
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.context import Chain, check_device, is_recorded, perform
from sciml_par.parallel.element_type import element_type
from sciml_par.parallel.reduction import Average, Max, Min, Product, ReduceOp, Sum, check_reducible
from sciml_par.parallel.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    any_rows,
    even_rows,
)
from sciml_par.parallel.world import current_world

Tensor = Any
"""A `tf.Tensor`, or what `tf.convert_to_tensor` takes."""

Gradient = Callable[[Tensor], Tensor]
"""Takes ḡ, the gradient by a result, and gives that by what it was made of."""


@as_written
def allreduce(
    tensor: Tensor,
    op: ReduceOp = Average,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Combine the ranks' tensors element by element; every rank gets the result (collective).

        Sum: y = Σ_r x_r    Average: y = (1/P) Σ_r x_r    Min, Max, Product alike

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank. Floating point, integer, or (Min, Max,
        Product) boolean. 16-bit floating-point types are combined in float32 by MPI, in their own
        type by NCCL.
    op : one of Sum, Average, Min, Max, Product.
    communicator : the ranks that take part; all by default.
    device : where to carry it from, "/CPU:0" or "/GPU:0"; from where it is by default.

    Returns
    -------
    tensor of the same shape and type, the same on every rank.

    Raises
    ------
    InputError
        The operation has no meaning for the type, or the shape is unknown in a compiled function.
    CollectiveMismatchError
        The ranks do not ask for the same; inside compiled functions it comes as a
        `tf.errors.FailedPreconditionError` with the same text.

    Notes
    -----
    Gradients: Sum ↦ Σ_r ḡ_r, Average ↦ (1/P) Σ_r ḡ_r, Min and Max ↦ Σ_r ḡ_r to the ranks that
    hold the extreme value, divided by their number, Product ↦ (Σ_r ḡ_r) Π_{r≠s} x_r.
    """
    x, group, chain = _begin("allreduce", tensor, communicator, device)
    check_reducible(op, x.dtype.name, where="allreduce")
    return _allreduce(x, op, group, chain)


@as_written
def broadcast(
    tensor: Tensor,
    root: int = 0,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Give the tensor of rank `root` to every rank: y = x_root (collective).

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank; any element type. Only the values of
        rank `root` matter.
    root : the rank that gives, 0 ≤ root < P.
    communicator, device : as for `allreduce`.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: Σ_r ḡ_r on rank `root`, zero on the others.
    """
    x, group, chain = _begin("broadcast", tensor, communicator, device)
    if not isinstance(root, Integral) or not 0 <= root < group.size:
        raise InputError(f"broadcast: expected root among ranks 0..{group.size - 1}; got {root!r}.")
    request = Broadcast(x.dtype.name, static_shape(x, "broadcast"), int(root))

    def gradient(g: Tensor) -> Tensor:
        total = _allreduce(g, Sum, group, chain.resumed())
        if group.rank == root:
            return total
        with tf.control_dependencies([total]):  # or a graph would leave the collective out
            return tf.zeros(total.shape, total.dtype)

    return _differentiable(lambda x: (perform(group, request, x, chain), gradient), x)


@as_written
def allgather(
    tensor: Tensor, *, communicator: Communicator | None = None, device: str | None = None
) -> Tensor:
    """Put the ranks' tensors one below the other: y = (x_0; x_1; …) (collective).

    Parameters
    ----------
    tensor : [n_r, ...]; the first dimension may differ from rank to rank and be 0, the others not.
    communicator, device : as for `allreduce`.

    Returns
    -------
    [Σ_r n_r, ...], the same on every rank, in the order of ranks.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`; also for a scalar.

    Notes
    -----
    Gradient: rank s receives its rows of Σ_r ḡ_r. In graphs the ranks tell each other their n_r
    when the function is traced, so tracing is collective as well.
    """
    x, group, chain = _begin("allgather", tensor, communicator, device)
    check_rows(x, "allgather")
    return _allgather(x, group, chain)


@as_written
def reducescatter(
    tensor: Tensor,
    op: ReduceOp = Average,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Combine the ranks' tensors; each rank gets its part of the rows of the result (collective).

    Parameters
    ----------
    tensor : [n, ...], the same shape and type on every rank.
    op : as for `allreduce`.
    communicator, device : as for `allreduce`.

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
    x, group, chain = _begin("reducescatter", tensor, communicator, device)
    check_rows(x, "reducescatter")
    check_reducible(op, x.dtype.name, where="reducescatter")
    shape = static_shape(x, "reducescatter")
    rows = even_rows(shape[0], group.size)
    request = Reducescatter(x.dtype.name, shape, op, rows, group.rank)

    if not x.dtype.is_floating:
        return perform(group, request, x, chain)

    def with_gradient(x: Tensor) -> tuple[Tensor, Gradient]:
        y = perform(group, request, x, chain)

        def gradient(g: Tensor) -> Tensor:
            on = chain.resumed()
            total = _gather(g, rows, group, on)
            whole = _gather(y, rows, group, on) if op in (Min, Max) else y
            return _reduction_gradient(total, x, whole, op, group, on)

        return y, gradient

    return _differentiable(with_gradient, x)


@as_written
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> tuple[Tensor, tuple[int, ...]]:
    """Send other rows to each rank (collective).

    Parameters
    ----------
    tensor : [n_r, ...]; the first dimension may differ from rank to rank, the others not.
    splits : how many rows go to each rank, [P], in the order of the rows; they add up to n_r. Equal
        numbers by default. In graphs they must be known when the function is traced.
    communicator, device : as for `allreduce`.

    Returns
    -------
    y : the rows that the ranks have sent to this one, in the order of ranks.
    received : how many came from each rank, [P].

    Raises
    ------
    InputError
        The splits do not fit.
    CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: the rows go back to where they came from. In graphs the ranks tell each other their
    splits when the function is traced, so tracing is collective as well.
    """
    x, group, chain = _begin("alltoall", tensor, communicator, device)
    check_rows(x, "alltoall")
    shape = static_shape(x, "alltoall")
    sent = rows_for_each(splits, shape[0], group.size)
    wish = any_rows("alltoall", x.dtype.name, shape)
    received = tuple(group.exchange_rows(sent, signature=wish))
    return _alltoall(x, sent, received, group, chain), received


def _begin(
    where: str, tensor: Tensor, communicator: Communicator | None, device: str | None
) -> tuple[Tensor, Communicator, Chain]:
    group = communicator or current_world().communicator
    x = tf.convert_to_tensor(tensor)
    element_type(x.dtype.name, where=where)
    check_device(device, where)
    return x, group, Chain(group, device)


def _differentiable(collective: Callable[[Tensor], tuple[Tensor, Gradient]], x: Tensor) -> Tensor:
    """y of `collective(x)`, which returns y and the function ḡ ↦ the gradient by x."""
    # Making y differentiable takes several times as long as a short transfer.
    if tf.executing_eagerly() and not is_recorded():
        return collective(x)[0]
    return tf.custom_gradient(collective)(x)


def _allreduce(x: Tensor, op: ReduceOp, group: Communicator, chain: Chain) -> Tensor:
    request = Allreduce(x.dtype.name, static_shape(x, "allreduce"), op)
    if not x.dtype.is_floating:
        return perform(group, request, x, chain)

    def with_gradient(x: Tensor) -> tuple[Tensor, Gradient]:
        y = perform(group, request, x, chain)

        def gradient(g: Tensor) -> Tensor:
            on = chain.resumed()
            if op is Average:
                return _allreduce(g, Average, group, on)
            return _reduction_gradient(_allreduce(g, Sum, group, on), x, y, op, group, on)

        return y, gradient

    return _differentiable(with_gradient, x)


def _reduction_gradient(
    total: Tensor, x: Tensor, y: Tensor, op: ReduceOp, group: Communicator, chain: Chain
) -> Tensor:
    """∂L/∂x_s where ∂L/∂y is `total`, for y = x_0 ∘ x_1 ∘ … (y is looked at for Min and Max)."""
    if op is Sum:
        return total
    if op is Average:
        return total / group.size
    if op is Product:
        return total * _product_of_the_others(x, group, chain)
    assert op in (Min, Max)
    holds = tf.cast(tf.equal(x, y), x.dtype)
    return total * holds / _allreduce(holds, Sum, group, chain)


def _product_of_the_others(x: Tensor, group: Communicator, chain: Chain) -> Tensor:
    """Π_{r≠s} x_r on rank s, exact where some x_r are zero."""
    everyone = _allgather(x[tf.newaxis], group, chain)
    return tf.reduce_prod(
        tf.concat([everyone[: group.rank], everyone[group.rank + 1 :]], axis=0), axis=0
    )


def _allgather(x: Tensor, group: Communicator, chain: Chain) -> Tensor:
    shape = static_shape(x, "allgather")
    wish = any_rows("allgather", x.dtype.name, shape)
    return _gather(x, tuple(group.gather_rows(shape[0], signature=wish)), group, chain)


def _gather(x: Tensor, rows: tuple[int, ...], group: Communicator, chain: Chain) -> Tensor:
    """`allgather` where all ranks know how many rows each has."""
    shape = static_shape(x, "allgather")
    request = Allgather(x.dtype.name, shape, rows)
    first = sum(rows[: group.rank])

    def gradient(g: Tensor) -> Tensor:
        return _allreduce(g, Sum, group, chain.resumed())[first : first + shape[0]]

    return _differentiable(lambda x: (perform(group, request, x, chain), gradient), x)


def _alltoall(
    x: Tensor,
    sent: tuple[int, ...],
    received: tuple[int, ...],
    group: Communicator,
    chain: Chain,
) -> Tensor:
    request = Alltoall(x.dtype.name, static_shape(x, "alltoall"), sent, received)

    def gradient(g: Tensor) -> Tensor:
        return _alltoall(g, received, sent, group, chain.resumed())

    return _differentiable(lambda x: (perform(group, request, x, chain), gradient), x)
