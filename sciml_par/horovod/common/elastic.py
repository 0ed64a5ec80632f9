"""Horovod's elastic states: what a training consists of, saved, restored, and given to all ranks.

The ranks of a job do not come and go here, so a state is a container. `run` runs its function
once, and when that fails, says how to go on.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from sciml_par.horovod.common.exceptions import HostsUpdatedInterrupt

HOW_TO_START_AGAIN = (
    "elastic.run has run the function once: a job keeps its ranks from start to end. Save "
    "checkpoints, and start the job again from the last one, on as many ranks as there are "
    "(docs/failures.md)."
)

_REMOVED = 1
"""What `on_hosts_updated` is told where hosts were removed; 2 where hosts were added."""


class State:
    """What the ranks of a training have in common.

    Parameters
    ----------
    bcast_object : gives a Python object of rank 0 to all ranks.
    get_rank : tells this process's number.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], None]] = []
        self._host_changes: list[tuple[float, int]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Let `on_reset` call these as well (local)."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Reset, and call what was registered (local). Nothing but the program calls it."""
        self._host_changes.clear()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Note that hosts have changed (local). Nothing but the program calls it."""
        self._host_changes.append((timestamp, update_res))

    def commit(self) -> None:
        """`save`, then `check_host_updates` (collective)."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Ask rank 0 whether it was told that hosts have changed (collective).

        Raises
        ------
        HostsUpdatedInterrupt
            On all ranks, where the program has told it so by `on_hosts_updated`.
        """
        told = [change for _, change in self._host_changes]
        self._host_changes.clear()
        changes = self._bcast_object(told)
        if changes:
            # Ranks that stay have equal states.
            raise HostsUpdatedInterrupt(skip_sync=all(each == _REMOVED for each in changes))

    def save(self) -> None:
        """Keep what the state holds now (local)."""
        raise NotImplementedError

    def restore(self) -> None:
        """Bring back what was kept last (local)."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give the state of rank 0 to all ranks (collective)."""
        raise NotImplementedError

    def reset(self) -> None:
        """What a state of one's own does in `on_reset`; nothing here (local)."""


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
        """Keep copies of the attributes (local)."""
        self._saved_state = self._copies()

    def restore(self) -> None:
        """Set the attributes to copies of what was kept last (local)."""
        for name, value in copy.deepcopy(self._saved_state).items():
            setattr(self, name, value)

    def sync(self) -> None:
        """Keep, and set the attributes to, what rank 0 has kept last (collective)."""
        if self._names:
            self._saved_state = self._bcast_object(self._saved_state)
            ObjectState.restore(self)  # the attributes alone, whatever a derived state restores

    def _copies(self) -> dict[str, Any]:
        # Lists and counters change in place; what is kept must not change with them.
        return copy.deepcopy({name: getattr(self, name) for name in self._names})


class WorkerNotificationManager:
    """In Horovod, what hears of hosts from the launcher. Here nobody speaks to it."""

    def init(self, *args: Any, **kwargs: Any) -> None:
        """Nothing (local)."""

    def register_listener(self, listener: Any) -> None:
        """Nothing (local)."""

    def remove_listener(self, listener: Any) -> None:
        """Nothing (local)."""


notification_manager = WorkerNotificationManager()


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Return the function that calls `state.sync()`, and then `func(state, …)`, once (local).

    Parameters
    ----------
    func : takes a `State` first.
    reset : in Horovod, joins the ranks anew before another try; never called.

    Returns
    -------
    A function whose errors are those of `func`, with a note on how to go on.
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
