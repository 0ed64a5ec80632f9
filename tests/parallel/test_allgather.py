"""allgather against NumPy: even, uneven and empty shares."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, MOVED, compiled, eager, graph, normal, values

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


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_type_with_uneven_rows(context):
    rows = ROWS["growing"]
    run = context(lambda *xs: [sp.allgather(x) for x in xs])
    rank = sp.rank()
    results = run(*[tf.constant(values(rank, (rows(rank), 3), dtype)) for dtype in MOVED])
    for result, dtype in zip(results, MOVED, strict=True):
        expected = stacked(rows, (3,), dtype)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=dtype)


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_shape_and_distribution_of_rows(context):
    cases = [(name, trailing) for name in ROWS for trailing in ((), (2,), (0,), (2, 1, 3))]
    run = context(lambda *xs: [sp.allgather(x) for x in xs])
    rank = sp.rank()
    results = run(*[tf.constant(values(rank, (ROWS[n](rank), *t), "float64")) for n, t in cases])
    for result, (name, trailing) in zip(results, cases, strict=True):
        expected = stacked(ROWS[name], trailing, "float64")
        assert result.shape == expected.shape, f"{name} {trailing}"
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=f"{name} {trailing}")


@pytest.mark.parametrize("context", (eager, graph, compiled))
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


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_a_scalar_is_refused(context):
    with pytest.raises(InputError, match=r"got a scalar. Reshape it to \[1\]"):
        context(lambda: [sp.allgather(tf.constant(1.0))])()


def test_strings_are_refused():
    with pytest.raises(InputError, match="allgather: cannot carry elements of type string"):
        sp.allgather(tf.constant(["a"]))
