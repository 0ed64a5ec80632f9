"""A thread that notices when a collective stands still, and ends the job when it can never go on.

The check at a call site's first execution finds most disagreements between ranks. What it cannot
see is a rank that is elsewhere: in another collective, or gone. So a rank that has stood in one
collective for half a second tells the others where. If somebody stands in the same place of the
order but in another collective, or has left, waiting is hopeless: the job ends with a message
that names the ranks. If nothing contradicts, the others are merely slow: a warning follows after
a minute, and at a limit, where one is set, the end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sciml_par.parallel.audience import tell_who_joined
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.mailbox import Mailbox, Waiting
from sciml_par.parallel.wording import mismatch_message, rank_list


@dataclass(frozen=True)
class Patience:
    """How long ranks wait for one another, in seconds."""

    announce_after: float = 0.5
    warn_after: float = 60.0
    end_after: float = float("inf")
    interval: float = 0.25


class Watchdog:
    """Watches the collectives of one rank.

    Parameters
    ----------
    mailbox : how it talks to the watchdogs of the other ranks.
    communicators : gives the groups to watch; called at every look.
    end_job : ends all ranks with a message; must not return to a working program.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        communicators: Callable[[], Iterable[Communicator]],
        end_job: Callable[[str], None],
        patience: Patience,
    ) -> None:
        self._mailbox = mailbox
        self._communicators = communicators
        self._end_job = end_job
        self._patience = patience
        self._stopped = threading.Event()
        self._stalls: dict[str, _Stall] = {}
        self._thread = threading.Thread(target=self._run, name="sciml_par watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch (local)."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch and wait for the thread (local)."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._patience.interval):
            self._mailbox.poll()
            for communicator in self._communicators():
                tell_who_joined(communicator, self._mailbox)
                self._look_at(communicator)

    def _look_at(self, communicator: Communicator) -> None:
        self._end_on_gpu_error(communicator)
        now = time.monotonic()
        stall = self._stalls.get(communicator.name)
        standing = communicator.standing()
        if standing is None:
            self._stalls.pop(communicator.name, None)
        elif stall is None or stall.sequence != standing[0]:
            self._stalls[communicator.name] = _Stall(standing[0], now)
        elif now - stall.since > self._patience.announce_after:
            mine = Waiting(communicator.name, standing[0], str(standing[1]))
            self._on_stall(communicator, mine, stall, now - stall.since)

    def _end_on_gpu_error(self, communicator: Communicator) -> None:
        error = communicator.by_nccl and communicator.by_nccl.error()
        if error:
            self._end_job(
                f"Rank {communicator.rank} of «{communicator.name}»: NCCL reports {error}. Another "
                f"rank may have died, or the network between the GPUs failed. NCCL_DEBUG=INFO lets "
                f"NCCL say more."
            )

    def _on_stall(
        self, communicator: Communicator, mine: Waiting, stall: _Stall, seconds: float
    ) -> None:
        if not stall.announced:
            stall.announced = True
            self._mailbox.send(mine)
        self._end_on_contradiction(communicator, mine)
        self._end_on_absence(communicator, mine)
        if seconds > self._patience.end_after:
            self._end_first(communicator, mine, self._stall_message(communicator, mine, seconds))
        if seconds > self._patience.warn_after and not stall.warned:
            stall.warned = True
            self._warn(communicator, mine, seconds)

    def _same_place(self, communicator: Communicator, mine: Waiting) -> dict[int, Waiting]:
        """Who stands at the same number of the same group's collectives, by rank in the group."""
        place = (mine.group, mine.sequence)
        found = {communicator.rank: mine}
        for rank, world_rank in enumerate(communicator.world_ranks):
            other = self._mailbox.waiting.get(world_rank)
            if other is not None and (other.group, other.sequence) == place:
                found[rank] = other
        return dict(sorted(found.items()))

    def _end_on_contradiction(self, communicator: Communicator, mine: Waiting) -> None:
        present = self._same_place(communicator, mine)
        if all(other.description == mine.description for other in present.values()):
            return
        # Others may be about to say where they stand; the message is better with all of them.
        time.sleep(self._patience.announce_after + 2 * self._patience.interval)
        self._mailbox.poll()
        present = self._same_place(communicator, mine)
        asked = {rank: waiting.description for rank, waiting in present.items()}
        self._end_in_turn(
            communicator, mine, min(asked), mismatch_message(communicator.name, asked)
        )

    def _end_on_absence(self, communicator: Communicator, mine: Waiting) -> None:
        left = self._mailbox.left
        gone = [
            rank
            for rank, world_rank in enumerate(communicator.world_ranks)
            if world_rank in left and left[world_rank].begun.get(mine.group, 0) < mine.sequence
        ]
        if gone:
            self._end_first(
                communicator,
                mine,
                f"{rank_list(gone).capitalize()} ended the program while rank "
                f"{communicator.rank} waits in {mine.description}. Every rank must reach the same "
                f"collectives: look for a return, an exit or a loop that ends early on some ranks.",
            )

    def _stall_message(self, communicator: Communicator, mine: Waiting, seconds: float) -> str:
        present = self._same_place(communicator, mine)
        missing = [r for r in range(communicator.size) if r not in present]
        who = f"{rank_list(missing)} did not come" if missing else "all ranks are there"
        waiting = f"{rank_list(list(present)).capitalize()} of «{communicator.name}»"
        return f"{waiting} waited {seconds:.0f} s in {mine.description}; {who}."

    def _warn(self, communicator: Communicator, mine: Waiting, seconds: float) -> None:
        if communicator.rank == min(self._same_place(communicator, mine)):
            write_error(f"warning: {self._stall_message(communicator, mine, seconds)}")

    def _end_first(self, communicator: Communicator, mine: Waiting, message: str) -> None:
        """Let the lowest waiting rank speak, and the others if it cannot."""
        waiting = [r for r, w in enumerate(communicator.world_ranks) if w in self._mailbox.waiting]
        self._end_in_turn(communicator, mine, min([*waiting, communicator.rank]), message)

    def _end_in_turn(
        self, communicator: Communicator, mine: Waiting, speaker: int, message: str
    ) -> None:
        """End the job with `message`, first on the rank `speaker`, if this rank still waits."""
        if communicator.rank != speaker:
            # Should the speaker be unable to, another one does it a little later.
            time.sleep(2.0 + 0.2 * communicator.rank)
        standing = communicator.standing()
        if standing is not None and standing[0] == mine.sequence:
            self._end_job(message)


@dataclass
class _Stall:
    sequence: int
    since: float
    announced: bool = False
    warned: bool = False


def write_error(message: str) -> None:
    """Write a line to standard error in one piece, so that ranks do not cut into each other."""
    os.write(2, f"sciml_par: {message}\n".encode())
