"""Every geometry: its volume, its points inside and on the boundary, normals, faces and parts."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import (
    Ball,
    Box,
    Domain,
    Ellipse,
    Extruded,
    Interval,
    Neumann,
    Polygon,
    Time,
)

Array = Any
METHODS = ["uniform", "latin-hypercube", "sobol", "halton"]
MANY = 4096


def ball(center: Array, radius: float) -> Callable[[Array], Array]:
    return lambda x: np.linalg.norm(x - np.array(center), axis=1) - radius


def box(lower: Array, upper: Array) -> Callable[[Array], Array]:
    return lambda x: np.maximum(np.array(lower) - x, x - np.array(upper)).max(axis=1)


def half_planes(corners: Array) -> Callable[[Array], Array]:
    """Of a convex polygon, anticlockwise."""
    start = np.array(corners, float)
    along = np.roll(start, -1, axis=0) - start
    outward = np.stack([along[:, 1], -along[:, 0]], axis=1)
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    return lambda x: np.sum((x[:, None] - start) * outward, axis=2).max(axis=1)


def ellipse(x: Array) -> Array:
    cos, sin = math.cos(0.3), math.sin(0.3)
    a, b = (x[:, 0] - 1) * cos + x[:, 1] * sin, -(x[:, 0] - 1) * sin + x[:, 1] * cos
    return np.hypot(a / 3, b) - 1


def both(f: Any, g: Any) -> Callable[[Array], Array]:
    return lambda x: np.maximum(f(x), g(x))


def either(f: Any, g: Any) -> Callable[[Array], Array]:
    return lambda x: np.minimum(f(x), g(x))


def without(f: Any, g: Any) -> Callable[[Array], Array]:
    return lambda x: np.maximum(f(x), -g(x))


def at_times(f: Any, first: float, last: float) -> Callable[[Array], Array]:
    return lambda x: np.maximum(f(x[:, :-1]), np.maximum(first - x[:, -1], x[:, -1] - last))


@dataclass(frozen=True)
class Case:
    """A domain, a function that is negative inside it, and its volume and surface by hand."""

    domain: Domain
    level: Callable[[Array], Array]
    volume: float
    surface: float
    exact: bool = True


ARROW = [[0, 0], [3, 0], [3, 3], [1.5, 2], [0, 3]]
WINDOW = [[1, 1], [1, 1.5], [2, 1.5], [2, 1]]  # clockwise, which must make no difference
LENS = 2 * math.pi / 3 - math.sqrt(3) / 2

CASES = {
    "ball in 1-D": Case(Ball(1, 2), ball([1], 2), 4, 2),
    "disc": Case(Ball([1, 2], 0.5), ball([1, 2], 0.5), math.pi / 4, math.pi),
    "ball": Case(Ball([0, 0, 1], 2), ball([0, 0, 1], 2), 32 * math.pi / 3, 16 * math.pi),
    "ball in 5-D": Case(
        Ball([0.0] * 5, 1), ball([0] * 5, 1), 8 * math.pi**2 / 15, 8 * math.pi**2 / 3
    ),
    "ellipse": Case(Ellipse([1, 0], [3, 1], angle=0.3), ellipse, 3 * math.pi, 13.364893220555),
    "polygon": Case(
        Polygon(ARROW, holes=[WINDOW]),
        without(
            either(
                half_planes([[0, 0], [1.5, 0], [1.5, 2], [0, 3]]),
                half_planes([[1.5, 0], [3, 0], [3, 3], [1.5, 2]]),
            ),
            box([1, 1], [2, 1.5]),
        ),
        7,
        9 + 2 * math.hypot(1.5, 1) + 3,
    ),
    "plate with a hole": Case(
        Box([0, 0], [4, 2]) - Ball([2, 1], 0.5),
        without(box([0, 0], [4, 2]), ball([2, 1], 0.5)),
        8 - math.pi / 4,
        12 + math.pi,
    ),
    "L": Case(
        Box([0, 0], [1, 2]) | Box([1, 0], [2, 1]),
        either(box([0, 0], [1 + 1e-9, 2]), box([1 - 1e-9, 0], [2, 1])),
        3,
        8,
    ),
    "bitten twice": Case(
        Box([0, 0], [1, 1]) - Ball([0, 0], 0.5) - Ball([1, 1], 0.5),
        without(without(box([0, 0], [1, 1]), ball([0, 0], 0.5)), ball([1, 1], 0.5)),
        1 - math.pi / 8,
        2 + math.pi / 2,
        exact=False,
    ),
    "lens": Case(
        Ball([0, 0], 1) & Ball([1, 0], 1),
        both(ball([0, 0], 1), ball([1, 0], 1)),
        LENS,
        4 * math.pi / 3,
        exact=False,
    ),
    "two discs": Case(
        Ball([0, 0], 1) | Ball([1, 0], 1),
        either(ball([0, 0], 1), ball([1, 0], 1)),
        2 * math.pi - LENS,
        8 * math.pi / 3,
        exact=False,
    ),
    "two intervals": Case(
        Interval(0, 1) | Interval(2, 4), either(box([0], [1]), box([2], [4])), 3, 4
    ),
    "disc over time": Case(
        Ball([0, 0], 1) * Time(0, 2), at_times(ball([0, 0], 1), 0, 2), 2 * math.pi, 6 * math.pi
    ),
    "hole over time": Case(
        (Box([0, 0], [1, 1]) - Ball([0.5, 0.5], 0.25)) * Time(1, 2),
        at_times(without(box([0, 0], [1, 1]), ball([0.5, 0.5], 0.25)), 1, 2),
        1 - math.pi / 16,
        4 + math.pi / 2 + 2 - math.pi / 8,
    ),
    "cylinder": Case(
        Extruded(Ball([0, 0], 1), 1, 4), at_times(ball([0, 0], 1), 1, 4), 3 * math.pi, 8 * math.pi
    ),
    "interval": Case(Interval(-1, 1), box([-1], [1]), 2, 2),
    "rectangle": Case(Box([-1, 0], [1, 2]), box([-1, 0], [1, 2]), 4, 8),
    "box": Case(Box([0, 0, 0], [1, 2, 1]), box([0, 0, 0], [1, 2, 1]), 2, 10),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@each
def test_volume_and_surface_are_those_by_hand(case: Case) -> None:
    domain = case.domain
    assert (domain.volume_error == 0) == case.exact
    if case.exact:
        assert domain.volume == pytest.approx(case.volume, rel=1e-12)
    else:
        assert abs(domain.volume - case.volume) < 5 * domain.volume_error
        assert domain.volume_error < 2e-3 * case.volume
    assert domain.surface == pytest.approx(case.surface, rel=1e-11 if case.exact else 2e-3)


@each
@pytest.mark.parametrize("method", ["grid", "latin-hypercube"])
def test_points_lie_inside_and_on_the_boundary(case: Case, method: str) -> None:
    domain, rng = case.domain, np.random.default_rng(3)
    x = domain.interior(300, method=method, rng=rng)
    assert len(x) == 300 or (method == "grid" and 100 < len(x) < 450)
    assert domain.contains(x).all() and case.level(x).max() < 1e-8
    assert len(np.unique(x, axis=0)) == len(x)
    on, normals = domain.boundary(120, method=method, rng=rng)
    if domain.dimension > 1:
        assert len(on) == 120 or (method == "grid" and 100 < len(on) < 140)
    assert domain.contains(on).all() and domain.on_boundary(on).all()
    assert np.abs(case.level(on)).max() < 1e-8
    # By finite differences of the level set; on no edge, where it has no gradient.
    step = 1e-6 * np.eye(domain.dimension)
    slope = np.stack([case.level(on + h) - case.level(on - h) for h in step], axis=1)
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    agree = np.abs(slope - normals).max(axis=1) < 1e-4
    assert agree.mean() > 0.98  # random points may lie within a step of an edge
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-12)


@each
def test_what_single_precision_has_moved_is_still_on_the_boundary(case: Case) -> None:
    domain = case.domain
    on, normals = domain.boundary(100)
    moved = on.astype(np.float32)
    one = ~domain.on_edges(moved)
    assert domain.on_boundary(moved).all() and one.sum() >= len(on) - 2
    np.testing.assert_allclose(domain.outward_normals(moved)[one], normals[one], atol=1e-5)
    snapped = domain.snap(moved)
    assert domain.contains(snapped).all()
    np.testing.assert_allclose(snapped, on, atol=1e-5)
    inside = domain.sample(50, seed=1)
    inside = inside[case.level(inside) < -1e-3]
    assert len(inside) and not domain.outward_normals(inside).any()
    np.testing.assert_array_equal(domain.snap(inside), inside)
    assert not domain.contains(on + 1e-3 * normals).any()


@each
def test_points_are_uniform(case: Case) -> None:
    """First and second moments, against those of many points kept by the level function alone."""
    domain = case.domain
    rng = np.random.default_rng(8)
    everywhere = rng.uniform(domain.lower - 1e-9, domain.upper + 1e-9, (50_000, domain.dimension))
    expected = everywhere[case.level(everywhere) < 0]
    for method in METHODS:
        check_moments(domain.sample(MANY, seed=4, method=method), expected)


def check_moments(found: Array, expected: Array, off: float = 1e-12) -> None:
    for power in (1, 2):
        a, b = found**power, expected**power
        bound = 5 * b.std(axis=0) * math.sqrt(1 / len(a) + 1 / len(b)) + off
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < bound)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].domain.dimension > 1])
def test_boundary_points_are_uniform(name: str) -> None:
    """Against points of a thin layer, which has equal volume at equal surface."""
    case, rng = CASES[name], np.random.default_rng(9)
    domain = case.domain
    thick = 0.01 * float(domain.extent.min())
    around = rng.uniform(domain.lower - thick, domain.upper + thick, (100_000, domain.dimension))
    level = case.level(around)
    slope = np.zeros(len(around))
    for h in 1e-6 * np.eye(domain.dimension):
        slope += ((case.level(around + h) - case.level(around - h)) / 2e-6) ** 2
    layer = around[np.abs(level) < thick * np.sqrt(slope)]
    for method in ("grid", *METHODS):
        on, _ = domain.boundary(MANY, method=method, rng=rng)
        # A layer is by its thickness off what it stands for.
        check_moments(on, layer, off=4 * thick)


@each
def test_parts_have_equal_volumes_and_no_point_in_common(case: Case) -> None:
    domain = case.domain
    parts = domain.split(3)
    x = domain.sample(MANY, seed=2, method="uniform")
    inside = np.array([part.contains(x) for part in parts])
    assert inside.any(axis=0).all() and inside.sum(axis=0).mean() < 1.001
    share = inside.mean(axis=1)
    assert np.all(np.abs(share - 1 / 3) < 5 * math.sqrt(2 / 9 / MANY))
    for part in parts:
        assert part.volume == pytest.approx(domain.volume / 3)
        own = part.sample(64, seed=1)
        assert part.contains(own).all() and case.level(own).max() < 1e-8
        assert part.grid_size(40) == len(part.grid(40)) > 10
    assert domain.split(1)[0].volume == domain.volume


@each
def test_equal_seeds_give_equal_points(case: Case) -> None:
    domain, other = case.domain, pickle.loads(pickle.dumps(case.domain))
    assert domain == other and hash(domain) == hash(other) and repr(domain) == repr(other)
    assert domain != Box([7] * domain.dimension, [8] * domain.dimension)
    np.testing.assert_array_equal(domain.sample(20, seed=5), other.sample(20, seed=5))
    assert not np.array_equal(domain.sample(20, seed=5), domain.sample(20, seed=6))
    pairs = [d.boundary(30, method="sobol", rng=np.random.default_rng(1)) for d in (domain, other)]
    np.testing.assert_array_equal(*[np.concatenate(pair) for pair in pairs])


@pytest.mark.parametrize("domain", [CASES[n].domain for n in ("disc", "polygon", "lens", "L")])
def test_combining_is_what_it_is_for_single_points(domain: Domain) -> None:
    other = Ball([1, 1], 0.9)
    x = np.random.default_rng(0).uniform(-1, 4, (2000, 2))
    a, b = domain.contains(x), other.contains(x)
    assert a.any() and b.any() and (a & b).any()
    np.testing.assert_array_equal((domain | other).contains(x), a | b)
    np.testing.assert_array_equal((domain & other).contains(x), a & b)
    np.testing.assert_array_equal((domain - other).contains(x), a & ~b)
    assert (domain | other).volume + (domain & other).volume == pytest.approx(
        domain.volume + other.volume, rel=5e-3
    )


def test_faces_keep_their_names_and_equal_ones_have_numbers() -> None:
    plate = Box([0, 0], [4, 2]) - Ball([1, 1], 0.5) - Ball([3, 1], 0.5)
    assert plate.faces[-2:] == ("surface 1", "surface 2") and plate.faces[0] == "x=lower"
    x, normals = plate.boundary(500)
    one, two = plate.on_faces(x, ["surface 1"]), plate.on_faces(x, ["surface 2"])
    np.testing.assert_array_equal(one | two, plate.on_faces(x, ["surface"]))
    assert not (one & two).any() and np.all(x[one, 0] < 2) and np.all(x[two, 0] > 2)
    left = plate.on_faces(x, ["left"])
    np.testing.assert_array_equal(left, x[:, 0] == 0)
    assert np.all(normals[left] == [-1, 0])
    # Of the hole, the outward normal points to its centre.
    np.testing.assert_allclose(normals[one], ([1, 1] - x[one]) / 0.5, atol=1e-12)
    assert plate.on_faces(x, plate.faces).all()
    with pytest.raises(InputError, match=r"no face 'inlet'; its faces are x=lower.*also.*left"):
        plate.on_faces(x, ["inlet"])


def test_what_operands_share_is_no_boundary_and_counts_once() -> None:
    shape = Box([0, 0], [1, 2]) | Box([1, 0], [2, 1]) | Box([0.5, 0], [1.5, 1])
    assert shape.volume == 3 and shape.surface == pytest.approx(8)
    x, _ = shape.boundary(800)
    on_bottom = np.sort(x[x[:, 1] == 0][:, 0])
    assert np.diff(on_bottom).max() < 3 * np.diff(on_bottom).min()
    assert "x=upper 1" in shape.faces and "x=lower 2" not in shape.faces
    assert len(shape.corners()) == 6


def test_what_is_cut_off_takes_its_part_of_the_boundary_with_it() -> None:
    shape = Box([-1, -1], [1, 1]) - Box([0, -1], [1, 0])
    gone, kept = [[0.5, -1], [1, -0.5]], [[0, -1], [0, -0.5], [0, 0], [1, 0], [-1, -1], [0.5, 0]]
    assert not shape.contains(np.array(gone)).any() and shape.contains(np.array(kept)).all()
    corners = {(-1, -1), (-1, 1), (0, -1), (0, 0), (1, 0), (1, 1)}
    assert set(map(tuple, shape.corners())) == corners
    assert shape.on_edges(np.array(list(corners))).all()
    notched = Box([0, 0, 0], [1, 1, 1]) - Box([0.5, 0.5, 0], [1, 1, 1])
    x = np.array([[0.75, 0.75, 0], [1, 0.75, 0.5], [0.5, 0.75, 0.5], [0.5, 0.5, 1]])
    assert notched.contains(x).tolist() == [False, False, True, True]


def test_faces_of_boxes_have_ordinary_names() -> None:
    cube = Box([0, 0, 0], [1, 1, 1])
    x, normals = cube.boundary(600)
    sides = {"left": (0, -1), "right": (0, 1), "bottom": (1, -1), "top": (1, 1)}
    for name, (axis, sign) in {**sides, "front": (2, -1), "back": (2, 1)}.items():
        np.testing.assert_array_equal(cube.on_faces(x, [name]), normals[:, axis] == sign)
    rod = Interval(-1, 1) * Time(0, 2)
    assert isinstance(rod, Box) and rod.names == ("x", "t") and rod == Box([-1, 0], [1, 2])
    x, normals = rod.boundary(100)
    np.testing.assert_array_equal(rod.on_faces(x, ["initial"]), x[:, 1] == 0)
    np.testing.assert_array_equal(rod.on_faces(x, ["left", "right"]), np.abs(x[:, 0]) == 1)
    with pytest.raises(InputError, match="no face 'top'"):
        rod.on_faces(x, ["top"])
    assert Time(0, 3).on_faces(np.array([[0.0], [3.0]]), ["initial"]).tolist() == [True, False]


def test_the_edges_of_a_polygon_are_those_of_its_corners() -> None:
    shape = Polygon(ARROW, holes=[WINDOW])
    x, normals = shape.boundary(400, method="sobol", rng=np.random.default_rng(0))
    bottom = shape.on_faces(x, ["edge 1"])
    assert np.all(x[bottom, 1] == 0) and np.all(normals[bottom] == [0, -1])
    hole = shape.on_faces(x, ["hole 1"])
    assert hole.sum() == pytest.approx(400 * 3 / shape.surface, abs=1)
    first = shape.on_faces(x, ["hole 1 edge 1"])
    assert first.any() and np.all(x[first, 0] == 1) and np.all(normals[first] == [1, 0])
    assert shape.on_edges(np.array(ARROW, float)).all()
    assert Polygon(ARROW[::-1]).volume == Polygon([*ARROW, ARROW[0]]).volume == 7.5


def test_an_extruded_region_has_its_faces_and_two_ends() -> None:
    bar = Extruded(Polygon([[0, 0], [2, 0], [0, 1]], names=("a", "b")), 0, 3, name="h")
    assert bar.names == ("a", "b", "h") and eval(repr(bar)) == bar
    assert bar != Extruded(Ball([0, 0], 1), 0, 3)
    assert bar.faces == ("outer", "edge 1", "edge 2", "edge 3", "h=lower", "h=upper")
    x, normals = bar.boundary(400)
    np.testing.assert_array_equal(x[bar.on_faces(x, ["h=upper"])][:, 2], 3)
    for face, normal in {"h=lower": [0, 0, -1], "h=upper": [0, 0, 1], "edge 1": [0, -1, 0]}.items():
        found = normals[bar.on_faces(x, [face])]
        assert len(found) > 10
        np.testing.assert_allclose(found, np.tile(normal, (len(found), 1)), atol=1e-12)
    assert (bar * Time(0, 1)).faces[-2:] == ("initial", "final")
    half = bar & Extruded(Ball([0, 0], 1, names=("a", "b")), 0, 3, name="h")
    area = 0.64 + (math.acos(0.8) - 0.48) / 2  # below the oblique edge up to x = 0.8, then the arc
    assert abs(half.volume - 3 * area) < 5 * half.volume_error < 0.05


def test_the_initial_slice() -> None:
    domain = CASES["disc over time"].domain
    assert domain.faces == ("surface", "initial", "final") and domain.names == ("x", "y", "t")
    for method in ("grid", "sobol"):
        rng = np.random.default_rng(0)
        x, normals = domain.initial(50, method=method, rng=rng)
        assert np.all(x[:, 2] == 0) and np.all(normals == [0, 0, -1]) and len(x) > 40
        rest, _ = domain.boundary(200, method=method, rng=rng, with_initial=False)
        assert not domain.on_faces(rest, ["initial"]).any()
        assert domain.on_faces(rest, ["final"]).any()
    assert len(domain.grid((5, 5, 3))) % 3 == 0
    with pytest.raises(InputError, match="no initial face"):
        Ball([0, 0], 1).initial(10)


IN_SPACE = {n: c.domain for n, c in CASES.items() if "t" not in c.domain.names}
IN_SPACE |= {
    "re-entrant polygon": Polygon([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]]),
    "cut at an angle": Box([0, 0], [2, 2]) - Polygon([[1, -1], [3, -1], [3, 1]]),
}


@pytest.mark.parametrize("name", IN_SPACE)
def test_points_of_a_face_in_space_have_normals_of_that_face_at_all_times(name: str) -> None:
    domain, rng = IN_SPACE[name] * Time(0, 1), np.random.default_rng(1)
    insulated = Neumann(0.0, on=IN_SPACE[name].faces)
    anywhere = Neumann(0.0, where=lambda x: x[:, 0] > -9)
    for method, n in (("grid", 60), ("grid", 300), ("grid", 416), *((m, 300) for m in METHODS)):
        x, normals = domain.boundary(n, method=method, rng=rng)
        in_time = normals[:, -1] != 0
        assert (np.linalg.norm(normals, axis=1) > 1 - 1e-12).all() and in_time.any()
        for condition in (insulated, anywhere):
            holds = condition.holds_at(x, domain, normals)
            np.testing.assert_array_equal(holds, ~in_time, err_msg=f"{method}, {n}")
        for surface in domain.surfaces():
            x, normals = surface.points(n, method, rng)
            assert domain.on_faces(x, surface.names, normals).all(), (surface.names, method, n)
            for other in domain.surfaces():
                if other is not surface:
                    shared = domain.on_faces(x, other.names[:1], normals)
                    np.testing.assert_allclose(
                        other.project(x[shared]).normals, normals[shared], atol=1e-9
                    )


def test_gauss_legendre_integrates_polynomials_exactly() -> None:
    domain = Box([0, -1], [2, 3])
    x, weights = domain.gauss_legendre((3, 2))
    assert x.shape == (6, 2) and domain.contains(x).all()
    assert weights.sum() == pytest.approx(8) and weights.min() > 0
    assert weights @ (x[:, 0] ** 5 * x[:, 1] ** 3) == pytest.approx(64 / 6 * 20, rel=1e-13)
    assert weights @ x[:, 1] ** 4 != pytest.approx(2 * 244 / 5, rel=1e-6)
    np.testing.assert_array_equal(domain.gauss_legendre(2)[0], domain.gauss_legendre((2, 2))[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball([0, 0], 0), "radius must be positive"),
        (lambda: Ball([0, np.nan], 1), "finite number"),
        (lambda: Ball([0, 0], 1, names=("x",)), "must be 2"),
        (lambda: Ellipse([0, 0], [1, 0]), "positive semi-axes"),
        (lambda: Polygon([[0, 0], [1, 1]]), "at least three corners"),
        (lambda: Polygon([[0, 0], [1, 1], [1, 0], [0, 1]]), "cross or touch.*[Ss]elf"),
        (lambda: Polygon([[0, 0], [1, 1], [2, 2]]), "enclose an area"),
        (lambda: Polygon([[0, 0], [0, 0], [2, 2], [1, 0]]), "corner 1 and the next"),
        (lambda: Polygon(ARROW, holes=[[[5, 5], [6, 5], [6, 6]]]), "hole 1 must lie inside"),
        (lambda: Polygon(ARROW, holes=[WINDOW, WINDOW]), "apart from one another"),
        (lambda: Polygon([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), r"\[n, 2\]"),
        (lambda: Ball([0, 0], 1) & Ball([5, 0], 1), "is empty"),
        (lambda: Ball([0, 0], 1) & Ball([1.9, 1.9], 1), "is empty"),
        (lambda: Ball([0, 0], 1) - Box([-2, -2], [2, 2]), "is empty"),
        (lambda: Box([0, 0], [1, 1]) & Box([1, 0], [2, 1]), "is empty"),
        (lambda: Ball([0, 0], 1) | Ball([0, 0, 0], 1), "has 2 and .* has 3"),
        (lambda: Ball([0, 0], 1) | 3, "another domain"),
        (lambda: Ball([0, 0], 1, names=("a", "b")) | Box(0, 1, names=("c",)), "dimension"),
        (
            lambda: Ball([0, 0], 1, names=("a", "b")) & Ball([0, 0], 1, names=("c", "d")),
            "same names",
        ),
        (lambda: Time(1, 0), "after the initial one"),
        (lambda: Ball([0, 0], 1) * Interval(0, 1), "multiplied by a time.*Extruded"),
        (lambda: Extruded(3, 0, 1), "expected a domain, as .* got 3"),
        (lambda: Extruded(Ball([0, 0], 1) * Time(0, 1), 0, 1), "a time comes last"),
        (lambda: Extruded(Interval(0, 1) * Time(0, 1), 0, 1), "a time comes last"),
        (lambda: Extruded(Time(0, 1), 0, 1), "a time comes last"),
        (lambda: Extruded(Ball([0, 0], 1), 0, 1, name="t"), "a time comes last"),
        (lambda: Extruded(Ball([0, 0], 1), 1, 1), "Extruded: lower must be below upper; got 1"),
        (lambda: Extruded(Ball([0, 0], 1), 0, 1, name="x"), "differ"),
        (lambda: Ball([0, 0], 1) * Time(0, 1) * Time(0, 1), "differ"),
        (lambda: 3 * Time(0, 1), "that of a domain"),
        (lambda: Ball([0, 0], 1).contains([0, 0]), r"\[n, 2\]"),
        (lambda: Ball([0, 0], 1).grid((3, 3, 3)), "2 ints"),
        (lambda: Ball([0, 0], 1).split(0), "at least 1"),
        (lambda: Ball([0, 0], 1).interior(5, method="sobol"), "default_rng"),
        (lambda: Box([0, 0], [1, 1]).gauss_legendre((1, 2, 3)), "2 ints"),
        (lambda: Interval(0, 1).gauss_legendre(0), "at least 1"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
