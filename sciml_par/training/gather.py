"""Arrays of all ranks on rank 0, sent as buffers and in parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.allgather import allgather
from sciml_par.parallel.collectives.alltoall import alltoall
from sciml_par.parallel.groups.communicator import Communicator

FloatArray = npt.NDArray[np.float64]

# 16 MiB of doubles: what rank 0 receives at a time, beside what it keeps.
_NUMBERS_PER_PART = 1 << 21
_ON_THE_HOST = "/CPU:0"


def rows_to_root(rows: FloatArray, communicator: Communicator) -> list[FloatArray]:
    """Send every rank's rows to rank 0 (collective).

    Parameters
    ----------
    rows : [n_r, c]; n_r may differ from rank to rank and be 0, c not.

    Returns
    -------
    On rank 0 the rows of each rank, in the order of ranks; elsewhere nothing.
    """
    counts = communicator.allgather_object(len(rows))
    length = max(1, _NUMBERS_PER_PART // max(1, communicator.size * rows.shape[1]))
    on_root = communicator.rank == 0
    whole = [np.empty((n, rows.shape[1])) for n in counts] if on_root else []
    for first in range(0, max(counts), length):
        part = rows[first : first + length]
        splits = [len(part)] + [0] * (communicator.size - 1)
        with tf.device(_ON_THE_HOST):
            tensor = tf.constant(part, tf.float64)
        received, lengths = alltoall(
            tensor, splits, communicator=communicator, device=_ON_THE_HOST, name="train.gather"
        )
        if on_root:
            pieces = np.split(received.numpy(), np.cumsum(lengths)[:-1])
            for array, piece in zip(whole, pieces, strict=True):
                array[first : first + len(piece)] = piece
    return whole


def rows_to_all(rows: FloatArray, communicator: Communicator) -> FloatArray:
    """Every rank's rows, one below the other, on every rank (collective)."""
    with tf.device(_ON_THE_HOST):
        tensor = tf.constant(rows, tf.float64)
    gathered = allgather(
        tensor, communicator=communicator, device=_ON_THE_HOST, name="train.histories"
    )
    return np.asarray(gathered.numpy(), np.float64)


def pieces_to_root(
    pieces: Sequence[FloatArray], communicator: Communicator
) -> list[list[FloatArray]]:
    """Send every rank's arrays to rank 0 (collective).

    Parameters
    ----------
    pieces : [n, c] each, where c is the same on all ranks that have any.

    Returns
    -------
    On rank 0 the arrays of each rank, in the order of ranks; elsewhere nothing.
    """
    columns = max(communicator.allgather_object(pieces[0].shape[1] if pieces else 0))
    lengths = communicator.allgather_object([len(piece) for piece in pieces])
    rows = np.concatenate([np.empty((0, columns)), *pieces])
    gathered = rows_to_root(rows, communicator)
    return [
        np.split(theirs, np.cumsum(counts)[:-1]) if counts else []
        for theirs, counts in zip(gathered, lengths, strict=bool(gathered))
    ]
