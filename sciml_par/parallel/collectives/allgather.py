"""allgather: concatenate the ranks' tensors, for every rank."""

from __future__ import annotations

from sciml_par.parallel.collectives.arguments import check_rows
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.primitives import gathered
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.groups.communicator import Communicator


@not_converted
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
    Gradient: rank s receives its rows of Σ_r ḡ_r. In functions compiled by XLA the ranks tell each
    other their n_r when the function is traced, so tracing is collective as well: a rank must not
    trace alone. In other graphs they do so each time when the graph runs.
    """
    options = CallOptions.of("allgather", name, communicator, device)
    x = options.tensor(tensor)
    check_rows(x, "allgather")
    return gathered(x, options)
