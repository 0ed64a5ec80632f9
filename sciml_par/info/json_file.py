"""What `sciml-par info` has found, as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sciml_par._files import draft_of, write_text
from sciml_par.errors import OutputError
from sciml_par.info.facts import Facts
from sciml_par.info.self_test import Outcome


def check_json_file(path: Path, *, overwrite: bool) -> None:
    """Raise `OutputError` if `path` is there and must stay, or cannot be written."""
    if path.exists() and not overwrite:
        raise OutputError(
            f"{path} is there already and stays as it is. Name another file, or ask for "
            f"overwriting."
        )
    draft = draft_of(path)
    try:
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise _cannot_write(path, error) from None


def write_json_file(path: Path, facts: Facts, outcomes: Sequence[Outcome]) -> None:
    """Write the file in one piece."""
    text = json.dumps(summarize(facts, outcomes), indent=2)
    try:
        write_text(path, f"{text}\n")
    except OSError as error:
        raise _cannot_write(path, error) from None


def summarize(facts: Facts, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What the file holds."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "right": all(outcome.right for outcome in outcomes if outcome.tried),
        "transport_obstacle": facts.transport_obstacle,
        "native_obstacle": facts.native_obstacle,
        "self_test": [
            {**asdict(outcome), "tried": outcome.tried, "right": outcome.right}
            for outcome in outcomes
        ],
        "ranks": [asdict(rank) for rank in facts.ranks],
    }


def _cannot_write(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write the file {path}: {error.strerror or error}.")
