"""Arrays of any shapes that ranks send to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.one_tensor import allreduce, alltoall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Sum

Array = npt.NDArray[np.float64]
Named = Mapping[Any, Array]


def exchanged(given: Sequence[Named], ranks: Communicator) -> list[dict[Any, Array]]:
    """Send arrays to each rank, by names; return what each rank has sent here (collective)."""
    if ranks.size == 1:
        return [dict(given[0])]
    shapes = [{name: array.shape for name, array in each.items()} for each in given]
    everyone: list[list[dict[Any, tuple[int, ...]]]] = ranks.allgather_object(shapes)
    flat = [np.ravel(array) for each in given for array in each.values()]
    counts = [sum(array.size for array in each.values()) for each in given]
    sent = tf.constant(np.concatenate([np.empty(0), *flat]))
    received, _ = alltoall(sent, counts, communicator=ranks)
    values, at, found = received.numpy(), 0, []
    for theirs in everyone:
        named = {}
        for name, shape in theirs[ranks.rank].items():
            size = int(np.prod(shape))
            named[name] = values[at : at + size].reshape(shape)
            at += size
        found.append(named)
    return found


def summed(array: Array, ranks: Communicator) -> Array:
    """Return Σ over the ranks (collective)."""
    if ranks.size == 1:
        return array
    total = allreduce(tf.constant(array), Sum, communicator=ranks)
    return np.asarray(total.numpy())
