"""Known functions from their values on a grid."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import tensorflow as tf
import xarray
from scipy.interpolate import BSpline, make_interp_spline

from sciml_par.errors import InputError, TrainingError
from sciml_par.networks import MLP
from sciml_par.problems import (
    GriddedFunction,
    Interval,
    Problem,
    Residual,
    derivative,
    divergence,
    gradient,
)
from sciml_par.training import train

pytestmark = pytest.mark.ranks(most=1, reason="local")
X, Y = np.linspace(0, 1, 9) ** 1.5, np.linspace(-1, 1, 6)


def _values(x: Any, y: Any) -> Any:
    return x**3 - 2 * x * y**2 + y + 3


K = GriddedFunction([X, Y], _values(X[:, None], Y))
POINTS = np.random.default_rng(0).uniform([0, -1], [1, 1], (50, 2))


@pytest.mark.parametrize("compiled", [False, True])
def test_cubic_polynomials_and_their_derivatives_are_exact(compiled: bool) -> None:
    def found(x: tf.Tensor) -> tf.Tensor:
        first = tf.concat([K(x), gradient(K, x)], axis=1)
        if compiled:
            return first
        second = derivative(K, x, 0, 0), derivative(K, x, 0, 1), derivative(K, x, 1, 1)
        return tf.concat([first, *second], axis=1)

    at = tf.function(found, jit_compile=True, autograph=False) if compiled else found
    x, y = POINTS.T
    expected = [_values(x, y), 3 * x**2 - 2 * y**2, -4 * x * y + 1, 6 * x, -4 * y, -4 * x]
    values = at(tf.constant(POINTS))
    expected = np.stack(expected, axis=1)[:, : values.shape[1]]
    np.testing.assert_allclose(values, expected, atol=1e-10)


@pytest.mark.parametrize("degree", [1, 3])
def test_it_is_the_spline_of_scipy_through_all_values(degree: int) -> None:
    values = np.random.default_rng(1).normal(size=(len(X), 2))
    k, spline = GriddedFunction(X, values, degree=degree), make_interp_spline(X, values, degree)
    assert isinstance(spline, BSpline)
    x = np.linspace(0, 1, 101)
    np.testing.assert_allclose(k(x[:, None]), spline(x), atol=1e-12)
    np.testing.assert_allclose(k(X[:, None]), values, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(k))(x[:, None]), k(x[:, None]))


def test_outside_of_the_grid_there_are_no_values() -> None:
    with pytest.raises(InputError, match=r"1 of 2 points are outside .*\[0, 1\] × \[-1, 1\].*0.5"):
        K([[0.1, 0.1], [0.5, 1.1]])
    inside = tf.constant([[1.0, 1.0], [0.0, -1.0]]) * (1 + 1e-7)
    assert np.isfinite(K(inside)).all()  # rounded to single precision
    found = tf.function(K, jit_compile=True, autograph=False)(tf.constant([[0.5, 1.1], [1, 1]]))
    np.testing.assert_allclose(found, [[np.nan], [3.0]], rtol=1e-6)
    wide = Problem(Interval(0, 2), lambda u, x: u(x) - GriddedFunction(X, X)(x))
    with pytest.raises(TrainingError, match="GriddedFunction is outside of its grid"):
        train(wide, network=partial(MLP, width=2, depth=1), steps=2, progress=False)


def test_an_equation_with_a_gridded_coefficient_and_source() -> None:
    x = np.linspace(0, 1, 41)
    k, f = GriddedFunction(x, 2 + np.sin(3 * x)), GriddedFunction(x, -3 * np.cos(3 * x))
    problem = Problem(
        Interval(0, 1),
        Residual(lambda u, x, f: divergence(lambda z: k(z) * gradient(u, z), x) + f, data=f),
    )
    (term,) = problem.terms
    arrays = [tf.constant(a) for a in term.points(50)]
    of_x, of_square = (  # (k x′)′ = k′ = 3 cos 3x
        term.residual(problem.field(u), *arrays) for u in (lambda x: x, lambda x: x**2)
    )
    np.testing.assert_allclose(of_x, 0, atol=1e-4)
    assert np.abs(of_square).max() > 1


@pytest.mark.parametrize("ending", [".nc", ".npz", ".csv"])
def test_files(tmp_path: Path, ending: str) -> None:
    path, values = tmp_path / f"soil{ending}", _values(X[:, None], Y)
    if ending == ".npz":
        np.savez(path, east=X * 1e3, north=Y, k=values, other=[1, 2, 3])
    else:
        table = xarray.Dataset({"k": (("east", "north"), values)}, {"east": X * 1e3, "north": Y})
        if ending == ".nc":
            table.transpose("north", "east").isel(north=slice(None, None, -1)).to_netcdf(path)
        else:
            rows = table.to_dataframe().reset_index().sample(frac=1, random_state=0)
            rows.to_csv(path, index=False)
    k = GriddedFunction.from_file(path, x=["east", "north"], u="k", units={"east": 1e-3})
    np.testing.assert_allclose(k(POINTS), K(POINTS), atol=1e-9)


def _file(at: Path, **columns: Any) -> Path:
    pandas.DataFrame(columns).to_csv(at / "k.csv", index=False)
    return at / "k.csv"


def _npz(at: Path, **arrays: Any) -> Path:
    np.savez(at / "k.npz", **arrays)
    return at / "k.npz"


_READ = partial(GriddedFunction.from_file, x=["x", "y"], u="k")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda at: _READ(at / "none.csv"), "from_file: cannot read"),
        (lambda at: _READ(_file(at, x=[1], k=[2])), "no column 'y'; it has 'x', 'k'"),
        (
            lambda at: _READ(_file(at, x=[0, 0, 1], y=[0, 1, 1], k=[1, 2, 3])),
            "there are none at .1.0, 0",
        ),
        (lambda at: _READ(_file(at, x=[0, 0], y=[0, 0], k=[1, 2])), "2 values at"),
        (lambda at: _READ(_file(at, x=[0, "b"], y=[0, 0], k=[1, 2])), "the value 'b' in row 2"),
        (lambda at: _READ(_file(at, x=[0, 1], y=[0, 0], k=[1, None])), "in row 2"),
        (lambda at: _READ(_file(at, x=[0, 1], y=[0, 0], k=[1, 2])), "two or more increasing"),
        (lambda at: _READ(_npz(at, x=[0, 1], y=[0, 1, 2], k=np.ones((3, 2)))), "shape .3, 2.; exp"),
        (lambda at: GriddedFunction([X, Y], np.ones((6, 9))), r"expected values .*\[9, 6\]"),
        (lambda at: GriddedFunction(X[::-1], X), "increasing"),
        (lambda at: GriddedFunction(X, X, degree=2), "degree to be 3 or 1"),
        (lambda at: K(np.ones((4, 3))), r"expected points \[n, 2\]"),
    ],
)
def test_bad_input(tmp_path: Path, make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make(tmp_path)


def test_dates_and_places_in_an_array_are_not_coordinates(tmp_path: Path) -> None:
    times = pandas.date_range("2026-01-01", periods=4)
    xarray.Dataset({"k": ("t", np.ones(4))}, {"t": times}).to_netcdf(tmp_path / "k.nc")
    with pytest.raises(InputError, match="'t' of k.nc has dates"):
        GriddedFunction.from_file(tmp_path / "k.nc", x="t", u="k")
    xarray.Dataset({"k": ("t", np.ones(4))}).to_netcdf(tmp_path / "without.nc")
    with pytest.raises(InputError, match="without.nc has no column 't'; it has 'k'"):
        GriddedFunction.from_file(tmp_path / "without.nc", x="t", u="k")
    with pytest.raises(InputError, match="complex numbers"):
        GriddedFunction.from_file(_npz(tmp_path, t=X, k=X + 1j), x="t", u="k")


def test_a_grid_over_some_of_the_coordinates() -> None:
    x, t = np.linspace(0, 1, 11), np.linspace(0, 2, 21)
    values = x[:, None] * t
    k = GriddedFunction([x, t], values, columns=(0, -1))
    points = np.random.default_rng(0).uniform(0, 1, (9, 3))
    expected = points[:, :1] * points[:, 2:]
    np.testing.assert_allclose(k(points), expected, atol=1e-12)
    np.testing.assert_allclose(k(tf.constant(points[:, [0, 2]])), expected, atol=1e-12)
    np.testing.assert_allclose(derivative(k, tf.constant(points), 2), points[:, :1], atol=1e-10)
    with pytest.raises(InputError, match=r"names their columns, as columns=\(0, 1\)"):
        GriddedFunction([x, t], values)(points)
    with pytest.raises(InputError, match="expected columns to be 2 numbers"):
        GriddedFunction([x, t], values, columns=(0,))
