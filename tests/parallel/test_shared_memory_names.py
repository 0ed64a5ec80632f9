"""MPI's shared memory has no name any more once ranks have begun, and is there all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from mpi4py import MPI

from sciml_par.parallel.startup.shared_memory_names import mapped_files

MAPS = Path("/proc/self/maps")
NAMES = {"MPICH": "/mpich_shm_", "Open MPI": "/sm_segment."}


@pytest.mark.ranks(least=2, reason="one rank shares no memory")
@pytest.mark.skipif(
    not MAPS.exists() or MPI.get_vendor()[0] not in NAMES, reason="needs Linux, MPICH or Open MPI"
)
def test_what_ranks_share_has_no_name():
    name = NAMES[MPI.get_vendor()[0]]
    shared = [line for line in MAPS.read_text().splitlines() if name in line]
    assert shared and all(line.endswith(" (deleted)") for line in shared)
    assert mapped_files() == []
