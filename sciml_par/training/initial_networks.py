"""The networks of a rank before their training, each with its seed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.factory import is_factory, make_network
from sciml_par.networks.network import Network
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems import _tape
from sciml_par.problems.field import Field
from sciml_par.problems.plan import Coefficients
from sciml_par.problems.problem import Problem
from sciml_par.problems.term import Arrays
from sciml_par.training.rank_points import RankPoints
from sciml_par.training.seed import member_seed
from sciml_par.training.settings import Settings

Tensor = Any


def networks_of_members(
    problem: Problem,
    network: Any,
    *,
    seeds: Sequence[int],
    members: int,
    dtype: str,
    arrays: Sequence[Arrays],
) -> list[Network]:
    """This rank's networks, after a trial of the residuals on the first (local).

    Parameters
    ----------
    network : what makes a model, or a model, as for `sciml_par.networks.make_network`.
    seeds : of this rank's members.
    members : how many there are on all ranks.
    dtype : of the training.
    arrays : this rank's points for each term, on which residuals are tried.

    Raises
    ------
    InputError
        A network cannot serve as the problem's field, one model is given for several members, or a
        residual cannot be used as it is.
    """
    if network is not None and members > 1 and not is_factory(network):
        raise InputError(
            f"train: network={type(network).__name__} is one model, but {members} are to be "
            f"trained, each with weights of its own; give a function that makes it, as "
            f"network=lambda: keras.Sequential([...])."
        )
    d, m = problem.domain.dimension, problem.network_outputs
    found = [make_network(network, d, m, seed=seed, dtype=dtype) for seed in seeds]
    if found:
        remarks = [*found[0].remarks, *_try(problem, found[0], dtype=dtype, arrays=arrays)]
        if current_world().communicator.rank == 0:
            for remark in dict.fromkeys(remarks):
                warnings.warn(f"train: {remark}", RuntimeWarning, stacklevel=3)
    return found


def field_of(problem: Problem, network: Network, parameters: Sequence[Tensor]) -> Field:
    """The problem's field u with these weights of a network (local)."""
    jet = None if network.jet is None else partial(network.jet, parameters)
    return problem.field(partial(network.apply, parameters), jet=jet)


def _try(
    problem: Problem, network: Network, *, dtype: str, arrays: Sequence[Arrays]
) -> tuple[str, ...]:
    """Run the residuals once without computing; what there is to say of it (local)."""
    weights = [tf.convert_to_tensor(v) for v in network.trainable_variables]
    value = partial(network.apply, weights)
    asked = False

    def jet(x: Tensor, second: Coefficients) -> Any:
        nonlocal asked
        asked = asked or len(second) > 0
        if network.jet is None:
            return _tape.jet(value, x, second)
        return network.jet(weights, x, second)

    problem.check(Field(value, jet=jet), arrays=arrays, dtype=dtype, reads_variables=False)
    if asked and network.jet is None and _is_piecewise_linear(value, problem, dtype):
        return (
            "the second derivatives of the network are zero at all points where it was tried, as "
            "those of relu are, but the problem asks for them: its equation does not see the "
            "network; use a smooth activation, such as tanh, sin, swish or gelu.",
        )
    return ()


def _is_piecewise_linear(value: Any, problem: Problem, dtype: str) -> bool:
    """Whether all second derivatives of a network vanish at some points between −1 and 1."""
    d, m = problem.domain.dimension, problem.network_outputs
    x = tf.constant(np.random.default_rng(0).uniform(-1, 1, size=(32, d)), dtype)

    def slopes(z: Tensor) -> Tensor:
        return tf.reshape(_tape.value_and_jacobian(value, z)[1], [-1, m * d])

    return not bool(tf.reduce_any(_tape.value_and_jacobian(slopes, x)[1] != 0.0))


def make_networks(
    problem: Problem,
    rank_points: RankPoints,
    network: Any,
    settings: Settings,
    numbers: Sequence[int],
) -> list[Any]:
    """The models of `networks_of_members`, for the members of these numbers (local)."""
    found = networks_of_members(
        problem,
        network,
        seeds=[member_seed(settings.seed, number) for number in numbers],
        members=settings.members,
        dtype=settings.precision,
        arrays=rank_points.arrays,
    )
    return [each.model for each in found]
