"""What all programs share: parsers, types of options, the folder of results, and one message."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sciml_par.parallel.startup.launcher_environment import launched_rank
from sciml_par.results.stored.folder import claim_folder, claim_numbered_folder

Number = TypeVar("Number", int, float)
Options = TypeVar("Options", bound=argparse.Namespace)


def program_name() -> str:
    """Return the name of the running program in messages: that of its file."""
    return Path(sys.argv[0]).stem


def new_parser(description: str | None, program: str | None) -> argparse.ArgumentParser:
    """Return a parser without options but --help, which prints the description as it is."""
    return argparse.ArgumentParser(
        prog=program or program_name(),
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_options(parser: argparse.ArgumentParser, *options: tuple[Any, ...]) -> None:
    """Add options: (name, type or choices or None of a flag, metavar, help[, default])."""
    for name, kind, metavar, text, *default in options:
        if kind is None:
            parser.add_argument(name, action="store_true", help=text)
            continue
        how = {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
        value = default[0] if default else None
        parser.add_argument(name, metavar=metavar, help=text, default=value, **how)


def add_output_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --output and --overwrite; `default` is the folder that --help names."""
    folder = f"folder for results (default {default}, numbered if it already exists)"
    replaces = "allow --output to name a folder with the results of another run"
    options = ("--output", Path, "DIR", folder), ("--overwrite", None, None, replaces)
    add_options(parser, *options)


VERBOSE = "--verbose", None, None, "show TensorFlow's messages"
"""An option of all programs."""


def parse_on_rank_0(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    namespace: Options,
    check: Callable[[Options], object],
) -> Options:
    """Parse and check the arguments into a namespace; rank 0 alone prints help and errors."""
    with only_rank_0_prints():
        options = parser.parse_args(arguments, namespace=namespace)
        options.program = parser.prog
        check(options)
    return options


@contextlib.contextmanager
def only_rank_0_prints() -> Iterator[None]:
    """Print on rank 0 alone, as argparse does before there are ranks."""
    if not launched_rank(os.environ):
        yield
        return
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def output_folder(
    named: Path | None,
    default: Path,
    *,
    overwrite: bool,
    resume: bool = False,
    on_root: Callable[[Callable[[], Path]], Path],
) -> Iterator[Path]:
    """Claim the folder `named`, or `default` with the first free number, for the work within.

    A folder that the work leaves empty is removed. It is as collective as `on_root`.
    """
    made: list[Path] = []

    def claim() -> Path:
        if named is not None:
            return claim_folder(named, overwrite=overwrite or resume)
        made.append(claim_numbered_folder(default))
        return made[0]

    try:
        yield on_root(claim)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # it is not empty, as it should be
                folder.rmdir()
                folder.parent.rmdir()


def number_where(
    kind: type[Number], accepts: Callable[[Number], bool], expected: str
) -> Callable[[str], Number]:
    """Return a type for argparse: a number that a function accepts, as `expected` says."""

    def convert(text: str) -> Number:
        with contextlib.suppress(ValueError):
            if accepts(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"expected {expected}; got {text!r}")

    return convert


def integer_from(least: int) -> Callable[[str], int]:
    """Return a type for argparse: an integer ≥ `least`."""
    return number_where(int, lambda value: value >= least, f"an integer ≥ {least}")


def positive_integer(text: str) -> int:
    """Return a type for argparse: an integer ≥ 1."""
    return integer_from(1)(text)


def positive_number(text: str) -> float:
    """Return a type for argparse: a finite number > 0."""
    return number_where(float, lambda value: 0 < value < math.inf, "a number > 0")(text)


def duration(text: str) -> float:
    """Return a type for argparse: seconds > 0, given as "90", "15:00" or "8:00:00"."""
    try:
        parts = [int(part) for part in text.split(":")]
    except ValueError:
        parts = []
    seconds = sum(part * 60**k for k, part in enumerate(reversed(parts)))
    if not 1 <= len(parts) <= 3 or min(parts) < 0 or seconds == 0:
        raise argparse.ArgumentTypeError(
            f"expected a time > 0 as H:MM:SS, MM:SS or in seconds; got {text!r}"
        )
    return float(seconds)
