"""Bodies given by files of CAD programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._checks import check_number, check_positive
from sciml_par._optional import needed
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, exp, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.valued import normal_derivative
from sciml_par.problems.domains.mesh import Mesh
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual

_SECTIONS = 48
_PROFILE = ((0.4, 0), (1, 0), (1, 0.25), (0.6, 0.25), (0.6, 1), (0.4, 1), (0.4, 0))
_FOOT = 0.1


def heat_part(
    *, file: str | Path | None = None, conductivity: float = 1.0, wave: float = 2.0
) -> Problem:
    """−c ΔT = q in a body of triangles, a sleeve with a flange or that of a file; T is given at its
    foot, the lowest tenth of its height, and the flux c n·∇T on the rest of the surface.

        T = cos kx cos ky e^{−kz},  q = c k² T

    is exact in a body of any shape (a manufactured solution).

    Parameters
    ----------
    file : path, optional
        A closed surface, as a .stl that `Mesh` reads, with a size of about 1/k. By default trimesh
        makes the sleeve: radii 0.4 and 0.6, height 1; the flange has the radius 1 and is 0.25 high.
    conductivity : float
        c, positive.
    wave : float
        k, an inverse length, other than 0.

    Raises
    ------
    InputError
        trimesh is not installed (``pip install 'sciml-par[files]'``), `Mesh` cannot read the file,
        the conductivity is not positive, or the wave number is 0.
    """
    check_positive("heat_part", conductivity=conductivity)
    check_number("heat_part", "wave", wave, "other than 0", lambda k: k != 0)
    body = Mesh(_sleeve() if file is None else file)
    top_of_foot = float(body.lower[2] + _FOOT * body.extent[2])

    def solution(x: Any) -> Any:
        a, b, c = (wave * x[:, i : i + 1] for i in range(3))
        return cos(a) * cos(b) * exp(-c)

    def flux(u: Any, x: Any, normals: Any) -> Any:
        """c n·∇(u − T)."""
        a, b, c = (wave * x[:, i : i + 1] for i in range(3))
        slopes = -wave * columns(sin(a) * cos(b), cos(a) * sin(b), cos(a) * cos(b)) * exp(-c)
        given = tf.reduce_sum(slopes * normals, axis=1, keepdims=True)
        return conductivity * (normal_derivative(u, x, normals) - given)

    return Problem(
        body,
        Residual(
            lambda u, x, q: -conductivity * laplacian(u, x) - q,
            data=lambda x: conductivity * wave**2 * solution(x),
        ),
        conditions=[
            Dirichlet(solution, where=lambda x: x[:, 2] < top_of_foot, name="foot"),
            Condition(flux, where=lambda x: x[:, 2] >= top_of_foot, name="flux"),
        ],
        outputs=("T",),
        exact=solution,
        name="heat in a part",
    )


def _sleeve() -> Any:
    """Return a sleeve with a flange, as trimesh makes it by turning a profile of radii and heights.

    Its triangles are those that a file would have.
    """
    trimesh = needed("trimesh", "the catalogue's problem 'heat-part'")
    return trimesh.creation.revolve(np.array(_PROFILE, float), sections=_SECTIONS)


ENTRIES = (
    CatalogueEntry(
        "heat-part",
        "−c ΔT = q in a body of triangles, as of an STL: T given at its foot, the flux on the rest",
        heat_part,
        Suggestion(1000, boundary=800, method="sobol", width=20, depth=2, steps=120),
    ),
)
