"""What every program of the table may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciml_par.parallel import current_world


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the same empty folder on all ranks."""
    shared: Path = current_world().communicator.broadcast_object(tmp_path)
    return shared
