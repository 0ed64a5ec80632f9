"""The folder of a program's results: claimed before any work, and gone again if left empty."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sciml_par.results.stored.folder import claim_folder, claim_numbered_folder


@contextlib.contextmanager
def output_folder(
    named: Path | None,
    default: Path,
    *,
    overwrite: bool,
    resume: bool = False,
    on_root: Callable[[Callable[[], Path]], Path],
) -> Iterator[Path]:
    """The folder `named`, or `default` with the first free number (as collective as `on_root`)."""
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
