"""DistributedGradientTape against averages computed by hand."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, normal, normals

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError, InputError

N = sp.size()
MEAN = (N - 1) / 2
"""Of the ranks' numbers."""


def shared():
    """Return the variables of the cases, alike on all ranks, and a Keras model."""
    model = keras.Sequential([keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    model.build((None, 3))
    model.set_weights([normals(w.shape, str(i))[0] for i, w in enumerate(model.get_weights())])
    w = tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64)
    return SimpleNamespace(w=w, u=tf.Variable(1.0), v=tf.Variable(2.0), z=tf.Variable(3.0), m=model)


def recorded(loss_of, **options):
    """Return the loss, and a tape that has recorded it; `options` of the distributed one."""
    with tf.GradientTape(persistent=True) as inner:
        loss = loss_of()
    return loss, sp.DistributedGradientTape(inner, **options)


def summed(s, x, rank):
    loss, tape = recorded(lambda: tf.reduce_sum(s.w**2 * x), op=sp.Sum)
    return tape.gradient(loss, [s.w])


def averaged_in_its_own_context(s, x, rank):
    with sp.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(s.w**2 * x)
    return [tape.gradient(loss, s.w)]


def structured(s, x, rank):
    """None stays None, and the structure is kept."""
    loss, tape = recorded(lambda: rank * s.u + tf.cast(s.w[0], tf.float32))
    gradients = tape.gradient(loss, {"a": [s.u, s.v], "b": (s.u,)})
    assert gradients["a"][1] is None and isinstance(gradients["b"], tuple)
    return [gradients["a"][0], gradients["b"][0]]


def unconnected(s, x, rank):
    loss, tape = recorded(lambda: 2 * s.u)
    zero = tf.UnconnectedGradients.ZERO
    return [
        *tape.gradient(loss, [s.u, s.v], unconnected_gradients=zero),
        *tape.gradient(loss, [s.v, s.u], None, "zero"),
    ]


def jacobians(s, x, rank):
    y, tape = recorded(lambda: s.w**2 * x)
    single = tf.cast(rank, tf.float64)
    z, other = recorded(lambda: tf.stack([single * s.w[1] ** 2 / 2, s.w[0]])[:1])
    return [tape.jacobian(y, s.w), other.jacobian(z, {"w": s.w})["w"][0]]


def local(s, x, rank):
    loss, tape = recorded(lambda: rank * (s.u + 2 * s.v + 3 * s.z), local_sources=[s.u])
    tape.register_local_source(s.v)
    own, reduced = tape.get_local_and_global_gradients(loss, {"u": s.u, "rest": (s.z, s.v)})
    assert len(own) == 2 and len(reduced) == 1
    return [*tape.gradient(loss, [s.u, s.v, s.z]), *own, *reduced]


def persistent(s, x, rank):
    with tf.GradientTape(persistent=True) as inner:
        inner.watch(rank)
        first, second = rank * s.z, rank * s.z**2
    tape = sp.DistributedGradientTape(inner)
    return [tape.gradient(first, s.z), tape.gradient(second, s.z), tape.gradient(first, rank)]


def seeded(s, x, rank):
    y, tape = recorded(lambda: s.w**2, op=sp.Sum)
    return [tape.gradient(y, s.w, output_gradients=x)]


def of_keras(s, x, rank):
    points = tf.cast(x, tf.float32)[tf.newaxis]
    loss, tape = recorded(lambda: tf.reduce_sum(s.m(points) ** 2), op=sp.Sum)
    return tape.gradient(loss, s.m.trainable_variables)


def of_keras_in_one_process():
    model, points = shared().m, tf.constant(normals((3,), "x"), tf.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(points) ** 2)
    return tape.gradient(loss, model.trainable_variables)


CASES = {
    summed: lambda x: [2 * np.arange(1, 4) * x.sum(axis=0)],
    averaged_in_its_own_context: lambda x: [2 * np.arange(1, 4) * x.mean(axis=0)],
    structured: lambda x: [MEAN, MEAN],
    unconnected: lambda x: [2.0, 0.0, 0.0, 2.0],
    jacobians: lambda x: [np.diag(2 * np.arange(1, 4) * x.mean(axis=0)), [0, 2 * MEAN, 0]],
    local: lambda x: (
        [sp.rank() / N * k for k in (1, 2)]
        + [3 * MEAN]
        + [sp.rank() / N * k for k in (2, 1)]
        + [3 * MEAN]
    ),
    persistent: lambda x: [MEAN, 6 * MEAN, 3.0],
    seeded: lambda x: [2 * np.arange(1, 4) * x.sum(axis=0)],
    of_keras: lambda x: of_keras_in_one_process(),
}
"""The gradients that a tape computes, and the expected ones given the x of all ranks."""


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_gradients(context):
    """All cases in one function, so that XLA compiles once a context."""
    s = shared()
    run = context(lambda x, rank: [g for case in CASES for g in case(s, x, rank)])
    x = normals((3,), "x")
    found = iter(run(tf.constant(x[sp.rank()]), tf.constant(float(sp.rank()))))
    for case, expected_of in CASES.items():
        for expected, got in zip(expected_of(x), found, strict=False):
            rtol, atol = (1e-13, 1e-15) if got.dtype == tf.float64 else (1e-4, 1e-5)
            np.testing.assert_allclose(got, expected, rtol, atol, err_msg=case.__name__)
    assert next(found, None) is None


def test_nothing_but_none():
    s = shared()
    loss, tape = recorded(lambda: 2 * s.u)
    assert tape.gradient(loss, [s.v]) == [None]


def test_sparse_gradients_of_unknown_length_come_back_dense_from_compiled_functions():
    table = tf.Variable(tf.ones([sp.size() + 1, 2]))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(rows):
        loss, tape = recorded(lambda: tf.reduce_sum(tf.gather(table, rows)), op=sp.Sum)
        return tape.gradient(loss, table)

    gradient = run(tf.fill([sp.rank() + 1], sp.rank()))
    expected = [[r + 1.0] * 2 for r in range(sp.size())] + [[0.0] * 2]
    np.testing.assert_array_equal(gradient, expected)


def test_jacobians_of_samples_are_refused():
    x = tf.constant([[1.0 + sp.rank()]])
    with sp.DistributedGradientTape(tf.GradientTape()) as tape:
        tape.watch(x)
        y = x**2
    with pytest.raises(InputError, match=r"samples.*Call batch_jacobian of the tf.GradientTape"):
        tape.batch_jacobian(y, x)


def test_other_methods_are_the_inner_tapes():
    w, x = tf.Variable(2.0), tf.constant(3.0)
    with sp.DistributedGradientTape(tf.GradientTape()) as tape:
        tape.watch(x)
        y = w * x
    assert [v is w for v in tape.watched_variables()] == [True]
    assert tape.gradient(y, x).numpy() == 2.0


# The options, with gradients that are given

SHAPES = {"a": (3, 2), "b": (4,), "c": ()}

several_ranks = pytest.mark.ranks(least=2, reason="needs several ranks")


def variables():
    return [tf.Variable(tf.zeros(shape, tf.float64)) for shape in SHAPES.values()]


def gradients():
    return [tf.constant(normal(sp.rank(), shape, tag)) for tag, shape in SHAPES.items()]


def means():
    return [normals(shape, tag).mean(axis=0) for tag, shape in SHAPES.items()]


def reduce(given, sources, op=sp.Average, **options):
    """Return the results of a distributed tape whose inner tape gives these gradients."""
    tape = SimpleNamespace(gradient=lambda *_: given)
    return sp.DistributedGradientTape(tape, op, **options).gradient(None, sources)


def counted(given, sources, **options):
    progress = sp.current_world().communicator.progress
    before = progress.sequence
    return reduce(given, sources, **options), progress.sequence - before


def check(got, expected, rtol=1e-13):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol, 1e-15)


