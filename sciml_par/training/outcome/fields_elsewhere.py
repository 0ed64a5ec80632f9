"""Fields by which rank 0 predicts with the members of other ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member
from sciml_par.results.stored.keras_models import Fields, load_model


def with_fields_elsewhere(
    members: Sequence[Member],
    here: Sequence[Member],
    models: Sequence[Mapping[str, bytes | None]],
    problem_of: Callable[[int], Problem],
) -> list[Member]:
    """Return members of other ranks with their fields on rank 0.

    Parameters
    ----------
    here : the members of this rank, whose fields equal ones share.
    models : of each rank, files of models by their architectures, None where there is none.
    problem_of : gives the problem of a member by its number.
    """
    files = {name: content for each in models for name, content in each.items()}
    fields = Fields({n: cache(partial(_loaded, c)) for n, c in files.items() if c}, _not_saved)
    for member in here:
        fields.keep(member)
    found = []
    for member in members:
        otherwise = (
            f"the ansatz of member {member.number} differs from that of the problem on rank 0. "
            f"Predict on rank {member.rank}, where it was trained, or give the problem of each "
            f"member: Ensemble(problems=…)."
        )
        problem = None if member.form.ansatz is None else problem_of(member.number)
        found.append(fields.of(member, problem, otherwise))
    return found


def _not_saved(member: Member, _: str | None) -> str:
    return (
        f"the network of member {member.number} is not here, since Keras could not save it. "
        f"Predict on rank {member.rank}, where it was trained, or give the model or the function "
        f"that makes it: Result.load(folder, network=…)."
    )


def saved(model: Any) -> bytes | None:
    """Return the bytes of the model as Keras saves it; None where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        try:
            model.save(path)
        except Exception:  # Keras and the user's own class raise all kinds
            return None
        return path.read_bytes()


def _loaded(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        path.write_bytes(content)
        return load_model(path)
