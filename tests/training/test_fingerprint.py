"""Texts that are equal where arrays and numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from sciml_par.training.identity.described import of_array, text_of

pytestmark = pytest.mark.ranks(most=1, reason="local")


def test_what_is_a_function_is_called_by_its_name() -> None:
    assert text_of(np.sin) == "sin"


def test_values() -> None:
    assert text_of(np.float64(0.5)) == text_of(0.5) == "0.5"
    assert text_of(np.int64(3)) == text_of(3) == "3"
    assert text_of((1, 2.0, None)) == "[1, 2.0, None]"
    assert text_of(True) == "True"
    assert text_of(object()) == "object"


def test_arrays() -> None:
    x = np.linspace(0, 1, 7)
    assert of_array(x) == of_array(x * (1 + 1e-15))
    assert of_array(x) == text_of(x)
    assert of_array(np.zeros(3)) == of_array(-np.zeros(3))
    assert of_array(x) != of_array(x[::-1])
    assert of_array(x) != of_array(x[:, None])
    assert of_array(x) != of_array(x + 1e-5)
