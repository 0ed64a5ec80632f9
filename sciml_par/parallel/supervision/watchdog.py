"""A thread that notices stalled collectives, and ends the job if one can never finish.

Ranks find most mismatches when they compare requests, but not if one is elsewhere: in another
collective, or gone. So a rank that has waited in one collective for half a second reports it to one
rank of the group, which answers with all waiting ranks (`waiting_ranks.py`). If another rank waits
at the same place of the order but in another collective, or has left, waiting is hopeless: the job
ends with a message that names the ranks. Otherwise the others are slow: a warning follows after a
minute, and the end at the stall limit, if one is set. Ranks that still compare, or wait in shared
memory, do not contradict each other: when the last one arrives, all get an error from which a
program can continue.

If a rank does not answer within two seconds, the next of 0, 1, 3, 7, … is asked, and in the end the
asking rank itself. Ranks ask again after 2, 8, 32 seconds and so on, starting with rank 0, and
before they warn or end the job. So two that have told different ranks find each other, and the
number of messages of a rank does not grow with P. Each time, the lowest waiting rank asks the
missing ones where they are. They answer with the line of their program, which the
messages repeat, and, if they are further, with their collective at this place of the order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sciml_par._stderr import ThreadErrors, write_error
from sciml_par._text import rank_list, ranks_by
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.joined_ranks import tell_who_joined
from sciml_par.parallel.groups.mailbox import Elsewhere, Identity, Mailbox, Present, Waiting
from sciml_par.parallel.requests.signature import mismatch_message
from sciml_par.parallel.supervision.order_check import OrderCheck, ends_alike
from sciml_par.parallel.supervision.waiting_ranks import WaitingRanks, answer_missing, ask_missing

_ANSWER_SECONDS = 2.0
_ASK_AGAIN_FACTOR = 4.0
_MOST_PLACES = 3


@dataclass(frozen=True)
class Patience:
    """The time that ranks wait for one another, in seconds."""

    announce_after: float = 0.5
    warn_after: float = 60.0
    end_after: float = float("inf")
    interval: float = 0.25


class Watchdog:
    """Watches the collectives of one rank.

    Parameters
    ----------
    end_job : ends all ranks with a message; must not return to a working program.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        communicators: Callable[[], Iterable[Communicator]],
        end_job: Callable[[str], None],
        patience: Patience,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mailbox = mailbox
        self._communicators = communicators
        self._end_job = end_job
        self._patience = patience
        self._clock = clock
        self._stopped = threading.Event()
        self._stalls: dict[Identity, _Stall] = {}
        self._waiting_ranks = WaitingRanks(mailbox, patience.announce_after + patience.interval)
        self._order_check = OrderCheck(mailbox)
        self._errors = ThreadErrors("the watchdog", mailbox.rank, write_error)
        self._thread = threading.Thread(target=self._run, name="sciml_par watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch and wait for the thread."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    def look(self) -> None:
        """Receive and answer messages, and look at every group once (never waits)."""
        communicators: list[Communicator] = []
        with self._errors.told_once():
            communicators = list(self._communicators())
            groups = {communicator.identity for communicator in communicators}
            self._mailbox.forget_gone(groups)
            by_group: list[dict[Identity, Any]] = [self._stalls, self._order_check.told]
            for kept in (*by_group, *self._waiting_ranks.by_group):
                for group in [each for each in kept if each not in groups]:
                    del kept[group]
        with self._errors.told_once():
            self._mailbox.poll()
        with self._errors.told_once():
            self._waiting_ranks.answer(self._clock())
            answer_missing(self._mailbox, communicators)
        for communicator in communicators:
            with self._errors.told_once():
                tell_who_joined(communicator, self._mailbox)
                communicator.progress.visit()
                difference = self._order_check.look(communicator, self._clock())
                if difference is not None:
                    time.sleep(0.2 * (communicator.rank - 1))  # one rank is enough to say it
                    self._end_job(difference)
                self._look_at(communicator)

    def _run(self) -> None:
        while not self._stopped.wait(self._patience.interval):
            self.look()

    def _look_at(self, communicator: Communicator) -> None:
        error = communicator.nccl_transport and communicator.nccl_transport.error()
        if error:
            self._end_job(
                f"Rank {communicator.rank} of «{communicator.name}»: NCCL reports {error}. Another "
                f"rank may have died, or the network between the GPUs failed. NCCL_DEBUG=INFO lets "
                f"NCCL say more."
            )
        group, now = communicator.identity, self._clock()
        stall = self._stalls.get(group)
        current = communicator.in_progress()
        if current is None:
            self._stalls.pop(group, None)
        elif stall is None or stall.sequence != current[0]:
            self._stalls[group] = _Stall(communicator, current[0], now)
        elif now - stall.since > self._patience.announce_after:
            number, signature = current
            told = communicator.progress.is_told_of_mismatch
            stall.mine = Waiting(group, number, str(signature), communicator.rank, is_told=told)
            self._on_stall(stall, now)

    def _on_stall(self, stall: _Stall, now: float) -> None:
        seconds, group, what = now - stall.since, stall.communicator, stall.mine.description
        self._take_answer(stall)
        self._ask(stall, now)
        further = [each for each in self._elsewhere(stall) if each.asked]
        asked = {**{each.rank: each.asked for each in further}, **stall.present}
        are_told = stall.are_told.union(each.rank for each in further if each.comparing)
        if len(set(asked.values())) > 1 and not are_told.issuperset(asked):
            message = mismatch_message(group.name, dict(sorted(asked.items())))
            self._end_in_turn(stall, message)
        # Others that came a moment later are about to say so, and one is to speak for all.
        soon = seconds <= self._patience.announce_after + 2 * self._patience.interval
        gone = [] if soon else self._gone(stall)
        if gone and self._has_asked_about("absence", stall, now):
            message = (
                f"{rank_list(gone).capitalize()} ended the program while rank {group.rank} waits "
                f"in {what}. Every rank must reach the same collectives: look for a return, an "
                f"exit or a loop that ends early on some ranks; give all ranks as many batches, in "
                f"Keras' fit with steps_per_epoch=…."
            )
            self._end_in_turn(stall, message)
        if seconds > self._patience.end_after and self._has_asked_about("limit", stall, now):
            self._end_in_turn(stall, self._stall_message(stall, seconds))
        if seconds > self._patience.warn_after and not stall.warned:
            if not self._has_asked_about("warning", stall, now):
                return
            stall.warned = True
            if group.rank == min(stall.present):
                write_error(f"warning: {self._stall_message(stall, seconds)}")

    def _take_answer(self, stall: _Stall) -> None:
        """Note the ranks at the same number of the group's collectives, and their requests."""
        mine = stall.mine
        answer = self._mailbox.present.get(mine.group)
        here = answer is not None and answer.sequence == mine.sequence
        if stall.present and (not here or answer is stall.answer):
            return
        found = {mine.rank: mine.description}
        are_told = {mine.rank} if mine.is_told else set()
        if here and answer is not None:
            are_told |= {*answer.are_told}
            found |= {rank: what for what, ranks in answer.asked.items() for rank in ranks}
            stall.answer, stall.answered = answer, answer.question >= stall.question
        stall.present, stall.are_told = dict(sorted(found.items())), are_told

    def _ask(self, stall: _Stall, now: float) -> None:
        """Report this rank's place to the keeper of the list, or the next one if that is silent."""
        done = stall.answered or stall.question == 0
        if stall.told in self._mailbox.left or (done and now >= stall.ask_again_at):
            stall.question += 1
            stall.passed_over, stall.answered = 0, False
            stall.ask_again_at = stall.since + _ASK_AGAIN_FACTOR * (now - stall.since)
            if stall.question > 1:
                ask_missing(self._mailbox, stall.communicator, stall.mine, stall.present)
        elif not stall.answered and now - stall.asked_at > _ANSWER_SECONDS:
            stall.passed_over += 1
        else:
            return
        # The possible keepers of the list, in the order in which they are asked.
        ranks = stall.communicator.world_ranks
        doubling = [ranks[2**k - 1] for k in range(len(ranks).bit_length())]
        there = [rank for rank in doubling if rank not in self._mailbox.left]
        keepers = [*there, ranks[stall.mine.rank]]
        stall.told = keepers[min(stall.passed_over, len(keepers) - 1)]
        stall.asked_at = now
        self._mailbox.send(replace(stall.mine, question=stall.question), to=[stall.told])

    def _has_asked_about(self, reason: str, stall: _Stall, now: float) -> bool:
        """Return whether the answer is newer than `reason`, for which it is asked for once.

        Unless a rank has left, those that are missing get a moment to say where they are.
        """
        if reason not in stall.reasons:
            stall.reasons.add(reason)
            if stall.asked_at < now:
                stall.ask_again_at = now
                self._ask(stall, now)
        heard = reason == "absence" or now - stall.asked_at >= self._patience.announce_after
        return stall.answered and heard

    def _gone(self, stall: _Stall) -> list[int]:
        """Return the ranks that have left before this collective, or after another one."""
        left, group = self._mailbox.left, stall.communicator
        return [
            rank
            for rank, world_rank in enumerate(group.world_ranks)
            if world_rank in left
            and (
                left[world_rank].begun.get(group.identity, (0, 0))[0] < stall.sequence
                or not ends_alike(group, left[world_rank])
            )
        ]

    def _stall_message(self, stall: _Stall, seconds: float) -> str:
        group, present = stall.communicator, stall.present
        missing = [r for r in range(group.size) if r not in present]
        answers = [each for each in self._elsewhere(stall) if each.rank in missing and each.place]
        ranks_at = ranks_by((each.rank, each.place) for each in answers)
        told = [f"{rank_list(sorted(ranks))} at {place}" for place, ranks in ranks_at.items()]
        places = f" ({'; '.join(told[:_MOST_PLACES])})" if told else ""
        who = f"{rank_list(missing)} did not come{places}" if missing else "all ranks are there"
        waiting = f"{rank_list(list(present)).capitalize()} of «{group.name}»"
        if len(set(present.values())) == 1:
            return f"{waiting} waited {seconds:.0f} s in {stall.mine.description}; {who}."
        mismatch = mismatch_message(group.name, present)
        return f"{waiting} waited {seconds:.0f} s; {who}. {mismatch}"

    def _elsewhere(self, stall: _Stall) -> list[Elsewhere]:
        """Return the answers of the missing ranks."""
        answers = list(self._mailbox.elsewhere.get(stall.mine.group, {}).values())
        return [each for each in answers if each.sequence == stall.sequence]

    def _end_in_turn(self, stall: _Stall, message: str) -> None:
        """End the job with `message`, if this rank still waits; the lowest is first."""
        turn = sorted(stall.present).index(stall.mine.rank)
        if stall.end_at is None:
            # Should the first be unable to, another one does it a little later.
            stall.end_at = self._clock() + (2.0 + 0.2 * turn if turn else 0.0)
        current = stall.communicator.in_progress()
        if self._clock() >= stall.end_at and current and current[0] == stall.sequence:
            self._end_job(message)


@dataclass
class _Stall:
    """A collective that stands still.

    Attributes
    ----------
    mine : what this rank tells the others.
    question : how often this rank has asked who else is there.
    told : whom it asked last, at the time `asked_at`; `passed_over` others were silent before.
    answer : the last one, if any; `answered`: whether it is that to the last question.
    present : what for ranks of the group stand there, this one included.
    are_told : those of them that will be told, once all have come, that the ranks differ.
    reasons : what it has asked about besides.
    end_at : when this rank is to end the job; None while there is hope.
    """

    communicator: Communicator
    sequence: int
    since: float
    mine: Waiting = field(init=False)
    question: int = 0
    told: int = -1
    asked_at: float = -1.0
    ask_again_at: float = -1.0
    passed_over: int = 0
    answer: Present | None = None
    answered: bool = False
    present: dict[int, str] = field(default_factory=dict)
    are_told: set[int] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)
    warned: bool = False
    end_at: float | None = None
