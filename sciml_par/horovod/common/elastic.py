"""Horovod's elastic states: the contents of a training, saved, restored, and given to all ranks.

The ranks of a job do not come and go here, so a state is a container, and `run` runs its function
once.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

HOW_TO_START_AGAIN = (
    "elastic.run has run the function once: a job keeps its ranks from start to end. Save "
    "checkpoints, and start the job again from the last one, on as many ranks as there are "
    "(docs/failures.md)."
)


class State:
    """The part of a training that the ranks have in common.

    Parameters
    ----------
    bcast_object : gives a Python object of rank 0 to all ranks.
    get_rank : returns this process's number.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Let `on_reset` call these as well."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Reset, and call the registered functions. Only the program calls it."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Do nothing: hosts do not change."""

    def commit(self) -> None:
        """Save the state."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Do nothing: hosts do not change."""

    def save(self) -> None:
        """Keep the present content of the state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Return to the content that was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give the state of rank 0 to all ranks (collective)."""
        raise NotImplementedError

    def reset(self) -> None:
        """Do nothing; a derived class may do more in `on_reset`."""


class ObjectState(State):
    """A state of Python objects, which are its attributes.

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
        """Keep copies of the attributes."""
        self._saved_state = self._copies()

    def restore(self) -> None:
        """Set the attributes to copies of those saved last."""
        for name, value in copy.deepcopy(self._saved_state).items():
            setattr(self, name, value)

    def sync(self) -> None:
        """Save and set the attributes that rank 0 saved last (collective)."""
        if self._names:
            self._saved_state = self._bcast_object(self._saved_state)
            ObjectState.restore(self)  # the attributes alone, whatever a derived state restores

    def _copies(self) -> dict[str, Any]:
        # Lists and counters change in place; saved ones must not change with them.
        return copy.deepcopy({name: getattr(self, name) for name in self._names})


class WorkerNotificationManager:
    """Does nothing. In Horovod it receives news of hosts from the launcher."""

    def init(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def register_listener(self, listener: Any) -> None:
        """Do nothing."""

    def remove_listener(self, listener: Any) -> None:
        """Do nothing."""


notification_manager = WorkerNotificationManager()


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Return the function that calls `state.sync()`, and then `func(state, …)`, once.

    Parameters
    ----------
    func : takes a `State` first. A note on its errors says how to start again.
    reset : never called. In Horovod it joins the ranks again before another try.
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
