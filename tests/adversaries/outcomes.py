"""A table of programs and of what each of them must end in: the right number, or a sentence."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciml_par.errors import SciMLParError
from sciml_par.parallel import current_world

Program = Callable[..., Any]

on_two = pytest.mark.ranks(least=2, most=2, reason="the ranks share what the number is made of")


@dataclass(frozen=True)
class Row:
    """A program, and its wanted outcome.

    Parameters
    ----------
    gives : tolerance of the numbers, relative to the largest wanted one; None if none is wanted.
    says : pattern of the words a user acts on, in an error or in a warning.
    marks : pytest marks, such as the number of ranks that the program needs.
    """

    name: str
    program: Program
    gives: float | None = None
    says: str | None = None
    marks: tuple[Any, ...] = ()

    def check(self, folder: Path) -> None:
        """Run the program on all ranks, and judge what it ended in (collective)."""
        everyone = current_world().communicator.allgather_object(self._fault(folder))
        assert not any(everyone), "\n".join(fault for fault in everyone if fault)

    def _fault(self, folder: Path) -> str | None:
        """Return the fault of the outcome on this rank, if any."""
        wanted = inspect.signature(self.program).parameters
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = self.program(*([folder] if "folder" in wanted else []))
            except Exception as error:  # with the notes that the package adds to others' words
                kind = "" if isinstance(error, SciMLParError) else "a crash: "
                return self._judge(kind + "".join(traceback.format_exception_only(error)))
        said = "\n".join(str(warning.message) for warning in caught)
        if self.gives is None:
            return self._judge(said) if current_world().communicator.rank == 0 else None
        return _difference(found, self.gives, said)

    def _judge(self, said: str) -> str | None:
        if self.says is not None and re.search(self.says, said):
            return None
        return f"said: {said or 'nothing'}; wanted: {self.says or 'a number'}"


class Table:
    """The programs of a file."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def gives(self, tolerance: float, *marks: Any, or_says: str | None = None) -> Any:
        """Add a program that returns (found, wanted), a list of such pairs, or None."""
        return self._adding(gives=tolerance, says=or_says, marks=marks)

    def says(self, words: str, *marks: Any) -> Any:
        """Add a program that must end in an error, or in a warning, with these words."""
        return self._adding(says=words, marks=marks)

    def add(self, *rows: Row) -> None:
        """Add programs that are one expression each."""
        self._rows += rows

    def as_test(self) -> Callable[..., None]:
        """Return the test of all programs, one case each."""

        @pytest.mark.parametrize("row", [self._case(row) for row in self._rows])
        def test(row: Row, folder: Path) -> None:
            row.check(folder)

        return test

    def _adding(self, **outcome: Any) -> Any:
        def add(program: Program) -> Program:
            self.add(Row(program.__name__.replace("_", " "), program, **outcome))
            return program

        return add

    @staticmethod
    def _case(row: Row) -> Any:
        # A program is run on one rank, unless it says otherwise; --all runs it on all as well.
        chosen = any(mark.name == "ranks" for mark in row.marks)
        elsewhere = current_world().communicator.size > 1 and not chosen
        marks = [pytest.mark.all] if elsewhere else []
        return pytest.param(row, id=row.name, marks=[*row.marks, *marks])


def on_root(compute: Callable[[], Any]) -> Any:
    """Return what the first rank computes, such as the mean of an ensemble; None elsewhere."""
    return compute() if current_world().communicator.rank == 0 else None


def _difference(found: Any, tolerance: float, said: str) -> str | None:
    """Return the fault of these numbers, if any."""
    pairs = found if isinstance(found, list) else [] if found is None else [found]
    for number, (value, wanted) in enumerate(pairs):
        value, wanted = np.asarray(value), np.asarray(wanted)
        if value.shape != wanted.shape:
            return f"pair {number}: shape {value.shape}, not {wanted.shape}"
        error = np.max(np.abs(value - wanted), initial=0.0)
        scale = np.max(np.abs(wanted), initial=0.0) or 1.0
        if not error <= tolerance * scale:
            return (
                f"pair {number}: {value.ravel()[:5]}, not {wanted.ravel()[:5]}; off by "
                f"{error / scale:.1e}; said: {said or 'nothing'}"
            )
    return None
