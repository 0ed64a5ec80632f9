"""The table of element types, against TensorFlow, XLA, NumPy, MPI and NCCL's list."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import FLOATS, INTEGERS, MOVED

from sciml_par.errors import InputError
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES, element_type

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

OF_NCCL = frozenset(
    ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    + ("float16", "bfloat16", "float32", "float64")
)
HALVES = ("float16", "bfloat16")
_numbers = itertools.count()


def test_the_table_holds_the_types_that_are_tested():
    assert sorted(ELEMENT_TYPES) == sorted(MOVED)
    assert all(element.name == name for name, element in ELEMENT_TYPES.items())


@pytest.mark.parametrize("name", MOVED)
def test_sizes_are_those_of_tensorflow_and_numpy(name):
    element = ELEMENT_TYPES[name]
    assert element.size == tf.as_dtype(name).size == element.numpy.itemsize


@pytest.mark.parametrize("name", MOVED)
def test_the_numpy_type_is_that_of_tensors(name):
    assert ELEMENT_TYPES[name].numpy == tf.zeros([1], name).numpy().dtype


def twice(x, stablehlo):
    """x + x in a module whose type is spelled `stablehlo`; XLA checks it against the tensor's."""
    from tensorflow.compiler.tf2xla.python import xla

    kind = f"tensor<3x{stablehlo}>"
    module = f"""
    module @twice_{next(_numbers)} {{
      func.func public @main(%x: {kind}) -> {kind} {{
        %0 = stablehlo.add %x, %x : {kind}
        return %0 : {kind}
      }}
    }}"""
    return xla.call_module(
        [x], version=9, module=module, Tout=[x.dtype], Sout=[[3]], platforms=["CPU"]
    )[0]


@pytest.mark.parametrize("name", MOVED)
def test_the_stablehlo_name_is_that_of_tensors(name):
    run = tf.function(lambda x: twice(x, ELEMENT_TYPES[name].stablehlo), jit_compile=True)
    with tf.device("/CPU:0"):
        result = run(tf.cast([0, 1, 3], name))
    expected = [False, True, True] if name == "bool" else [0, 2, 6]  # x + x of booleans is or
    assert result.numpy().astype(complex).tolist() == expected


def test_the_check_of_stablehlo_names_can_fail():
    """Even where the size is right: an unsigned integer is no signed one."""
    run = tf.function(lambda x: twice(x, "i32"), jit_compile=True)
    with (
        tf.device("/CPU:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match="parameter 0 shape"),
    ):
        run(tf.ones([3], tf.uint32))


@pytest.mark.parametrize("name", [name for name in MOVED if name not in HALVES])
def test_mpis_datatype_has_the_size(name):
    element = ELEMENT_TYPES[name]
    assert element.wide is element
    assert element.mpi.Get_size() == element.mpi.Get_extent()[1] == element.size


@pytest.mark.parametrize("name", [name for name in MOVED if name not in HALVES])
def test_mpi_calculates_in_the_datatype(name):
    """The largest and the smallest value: signed and unsigned types order them differently."""
    from mpi4py import MPI

    dtype = ELEMENT_TYPES[name].numpy
    if name == "bool":
        values, op, expected = [True, False], MPI.LOR, True
    elif name in INTEGERS:
        limits = np.iinfo(dtype)
        values, op, expected = [limits.max, limits.min], MPI.MAX, limits.max
    else:
        values, op, expected = [0.5, -0.75], MPI.SUM, -0.25
    x, y = (np.array([value], dtype) for value in values)
    datatype = ELEMENT_TYPES[name].mpi
    op.Reduce_local([x, 1, datatype], [y, 1, datatype])
    assert y.item() == expected


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
