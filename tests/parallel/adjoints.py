"""What tests of gradients share."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import sciml_par.parallel as sp


def gradients_of(collective):
    """x, ḡ ↦ Jᵀḡ."""

    def run(x, seed):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = collective(x)
        return tape.gradient(y, x, output_gradients=seed)

    return run


def product_of_others(x):
    """Π_{r≠s} x_r for every s, [P, ...]."""
    return np.stack([np.delete(x, s, axis=0).prod(axis=0) for s in range(len(x))])


def to_the_next(x):
    """All of x to the next rank, the last one's to the first."""
    next_one = (sp.rank() + 1) % sp.size()
    given = [x.shape[0] if r == next_one else 0 for r in range(sp.size())]
    return sp.alltoall(x, given)[0]
