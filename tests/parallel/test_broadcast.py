"""broadcast against NumPy: every type, every root."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, EAGER_FIRST, MOVED, TYPE_CONTEXTS, compiled, eager, graph, values

import sciml_par.parallel as sp
from sciml_par.errors import InputError


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_type_from_every_root(context):
    cases = [(dtype, i % sp.size()) for i, dtype in enumerate(MOVED)]
    cases += [("float64", root) for root in range(sp.size())]
    run = context(
        lambda *xs: [sp.broadcast(x, root) for x, (_, root) in zip(xs, cases, strict=True)]
    )
    results = run(*[tf.constant(values(sp.rank(), (2, 3), t, str(root))) for t, root in cases])
    for result, (dtype, root) in zip(results, cases, strict=True):
        expected = values(root, (2, 3), dtype, str(root))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=f"{dtype} from {root}")


@pytest.mark.parametrize("context", TYPE_CONTEXTS)
def test_every_shape(context):
    root = sp.size() - 1
    shapes = [(), (0,), (1,), (3, 0), (5,), (2, 1, 3)]
    run = context(lambda *xs: [sp.broadcast(x, root) for x in xs])
    results = run(*[tf.constant(values(sp.rank(), shape, "float64")) for shape in shapes])
    for result, shape in zip(results, shapes, strict=True):
        assert result.shape == shape
        np.testing.assert_array_equal(result.numpy(), values(root, shape, "float64"))


def test_rank_0_is_the_default_root():
    x = tf.constant(values(sp.rank(), (8,), "float64"))
    np.testing.assert_array_equal(sp.broadcast(x).numpy(), values(0, (8,), "float64"))


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_a_million_elements(context):
    x = tf.constant(values(sp.rank(), (1_000_000,), "float32"))
    (result,) = context(lambda x: [sp.broadcast(x, sp.size() - 1)])(x)
    expected = values(sp.size() - 1, (1_000_000,), "float32")
    np.testing.assert_array_equal(result.numpy(), expected)


def test_the_input_stays_as_it_was():
    x = tf.constant(values(sp.rank(), (64,), "float64"))
    for context in (eager, graph, compiled):
        _, kept = context(lambda x: [sp.broadcast(x, sp.size() - 1), x + 0.0])(x)
        np.testing.assert_array_equal(kept.numpy(), values(sp.rank(), (64,), "float64"))
        np.testing.assert_array_equal(x.numpy(), values(sp.rank(), (64,), "float64"))


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
@pytest.mark.parametrize("beyond", (-1, 0))
def test_a_root_that_does_not_exist(context, beyond):
    root = beyond if beyond < 0 else sp.size()
    with pytest.raises(InputError, match=rf"among ranks 0..{sp.size() - 1}; got {root}"):
        context(lambda: [sp.broadcast(tf.constant(1.0), root)])()


@pytest.mark.parametrize("root", ("0", 0.0, None))
def test_a_root_that_is_no_number_of_a_rank(root):
    with pytest.raises(InputError, match="broadcast: expected root among ranks"):
        sp.broadcast(tf.constant(1.0), root)


def test_strings_are_refused():
    with pytest.raises(InputError, match="broadcast: cannot carry elements of type string"):
        sp.broadcast(tf.constant(["a"]))
