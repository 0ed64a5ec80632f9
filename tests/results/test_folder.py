"""The folder of a run's results, claimed before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sciml_par.errors import OutputError
from sciml_par.results.stored.folder import RESULTS, claim_folder, claim_numbered_folder

pytestmark = pytest.mark.ranks(most=1, reason="local")


def test_numbered_folders(tmp_path: Path) -> None:
    names = [claim_numbered_folder(tmp_path / "runs" / "a").name for _ in range(3)]
    assert names == ["a", "a-2", "a-3"]


def test_a_folder_with_other_files_may_be_claimed_and_one_with_results_only_if_asked(
    tmp_path: Path,
) -> None:
    assert claim_folder(tmp_path, overwrite=False) == tmp_path
    (tmp_path / "notes.txt").write_text("mine")
    assert claim_folder(tmp_path, overwrite=False) == tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / RESULTS).write_text("{}")
    with pytest.raises(OutputError, match="holds the results of another run"):
        claim_folder(tmp_path, overwrite=False)
    assert claim_folder(tmp_path, overwrite=True) == tmp_path


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for claim in (claim_numbered_folder, lambda path: claim_folder(path, overwrite=False)):
        with pytest.raises(OutputError, match="cannot write to the folder .*file/run"):
            claim(tmp_path / "file" / "run")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(OutputError, match="Permission denied"):
        claim_folder(tmp_path / "locked", overwrite=False)
