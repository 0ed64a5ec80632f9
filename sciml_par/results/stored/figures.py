"""The figures of a run: what was trained, drawn by `sciml_par.evaluation`."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._files import put_file
from sciml_par.errors import InputError
from sciml_par.evaluation.figures import bands, histories, intervals, planes, predictions, slices
from sciml_par.evaluation.figures.parts.curves import LossCurve, UnknownCurve
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.style import vector_of
from sciml_par.evaluation.figures.save import DOTS_PER_INCH, save_figure
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.results.linearized_bands import linearized_uncertainty
from sciml_par.results.member import DIVERGED, FINISHED, NOT_FINITE, Member, in_the_mean, ranks_of
from sciml_par.results.trained_field import TrainedField

_DRAWN_DIMENSIONS = 2
_LEVEL = 0.95
_DOTS = 110  # an inch, in a notebook
_FEW = 2
"""Losses, of a solution that was not trained."""
_ONE = "prediction"  # what that of a single model is called
_REMARKS = {FINISHED: "", NOT_FINITE: " (ended at step {step:,})", DIVERGED: " (diverged)"}


def write_figures(members: Sequence[Member], folder: Path, *, mode: str, title: str | None) -> None:
    """Write prediction, error, loss and, if there are any, unknowns as PNG and PDF.

    Histories of a single record, as of a solution without steps, are not drawn.

    Others follow where there is something to show: unknown functions, weights, times, streamlines,
    bodies, windows, bands and pairs of unknowns.
    """
    labels = labels_of(members, mode=mode)
    if any(len(member.losses) > _FEW for member in members):
        _write_histories(members, labels, folder, title)
    _write_functions(members, labels, folder, title)
    if len(members) == 1:
        _write_uncertainty(members[0], folder, title)
    drawn = _drawn(members, labels)
    known, in_full = any(each.known for each in drawn), drawn[0].dimension <= _DRAWN_DIMENSIONS
    if _can_be_drawn(drawn):
        save_figure(_predictions(members, drawn, title), folder, "prediction")
    if known and in_full:
        save_figure(predictions.plot_errors(drawn, title=title), folder, "error")
    if slices.in_plane_and_time(drawn[0]):
        save_figure(slices.plot_times(drawn, title=title), folder, "times")
    if all(slices.in_space_and_time(each) for each in drawn):
        save_figure(slices.plot_slices(drawn, title=title), folder, "slices")
    if drawn[0].dimension == _DRAWN_DIMENSIONS and vector_of(drawn[0]):
        save_figure(planes.plot_flow(drawn, title=title), folder, "flow")
    if slices.in_space(drawn[0]):
        save_figure(slices.plot_body(drawn, title=title), folder, "body")
    windows = members[0].error and members[0].error.by_window
    if windows and windows.known and drawn[0].dimension == _DRAWN_DIMENSIONS:
        given = windows.lower, windows.upper, windows.error
        save_figure(planes.plot_windows(drawn[0], *given, title=title), folder, "windows")


def figure_of(members: Sequence[Member], *, mode: str, title: str | None) -> Any:
    """Return the figure that shows most of the predictions."""
    if not all(isinstance(member.prediction, Prediction) for member in members):
        raise InputError("Result.plot: the predictions are on rank 0; call it there.")
    drawn = _drawn(members, labels_of(members, mode=mode))
    if slices.in_plane_and_time(drawn[0]):
        return slices.plot_times(drawn, title=title)
    if slices.in_space(drawn[0]):
        return slices.plot_body(drawn, title=title)
    if all(slices.in_space_and_time(each) for each in drawn):
        return slices.plot_slices(drawn, title=title)
    if _can_be_drawn(drawn):
        return _predictions(members, drawn, title)
    raise InputError(
        f"Result.plot: a figure has no room for {drawn[0].dimension} coordinates; draw "
        f"result.predict(x) at points of a line or a plane."
    )


def write_figure(figure: Any, path: Path) -> None:
    """Write one figure to a file; its ending is the format."""
    known, ending = figure.canvas.get_supported_filetypes(), path.suffix[1:].lower()
    if ending not in known:
        raise InputError(
            f"Result.plot: expected a file with one of the endings {', '.join(sorted(known))}; got "
            f"{path.name!r}."
        )
    put_file(path, lambda draft: figure.savefig(draft, dpi=DOTS_PER_INCH))


def html_of(members: Sequence[Member], text: str, *, mode: str) -> str:
    """Return a text as HTML, with the figure of the predictions if they are here."""
    found = f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>'
    if not all(isinstance(member.prediction, Prediction) for member in members):
        return found
    drawn = _drawn(members, labels_of(members, mode=mode))
    if not _can_be_drawn(drawn):
        return found
    picture = io.BytesIO()
    _predictions(members, drawn).savefig(picture, format="png", dpi=_DOTS)
    code = base64.b64encode(picture.getvalue()).decode()
    return f'{found}<img alt="prediction" src="data:image/png;base64,{code}">'


def _predictions(
    members: Sequence[Member], drawn: Sequence[Prediction], title: str | None = None
) -> Any:
    """Draw the predictions, with the measured values if all members solve one problem."""
    one = len({member.problem for member in members}) == 1
    return predictions.plot_predictions(
        drawn, title=title, observed=members[0].observations if one else ()
    )


def _drawn(members: Sequence[Member], labels: Sequence[str]) -> list[Prediction]:
    return [
        drawn_prediction(member, label, sound=enters)
        for member, label, enters in zip(members, labels, in_the_mean(members), strict=True)
    ]


def _can_be_drawn(drawn: Sequence[Prediction]) -> bool:
    in_full = drawn[0].dimension <= _DRAWN_DIMENSIONS
    return in_full or any(predictions.can_be_scattered(each) for each in drawn)


def _write_histories(
    members: Sequence[Member], labels: Sequence[str], folder: Path, title: str | None
) -> None:
    """Write loss, unknowns and weights over the step."""
    named = list(zip(members, labels, strict=True))
    losses = [_loss_curve(member, label) for member, label in named]
    save_figure(histories.plot_losses(losses, title=title), folder, "loss")
    sought = [curve for member, label in named for curve in _unknown_curves(member, label)]
    if sought:
        save_figure(histories.plot_unknowns(sought, title=title), folder, "unknowns")
    if len(members) == 1 and members[0].term_weights.size:
        columns = zip(members[0].terms, members[0].term_weights.T, strict=True)
        curves = [LossCurve(name, members[0].loss_steps, values) for name, values in columns]
        save_figure(histories.plot_weights(curves, title=title), folder, "weights")


def _write_functions(
    members: Sequence[Member], labels: Sequence[str], folder: Path, title: str | None
) -> None:
    """Write a figure for each name of an unknown function."""
    found: dict[str, list[Prediction]] = {}
    for label, member, enters in zip(labels, members, in_the_mean(members), strict=True):
        for each in member.functions:
            # Without the shards of the solution, which may have more coordinates.
            drawn = replace(each.as_member(member).prediction, label=label, sound=enters)
            found.setdefault(each.name, []).append(drawn)
    for name, curves in found.items():
        alike = [each for each in curves if each.dimension == curves[0].dimension]
        if alike[0].dimension <= _DRAWN_DIMENSIONS or any(each.known for each in alike):
            save_figure(predictions.plot_predictions(alike, title=title), folder, f"unknown_{name}")


def _write_uncertainty(member: Member, folder: Path, title: str | None) -> None:
    """Write the bands, and the unknowns in pairs, where data with errors determine them."""
    found = linearized_uncertainty(member, _LEVEL)
    if found.reason:
        return
    deviations = found.deviations
    if len(deviations) and np.isfinite(deviations).all() and (deviations > 0).all():
        save_figure(intervals.plot_corner(found, title=title), folder, "corner")
    here = isinstance(member.field, TrainedField)
    if here and member.prediction.x.shape[1] <= _DRAWN_DIMENSIONS:
        save_figure(bands.plot_bands(found, title=title), folder, "bands")


def _loss_curve(member: Member, label: str) -> LossCurve:
    """Return the loss with its terms, of which one alone would be the loss again."""
    several = len(member.terms) > 1
    if label.startswith(_ONE):
        label = label.replace(_ONE, "total" if several else "loss", 1)
    return LossCurve(
        label,
        member.loss_steps,
        member.losses,
        terms=dict(zip(member.terms, member.term_losses.T, strict=True)) if several else {},
        best_step=member.best_step if np.isfinite(member.best_loss) else None,
        best_loss=member.best_loss,
    )


def _unknown_curves(member: Member, label: str) -> list[UnknownCurve]:
    values = member.unknown_values
    numbers = zip(values.true_numbers.items(), values.history.T, strict=True)
    if label.startswith(_ONE):
        label = label.replace(_ONE, "found", 1)
    return [
        UnknownCurve(name, label, member.loss_steps, history, true)
        for (name, true), history in (numbers if values.size else ())
    ]


def drawn_prediction(member: Member, label: str, *, sound: bool) -> Prediction:
    """Return the prediction, with what a figure says and shows of the member."""
    assert isinstance(member.prediction, Prediction)
    return replace(
        member.prediction,
        label=label,
        shards=tuple(each.shard for each in member.contributions),
        sound=sound,
        estimated_error=_estimated_error(member),
    )


def _estimated_error(member: Member) -> FloatArray | None:
    """Return the estimated error at the points of the prediction, [n, m], if it is known there.

    At rounding, `ErrorEstimate.absolute` is a bound above the root mean square of the values; they
    are drawn in its size.
    """
    error, prediction = member.error, member.prediction
    if error is None or not error.known or error.values.shape != prediction.u.shape:
        return None
    if not np.array_equal(member.on_own_domain.x, prediction.x):
        return None
    mean = np.sqrt(np.mean(error.values[prediction.inside] ** 2, axis=0))
    scale = np.divide(error.absolute, mean, out=np.ones_like(mean), where=mean > 0.0)
    return error.values * scale


def labels_of(members: Sequence[Member], *, mode: str) -> list[str]:
    """Return what a figure calls each member."""
    several = len(members) > len(ranks_of(members))
    unlike = len({member.problem for member in members}) > 1
    labels = []
    for member in members:
        label = _ONE
        if mode == "ensemble":
            label = f"rank {member.rank}"
            label += f", member {member.number}" if several else ""
            label += f": {member.problem}" if unlike else ""
        labels.append(label + _REMARKS[member.status].format(step=member.steps))
    return labels
