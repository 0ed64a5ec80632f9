"""Self-scaled Broyden methods: curvature from all steps, in a dense matrix."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from sciml_par._checks import check_positive
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.quasi_newton.method import Pair, QuasiNewton, dot

Tensor = Any

_UPDATES = ("broyden", "bfgs")
# A call of a loop has its argument, its result and temporary copies: measured, five to six.
_COPIES = 6


@dataclass(frozen=True)
class SSBroyden(QuasiNewton):
    """Self-scaled Broyden method with a strong Wolfe line search (arXiv 2405.04230, 2501.16371).

        θ ← θ − α H g
        H ← (H − z zᵀ/(yᵀz) + φ (yᵀz) v vᵀ)/τ + s sᵀ/(yᵀs),    z = H y,  v = s/(yᵀs) − z/(yᵀz)

    With b = −α sᵀg/(yᵀs), h = yᵀz/(yᵀs), a = b h − 1 ≥ 0 and c = √(a/(1+a)):

        ρ = min(1, h (1−c)),    ϑ = max((ρ−1)/a, min(1/ρ, (1−b)/b)),    φ = (1−ϑ)/(1+a ϑ)
        σ = (1+a ϑ)^(1/(1−p)),    τ = min(1, 1/b) min(σ, 1/ϑ) if ϑ > 0,
                                  else min(min(1, 1/b) σ, 1+a ϑ)

    which Urbán, Stefanou and Pons take from Al-Baali and Khalfan (their eq. 13–23, as their
    program numbers them). With `update="bfgs"` it is the self-scaled BFGS method: φ = 1 and
    τ = min(1, 1/b) (their eq. 11). H begins as I, and at its first update is scaled by the
    curvature that the first step has met: τ = h/(1+a ϑ), or h for BFGS.

    H has p² numbers for each member: it is for up to some thousand parameters, for points that
    stay the same or change seldom (`Points(resample_every=…)`), and for double precision. All ranks
    have all of it. Learning rates of members have no meaning for it; it has none.

    Parameters
    ----------
    update : "broyden", or "bfgs".
    memory_limit : how many GiB the matrices may take on a rank, with the copies that a step makes.
    sufficient_decrease, curvature : c₁ < c₂ of the line search's conditions, dimensionless.
    evaluations : of loss and gradient that one line search makes at most.

    Examples
    --------
    >>> from sciml_par.training import Adam, SSBroyden
    >>> phases = [(Adam(1e-3), 1_000), (SSBroyden(), 2_000)]
    """

    _: KW_ONLY
    update: str = "broyden"
    memory_limit: float = 4.0
    sufficient_decrease: float = 1e-4
    curvature: float = 0.9
    evaluations: int = 25

    def __post_init__(self) -> None:
        if not isinstance(self.update, str) or self.update not in _UPDATES:
            raise InputError(
                f"SSBroyden: expected update to be 'broyden' or 'bfgs'; got {self.update!r}."
            )
        check_positive("SSBroyden", memory_limit=self.memory_limit)
        self._check_line_search()

    def check(self, layout: ParameterLayout, members: int, dtype: Any) -> None:
        """See `QuasiNewton`.

        Raises
        ------
        InputError
            The matrices would take more than `memory_limit`.
        """
        size = np.dtype(tf.as_dtype(dtype).name).itemsize
        needed = _COPIES * members * layout.size**2 * size
        if needed > self.memory_limit * 2**30:
            whose = "" if members == 1 else f" of each of {members} members on a rank"
            raise InputError(
                f"SSBroyden: the matrices for {layout.size} parameters{whose} would take "
                f"{needed / 2**30:.3g} GiB, and memory_limit is {self.memory_limit:g} GiB. Use "
                f"LBFGS(), which needs no matrix, or a larger memory_limit."
            )

    def start(self, parameters: Tensor) -> Tensor:
        """Return H: [M, p, p]; see `QuasiNewton`."""
        members, size = parameters.shape
        return tf.eye(size, batch_shape=[members], dtype=parameters.dtype)

    def direction(self, memory: Tensor, gradient: Tensor, number: Tensor) -> Tensor:
        return -tf.linalg.matvec(memory, gradient)

    def learn(self, memory: Tensor, pair: Pair, number: Tensor) -> Tensor:
        s, y, fresh, good = pair.step, pair.change, pair.fresh, pair.good
        before = tf.where(fresh[:, None, None], self.start(s), memory)
        z = tf.linalg.matvec(before, y)
        ys, yz = dot(y, s), dot(y, z)
        b, h = -pair.length * dot(s, pair.gradient) / ys, yz / ys
        phi, tau = self._scaling(b, h, fresh, s.shape[1])
        v = s / ys[:, None] - z / yz[:, None]
        after = before - _square(z) / yz[:, None, None]
        after += (phi * yz)[:, None, None] * _square(v)
        after = after / tau[:, None, None] + _square(s) / ys[:, None, None]
        usable = good & (b > 0) & (yz > 0) & (tau > 0) & tf.math.is_finite(phi / tau)
        return tf.where(usable[:, None, None], after, before)

    def _scaling(self, b: Tensor, h: Tensor, fresh: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Return φ and τ, [M] each."""
        one = tf.ones_like(b)
        if self.update == "bfgs":
            return one, tf.where(fresh, h, tf.minimum(one, 1 / b))
        # By rounding a might be negative, or zero where it is divided by.
        tiny = float(np.finfo(b.dtype.as_numpy_dtype).tiny)
        a = tf.nn.relu(b * h - 1)
        # h (1 − c) = 1/(b (1 + c)), since 1 − c² = 1/(1 + a) and h = (1 + a)/b: nothing cancels.
        rho = tf.minimum(one, 1 / (b * (1 + tf.sqrt(a / (1 + a)))))
        theta = tf.maximum((rho - 1) / tf.maximum(a, tiny), tf.minimum(1 / rho, (1 - b) / b))
        whole = 1 + a * theta
        sigma = tf.pow(whole, 1 / (1 - size) if size > 1 else 0.0)
        least = tf.minimum(one, 1 / b)
        positive = theta > 0
        inverse = 1 / tf.where(positive, theta, one)
        tau = tf.where(
            positive, least * tf.minimum(sigma, inverse), tf.minimum(least * sigma, whole)
        )
        return (1 - theta) / whole, tf.where(fresh, h / whole, tau)


def _square(vector: Tensor) -> Tensor:
    """Return v vᵀ of each member: [M, p] -> [M, p, p], symmetric to the bit."""
    return vector[:, :, None] * vector[:, None, :]
