"""Arguments that collectives refuse, in every context, before anything travels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import MOVED, compiled, eager, graph

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(most=2, reason="refused before anything travels")
alone = pytest.mark.ranks(most=1, reason="another rank sees nothing of it")

SIZE = sp.size()
REDUCTIONS = {
    "allreduce": sp.allreduce,
    "reducescatter": sp.reducescatter,
    "allreduce of several": lambda x, op, **on: sp.fused_allreduce([x], op, **on),
    "reducescatter of several": lambda x, op, **on: sp.fused_reducescatter([x], op, **on),
}
ON_DEVICES = {
    "allreduce": lambda x, **on: sp.allreduce(x, sp.Max, **on),
    "broadcast": sp.broadcast,
    "allgather": sp.allgather,
    "reducescatter": sp.reducescatter,
    "alltoall": lambda x, **on: sp.alltoall(x, **on)[0],
}

MEANINGLESS = (
    ([True], sp.Sum, "Sum of booleans"),
    ([True], sp.Average, "Average of booleans"),
    ([1], sp.Average, "Average of int32"),
    (np.uint8([1]), sp.Average, "Average of uint8"),
    ([1.0], "Sum", "expected op to be one of"),
    ([1.0], None, "expected op to be one of"),
    ([1j], sp.Max, "Max of complex128 values has no meaning: complex num"),
    ([1j], sp.Min, "Min of complex128 values has no meaning: complex num"),
    ([1], sp.Adasum, "Adasum of int32 values has no"),
    ([True], sp.Adasum, "Adasum of bool values has no"),
)
OPTIONS = (
    ([True], {"prescale_factor": 2.0}, "booleans cannot be multiplied"),
    ([1.0], {"postscale_factor": "2"}, "expected postscale_factor to be a number; got '2'"),
    ([1.0], {"prescale_factor": None}, "expected prescale_factor to be a number; got None"),
    ([1.0], {"compression": "fp16"}, "expected compression to be .* got 'fp16'"),
    ([1.0], {"name": 3}, "expected name to be a text or None; got 3"),
)
SPLITS = (
    *([1] * (SIZE + 1), [], [[1] * SIZE], 2 * SIZE, [2] * (SIZE - 1) + [3]),
    *([2] * (SIZE - 1) + [1], [2 * SIZE + 2, -2] + [0] * (SIZE - 2)),
    *([2.0] * SIZE, [True] * SIZE, ["2"] * SIZE),
)
"""Of 2 P rows."""


def refused():
    """(the start of the message, the call), each."""
    for value, op, says in MEANINGLESS:
        for name, reduce in REDUCTIONS.items():
            kind = name.split()[0]
            yield f"{kind}: .*{says}", lambda f=reduce, x=value, op=op: f(tf.constant(x), op)
    for value, options, says in OPTIONS:
        for name in ("allreduce", "allreduce of several"):
            yield (
                f"allreduce: {says}",
                lambda f=REDUCTIONS[name], x=value, on=options: f(tf.constant(x), sp.Max, **on),
            )
    for name in ("reducescatter", "reducescatter of several"):
        yield (
            "reducescatter: Adasum is an operation of allreduce alone",
            lambda f=REDUCTIONS[name]: f(tf.ones([2]), sp.Adasum),
        )
    for name, gather in (
        *(("allgather", sp.allgather), ("reducescatter", sp.reducescatter)),
        *(("alltoall", sp.alltoall), ("allgather", lambda x: sp.fused_allgather([x]))),
        ("reducescatter", lambda x: sp.fused_reducescatter([x])),
    ):
        yield (
            rf"{name}: .*got a scalar. Reshape it to \[1\]",
            lambda f=gather: f(tf.constant(1.0)),
        )
    for root in (-1, SIZE, "0", 0.0, None):
        yield (
            rf"broadcast: expected root among ranks 0..{SIZE - 1}; got {root!r}",
            lambda root=root: sp.broadcast(tf.constant(1.0), root),
        )
    for splits in SPLITS:
        yield (
            f"alltoall: .*splits to be {SIZE} integers ≥ 0 that add up to the {2 * SIZE} rows",
            lambda splits=splits: sp.alltoall(tf.zeros([2 * SIZE, 3]), splits),
        )
    if SIZE > 1:
        yield (
            rf"alltoall: {SIZE + 1} rows cannot be split evenly among {SIZE} ranks",
            lambda: sp.alltoall(tf.zeros([SIZE + 1])),
        )
    for device in ("cuda:0", "/TPU:0", "/CPU:x", "", "/job:localhost", 0, "nowhere"):
        for kind, collective in ON_DEVICES.items():
            yield (
                f'{kind}: expected device to be None, "/CPU:0" or "/GPU:0"; got {device!r}',
                lambda f=collective, on=device: f(tf.ones([SIZE]), device=on),
            )


@pytest.mark.parametrize(
    "context", (eager, pytest.param(graph, marks=alone), pytest.param(compiled, marks=alone))
)
def test_refused(context):
    for says, call in refused():
        with pytest.raises(InputError, match=f"^{says}"):
            context(lambda call=call: [call()])()


NO_TENSORS = {
    "RaggedTensor": (
        lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]),
        r"got a RaggedTensor. Give its .values, or make it dense by .to_tensor\(\)",
    ),
    "SparseTensor": (
        lambda: tf.sparse.from_dense([[0.0, 1.0]]),
        "got a SparseTensor. Make it dense by tf.sparse.to_dense, or give its .values",
    ),
    "None": (lambda: None, "got None. TensorFlow says: Attempt to convert a value"),
    "lists of other lengths": (lambda: [[1.0], [2.0, 3.0]], "got a value of type list"),
    "an object": (object, "got a value of type object"),
    "texts": (lambda: tf.constant(["a"]), "elements of type string.*allgather_object"),
    "a NumPy array of texts": (lambda: np.array(["a"]), "elements of type string"),
    "a variant": (
        lambda: tf.raw_ops.EmptyTensorList(
            element_shape=[1], max_num_elements=1, element_dtype=tf.float32
        ),
        "elements of type variant.* It is a handle",
    ),
    "a resource": (lambda: tf.Variable(1.0).handle, "elements of type resource.* It is a handle"),
    "quantized": (
        lambda: tf.quantization.quantize([1.0], 0.0, 1.0, tf.quint8).output,
        "elements of type quint8.* Cast the tensor first",
    ),
}


@alone
@pytest.mark.parametrize("kind", NO_TENSORS)
def test_what_is_not_a_tensor(kind):
    make, says = NO_TENSORS[kind]
    for collective in (*ON_DEVICES.values(), lambda x: sp.fused_allgather([x, x])):
        with pytest.raises(InputError, match=f"^[a-z]+: .*{says}"):
            collective(make())


@alone
def test_the_types_that_travel_are_those_of_the_tests():
    with pytest.raises(InputError) as error:
        sp.allgather(tf.constant(["a"]))
    named = str(error.value).partition("expected one of ")[2].partition(". ")[0]
    assert sorted(named.split(", ")) == sorted(MOVED)


@alone
def test_what_is_not_a_tensor_in_a_graph():
    """As arguments of the function, too."""
    for value, says in ((tf.ragged.constant([[1], [2, 3]]), "Ragged"), (None, "None")):
        for options in ({}, {"jit_compile": True}):
            with pytest.raises(InputError, match=f"^allgather: expected a .*{says}"):
                tf.function(sp.allgather, **options)(value)


def test_splits_that_a_compiled_function_computes():
    run = compiled(lambda x, splits: [sp.alltoall(x, splits)[0]])
    with pytest.raises(InputError, match="splits that are known when the function is traced"):
        run(tf.zeros([SIZE, 2]), tf.ones([SIZE], tf.int32))
