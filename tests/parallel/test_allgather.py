"""allgather against NumPy: even, uneven and empty shares."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, EAGER_FIRST, MOVED, compiled, eager, graph, normal, values
from selection import in_groups

import sciml_par.parallel as sp
from sciml_par.errors import InputError

ROWS = {
    "even": lambda rank: 2,
    "growing": lambda rank: rank + 1,
    "only the last": lambda rank: 3 if rank == sp.size() - 1 else 0,
    "only the first": lambda rank: 0 if rank else 2,
    "none": lambda rank: 0,
}


def stacked(rows, trailing, dtype, tag=""):
    """What allgather must give: the ranks' arrays one below the other."""
    each = [values(r, (rows(r), *trailing), dtype, tag) for r in range(sp.size())]
    return np.concatenate(each)


ROW_SHAPES = ((), (2,), (0,), (2, 1, 3))


@in_groups("context, cases", CONTEXTS, list(itertools.product(MOVED, ROWS, ROW_SHAPES)))
def test_every_type_shape_and_distribution_of_rows(context, cases):
    run = context(lambda *xs: [sp.allgather(x) for x in xs])
    rank = sp.rank()
    mine = [values(rank, (ROWS[name](rank), *row), dtype) for dtype, name, row in cases]
    for result, case in zip(run(*map(tf.constant, mine)), cases, strict=True):
        dtype, name, row = case
        expected = stacked(ROWS[name], row, dtype)
        assert result.dtype == dtype and result.shape == expected.shape, f"{case}"
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=f"{case}")


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_many_rows(context):
    def rows(rank):
        return 200_000 + rank

    x = tf.constant(values(sp.rank(), (rows(sp.rank()), 2), "float32"))
    (result,) = context(lambda x: [sp.allgather(x)])(x)
    np.testing.assert_array_equal(result.numpy(), stacked(rows, (2,), "float32"))


def test_rows_may_change_from_call_to_call():
    for shift in range(3):

        def rows(rank, shift=shift):
            return (rank + shift) % 3

        x = values(sp.rank(), (rows(sp.rank()), 2), "float64", str(shift))
        np.testing.assert_array_equal(
            sp.allgather(x).numpy(), stacked(rows, (2,), "float64", str(shift))
        )


def test_values_may_change_where_rows_do_not():
    """A compiled call keeps its buffers; they must not keep what was in them."""
    gather = tf.function(sp.allgather, jit_compile=True)
    for step in range(3):
        result = gather(tf.constant(normal(sp.rank(), (2,), f"step {step}")))
        expected = np.concatenate([normal(r, (2,), f"step {step}") for r in range(sp.size())])
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_a_scalar_is_refused(context):
    with pytest.raises(InputError, match=r"got a scalar. Reshape it to \[1\]"):
        context(lambda: [sp.allgather(tf.constant(1.0))])()


def test_strings_are_refused():
    with pytest.raises(InputError, match="allgather: cannot carry elements of type string"):
        sp.allgather(tf.constant(["a"]))


def test_autograph_leaves_it_alone_in_an_eager_map(caplog):
    """It would find no source of what MPI's functions do, and say so."""
    rows = tf.fill([3, 2, 1], float(sp.rank()))
    with caplog.at_level("WARNING", "tensorflow"):
        tf.get_logger().addHandler(caplog.handler)
        try:
            result = tf.map_fn(sp.allgather, rows)
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert "AutoGraph" not in caplog.text
    expected = np.repeat(np.arange(sp.size(), dtype="float32"), 2)[:, None]
    np.testing.assert_array_equal(result, np.stack([expected] * 3))
