"""Whether a rank that waits, and ranks that are further, have done the same until there.

A rank is done with a broadcast that it gives, or with rows that it only sends, before others begin.
So it may stand in a later collective than the others, have joined, or have ended the program, while
another rank waits for it in a collective that it never asked for. Nobody waits at the same place
then. What each of them has asked for is a fact all the same, and the ranks that are further
remember it: nobody can be further ahead than they do (see `groups/bounded_lead.py`).
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciml_par.parallel.groups.bounded_lead import MOST_AHEAD
from sciml_par.parallel.groups.mailbox import (
    Elsewhere,
    Identity,
    Mailbox,
    PastAnswer,
    PastQuestion,
    Waiting,
)
from sciml_par.parallel.groups.progress import Group, Progress
from sciml_par.parallel.requests.mismatch_message import mismatch_message

Asked = Mapping[str, Sequence[int]]
"""{signature: numbers of the collectives}."""
_INSTALLED = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_FOLDERS = (str(Path(__file__).parents[2]), *_INSTALLED)
_LIBRARIES = (*(os.path.join(folder, "") for folder in _FOLDERS), "<frozen ")


@dataclass(frozen=True)
class Difference:
    """The first collective that two ranks remember, and in which they differ.

    Parameters
    ----------
    number : of the collective.
    """

    number: int
    here: str
    there: str
    rank: int
    comparing: bool = False


class PastCheck:
    """Compares what this rank has begun with what others have."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._unanswered: dict[tuple[int, Identity], PastQuestion] = {}
        self._seen: dict[Identity, int] = {}

    def ask(self, group: Group, mine: Waiting, present: Iterable[int]) -> None:
        """Ask all ranks of the group that are not `present` where this one waits.

        For all that wait there, the lowest of them does it. The others say where they are, too.
        """
        self._mailbox.elsewhere.pop(mine.group, None)
        there = set(present)
        if min(there) != group.rank:
            return
        missing = [world for rank, world in enumerate(group.world_ranks) if rank not in there]
        to = [rank for rank in missing if rank not in self._mailbox.left]
        question = PastQuestion(mine.group, mine.sequence, asked_lately(group.progress))
        self._mailbox.send(question, to=to)

    def answer(self, groups: Iterable[Group]) -> None:
        """Answer where this rank has asked for another collective than who waits.

        At once, it says where its program is. The rest it says once it waits itself: until then it
        may yet come to compare what it asks for, and all that do so are told.
        """
        here = {group.identity: group for group in groups}
        for sender, question in self._mailbox.take_past_questions():
            self._unanswered[sender, question.group] = question
            if question.group in here and (place := place_of_program()):
                mine = here[question.group].rank
                answer = Elsewhere(question.group, question.sequence, mine, place)
                self._mailbox.send(answer, to=[sender])
        for (sender, of), question in list(self._unanswered.items()):
            if of in here and self._waits(here[of]):
                del self._unanswered[sender, of]
                self._answer(sender, question, here[of])
        if self._unanswered:
            self._seen = {of: group.progress.sequence for of, group in here.items()}

    def _waits(self, group: Group) -> bool:
        """Whether this rank waits for others: in `join`, or in one collective at two looks."""
        progress = group.progress
        joined = self._mailbox.joined.get((self._mailbox.rank, group.identity))
        if joined is not None and joined.meeting == progress.meetings:
            return progress.in_progress is None
        stands = self._seen.get(group.identity) == progress.sequence
        return stands and progress.in_progress is not None

    def _answer(self, sender: int, question: PastQuestion, group: Group) -> None:
        comparing = group.progress.comparing
        found = first_difference(asked_lately(group.progress), question.asked)
        if found is not None:
            said = question.group, question.sequence, *found, group.rank, comparing
            self._mailbox.send(PastAnswer(*said), to=[sender])

    def forget_gone(self, groups: set[Identity]) -> None:
        """Drop what is known of groups that are not among `groups`."""
        self._seen = {group: number for group, number in self._seen.items() if group in groups}

    def differences(self, group: Group, mine: Waiting) -> list[Difference]:
        """Where this rank, which waits, and others are known to differ."""
        answers = self._mailbox.past_answers.get(mine.group, {})
        found = [
            Difference(each.number, each.there, each.here, each.rank, each.comparing)
            for each in list(answers.values())
            if each.sequence == mine.sequence
        ]
        return [*found, *self.from_those_who_left(group)]

    def from_those_who_left(self, group: Group) -> list[Difference]:
        """Where this rank and such as have ended the program differ."""
        left = self._mailbox.left
        if not left:
            return []
        mine, found = asked_lately(group.progress), []
        for rank, world_rank in enumerate(group.world_ranks):
            asked = left[world_rank].asked.get(group.identity) if world_rank in left else None
            difference = first_difference(mine, asked) if asked is not None else None
            if difference is not None:
                found.append(Difference(*difference, rank))
        return found


def difference_message(
    group: Group, differences: Sequence[Difference], present: Mapping[int, str]
) -> str:
    """What is wrong, where at least one difference is known."""
    first = min(each.number for each in differences)
    of_first = [each for each in differences if each.number == first]
    behind = group.progress.sequence - first
    asked = {group.rank: of_first[0].here, **({} if behind else present)}
    asked |= {each.rank: each.there for each in of_first}
    message = mismatch_message(group.name, dict(sorted(asked.items())))
    if behind == 0:
        return message
    return (
        f"{message}\nThat was their collective number {first}, {behind} before the one that rank "
        f"{group.rank} is in; results since then are wrong. Ranks compare what they have not asked "
        f"for before; with SCIML_PAR_CHECK=always, everything."
    )


def first_difference(mine: Asked, theirs: Asked) -> tuple[int, str, str] | None:
    """The first collective in which two ranks differ, and what this and the other asked for."""
    here = {number: what for what, numbers in mine.items() for number in numbers}
    there = {number: what for what, numbers in theirs.items() for number in numbers}
    different = (n for n in sorted(here.keys() & there.keys()) if here[n] != there[n])
    number = next(different, None)
    return None if number is None else (number, here[number], there[number])


def asked_lately(progress: Progress) -> dict[str, list[int]]:
    """What the last collectives of a group were."""
    found: dict[str, list[int]] = {}
    for number, announcement in list(progress.history)[-MOST_AHEAD:]:
        found.setdefault(str(announcement.signature), []).append(number)
    return found


def all_asked_lately(groups: Iterable[Group]) -> dict[Identity, dict[str, list[int]]]:
    """Return the same of each group that has more than one rank."""
    return {group.identity: asked_lately(group.progress) for group in groups if group.size > 1}


def place_of_program() -> str:
    """The line at which the main thread is, or has called what it is in, as `file:line, in text`.

    That is the innermost line which lies in no library; empty if there is none.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    text = linecache.getline(path, frame.f_lineno).strip()
    return f"{Path(path).name}:{frame.f_lineno}" + (text and f", in {text}")
