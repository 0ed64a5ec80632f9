"""How often each point is in a sample of all points, drawn with replacement."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sciml_par.training.points.generators import Purpose, generator


def bootstrap_counts(total: int, seed: int, number: int = 0) -> npt.NDArray[np.float64]:
    """Return multinomial counts of mean 1 and sum N, one for each of N points: [N].

    Efron, "Bootstrap methods: another look at the jackknife", Ann. Statist. 7, 1979. The same on
    all ranks, and another sample for each number of a set of points.
    """
    drawn = generator(seed, Purpose.BOOTSTRAP, number).integers(0, total, total)
    return np.bincount(drawn, minlength=total).astype(np.float64)
