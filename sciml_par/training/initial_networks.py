"""The networks of a rank before their training, each with its seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.term import Arrays
from sciml_par.training.settings import Settings


def make_networks(
    problem: Problem,
    arrays: Sequence[Arrays],
    network: Callable[..., Any] | None,
    settings: Settings,
    seeds: Sequence[int],
) -> list[Any]:
    """This rank's networks, after a trial of the residuals on the first (local).

    Parameters
    ----------
    network : makes a network; by default `sciml_par.networks.MLP`.
    seeds : of this rank's networks.

    Raises
    ------
    InputError
        A network lacks what the loop needs, or a residual cannot be used as it is.
    """
    make = network or _mlp()
    networks = [
        make(
            problem.domain.dimension,
            problem.outputs,
            seed=seed,
            dtype=settings.precision,
        )
        for seed in seeds
    ]
    _check_network(networks[0])
    weights = [tf.convert_to_tensor(v) for v in networks[0].trainable_variables]
    u = Field(partial(networks[0].apply, weights), jet=partial(networks[0].jet, weights))
    problem.check(u, arrays=arrays, dtype=settings.precision, reads_variables=False)
    return networks


def _check_network(model: Any) -> None:
    missing = [name for name in ("apply", "jet", "trainable_variables") if not hasattr(model, name)]
    if missing:
        raise InputError(
            f"train: expected network to make a model with apply, jet and trainable_variables, as "
            f"sciml_par.networks.MLP; got a {type(model).__name__} without {', '.join(missing)}."
        )


def _mlp() -> Callable[..., Any]:
    from sciml_par.networks.mlp import MLP  # it is a Keras model, so this imports TensorFlow

    return MLP
