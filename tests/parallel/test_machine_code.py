"""Machine code made of small functions, and of the arithmetic of reductions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ranks import numpy_type

from sciml_par.parallel import Average, Max, Min, Product, Sum
from sciml_par.parallel.native import machine_code
from sciml_par.parallel.native.combination import combination
from sciml_par.parallel.native.machine_code import MachineCode, function_at
from sciml_par.parallel.native.primitives import load, store
from sciml_par.parallel.native.translation import translated

pytestmark = [
    pytest.mark.ranks(most=1, reason="it needs no other rank"),
    pytest.mark.skipif(machine_code.obstacle() != "", reason=machine_code.obstacle()),
]

STEP = 1


def steps_to_one(n: int, most: int) -> int:
    """Collatz's, with every kind of statement and condition."""
    steps = 0
    while n != 1 and steps < most:
        if n & 1 == 0:
            n = n >> 1
        else:
            n *= 3
            n += STEP
        steps = steps + STEP
    if n != 1 or most < 0:
        return -1
    return twice(steps)


def twice(n: int) -> int:
    return 2 * n


def swap(first: int, second: int) -> int:
    kept = load(first)
    store(first, load(second))
    store(second, kept)
    return load(first) > load(second)


def with_a_list(n: int) -> int:
    return [n][0]


def with_a_stranger(n: int) -> int:
    return len(str(n))


def test_a_function_does_what_it_says():
    code = MachineCode(translated((steps_to_one, twice, swap), {"STEP": 1}))
    steps = function_at(code.address("steps_to_one"), 2, keeps_lock=True)
    assert [steps(n, 1000) for n in (1, 2, 6, 27)] == [0, 2, 16, 222]
    assert steps(27, 10) == -1
    numbers = (ctypes.c_int64 * 2)(3, -5)
    first = ctypes.addressof(numbers)
    swapped = function_at(code.address("swap"), 2, keeps_lock=False)
    assert swapped(first, first + 8) == 0 and list(numbers) == [-5, 3]


@pytest.mark.parametrize("function", (with_a_list, with_a_stranger))
def test_what_cannot_be_translated_is_refused(function):
    with pytest.raises(TypeError, match=function.__name__):
        translated((function,), {})


def test_why_there_is_none(monkeypatch):
    monkeypatch.setattr(machine_code.platform, "machine", lambda: "riscv64")
    assert "riscv64" in machine_code.obstacle()
    monkeypatch.setattr(machine_code.sys, "platform", "darwin")
    assert "Linux" in machine_code.obstacle()


def in_pairs(values, combine):
    """The documented order: what is beyond a power of two in pairs first, then all in pairs."""
    more = len(values) - (1 << (len(values).bit_length() - 1))
    pairs = [combine(values[2 * i], values[2 * i + 1]) for i in range(more)]
    values = pairs + list(values[2 * more :])
    while len(values) > 1:
        values = [combine(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    return values[0]


CASES = [
    (Sum, "float32", 2),
    (Sum, "float64", 3),
    (Average, "float32", 4),
    (Average, "float64", 6),
    (Min, "float32", 5),
    (Max, "float64", 2),
    (Product, "float32", 7),
    (Sum, "int32", 3),
    (Max, "int8", 2),
    (Min, "uint64", 3),
    (Product, "int64", 4),
    (Sum, "float16", 2),
    (Average, "float16", 5),
    (Max, "float16", 3),
    (Sum, "bfloat16", 3),
    (Average, "bfloat16", 2),
    (Product, "bfloat16", 4),
]


def combined_by_machine_code(op, dtype, values, slot):
    """The combination of [P, n] values, and a zero behind it."""
    size, count = values.shape
    slots = np.zeros((size, slot), np.uint8)
    slots[:, : count * values.itemsize] = values.view(np.uint8).reshape(size, -1)
    result = np.zeros(count + 1, values.dtype)
    code = MachineCode(combination("combine", op, dtype, size, slot))
    function_at(code.address("combine"), 3, keeps_lock=True)(
        slots.ctypes.data, result.ctypes.data, count
    )
    return result


@pytest.mark.parametrize(("op", "dtype", "size"), CASES)
@pytest.mark.parametrize("count", (1, 37))
def test_a_reduction_is_that_of_numpy_in_the_documented_order(op, dtype, size, count):
    slot = 512
    values = np.random.default_rng(size).normal(size=(size, count)) * 100
    values = np.abs(values) if dtype.startswith("u") else values
    values = values.astype(numpy_type(dtype))
    result = combined_by_machine_code(op, dtype, values, slot)
    combine = {Min: np.minimum, Max: np.maximum, Product: np.multiply}.get(op, np.add)
    wide = values.astype("float32") if values.itemsize == 2 else values
    expected = in_pairs(list(wide), combine)
    if op is Average:
        expected = expected / np.asarray(size, wide.dtype)
    expected = expected.astype(values.dtype)
    assert result[:-1].tobytes() == expected.tobytes() and result[-1] == 0


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_every_number_of_16_bits_is_read_and_rounded_as_by_ml_dtypes(dtype):
    everything = np.arange(1 << 16, dtype=np.uint16).view(numpy_type(dtype))
    halves = np.stack([everything, np.roll(everything, 12345)])
    result = combined_by_machine_code(Average, dtype, halves, 1 << 17)[:-1]
    with np.errstate(all="ignore"):
        wide = halves.astype("float32")
        expected = ((wide[0] + wide[1]) * np.float32(0.5)).astype(everything.dtype)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), nan)
    assert result[~nan].tobytes() == expected[~nan].tobytes()
