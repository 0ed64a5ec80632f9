"""A result in words: a few lines, and remarks on members that did not simply finish."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from sciml_par._text import counted, listed
from sciml_par.results.found import unknowns_of
from sciml_par.results.member import (
    DIVERGED,
    FAR_ABOVE,
    FINISHED,
    NOT_FINITE,
    Member,
    numbers_text,
    ranks_of,
)
from sciml_par.results.uncertainty import remarks_on

_RISE = 2.0  # as a multiple of the best loss: what is worth a remark
_KEPT = {"best": "the weights of {} are kept", "last": "the last weights are kept, as was asked"}
_MOST_STACKS = 3
_UNITS = (
    "Where u or a term of the equation is far from 1 in size, write the problem in units in which "
    "they are about 1"
)
_MANY = 1e6  # more than this is written as a power of ten


def text_of(members: Sequence[Member], *, mode: str) -> str:
    """Return mode, members, how they ended, losses, errors and times, in at most ten lines."""
    what = counted(len(members), "member") if mode == "ensemble" else "one model"
    heading = (
        f"Result of mode {mode!r}: {what}, trained by {counted(len(ranks_of(members)), 'rank')}"
    )
    losses, kept = _range(members, "kept_loss"), sorted({member.kept for member in members})
    estimates = [member.error for member in members if member.error]
    entries = {
        "problem": _shown({member.problem: None for member in members if member.problem}),
        "ended": _counts_text(member.ended for member in members),
        "steps": _range(members, "steps", "{:,}"),
        "loss": f"{losses} ({' or '.join(kept)} weights)" if losses else "never finite",
        "rel. L2 error": _range(members, "on_own_domain.relative_l2_error"),
        "estimated": estimates[0].sentence
        if len(members) == 1 and estimates
        else _range_of((each.relative for each in estimates), "{:.2e}"),
        "unknowns": unknowns_text(members),
        "observations": fits_text(members),
        "time": f"{max(m.seconds_train for m in members):.2f} s, and "
        f"{max(m.seconds_compile for m in members):.2f} s of compilation, on the slowest rank",
    }
    lines = [f"  {name:<15}{text}" for name, text in entries.items() if text]
    lines.append("  See .print(), .predict(x), .history, .members, .using('last'), .save(folder).")
    return "\n".join([heading, *lines])


def unknowns_text(members: Sequence[Member]) -> str:
    """Return "D = 0.1 ± 0.001 (relative error 1e-03); k = 3" of the members that finished."""
    return _shown([f"{name} = {each!r}" for name, each in unknowns_of(members).items()], most=8)


def fits_text(members: Sequence[Member]) -> str:
    """Return "χ²/n of 'observations' 0.97; σ of 'v' 0.012" of one model, or the ranges."""
    if len(members) == 1:
        held = members[0].held_out.items()
        texts = [fit.text(n) for n, fit in members[0].fits.items()]
        texts += [f"error at held-out {name!r} {error:.3g}" for name, error in held]
        return _shown(filter(None, texts), most=8)
    ranges: dict[str, list[float]] = {}
    for member in members:
        for name, error in member.held_out.items():
            ranges.setdefault(f"error at held-out {name!r}", []).append(error)
        for name, fit in member.fits.items():
            ranges.setdefault(f"χ²/n of {name!r}", []).append(fit.chi_square)
            for j, each in enumerate(fit.deviation):
                of = f", {j}" if len(fit.deviation) > 1 else ""
                ranges.setdefault(f"σ of {name!r}{of}", []).append(each)
    shown = {what: _range_of(values, "{:.3g}") for what, values in ranges.items()}
    return _shown((f"{what} {text}" for what, text in shown.items() if text), most=8)


def sizes_text(sizes: Mapping[str, float]) -> str:
    """Return what residuals are divided by in the loss."""
    divided = listed([f"{name!r} by {size:.2g}" for name, size in sizes.items()])
    return f"the loss divides residuals by their sizes in the units of the problem, {divided}"


def _counts_text(values: Iterable[str]) -> str:
    """Return "all steps", or "62 all steps, 2 not finite" of values that differ."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count:,} {value}" for value, count in counts.most_common())


def _range(members: Sequence[Member], name: str, form: str = "{:.2e}") -> str:
    return _range_of(map(attrgetter(name), members), form)


