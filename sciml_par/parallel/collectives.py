"""The collectives on tensors.

Each works on eager tensors, in `tf.function`, and in `tf.function(jit_compile=True)` with its
loops and branches; and each can be differentiated, any number of times. The gradient is the
adjoint: with L = Σ_r L_r, the sum over the ranks' losses, rank s receives ∂L/∂x_s.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.call import AllgatherCall, AllreduceCall, BroadcastCall
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.context import Chain, perform
from sciml_par.parallel.element_type import element_type
from sciml_par.parallel.reduction import Average, Max, Min, Product, ReduceOp, Sum, check_reducible
from sciml_par.parallel.signature import Signature
from sciml_par.parallel.world import current_world

Tensor = Any
"""A `tf.Tensor`, or what `tf.convert_to_tensor` takes."""


@as_written
def allreduce(
    tensor: Tensor, op: ReduceOp = Average, *, communicator: Communicator | None = None
) -> Tensor:
    """Combine the ranks' tensors element by element; every rank gets the result (collective).

        Sum: y = Σ_r x_r    Average: y = (1/P) Σ_r x_r    Min, Max, Product alike

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank. Floating point, integer, or (Min, Max,
        Product) boolean. Half-precision types are combined in float32.
    op : one of Sum, Average, Min, Max, Product.
    communicator : the ranks that take part; all by default.

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
    group = communicator or current_world().communicator
    x = tf.convert_to_tensor(tensor)
    element_type(x.dtype.name, where="allreduce")
    check_reducible(op, x.dtype.name)
    return _allreduce(x, op, group, Chain(group))


@as_written
def broadcast(tensor: Tensor, root: int = 0, *, communicator: Communicator | None = None) -> Tensor:
    """Give the tensor of rank `root` to every rank: y = x_root (collective).

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank; any element type. Only the values of
        rank `root` matter.
    root : the rank that gives, 0 ≤ root < P.
    communicator : the ranks that take part; all by default.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: Σ_r ḡ_r on rank `root`, zero on the others.
    """
    group = communicator or current_world().communicator
    x = tf.convert_to_tensor(tensor)
    element_type(x.dtype.name, where="broadcast")
    if not isinstance(root, Integral) or not 0 <= root < group.size:
        raise InputError(f"broadcast: expected root among ranks 0..{group.size - 1}; got {root!r}.")
    chain = Chain(group)

    @tf.custom_gradient
    def differentiable(x: Tensor) -> Any:
        def gradient(g: Tensor) -> Tensor:
            total = _allreduce(g, Sum, group, chain.resumed())
            if group.rank == root:
                return total
            with tf.control_dependencies([total]):  # or a graph would leave the collective out
                return tf.zeros(total.shape, total.dtype)

        key = ("broadcast", x.dtype.name, tuple(x.shape), root)
        shape = _static_shape(x, "broadcast")
        return perform(
            group, key, lambda: BroadcastCall(group, x.dtype.name, shape, root), x, chain
        ), gradient

    return differentiable(x)


@as_written
def allgather(tensor: Tensor, *, communicator: Communicator | None = None) -> Tensor:
    """Put the ranks' tensors one below the other: y = (x_0; x_1; …) (collective).

    Parameters
    ----------
    tensor : [n_r, ...]; the first dimension may differ from rank to rank and be 0, the others not.
    communicator : the ranks that take part; all by default.

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
    group = communicator or current_world().communicator
    x = tf.convert_to_tensor(tensor)
    element_type(x.dtype.name, where="allgather")
    if x.shape.rank == 0:
        raise InputError("allgather: expected a tensor [n, ...]; got a scalar. Reshape it to [1].")
    return _allgather(x, group, Chain(group))


def _allreduce(x: Tensor, op: ReduceOp, group: Communicator, chain: Chain) -> Tensor:
    if not x.dtype.is_floating:
        return _reduce(x, op, group, chain)

    @tf.custom_gradient
    def differentiable(x: Tensor) -> Any:
        y = _reduce(x, op, group, chain)
        return y, lambda g: _reduce_gradient(g, x, y, op, group, chain.resumed())

    return differentiable(x)


def _allgather(x: Tensor, group: Communicator, chain: Chain) -> Tensor:
    shape = _static_shape(x, "allgather")
    signature = Signature("allgather", x.dtype.name, (None, *shape[1:]))
    rows = group.gather_rows(shape[0], signature=signature)
    first = sum(rows[: group.rank])

    @tf.custom_gradient
    def differentiable(x: Tensor) -> Any:
        def gradient(g: Tensor) -> Tensor:
            return _allreduce(g, Sum, group, chain.resumed())[first : first + shape[0]]

        key = ("allgather", x.dtype.name, shape, tuple(rows))
        return perform(
            group, key, lambda: AllgatherCall(group, x.dtype.name, shape, rows), x, chain
        ), gradient

    return differentiable(x)


def _reduce(x: Tensor, op: ReduceOp, group: Communicator, chain: Chain) -> Tensor:
    """The reduction without its gradient."""
    shape = _static_shape(x, "allreduce")
    name = element_type(x.dtype.name, where="allreduce").reduced_as
    wide = tf.cast(x, name)
    key = ("allreduce", name, shape, op)
    y = perform(group, key, lambda: AllreduceCall(group, name, shape, op), wide, chain)
    if op is Average:
        y = y / group.size
    return tf.cast(y, x.dtype)


def _reduce_gradient(
    g: Tensor, x: Tensor, y: Tensor, op: ReduceOp, group: Communicator, chain: Chain
) -> Tensor:
    if op in (Sum, Average):
        return _allreduce(g, op, group, chain)
    total = _allreduce(g, Sum, group, chain)
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


def _static_shape(x: Tensor, where: str) -> tuple[int, ...]:
    if not x.shape.is_fully_defined():
        raise InputError(
            f"{where}: expected a tensor whose shape is known when the function is traced; got "
            f"{x.shape}. Call the function with tensors of fixed shape, or set the shape with "
            f"tf.ensure_shape."
        )
    return tuple(x.shape.as_list())
