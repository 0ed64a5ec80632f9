"""The parameters' covariance given data whose errors are known, with the equation as a constraint.

Nothing here is collective, and nothing needs TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_CUTOFF = 1e-9
"""Of the columns of the network, relative to the first, below which they are redundant."""
_LEAST_SHARE = 1e-4
"""Of a direction's variance that comes from the data, below which the equation holds it."""
_BELOW, _PART = 30.0, 30.0
_TIGHTER = 10.0
"""By which the tolerance is changed to see whether deviations depend on it."""


@dataclass(frozen=True)
class Directions:
    """Directions in which the data, and not the equation, determine the parameters.

    Attributes
    ----------
    steps : one deviation each, [f, p]: the parameters' covariance is Σ_i steps_i steps_iᵀ.
    shift : what a Gauss–Newton step of the same loss would add to the parameters, along these, [p].
    freedom : how many degrees of freedom they take from the data: Σ_i of the share of the data.
    dependence : the largest relative change of the deviation of an unknown where the equation may
        be violated ten times less; 0 without unknowns.
    """

    steps: Array
    shift: Array
    freedom: float
    dependence: float


def free_directions(physics: Array, data: Array, *, unknowns: int, tolerance: float) -> Directions:
    """Return the directions for [J r] of physics: [N, p + 1] and of whitened data: [n, p + 1].

    With J_f those of the residuals of equations and conditions and J_d those of the data, divided
    by their deviations, the covariance of θ is that of the loss |r_f|²/τ² + |r_d|² (Laplace),

        C = (J_fᵀ J_f/τ² + J_dᵀ J_d)⁺        τ small, at most `tolerance`

    by the generalized singular value decomposition of the pair, in whose directions x_i both are
    diagonal (Golub and Van Loan 2013, Matrix Computations, section 6.1.6):
    C = Σ_i x_i x_iᵀ/(g_i² + s_i²/τ²), with g_i = |J_d x_i| and s_i = |J_f x_i|. It is never formed,
    and no matrix is squared. The last `unknowns` columns are those of unknown coefficients, of
    which none is left out, so that one that nothing determines has a huge deviation.
    """
    from scipy.linalg import qr, solve_triangular, svd

    gradient = data[:, :-1].T @ data[:, -1] + physics[:, :-1].T @ physics[:, -1] / tolerance**2
    physics, data = physics[:, :-1], data[:, :-1]
    own = physics.shape[1] - unknowns
    sizes = [float(np.linalg.norm(each)) for each in (physics, data)]
    balance = sizes[0] / sizes[1] if all(sizes) else 1.0
    both = np.vstack([physics, balance * data])
    lengths = np.linalg.norm(both, axis=0)
    lengths[lengths == 0.0] = 1.0
    both /= lengths
    first, r, order = qr(both[:, :own], mode="economic", pivoting=True)
    pivots = np.abs(np.diag(r))
    rank = int(np.sum(pivots > _CUTOFF * pivots[0])) if pivots.size else 0
    first, rest = first[:, :rank], both[:, own:]
    shared = first.T @ rest
    rest = rest - first @ shared
    again = first.T @ rest  # orthogonal to rounding
    rest, shared = rest - first @ again, shared + again
    last, corner = qr(rest, mode="economic") if unknowns else (rest, np.empty((0, 0)))
    diagonal, least = np.diag(corner), np.finfo(float).eps  # of which none shall be zero
    corner = corner + np.diag(np.where(np.abs(diagonal) < least, least - diagonal, 0.0))
    triangle = np.block([[r[:rank, :rank], shared], [np.zeros((unknowns, rank)), corner]])
    q = np.hstack([first, last])
    _, cosines, rotation = svd(q[len(physics) :], full_matrices=True)
    g = np.zeros(len(rotation))
    g[: len(cosines)] = cosines / balance
    s = np.linalg.norm(q[: len(physics)] @ rotation.T, axis=0)
    tolerance = _tolerance(g, s, tolerance)
    precision = np.maximum(g**2 + (s / tolerance) ** 2, np.finfo(float).tiny)
    share = g**2 / precision
    # What nothing determines moves unknowns by huge steps, whatever holds it.
    moved = solve_triangular(corner, rotation.T[rank:]) ** 2 / precision
    chosen = (share > _LEAST_SHARE) | (moved > _LEAST_SHARE * moved.sum(axis=1)[:, None]).any(0)
    x = solve_triangular(triangle, rotation[chosen].T) if chosen.any() else np.empty((len(g), 0))
    x /= np.concatenate([lengths[:own][order[:rank]], lengths[own:]])[:, None]
    columns = np.concatenate([order[:rank], np.arange(own, own + unknowns)])

    def steps_at(tau: float) -> Array:
        lengths = np.sqrt(np.maximum(g**2 + (s / tau) ** 2, np.finfo(float).tiny))[chosen]
        steps = np.zeros((int(chosen.sum()), own + unknowns))
        steps[:, columns] = (x / lengths).T
        return steps

    steps = steps_at(tolerance)
    dependence = _change(steps[:, own:], steps_at(tolerance / _TIGHTER)[:, own:])
    shift = -(steps @ gradient) @ steps
    return Directions(steps, shift, float(share.sum()), dependence)


def _tolerance(g: Array, s: Array, most: float) -> float:
    """Return the smallest τ, down to a part of `most`, that the free directions are well below."""
    seen = g > 0.0
    ratios = s[seen] / g[seen]
    free = ratios[ratios < most]
    # Without any, unknowns are held by more than the equation: a smaller τ would hold them more.
    return float(np.clip(_BELOW * free.max(initial=0.0), most / _PART, most)) if len(free) else most


def _change(steps: Array, others: Array) -> float:
    """Return the largest relative change of a deviation between directions: [f, q]."""
    if not steps.size:
        return 0.0
    now, then = (np.sqrt(np.sum(each**2, axis=0)) for each in (steps, others))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax(np.abs(now - then) / now))
