"""Bodies bounded by triangles, from objects and files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
import trimesh

from sciml_par.errors import InputError
from sciml_par.networks import RandomFeatures
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Mesh,
    Polygon,
    Problem,
    Residual,
    Time,
    laplacian,
)
from sciml_par.training import LeastSquares, train

pytestmark = pytest.mark.ranks(most=1, reason="geometry of one rank")
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)


def test_a_sphere_of_triangles() -> None:
    ball = Mesh(trimesh.creation.icosphere(subdivisions=4, radius=2.0))
    assert ball.volume == pytest.approx(32 * np.pi / 3, rel=5e-3)
    assert ball.surface == pytest.approx(16 * np.pi, rel=5e-3)
    x = np.random.default_rng(0).uniform(-2, 2, (4000, 3))
    radius = np.linalg.norm(x, axis=1)
    clear = np.abs(radius - 2) > 0.01
    np.testing.assert_array_equal(ball.contains(x)[clear], (radius < 2)[clear])
    inside = ball.interior(500, rng=np.random.default_rng(1), method="uniform")
    assert inside.shape == (500, 3) and ball.contains(inside).all()
    for method in ("grid", "uniform", "sobol"):
        y, normals = ball.boundary(300, method=method, rng=np.random.default_rng(2))
        assert ball.on_boundary(y).all() and ball.admits(y).all()
        assert (np.sum(normals * y, axis=1) > 1.9).all()
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0)


def test_edges_have_mean_normals_as_a_box() -> None:
    brick, box = Mesh(trimesh.creation.box([2, 2, 2])), Box([-1] * 3, [1] * 3)
    x = np.array([[1, 0.3, 0.2], [1, 1, 0.3], [1, 1, 1], [0, 0, 0.5]], float)
    np.testing.assert_array_equal(brick.on_edges(x)[:3], box.on_edges(x)[:3])
    assert brick.outward_normals(x[:1]).tolist() == [[1, 0, 0]]
    np.testing.assert_allclose(brick.outward_normals(x[1:2]), [[0.5**0.5, 0.5**0.5, 0]])
    assert not brick.on_boundary(x)[3]


def test_files(tmp_path: Path) -> None:
    body = trimesh.creation.cylinder(radius=10.0, height=30.0, sections=64)
    body.export(tmp_path / "part.stl")
    part = Mesh(tmp_path / "part.stl", scale=0.1, names=("a", "b", "c"))
    assert part.volume == pytest.approx(body.volume * 1e-3) and part.names == ("a", "b", "c")
    assert part == Mesh(tmp_path / "part.stl", scale=0.1, names=("a", "b", "c"))
    tetra = meshio.Mesh(CORNERS, [("tetra", [[0, 1, 2, 3]])])
    tetra.write(tmp_path / "corner.vtu")
    corner = Mesh(tmp_path / "corner.vtu")
    assert corner.volume == pytest.approx(1 / 6)
    assert corner.surface == pytest.approx(1.5 + 3**0.5 / 2)


def test_groups_of_gmsh_are_faces(tmp_path: Path) -> None:
    cells = [("triangle", [[0, 2, 1], [1, 2, 3]]), ("tetra", [[0, 1, 2, 3]])]
    tags = [np.array([7, 8]), np.array([9])]
    mesh = meshio.Mesh(
        CORNERS,
        cells,
        cell_data={"gmsh:physical": tags, "gmsh:geometrical": tags},
        field_data={"inlet": np.array([7, 2]), "slope": np.array([8, 2])},
    )
    meshio.write(tmp_path / "corner.msh", mesh, file_format="gmsh22", binary=False)
    corner = Mesh(tmp_path / "corner.msh")
    assert corner.faces == ("inlet", "slope", "surface")
    x = np.array([[0.2, 0.2, 0.0], [0.0, 0.2, 0.2]])
    assert corner.on_faces(x, ["inlet"]).tolist() == [True, False]
    np.testing.assert_allclose(corner.outward_normals(x), [[0, 0, -1], [-1, 0, 0]])


def test_an_equation_in_a_body_and_a_body_with_a_cavity() -> None:
    solid = Mesh(trimesh.creation.box([1, 1, 1])) - Mesh(trimesh.creation.icosphere(2, 0.2))
    assert solid.volume == pytest.approx(1 - 4 / 3 * np.pi * 0.2**3, rel=0.02)
    assert (Mesh(trimesh.creation.box([1, 1, 1])) * Time(0, 1)).dimension == 4

    def exact(x: Any) -> Any:
        return x[:, :1] ** 2 - x[:, 1:2] ** 2 + x[:, 2:]

    problem = Problem(
        Mesh(trimesh.creation.box([1, 1, 1])),
        Residual(laplacian),
        conditions=[Dirichlet(exact)],
        exact=exact,
    )
    result = train(
        problem,
        network=partial(RandomFeatures, features=80, scale=1.0),
        optimizer=LeastSquares(),
        points=200,
        precision="float64",
        progress=False,
        estimate=False,
    )
    assert result.members[0].prediction.relative_l2_error < 1e-4


NINE = np.array([[x, y] for x in (0, 1, 2, 3) for y in (0, 1, 2, 3)], float)


def _frame(**groups: list[list[int]]) -> meshio.Mesh:
    """A square of 3 × 3 cells without the middle one, with groups of edges between its points."""
    corners = [4 * i + j for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    cells = [("quad", [[k, k + 4, k + 5, k + 1] for k in corners])]
    tags, data = [np.full(len(corners), 9)], {}
    for number, (label, edges) in enumerate(groups.items(), start=1):
        cells.append(("line", edges))
        tags.append(np.full(len(edges), number))
        data[label] = np.array([number, 1])
    at = np.insert(NINE, 2, 0.0, axis=1)
    physical = {"gmsh:physical": tags, "gmsh:geometrical": tags}
    return meshio.Mesh(at, cells, cell_data=physical, field_data=data)


def test_groups_of_a_plane_mesh_are_faces_of_a_polygon(tmp_path: Path) -> None:
    left, middle = [[0, 1], [2, 1], [2, 3]], [[5, 6], [6, 10], [10, 9], [9, 5]]
    meshio.write(
        tmp_path / "frame.msh", _frame(inlet=left, wall=middle), file_format="gmsh22", binary=False
    )
    frame = Polygon.from_file(tmp_path / "frame.msh", scale=2.0, names=("a", "b"))
    assert frame.volume == 32 and frame.surface == 32 and frame.names == ("a", "b")
    assert frame.faces[:2] == ("outer", "inlet") and frame.faces[-2:] == ("hole 1", "wall")
    assert len(frame.faces) == 7  # straight edges are one
    x, normals = frame.boundary(80)
    inlet, wall = frame.on_faces(x, "inlet"), frame.on_faces(x, "wall")
    np.testing.assert_array_equal(inlet, x[:, 0] == 0)
    np.testing.assert_array_equal(wall, np.all((x >= 2) & (x <= 4), axis=1))
    np.testing.assert_array_equal(normals[inlet], [[-1, 0]] * inlet.sum())
    assert (np.sum(normals[wall] * (x[wall] - 3), axis=1) < 0).all()
    plain = Polygon([[0, 0], [6, 0], [6, 6], [0, 6]], holes=[[[2, 2], [4, 2], [4, 4], [2, 4]]])
    cut = frame - Ball([0, 0], 1)
    assert {"inlet", "wall"} < set(cut.faces) and frame != plain


def _triangles(*corners: list[int]) -> meshio.Mesh:
    return meshio.Mesh(NINE, [("triangle", corners)])


def test_curved_sides_of_a_plane_mesh_pass_through_their_middles() -> None:
    at = [[0, 0], [2, 0], [0, 2], [1, -1], [1, 1], [0, 1]]
    curved = Polygon.from_file(meshio.Mesh(at, [("triangle6", [[0, 1, 2, 3, 4, 5]])]))
    assert curved.volume == 3 and len(curved.faces) == 1 + 4


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda at: Mesh(at / "none.stl"), "cannot read"),
        (lambda at: Mesh(at / "part.step"), "ending .stl"),
        (lambda at: Mesh(3), "got int"),
        (lambda at: Mesh(trimesh.Trimesh(CORNERS, [[1, 2, 3]])), "3 of 3 edges do not belong"),
        (lambda at: Mesh(trimesh.creation.box(), scale=0), "positive"),
        (
            lambda at: Mesh(meshio.Mesh(CORNERS[:, :2], [("triangle", [[0, 1, 2]])])),
            "Polygon.from_file",
        ),
        (
            lambda at: Mesh(meshio.Mesh(CORNERS[:3], [("triangle", [[0, 1, 2]])])),
            "Polygon.from_file",
        ),
        (lambda at: Polygon.from_file(at / "none.msh"), "cannot read"),
        (lambda at: Polygon.from_file(at / "part.stl"), "ending .msh"),
        (lambda at: Polygon.from_file(3), "got int"),
        (lambda at: Polygon.from_file(_frame(), scale=-1), "positive"),
        (lambda at: Polygon.from_file(_frame(outer=[[0, 1]])), "'outer' is the name"),
        (lambda at: Polygon.from_file(_frame(a=[[0, 1]], b=[[1, 0]])), "groups 'a' and 'b'"),
        (lambda at: Polygon.from_file(meshio.Mesh(CORNERS, [("triangle", [[1, 2, 3]])])), "a Mesh"),
        (lambda at: Polygon.from_file(_triangles([0, 1, 4], [10, 11, 14])), "several pieces"),
        (lambda at: Polygon.from_file(_triangles([0, 1, 4], [4, 8, 9])), "touches itself"),
    ],
)
def test_bad_input(tmp_path: Path, make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make(tmp_path)
