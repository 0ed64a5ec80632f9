"""The kinds of fault that faults.py draws from: where each can come, and what must follow."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

OWN_COLLECTIVES = ("eager", "graph", "compiled")
MODES = (*OWN_COLLECTIVES, "fit", "train")
MOMENTS = ("start", "compilation", "training", "checkpoint", "saving", "end")

ENDS, GOES_ON, MAY_END = "ends", "goes on", "may end"
"""What must become of the job; one that may end has lost work if it does."""

FAULT = "the furnace is cold"
"""What the victim's exception says."""

_DISAGREEMENT = (
    r"did not ask for the same|ended the program while|[Tt]runcated|MPI could not carry"
    r"|differ|another collective"
)
_BANNER = r"|EXIT (CODE|STRING): |_wait_until_all_ranks_call_init"


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes
    ----------
    follows : ENDS, GOES_ON or MAY_END.
    said : what the messages of a job that has failed must match.
    from_outside : whether it is done to the rank from outside, at any instant.
    modes, moments : where it can come.
    """

    follows: str
    said: str = ""
    from_outside: bool = False
    modes: Sequence[str] = MODES
    moments: Sequence[str] = MOMENTS


_MISMATCH = Kind(ENDS, _DISAGREEMENT, moments=("start", "training", "end"))
_WRITING = ("training", "checkpoint", "saving")
_OF_DISK = {"from_outside": True, "modes": ("fit", "train"), "moments": _WRITING}

KINDS: dict[str, Kind] = {
    "SIGKILL": Kind(ENDS, r"signal 9|SIGKILL", from_outside=True),
    "SIGSTOP": Kind(GOES_ON, from_outside=True),
    "exception": Kind(ENDS, FAULT),
    "sys.exit": Kind(ENDS, r"ended the program while|left with exit code" + _BANNER),
    "os._exit": Kind(ENDS, r"left with exit code|is gone" + _BANNER),
    "NaN": Kind(ENDS, "not finite", modes=(*OWN_COLLECTIVES, "train"), moments=("training",)),
    "shape": _MISMATCH,
    "dtype": _MISMATCH,
    "operation": _MISMATCH,
    "order": _MISMATCH,
    "missing call": _MISMATCH,
    "full disk": Kind(MAY_END, r"No space left|File too large|cannot (be )?writ", **_OF_DISK),
    "unwritable folder": Kind(
        MAY_END, r"Read-only file system|Permission denied|cannot (be )?writ", **_OF_DISK
    ),
    "truncated checkpoint": Kind(ENDS, "is damaged", modes=("train",), moments=("start",)),
    "killed sentinel": Kind(GOES_ON, from_outside=True),
    "killed sentinel and rank": Kind(
        ENDS, r"signal 9|SIGKILL" + _BANNER, from_outside=True, moments=MOMENTS[1:]
    ),
    "lost message": Kind(
        ENDS,
        rf"{FAULT}|{_DISAGREEMENT}|left with exit code" + _BANNER,
        moments=("start", "training", "end"),
    ),
    "fork": Kind(GOES_ON),
}

MISMATCHES = ("shape", "dtype", "operation", "order", "missing call")
WITH_A_LOST_MESSAGE = ("exception", "sys.exit", *MISMATCHES)
IN_A_CHILD = ("os._exit", "exception", "sys.exit", "SIGKILL", "collective")

NONE = Kind(GOES_ON)
"""Of a job without a fault."""


@dataclass(frozen=True)
class Fault:
    """What is done to one job, and everything that the victim must know of it.

    Attributes
    ----------
    kind, mode, moment : see KINDS; "none" is a job without a fault.
    ranks : of the job; the fault comes to `rank`.
    count : at which of the moments of that name in the program: the number of a step, or a file.
    fraction : of the time that the moment takes; or of the bytes that a file is cut to.
    code : an exit code.
    agreed : whether ranks have agreed on the collectives that differ before.
    inner : what a child of a fork does, or what goes wrong besides a lost message.
    lost : which message of the rank is lost.
    """

    kind: str
    mode: str
    moment: str
    ranks: int
    rank: int
    count: int = 0
    fraction: float = 0.0
    code: int = 0
    agreed: bool = False
    inner: str = ""
    lost: int = 0

    @property
    def of_kind(self) -> Kind:
        return KINDS.get(self.kind, NONE)

    @property
    def needs_real_children(self) -> bool:
        """Return whether the promise holds only for processes that the launcher itself has started.

        So it is for ranks that leave before `init`, and for a launcher that is to notice that one
        has left by `os._exit(0)`.
        """
        if self.kind not in ("exception", "sys.exit", "os._exit"):
            return False
        before_init = self.moment == "start" and self.fraction < 0.5
        return before_init or (self.kind == "os._exit" and self.code == 0)

    def __str__(self) -> str:
        inner = f" with {self.inner}" if self.inner else ""
        return (
            f"{self.kind}{inner} of rank {self.rank} of {self.ranks}, {self.mode}, {self.moment} "
            f"{self.count} ({self.fraction:.3f}), code {self.code}"
            f"{', agreed before' if self.agreed else ''}"
        )


def draw(
    seed: int, index: int, kinds: Sequence[str], ranks: Sequence[int], modes: Sequence[str] = MODES
) -> Fault:
    """Draw the fault number `index` of a seed; the same for the same arguments."""
    chance = random.Random(f"{seed}-{index}")
    kind = chance.choice([each for each in kinds if {*KINDS[each].modes} & {*modes}])
    known = KINDS[kind]
    mode = chance.choice([each for each in known.modes if each in modes])
    moment = chance.choice([each for each in known.moments if is_possible(mode, each)])
    size = chance.choice(list(ranks))
    rank = chance.randrange(size)
    if moment in ("checkpoint", "saving") and not known.from_outside:
        rank = 0  # which alone writes
    inners = {"lost message": WITH_A_LOST_MESSAGE, "fork": IN_A_CHILD}
    inner = chance.choice(inners[kind]) if kind in inners else ""
    return Fault(
        kind=kind,
        mode=mode,
        moment=moment,
        ranks=size,
        rank=rank,
        count=chance.randrange(6) if moment in _WRITING else 0,
        fraction=chance.random(),
        code=chance.choice((0, 3)),
        agreed=chance.random() < 0.5,
        inner=inner,
        lost=chance.randrange(3),
    )


def is_possible(mode: str, moment: str) -> bool:
    writes = mode not in OWN_COLLECTIVES or moment not in ("checkpoint", "saving")
    return writes and (mode, moment) != ("eager", "compilation")
