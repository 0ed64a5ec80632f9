"""Networks by name, for programs and for `train(network="...")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sciml_par._checks import is_integer
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.networks.layers.model_arguments import checked_factor

NETWORK_NAMES = ("mlp", "siren", "fourier", "modified", "pirate", "windows", "polynomials")
"""What `network_named` and `train(network=...)` take."""

# Periods per unit of x, and the factor in sin(ω z): of equations on boxes like [−1, 1].
_SCALE, _OMEGA = 0.5, 5.0
_WIDTH, _DEPTH = 16, 2
_FEATURES, _PARTS = 100, 4


def network_named(
    name: str,
    *,
    width: int | None = None,
    depth: int | None = None,
    scale: float | None = None,
    parts: int | Sequence[int] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return a function that makes networks of a named kind, for `train(network=...)` (local).

    Parameters
    ----------
    name : {"mlp", "siren", "fourier", "modified", "pirate", "windows", "polynomials"}
        `MLP`; `MLP` of sin(omega z) with the weights of Sitzmann et al., omega being 5;
        `MLP` behind `FourierFeatures`; `ModifiedMLP`; `PirateNet` with `FourierFeatures`;
        `Windows` of `RandomFeatures`, as many as the width, 100 by default; `Polynomials`.
    width : int, optional
        Units of a hidden layer, 16 by default. Fourier features have as many, less one where it is
        odd.
    depth : int, optional
        Hidden layers, or blocks of "pirate", 2 by default.
    scale : float, optional
        Of the Fourier features, in periods per unit of x; 0.5 by default. Of the random features
        in windows, see there.
    parts : int or sequence of int, optional
        Of windows along each axis, 4 by default.
    options : of the class, such as ``activation="swish"``.

    Returns
    -------
    callable
        (d, m, *, seed, dtype, ...) -> model

    Raises
    ------
    InputError
        An unknown name; or a scale or parts for a network that has none.

    Examples
    --------
    >>> from sciml_par.networks import network_named
    >>> network_named("pirate", width=32, depth=1)(2, 1).count_params()
    5346
    """
    if not isinstance(name, str) or name not in NETWORK_NAMES:
        raise InputError(
            f"network: unknown name {name!r}; choose one of {', '.join(NETWORK_NAMES)}"
        )
    networks: Any = import_module("sciml_par.networks")  # here, since it imports TensorFlow
    if name == "windows":
        features = _FEATURES if width is None else width
        inner = partial(networks.RandomFeatures, features=features, scale=scale, **options)
        return networks.Windows(inner, parts=_PARTS if parts is None else parts)
    if parts is not None:
        raise InputError(f"network_named: parts={parts!r} is of windows, and not of {name!r}.")
    if name == "polynomials":
        for option, value in (("width", width), ("depth", depth), ("scale", scale)):
            if value is not None:
                raise InputError(
                    f"network_named: {option}={value!r} is of other networks; polynomials have a "
                    f"degree, as in network_named('polynomials', degree=12)."
                )
        return partial(networks.Polynomials, **options)
    width = _WIDTH if width is None else width
    options = {"width": width, "depth": _DEPTH if depth is None else depth, **options}
    if name in ("fourier", "pirate") and "embedding" not in options:
        scale = checked_factor("network_named", "scale", _SCALE if scale is None else scale)
        features = max(width // 2, 1) if is_integer(width) else width
        options["embedding"] = networks.FourierFeatures(features, scale=scale)
    elif scale is not None:
        raise InputError(
            f"network_named: scale={scale!r} is of Fourier features, which {name!r} does not have; "
            f'give it for "fourier" or "pirate", or embedding=FourierFeatures(..., scale=...)'
        )
    if name == "siren":
        options = {"activation": "sin", "omega": _OMEGA, "initial_weights": "siren", **options}
    kinds = {"modified": networks.ModifiedMLP, "pirate": networks.PirateNet}
    return partial(kinds.get(name, networks.MLP), **options)
