"""Arrays of any shapes that ranks send to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.one_tensor import allreduce
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Sum

Array = npt.NDArray[np.float64]
Named = Mapping[Any, Array]


def exchanged(given: Sequence[Named], ranks: Communicator) -> list[dict[Any, Array]]:
    """Send arrays to each rank, by names; return what each rank has sent here (collective)."""
    received = ranks.exchange_objects([dict(each) or None for each in given])
    return [each or {} for each in received]


def summed(array: Array, ranks: Communicator) -> Array:
    """Return Σ over the ranks (collective)."""
    if ranks.size == 1:
        return array
    total = allreduce(tf.constant(array), Sum, communicator=ranks)
    return np.asarray(total.numpy())
