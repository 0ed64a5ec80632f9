"""TensorFloat-32: off from `init` on unless it is asked for."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

import sciml_par
from sciml_par.errors import InputError
from sciml_par.parallel.startup.options import (
    requested_tensor_float_32,
    set_tensor_float_32,
    tensor_float_32_is_on,
)

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

VARIABLE = "SCIML_PAR_TENSOR_FLOAT_32"


@pytest.fixture
def as_before():
    before = tensor_float_32_is_on()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


@pytest.mark.skipif(VARIABLE in os.environ, reason=f"{VARIABLE} is set")
def test_init_has_switched_it_off():
    """TensorFlow itself has it on, and tests/conftest.py has called `init()` without options."""
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_what_the_program_sets_after_init_holds(as_before):
    tf.config.experimental.enable_tensor_float_32_execution(True)
    sciml_par.init()  # does nothing
    assert tensor_float_32_is_on()


@pytest.mark.parametrize("before", (True, False))
@pytest.mark.parametrize("wanted", (True, False, "unchanged"))
def test_it_is_set_as_wanted(as_before, before, wanted):
    tf.config.experimental.enable_tensor_float_32_execution(before)
    set_tensor_float_32(wanted)
    assert tensor_float_32_is_on() == (before if wanted == "unchanged" else wanted)


@pytest.mark.parametrize(
    ("given", "text", "wanted"),
    [
        (None, None, False),
        (None, "", False),
        (None, "0", False),
        (None, "1", True),
        (None, "unchanged", "unchanged"),
        (True, "0", True),
        (False, "1", False),
        ("unchanged", "1", "unchanged"),
    ],
)
def test_the_program_comes_before_the_environment(given, text, wanted):
    environment = {} if text is None else {VARIABLE: text}
    assert requested_tensor_float_32(environment, given) == wanted


def test_anything_else_is_refused():
    with pytest.raises(InputError, match=f"{VARIABLE}: expected 0, 1 or unchanged; got 'yes'"):
        requested_tensor_float_32({VARIABLE: "yes"}, None)
    with pytest.raises(InputError, match="expected tensor_float_32 to be True, False"):
        requested_tensor_float_32({}, "no")
