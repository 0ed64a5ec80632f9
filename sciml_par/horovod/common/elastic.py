"""Horovod's elastic training, which says what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from sciml_par.errors import InputError


def refuse(what: str) -> NoReturn:
    """Raise the `InputError` of everything elastic (local)."""
    raise InputError(
        f"{what}: a job keeps its ranks from start to end. Save checkpoints, and when a rank is "
        f"lost start again from the last one, on as many ranks as there are (docs/failures.md)."
    )


class State:
    """In Horovod, what ranks that come and go have in common. Making one raises `InputError`."""

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        refuse(type(self).__name__)

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        refuse("register_reset_callbacks")

    def on_reset(self) -> None:
        refuse("on_reset")

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        refuse("on_hosts_updated")

    def commit(self) -> None:
        refuse("commit")

    def check_host_updates(self) -> None:
        refuse("check_host_updates")

    def save(self) -> None:
        refuse("save")

    def restore(self) -> None:
        refuse("restore")

    def sync(self) -> None:
        refuse("sync")

    def reset(self) -> None:
        refuse("reset")


class ObjectState(State):
    """In Horovod, a state of Python objects. Making one raises `InputError`."""

    def __init__(
        self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)


class WorkerNotificationManager:
    """In Horovod, what listens to the launcher. Here nobody speaks to it."""

    def init(self, *args: Any, **kwargs: Any) -> None:
        refuse("notification_manager")

    def register_listener(self, listener: Any) -> None:
        refuse("notification_manager")

    def remove_listener(self, listener: Any) -> None:
        refuse("notification_manager")


notification_manager = WorkerNotificationManager()


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> NoReturn:
    """Raise `InputError`: see `refuse`."""
    refuse("elastic.run")
