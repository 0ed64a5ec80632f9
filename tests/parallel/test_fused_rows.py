"""fused_allgather and fused_reducescatter: as one by one, in one transfer per element type."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, all_values, compiled, eager, values
from reductions import reduced

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.groups.call_site import PreparedCall

GATHERED = [
    ("float64", lambda rank: rank + 1, (2,)),
    ("int32", lambda rank: 2 * rank, ()),
    ("float64", lambda rank: 0, (3,)),
    ("float64", lambda rank: 0 if rank else 2, ()),
    ("bool", lambda rank: 2, (1, 2)),
    ("float64", lambda rank: 1, (0,)),
    ("int32", lambda rank: 1, (2, 2)),
]
"""Type, rows of a rank, shape of a row."""

SCATTERED = [
    ("float64", (5, 2)),
    ("int32", (3,)),
    ("float64", (1,)),
    ("float64", (0, 2)),
    ("bfloat16", (6,)),
    ("float64", (4, 0)),
    ("int32", (4, 2)),
]


def gathered_from(rank):
    return [
        values(rank, (rows(rank), *row), t, f"{i}") for i, (t, rows, row) in enumerate(GATHERED)
    ]


def own_part(whole):
    return np.array_split(whole, sp.size())[sp.rank()]


@pytest.fixture
def transfers(monkeypatch):
    made = []
    execute = PreparedCall.execute

    def noting(self, *addresses):
        made.append((self.request.signature.kind, self.request.dtype))
        execute(self, *addresses)

    monkeypatch.setattr(PreparedCall, "execute", noting)
    return made


@pytest.mark.parametrize("context", CONTEXTS)
def test_fused_allgather(context, transfers):
    run = context(lambda *xs: sp.fused_allgather(xs))
    results = run(*map(tf.constant, gathered_from(sp.rank())))
    everyone = [gathered_from(rank) for rank in range(sp.size())]
    for result, parts in zip(results, zip(*everyone, strict=True), strict=True):
        expected = np.concatenate(parts)
        assert result.dtype == expected.dtype and result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)
    if context is eager and sp.size() > 1:  # the first is the exchange of all numbers of rows
        assert transfers == [("allgather", t) for t in ("int64", "float64", "int32", "bool")]


@pytest.mark.parametrize("context", CONTEXTS)
def test_fused_reducescatter(context, transfers):
    run = context(lambda *xs: sp.fused_reducescatter(xs, sp.Sum))
    mine = [values(sp.rank(), shape, t, f"{i}") for i, (t, shape) in enumerate(SCATTERED)]
    results = run(*map(tf.constant, mine))
    for i, (result, (dtype, shape)) in enumerate(zip(results, SCATTERED, strict=True)):
        expected = own_part(reduced(all_values(shape, dtype, f"{i}"), sp.Sum))
        assert result.dtype == dtype and result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)
    if context is eager and sp.size() > 1:
        assert transfers == [("reducescatter", t) for t in ("float64", "int32", "bfloat16")]


def test_nothing_to_fuse():
    assert sp.fused_allgather([]) == sp.fused_reducescatter([]) == []


@pytest.mark.parametrize("context", (eager, compiled))
def test_gradients_are_those_of_one_by_one(context):
    def fused(x, y):
        return [*sp.fused_allgather([x, y]), *sp.fused_reducescatter([y, x[:1], y], sp.Max)]

    def one_by_one(x, y):
        return [
            *(sp.allgather(x), sp.allgather(y)),
            *(sp.reducescatter(each, sp.Max) for each in (y, x[:1], y)),
        ]

    def gradients(collectives, x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            results = collectives(x, y)
            loss = tf.add_n([(i + 1) * tf.reduce_sum(z**3) for i, z in enumerate(results)])
            loss *= sp.rank() + 1.0
        return tape.gradient(loss, [x, y])

    x = tf.constant(values(sp.rank(), (sp.rank() + 1, 2), "float64", "x"))
    y = tf.constant(values(sp.rank(), (3,), "float64", "y"))
    results = context(lambda x, y: gradients(fused, x, y))(x, y)
    for result, expected in zip(results, gradients(one_by_one, x, y), strict=True):
        np.testing.assert_allclose(result, expected, 1e-12)


def test_unknown_shapes_in_a_graph():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float64)])
    def run(x):
        return [*sp.fused_allgather([x, x[:, 0]]), *sp.fused_reducescatter([x, tf.ones([3])])]

    x = all_values((4, 2), "float64", "open")
    whole, column, part, ones = run(tf.constant(x[sp.rank()]))
    np.testing.assert_array_equal(whole, np.concatenate(x))
    np.testing.assert_array_equal(column, np.concatenate(x)[:, 0])
    np.testing.assert_allclose(part, own_part(x.mean(axis=0)), 1e-13, 1e-14)
    np.testing.assert_array_equal(ones, own_part(np.ones(3)))


@pytest.mark.skipif("sp.size() == 1", reason="one rank always agrees with itself")
def test_other_shapes_on_one_rank():
    columns = 3 if sp.rank() == sp.size() - 1 else 2
    with pytest.raises(CollectiveMismatchError) as error:
        sp.fused_allgather([tf.ones([1]), tf.ones([2, columns])])
    for signature in ("rows of allgather(float32 [any]; float32 [any, 2])", "float32 [any, 3])"):
        assert signature in str(error.value)
    assert sp.allreduce(sp.rank(), sp.Max).numpy() == sp.size() - 1


def test_what_has_no_meaning():
    with pytest.raises(InputError, match=r"^allgather: .*got a scalar"):
        sp.fused_allgather([tf.ones([2]), tf.constant(1.0)])
    with pytest.raises(InputError, match=r"^reducescatter: .*got a scalar"):
        sp.fused_reducescatter([tf.ones([2]), tf.constant(1.0)])
    for scatter in (sp.reducescatter, lambda x, op: sp.fused_reducescatter([x], op)):
        with pytest.raises(InputError, match="Adasum is an operation of allreduce alone"):
            scatter(tf.ones([2]), sp.Adasum)
