"""Every collective against NumPy: operation × element type × context, on data that differ by rank.

So are all of them by every transport, in eager code. Other properties are in test_alltoall.py,
test_adasum.py, test_sparse.py and test_fusion.py, invalid arguments in test_refused.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from ranks import (
    CONTEXTS,
    EAGER_FIRST,
    FLOATS,
    MOVED,
    THREE_CONTEXTS,
    eager,
    normal,
    normals,
    numpy_type,
    same_on_all_ranks,
    values,
)
from reductions import OPERATIONS, WITHOUT_MEANING, assert_same, own_part, reduced
from transports import TRANSPORTS, device_of

import sciml_par.parallel as sp


class Collective(NamedTuple):
    """A collective, its input and its result.

    Attributes
    ----------
    call : takes the tensor and options.
    rows : the number of rows of rank r of n.
    expected : the result of a rank, given the inputs of all.
    types : the element types for which it has a meaning.
    whole : whether the input may have any shape, not only rows.
    """

    call: Callable[..., Any]
    rows: Callable[[int, int], int]
    expected: Callable[[Sequence[np.ndarray], int], np.ndarray]
    types: Sequence[str] = MOVED
    whole: bool = False


GATHERED = {
    "even": lambda r, n: 2,
    "growing": lambda r, n: r + 1,
    "only the last": lambda r, n: 3 if r == n - 1 else 0,
    "only the first": lambda r, n: 0 if r else 2,
    "none": lambda r, n: 0,
}
SCATTERED = {
    "even": lambda r, n: 2 * n,
    "one too few": lambda r, n: 3 * n - 1,
    "fewer than ranks": lambda r, n: n - 1,
    "one": lambda r, n: 1,
    "none": lambda r, n: 0,
}
EXCHANGED = {
    "even": lambda giver, taker, n: 2,
    "uneven": lambda giver, taker, n: (giver + 2 * taker) % 4,
    "to the next": lambda giver, taker, n: 3 if taker == (giver + 1) % n else 0,
    "to oneself": lambda giver, taker, n: giver + 1 if taker == giver else 0,
    "all to the last": lambda giver, taker, n: giver + 1 if taker == n - 1 else 0,
    "all from the first": lambda giver, taker, n: 0 if giver else taker + 2,
    "none": lambda giver, taker, n: 0,
}
"""How many rows a rank has for another."""


def reductions() -> dict[str, Collective]:
    found = {}
    for op in OPERATIONS:
        types = [t for t in MOVED if (t, op) not in WITHOUT_MEANING]
        found[f"allreduce {op.value}"] = Collective(
            lambda x, op=op, **on: sp.allreduce(x, op, **on),
            lambda r, n: 3,
            lambda xs, me, op=op: reduced(np.stack(xs), op),
            types,
            whole=True,
        )
        found[f"reducescatter {op.value}"] = Collective(
            lambda x, op=op, **on: sp.reducescatter(x, op, **on),
            lambda r, n: 2 * n + 1,
            lambda xs, me, op=op: np.array_split(reduced(np.stack(xs), op), len(xs))[me],
            types,
        )
    mean = found["reducescatter Average"]
    for name, rows in SCATTERED.items():
        found[f"reducescatter of rows: {name}"] = mean._replace(rows=rows, types=FLOATS)
    return found


def exchange(number) -> Collective:
    def splits(giver, n):
        return [number(giver, taker, n) for taker in range(n)]

    def expected(xs, me):
        each = [np.split(x, np.cumsum(splits(r, len(xs)))[:-1]) for r, x in enumerate(xs)]
        return np.concatenate([parts[me] for parts in each])

    return Collective(
        lambda x, **on: sp.alltoall(x, splits(sp.rank(), sp.size()), **on)[0],
        lambda r, n: sum(splits(r, n)),
        expected,
    )


COLLECTIVES = reductions()
for _root in range(sp.size()):
    COLLECTIVES[f"broadcast from {_root}"] = Collective(
        lambda x, root=_root, **on: sp.broadcast(x, root, **on),
        lambda r, n: 2,
        lambda xs, me, root=_root: xs[root],
        whole=True,
    )
for _name, _rows in GATHERED.items():
    COLLECTIVES[f"allgather of rows: {_name}"] = Collective(
        sp.allgather, _rows, lambda xs, me: np.concatenate(xs)
    )
for _name, _number in EXCHANGED.items():
    COLLECTIVES[f"alltoall of rows: {_name}"] = exchange(_number)
COLLECTIVES["alltoall by default"] = Collective(
    lambda x, **on: sp.alltoall(x, **on)[0],
    lambda r, n: 2 * n,
    lambda xs, me: np.concatenate([np.array_split(x, len(xs))[me] for x in xs]),
)

BASIC = [
    COLLECTIVES[name]
    for name in (
        *("allreduce Sum", "broadcast from 0", "allgather of rows: growing"),
        *("reducescatter Sum", "alltoall by default"),
    )
]
"""One of each kind, which take any multiple of their rows."""

WHOLE = ((), (0,), (1,), (3, 0), (5,), (2, 3), (2, 1, 3))
ROW = ((), (2,), (0,), (2, 1, 3))
NAMES = list(COLLECTIVES)


def inputs_of(name, dtype) -> list[np.ndarray]:
    """The inputs of all ranks, of a shape that changes with the type and with the name."""
    collective, number = COLLECTIVES[name], MOVED.index(dtype) + NAMES.index(name)
    n = sp.size()
    row, whole = ROW[number % len(ROW)], WHOLE[number % len(WHOLE)]
    shapes = [whole if collective.whole else (collective.rows(r, n), *row) for r in range(n)]
    return [values(r, shape, dtype, name) for r, shape in enumerate(shapes)]


EVERY = [(name, dtype) for name in NAMES for dtype in COLLECTIVES[name].types]


def some(shift):
    """Each name and each type at least once."""
    kinds = [COLLECTIVES[name].types for name in NAMES]
    return [(n, t[(i + shift) % len(t)]) for i, (n, t) in enumerate(zip(NAMES, kinds, strict=True))]


@pytest.mark.parametrize(
    ("context", "cases"),
    [
        pytest.param(eager, EVERY, id="eager"),
        *(
            pytest.param(*each.values, some(shift), marks=each.marks, id=each.id)
            for shift, each in enumerate(CONTEXTS[1:])
        ),
        *(
            pytest.param(
                *each.values, EVERY, marks=[*each.marks, pytest.mark.all], id=each.id + "+"
            )
            for each in CONTEXTS[1:]
        ),
    ],
)
def test_every_collective_of_every_type(context, cases):
    """All in one function, so that XLA compiles once a context."""
    assert {dtype for _, dtype in cases} == set(MOVED)
    run = context(lambda *xs: [COLLECTIVES[n].call(x) for x, (n, _) in zip(xs, cases, strict=True)])
    results = run(*[tf.constant(inputs_of(*case)[sp.rank()]) for case in cases])
    for result, (name, dtype) in zip(results, cases, strict=True):
        expected = COLLECTIVES[name].expected(inputs_of(name, dtype), sp.rank())
        assert_same(result, expected, f"{name} of {dtype}")


by_every_transport = pytest.mark.parametrize("group", TRANSPORTS, indirect=True)
several_ranks = pytest.mark.ranks(
    least=2, most=3, reason="one rank transfers nothing; a fourth does what the third does"
)


@several_ranks
@by_every_transport
def test_every_collective_by_every_transport(group, carried):
    by_nccl = group.nccl_transport is not None
    for name, dtype in EVERY[by_nccl::3]:
        xs, collective = inputs_of(name, dtype), COLLECTIVES[name]
        with device_of(group):
            mine = tf.identity(tf.constant(xs[sp.rank()]))
            result = collective.call(mine, communicator=group)
        # NCCL sums x·(1/P).
        roundings = (sp.size() + 1) * (by_nccl and "Average" in name)
        expected = collective.expected(xs, sp.rank())
        assert_same(result, expected, f"{name} of {dtype}", roundings=roundings)
    assert ("NCCL" in carried) == by_nccl


def basic_inputs(multiple, tag, ranks=None) -> list[list[np.ndarray]]:
    """float32 [multiple * rows, 2] of all ranks of a group, for each of `BASIC`."""
    ranks = range(sp.size()) if ranks is None else ranks
    return [
        [
            values(rank, (multiple * each.rows(r, len(ranks)), 2), "float32", tag)
            for r, rank in enumerate(ranks)
        ]
        for each in BASIC
    ]


def assert_basic(results, inputs, me) -> None:
    for collective, result, xs in zip(BASIC, results, inputs, strict=True):
        assert_same(result, collective.expected(xs, me), f"{len(xs[me])} rows")


def basic(*xs, **on):
    return [each.call(x, **on) for each, x in zip(BASIC, xs, strict=True)]


def ways():
    """Parametrize by the contexts with all ranks, and by the transports in eager code."""
    one = [pytest.param(each.values[0], "world", marks=each.marks) for each in THREE_CONTEXTS[1:]]
    for transport in TRANSPORTS:
        name, gpu = getattr(transport, "values", [transport])[0], getattr(transport, "marks", ())
        one.append(pytest.param(eager, name, marks=[several_ranks, *gpu]))
    return pytest.mark.parametrize("context, group", [(eager, "world"), *one], indirect=["group"])


@ways()
def test_short_and_long_tensors(context, group):
    """On either side of 4 kB, some 100 kB, and past what a message carries at once."""
    multiples = (1, 50, 160, 4000, 70_001)
    inputs = [basic_inputs(multiple, "long") for multiple in multiples]

    def every_length(*xs):
        parts = [xs[5 * i : 5 * i + 5] for i in range(len(multiples))]
        return [y for part in parts for y in basic(*part, communicator=group)]

    with device_of(group):
        mine = [tf.identity(tf.constant(xs[sp.rank()])) for each in inputs for xs in each]
        results = context(every_length)(*mine)
    for i, each in enumerate(inputs):
        assert_basic(results[5 * i : 5 * i + 5], each, sp.rank())


@ways()
def test_inputs_stay_and_values_may_change(context, group):
    """XLA may give a collective one buffer for both, and a compiled call keeps its buffers."""
    run = context(lambda *xs: [*basic(*xs, communicator=group), *(x + 0.0 for x in xs)])
    earlier = []
    for step in range(3):
        inputs = basic_inputs(8, f"step {step}")
        mine = [xs[sp.rank()] for xs in inputs]
        with device_of(group):
            tensors = [tf.identity(tf.constant(x)) for x in mine]
            results = run(*tensors)
        earlier.append((results[:5], inputs))
        for kept, tensor, x in zip(results[5:], tensors, mine, strict=True):
            np.testing.assert_array_equal(kept, x)
            np.testing.assert_array_equal(tensor, x)
    for results, inputs in earlier:
        assert_basic(results, inputs, sp.rank())


def test_rows_may_change_from_call_to_call():
    for multiple in (1, 3, 0, 2, 1):
        inputs = basic_inputs(multiple, f"{multiple}")
        assert_basic(basic(*[xs[sp.rank()] for xs in inputs]), inputs, sp.rank())


@pytest.mark.parametrize("context", CONTEXTS[:3])
def test_groups_of_even_and_odd_ranks(context):
    """And all ranks beside them."""
    group = sp.current_world().communicator.split(sp.rank() % 2)
    members = range(sp.rank() % 2, sp.size(), 2)
    assert group.world_ranks == list(members)
    assert (group.rank, group.size) == (sp.rank() // 2, len(members))
    inputs = basic_inputs(1, "groups", members)
    run = context(lambda *xs: [*basic(*xs, communicator=group), sp.allreduce(sp.rank(), sp.Sum)])
    *results, whole = run(*[tf.constant(xs[group.rank]) for xs in inputs])
    assert_basic(results, inputs, group.rank)
    assert whole.numpy() == sum(range(sp.size()))
    group.free()


# Numbers


def test_extreme_integers():
    """64 bits keep all of them, small sums wrap around, and unsigned ones are not negative."""
    everyone = np.array([2**63 - 1 - rank for rank in range(sp.size())], np.int64)
    result = sp.allreduce(tf.constant(everyone[sp.rank()]), sp.Min)
    assert result.numpy() == everyone.min()
    for bits in (8, 16, 32, 64):
        each = [2 ** (bits - 1) - 1 + rank for rank in range(sp.size())]
        unsigned = np.array(each, f"uint{bits}")
        assert sp.allreduce(tf.constant(unsigned[sp.rank()]), sp.Max).numpy() == each[-1]
    big = np.array([[2**60 + rank, -rank, 1] for rank in range(sp.size())], np.int64)
    result = sp.reducescatter(tf.constant(big[sp.rank()]), sp.Sum)
    np.testing.assert_array_equal(result, own_part(big.sum(axis=0)))
    small = np.full((sp.size(), 2), 200, np.uint8)
    result = sp.reducescatter(tf.constant(small[sp.rank()]), sp.Sum)
    np.testing.assert_array_equal(result, own_part(small.sum(axis=0, dtype=np.uint8)))


@pytest.mark.parametrize("context", EAGER_FIRST)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_half_precision_is_combined_in_float32(context, dtype):
    """4097 = 4096 + 1 is not a float16; rounding after each addition would lose every 1."""
    ones = [4096.0] + [1.0] * (sp.size() - 1)
    x = tf.fill([2 * sp.size()], tf.constant(ones[sp.rank()], dtype))
    results = context(
        lambda x: [
            f(x, op) for op in (sp.Sum, sp.Average) for f in (sp.allreduce, sp.reducescatter)
        ]
    )(x)
    for result, total in zip(results, [sum(ones)] * 2 + [sum(ones) / sp.size()] * 2, strict=True):
        assert (result.numpy() == np.float32(total).astype(numpy_type(dtype))).all()


def test_average_is_the_default():
    mean = normals((5,), "default").mean(axis=0)
    x = normal(sp.rank(), (5,), "default")
    np.testing.assert_allclose(sp.allreduce(x), mean, 1e-13, 1e-15)
    np.testing.assert_allclose(sp.reducescatter(x), own_part(mean), 1e-13, 1e-15)
    np.testing.assert_array_equal(sp.broadcast(x), normal(0, (5,), "default"))


def test_takes_what_tensorflow_converts():
    np.testing.assert_array_equal(sp.allreduce([sp.rank(), 1], sp.Max), [sp.size() - 1, 1])
    np.testing.assert_array_equal(sp.allreduce(tf.Variable([1.0]), sp.Sum), [sp.size()])


def test_all_ranks_get_the_same_bits():
    result = sp.allreduce(tf.constant(normal(sp.rank(), (1000,), "bits")), sp.Sum)
    assert same_on_all_ranks([result])


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::2],
        np.broadcast_to(3.0, (4,)),
        np.arange(3.0).astype(">f8"),
    ],
    ids=["Fortran's order", "strided", "read-only", "big-endian"],
)
def test_arrays_of_every_layout(array):
    """The second call of the same type and shape takes a shorter way."""
    for factor in (1, 2, 3):
        y = sp.allreduce(factor * array, sp.Sum)
        assert y.numpy().tolist() == (sp.size() * factor * array).tolist()
        assert sp.allreduce(array, sp.Sum).numpy().tolist() == (sp.size() * array).tolist()
