"""alltoall: send different rows to each rank."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.arguments import (
    check_rows,
    rows_for_each,
    unknown_splits,
)
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.primitives import exchanged, exchanged_later
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.unknown_shapes import may_have_unknown_shapes
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.request import exchange_of_rows
from sciml_par.parallel.tensors.shapes import shape_of


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
    splits : how many rows go to each rank, [P], in the order of the rows; they add up to n_r. Equal
        numbers by default. In compiled functions they must be known when these are traced.
    name, communicator, device : as for `allreduce`.

    Returns
    -------
    y : the rows that the ranks have sent to this one, in the order of ranks.
    received : how many came from each rank, [P]: whole numbers, or an int32 tensor in a graph that
        XLA does not compile.

    Raises
    ------
    InputError
        The splits do not fit.
    CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: the rows go back to where they came from. In functions compiled by XLA the ranks tell
    each other their splits when the function is traced, so tracing is collective as well: a rank
    must not trace alone. In other graphs they do so each time when the graph runs.
    """
    options = CallOptions.of("alltoall", name, communicator, device)
    x, group = options.tensor(tensor), options.group
    check_rows(x, "alltoall")
    unknown = options.has_unknown_shape(x)
    if unknown or (may_have_unknown_shapes() and unknown_splits(splits)):
        return exchanged_later(x, splits, options)
    shape = shape_of(x)
    sent = rows_for_each(splits, shape[0], group.size)
    if may_have_unknown_shapes():
        return exchanged_later(x, tf.constant(sent), options)
    signature = exchange_of_rows("alltoall", x.dtype.name, shape, name)
    received = tuple(group.exchange_rows(sent, signature=signature))
    return exchanged(x, sent, received, options), received
