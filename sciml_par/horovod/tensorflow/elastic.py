"""Horovod's elastic training with TensorFlow, which says what takes its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sciml_par.horovod.common.elastic import ObjectState, refuse


def run(func: Callable[..., Any]) -> NoReturn:
    """Raise `InputError`: there is no elastic training."""
    refuse("elastic.run")


class TensorFlowKerasState(ObjectState):
    """In Horovod, the state of a Keras model. Making one raises `InputError`."""

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        refuse(type(self).__name__)

    def save(self) -> None:
        refuse("save")

    def restore(self) -> None:
        refuse("restore")

    def sync(self) -> None:
        refuse("sync")


class TensorFlowState(ObjectState):
    """In Horovod, the state of variables. Making one raises `InputError`."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        refuse(type(self).__name__)

    def save(self) -> None:
        refuse("save")

    def restore(self) -> None:
        refuse("restore")

    def sync(self) -> None:
        refuse("sync")
