"""How a program ends: its last message, once and not from every rank, and its exit code."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sciml_par._text import listed
from sciml_par.errors import ResultWarning, SciMLParError
from sciml_par.programs.options import only_rank_0_prints, program_name
from sciml_par.results.member import SIGNALS, WALL_TIME

if TYPE_CHECKING:
    from sciml_par.results.result import Result

_BAD_INPUT = 2
_NOT_SOUND = 3
STOPPED = 75
"""EX_TEMPFAIL of sysexits.h: not done yet, to be tried again. For job scripts."""

_FAULTS = {
    "not finite": "ended because the loss was not finite",
    "diverged": "ended with a loss far above the best",
}


def run(main: Callable[[], int | None], *, program: str | None = None) -> None:
    """Run a program's `main`; an error of its input is one line and exit code 2 (collective).

    Parameters
    ----------
    main : returns the exit code, the same on all ranks, or None.
    program : its name in messages; the name of its file by default.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResultWarning)  # the table that follows has it
            code = main()
    except SciMLParError as error:
        from sciml_par.parallel.groups import world as parallel_world

        text = f"{program or program_name()}: error: {error}"
        if parallel_world.world is not None:
            parallel_world.world.failures.report(error, text, exit_code=_BAD_INPUT)
        else:
            with only_rank_0_prints():
                print(text, file=sys.stderr)
        sys.exit(_BAD_INPUT)
    if code:
        sys.exit(code)


def conclude(result: Result, folder: Path, *, program: str | None = None) -> int:
    """Print on rank 0 where the results are, and whether all is well with them.

    Returns
    -------
    The exit code, the same on all ranks: 0; 75 where a signal or the wall time stopped the
    training, which can be resumed; or 3 where a member ended because of its loss, or with one far
    above its best. The results are written in any case.
    """
    stopped = [m.ended for m in result.members if m.ended in (*SIGNALS, WALL_TIME)]
    if result.communicator is None or result.communicator.rank == 0:
        print(f"results in {folder}", flush=True)
        name = program or program_name()
        if stopped:
            print(
                f"{name}: stopped by {stopped[0]} before the last step; --resume with --output "
                f"{folder} continues",
                file=sys.stderr,
            )
        if not result.sound:
            counts = Counter(member.status for member in result.members)
            faults = [
                f"{counts[kind]} of {len(result.members)} {text}"
                for kind, text in _FAULTS.items()
                if counts[kind]
            ]
            text = f"not all is well: of the models, {listed(faults)}."
            print(f"{name}: {text}", file=sys.stderr)
    if stopped:
        return STOPPED
    return 0 if result.sound else _NOT_SOUND
