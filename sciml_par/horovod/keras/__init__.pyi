from sciml_par.horovod.tensorflow.keras import *  # noqa: F403

from .older_defaults import DistributedOptimizer as DistributedOptimizer  # type: ignore[assignment]
from .older_defaults import allreduce as allreduce
