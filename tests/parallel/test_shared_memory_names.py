"""MPICH's shared memory has no name any more once ranks have begun, and is there all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from mpi4py import MPI

from sciml_par.parallel.startup.shared_memory_names import mapped_files

MAPS = Path("/proc/self/maps")


@pytest.mark.ranks(least=2, reason="one rank shares no memory")
@pytest.mark.skipif(
    not MAPS.exists() or MPI.get_vendor()[0] != "MPICH", reason="needs Linux and MPICH"
)
def test_what_ranks_share_has_no_name():
    shared = [line for line in MAPS.read_text().splitlines() if "/mpich_shm_" in line]
    assert shared and all(line.endswith(" (deleted)") for line in shared)
    assert mapped_files() == []
