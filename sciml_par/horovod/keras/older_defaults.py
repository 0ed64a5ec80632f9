"""Functions with other parameters in `horovod.keras` than in `horovod.tensorflow.keras`."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras import collectives
from sciml_par.horovod.tensorflow.keras import optimizer as optimizers
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted


@not_converted  # AutoGraph changes `locals`
def DistributedOptimizer(
    optimizer: optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    num_groups: int = 0,
    groups: Any = None,
) -> optimizers.Optimizer:
    """Return `sciml_par.horovod.tensorflow.keras.DistributedOptimizer` with fewer options."""
    return optimizers.DistributedOptimizer(**locals())


@not_converted  # AutoGraph changes `locals`
def allreduce(
    value: collectives.Value,
    name: str | None = None,
    average: bool | None = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: Any = Compression.none,
) -> collectives.Value:
    """Combine the ranks' values; `op` takes precedence over `average` (collective)."""
    options = locals()
    if op is not None and average:
        options["average"] = None
    return collectives.allreduce(**options)
