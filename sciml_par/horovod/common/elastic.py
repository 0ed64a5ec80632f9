"""Horovod's elastic states, which save, restore and broadcast the content of a training.

The ranks of a job do not change here. So a state is a container, and `run` runs its function once.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

HOW_TO_START_AGAIN = (
    "elastic.run does not run the function again: a job keeps its ranks from start to end. Save "
    "checkpoints, and start the job again from the last one, on any number of ranks "
    "(docs/failures.md)."
)


class State:
    """The part of a training that all ranks share.

    Parameters
    ----------
    bcast_object : a function that returns rank 0's Python object on all ranks.
    get_rank : a function that returns this process's number.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Add functions for `on_reset`."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Reset, and call the registered functions. Only the program calls this."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Do nothing: hosts do not change."""

    def commit(self) -> None:
        """Save the state, and check for new hosts."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Do nothing: hosts do not change."""

    def save(self) -> None:
        """Save the state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the state saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Broadcast the state of rank 0 (collective)."""
        raise NotImplementedError

    def reset(self) -> None:
        """Do nothing; derived classes may override it."""


class ObjectState(State):
    """A state with Python objects as attributes.

    Parameters
    ----------
    bcast_object, get_rank : as for `State`.
    **kwargs : the attributes; picklable.
    """

    def __init__(
        self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved_state = self._copies()

    def save(self) -> None:
        """Save copies of the attributes."""
        self._saved_state = self._copies()

    def restore(self) -> None:
        """Restore the attributes saved last."""
        for name, value in copy.deepcopy(self._saved_state).items():
            setattr(self, name, value)

    def sync(self) -> None:
        """Restore on all ranks the attributes that rank 0 saved last (collective)."""
        if self._names:
            self._saved_state = self._bcast_object(self._saved_state)
            ObjectState.restore(self)  # only the attributes

    def _copies(self) -> dict[str, Any]:
        # Lists and counters change in place; saved ones must not change with them.
        return copy.deepcopy({name: getattr(self, name) for name in self._names})


class WorkerNotificationManager:
    """A manager that does nothing; in Horovod the launcher informs it of hosts."""

    def init(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    register_listener = remove_listener = init


notification_manager = WorkerNotificationManager()


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Return the function that calls `state.sync()`, and then `func(state, …)`, once.

    Its errors get a note on how to start again. `reset` is not called.
    """

    @functools.wraps(func)
    def once(state: State, *args: Any, **kwargs: Any) -> Any:
        try:
            state.sync()
            return func(state, *args, **kwargs)
        except Exception as error:
            error.add_note(HOW_TO_START_AGAIN)
            raise

    return once
