"""Components of any size and offset are trained as those of size 1 are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Initial, Interval, Problem, Time, derivative, laplacian
from sciml_par.results import Result
from sciml_par.training import Adam, LevenbergMarquardt, train

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
X = np.linspace(0, 1, 41)[:, None]
BY_LM: dict[str, Any] = {"optimizer": LevenbergMarquardt(), "precision": "float64"}


def wall(size: float, zero: float, **options: Any) -> Problem:
    """u = zero + size (x + 4 x (1 − x))."""
    return Problem(
        Interval(0, 1),
        lambda u, x: laplacian(u, x) + 8 * size,
        conditions=[Dirichlet(zero, on="left"), Dirichlet(zero + size, on="right")],
        exact=lambda x: zero + size * (x + 4 * x * (1 - x)),
        **options,
    )


def trained(problem: Problem, **options: Any) -> Result:
    defaults: dict[str, Any] = {"optimizer": Adam(5e-3), "steps": 2_000, "points": 64}
    defaults |= {"network": partial(MLP, width=10, depth=2), "evaluation_points": 41}
    return train(problem, seed=1, **{"progress": False} | defaults | options)


def error(result: Result, problem: Problem, size: float) -> float:
    return float(np.abs(result.predict(X).mean - problem.exact(X)).max()) / size


@pytest.mark.parametrize("size, zero", [(1e-9, 0.0), (1.0, 0.0), (1e7, -1e8)])
def test_the_error_is_the_same_in_all_units(size: float, zero: float) -> None:
    problem = wall(size, zero)
    assert error(trained(problem), problem, size) < 5e-3


def test_a_result_keeps_its_ranges(tmp_path: Path, capsys: Any) -> None:
    problem = wall(100.0, 300.0)
    result = trained(problem, **BY_LM, steps=20, progress=True)
    assert "the network gives u from -" in capsys.readouterr().out.replace("\n", " ")
    assert error(result, problem, 100.0) < 1e-4
    slope = result.evaluate(lambda u, x: derivative(u, x, 0), X).mean
    np.testing.assert_allclose(slope, 100 * (5 - 8 * X), atol=0.1)
    result.save(tmp_path, plots=False)
    given = wall(100.0, 300.0, output_ranges={"u": (250.0, 450.0)})
    for loaded in (Result.load(tmp_path), Result.load(tmp_path, problem=problem)):
        np.testing.assert_array_equal(loaded.predict(X).mean, result.predict(X).mean)
    with pytest.raises(InputError, match="problem"):
        Result.load(tmp_path, problem=given)


def test_ranges_that_are_given_hold() -> None:
    by_hand, plain = (
        wall(100.0, 300.0, output_ranges=ranges) for ranges in ({"u": (200.0, 500.0)}, False)
    )
    network = MLP(1, 1, width=10, depth=2, dtype="float64")
    result = trained(by_hand, **BY_LM, steps=20, network=network)
    assert by_hand.output_ranges == ((200.0, 500.0),) and error(result, by_hand, 100.0) < 1e-2
    (model,) = result.networks
    np.testing.assert_allclose(
        350 + 150 * model.predict(X, verbose=0), result.predict(X).mean, 1e-5
    )
    with pytest.warns(match="a network of zeros"):
        assert error(trained(plain, steps=300), plain, 100.0) > 0.5


def test_slabs_share_the_ranges_of_the_whole_time() -> None:
    rod = Problem(
        Interval(0, 0.1) * Time(0, 100, slabs=2),
        lambda u, x: derivative(u, x, "t") - 1e-5 * derivative(u, x, 0, 0),
        conditions=[
            Dirichlet(293.0, on=["left", "right"]),
            Initial(lambda x: 293 + 50 * np.sin(10 * np.pi * x[:, :1])),
        ],
    )
    network = partial(MLP, width=10, depth=1)
    result = trained(rod, **BY_LM, network=network, steps=30, points=150)
    x = rod.domain.grid(200)
    decayed = np.exp(-1e-5 * (10 * np.pi) ** 2 * x[:, 1:])
    expected = 293 + 50 * decayed * np.sin(10 * np.pi * x[:, :1])
    assert np.abs(result.predict(x).mean - expected).max() < 0.05


@pytest.mark.parametrize(
    "ranges", [True, 300.0, {"v": (0, 1)}, {"u": 300}, {"u": (1, 0)}, {"u": (0, np.inf)}, [(0, 1)]]
)
def test_ranges_are_a_least_and_a_largest_value_by_name(ranges: Any) -> None:
    with pytest.raises(InputError, match=r"output_ranges must be .* \{'u': \(0, 300\)\}"):
        wall(1.0, 0.0, output_ranges=ranges)


def test_an_ansatz_has_its_own_scale() -> None:
    with pytest.raises(InputError, match="multiply N by the size of u in the ansatz"):
        wall(1.0, 0.0, output_ranges={"u": (0, 300)}, ansatz=lambda N, x: x * N(x))