@pytest.mark.parametrize("factor", (1.0, 2.5))
def test_average_in_one_transfer(factor):
    got, transfers = counted(gradients(), variables(), gradient_predivide_factor=factor)
    check(got, means())
    assert transfers == (1 if sp.size() > 1 else 0)


@pytest.mark.parametrize(("groups", "transfers"), ((1, 1), (2, 2), (9, 3), ("listed", 2)))
def test_groups_are_transfers(groups, transfers):
    sources = variables()
    if groups == "listed":
        groups = [[sources[2], sources[0]], [tf.Variable(0.0)]]
    got, counted_transfers = counted(gradients(), sources, groups=groups)
    check(got, means())
    assert counted_transfers == (transfers if sp.size() > 1 else 0)


@pytest.mark.parametrize("scale", (True, False))
def test_local_gradients_stay(scale):
    sources = [keras.Variable(v, dtype="float64") for v in variables()]
    local = [sources[0], sources[2].value]
    got = reduce(gradients(), sources, local_sources=local, scale_local_gradients=scale)
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
        reduce(given, sources)


@several_ranks
def test_equally_long_gradients_by_other_variables_are_an_error():
    sources, given = fresh(13)
    sources[1], given[1] = sources[0], given[0]
    given[sp.rank() % 2] = None
    with pytest.raises(CollectiveMismatchError, match="None for 1 of"):
        reduce(given, sources)


