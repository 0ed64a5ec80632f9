"""GradientReduction: its options, against results computed by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import normal, normals

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.gradients.reduction import GradientReduction

SHAPES = {"a": (3, 2), "b": (4,), "c": ()}

several_ranks = pytest.mark.skipif(sp.size() == 1, reason="needs several ranks")


def variables():
    return [tf.Variable(tf.zeros(shape, tf.float64)) for shape in SHAPES.values()]


def gradients():
    return [tf.constant(normal(sp.rank(), shape, tag)) for tag, shape in SHAPES.items()]


def means():
    return [normals(shape, tag).mean(axis=0) for tag, shape in SHAPES.items()]


def counted(reduction, given, sources):
    communicator = sp.current_world().communicator
    before = communicator.progress.sequence
    return reduction.reduce(given, sources), communicator.progress.sequence - before


def check(got, expected, rtol=1e-13):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol, 1e-15)


@pytest.mark.parametrize("factor", (1.0, 2.5))
def test_average_in_one_transfer(factor):
    reduction = GradientReduction(gradient_predivide_factor=factor)
    got, transfers = counted(reduction, gradients(), variables())
    check(got, means())
    assert transfers == (1 if sp.size() > 1 else 0)


@pytest.mark.parametrize(("groups", "transfers"), ((1, 1), (2, 2), (9, 3), ("listed", 2)))
def test_groups_are_transfers(groups, transfers):
    sources = variables()
    if groups == "listed":
        groups = [[sources[2], sources[0]], [tf.Variable(0.0)]]
    got, counted_transfers = counted(GradientReduction(groups=groups), gradients(), sources)
    check(got, means())
    assert counted_transfers == (transfers if sp.size() > 1 else 0)


@pytest.mark.parametrize("scale", (True, False))
def test_local_gradients_stay(scale):
    sources = [keras.Variable(v, dtype="float64") for v in variables()]
    reduction = GradientReduction(scale_local_gradients=scale).with_local(sources[0])
    reduction = reduction.with_local(sources[2].value)
    got = reduction.reduce(gradients(), sources)
    mine, factor = gradients(), 1 / sp.size() if scale else 1
    check(got, [mine[0] * factor, means()[1], mine[2] * factor])


def fresh(length):
    """Three sources, and gradients, of a length that no other test has.

    Ranks compare what they ask for when they ask for the first time.
    """
    sources = [tf.Variable(tf.zeros([length, i + 1])) for i in range(3)]
    return sources, [tf.ones_like(source) for source in sources]


@several_ranks
@pytest.mark.parametrize("missing", ((1,), (0, 1, 2)))
def test_other_gradients_on_one_rank_are_an_error_on_all(missing):
    sources, given = fresh(10 + len(missing))
    if sp.rank() == sp.size() - 1:
        given = [None if i in missing else g for i, g in enumerate(given)]
    numbers = ", ".join(map(str, missing))
    with pytest.raises(CollectiveMismatchError, match=f"3 gradients.*, None for {numbers} of"):
        GradientReduction().reduce(given, sources)


@several_ranks
def test_equally_long_gradients_by_other_variables_are_an_error():
    sources, given = fresh(13)
    sources[1], given[1] = sources[0], given[0]
    given[sp.rank() % 2] = None
    with pytest.raises(CollectiveMismatchError, match="None for 1 of"):
        GradientReduction().reduce(given, sources)


@several_ranks
def test_variables_in_another_order_are_an_error():
    sources, given = fresh(14)
    if sp.rank() == 0:
        sources.reverse()
        given.reverse()
    with pytest.raises(CollectiveMismatchError, match=r"3 gradients \(3 tensors of shapes"):
        GradientReduction().reduce(given, sources)


def slices():
    """Two rows for each rank, one of which all ranks share."""
    values = tf.constant(normal(sp.rank(), (2, 3), "rows"))
    return tf.IndexedSlices(values, tf.constant([sp.rank(), sp.size()]), [sp.size() + 1, 3])


def dense_sum():
    everyone = normals((2, 3), "rows")
    return np.concatenate([everyone[:, 0], everyone[:, 1].sum(axis=0, keepdims=True)])


@pytest.mark.parametrize("factor", (1.0, 4.0))
def test_slices_are_gathered(factor):
    table = tf.Variable(tf.zeros([sp.size() + 1, 3], tf.float64))
    reduction = GradientReduction(gradient_predivide_factor=factor)
    (got,) = reduction.reduce([slices()], [table])
    assert isinstance(got, tf.IndexedSlices) and got.values.shape == (2 * sp.size(), 3)
    check([tf.convert_to_tensor(got)], [dense_sum() / sp.size()])


def test_slices_can_be_made_dense_and_stay_local():
    table = tf.Variable(tf.zeros([sp.size() + 1, 3], tf.float64))
    (got,) = GradientReduction(sp.Sum, sparse_as_dense=True).reduce([slices()], [table])
    assert tf.is_tensor(got)
    check([got], [dense_sum()])
    (own,) = GradientReduction().with_local(table).reduce([slices()], [table])
    check([own.values], [slices().values / sp.size()])


def test_compression_shortens_and_keeps_the_type():
    got = GradientReduction(compression=sp.Compression.fp16).reduce(gradients(), variables())
    assert [g.dtype for g in got] == [tf.float64] * 3
    for one, tag, mean in zip(got, SHAPES, means(), strict=True):
        halves = normals(SHAPES[tag], tag).astype("float16").astype("float64")
        bound = 2.0**-10 * np.abs(halves).mean(axis=0).max()
        np.testing.assert_allclose(one, halves.mean(axis=0), rtol=0, atol=bound)
        assert not np.array_equal(one, mean)


def test_adasum_adds_what_is_orthogonal_and_averages_what_is_not():
    unit = np.zeros(sp.size())
    unit[sp.rank()] = sp.rank() + 1.0
    sources = [tf.Variable(unit), tf.Variable(unit)]
    given = [tf.constant(unit), tf.ones([sp.size()], tf.float64)]
    got = GradientReduction(sp.Adasum).reduce(given, sources)
    check(got, [np.arange(1, sp.size() + 1), np.ones(sp.size())])


@pytest.mark.parametrize(
    ("options", "says"),
    (
        ({"op": sp.Max}, "Average, Sum or Adasum"),
        ({"gradient_predivide_factor": 0}, "positive number"),
        ({"gradient_predivide_factor": 2.0, "op": sp.Sum}, "Use Average"),
        ({"groups": 0}, "integer ≥ 1"),
        ({"groups": ["kernel"]}, "lists of variables"),
        ({"compression": "fp16"}, "Compression.fp16"),
    ),
)
def test_options_that_make_no_sense(options, says):
    with pytest.raises(InputError, match=f"^gradients.*{says}"):
        GradientReduction(**options)


def test_a_variable_stands_in_one_group():
    source = tf.Variable(1.0)
    with pytest.raises(InputError, match="twice"):
        GradientReduction(groups=[[source], [source]])
    with pytest.raises(InputError, match="Expected a tf.Variable"):
        GradientReduction(groups=[["kernel"]])
