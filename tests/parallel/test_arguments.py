"""What is no dense tensor is refused with a sentence, by every collective."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(most=1, reason="refused before anything travels")

COLLECTIVES = (
    *(sp.allreduce, sp.broadcast, sp.allgather, sp.alltoall, sp.reducescatter),
    lambda x: sp.fused_allgather([x, x]),
)

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


@pytest.mark.parametrize("kind", NO_TENSORS)
def test_what_is_no_tensor(kind):
    make, says = NO_TENSORS[kind]
    for collective in COLLECTIVES:
        with pytest.raises(InputError, match=f"^[a-z]+: .*{says}"):
            collective(make())


def test_in_a_graph():
    """As arguments of the function, too."""
    for value, says in ((tf.ragged.constant([[1], [2, 3]]), "Ragged"), (None, "None")):
        for options in ({}, {"jit_compile": True}):
            with pytest.raises(InputError, match=f"^allgather: expected a .*{says}"):
                tf.function(sp.allgather, **options)(value)
