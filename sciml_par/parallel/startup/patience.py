"""The times that ranks wait for one another, of the program or of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from sciml_par.errors import InputError
from sciml_par.parallel.supervision.watchdog import Patience

_HOST_TIMEOUT = 30.0
_LEAST_HOST_TIMEOUT = 5.0
"""The system probes other hosts at most once a second."""


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
