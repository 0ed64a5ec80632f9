"""Boxes and intervals: their points, parts and faces."""

import pickle

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import Box, Interval

BOXES = [Interval(-1, 1), Box([0, 0], [3, 1]), Box([-1, 0, 2], [0, 0.5, 5])]


def test_properties():
    box = Box([0, -1], [2, 3])
    assert (box.dimension, box.volume) == (2, 8.0)
    assert box.lower.dtype == box.upper.dtype == np.float64
    np.testing.assert_array_equal(box.extent, [2, 4])
    assert Interval(0, 1) == Box([0], [1])
    assert hash(Interval(0, 1)) == hash(Box(0, 1))
    assert Interval(0, 1) != Interval(0, 2)
    assert Interval(0, 1) != "Interval"
    assert pickle.loads(pickle.dumps(box)) == box
    assert eval(repr(box)) == box
    assert eval(repr(Interval(-1, 1))) == Interval(-1, 1)
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 5.0
    with pytest.raises(AttributeError):
        box.upper = 5.0


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (1, 1, "below upper"),
        (2, 1, "below upper"),
        ([0, 0], [1, 0], "axis 1"),
        (np.nan, 1, "finite"),
        (0, np.inf, "finite"),
        ([0, 0], [1], "2 and 1"),
        ([[0]], [[1]], "one finite number per axis"),
        ([], [], "one finite number per axis"),
        ("a", 1, "number"),
        (None, 1, "real numbers"),
        (1j, 2, "number"),
    ],
)
def test_bad_bounds(lower, upper, message):
    with pytest.raises(InputError, match=message):
        Box(lower, upper)


def test_an_interval_is_one_dimensional():
    with pytest.raises(InputError, match="use Box"):
        Interval([0, 0], [1, 1])


def test_contains_is_closed():
    box = Box([0, 0], [1, 2])
    x = [[0, 0], [1, 2], [0.5, 2.1], [-1e-12, 1], [0.5, 0.5]]
    np.testing.assert_array_equal(box.contains(x), [True, True, False, False, True])
    assert box.contains(np.empty((0, 2))).shape == (0,)
    with pytest.raises(InputError, match=r"\[n, 2\]"):
        box.contains([0.5, 0.5])


def test_grid_in_one_dimension():
    x = Interval(-1, 1).grid(5)
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, [[-1], [-0.5], [0], [0.5], [1]])
    assert Interval(0.1, 0.7).grid(1000)[-1, 0] == 0.7
    for n in range(2, 300):
        assert len(Interval(-1, 2).grid(n)) == n


