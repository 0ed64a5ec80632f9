"""`allreduce` with the defaults that it has in `horovod.keras`."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras import values
from sciml_par.parallel import ReduceOp


def allreduce(
    value: values.Value,
    name: str | None = None,
    average: bool | None = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: Any = Compression.none,
) -> values.Value:
    """As in `sciml_par.horovod.tensorflow.keras`; `op` counts where it is given (collective)."""
    return values.allreduce(
        value,
        name=name,
        average=None if op is not None and average else average,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        op=op,
        compression=compression,
    )
