"""A result in a few lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from sciml_par._text import counted
from sciml_par.results.found_functions import found_functions
from sciml_par.results.member import Member, in_the_mean, ranks_of
from sciml_par.results.unknown_values import found_unknowns


def text_of(members: Sequence[Member], *, mode: str) -> str:
    """Mode, members, how they ended, losses, errors and times, in at most ten lines."""
    what = counted(len(members), "member") if mode == "ensemble" else "one model"
    heading = (
        f"Result of mode {mode!r}: {what}, trained by {counted(len(ranks_of(members)), 'rank')}"
    )
    entries = {
        "problem": shown({member.problem: None for member in members if member.problem}),
        "ended": counts_text(member.ended for member in members),
        "steps": range_of([member.steps for member in members], "{:,}"),
        "loss": loss_text(members),
        "rel. L2 error": range_of(
            [member.on_own_domain.relative_l2_error for member in members], "{:.2e}"
        ),
        "unknowns": unknowns_text(members),
        "time": f"{max(m.seconds_train for m in members):.2f} s, and "
        f"{max(m.seconds_compile for m in members):.2f} s of compilation, on the slowest rank",
    }
    lines = [f"  {name:<15}{text}" for name, text in entries.items() if text]
    lines.append("  See .print(), .predict(x), .history, .members, .using('last'), .save(folder).")
    return "\n".join([heading, *lines])


def loss_text(members: Sequence[Member]) -> str:
    """The losses of the weights that predict."""
    losses = range_of([member.kept_loss for member in members], "{:.2e}")
    kept = {member.kept for member in members}
    return f"{losses} ({' or '.join(sorted(kept))} weights)" if losses else "never finite"


def unknowns_text(members: Sequence[Member]) -> str:
    """ "D = 0.1 ± 0.001 (relative error 1e-03); k = 3" of the members that finished."""
    found = found_unknowns(
        [member.unknown_values for member in members],
        [member.kept_unknowns for member in members],
        in_the_mean(members),
    )
    every = {**found, **found_functions(members)}
    return shown([f"{name} = {each!r}" for name, each in every.items()], most=8)


def counts_text(values: Iterable[str]) -> str:
    """ "all steps", or "62 all steps, 2 not finite" of values that differ."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count:,} {value}" for value, count in counts.most_common())


def range_of(values: Iterable[float], form: str) -> str:
    """ "1 to 3" of values that differ, those that are not finite left out."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    texts = dict.fromkeys((form.format(min(finite)), form.format(max(finite))))
    return " to ".join(texts)


def shown(names: Iterable[str], *, most: int = 3) -> str:
    """The names, or the first of them and how many more there are."""
    given = list(names)
    more = [f"and {len(given) - most} more"] if len(given) > most else []
    return "; ".join([*given[:most], *more])
