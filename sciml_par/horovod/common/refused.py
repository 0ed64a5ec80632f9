"""Horovod's names without a counterpart here: a call raises and says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from sciml_par.errors import InputError

_DATA_SERVICE = (
    "there is no data service. Give each rank its share by dataset.shard(hvd.size(), hvd.rank()), "
    "or use tf.data.experimental.service."
)

INSTEAD = {
    "run": (
        "no processes are started here. Put the call into a program, and start that with "
        "mpirun -np P python program.py, where P is the number of ranks."
    ),
    "TfDataServiceConfig": _DATA_SERVICE,
    "tf_data_service": _DATA_SERVICE,
    "send_to_data_service": _DATA_SERVICE,
    "compute_worker_fn": _DATA_SERVICE,
}
"""What to do instead, by name."""


_NOW = "collectives return when they are done: leave _async out, and synchronize"
ELSEWHERE = {
    "broadcast_parameters": "broadcast_variables(model.variables, root_rank=0) does this",
    "broadcast_optimizer_state": "broadcast_variables(optimizer.variables, root_rank=0) does this",
    **dict.fromkeys(("synchronize", "poll"), _NOW),
}
"""What to use instead of names of Horovod's other frameworks, such as PyTorch."""


def advice_on(name: str) -> str:
    """Return advice on a name of another framework, to append to an error; else nothing."""
    if name in ("mxnet", "ray", "spark", "torch"):
        return (
            f": sciml_par.horovod is for TensorFlow and Keras, and has no {name}. For PyTorch and "
            f"MXNet use torch.distributed, or Horovod itself; in place of Spark and Ray start the "
            f"program with mpirun -np P python program.py, where P is the number of ranks."
        )
    asynchronous = name.endswith("_async") or name.endswith("_async_")
    in_place = name.endswith("_") and not name.endswith("__")
    advice = ELSEWHERE.get(name) or (_NOW if asynchronous else None)
    advice = advice or (f"{name.rstrip('_')} returns the result" if in_place else None)
    return f": it belongs to PyTorch; {advice}." if advice else ""


class Refused:
    """A name that can be imported and passed on, but not used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `InputError`, whatever the arguments are."""
        raise InputError(f"{self._name}: {INSTEAD[self._name.partition('.')[0]]}")

    def __getattr__(self, name: str) -> Refused:
        if name.startswith("_"):
            raise AttributeError(name)
        return Refused(f"{self._name}.{name}")

    def __repr__(self) -> str:
        return f"Refused({self._name!r})"
