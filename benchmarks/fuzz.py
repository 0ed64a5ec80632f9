"""Call public names with thousands of arguments, right and wrong, and run programs likewise.

The package must accept any argument, or refuse it within a minute by a sentence in one of its
errors, and must keep existing files. The report counts how each call ended, and shows the calls
that broke this rule.

    python benchmarks/fuzz.py --examples 10000
    python benchmarks/fuzz.py --examples 200 --only train Points
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _runner import parse

SECONDS = 60
"""How long one call may take; on a busy machine, a graph is built in many."""

KINDS = ("taken", "refused", "exit", "wrong")


class Reached(BaseException):
    """Training would start: all arguments have passed."""


class TooLong(BaseException):
    """A call has not come back."""


@dataclass(frozen=True)
class Target:
    """Something to call with what `strategy` draws: (positional, by keyword).

    `share` is its share of all examples, relative to other targets.
    """

    name: str
    call: Callable[..., Any]
    strategy: Any
    share: float = 1.0


@dataclass
class Report:
    """How calls have ended, {name: {kind: count}}, and {place in the sources: a wrong example}."""

    ended: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, how: str) -> None:
        self.ended.setdefault(name, Counter())[how] += 1

    def note_wrong(self, name: str, place: str, drawn: Any) -> None:
        self.note(name, "wrong")
        self.wrong.setdefault(f"{name}: {place}", repr(drawn)[:400])

    @property
    def total(self) -> Counter[str]:
        return sum(self.ended.values(), Counter())


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(
        __doc__,
        arguments,
        examples=10_000,
        seed=0,
        only=({"nargs": "+", "default": (), "metavar": "NAME"}, "of targets; default all"),
        all=(False, "a line for each target in the report"),
    )
    report = fuzz(options.examples, seed=options.seed, only=options.only)
    rows = sorted(report.ended.items()) if options.all else []
    for name, counts in [*rows, ("all", report.total)]:
        print(f"{name:28}" + "".join(f"  {kind} {counts[kind]:6,}" for kind in KINDS))
    for place, example in report.wrong.items():
        print(f"\n{place}\n    {example}")
    return 1 if report.wrong else 0


def fuzz(
    examples: int, *, seed: int = 0, only: Sequence[str] = (), without: Sequence[str] = ()
) -> Report:
    """Make about `examples` calls and command lines, divided by the targets' shares (local).

    Parameters
    ----------
    only, without : the names of the targets; all by default.
    """
    import sciml_par

    sciml_par.init()
    import _fuzz_calls
    import _fuzz_programs

    report, before = Report(), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            chosen = [
                each
                for each in [*_fuzz_calls.targets(), *_fuzz_programs.targets(Path(name))]
                if each.name not in without and (not only or each.name in only)
            ]
            whole = sum(each.share for each in chosen)
            for target in chosen:
                run_target(target, max(1, round(examples * target.share / whole)), seed, report)
        finally:
            os.chdir(before)
    return report


def run_target(target: Any, examples: int, seed: int, report: Report) -> None:
    import hypothesis

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(target.strategy)
    def one(drawn: tuple[list[Any], dict[str, Any]]) -> None:
        call(target, drawn, report)

    one()


def call(target: Any, drawn: tuple[list[Any], dict[str, Any]], report: Report) -> None:
    from sciml_par.errors import SciMLParError

    positional, named = drawn
    try:
        with limited(), quietly():
            target.call(*positional, **named)
    except SciMLParError as error:
        if str(error).strip():
            report.note(target.name, "refused")
        else:
            report.note_wrong(target.name, "an error that says nothing", drawn)
    except SystemExit as error:
        report.note(target.name, "exit" if error.code else "taken")
    except (Exception, TooLong) as error:
        report.note_wrong(target.name, place_of(error), drawn)
    except Reached:
        report.note(target.name, "taken")
    else:
        report.note(target.name, "taken")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    nowhere = io.StringIO()
    with (
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def place_of(error: BaseException) -> str:
    """Return the kind of an error, and the last line of the package in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/sciml_par/" in f.filename or "/scripts/" in f.filename]
    at = f"{'/'.join(Path(ours[-1].filename).parts[-3:])}:{ours[-1].lineno}" if ours else "outside"
    return f"{type(error).__name__} at {at}: {str(error).strip()[:120]!r}"


if __name__ == "__main__":
    sys.modules["fuzz"] = sys.modules["__main__"]  # of which the targets import
    sys.exit(main())
