"""What is to be said of members that did not simply finish, a sentence for all that are alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sciml_par._text import counted, listed
from sciml_par.results.member import DIVERGED, FAR_ABOVE, NOT_FINITE, Member, numbers_text
from sciml_par.results.text import range_of

_RISE = 2.0  # as a multiple of the best loss: what is worth a remark
_KEPT = {"best": "the weights of {} are kept", "last": "the last weights are kept, as was asked"}
_MOST_STACKS = 3
_UNITS = (
    "where u or a term of the equation is far from 1 in size, write the problem in units in which "
    "they are about 1"
)
_MANY = 1e6  # more than this is written as a power of ten


def remarks(members: Sequence[Member], *, mode: str) -> list[str]:
    """What is to be said of the members, a sentence for each kind of thing."""
    never = [m for m in members if m.status == NOT_FINITE and not math.isfinite(m.best_loss)]
    ended = [m for m in members if m.status == NOT_FINITE and m not in never]
    diverged = [m for m in members if m.status == DIVERGED]
    risen = [m for m in members if m.finite and m not in diverged and m.rise > _RISE]
    apart = [m for m in members if m.times_brought_together]
    fitted = [m for m in members if m.over_fitted]
    little = [m for m in members if m.found_little]
    missing = [m for m in members if m.missed and m not in little]
    told = {
        _never: never,
        _ended: ended,
        _diverged: diverged,
        _risen: risen,
        _over_fitted: fitted,
        _found_little: little,
        _missed: missing,
        _apart: apart,
    }
    found = [say(_who(which, mode), which) for say, which in told.items() if which]
    return [*found, *_one_after_the_other(members)]


def _who(members: Sequence[Member], mode: str) -> str:
    if mode == "data":
        return "the model"
    if len(members) == 1:
        return f"member {members[0].number}, rank {members[0].rank}"
    return numbers_text([member.number for member in members])


def _never(who: str, members: Sequence[Member]) -> str:
    has = "which it has" if len(members) == 1 else "which they have"
    return f"! {who}: the loss is not finite at the initial weights, {has}."


def _ended(who: str, members: Sequence[Member]) -> str:
    steps, asked = (
        range_of([getattr(m, name) for m in members], "{:,}") for name in ("steps", "steps_asked")
    )
    text = f"! {who}: ended at step {steps} of {asked}, after which the loss is not finite"
    (kept, *others) = {member.kept for member in members}
    if kept == "last" and not others:
        return f"{text}; the best weights take the place of the last."
    if len(members) > 1:
        return f"{text}; each has the weights of its least loss."
    return f"{text}; it has the weights of step {members[0].best_step:,}, of the least loss."


def _diverged(who: str, members: Sequence[Member]) -> str:
    last, best = (
        range_of([getattr(m, n) for m in members], "{:.2e}") for n in ("loss", "best_loss")
    )
    return (
        f"! {who}: diverged; the loss ended at {last}, more than {FAR_ABOVE:,.0f} times its best, "
        f"{best}; {_kept(members)}."
    )


def _risen(who: str, members: Sequence[Member]) -> str:
    times = range_of([member.rise for member in members], "{:.0f}")
    last, best = (
        range_of([getattr(m, n) for m in members], "{:.2e}") for n in ("loss", "best_loss")
    )
    after = f" after step {members[0].best_step:,}" if len(members) == 1 else ""
    return (
        f"{who}: the loss ended at {last}, {times} times its best, {best}{after}; {_kept(members)}."
    )


def _over_fitted(who: str, members: Sequence[Member]) -> str:
    names = ("kept_loss", "validation_loss")
    loss, other = (range_of([getattr(m, n) for m in members], "{:.2e}") for n in names)
    factors = [m.validation_loss / m.kept_loss for m in members if m.kept_loss]
    times = range_of(factors, "{:,.0f}" if max(factors, default=0) < _MANY else "{:.0e}")
    return (
        f"{who}: the loss is {loss} at the training points and {other} at others (validation_loss"
        f"{f', {times} times' if times else ''}); the second tells how good the solution is. Train "
        f"with twice the points: if the factor falls, they were too few; if it stays, the residual "
        f"is not resolved somewhere, as at a corner or a jump."
    )


def _found_little(who: str, members: Sequence[Member]) -> str:
    names = ("validation_loss", "zero_loss")
    loss, zero = (range_of([getattr(m, n) for m in members], "{:.2e}") for n in names)
    return (
        f"{who}: the loss at other points is {loss}, and that of a network of zeros is {zero}: "
        f"little of the solution has been found, or there is none. Train longer; {_UNITS}."
    )


def _missed(who: str, members: Sequence[Member]) -> str:
    names = dict.fromkeys(name for member in members for name in member.missed)
    ratios = range_of([m.misfits[n] for m in members for n in m.missed], "{:.2g}")
    which = listed([repr(name) for name in names])
    one = len(names) == 1
    return (
        f"{who}: the condition{'' if one else 's'} {which} {'is' if one else 'are'} missed by "
        f"{ratios} times the size of what {'it is' if one else 'they are'} about, u or its slope: "
        f"no solution has all conditions, or other terms of the loss outweigh "
        f"{'it' if one else 'them'}. Train longer, or give larger weights; {_UNITS}."
    )


def _kept(members: Sequence[Member]) -> str:
    one = len(members) == 1
    return _KEPT[members[0].kept].format("that step" if one else "the least loss")


def _apart(who: str, members: Sequence[Member]) -> str:
    drift = max(member.largest_drift for member in members)
    times = range_of([member.times_brought_together for member in members], "{:,}")
    return (
        f"{who}: rounding drove the ranks' weights apart by {drift:.0e} at most; they got the "
        f"first rank's {times} times."
    )


def _one_after_the_other(members: Sequence[Member]) -> Iterator[str]:
    """Say which members of one group of ranks were not one stacked computation."""
    stacks: dict[int, dict[tuple[int, ...], None]] = {}
    for member in members:
        stacks.setdefault(member.rank, {})[member.stacked_with] = None
    several = {rank: list(each) for rank, each in stacks.items() if len(each) > 1}
    if not several:
        return
    rank, parts = next(iter(several.items()))
    shown = [numbers_text(numbers) for numbers in parts[:_MOST_STACKS]]
    if len(parts) > _MOST_STACKS:
        shown.append(f"{len(parts) - _MOST_STACKS} more")
    if all(len(numbers) == 1 for numbers in parts):
        shown = [numbers_text(sorted(number for (number,) in parts))]
    others = ""
    if len(several) > 1:
        others = f", and likewise on {counted(len(several) - 1, 'other rank')}"
    yield (
        f"{listed(shown)} on rank {rank} were trained one after the other{others}. Members are "
        f"one computation where networks, equations and numbers of points are known to be alike."
    )