def test_grid_in_several_dimensions():
    x = Box([0, 0], [1, 2]).grid((2, 3))
    np.testing.assert_array_equal(x, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    assert Box([0, 0], [1, 1]).grid(100).shape == (100, 2)
    assert Box([0, 0], [4, 1]).grid(400).shape == (400, 2)
    long = Box([0, 0], [1000, 1]).grid(100)
    assert long.shape == (100, 2)
    assert Box([0] * 3, [1] * 3).grid(1000).shape == (1000, 3)
    for box in BOXES:
        x = box.grid(200)
        assert abs(len(x) - 200) <= 40
        assert len(np.unique(x, axis=0)) == len(x)
        np.testing.assert_array_equal(x.min(axis=0), box.lower)
        np.testing.assert_array_equal(x.max(axis=0), box.upper)


@pytest.mark.parametrize("n", [1, 0, -3, 2.5, "5", True, None, (2, 2, 2), (2, 1), (2, 2.5)])
def test_bad_grids(n):
    with pytest.raises(InputError, match="grid"):
        Box([0, 0], [1, 1]).grid(n)


def test_stratified_samples_fill_every_stratum():
    for method in ("sobol", "latin-hypercube"):
        cells = np.floor(Interval(0, 32).sample(32, seed=3, method=method)[:, 0])
        np.testing.assert_array_equal(np.sort(cells), np.arange(32))


def test_bad_samples():
    with pytest.raises(InputError, match="method"):
        Interval(0, 1).sample(3, seed=0, method="grid")
    with pytest.raises(InputError, match="n must be"):
        Interval(0, 1).sample(-1, seed=0)
    for seed in (-1, 0.5, None):
        with pytest.raises(InputError, match="seed"):
            Interval(0, 1).sample(3, seed=seed)


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
@pytest.mark.parametrize("box", [*BOXES, Interval(0.1, 0.7), Interval(-1e6, 1e6 + 1)])
def test_split_tiles_exactly(box, parts):
    slabs = box.split(parts)
    assert len(slabs) == parts
    axis = int(np.argmax(box.extent))
    others = [i for i in range(box.dimension) if i != axis]
    assert slabs[0].lower[axis] == box.lower[axis]
    assert slabs[-1].upper[axis] == box.upper[axis]
    for left, right in zip(slabs[:-1], slabs[1:], strict=True):
        assert left.upper[axis] == right.lower[axis]
    for slab in slabs:
        np.testing.assert_array_equal(slab.lower[others], box.lower[others])
        np.testing.assert_array_equal(slab.upper[others], box.upper[others])
        np.testing.assert_allclose(slab.extent[axis], box.extent[axis] / parts, rtol=1e-9)
    np.testing.assert_allclose(sum(s.volume for s in slabs), box.volume, rtol=1e-12)


def test_parts_of_an_interval_are_intervals():
    assert all(isinstance(part, Interval) for part in Box([0], [1]).split(3))


@pytest.mark.parametrize("parts", [0, -1, 1.0, 2.5, "2", None, True])
def test_bad_numbers_of_parts(parts):
    with pytest.raises(InputError, match="parts must be an integer of at least 1"):
        Interval(0, 1).split(parts)


def test_parts_that_are_too_thin():
    interval = Interval(1000, 1000.1)
    with pytest.raises(InputError, match="at most 52 make sense"):
        interval.split(1000)
    slabs = interval.split(52)
    for slab in slabs:
        assert len(np.unique(slab.grid(8).astype(np.float32))) == 8
    with pytest.raises(InputError, match="at most 52"):
        interval.split(53)
    assert Interval(1000, 1000.000001).split(1) == (Interval(1000, 1000.000001),)


def test_boundary_of_an_interval():
    x, normals = Interval(-1, 2).boundary(100)
    np.testing.assert_array_equal(x, [[-1], [2]])
    np.testing.assert_array_equal(normals, [[-1], [1]])


def test_every_face_has_a_point():
    x, normals = Box([0, 0], [1, 1]).boundary(1)
    assert len(x) == 4
    assert len(np.unique(normals, axis=0)) == 4
    with pytest.raises(InputError, match="boundary"):
        Box([0, 0], [1, 1]).boundary(0)


def test_random_points_of_the_boundary_are_equally_many_on_each_face():
    box = Box([0, -1, 2], [1, 1, 6])
    for method in ("uniform", "latin-hypercube", "sobol", "halton"):
        x, normals = box.boundary(280, method=method, rng=np.random.default_rng(3))
        assert len(x) == len(normals) == 280
        assert box.contains(x).all()
        np.testing.assert_array_equal(box.outward_normals(x), normals)
        per_face = [np.count_nonzero(normals[:, axis] == 1.0) for axis in range(3)]
        assert all(count in (46, 47) for count in per_face), method  # of areas 8, 4 and 2
        mean = x[normals[:, 0] == 1.0].mean(axis=0)
        assert np.all(np.abs(mean - [1, 0, 4]) < [1e-12, 0.25, 0.5]), method


def test_the_initial_points_are_those_of_the_least_last_coordinate():
    box = Box([0, 0], [2, 1])
    for method in ("grid", "sobol"):
        x, normals = box.initial(7, method=method, rng=np.random.default_rng(0))
        assert len(x) == 7 and np.all(x[:, 1] == 0) and np.all(normals == [0, -1])
        x, _ = box.boundary(39, method=method, rng=np.random.default_rng(0), with_initial=False)
        assert len(x) == 39 and not np.any(x[:, 1] == 0)
    assert Interval(3, 4).initial(5)[0].tolist() == [[3.0]]
    assert Interval(3, 4).boundary(5, with_initial=False)[0].tolist() == [[4.0]]


def test_interior_points_by_name():
    box = Box([0, 0], [2, 1])
    np.testing.assert_array_equal(box.interior((3, 4)), box.grid((3, 4)))
    assert box.grid_shape(50) == [7, 7]
    sobol = box.interior(16, method="Sobol", rng=np.random.default_rng(5))
    np.testing.assert_array_equal(sobol, box.sample(16, seed=5))
    for name in ("LHS", "latin_hypercube", "Latin Hypercube"):
        x = box.interior(10, method=name, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(np.sort(np.floor(5 * x[:, 0])), np.arange(10))
    with pytest.raises(InputError, match="'halton' in place of Hammersley"):
        box.interior(10, method="Hammersley", rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="grid, uniform, latin-hypercube, sobol, halton; got 3"):
        box.interior(10, method=3)
    with pytest.raises(InputError, match="needs rng=np.random.default_rng"):
        box.interior(10, method="random")


def test_sobol_points_of_two_seeds_are_both_balanced_and_differ():
    box = Box([0, 0], [8, 8])
    for seed in (0, 1):
        x = box.sample(64, seed=seed)
        cells = 8 * np.floor(x[:, 0]) + np.floor(x[:, 1])
        np.testing.assert_array_equal(np.sort(cells), np.arange(64))
    assert not np.array_equal(x, box.sample(64, seed=0))


def test_points_that_rounding_has_moved_are_found_on_their_faces():
    box = Box([0.1, 0.0], [0.8, 1.0])
    x = np.array([[0.8, 0.5], [0.1, 0.2], [0.3, 1.0]], np.float32)
    assert not box.contains(x).all()
    assert box.contains(box.snap(x)).all()
    np.testing.assert_allclose(box.outward_normals([[0.8, 1.0]]), [[0.5**0.5, 0.5**0.5]])