def _range_of(values: Iterable[float], form: str) -> str:
    """Return "1 to 3" of values that differ, those that are not finite left out."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    return " to ".join(dict.fromkeys((form.format(min(finite)), form.format(max(finite)))))


def _shown(names: Iterable[str], *, most: int = 3) -> str:
    """Return the names, or the first of them and how many more there are."""
    given = list(names)
    more = [f"and {len(given) - most} more"] if len(given) > most else []
    return "; ".join([*given[:most], *more])


def remarks(members: Sequence[Member], *, mode: str) -> list[str]:
    """Return a sentence for each kind of thing that is to be said of members."""
    lost = [m for m in members if m.status == NOT_FINITE]
    told = {
        _never: [m for m in lost if not math.isfinite(m.best_loss)],
        _ended: [m for m in lost if math.isfinite(m.best_loss)],
        _diverged: [m for m in members if m.status == DIVERGED],
        _risen: [m for m in members if m.status == FINISHED and m.rise > _RISE],
        _over_fitted: [m for m in members if m.seems_over_fitted],
        _found_little: [m for m in members if m.found_little],
        _missed: [m for m in members if m.missed and not m.found_little],
        _above_noise: [m for m in members if _names(m, "too_large") and not m.found_little],
        _below_noise: [m for m in members if _names(m, "too_small")],
        _apart: [m for m in members if m.times_brought_together],
    }
    found = [say(_who(which, mode), which) for say, which in told.items() if which]
    found += [f"{_who([m], mode)}: {'; '.join(map(str, m.growths))}." for m in members if m.growths]
    found += list(dict.fromkeys(f"{sizes_text(m.sizes)}." for m in members if m.sizes))
    found += dict.fromkeys(
        sentence
        for member in members
        if member.linearized is not None
        for sentence in remarks_on(member.linearized, member.unknown_values.names)
    )
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
    steps, asked = (_range(members, name, "{:,}") for name in ("steps", "steps_asked"))
    text = f"! {who}: ended at step {steps} of {asked}, after which the loss is not finite"
    (kept, *others) = {member.kept for member in members}
    if kept == "last" and not others:
        return f"{text}; the best weights take the place of the last."
    if len(members) > 1:
        return f"{text}; each has the weights of its least loss."
    return f"{text}; it has the weights of step {members[0].best_step:,}, of the least loss."


def _diverged(who: str, members: Sequence[Member]) -> str:
    last, best = _range(members, "loss"), _range(members, "best_loss")
    return (
        f"! {who}: diverged; the loss ended at {last}, more than {FAR_ABOVE:,.0f} times its best, "
        f"{best}; {_kept(members)}."
    )


def _risen(who: str, members: Sequence[Member]) -> str:
    times = _range(members, "rise", "{:.0f}")
    last, best = _range(members, "loss"), _range(members, "best_loss")
    after = f" after step {members[0].best_step:,}" if len(members) == 1 else ""
    return (
        f"{who}: the loss ended at {last}, {times} times its best, {best}{after}; {_kept(members)}."
    )


def _over_fitted(who: str, members: Sequence[Member]) -> str:
    pairs = [member.losses_of_equations for member in members]
    loss, other = (_range_of(each, "{:.2e}") for each in zip(*pairs, strict=True))
    factors = [elsewhere / here for here, elsewhere in pairs if here]
    of = " of the equations and conditions" if any(m.fits for m in members) else ""
    times = _range_of(factors, "{:,.0f}" if max(factors, default=0) < _MANY else "{:.0e}")
    return (
        f"{who}: the loss{of} is {loss} at the training points and {other} at others "
        f"(validation_loss"
        f"{f', {times} times' if times else ''}); the second shows how good the solution is. Train "
        f"with twice the points: if the factor falls, they were too few; if it stays, the residual "
        f"is not resolved somewhere, as at a corner or a jump."
    )


def _found_little(who: str, members: Sequence[Member]) -> str:
    loss, zero = _range(members, "validation_loss"), _range(members, "zero_loss")
    shares = _range(members, "share_left", "{:.0%}")
    little = all(m.share_left**2 > 0.5 for m in members)
    return (
        f"{who}: the loss at other points is {loss}, and that of a network of zeros is {zero}: "
        + ("little of the solution has been found, or there is none" if little else "")
        + ("" if little else f"{shares} of the right side is left, so that u may be as wrong")
        + f". {_UNITS}; otherwise train longer, or take more features, a larger network, or more "
        f"points."
    )


def _missed(who: str, members: Sequence[Member]) -> str:
    names = dict.fromkeys(name for member in members for name in member.missed)
    ratios = _range_of([m.misfits[n] for m in members for n in m.missed], "{:.2g}")
    which = listed([repr(name) for name in names])
    one = len(names) == 1
    return (
        f"{who}: the condition{'' if one else 's'} {which} {'is' if one else 'are'} missed by "
        f"{ratios} times the size of what {'it is' if one else 'they are'} about, u or its slope: "
        f"no solution has all conditions, or other terms of the loss outweigh "
        f"{'it' if one else 'them'}. {_UNITS}; otherwise train longer, or give larger weights."
    )


def _names(member: Member, attribute: str) -> list[str]:
    """Return the terms of observations whose fit is too large, or too small."""
    return [name for name, fit in member.fits.items() if getattr(fit, attribute)]


def _ratios(members: Sequence[Member], attribute: str) -> str:
    """Return "the observations 'observations' have χ²/n = 3.1 of 20 values"."""
    names = dict.fromkeys(name for m in members for name in _names(m, attribute))
    fits = [m.fits[name] for m in members for name in _names(m, attribute)]
    found = _range_of([fit.chi_square for fit in fits], "{:.2g}")
    values = _range_of([fit.values for fit in fits], "{:,}")
    which = listed([repr(name) for name in names])
    return f"the observations {which} have χ²/n = {found} where 1 is likely, of {values} values"


def _above_noise(who: str, members: Sequence[Member]) -> str:
    return (
        f"{who}: {_ratios(members, 'too_large')}: they disagree with the equations by more than "
        f"their noise, or the training has not ended, or noise= is too small. Train longer; if "
        f"that changes nothing, look at the residuals for outliers (loss='huber') and for what the "
        f"equations leave out."
    )


def _below_noise(who: str, members: Sequence[Member]) -> str:
    return (
        f"{who}: {_ratios(members, 'too_small')}: noise= is too large, or the noise itself is "
        f"fitted, since too little other than the observations determines the solution."
    )


def _kept(members: Sequence[Member]) -> str:
    one = len(members) == 1
    return _KEPT[members[0].kept].format("that step" if one else "the least loss")


def _apart(who: str, members: Sequence[Member]) -> str:
    drift = max(member.largest_drift for member in members)
    times = _range(members, "times_brought_together", "{:,}")
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
