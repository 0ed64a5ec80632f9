"""Quadrature on boxes is exact for polynomials."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import Box
from sciml_par.problems.conditions.quadrature import at_position, over_domain, over_faces

BOX = Box([0, -1, 1], [2, 1, 4], names=("x", "y", "z"))


def test_volumes_and_areas():
    assert over_domain(BOX, 27)[1].sum() == pytest.approx(BOX.volume)
    assert at_position(BOX, 1, 0.5, 4)[1].sum() == pytest.approx(6)
    x, weights = over_faces(BOX, ("x=lower", "z=upper"), 4)
    assert weights.sum() == pytest.approx(2 * 3 + 2 * 2)
    assert np.all((x[:, 0] == 0) | (x[:, 2] == 4))
    assert over_faces(Box([0], [3]), ("x=upper",), 4)[1].tolist() == [1.0]


def test_numbers_per_axis():
    assert len(over_domain(Box([0, 0], [1, 1]), 10)[0]) == 9
    with pytest.raises(InputError, match="or 2, one for each axis"):
        over_domain(Box([0, 0], [1, 1]), (1, 2, 3))
