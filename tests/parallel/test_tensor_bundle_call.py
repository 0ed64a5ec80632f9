"""Many tensors as one operand of a compiled program."""

from __future__ import annotations

import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.parallel.execution.tensor_bundle_call import TensorBundleCall
from sciml_par.parallel.requests.request import Allreduce

MORE_THAN_MPI_HAS_COMMUNICATORS = 3000


def addresses_of(arrays):
    return np.array([array.ctypes.data for array in arrays], np.uint64).tobytes()


@pytest.mark.ranks(most=2, reason="the limit is that of one rank")
def test_more_call_sites_than_mpi_has_communicators():
    group = sp.current_world().communicator.split(0)
    request = Allreduce("float32", (5,), sp.Sum)
    calls = [
        TensorBundleCall(group, request, [(2,), (3,)])
        for _ in range(MORE_THAN_MPI_HAS_COMMUNICATORS)
    ]
    for call in (calls[0], calls[-1]):
        arrays = [np.full(n, n + sp.rank(), np.float32) for n in (2, 3)]
        call.execute(addresses_of(arrays))
        for n, array in zip((2, 3), arrays, strict=True):
            assert array.tolist() == [sum(n + rank for rank in range(sp.size()))] * n
    group.free()
