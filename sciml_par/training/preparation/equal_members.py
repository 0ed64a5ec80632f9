"""Members of an ensemble that share a model, or that are copies of one another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.member import numbers_text
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.preparation.description import Description

_OWN = "seed"
_PASS_ON = (
    "Let the function that makes the network take the argument seed and pass it on, as "
    "network=lambda d, m, seed: MLP(d, m, seed=seed)."
)


def refuse_shared_models(setups: Sequence[MemberSetup]) -> None:
    """Check that no two members have one model."""
    first: dict[int, int] = {}
    for setup in setups:
        for network in (setup.network, *setup.network.others):
            other = first.setdefault(id(network.model), setup.number)
            if other != setup.number:
                raise InputError(
                    f"train: the function that makes networks returned the same object, a "
                    f"{type(network.model).__name__}, for members {other} and {setup.number}, "
                    f"which would share one set of weights. Make the model inside of the function, "
                    f"as network=lambda: keras.Sequential([...])."
                )


def remarks_on_equal_members(
    setups: Sequence[MemberSetup],
    models: Sequence[Description],
    group: Communicator,
    world: Communicator,
) -> list[str]:
    """Return what to say of members that have one seed or do not use theirs (collective)."""
    mine = [
        (_digest(setup, model), setup.seed, setup.number)
        for setup, model in zip(setups, models, strict=True)
        if group.rank == 0
    ]
    found: dict[str, dict[int, int]] = {}
    for digest, seed, number in chain.from_iterable(world.allgather_object(mine)):
        found.setdefault(digest, {})[number] = seed
    return [
        f"{numbers_text(sorted(alike))} are copies of one model: their initial weights, "
        f"problems and points are equal, and so their deviation is zero. "
        + (_PASS_ON if len(set(alike.values())) > 1 else "Give each another one of seeds.")
        for alike in found.values()
        if len(alike) > 1
    ]


def _digest(setup: MemberSetup, model: Description) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for variable in setup.network.trainable_variables:
        digest.update(np.asarray(variable).tobytes())
    digest.update(np.asarray(setup.unknowns).tobytes())
    digest.update(repr(sorted((k, v) for k, v in model.items() if k != _OWN)).encode())
    return digest.hexdigest()
