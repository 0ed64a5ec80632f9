"""From what each rank has found to one result: numbers for all ranks, arrays for rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.member import Member, PredictionElsewhere, RankContribution, Weights
from sciml_par.training.collect_functions import functions_on_root
from sciml_par.training.gather import pieces_to_root, rows_to_all

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


def collect(found: Sequence[Member], communicator: Communicator) -> tuple[Member, ...]:
    """The members of all ranks, each with what its ranks contributed (collective).

    Every rank learns the numbers. Predictions, weights and samples of points go to rank 0 alone,
    so that the memory of no other rank grows with the number of ranks and points.

    Parameters
    ----------
    found : the members that this rank has trained, each with this rank's contribution. The first
        rank of those that trained a member speaks for it.
    """
    mine = [member for member in found if member.rank == communicator.rank]
    numbers = communicator.allgather_object([_without_arrays(member) for member in found])
    contributions = _contributions(numbers, found, communicator)
    histories = _histories(mine, communicator)
    arrays = _arrays_on_root(mine, communicator)
    for number, functions in functions_on_root(mine, numbers, communicator).items():
        arrays[number]["functions"] = functions
    here = {member.number: _arrays(member) for member in found}
    members: dict[int, Member] = {}
    for theirs in numbers:
        for member in theirs:
            if member.number not in members:
                members[member.number] = replace(
                    member,
                    contributions=tuple(contributions[member.number]),
                    **_history(histories[member.number], member),
                    **(here.get(member.number) or arrays.get(member.number) or {}),
                )
    return tuple(members[number] for number in sorted(members))


def _arrays(member: Member) -> dict[str, Any]:
    names = ("prediction", "on_own_domain", "weights", "functions")
    return {name: getattr(member, name) for name in names}


def _without_arrays(member: Member) -> Member:
    (contribution,) = member.contributions
    return replace(
        member,
        loss_steps=member.loss_steps[:0],
        losses=member.losses[:0],
        term_losses=member.term_losses[:0],
        unknown_values=member.unknown_values.without_history(),
        term_weights=member.term_weights[:0],
        prediction=_elsewhere(member.prediction),
        on_own_domain=_elsewhere(member.on_own_domain),
        weights=None,
        functions=tuple(each.elsewhere() for each in member.functions),
        contributions=(contribution.with_sample(contribution.sample[:0]),),
    )


def _elsewhere(prediction: Prediction | PredictionElsewhere) -> PredictionElsewhere:
    """What a rank that does not hold the arrays has of a prediction."""
    return PredictionElsewhere(prediction.known, prediction.relative_l2_error)


def _contributions(
    numbers: list[list[Member]], found: Sequence[Member], communicator: Communicator
) -> dict[int, list[RankContribution]]:
    """What the ranks contributed to each member; on rank 0 with samples of points (collective)."""
    own = [member.contributions[0].sample for member in found]
    samples = pieces_to_root(own, communicator)
    samples = samples or [own if r == communicator.rank else [] for r in range(communicator.size)]
    gathered: dict[int, list[RankContribution]] = {}
    for rank, members in enumerate(numbers):
        for j, member in enumerate(members):
            (contribution,) = member.contributions
            if samples[rank]:
                contribution = contribution.with_sample(samples[rank][j])
            gathered.setdefault(member.number, []).append(contribution)
    return gathered


def _histories(mine: Sequence[Member], communicator: Communicator) -> dict[int, FloatArray]:
    """The recorded losses of all members on all ranks, as rows of a table (collective)."""
    longest = max(communicator.allgather_object(max(map(_width, mine), default=0)))
    rows = [np.empty((0, longest + 3))]
    for member in mine:
        parts = np.full((len(member.losses), longest), np.nan)
        unknowns = member.unknown_values
        known = [member.term_losses, member.term_weights]
        known += [unknowns.history] if unknowns.size else []
        parts[:, : _width(member)] = np.hstack(known)
        whose = np.full(len(parts), member.number)
        rows.append(np.column_stack([whose, member.loss_steps, member.losses, parts]))
    table = rows_to_all(np.concatenate(rows), communicator)
    return {int(number): table[table[:, 0] == number, 1:] for number in np.unique(table[:, 0])}


def _width(member: Member) -> int:
    """How many columns its records have beside step and loss."""
    return len(member.terms) + member.term_weights.shape[1] + member.unknown_values.size


def _history(rows: FloatArray, member: Member) -> dict[str, Any]:
    """What a member has of its rows of step, loss, terms, their weights and unknowns."""
    unknowns = member.unknown_values
    ends = np.cumsum([2, len(member.terms), member.term_weights.shape[1], unknowns.size])
    return {
        "loss_steps": rows[:, 0].astype(np.int64),
        "losses": rows[:, 1],
        "term_losses": rows[:, ends[0] : ends[1]],
        "term_weights": rows[:, ends[1] : ends[2]],
        "unknown_values": replace(unknowns, history=rows[:, ends[2] : ends[3]]),
    }


def _arrays_on_root(
    mine: Sequence[Member], communicator: Communicator
) -> dict[int, dict[str, Any]]:
    """Predictions and weights of all members, on rank 0; elsewhere nothing (collective)."""
    numbers = communicator.allgather_object([member.number for member in mine])
    precision = communicator.allgather_object(
        [str(m.weights.best.dtype) if m.weights else "" for m in mine]
    )
    seen = [_prediction_of(member.prediction) for member in mine]
    own = [_prediction_of(member.on_own_domain) for member in mine]
    common = pieces_to_root([np.hstack([p.u, p.exact]) for p in seen], communicator)
    # A member whose domain is the common one has one prediction under two names.
    apart = pieces_to_root(
        [
            np.hstack([p.u, p.exact, _mask(p), p.x])[: 0 if p is q else None]
            for p, q in zip(own, seen, strict=True)
        ],
        communicator,
    )
    weights = pieces_to_root(
        [np.column_stack([m.weights.best, m.weights.last]) for m in mine if m.weights],
        communicator,
    )
    found: dict[int, dict[str, Any]] = {}
    for rank in range(1, len(common)):
        for j, number in enumerate(numbers[rank]):
            dtype = precision[rank][j]
            found[number] = {
                **_predictions(seen[0], common[rank][j], apart[rank][j]),
                "weights": Weights(*weights[rank][j].T.astype(dtype)),
            }
    return found


def _prediction_of(prediction: Prediction | PredictionElsewhere) -> Prediction:
    assert isinstance(prediction, Prediction)
    return prediction


def _predictions(like: Prediction, common: FloatArray, apart: FloatArray) -> dict[str, Prediction]:
    """Of the rows u(x), u*(x) on the common points, and these, mask, x on the member's own."""
    outputs = like.u.shape[1]
    seen = own = _prediction(like, like.x, _mask(like), common, outputs)
    if len(apart) > 0:
        mask, x = np.split(apart[:, 2 * outputs :], [1], axis=1)
        own = _prediction(like, x, mask, apart, outputs)
    return {"prediction": seen, "on_own_domain": own}


def _prediction(
    like: Prediction, x: FloatArray, mask: FloatArray, rows: FloatArray, outputs: int
) -> Prediction:
    u, exact = rows[:, :outputs], rows[:, outputs : 2 * outputs]
    return replace(like, x=x, u=u, u_exact=exact, inside=mask[:, 0] != 0)


def _mask(prediction: Prediction) -> FloatArray:
    """Which points lie in the domain, as numbers [n, 1]."""
    return np.asarray(prediction.inside, np.float64)[:, None]
