"""One seed for a run, and from it one for each member of an ensemble."""

from __future__ import annotations

import numpy as np


def member_seed(seed: int, member: int) -> int:
    """The seed of ensemble member number `member`: different for each, the same in every run.

    Derived by NumPy's SeedSequence, so that members of neighbouring seeds do not coincide.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(member,))
    return int(sequence.generate_state(1, np.uint32)[0])
