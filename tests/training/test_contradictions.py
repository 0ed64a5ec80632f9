"""Two conditions that give u different values at one of their points cause a warning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trainings import prepared, warned

import sciml_par as sp
from sciml_par.errors import InputError
from sciml_par.problems import Dirichlet, Initial, Interval, Neumann, Problem, Time, derivative

pytestmark = pytest.mark.ranks(most=1, reason="each rank compares its own points")

ROD = Interval(0, 1) * Time(0, 2)
ENDS = ("left", "right")
WARM = Initial(lambda x: np.sin(np.pi * x[:, 0]))
# They share two corners, at which the sine is zero but for rounding.
TWICE = Dirichlet(0.0, on=(*ENDS, "initial"))
CORNERS = [Dirichlet(0.0, points=[[0.0, 0.0], [1.0, 0.0]]), WARM, Dirichlet(0.0, on=ENDS)]


@pytest.mark.parametrize(
    ("conditions", "outputs", "said"),
    [
        ([Dirichlet(0.0, on=ENDS), WARM, Neumann(1.0, on="final")], 1, None),
        ([Dirichlet(0.0, component="u"), Dirichlet(1.0, component="v")], ("u", "v"), None),
        (CORNERS, 1, None),
        ([TWICE, WARM], 1, "t = 0 they give u = 0 and 0.9"),
        ([Dirichlet((0.0, 2.0)), Dirichlet(1.0, component="v")], ("u", "v"), "v = 2 and 1"),
    ],
)
def test_conditions_that_contradict_one_another(conditions: Any, outputs: Any, said: Any) -> None:
    problem = Problem(ROD, lambda u, x: u(x), conditions=conditions, outputs=outputs)
    found = [text for text in prepared(problem, points=25)[1] if "contradict" in text]
    assert [said in text for text in found] == [True] * (said is not None)


def test_solve_says_it_too() -> None:
    problem = Problem(ROD, lambda u, x: derivative(u, x, "t"), conditions=[TWICE, WARM])
    with warned("contradict one another") as found:
        sp.solve(problem, seconds=0.1, progress=False)
    assert len(found) == 1 and "t = 0 they give u = 0 and 1" in found[0]


@pytest.mark.parametrize("start", [WARM, Dirichlet(1.0, on="initial"), Dirichlet(1.0, on="final")])
def test_the_whole_boundary_beside_a_condition_at_a_time_is_refused(start: Any) -> None:
    """It would hold at the final time as well."""
    with pytest.raises(InputError, match=r"Dirichlet\(…, on=\['x=lower', 'x=upper'\]\)"):
        Problem(ROD, lambda u, x: derivative(u, x, "t"), conditions=[Dirichlet(0.0), start])
