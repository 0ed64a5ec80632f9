"""broadcast: give one rank's tensor to every rank."""

from __future__ import annotations

from numbers import Integral

from sciml_par.errors import InputError
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.primitives import broadcasted
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.groups.communicator import Communicator


@not_converted
def broadcast(
    tensor: Tensor,
    root: int = 0,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Tensor:
    """Give the tensor of rank `root` to every rank: y = x_root (collective).

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank; any element type. Only the values of
        rank `root` matter.
    root : the rank that gives, 0 ≤ root < P.
    name, communicator, device : as for `allreduce`.

    Raises
    ------
    InputError, CollectiveMismatchError
        As for `allreduce`.

    Notes
    -----
    Gradient: Σ_r ḡ_r on rank `root`, zero on the others.
    """
    options = CallOptions.of("broadcast", name, communicator, device)
    x, size = options.tensor(tensor), options.group.size
    if not isinstance(root, Integral) or not 0 <= root < size:
        raise InputError(f"broadcast: expected root among ranks 0..{size - 1}; got {root!r}.")
    return broadcasted(x, int(root), options)
