"""`sciml-par info`: what the ranks have, and whether collectives work there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sciml_par.command_line import launched_rank
from sciml_par.console.facts import gather_facts, launched_size
from sciml_par.console.page import print_page
from sciml_par.console.record import check_record, write_record
from sciml_par.console.sections import facts_sections, outcome_sections
from sciml_par.console.self_test import self_test
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.startup.init import init

_LIMIT = "SCIML_PAR_STALL_LIMIT"
_LIMIT_SECONDS = "60"


def info(*, record: Path | None = None, overwrite: bool = False) -> None:
    """Print the facts and the self-test on rank 0 (collective).

    Parameters
    ----------
    record : a file for the same as JSON.
    overwrite : allow `record` to be there already.

    Raises
    ------
    OutputError
        `record` cannot be written, or is there and must not be overwritten.
    SystemExit
        With code 1 if a test went wrong.
    """
    # `init` changes it, and what the user has set is what matters.
    environment = dict(os.environ)
    # What does not work may hang, and a diagnosis has to end.
    os.environ.setdefault(_LIMIT, _LIMIT_SECONDS)
    init()
    world = current_world()
    communicator = world.communicator
    speaks = communicator.rank == 0 and not _is_stray(communicator.size, environment)
    if record is not None:
        communicator.on_root(lambda: check_record(record, overwrite=overwrite) if speaks else None)
    facts = gather_facts(world, environment)
    if speaks:
        # Before the self-test, which may end the job.
        print_page(facts_sections(facts))
    outcomes = self_test(facts, communicator)
    if speaks:
        print_page(outcome_sections(outcomes))
    if record is not None:
        communicator.on_root(lambda: write_record(record, facts, outcomes) if speaks else None)
    if any(outcome.wrong for outcome in outcomes):
        sys.exit(1)


def _is_stray(size: int, environment: Mapping[str, str]) -> bool:
    """Whether this is one of several processes that the launcher could not join, but the first.

    Each of them is rank 0 of 1, and one page is enough.
    """
    return size == 1 and (launched_size(environment) or 1) > 1 and launched_rank(environment) > 0
