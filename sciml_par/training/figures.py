"""The figures of a run: what was trained, drawn by `sciml_par.evaluation`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sciml_par.evaluation import (
    LossCurve,
    Prediction,
    Shard,
    plot_errors,
    plot_losses,
    plot_predictions,
    save_figure,
)
from sciml_par.training.member import DIVERGED, FINISHED, NOT_FINITE

if TYPE_CHECKING:
    from sciml_par.training.member import Member, Portion
    from sciml_par.training.result import Result

_DRAWN_DIMENSIONS = 2
_REMARKS = {FINISHED: "", NOT_FINITE: " (ended at step {step:,})", DIVERGED: " (diverged)"}


def write_figures(result: Result, folder: Path, *, title: str | None) -> None:
    """Write prediction, error and loss as PNG and PDF (local).

    In more than two dimensions there is only the loss to draw.
    """
    curves = [_prediction(result, member) for member in result.members]
    losses = [
        LossCurve(_label(result, member), member.loss_steps, member.losses)
        for member in result.members
    ]
    save_figure(plot_losses(losses, title=title), folder, "loss")
    if curves[0].dimension > _DRAWN_DIMENSIONS:
        return
    save_figure(plot_predictions(curves, title=title), folder, "prediction")
    if any(curve.u_exact is not None for curve in curves):
        save_figure(plot_errors(curves, title=title), folder, "error")


def _prediction(result: Result, member: Member) -> Prediction:
    seen = member.prediction
    return Prediction(
        label=_label(result, member),
        x=seen.x,
        u=seen.u,
        u_exact=seen.u_exact if seen.known else None,
        shards=tuple(_shard(portion) for portion in member.portions),
        sound=member.status == FINISHED,
    )


def _shard(portion: Portion) -> Shard:
    corners = None
    if portion.lower is not None and portion.upper is not None:
        corners = (portion.lower, portion.upper)
    return Shard(f"rank {portion.rank}", portion.sample, corners)


def _label(result: Result, member: Member) -> str:
    remark = _REMARKS[member.status].format(step=member.steps)
    if result.mode == "data":
        return f"prediction{remark}"
    label = f"rank {member.rank}"
    if len(result.members) > result.ranks:
        label += f", member {member.number}"
    if len({each.problem for each in result.members}) > 1:
        label += f": {member.problem}"
    return label + remark
