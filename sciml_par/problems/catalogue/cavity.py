"""The flow in a cavity under a moving lid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.kovasznay import navier_stokes
from sciml_par.problems.catalogue.references.cavity import solution
from sciml_par.problems.domains.box import Box
from sciml_par.problems.problem import Problem

DEFAULT_REYNOLDS = 100.0


def cavity(*, reynolds: float = DEFAULT_REYNOLDS) -> Problem:
    """u·∇u + ∇p = Δu/Re, ∇·u = 0 in the unit square, the lid y = 1 moving; outputs u, v and p.

    The lid moves with u = 16 x² (1 − x)², "regularized", since with u = 1 all over velocity and
    pressure would have no limits in its corners (Shen 1991, J. Comput. Phys. 95, 228–245). All
    conditions are built in, as is p = 0 at (½, 0):

        u = 16 x² (1 − x)² y² + b N₁,  v = b N₂,  p = (x − ½) N₃ + y N₄,  b = 16 x (1 − x) y (1 − y)

    The reference is `references.cavity`.

    Parameters
    ----------
    reynolds : float
        Re, dimensionless; up to some hundreds.
    """

    def equation(w: Any, x: Any) -> Any:
        return navier_stokes(w, x, reynolds)

    def reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return solution(reynolds)(x)

    return Problem(
        Box([0, 0], [1, 1]),
        equation,
        ansatz=_between_the_walls,
        network_outputs=4,
        outputs=("u", "v", "p"),
        exact=reference,
        name=f"cavity, Re = {reynolds:g}",
    )


def _between_the_walls(network: Any, x: Any) -> Any:
    across, up, values = x[:, :1], x[:, 1:], network(x)
    inside = 16 * across * (1 - across) * up * (1 - up)
    lid = 16 * (across * (1 - across) * up) ** 2
    pressure = (across - 0.5) * values[:, 2:3] + up * values[:, 3:]
    return tf.concat([lid + inside * values[:, :1], inside * values[:, 1:2], pressure], axis=1)


ENTRY = CatalogueEntry(
    "cavity",
    "Navier–Stokes, steady, Re = 100, in the unit square under a moving lid",
    cavity,
    Suggestion((36, 36), width=20, depth=3, steps=200),
    goal=1e-2,
)
