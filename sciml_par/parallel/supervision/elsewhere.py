"""Where the ranks are that others wait for in vain, and what they have asked for instead."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable
from pathlib import Path

from sciml_par.parallel.groups.mailbox import Elsewhere, Mailbox, Missing, Waiting
from sciml_par.parallel.groups.progress import Group
from sciml_par.parallel.supervision.order_check import is_over

_INSTALLED = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_FOLDERS = (str(Path(__file__).parents[2]), *_INSTALLED)
_LIBRARIES = (*(os.path.join(folder, "") for folder in _FOLDERS), "<frozen ")


def ask_missing(mailbox: Mailbox, group: Group, mine: Waiting, present: Iterable[int]) -> None:
    """Ask all ranks of the group that are not `present`, if this one is the lowest that waits."""
    mailbox.elsewhere.pop(mine.group, None)
    there = set(present)
    if min(there) == group.rank:
        missing = [world for rank, world in enumerate(group.world_ranks) if rank not in there]
        question = Missing(mine.group, mine.sequence)
        mailbox.send(question, to=[rank for rank in missing if rank not in mailbox.left])


def answer_missing(mailbox: Mailbox, groups: Iterable[Group]) -> None:
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
