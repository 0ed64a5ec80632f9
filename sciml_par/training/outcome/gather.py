"""Arrays of all ranks on rank 0, sent as buffers and in parts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.allgather import allgather
from sciml_par.parallel.collectives.alltoall import alltoall
from sciml_par.parallel.groups.communicator import Communicator

FloatArray = npt.NDArray[np.float64]

_BYTES_PER_PART = 1 << 24
"""What rank 0 receives at a time."""
_ON_THE_HOST = "/CPU:0"


def objects_to_root(own: Any, communicator: Communicator) -> list[Any]:
    """Send every rank's object to rank 0, pickled (collective)."""
    on_root = communicator.rank == 0
    raw = np.frombuffer(b"" if on_root else pickle.dumps(own), np.uint8)
    counts = communicator.allgather_object(len(raw))
    length = max(1, _BYTES_PER_PART // communicator.size)
    whole = [np.empty(n, np.uint8) for n in counts] if on_root else []
    for first in range(0, max(counts), length):
        part = raw[first : first + length]
        splits = [len(part)] + [0] * (communicator.size - 1)
        with tf.device(_ON_THE_HOST):
            tensor = tf.constant(part, tf.uint8)
        received, lengths = alltoall(
            tensor, splits, communicator=communicator, device=_ON_THE_HOST, name="train.gather"
        )
        if on_root:
            pieces = np.split(received.numpy(), np.cumsum(lengths)[:-1])
            for array, piece in zip(whole, pieces, strict=True):
                array[first : first + len(piece)] = piece
    return [pickle.loads(each.tobytes()) if len(each) else own for each in whole]


def rows_to_all(rows: FloatArray, communicator: Communicator) -> FloatArray:
    """Every rank's rows, one below the other, on every rank (collective)."""
    with tf.device(_ON_THE_HOST):
        tensor = tf.constant(rows, tf.float64)
    gathered = allgather(
        tensor, communicator=communicator, device=_ON_THE_HOST, name="train.histories"
    )
    return np.asarray(gathered.numpy(), np.float64)
