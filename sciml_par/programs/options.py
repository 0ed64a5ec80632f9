"""Options on the command line: parsers, types for argparse, and one message from all ranks."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sciml_par.programs.launcher_environment import launched_rank


def program_name() -> str:
    """What messages call the program that runs: the name of its file."""
    return Path(sys.argv[0]).stem


def new_parser(description: str | None, program: str | None) -> argparse.ArgumentParser:
    """Return a parser without options but --help, which prints the description as it is."""
    return argparse.ArgumentParser(
        prog=program or program_name(),
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_output_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --output and --overwrite; `default` is the folder that --help names."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"folder for results (default {default}, numbered if it is there)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="allow --output to name a folder with the results of another run",
    )


def add_verbose_option(parser: argparse.ArgumentParser) -> None:
    """Add --verbose."""
    parser.add_argument("--verbose", action="store_true", help="show TensorFlow's messages")


@contextlib.contextmanager
def only_rank_0_prints() -> Iterator[None]:
    """Print on rank 0 alone, as argparse does before there are ranks."""
    if not launched_rank(os.environ):
        yield
        return
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


def integer_from(least: int) -> Callable[[str], int]:
    """Return a type for argparse: an integer ≥ `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected an integer ≥ {least}; got {text!r}")
        return value

    return convert


def positive_integer(text: str) -> int:
    """Return a type for argparse: an integer ≥ 1."""
    return integer_from(1)(text)


def positive_number(text: str) -> float:
    """Return a type for argparse: a finite number > 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"expected a number > 0; got {text!r}")
    return value


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