@several_ranks
def test_variables_in_another_order_are_an_error():
    sources, given = fresh(14)
    if sp.rank() == 0:
        sources.reverse()
        given.reverse()
    with pytest.raises(CollectiveMismatchError, match=r"3 gradients \(3 tensors of shapes"):
        reduce(given, sources)


def slices():
    """Two rows for each rank, one of which all ranks share."""
    values = tf.constant(normal(sp.rank(), (2, 3), "rows"))
    return tf.IndexedSlices(values, tf.constant([sp.rank(), sp.size()]), [sp.size() + 1, 3])


def dense_sum():
    everyone = normals((2, 3), "rows")
    return np.concatenate([everyone[:, 0], everyone[:, 1].sum(axis=0, keepdims=True)])


def test_slices_are_gathered_or_made_dense_or_stay_local():
    table = tf.Variable(tf.zeros([sp.size() + 1, 3], tf.float64))
    for factor in (1.0, 4.0):
        (got,) = reduce([slices()], [table], gradient_predivide_factor=factor)
        assert isinstance(got, tf.IndexedSlices) and got.values.shape == (2 * sp.size(), 3)
        check([tf.convert_to_tensor(got)], [dense_sum() / sp.size()])
    (got,) = reduce([slices()], [table], sp.Sum, sparse_as_dense=True)
    assert tf.is_tensor(got)
    check([got], [dense_sum()])
    (own,) = reduce([slices()], [table], local_sources=[table])
    check([own.values], [slices().values / sp.size()])


def test_compression_shortens_and_keeps_the_type():
    got = reduce(gradients(), variables(), compression=sp.Compression.fp16)
    assert [g.dtype for g in got] == [tf.float64] * 3
    for one, tag, mean in zip(got, SHAPES, means(), strict=True):
        halves = normals(SHAPES[tag], tag).astype("float16").astype("float64")
        bound = 2.0**-10 * np.abs(halves).mean(axis=0).max()
        np.testing.assert_allclose(one, halves.mean(axis=0), rtol=0, atol=bound)
        assert not np.array_equal(one, mean)


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
    with pytest.raises(InputError, match=f"^DistributedGradientTape.*{says}"):
        sp.DistributedGradientTape(tf.GradientTape(), **options)


def test_a_variable_stands_in_one_group():
    source = tf.Variable(1.0)
    with pytest.raises(InputError, match="twice"):
        sp.DistributedGradientTape(tf.GradientTape(), groups=[[source], [source]])
    with pytest.raises(InputError, match="Expected a tf.Variable"):
        sp.DistributedGradientTape(tf.GradientTape(), groups=[["kernel"]])
