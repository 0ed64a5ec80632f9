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
