"""Networks from a function that makes models, a name, or a model."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.networks.keras.from_model import as_network
from sciml_par.networks.keras.network import Network
from sciml_par.networks.layers.model_arguments import check_seed_and_dtype
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.mlp import MLP
from sciml_par.networks.models.named import network_named

_OF_MODELS = ("trainable_variables", "parameters", "variables")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# The training fills in these arguments where a factory leaves them out or has None.
_OPEN = ("box", "initial_weights")
_NAMED = ("seed", "dtype", *_OPEN)


def make_network(
    network: Any = None,
    d: int = 1,
    m: int = 1,
    *,
    seed: int = 0,
    dtype: str = "float32",
    box: Any = None,
    initial_weights: str | None = None,
) -> Network:
    """Return a network with new weights from what `train(network=…)` takes (local).

    Parameters
    ----------
    network : callable, Keras 3 model or name, optional
        A function or class that makes a model: called as ``network(d, m, seed=seed,
        dtype=dtype)``, with those of these arguments that it takes, or without any. A seed that
        `functools.partial` binds stays; a dtype that it binds must be this one. By default
        `sciml_par.networks.MLP`. Or a model, which is used unchanged, whatever the seed. Or a
        name, as for `network_named`.
    d : int
        Dimension of the points.
    m : int
        Components of the field.
    seed : int
        For a factory that takes no seed, the generators of Keras, TensorFlow, NumPy and Python
        start at this seed during the call; afterwards they continue where they were.
    dtype : {"float32", "float64"}
        Precision of models whose layers do not set their own.
    box : pair (lower, upper), optional
        The corners of the box of the points, passed to factories whose argument `box` is not
        set.
    initial_weights : str, optional
        As for `sciml_par.networks.MLP`, passed to factories whose argument of this name is not
        set.

    Returns
    -------
    Network

    Raises
    ------
    InputError
        As for `as_network`; or the factory needs other arguments.

    Examples
    --------
    >>> import keras
    >>> from sciml_par.networks import make_network
    >>> def small():
    ...     return keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    >>> make_network(small, 2, 1, seed=7).model.count_params()
    33
    """
    network = _maker(network)
    if not is_factory(network):
        return as_network(network, d, m, dtype=dtype)
    check_seed_and_dtype("network", seed, dtype)
    with _precision(dtype), _random_numbers(seed):
        # Weights of models that are not built yet are drawn when as_network builds them.
        values = {"seed": seed, "dtype": dtype, "box": box, "initial_weights": initial_weights}
        return as_network(_called(network, d, m, values), d, m, dtype=dtype)


def is_factory(network: Any) -> bool:
    """Return whether `network` makes models, rather than being one."""
    if isinstance(network, str) or inspect.isclass(network):
        return True
    return callable(network) and not any(map(partial(_has, network), _OF_MODELS))


def takes(network: Any, name: str) -> bool:
    """Return whether what makes models leaves this argument, `box` or `initial_weights`, open."""
    return any(p.name == name and _is_open(p) for p in _parameters(_maker(network)) or ())


def bound_arguments(network: Any) -> dict[str, Any]:
    """Return what `functools.partial` binds by name, but for None."""
    keywords = network.keywords if isinstance(network, partial) else {}
    return {name: value for name, value in keywords.items() if value is not None}


def _maker(network: Any) -> Any:
    """Return the factory of a name or the default; anything else unchanged."""
    if network is None:
        return MLP
    return network_named(network) if isinstance(network, str) else network


def _has(value: Any, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:  # some models raise where they have no weights yet
        return True


def _called(make: Callable[..., Any], d: int, m: int, values: dict[str, Any]) -> Any:
    """Call a factory with (d, m), if it needs arguments, and with those that it names."""
    bound = bound_arguments(make)
    if bound.get("dtype", values["dtype"]) != values["dtype"]:
        raise InputError(
            f"network: functools.partial binds dtype={bound['dtype']!r}, and the training has "
            f"precision={values['dtype']!r}. Leave out dtype, or give precision={bound['dtype']!r} "
            f"to train."
        )
    positional, names = _arguments(make)
    named = {name: values[name] for name in names if name not in bound}
    made = make(*(d, m)[:positional], **named)
    if made is None:
        raise InputError(f"network: {_name(make)} returned None; it must return its model.")
    return made


def _arguments(make: Callable[..., Any]) -> tuple[int, tuple[str, ...]]:
    """Return how many of (d, m) a factory gets, and the names of its other arguments."""
    parameters = _parameters(make)
    if parameters is None:
        return 2, ("seed", "dtype")
    kinds = {p.kind for p in parameters}
    # Arguments with defaults, such as a width, are not meant for the numbers d and m.
    needed = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
    needed = [p for p in needed if p.name not in _NAMED]
    any_number = inspect.Parameter.VAR_POSITIONAL in kinds and not inspect.isclass(make)
    positional = 2 if needed or any_number else 0
    names = {p.name for p in parameters if p.name not in _OPEN or _is_open(p)}
    if inspect.Parameter.VAR_KEYWORD in kinds and positional:
        names |= {"seed", "dtype"}
    named = tuple(name for name in _NAMED if name in names)
    try:
        inspect.Signature(parameters).bind(*range(positional), **dict.fromkeys(named))
    except TypeError as error:
        raise InputError(
            f"network: {_name(make)} is called as network(d, m, seed=..., dtype=...) or without "
            f"arguments: {error}; bind others with functools.partial or a lambda, as "
            f"functools.partial(MLP, width=20, depth=3)."
        ) from None
    return positional, named


def _is_open(parameter: inspect.Parameter) -> bool:
    """Return whether an argument has a name by which it can be given, and no value yet but None."""
    by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return by_name and (parameter.default is parameter.empty or parameter.default is None)


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function, or of the constructor of a class; None if unknown."""
    is_class = inspect.isclass(make)
    # Keras gives its classes a __new__ of any arguments, which inspect may take in its place.
    called: Any = make.__init__ if is_class else make
    try:
        return list(inspect.signature(called).parameters.values())[is_class:]
    except (TypeError, ValueError):  # some built-in callables have none
        return None


@contextlib.contextmanager
def _precision(dtype: str) -> Iterator[None]:
    """Let Keras make models in `dtype` by default."""
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


@contextlib.contextmanager
def _random_numbers(seed: int) -> Iterator[None]:
    """Start all generators of random numbers at `seed`, and restore their states afterwards.

    Neither Keras nor TensorFlow has a public function for the state of its generator.
    """
    from keras.src.backend.common import global_state
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
    from keras.src.utils.rng_utils import GLOBAL_RANDOM_SEED
    from tensorflow.python.eager.context import context

    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    of_tensorflow = {name: vars(context()).get(name) for name in ("_seed", "_rng")}
    names = (GLOBAL_RANDOM_SEED, GLOBAL_SEED_GENERATOR)
    of_keras = [global_state.get_global_attribute(name) for name in names]
    keras.utils.set_random_seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        vars(context()).update(of_tensorflow)
        for name, value in zip(names, of_keras, strict=True):
            global_state.set_global_attribute(name, value)


def _name(make: Any) -> str:
    inner = getattr(make, "func", make)
    return f"{getattr(inner, '__qualname__', type(inner).__name__)!r}"
