"""What has other parameters in `horovod.keras` than in `horovod.tensorflow.keras`."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras import collectives
from sciml_par.horovod.tensorflow.keras import optimizer as optimizers
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted


@not_converted  # AutoGraph has local variables of its own
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
    """As in `sciml_par.horovod.tensorflow.keras`, which has more options."""
    return optimizers.DistributedOptimizer(**locals())


@not_converted  # AutoGraph has local variables of its own
def allreduce(
    value: collectives.Value,
    name: str | None = None,
    average: bool | None = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: Any = Compression.none,
) -> collectives.Value:
    """As in `sciml_par.horovod.tensorflow.keras`; `op` counts where it is given (collective)."""
    options = locals()
    if op is not None and average:
        options["average"] = None
    return collectives.allreduce(**options)
