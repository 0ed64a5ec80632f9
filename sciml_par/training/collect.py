"""From what each rank has found to one result: numbers for all ranks, arrays for rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.gather import rows_to_all, rows_to_root
from sciml_par.training.member import Comparison, ComparisonElsewhere, Member

FloatArray = npt.NDArray[np.float64]

# More marks than this in a figure are one dark band.
_POINTS_IN_A_FIGURE = 2000


def sample_for_figures(points: FloatArray, ranks: int) -> FloatArray:
    """As many of a rank's points as it may add to a figure: [k, d] of [n, d], in order (local).

    First and last are among them. They are chosen at random, since every tenth point of a grid
    lies on other lines than the grid; and alike for alike numbers of points.
    """
    most = max(2, _POINTS_IN_A_FIGURE // ranks)
    if len(points) <= most:
        return points
    inner = np.random.default_rng(0).choice(len(points) - 2, most - 2, replace=False) + 1
    return points[np.sort([0, *inner, len(points) - 1])]


def collect(mode: str, found: Sequence[Member], communicator: Communicator) -> tuple[Member, ...]:
    """All members of the ensemble, or the one model with the portions of all ranks (collective).

    Every rank learns the numbers. Predictions and samples of points go to rank 0 alone, so that
    the memory of no other rank grows with the number of ranks and points.
    """
    numbers = communicator.allgather_object([_without_arrays(member) for member in found])
    samples = rows_to_root(found[0].portions[0].sample, communicator)
    for rank, sample in enumerate(samples):
        numbers[rank] = [_with_sample(member, sample) for member in numbers[rank]]
    if communicator.rank > 0:
        sample = found[0].portions[0].sample
        mine = numbers[communicator.rank]
        numbers[communicator.rank] = [_with_sample(member, sample) for member in mine]
    if mode == "data":
        portions = tuple(members[0].portions[0] for members in numbers)
        return (replace(numbers[0][0], portions=portions, **_arrays(found[0])),)
    numbers = _with_histories(numbers, found, communicator)
    predictions = _predictions(numbers, found, communicator)
    return tuple(
        replace(member, **predictions[rank][j])
        for rank, members in enumerate(numbers)
        for j, member in enumerate(members)
    )


def _arrays(member: Member) -> dict[str, Any]:
    return {name: getattr(member, name) for name in ("loss_steps", "losses", "prediction", "own")}


def _without_arrays(member: Member) -> Member:
    assert isinstance(member.prediction, Comparison) and isinstance(member.own, Comparison)
    (portion,) = member.portions
    return replace(
        member,
        loss_steps=member.loss_steps[:0],
        losses=member.losses[:0],
        prediction=member.prediction.elsewhere(),
        own=member.own.elsewhere(),
        portions=(replace(portion, sample=portion.sample[:0]),),
    )


def _with_sample(member: Member, sample: FloatArray) -> Member:
    (portion,) = member.portions
    return member.with_portions((replace(portion, sample=sample),))


def _with_histories(
    numbers: list[list[Member]], found: Sequence[Member], communicator: Communicator
) -> list[list[Member]]:
    """The members of all ranks with their losses (collective)."""
    rows = [
        np.stack([np.full(len(m.losses), m.number), m.loss_steps, m.losses], axis=1) for m in found
    ]
    table = rows_to_all(np.concatenate(rows), communicator)
    histories = {number: table[table[:, 0] == number] for number in np.unique(table[:, 0])}
    return [
        [
            replace(
                member,
                loss_steps=histories[member.number][:, 1].astype(np.int64),
                losses=histories[member.number][:, 2],
            )
            for member in members
        ]
        for members in numbers
    ]


def _predictions(
    numbers: list[list[Member]], found: Sequence[Member], communicator: Communicator
) -> list[list[dict[str, Any]]]:
    """What each rank's members predict: of all on rank 0, of its own elsewhere (collective)."""
    filled: list[list[dict[str, Any]]] = [[{} for _ in members] for members in numbers]
    for j, member in enumerate(found):
        filled[communicator.rank][j] = {"prediction": member.prediction, "own": member.own}
        x, m = member.prediction.x, member.prediction.u.shape[1]
        on_common = rows_to_root(_values(member.prediction), communicator)
        # A member whose domain is the common one has one prediction under two names.
        same = member.own is member.prediction
        own = np.hstack([_values(member.own), member.own.x])[: 0 if same else None]
        on_own = rows_to_root(own, communicator)
        for rank in range(1, len(on_common)):
            prediction = _comparison(x, on_common[rank], m)
            apart = len(on_own[rank]) > 0
            filled[rank][j] = {
                "prediction": prediction,
                "own": _comparison(on_own[rank][:, 2 * m :], on_own[rank], m)
                if apart
                else prediction,
            }
    return filled


def _values(comparison: Comparison | ComparisonElsewhere) -> FloatArray:
    return np.hstack([comparison.u, comparison.u_exact])


def _comparison(x: FloatArray, rows: FloatArray, m: int) -> Comparison:
    return Comparison(x, rows[:, :m], rows[:, m : 2 * m])
