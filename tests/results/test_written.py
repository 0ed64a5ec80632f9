"""Functions of the solution, tables, and files, read back by the programs that they are for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pandas
import pytest
import pyvista
import xarray

from sciml_par.errors import InputError, OutputError
from sciml_par.networks import MLP, RandomFeatures
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Residual,
    Time,
    Unknown,
    UnknownFunction,
    derivative,
    gradient,
    laplacian,
)
from sciml_par.training import Adam, Ensemble, LeastSquares, LevenbergMarquardt, train

pytestmark = pytest.mark.ranks(most=1, reason="rank 0 writes what it has")
small = partial(MLP, width=4, depth=1)


def f(x: Any) -> np.ndarray:
    return np.sin(x[:, :1]) * np.exp(x[:, 1:2])


@pytest.fixture(scope="module")
def plane() -> Any:
    """u = sin x · eʸ in a square, with its estimated error."""
    problem = Problem(Box([0, 0], [1, 1]), Residual(laplacian), conditions=[Dirichlet(f)], exact=f)
    features = partial(RandomFeatures, features=60, scale=1.5)
    return train(
        problem,
        network=features,
        optimizer=LeastSquares(),
        points=200,
        precision="float64",
        estimate=True,
        progress=False,
    )


@pytest.fixture(scope="module")
def heat() -> Any:
    """Cooling in space and time, by an ensemble."""
    problem = Problem(
        Interval(0, 1) * Time(0, 0.2),
        Residual(lambda u, x: derivative(u, x, "t") - derivative(u, x, "x", "x")),
        conditions=[Initial(lambda x: np.sin(np.pi * x[:, :1])), Dirichlet(0.0, on=["left"])],
    )
    return train(problem, network=small, optimizer=Adam(), mode=Ensemble(members=2), steps=2,
                 points=20, progress=False, estimate=False)  # fmt: skip


def test_functions_of_the_solution(plane: Any) -> None:
    x = np.random.default_rng(0).random((5000, 2))
    found = plane.evaluate(lambda u, x: derivative(u, x, "y"), x, batch_size=1000)
    np.testing.assert_allclose(found.mean, f(x), atol=1e-5)
    assert found.mean.shape == (5000, 1) and found.error.max() < 1e-5
    flat = plane.evaluate(lambda u, x: u(x)[:, 0], x)
    np.testing.assert_array_equal(flat.mean, plane.predict(x).mean)


def test_unknown_numbers_and_functions_by_name() -> None:
    x = np.linspace(0, 1, 30)[:, None]
    problem = Problem(
        Interval(0, 1),
        Residual(lambda u, x, c, k: c * derivative(u, x, 0) - k(x)),
        conditions=[Observations(x, x**2)],
        unknowns={
            "c": Unknown(1.0, lower=0.9, upper=1.1),
            "k": UnknownFunction(1.0, network=small),
        },
    )
    result = train(
        problem, network=small, optimizer=LevenbergMarquardt(), steps=40, points=40,
        precision="float64", progress=False, estimate=False,
    )  # fmt: skip
    found = result.evaluate(lambda u, x, c, k: c * derivative(u, x, 0) - k(x), x)
    assert np.abs(found.mean).max() < 1e-2
    k = result.evaluate(lambda u, x, k: k(x), x)
    np.testing.assert_allclose(k.mean, result.unknowns["k"](x), rtol=1e-9)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (3, "expected a function"),
        (lambda u: u, r"must be a function of \(u, x\)"),
        (lambda u, x: 3.0, r"return a tensor \[n, k\].*got a float"),
        (lambda u, x, D: u(x), "'D', which is not an unknown"),
    ],
)
def test_other_functions_are_refused(plane: Any, function: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        plane.evaluate(function, [[0.5, 0.5]])


def test_a_table_has_errors_and_quantities(plane: Any) -> None:
    points = pandas.DataFrame({"y": [0.2, 0.4], "x": [0.1, 0.3]})
    flux = {"flux": lambda u, x: derivative(u, x, 0), "both": gradient}
    table = plane.to_dataframe(points, quantities=flux)
    assert list(table) == [
        *("x", "y", "u", "u_error", "flux", "flux_error"),
        *("both_0", "both_0_error", "both_1", "both_1_error"),
    ]
    x = table[["x", "y"]].to_numpy()
    truth = f(x)[:, 0]
    assert (np.abs(table["u"] - truth) < 3 * table["u_error"] + 1e-12).all()
    np.testing.assert_allclose(table["flux"], np.cos(x[:, 0]) * np.exp(x[:, 1]), atol=1e-5)
    assert len(plane.to_dataframe()) == len(plane.members[0].prediction.x)


def test_a_grid_has_coordinates(plane: Any, heat: Any) -> None:
    grid = plane.to_xarray((3, 5), domain=Box([0, 0], [0.6, 1]))
    assert dict(grid.sizes) == {"x": 3, "y": 5}
    at = np.array([[0.5, 0.25]])
    assert float(grid["u"].sel(x=0.5, y=0.25)) == pytest.approx(plane.predict(at).mean[0, 0])
    assert np.isnan(grid["u"].sel(x=1.0)).all()
    assert float(grid.attrs["estimated_relative_error"]) < 1e-5
    by_name = heat.to_xarray({"x": [0.5], "t": [0.0, 0.1]})
    assert by_name["u"].shape == (1, 2) and "u_error" in by_name
    assert "not known" in by_name.attrs["estimated_relative_error"]


def test_files_are_read_back(plane: Any, tmp_path: Path) -> None:
    mesh = pyvista.read(plane.write(tmp_path / "grid.vtu", (4, 3)))
    assert mesh.n_points == 12 and mesh.n_cells == 6
    assert mesh.compute_cell_sizes()["Area"].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(mesh["u"], plane.predict(mesh.points[:, :2]).mean[:, 0], atol=1e-6)
    given = meshio.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [("triangle", [[0, 1, 2]])])
    given.write(tmp_path / "given.vtk")
    on_mesh = pyvista.read(plane.write(tmp_path / "on.vtk", tmp_path / "given.vtk"))
    assert on_mesh.n_cells == 1 and "u_error" in on_mesh.point_data
    part = pyvista.read(plane.write(tmp_path / "part.vtu", 11, domain=Box([0, 0], [0.5, 1])))
    assert part.n_cells == 50 and part.n_points == 66
    plane.write(tmp_path / "points.csv", [[0.1, 0.2]])
    assert list(pandas.read_csv(tmp_path / "points.csv")) == ["x", "y", "u", "u_error"]
    with xarray.open_dataset(plane.write(tmp_path / "grid.nc", 4)) as grid:
        assert grid["u"].shape == (4, 4)


def test_a_quantity_with_components_is_a_vector_of_a_mesh(plane: Any, tmp_path: Path) -> None:
    flow = {"flow": gradient, "size": lambda u, x: u(x) ** 2}
    path = plane.write(tmp_path / "flow.vtu", on=5, quantities=flow)
    mesh = pyvista.read(path)
    x = np.asarray(mesh.points)
    expected = np.hstack([np.cos(x[:, :1]) * np.exp(x[:, 1:2]), f(x), 0 * x[:, :1]])
    np.testing.assert_allclose(mesh.point_data["flow"], expected, atol=1e-6)
    assert mesh.point_data["flow_error"].shape == (25, 3) and "flow_0" not in mesh.point_data
    assert mesh.point_data["size"].shape == (25,)


def test_a_series_takes_the_domain_of_the_problem(tmp_path: Path) -> None:
    domain = (Box([0, 0], [1, 1]) - Ball([0.5, 0.5], 0.3)) * Time(0, 1)
    problem = Problem(domain, lambda u, x: u(x) - 1)
    result = train(problem, network=small, points=30, steps=2, progress=False, grow=False)
    path = result.write(tmp_path / "b.pvd", on=(11, 11), domain=domain, times=[0, 1])
    mesh = pyvista.read(path.with_name("b-0001.vtu"))
    distance = np.linalg.norm(np.asarray(mesh.points)[:, :2] - 0.5, axis=1)
    assert 0.29 < distance.min() < 0.45 and mesh.n_points < 121


def test_a_series_in_time(heat: Any, tmp_path: Path) -> None:
    reader = pyvista.PVDReader(heat.write(tmp_path / "heat.pvd", 6, times=[0.0, 0.1]))
    assert reader.time_values == [0.0, 0.1]
    reader.set_active_time_point(1)
    mesh = reader.read()[0]
    x = np.column_stack([mesh.points[:, 0], np.full(6, 0.1)])
    np.testing.assert_allclose(mesh["u"], heat.predict(x).mean[:, 0], atol=1e-6)
    assert "u_deviation" in mesh.point_data


@pytest.mark.parametrize(
    ("write", "kind", "text"),
    [
        (lambda r, at: r.write(at / "u.png"), InputError, "ending"),
        (lambda r, at: r.write(at / "no" / "u.vtu"), OutputError, "does not exist"),
        (lambda r, at: r.write(at / "u.vtu", at / "none.msh"), InputError, "cannot read"),
        (lambda r, at: r.write(at / "u.pvd"), InputError, "last coordinate is 'y'"),
        (lambda r, at: r.write(at / "u.csv", times=[0.0]), InputError, "times="),
        (lambda r, at: r.to_xarray({"x": [0.0]}), InputError, "coordinates 'x', 'y'"),
        (lambda r, at: r.to_xarray((3,)), InputError, "each of the coordinates"),
        (
            lambda r, at: r.to_dataframe(quantities={"u": lambda u, x: u(x)}),
            InputError,
            "another one",
        ),
        (
            lambda r, at: r.to_dataframe(quantities={"u_error": lambda u, x: u(x)}),
            InputError,
            "another one",
        ),
    ],
)
def test_bad_input(plane: Any, tmp_path: Path, write: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        write(plane, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(plane: Any, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        plane.write(path)
    assert path.read_text() == "mine"
    plane.write(path, overwrite=True)
    assert path.read_text().startswith("x,y,u")
