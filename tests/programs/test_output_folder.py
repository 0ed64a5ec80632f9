"""The folder of a program's results, on one process and on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sciml_par.errors import OutputError
from sciml_par.parallel import current_world
from sciml_par.programs import ProgramOptions


def folder_of(tmp_path: Path, named: str | None = None, **changes: Any) -> Any:
    """Below the temporary folder of rank 0, by which all ranks name it."""
    communicator = current_world().communicator
    base = communicator.on_root(lambda: tmp_path)
    options = ProgramOptions(output=base / named if named else None, **changes)
    options.program = str(base / "runs" / "trial")  # an absolute path replaces what is before it
    return options.output_folder()


def on_rank_0(act: Callable[[], Any]) -> Any:
    return current_world().communicator.on_root(act)


def test_a_folder_that_is_left_empty_goes_again_with_its_parent(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), folder_of(tmp_path) as folder:
        assert on_rank_0(folder.is_dir)
        raise RuntimeError("the work has failed")
    assert not on_rank_0(folder.parent.exists)


def test_results_stay_and_the_next_folder_has_a_number(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), folder_of(tmp_path) as folder:
        on_rank_0((folder / "results.json").touch)
        raise RuntimeError("the work has failed after all")
    assert on_rank_0((folder / "results.json").exists)
    with folder_of(tmp_path) as second:
        assert second == folder.with_name("trial-2")
    assert on_rank_0(lambda: [path.name for path in folder.parent.iterdir()]) == ["trial"]


def test_a_named_folder_stays_and_is_taken_again_on_request_alone(tmp_path: Path) -> None:
    with folder_of(tmp_path, "kept") as folder:
        pass
    assert on_rank_0(folder.is_dir)
    on_rank_0((folder / "results.json").touch)
    with pytest.raises(OutputError, match="another run"), folder_of(tmp_path, "kept"):
        pass
    with folder_of(tmp_path, "kept", overwrite=True) as again:
        assert again == folder


@pytest.mark.parametrize("named", [None, "file/run"])
def test_a_file_in_the_way_is_named_on_all_ranks(tmp_path: Path, named: str | None) -> None:
    base = on_rank_0(lambda: tmp_path)
    on_rank_0(lambda: (base / ("file" if named else "runs")).write_text("in the way"))
    match = f"cannot write to the folder .*{named or 'runs/trial'}"
    with pytest.raises(OutputError, match=match), folder_of(tmp_path, named):
        pass
