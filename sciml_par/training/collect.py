"""From what each rank has found to one result: numbers for all ranks, arrays for rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.member import Member, PredictionElsewhere
from sciml_par.training.gather import rows_to_all, rows_to_root

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
    """All members of the ensemble, or the one model with what all ranks contributed (collective).

    Every rank learns the numbers. Predictions and samples of points go to rank 0 alone, so that
    the memory of no other rank grows with the number of ranks and points.
    """
    numbers = communicator.allgather_object([_without_arrays(member) for member in found])
    mine = found[0].contributions[0].sample
    samples = rows_to_root(mine, communicator)
    for rank, sample in enumerate(samples) if samples else [(communicator.rank, mine)]:
        numbers[rank] = [_with_sample(member, sample) for member in numbers[rank]]
    if mode == "data":
        contributions = tuple(members[0].contributions[0] for members in numbers)
        return (replace(numbers[0][0], contributions=contributions, **_arrays(found[0])),)
    numbers = _with_histories(numbers, found, communicator)
    predictions = _predictions(numbers, found, communicator)
    return tuple(
        replace(member, **predictions[rank][j])
        for rank, members in enumerate(numbers)
        for j, member in enumerate(members)
    )


def _arrays(member: Member) -> dict[str, Any]:
    names = ("loss_steps", "losses", "prediction", "on_own_domain")
    return {name: getattr(member, name) for name in names}


def _without_arrays(member: Member) -> Member:
    (contribution,) = member.contributions
    return replace(
        member,
        loss_steps=member.loss_steps[:0],
        losses=member.losses[:0],
        prediction=_elsewhere(member.prediction),
        on_own_domain=_elsewhere(member.on_own_domain),
        contributions=(contribution.with_sample(contribution.sample[:0]),),
    )


def _elsewhere(prediction: Prediction | PredictionElsewhere) -> PredictionElsewhere:
    """What a rank that does not hold the arrays has of a prediction."""
    return PredictionElsewhere(prediction.known, prediction.relative_l2_error)


def _with_sample(member: Member, sample: FloatArray) -> Member:
    (contribution,) = member.contributions
    return replace(member, contributions=(contribution.with_sample(sample),))


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
        seen, own = member.prediction, member.on_own_domain
        filled[communicator.rank][j] = {"prediction": seen, "on_own_domain": own}
        outputs = seen.u.shape[1]
        on_common = rows_to_root(np.hstack([seen.u, seen.exact]), communicator)
        # A member whose domain is the common one has one prediction under two names.
        rows = np.hstack([own.u, own.exact, own.x])[: 0 if own is seen else None]
        on_own = rows_to_root(rows, communicator)
        for rank in range(1, len(on_common)):
            theirs = apart = _prediction(seen.x, on_common[rank], outputs)
            if len(on_own[rank]) > 0:
                apart = _prediction(on_own[rank][:, 2 * outputs :], on_own[rank], outputs)
            filled[rank][j] = {"prediction": theirs, "on_own_domain": apart}
    return filled


def _prediction(x: FloatArray, rows: FloatArray, outputs: int) -> Prediction:
    """Of the rows u(x), u*(x)."""
    return Prediction("prediction", x, rows[:, :outputs], rows[:, outputs : 2 * outputs])
