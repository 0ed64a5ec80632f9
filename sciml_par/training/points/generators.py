"""Random numbers that depend on the run's seed and their purpose alone."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Purpose(IntEnum):
    """The purpose of random numbers; each purpose has a separate stream."""

    INTERIOR = 1
    CONDITION = 2
    ORDER = 3
    BOOTSTRAP = 4
    ADAPTING = 5


def generator(seed: int, purpose: Purpose, *numbers: int) -> np.random.Generator:
    """Return the generator for a purpose and some counting numbers, such as that of an epoch.

    NumPy's SeedSequence keeps the streams of different keys apart. The same on all ranks.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *numbers))
    return np.random.default_rng(sequence)


def bootstrap_counts(
    total: int, seed: int, number: int = 0, block: int = 1
) -> npt.NDArray[np.float64]:
    """Return how often each of N points is in a sample of N, drawn with replacement: [N].

    Efron, "Bootstrap methods: another look at the jackknife", Ann. Statist. 7, 1979; in blocks of
    successive points, of which the last is cut, Künsch, Ann. Statist. 17, 1989. The same on all
    ranks, and another sample for each number of a set of points.
    """
    starts = generator(seed, Purpose.BOOTSTRAP, number).integers(
        0, total - block + 1, -(-total // block)
    )
    drawn = (starts[:, None] + np.arange(block)).ravel()[:total]
    return np.bincount(drawn, minlength=total).astype(np.float64)
