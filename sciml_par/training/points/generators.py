"""Random numbers that depend on the run's seed and on what they are for, and on nothing else."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What random numbers are for; each purpose has numbers of its own."""

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
