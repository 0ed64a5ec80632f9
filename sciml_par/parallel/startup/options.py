"""Options of `init` that the program or the environment gives.

TensorFloat-32: GPUs multiply float32 matrices with ten bits instead of 23. TensorFlow allows it by
default. It suffices for a classifier, but not for the second derivatives of an equation. So here it
is off by default.

References
----------
NVIDIA, "A100 Tensor Core GPU Architecture" (2020): TF32 has 8 bits of exponent, 10 of mantissa.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.supervision.watchdog import Patience

_HOST_TIMEOUT = 30.0
_LEAST_HOST_TIMEOUT = 5.0
"""The system probes other hosts at most once a second."""

_VARIABLE = "SCIML_PAR_TENSOR_FLOAT_32"
_UNCHANGED: Literal["unchanged"] = "unchanged"

TensorFloat32 = bool | Literal["unchanged"]


def requested_patience(
    environment: Mapping[str, str], warning: float | None, limit: float | None
) -> Patience:
    """Return the options `stall_warning` and `stall_limit` of `init` in seconds."""
    return Patience(
        warn_after=_seconds("stall_warning", warning, environment, Patience.warn_after),
        end_after=_seconds("stall_limit", limit, environment, Patience.end_after),
    )


def requested_host_timeout(environment: Mapping[str, str], given: float | None) -> float:
    """Return the option `host_timeout` of `init` in seconds."""
    default = _HOST_TIMEOUT
    return _seconds("host_timeout", given, environment, default, least=_LEAST_HOST_TIMEOUT)


def requested_tensor_float_32(
    environment: Mapping[str, str], given: TensorFloat32 | None
) -> TensorFloat32:
    """Return the program's choice, or else that of the environment; False by default."""
    if given is not None:
        if given not in (True, False, _UNCHANGED):
            raise InputError(
                f'init: expected tensor_float_32 to be True, False, "unchanged" or None; got '
                f"{given!r}."
            )
        return given
    text = environment.get(_VARIABLE, "")
    meanings: dict[str, TensorFloat32] = {"": False, "0": False, "1": True, _UNCHANGED: _UNCHANGED}
    if text not in meanings:
        raise InputError(f"{_VARIABLE}: expected 0, 1 or unchanged; got {text!r}.")
    return meanings[text]


def set_tensor_float_32(wanted: TensorFloat32) -> None:
    """Set TensorFlow's option, which applies to all later computations."""
    if wanted != _UNCHANGED:
        tf.config.experimental.enable_tensor_float_32_execution(wanted)


def tensor_float_32_is_on() -> bool:
    """Return whether TensorFlow may use it in this process."""
    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


def _seconds(
    option: str,
    given: float | None,
    environment: Mapping[str, str],
    default: float,
    *,
    least: float = 0.0,
) -> float:
    """Return the program's option, or else that of the environment, or else `default`."""
    variable = f"SCIML_PAR_{option.upper()}"
    where = f"init: {option}" if given is not None else variable
    text = str(given) if given is not None else environment.get(variable, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not (seconds >= least and seconds > 0):  # nor a NaN
        bound = f"≥ {least:g}" if least else "> 0"
        raise InputError(f"{where}: expected a number of seconds {bound}; got {text!r}.")
    return seconds
