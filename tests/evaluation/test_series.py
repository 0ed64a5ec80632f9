"""The plain data that figures are drawn from: what is accepted, and what is refused."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import LossCurve, Prediction, Shard

X = np.linspace(0.0, 1.0, 5)


def test_vectors_become_columns_of_float64():
    curve = Prediction("a", X.astype(np.float32), X, u_exact=X[:, None])
    assert curve.x.shape == curve.u.shape == curve.u_exact.shape == (5, 1)
    assert curve.x.dtype == curve.u.dtype == np.float64
    assert (curve.dimension, curve.components) == (1, 1)


def test_the_callers_array_is_copied_and_the_copy_is_read_only():
    u, loss = X.copy(), X.copy()
    curve, losses = Prediction("a", X, u), LossCurve("a", X, loss)
    u[0] = loss[0] = 9.0
    assert curve.u[0, 0] == 0.0 and losses.loss[0] == 0.0
    for array in (curve.x, curve.u, losses.step, losses.loss):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_values_that_are_not_finite_are_kept_but_not_in_x():
    assert np.isnan(Prediction("a", X, X * np.nan).u).all()
    assert np.isinf(LossCurve("a", [0], [np.inf]).loss).all()
    with pytest.raises(InputError, match="x: expected finite"):
        Prediction("a", X * np.nan, X)


@pytest.mark.parametrize(
    ("x", "u", "u_exact"),
    [
        (X, X[:-1], None),
        (X, X[None, :], None),
        (np.empty((0, 1)), np.empty((0, 1)), None),
        (X, X, X[:-1]),
        (X, X, np.ones((5, 2))),
        (X, np.ones((5, 1, 1)), None),
        (X, np.ones((5, 0)), None),
        (X, X * 1j, None),
    ],
)
def test_shapes_that_do_not_agree_are_refused(x, u, u_exact):
    with pytest.raises(InputError, match="Prediction 'a'"):
        Prediction("a", x, u, u_exact)


@pytest.mark.parametrize("label", ["", "  ", "_hidden", 3])
def test_labels_that_a_legend_cannot_show_are_refused(label):
    for make in (Shard, lambda name: Prediction(name, X, X), lambda name: LossCurve(name, X, X)):
        with pytest.raises(InputError, match="label"):
            make(label)


@pytest.mark.parametrize(
    "sub_domain",
    [(1.0, 0.0), (0.0, 0.0), (0.0, np.nan), (-np.inf, 0.0), (0.0,), 3.0, ((0.0, 0.0), 1.0)],
)
def test_bad_sub_domains_are_refused(sub_domain):
    with pytest.raises(InputError, match="Shard 'a', sub_domain"):
        Shard("a", sub_domain=sub_domain)


def test_an_empty_shard_is_a_shard():
    shard = Shard("a", training_points=np.empty((0, 1)), sub_domain=(0.0, 1.0))
    assert Prediction("a", X, X, shards=(shard,)).trained.all()


def test_shards_of_another_dimension_are_refused():
    with pytest.raises(InputError, match="d = 2"):
        Prediction("a", X, X, shards=(Shard("b", training_points=np.ones((3, 2))),))
    with pytest.raises(InputError, match="tuple of Shard"):
        Prediction("a", X, X, shards=Shard("b"))


def test_trained_marks_the_points_inside_any_sub_domain():
    parts = (Shard("a", sub_domain=(0.0, 0.25)), Shard("b", sub_domain=(0.75, 1.0)))
    trained = Prediction("a", X, X, shards=parts).trained
    np.testing.assert_array_equal(trained, [True, True, False, True, True])
    unknown = Prediction("a", X, X, shards=(*parts, Shard("c"))).trained
    assert unknown.all()


@pytest.mark.parametrize(
    ("step", "loss"),
    [([0, 1], [1.0]), ([], []), ([[0]], [[1.0]]), ([1, 0], [1, 1]), ([np.nan], [1])],
)
def test_bad_loss_curves_are_refused(step, loss):
    with pytest.raises(InputError, match="LossCurve 'a'"):
        LossCurve("a", step, loss)
