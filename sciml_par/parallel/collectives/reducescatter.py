"""reducescatter: combine the ranks' tensors, and give each rank a part of the rows."""

from __future__ import annotations

from sciml_par.parallel.collectives.arguments import check_rows
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.primitives import scattered
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp, check_scatterable
from sciml_par.parallel.tensors.scaling import ScalingAndCompression


@not_converted
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
    options = CallOptions.of("reducescatter", name, communicator, device)
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, None, "reducescatter")
    x = options.tensor(tensor)
    check_rows(x, "reducescatter")
    check_scatterable(op, x.dtype.name, where="reducescatter")
    return scaling.around(lambda x: scattered(x, op, options), x)
