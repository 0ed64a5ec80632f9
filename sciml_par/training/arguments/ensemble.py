"""How the ranks share the work: one model by all, or members of an ensemble by groups of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_integer, is_positive
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem

DATA, ENSEMBLE = "data", "ensemble"


@dataclass(frozen=True, kw_only=True)
class Ensemble(ByName):
    """Members that are trained side by side by groups of ranks.

    The ranks are divided into groups of `ranks_per_member`, and the members are dealt out to the
    groups. The ranks of a group share the points of each of its members, as in mode "data". A
    group's members are one stacked computation where they are alike, and are trained one after
    the other where they are not.

    Parameters
    ----------
    members : of the whole job, the same on any number of ranks.
    members_per_rank : in place of `members`, this number for each group; 1 by default.
    ranks_per_member : how many ranks train a member together. By default 1, and where there are
        fewer members than ranks, as many as divide the ranks evenly.
    problems : the problem of each member: a sequence, or a function of the member's number. By
        default the `problem` of `train`, which may then differ from rank to rank.
    seeds : of the members' initial weights, a sequence; by default derived from that of the run.
    bootstrap : train each member on a sample of the rows of `Observations`, drawn with replacement
        (Efron 1979), so that the deviation of members is that from errors of the observations. In
        a problem without observations the sample is one of the interior points. Other conditions
        are not resampled.
    block : with `bootstrap`, how many successive rows of `Observations` are drawn together, for
        errors that are correlated from row to row, as in time series: the moving-block bootstrap
        (Künsch, Ann. Statist. 17, 1989). Rows of several instruments are then several
        `Observations`. By default 1, for independent errors.
    learning_rates : initial learning rates of the members, a sequence. They take the place of the
        optimizer's rate, and its schedule is scaled accordingly.
    """

    members: int | None = None
    members_per_rank: int | None = None
    ranks_per_member: int | None = None
    problems: Sequence[Problem] | Callable[[int], Problem] | None = None
    seeds: Sequence[int] | None = None
    bootstrap: bool = False
    block: int = 1
    learning_rates: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.members is not None and self.members_per_rank is not None:
            raise InputError(
                f"Ensemble: give members, of the whole job, or members_per_rank, not both; got "
                f"{self.members} and {self.members_per_rank}."
            )
        for name in ("members", "members_per_rank", "ranks_per_member"):
            value = getattr(self, name)
            if value is not None:
                checked = checked_integer(value, f"Ensemble: {name}", least=1)
                object.__setattr__(self, name, checked)
        if self.problems is not None and not (
            callable(self.problems) or isinstance(self.problems, list | tuple)
        ):
            raise InputError(
                f"Ensemble: expected problems to be a list of Problem, one a member, or a function "
                f"of the member's number; got {self.problems!r}."
            )
        _check_each("seeds", self.seeds, lambda n: is_integer(n) and int(n) >= 0, "integers ≥ 0")
        _check_each("learning_rates", self.learning_rates, is_positive, "numbers > 0")
        if not isinstance(self.bootstrap, bool):
            raise InputError(f"Ensemble: expected bootstrap to be a bool; got {self.bootstrap!r}.")
        checked_integer(self.block, "Ensemble: block", least=1)
        if self.block > 1 and not self.bootstrap:
            raise InputError(
                f"Ensemble: block={self.block} is the length of the blocks of a bootstrap; write "
                f"bootstrap=True as well."
            )


@dataclass(frozen=True)
class Division:
    """How one job's ranks are divided.

    Attributes
    ----------
    group : the number of this rank's group.
    groups : how many there are.
    numbers : of the members that this rank's group trains.
    members : of the whole job.
    """

    group: int
    groups: int
    numbers: tuple[int, ...]
    members: int


def as_mode(mode: Any) -> Ensemble | None:
    """Return the ensemble that is asked for, or None where all ranks train one model."""
    if isinstance(mode, Ensemble):
        return mode
    if isinstance(mode, str) and mode == DATA:
        return None
    if isinstance(mode, str) and mode == ENSEMBLE:
        return Ensemble()
    raise InputError(
        f"train: expected mode to be 'data', 'ensemble' or an Ensemble(members=…); got {mode!r}."
    )


def divide(ensemble: Ensemble | None, *, rank: int, size: int) -> Division:
    """Return the group of a rank and its members."""
    if ensemble is None:
        return Division(0, 1, (0,), 1)
    together = _ranks_per_member(ensemble, size)
    groups = size // together
    members = ensemble.members or groups * (ensemble.members_per_rank or 1)
    if members < groups:
        raise InputError(
            f"Ensemble: {members} members on {groups} groups of {together} ranks leave groups "
            f"without work. Ask for more members, or for ranks_per_member={size // members}."
        )
    for name in ("problems", "seeds", "learning_rates"):
        value = getattr(ensemble, name)
        if value is not None and not callable(value) and len(value) != members:
            raise InputError(
                f"Ensemble: expected one of {name} for each of the {members} members; got "
                f"{len(value)}."
            )
    group = rank // together
    numbers = np.array_split(np.arange(members), groups)[group]
    return Division(group, groups, tuple(map(int, numbers)), members)


def problem_of(number: int, problem: Problem, ensemble: Ensemble | None) -> Problem:
    """Return the problem of a member, where `problem` is that of the call."""
    if ensemble is None or ensemble.problems is None:
        return problem
    problems = ensemble.problems
    chosen = problems(number) if callable(problems) else problems[number]
    if not isinstance(chosen, Problem):
        raise InputError(
            f"Ensemble: expected problems to give a Problem for each member; for member {number} "
            f"it gave {chosen!r}."
        )
    return chosen


def _ranks_per_member(ensemble: Ensemble, size: int) -> int:
    asked = ensemble.ranks_per_member
    if asked is None:
        most = ensemble.members or size
        return next(n for n in range(1, size + 1) if size % n == 0 and size // n <= most)
    if asked > size or size % asked:
        fits = [n for n in range(1, size + 1) if size % n == 0]
        raise InputError(
            f"Ensemble: groups of ranks_per_member={asked} do not divide {size} ranks; on {size} "
            f"ranks it can be {', '.join(map(str, fits))}."
        )
    return asked


def _check_each(name: str, values: Any, good: Callable[[Any], bool], expected: str) -> None:
    if values is None:
        return
    if isinstance(values, str) or not hasattr(values, "__len__") or not all(map(good, values)):
        raise InputError(
            f"Ensemble: expected {name} to be a sequence of {expected}, one a member; got "
            f"{values!r}."
        )
