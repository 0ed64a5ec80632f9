"""Call public names with thousands of arguments, right and wrong, and run programs likewise.

The package must accept any argument, or refuse it within a minute by a sentence in one of its
errors, and must keep existing files. The report counts how each call ended, and shows the calls
that broke this rule.

    python benchmarks/fuzz.py --examples 10000
    python benchmarks/fuzz.py --examples 200 --only train Points
"""

from __future__ import annotations

import argparse
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

SECONDS = 60
"""How long one call may take; on a busy machine, a graph is built in many."""


class Reached(BaseException):
    """Training would start: all arguments have passed."""


@dataclass(frozen=True)
class Target:
    """Something to call.

    Attributes
    ----------
    name : as the report has it.
    strategy : draws (positional, by keyword).
    share : of all examples, relative to other targets.
    """

    name: str
    call: Callable[..., Any]
    strategy: Any
    share: float = 1.0


class TooLong(BaseException):
    """A call has not come back."""


@dataclass
class Report:
    """How calls have ended.

    Attributes
    ----------
    ended : {name: {how: count}}; how is "taken", "refused", "exit" or "wrong".
    wrong : what ended otherwise, once for each place in the sources: {place: an example}.
    """

    ended: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, how: str) -> None:
        self.ended.setdefault(name, Counter())[how] += 1

    def note_wrong(self, name: str, place: str, example: str) -> None:
        self.note(name, "wrong")
        self.wrong.setdefault(f"{name}: {place}", example)

    @property
    def total(self) -> Counter[str]:
        return sum(self.ended.values(), Counter())


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    report = fuzz(options.examples, seed=options.seed, only=options.only)
    show(report, all_names=options.all)
    return 1 if report.wrong else 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("--examples", type=int, default=10_000, metavar="N", help="default %(default)s")
    add("--seed", type=int, default=0, metavar="N", help="default %(default)s")
    add("--only", nargs="+", default=(), metavar="NAME", help="of targets; default all")
    add("--all", action="store_true", help="a line for each target in the report")
    return parser


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

    report = Report()
    with in_folder_of_its_own() as folder:
        chosen = [
            each
            for each in [*_fuzz_calls.targets(), *_fuzz_programs.targets(folder)]
            if each.name not in without and (not only or each.name in only)
        ]
        whole = sum(each.share for each in chosen)
        for target in chosen:
            count = max(1, round(examples * target.share / whole))
            run_target(target, count, seed, report)
    return report


@contextlib.contextmanager
def in_folder_of_its_own() -> Iterator[Path]:
    """Change to a new working folder in this context."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


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
    """Call it, and note how that ended."""
    from sciml_par.errors import SciMLParError

    positional, named = drawn
    try:
        with limited(), quietly():
            target.call(*positional, **named)
    except (SciMLParError, Reached) as error:
        said = isinstance(error, Reached) or str(error).strip()
        if said:
            report.note(target.name, "taken" if isinstance(error, Reached) else "refused")
        else:
            report.note_wrong(target.name, "an error that says nothing", example_of(drawn))
    except SystemExit as error:
        report.note(target.name, "exit" if error.code else "taken")
    except (Exception, TooLong) as error:
        report.note_wrong(target.name, place_of(error), example_of(drawn))
    else:
        report.note(target.name, "taken")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `TooLong` in what takes longer than `SECONDS`."""

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
    """Print nothing, and warn of nothing."""
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


def example_of(drawn: Any) -> str:
    return repr(drawn)[:400]


def show(report: Report, *, all_names: bool) -> None:
    kinds = ("taken", "refused", "exit", "wrong")
    rows = [("all", report.total)]
    if all_names:
        rows = [*sorted(report.ended.items()), *rows]
    for name, counts in rows:
        print(f"{name:28}" + "".join(f"  {kind} {counts[kind]:6,}" for kind in kinds))
    for place, example in report.wrong.items():
        print(f"\n{place}\n    {example}")


if __name__ == "__main__":
    sys.modules["fuzz"] = sys.modules["__main__"]  # of which the targets import
    sys.exit(main())
