"""Linear equations of a family as sums of few fixed ones, where inputs multiply their terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf

Array = npt.NDArray[np.float64]

_PART, _MOST, _APART = 1e-12, 8, 1e-10
"""Of slopes, the size of a part that is left out, how many parts are few, and how far, relative to
their size, slopes may be from these."""
_NUMBERS, _KEPT = 150_000_000, 30_000_000
"""In all matrices, for a while, and in the J_k that are kept."""


@dataclass(frozen=True)
class Shares:
    """J = Σ_k θ_k J_k and JᵀJ = Σ_{k ≤ l} θ_k θ_l G_kl for slopes ∂r/∂z = Σ_k θ_k(μ) s_k.

    All but the θ_k is computed once (Quarteroni, Manzoni, Negri 2016, Reduced Basis Methods for
    Partial Differential Equations, §3.4).

    Attributes
    ----------
    parts : the s_k, orthonormal, [W, K].
    matrices : the J_kᵀ, [K, p, N]; None if they are large.
    grams : J_kᵀJ_l of each pair and, if k and l differ, its transpose added, [P, p, p].
    pairs : the k and l.
    """

    parts: Array
    matrices: Array | None
    grams: Array
    pairs: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

    @classmethod
    def of(cls, slopes: Array, columns: Callable[[Array], Array]) -> Shares | None:
        """Return them, if the slopes of these queries, [L, W], need few parts.

        columns : gives Jᵀ: [p, N] of a part, [W].
        """
        if not np.isfinite(slopes).all():  # as of a root of what is negative
            return None
        _, sizes, rows = np.linalg.svd(slopes, full_matrices=False)
        count = int(np.count_nonzero(sizes > _PART * sizes[0]))
        if not 0 < count <= _MOST:
            return None
        first, pairs = columns(rows[0]), np.triu_indices(count)
        if len(pairs[0]) * len(first) ** 2 + count * first.size > _NUMBERS:
            return None
        matrices = [first, *map(columns, rows[1:count])]
        both = (matrices[k] @ matrices[m].T for k, m in zip(*pairs, strict=True))
        grams = [g if k == m else g + g.T for k, m, g in zip(*pairs, both, strict=True)]
        kept = np.stack(matrices) if count * first.size <= _KEPT else None
        return cls(np.ascontiguousarray(rows[:count].T), kept, np.stack(grams), pairs)

    def theta(self, slopes: Any) -> tuple[Any, Any]:
        """Return θ: [B, K] of slopes, [B, W], and whether all of these are sums of the parts."""
        theta = slopes @ self.parts
        apart = tf.norm(slopes - tf.matmul(theta, self.parts, transpose_b=True), axis=1)
        return theta, tf.reduce_all(apart <= _APART * tf.norm(slopes, axis=1))

    def columns(self, theta: Array) -> Array | None:
        """Return Jᵀ: [p, N] for θ: [K], if the J_k are kept."""
        return None if self.matrices is None else np.tensordot(theta, self.matrices, axes=1)

    def gram(self, theta: Any) -> Any:
        """Return JᵀJ: [B, p, p]."""
        first, second = (tf.gather(theta, of, axis=1) for of in self.pairs)
        p = self.grams.shape[1]
        return tf.reshape((first * second) @ self.grams.reshape(-1, p * p), [-1, p, p])

    def times(self, theta: Any, d: Any) -> Any:
        """Return J d: [B, N] for d: [B, p]."""
        return self._sum(theta, tf.matmul(d[None], self.matrices))

    def transposed(self, theta: Any, v: Any) -> Any:
        """Return Jᵀ v: [B, p] for v: [B, N]."""
        return self._sum(theta, tf.matmul(v[None], self.matrices, transpose_b=True))

    def _sum(self, theta: Any, parts: Any) -> Any:
        """Return Σ_k θ_k p_k: [B, N] of parts, [K, B, N]."""
        return tf.reduce_sum(tf.transpose(theta)[..., None] * parts, axis=0)
