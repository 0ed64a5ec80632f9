"""The list of waiting ranks: one rank of a group keeps it, and answers the ranks that ask.

If each waiting rank told every other one, P ranks would send P² messages. So each tells one, in
general rank 0 of the group, which need not wait itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sciml_par.parallel.groups.mailbox import Identity, Mailbox, Present, Waiting


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
