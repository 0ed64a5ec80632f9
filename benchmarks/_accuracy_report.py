"""The table and the figure of accuracy.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _accuracy_curves import Curve
from _accuracy_problems import CASES

from sciml_par.evaluation.figures.parts.style import DASHES, PALETTE, paper_style

Curves = Mapping[tuple[str, str], Sequence[Curve]]
"""By the names of problem and optimizer, a curve for each seed."""

_COLUMNS = (
    f"{'':34}{'error':>10}{'least':>10}{'largest':>10}{'iterations':>12}{'seconds':>9}"
    f"{'compile':>9}   target"
)


def median_curve(curves: Sequence[Curve]) -> Curve:
    """Return the curve with the median of the last errors, the lower of two."""
    return sorted(curves, key=lambda curve: curve.error)[(len(curves) - 1) // 2]


def table(found: Curves, absent: Mapping[str, str]) -> str:
    """Return a block for each problem, with a line for each optimizer."""
    lines = []
    for problem in dict.fromkeys(name for name, _ in found):
        case = CASES[problem]
        lines += [
            f"\n{problem}: {case.title}; to reach: {case.target:.0e} in {case.seconds:.0f} s, "
            f"stretch {case.stretch:.0e}",
            _COLUMNS,
        ]
        for (name, optimizer), curves in found.items():
            if name == problem:
                lines += [line(optimizer, curves, case.target), *stopped_early(curves)]
    lines += [f"absent: {name}: {why}" for name, why in absent.items()]
    return "\n".join(lines)


def line(optimizer: str, curves: Sequence[Curve], target: float) -> str:
    """Return the figures of an optimizer: medians over the seeds except least, largest, compile."""
    errors = [curve.error for curve in curves]
    return (
        f"  {optimizer:32}{statistics.median(errors):10.1e}{min(errors):10.1e}{max(errors):10.1e}"
        f"{statistics.median(curve.rows[-1][0] for curve in curves):12,.0f}"
        f"{statistics.median(curve.rows[-1][1] for curve in curves):9.1f}"
        f"{max(curve.compile_seconds for curve in curves):9.1f}   {verdict(curves, target)}"
    )


def verdict(curves: Sequence[Curve], target: float) -> str:
    """Return whether the median error reaches the target, and when."""
    reached = [at for curve in curves if (at := curve.reached(target))]
    if not reached:
        return "missed"
    median = statistics.median(curve.error for curve in curves)
    step, seconds = (statistics.median(each) for each in zip(*reached, strict=True))
    return (
        f"{'reached' if median <= target else 'missed'}, by {len(reached)} of {len(curves)}: "
        f"after {step:,.0f} iterations, {seconds:.1f} s"
    )


def stopped_early(curves: Sequence[Curve]) -> list[str]:
    """Return a line for each reason, other than the time limit, for which trainings ended."""
    reasons = dict.fromkeys(curve.ended for curve in curves if not curve.had_its_time)
    return [f"    ended before: {reason}" for reason in reasons]


def draw(found: Curves, file: Path) -> None:
    """Draw the error against seconds, a panel a problem; the median seed strong, others pale."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(problem for problem, _ in found))
    optimizers = list(dict.fromkeys(optimizer for _, optimizer in found))
    columns = 2 if len(problems) == 4 else min(len(problems), 3)
    rows = -(-len(problems) // columns)
    with paper_style():
        # The legend stands below all panels, in a separate strip.
        legend_rows = -(-len(optimizers) // (3 * columns))
        strip = 0.22 + 0.2 * legend_rows
        size = (2.9 * columns + 0.3, 2.3 * rows + strip)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(rows + 1, 1 * columns, height_ratios=[*[2.3] * rows, strip])
        handles: dict[str, Any] = {}
        for place, problem in enumerate(problems):
            axes = figure.add_subplot(grid[place // columns, place % columns])
            of_problem = {o: c for (p, o), c in found.items() if p == problem}
            handles |= panel(axes, problem, of_problem, optimizers)
            axes.set_ylabel("relative L2 error" if place % columns == 0 else "")
            below = place + columns >= len(problems)
            axes.set_xlabel("seconds of training" if below else "")
        legend = figure.add_subplot(grid[rows, :])
        legend.axis("off")
        legend.legend(
            handles.values(), handles.keys(), loc="center", ncols=3 * columns, frameon=False
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=112)


def panel(
    axes: Any, problem: str, found: Mapping[str, Sequence[Curve]], optimizers: Sequence[str]
) -> dict[str, Any]:
    """Draw a problem, and return a line for each optimizer."""
    case, handles = CASES[problem], {}
    for optimizer, curves in found.items():
        index = optimizers.index(optimizer)
        style = {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index % len(DASHES)]}
        strong = median_curve(curves)
        for curve in curves:
            seconds, errors = zip(*[(row[1], row[3]) for row in curve.rows], strict=True)
            width, opacity = (1.4, 1.0) if curve is strong else (0.6, 0.35)
            (drawn,) = axes.plot(seconds, errors, linewidth=width, alpha=opacity, **style)
            if curve is strong:
                handles[optimizer] = drawn
    axes.axhline(case.target, color="#7f7f7f", linewidth=0.8, linestyle=":", zorder=1)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xlim(left=0)
    axes.set_title(f"{case.title}\ndotted: to reach, {case.target:.0e}", fontsize=7.5)
    return handles
