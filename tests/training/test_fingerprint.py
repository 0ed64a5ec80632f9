"""Texts that are equal where arrays and numbers are."""

from __future__ import annotations

import numpy as np

from sciml_par.training.identity.fingerprint import of_array, of_value


def test_what_is_a_function_is_called_by_its_name() -> None:
    assert of_value(np.sin) == "sin"


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
