"""Foreign calls from XLA: versions, and Python errors that reach the caller."""

from __future__ import annotations

import ctypes
import itertools

import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.parallel.execution import xla_custom_call as xla_bridge
from sciml_par.parallel.execution import xla_ffi
from sciml_par.parallel.execution.xla_call_sites import one_tensor
from sciml_par.parallel.execution.xla_ffi import ForeignCalls, UnavailableError, foreign_calls

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

_numbers = itertools.count()


def program(handler, *, with_stream=False):
    """x ↦ what `handler(send, receive)` writes; three float32."""
    from tensorflow.compiler.tf2xla.python import xla

    target = f"sciml_par_test_{next(_numbers)}"
    foreign_calls().register(target, "Host", one_tensor(handler, with_stream=with_stream))
    module = f"""
    module @test {{
      func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
        %0 = stablehlo.custom_call @{target}(%x) {{
          api_version = 4 : i32, has_side_effect = true
        }} : (tensor<3xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }}
    }}"""
    return tf.function(
        lambda x: xla.call_module(
            [x], version=9, module=module, Tout=[tf.float32], Sout=[[3]], platforms=["CPU"]
        )[0],
        jit_compile=True,
    )


def test_a_handler_gets_addresses():
    def double(send, receive):
        source = (ctypes.c_float * 3).from_address(send)
        (ctypes.c_float * 3).from_address(receive)[:] = [2 * value for value in source]

    run = program(double)
    assert run(tf.constant([1.0, 2.0, 3.0])).numpy().tolist() == [2.0, 4.0, 6.0]
    assert run(tf.constant([4.0, 5.0, 6.0])).numpy().tolist() == [8.0, 10.0, 12.0]


@pytest.mark.parametrize("error", (ValueError, KeyboardInterrupt, SystemExit))
def test_what_a_handler_raises_is_the_programs_error(error):
    """Nothing may pass through the C code between; the process continues."""
    fail = True

    def handler(send, receive):
        if fail:
            raise error("«Größe» does not fit")
        ctypes.memmove(receive, send, 12)

    run = program(handler)
    for _ in range(2):
        with pytest.raises(tf.errors.FailedPreconditionError, match="«Größe» does not fit"):
            run(tf.constant([1.0, 2.0, 3.0]))
    fail = False
    assert run(tf.constant([1.0, 2.0, 3.0])).numpy().tolist() == [1.0, 2.0, 3.0]


def test_xla_is_asked_for_the_stream():
    """On the CPU it has none; so the program gets this error, and not a wrong stream."""
    run = program(lambda send, receive, stream: None, with_stream=True)
    with pytest.raises(tf.errors.FailedPreconditionError, match="XLA has no stream for this call"):
        run(tf.ones(3))


def test_an_error_while_an_error_is_made(monkeypatch):
    """As a signal's handler raises it, between the handler's error and XLA's."""
    text, interrupted = xla_ffi._text, [SystemExit(0), KeyboardInterrupt()]

    def interrupted_text(error):
        if interrupted:
            raise interrupted.pop()
        return text(error)

    def handler(send, receive):
        raise ValueError("the first error")

    monkeypatch.setattr(xla_ffi, "_text", interrupted_text)
    with pytest.raises(tf.errors.FailedPreconditionError, match="the first error"):
        program(handler)(tf.constant([1.0, 2.0, 3.0]))
    assert not interrupted


def test_this_version_was_tested():
    assert ForeignCalls().version in xla_ffi.TESTED_VERSIONS


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(xla_ffi, "TESTED_VERSIONS", ((9, 1), (9, 2)))
    with pytest.raises(UnavailableError, match=r"version \(0, \d+\).* tested with \(9, 1\), "):
        ForeignCalls()


def test_a_tensorflow_without_foreign_calls(monkeypatch):
    monkeypatch.setattr(xla_ffi, "_tensorflow_library", object)
    with pytest.raises(UnavailableError, match="does not export XLA_FFI_GetApi"):
        ForeignCalls()


def test_the_bridge_says_what_to_do(monkeypatch):
    def unavailable():
        raise UnavailableError("of the weather")

    monkeypatch.setattr(xla_bridge, "foreign_calls", unavailable)
    bridge = xla_bridge.bridge.__wrapped__  # past its cache
    with pytest.raises(InputError, match="of the weather. Use TensorFlow 2.21, or leave jit_com"):
        bridge()
