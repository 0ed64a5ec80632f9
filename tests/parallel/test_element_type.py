"""The table of element types, against TensorFlow, NumPy and NCCL's list.

That MPI and XLA take them for the same is shown by the results, in test_collectives.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from inside import ELEMENT_TYPES, element_type
from ranks import FLOATS, MOVED

from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

OF_NCCL = frozenset(
    ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    + ("float16", "bfloat16", "float32", "float64")
)
HALVES = ("float16", "bfloat16")


def test_the_table_holds_the_types_that_are_tested():
    assert sorted(ELEMENT_TYPES) == sorted(MOVED)
    assert all(element.name == name for name, element in ELEMENT_TYPES.items())


@pytest.mark.parametrize("name", MOVED)
def test_the_numpy_type_is_that_of_tensors(name):
    element = ELEMENT_TYPES[name]
    assert element.numpy == tf.zeros([1], name).numpy().dtype
    assert element.size == tf.as_dtype(name).size == element.numpy.itemsize


@pytest.mark.parametrize("name", HALVES)
def test_16_bits_are_reduced_in_32(name):
    """Which holds every value of theirs."""
    element = ELEMENT_TYPES[name]
    assert element.wide is ELEMENT_TYPES["float32"]
    assert np.can_cast(element.numpy, element.wide.numpy, "safe")


@pytest.mark.parametrize("name", MOVED)
def test_nccls_name_where_it_has_one(name):
    assert ELEMENT_TYPES[name].nccl_name == (name.upper() if name in OF_NCCL else None)


def test_the_floating_point_types_all_travel_by_nccl():
    assert OF_NCCL.issuperset(FLOATS)


@pytest.mark.parametrize("name", ("string", "variant", "resource", "float8_e4m3fn", "qint8"))
def test_what_cannot_travel(name):
    with pytest.raises(InputError) as error:
        element_type(name, where="allreduce")
    assert str(error.value).startswith(f"allreduce: cannot carry elements of type {name}; expected")
    assert all(known in str(error.value) for known in ("float32", "bfloat16", "bool", "uint16"))
