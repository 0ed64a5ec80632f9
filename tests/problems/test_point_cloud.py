"""Domains that are known by their points only, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import Ball, IntegralCondition, Observations, PointCloud, Problem, Time

X = Ball([0, 0], 1).sample(300, seed=1)
ON, NORMALS = Ball([0, 0], 1).boundary(40)
CLOUD = PointCloud(X, boundary=ON, normals=2 * NORMALS)


@pytest.mark.parametrize("method", ["grid", "uniform", "sobol"])
def test_a_cloud_gives_some_of_its_points_each_once(method: str) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 50, 300, 999):
        x = CLOUD.interior(n, method=method, rng=rng)
        assert len(x) == min(n, 300) == len(np.unique(x, axis=0))
        assert (x[:, None] == X).all(axis=2).any(axis=1).all()
    on, normals = CLOUD.boundary(10, method=method, rng=rng)
    assert len(on) == 10
    np.testing.assert_allclose(normals, on, atol=1e-12)  # unit normals of the unit circle


def test_what_a_cloud_knows_of_itself() -> None:
    assert np.isnan(CLOUD.volume) and CLOUD.faces == ("boundary",)
    assert CLOUD.contains(X.astype(np.float32)).all() and CLOUD.contains(ON).all()
    assert not CLOUD.contains(X + 0.001).any()
    np.testing.assert_allclose(CLOUD.outward_normals(ON), NORMALS, atol=1e-12)
    assert CLOUD.on_faces(ON, ["boundary"]).all()
    assert CLOUD == PointCloud(X, boundary=ON, normals=NORMALS) != PointCloud(X)
    parts = CLOUD.split(3)
    assert [len(part.grid(999)) for part in parts] == [100] * 3
    assert parts[0].upper[0] < parts[1].lower[0]


def test_a_cloud_over_time() -> None:
    domain = CLOUD * Time(0, 1)
    rng = np.random.default_rng(0)
    x = domain.interior(100, method="sobol", rng=rng)
    assert len(x) == 100 and CLOUD.contains(x[:, :2]).all() and np.ptp(x[:, 2]) > 0.9
    assert len(domain.grid(200)) > 100
    for method in ("grid", "halton"):
        on, normals = domain.boundary(90, method=method, rng=rng)
        for name in domain.faces:
            assert domain.on_faces(on, [name]).sum() > 20
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)


def test_points_between_those_of_a_cloud_may_be_given() -> None:
    between = (X[:20] + X[20:40]) / 2
    for domain, x in ((CLOUD, between), (CLOUD * Time(0, 1), np.c_[between, np.full(20, 0.5)])):
        assert domain.admits(x).all() and not domain.contains(x).any()
        assert not domain.admits(x + 3.0).any()
        problem = Problem(
            domain, lambda u, x: u(x) - 1, conditions=[Observations(x, np.ones(20))], name="solid"
        )
        np.testing.assert_array_equal(problem.conditions[0].points(domain, 1)[0], x)
    with pytest.raises(InputError, match="20 of 20 lie outside PointCloud"):
        Observations(between + 3.0, np.ones(20)).prepared(CLOUD, ("u",))


def test_an_integral_over_a_cloud_needs_its_weights() -> None:
    def mass(u: Any, x: Any) -> Any:
        return u(x)

    with pytest.raises(InputError, match=r"the volume of PointCloud.*points=\(x, weights\)"):
        IntegralCondition(mass, 1.0).prepared(CLOUD, ("u",))
    with pytest.raises(InputError, match="the volume of PointCloud"):
        IntegralCondition(mass, 1.0).prepared(CLOUD * Time(0, 1), ("u",))
    given = IntegralCondition(mass, 1.0, points=(X, np.full(300, np.pi / 300)))
    assert given.prepared(CLOUD, ("u",)).points(CLOUD, 1)[1].sum() == pytest.approx(np.pi)


def test_clouds_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "all.npz", x=X, boundary=ON, normals=NORMALS)
    table = "a,b\n" + "\n".join(f"{p!r},{q!r}" for p, q in X.tolist())
    (tmp_path / "x.csv").write_text(table)
    np.savetxt(tmp_path / "on.csv", ON, delimiter=",")
    assert PointCloud.from_file(tmp_path / "x.npy") == PointCloud(X)
    assert PointCloud.from_file(tmp_path / "all.npz") == CLOUD
    named = PointCloud.from_file(tmp_path / "x.csv")
    assert named == PointCloud(X) and named.names == ("a", "b")
    with_boundary = PointCloud.from_file(tmp_path / "x.npy", boundary=tmp_path / "on.csv")
    np.testing.assert_allclose(with_boundary.boundary(99)[0], ON)


def _write(path: Path, content: Any) -> None:
    if isinstance(content, dict):
        np.savez(path, **content)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "no such file"),
        ("points.txt", b"1 2", "end in .csv, .npy, .npz"),
        ("words.csv", b"x,y\n1,2\n3,four\n", "words.csv: expected rows of numbers.*'four'"),
        ("short.csv", b"1,2\n3\n", "expected rows of numbers"),
        ("empty.csv", b"x,y\n", "no data"),
        ("binary.csv", bytes(range(256)), "not a text"),
        ("broken.npy", b"no array", "cannot read it"),
        ("other.npz", {"points": X}, "expected an array 'x'.*'points'"),
        ("cube.npy", np.zeros((2, 2, 2)), r"cube.npy: PointCloud: x must have the shape \[n, d\]"),
        ("nan.npy", np.array([[0, 1], [np.nan, 2]]), "row 1"),
        ("text.npy", np.array([["a", "b"]]), "array of real numbers"),
        ("flat.npy", np.array([[0, 1], [1, 1]]), "same coordinate y = 1"),
        ("normals.npz", {"x": X, "boundary": ON, "normals": NORMALS[:3]}, "40 points.*got 3"),
    ],
)
def test_files_that_hold_no_points(tmp_path: Path, name: str, content: Any, message: str) -> None:
    if content is not None:
        _write(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        PointCloud.from_file(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CLOUD | Ball([0, 0], 1), "cannot be combined"),
        (lambda: Ball([0, 0], 1) - CLOUD, "cannot be combined"),
        (lambda: PointCloud(X).boundary(5), "has no points on the boundary"),
        (lambda: PointCloud(X, boundary=ON, normals=0 * ON), "normal 0 is zero"),
        (lambda: PointCloud(X, boundary=ON[:, :1]), r"\[n, 2\]"),
        (lambda: CLOUD.grid((3, 3)), "one number"),
        (lambda: CLOUD.split(301), "too few points"),
        (lambda: CLOUD.initial(3), "no initial face"),
    ],
)
def test_what_a_cloud_cannot_do(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
