"""`DistributedOptimizer` with the parameters that it has in `horovod.keras`."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras import optimizer as full
from sciml_par.parallel import Average, ReduceOp


def DistributedOptimizer(
    optimizer: full.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    num_groups: int = 0,
    groups: Any = None,
) -> full.Optimizer:
    """As in `sciml_par.horovod.tensorflow.keras`, which has more options (local)."""
    return full.DistributedOptimizer(
        optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        num_groups=num_groups,
        groups=groups,
    )
