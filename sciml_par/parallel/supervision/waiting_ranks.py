"""The list of waiting ranks, and where the ranks are that these wait for in vain.

If each waiting rank told every other one, P ranks would send P² messages. So each tells one, in
general rank 0 of the group, which need not wait itself, keeps the list and answers those that ask.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import (
    Elsewhere,
    Identity,
    Mailbox,
    Missing,
    Present,
    Waiting,
)
from sciml_par.parallel.supervision.order_check import is_over

_INSTALLED = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_FOLDERS = (str(Path(__file__).parents[2]), *_INSTALLED)
_LIBRARIES = (*(os.path.join(folder, "") for folder in _FOLDERS), "<frozen ")


class WaitingRanks:
    """Answers ranks that wait."""

    def __init__(self, mailbox: Mailbox, grace: float) -> None:
        self._mailbox = mailbox
        self._grace = grace
        self._contradictions: dict[Identity, tuple[int, float]] = {}
        self._told: dict[Identity, int] = {}
        self.by_group: tuple[dict[Identity, Any], ...] = self._contradictions, self._told

    def answer(self, now: float) -> None:
        """Answer all questions, and notify ranks that contradict each other."""
        lists: dict[tuple[Identity, int], Present] = {}
        for sender, waiting in self._mailbox.take(Waiting):
            group, sequence = waiting.group, waiting.sequence
            if (group, sequence) not in lists:
                lists[group, sequence] = self._list(group, sequence)
            present = lists[group, sequence]
            if len(present.asked) > 1 and self._told.get(group) != sequence:
                # Not yet: all of them are told at once.
                known = self._contradictions.get(group)
                if known is None or known[0] != sequence:
                    self._contradictions[group] = (sequence, now)
                continue
            self._mailbox.send(replace(present, question=waiting.question), to=[sender])
        self._tell_contradictions(now)

    def _list(self, group: Identity, sequence: int) -> Present:
        """Return the list of the ranks at this place."""
        asked: dict[str, list[int]] = {}
        are_told: list[int] = []
        for waiting in list(self._mailbox.waiting.get(group, {}).values()):
            if waiting.sequence == sequence:
                asked.setdefault(waiting.description, []).append(waiting.rank)
                if waiting.is_told:
                    are_told.append(waiting.rank)
        return Present(group, sequence, 0, asked, are_told)

    def _tell_contradictions(self, now: float) -> None:
        for group, (sequence, since) in list(self._contradictions.items()):
            if now - since < self._grace:
                continue
            del self._contradictions[group]
            self._told[group] = sequence
            present = self._list(group, sequence)
            for sender, waiting in list(self._mailbox.waiting.get(group, {}).items()):
                if waiting.sequence == sequence:
                    answer = replace(present, question=waiting.question)
                    self._mailbox.send(answer, to=[sender])


def ask_missing(
    mailbox: Mailbox, group: Communicator, mine: Waiting, present: Iterable[int]
) -> None:
    """Ask all ranks of the group that are not `present`, if this one is the lowest that waits."""
    mailbox.elsewhere.pop(mine.group, None)
    there = set(present)
    if min(there) == group.rank:
        missing = [world for rank, world in enumerate(group.world_ranks) if rank not in there]
        question = Missing(mine.group, mine.sequence)
        mailbox.send(question, to=[rank for rank in missing if rank not in mailbox.left])


def answer_missing(mailbox: Mailbox, groups: Iterable[Communicator]) -> None:
    """Answer the ranks that miss this one."""
    here = {group.identity: group for group in groups}
    for sender, question in mailbox.take(Missing):
        group = here.get(question.group)
        if group is None:
            continue
        # What is not over may yet be compared, and the watchdog looks at it.
        over = is_over(group, question.sequence)
        done = dict(group.progress.history).get(question.sequence) if over else None
        answer = Elsewhere(
            question.group,
            question.sequence,
            group.rank,
            place_of_program(),
            "" if done is None else str(done.signature),
            group.progress.comparing,
        )
        mailbox.send(answer, to=[sender])


def place_of_program() -> str:
    """Return the line at which the main thread is, as `file:line, in text`; empty if unknown."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    text = linecache.getline(path, frame.f_lineno).strip()
    return f"{Path(path).name}:{frame.f_lineno}" + (text and f", in {text}")
