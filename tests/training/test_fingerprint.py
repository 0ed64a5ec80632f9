"""Texts that are equal where functions and arrays are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.problems import Dirichlet
from sciml_par.training.fingerprint import of_array, of_function, of_value

nu = 0.5
rho = 3.0


def uses_global(u: Any, x: Any) -> Any:
    return nu * u(x)


def calls_another(u: Any, x: Any) -> Any:
    return uses_global(u, x)


def makes(number: float, *, whole: int = 1) -> Any:
    return lambda u, x: number * u(x) + whole


class Law:
    def __init__(self, nu: float) -> None:
        self.nu = nu

    def __call__(self, u: Any, x: Any) -> Any:
        return self.nu * u(x)

    def residual(self, u: Any, x: Any) -> Any:
        return self.nu * u(x)


@pytest.mark.parametrize(
    "make",
    [
        makes,
        Law,
        lambda number: Law(number).residual,
        lambda number: partial(lambda u, x, k: k * u(x), k=number),
        lambda number: partial(lambda k, u, x: k * u(x), number),
        lambda number: tf.function(makes(number)),
        lambda number: makes(np.float32(number)),
        lambda number: makes(np.array(number)),
        lambda number: makes(tf.constant(number)),
        lambda number: makes(tf.Variable(number, trainable=False)),
        lambda number: lambda u, x, k=number: k * u(x),
    ],
)
def test_a_number_that_a_function_uses_shows(make: Any) -> None:
    assert of_function(make(2.0)) == of_function(make(2.0))
    assert "2" in of_function(make(2.0))
    assert of_function(make(2.0)) != of_function(make(2.5))


def test_globals_that_are_read_show_and_attributes_of_their_name_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = of_function(uses_global), of_function(calls_another), of_function(Law(1.0))
    assert "nu = 0.5" in before[0] and "nu = 0.5" in before[1] and "nu = 1" in before[2]
    assert "rho" not in before[0]
    monkeypatch.setitem(globals(), "nu", 0.25)
    after = of_function(uses_global), of_function(calls_another), of_function(Law(1.0))
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]


def test_code_shows_and_its_place_in_the_file_does_not() -> None:
    texts = []
    for source in ("f = lambda u, x: u(x) + 1", "\n\n\nf = lambda u, x: u(x) + 1"):
        space: dict[str, Any] = {}
        exec(source, space)
        texts.append(of_function(space["f"]))
    assert texts[0] == texts[1]
    assert of_function(lambda u, x: u(x) + 1) != of_function(lambda u, x: u(x) + 2)
    assert of_function(lambda u, x: u.a(x)) != of_function(lambda u, x: u.b(x))


def test_integers_and_arrays_are_left_aside() -> None:
    """A rank's number and data of its own are no difference between programs."""

    def make(rank: int, data: np.ndarray) -> Any:
        return lambda u, x: (rank, data, u(x))

    assert of_function(make(0, np.zeros(3))) == of_function(make(1, np.ones(4)))


def test_what_is_no_function_of_python_is_called_by_its_name() -> None:
    assert of_function(np.sin) == "sin"
    assert of_value(np.sin) == "sin"


def test_functions_that_name_each_other_end() -> None:
    def one(u: Any, x: Any) -> Any:
        return other(u, x)

    def other(u: Any, x: Any) -> Any:
        return one(u, x)

    assert "one" in of_function(one)


def test_values() -> None:
    assert of_value(np.float64(0.5)) == of_value(0.5) == "0.5"
    assert of_value(np.int64(3)) == of_value(3) == "3"
    assert of_value((1, 2.0, None)) == "[1, 2.0, None]"
    assert of_value(True) == "True"
    assert of_value(object()) == "object"


def test_arrays() -> None:
    x = np.linspace(0, 1, 7)
    assert of_array(x) == of_array(x * (1 + 1e-15))
    assert of_array(x) == of_value(x)
    assert of_array(np.zeros(3)) == of_array(-np.zeros(3))
    assert of_array(x) != of_array(x[::-1])
    assert of_array(x) != of_array(x[:, None])
    assert of_array(x) != of_array(x + 1e-5)


def test_what_a_condition_has_beside_its_residual_is_no_matter_of_it():
    texts = {of_function(Dirichlet(weight=w).residual) for w in (None, 1.0, 3.0)}
    assert len(texts) == 1
    assert of_function(Dirichlet(2.0).residual) not in texts
