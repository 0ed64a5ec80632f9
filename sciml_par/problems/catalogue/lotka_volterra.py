"""The Lotka–Volterra equations: prey and those who hunt it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.references.trajectory import trajectory
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

START = (1.0, 0.5)


def lotka_volterra(
    *,
    growth: float = 1.5,
    hunting: float = 1.0,
    death: float = 1.0,
    births: float = 1.0,
    end: float = 10.0,
    fading: float = 0.8,
) -> Problem:
    """r′ = α r − β r p, p′ = δ r p − γ p on [0, end], from r = 1, p = ½.

    The initial values are built in: w = w₀ + (1 − e^{−t}) N(t). The residual is multiplied by
    e^{−κt}, without which networks tend to leave the trajectory early for the point of rest, which
    solves the equations as well; with κ = ½ some still do. The reference is
    `references.trajectory` (Lotka 1925; Volterra 1926).

    Parameters
    ----------
    growth, hunting, death, births : float
        α, β, γ and δ, per time.
    end : float
        The last time.
    fading : float
        κ, per time.
    """

    def velocity(r: Any, p: Any) -> tuple[Any, Any]:
        return growth * r - hunting * r * p, births * r * p - death * p

    def equation(w: Any, t: Any) -> Any:
        right = tf.concat(velocity(*tf.split(w(t), 2, axis=1)), axis=1)
        return tf.exp(-fading * t) * (derivative(w, t, 0) - right)

    return Problem(
        Interval(0, end, name="t"),
        equation,
        ansatz=lambda network, t: tf.constant([START], t.dtype) - tf.math.expm1(-t) * network(t),
        outputs=("r", "p"),
        exact=trajectory(lambda w: np.array(velocity(*w)), START, end),
        name="Lotka–Volterra",
    )


ENTRY = CatalogueEntry(
    "lotka-volterra",
    "r′ = 1.5 r − r p, p′ = r p − p on [0, 10], from r = 1, p = ½: prey and hunters",
    lotka_volterra,
    Suggestion(400, width=24, depth=2, steps=200),
)
