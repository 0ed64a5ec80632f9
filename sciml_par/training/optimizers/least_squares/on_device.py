"""The normal equations by TensorFlow's own operations: where programs run on a GPU.

There XLA hands factorizations to the GPU's solver library. On the host it has its own, a slow one.
"""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import squared
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, transposed

Tensor = Any


def linearize(ranks: Ranks, residuals: list[Tensor], jacobian: list[Tensor]) -> Linearization:
    """Linearize as `NormalEquations`, with the whole of JᵀJ as `matrix`, [M, p, p] (collective)."""
    wide = [tf.cast(j, tf.float64) for j in jacobian]
    products = tf.add_n([tf.matmul(j, j, transpose_b=True) for j in wide])
    members, p = products.shape[0], products.shape[1]
    before = Linearization(ranks, residuals, jacobian, products, products[:, 0], products[:, 0])
    gradient, terms = transposed(before, residuals), squared(residuals)
    here = tf.concat([tf.reshape(products, [members, -1]), gradient, terms], axis=1)
    parts = tf.split(ranks.sum(here), [p * p, p, terms.shape[1]], axis=1)
    matrix = tf.reshape(parts[0], products.shape)
    return Linearization(ranks, residuals, jacobian, matrix, parts[1], parts[2])


def factorize(at: Linearization, damping: Tensor, scale: Tensor) -> Tensor:
    """Return L of JᵀJ + λ D² = L Lᵀ, [M, p, p]; not finite where there is none."""
    return tf.linalg.cholesky(at.matrix + tf.linalg.diag(damping[:, None] * scale * scale))


def solve(factor: Tensor, right: Tensor) -> Tensor:
    """Return (L Lᵀ)⁻¹ v: [M, p]."""
    return tf.linalg.cholesky_solve(factor, right[:, :, None])[:, :, 0]
