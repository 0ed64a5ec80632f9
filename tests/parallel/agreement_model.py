"""A model of what ranks do between their programs and MPI, small enough to visit every state.

Each rank runs a short program of collectives. A transition is one step of one rank, or of one
watchdog's thread, and names the functions for which it stands. Time is left out: whatever a timer
brings may come at any moment, and messages may take as long as they like. Then a job hangs
exactly where no transition is left and not all ranks have finished.

What is modelled: `Progress.begin`, `PreparedCall.execute`, the ledger, `agreement.compare`, the
flags in shared memory, the recovery in `Communicator.agree`, `join` with `joined_ranks`,
`Communicator.split`, the watchdog with `waiting_ranks.py`, the end of a program,
errors and lost ranks.
What is not: `OrderCheck`, which looks at every 16th collective only; which rank keeps the list of
those that wait (test_watchdog.py); several groups; NCCL; and how long anything takes.

MPI is first in, first out by communicator, kind of collective and sender, as its implementations
are: a rank that is not in step with the others gets a message that was meant for another call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Op(NamedTuple):
    """What a program calls.

    Parameters
    ----------
    kind : "allreduce", "broadcast" (by `root`), "rows" (`Communicator.gather_rows`), "split",
        "join" or "raise".
    what : with the kind and the root, the signature.
    site : the place in the program, which a function that is traced again has anew.
    shared : whether it goes through shared memory, where all wait for all.
    """

    kind: str
    what: str = ""
    root: int = 0
    site: int = 0
    shared: bool = False

    @property
    def signature(self) -> str:
        root = f" by {self.root}" if self.kind == "broadcast" else ""
        return f"{self.kind} {self.what}{root}"


@dataclass(frozen=True)
class Rules:
    """What keeps ranks together; a model without one of them is to hang, or to find other results.

    Attributes
    ----------
    group_ledger : agreements hold for the group (`Ledger`), not for a call site.
    watchdog : there is one.
    compared_always : a broadcast by MPI is compared each time (`Request.is_meeting`).
    announced : who compares is seen by ranks that wait in shared memory.
    ends_joining : nobody has joined any more after a mismatch.
    seen_split : `Communicator.split` is a collective that the watchdog sees.
    lost_found : a lost rank is noticed, by a sentinel or the launcher.
    """

    group_ledger: bool = True
    watchdog: bool = True
    compared_always: bool = True
    announced: bool = True
    ends_joining: bool = True
    seen_split: bool = True
    lost_found: bool = True


class Joining(NamedTuple):
    """`mailbox.Joined`."""

    rank: int
    meeting: int
    begun: int


class Rank(NamedTuple):
    """What one rank knows; the names are those of `Progress`, `Mailbox` and `JoinedRanks`.

    Attributes
    ----------
    at : the place in its program.
    phase : "idle"; "begun", "comparing", "told", "transfer", "shared" or "split" in a collective;
        "joined" or "meeting" in `join`; "failing", "failed", "left", "finished" or "lost".
    doing : the collective in progress.
    history : (number, call) of all collectives since the last recovery.
    flags : what this rank's flag in shared memory has said, each time that it was raised.
    sent : (communicator, kind, content) of all that MPI was given; `got`: how many of each sender's
        this rank has taken, {(communicator, kind, sender): count} as pairs.
    results : of the collectives since the last recovery.
    joins : whether this rank is in `join`.
    telling : what `tell_who_joined` has yet to tell of the past, {rank: numbers after}, as pairs.
    """

    at: int = 0
    phase: str = "idle"
    doing: Op | None = None
    number: int = 0
    history: tuple[tuple[int, Op], ...] = ()
    ledger: frozenset[object] = frozenset()
    recoveries: int = 0
    flags: tuple[object, ...] = ()
    sent: tuple[tuple[object, str, object], ...] = ()
    got: frozenset[tuple[tuple[object, str, int], int]] = frozenset()
    results: tuple[object, ...] = ()
    joins: bool = False
    meetings: int = 0
    joined: frozenset[Joining] = frozenset()
    asked: frozenset[tuple[int, Op]] = frozenset()
    observer: tuple[frozenset[int], float] | None = None
    telling: tuple[tuple[tuple[int, int], ...], float] | None = None

    @property
    def in_progress(self) -> bool:
        """Whether its watchdog may find that it waits: half a second is longer than "begun"."""
        seen = self.phase in ("comparing", "told", "transfer", "shared")
        return seen or (self.phase == "split" and self.doing is not None)

    @property
    def order(self) -> tuple[tuple[int, str], ...]:
        """What the digest of the order is a digest of."""
        return tuple((number, op.signature) for number, op in self.history)

    @property
    def is_comparing(self) -> bool:
        return self.phase in ("comparing", "told")

    @property
    def is_told_of_mismatch(self) -> bool:
        return self.is_comparing or self.phase == "shared"

    @property
    def is_gone(self) -> bool:
        return self.phase in ("left", "finished", "failed", "lost")


class State(NamedTuple):
    """All ranks, the messages on their way [sender][receiver], and what ended the job."""

    ranks: tuple[Rank, ...]
    mail: tuple[tuple[tuple[object, ...], ...], ...]
    ended: str = ""


Programs = Sequence[Sequence[Op]]


class Model:
    """The transitions.

    Parameters
    ----------
    programs : what each rank calls.
    agreed : signatures on which the ranks have agreed before.
    catches : whether programs go on after a `CollectiveMismatchError`.
    losses : how many ranks may be lost, at any moment.
    """

    def __init__(
        self,
        programs: Programs,
        *,
        agreed: Sequence[Op] = (),
        catches: bool = False,
        losses: int = 0,
        rules: Rules = Rules(),
    ) -> None:
        self.programs, self.rules = [tuple(each) for each in programs], rules
        self.size, self.catches, self.losses = len(self.programs), catches, losses
        self._joins = any(op.kind == "join" for each in self.programs for op in each)
        ledger = frozenset(self._entry(op) for op in agreed)
        nothing = tuple(tuple(() for _ in self.programs) for _ in self.programs)
        self.start = State(tuple(Rank(ledger=ledger) for _ in self.programs), nothing)

    def next(self, state: State) -> Iterator[tuple[str, State]]:
        """Each transition and where it leads."""
        if state.ended:
            return
        for r, rank in enumerate(state.ranks):
            if rank.is_gone:
                if rank.phase == "left":
                    yield f"{r} MPI_Finalize", self._put(state, r, rank._replace(phase="finished"))
                if rank.phase == "lost" and self.rules.lost_found:
                    yield "sentinel", state._replace(ended=f"rank {r} is lost")
                continue
            yield from self._program(state, r, rank)
            yield from self._mailbox(state, r, rank)
            if self.rules.watchdog:
                yield from self._watchdog(state, r, rank)
            if sum(each.phase == "lost" for each in state.ranks) < self.losses:
                yield f"{r} is killed", self._put(state, r, rank._replace(phase="lost"))

    # The program's thread.

    def _program(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        if rank.phase == "idle":
            yield from self._next_call(state, r, rank)
        elif rank.phase == "begun":
            yield self._enter(state, r, rank)
        elif rank.phase == "joined":
            yield from self._next_in_join(state, r, rank)
        elif rank.phase == "failing":
            yield from self._report(state, r, rank)
        elif (taken := self._taken(state, r, rank)) is not None:
            yield taken

    def _next_call(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        if rank.at == len(self.programs[r]):  # startup.init.shutdown
            left = [each for each in state.ranks if each.phase in ("left", "finished")]
            if any(_end_otherwise(rank, each) for each in left):  # where its message has come
                yield f"{r} shutdown", state._replace(ended="another order")
            yield f"{r} shutdown", self._put(state, r, rank._replace(phase="left"))
            return
        op = self.programs[r][rank.at]
        if op.kind == "raise":
            yield f"{r} raises", self._put(state, r, rank._replace(phase="failing"))
        elif op.kind == "join":
            yield f"{r} join_in", self._join_in(state, r, rank)
        elif op.kind == "split" and not self.rules.seen_split:
            sent = (*rank.sent, ("mpi", "split", None))
            yield (
                f"{r} MPI_Comm_split",
                self._put(state, r, rank._replace(phase="split", sent=sent)),
            )
        else:
            yield f"{r} begin {op.signature}", self._put(state, r, self._begun(rank, op))

    def _begun(self, rank: Rank, op: Op) -> Rank:
        """`Progress.begin`, but for its observers."""
        number = rank.number + 1
        return rank._replace(
            phase="begun", doing=op, number=number, history=(*rank.history, (number, op))
        )

    def _enter(self, state: State, r: int, rank: Rank) -> tuple[str, State]:
        """The observers of `Progress.begin`, and the first exchange of `PreparedCall.execute`."""
        op = rank.doing
        assert op is not None
        if rank.observer is not None and rank.number <= rank.observer[1]:
            state = self._send(state, r, rank.observer[0], ("announced", ((rank.number, op),)))
        always = op.kind in ("rows", "split") or (
            op.kind == "broadcast" and not op.shared and self.rules.compared_always
        )
        if always or self._entry(op) not in rank.ledger:
            return f"{r} compare", self._put(state, r, self._comparing(rank))
        return f"{r} transfer", self._put(state, r, self._transferring(rank, r))

    def _entry(self, op: Op) -> object:
        """What the ledger holds of it; `site` too where each call site agrees for itself."""
        return op.signature if self.rules.group_ledger else (op.signature, op.site)

    def _comparing(self, rank: Rank) -> Rank:
        assert rank.doing is not None
        if rank.phase == "begun" and self.rules.announced:  # HostGroup.announce_comparison
            rank = rank._replace(flags=(*rank.flags, "compares"))
        mine = (rank.doing.signature, rank.number, rank.order)
        return rank._replace(phase="comparing", sent=(*rank.sent, ("control", "compare", mine)))

    def _transferring(self, rank: Rank, r: int) -> Rank:
        op = rank.doing
        assert op is not None
        value = (op.signature, "nothing" if rank.joins else f"place {rank.at}")
        if op.kind == "rows":
            return self._over(rank._replace(results=(*rank.results, op.signature)))
        if op.kind == "split":
            return rank._replace(phase="split", sent=(*rank.sent, ("mpi", "split", None)))
        if op.shared:
            return rank._replace(phase="shared", flags=(*rank.flags, (op.signature, value)))
        gives = op.kind == "allreduce" or r == op.root
        sent = (*rank.sent, ("mpi", op.kind, value)) if gives else rank.sent
        return rank._replace(phase="transfer", sent=sent)

    def _taken(self, state: State, r: int, rank: Rank) -> tuple[str, State] | None:
        """The next step of a collective, if what it waits for is there."""
        op, others = rank.doing, [q for q in range(self.size) if q != r]
        if rank.phase == "comparing":
            found = self._receive(state, rank, "control", "compare", others)
            if found is None:
                return None
            rank, theirs = found
            assert op is not None
            if {*theirs, (op.signature, rank.number, rank.order)} != {theirs[0]}:
                sent = (*rank.sent, ("control", "numbers", rank.number))
                return f"{r} mismatch", self._put(state, r, rank._replace(phase="told", sent=sent))
            rank = rank._replace(ledger=rank.ledger | {self._entry(op)})
            return f"{r} agreed", self._put(state, r, self._transferring(rank, r))
        if rank.phase == "told":
            found = self._receive(state, rank, "control", "numbers", others)
            return found and (f"{r} recover", self._put(state, r, self._recovered(*found)))
        if rank.phase == "shared":
            return self._shared(state, r, rank)
        if rank.phase == "transfer":
            assert op is not None
            sources = others if op.kind == "allreduce" else [op.root] * (op.root != r)
            found = self._receive(state, rank, "mpi", op.kind, sources)
            return found and (
                f"{r} transferred",
                self._put(state, r, self._transferred(found, op, r)),
            )
        waits_for = {"meeting": ("control", "last"), "split": ("mpi", "split")}
        found = self._receive(state, rank, *waits_for[rank.phase], others)
        return found and (f"{r} {rank.phase} over", self._put(state, r, self._over(found[0])))

    def _shared(self, state: State, r: int, rank: Rank) -> tuple[str, State] | None:
        """`handler.transfer`, and `PreparedCall.fail` where the flags differ."""
        op, calls = rank.doing, len(rank.flags)
        assert op is not None
        if any(len(each.flags) < calls for each in state.ranks):
            return None
        flags = [each.flags[calls - 1] for each in state.ranks]
        if any(each[0] != op.signature for each in flags):
            return f"{r} differs", self._put(state, r, self._comparing(rank))
        if op.kind == "broadcast":
            result = flags[op.root][1]
        else:
            result = frozenset(value for _, value in flags if "nothing" not in value)
        rank = rank._replace(results=(*rank.results, (op.signature, result)))
        return f"{r} transferred", self._put(state, r, self._over(rank))

    def _transferred(self, found: tuple[Rank, list[object]], op: Op, r: int) -> Rank:
        rank, theirs = found
        mine = next(
            (
                value
                for comm, kind, value in reversed(rank.sent)
                if (comm, kind) == ("mpi", op.kind)
            ),
            None,
        )
        if op.kind == "allreduce":
            values = frozenset(each for each in (*theirs, mine) if "nothing" not in each)
            return self._over(rank._replace(results=(*rank.results, (op.signature, values))))
        value = mine if r == op.root else theirs[0]
        return self._over(rank._replace(results=(*rank.results, (op.signature, value))))

    def _over(self, rank: Rank) -> Rank:
        """`Progress.end`."""
        if rank.joins and rank.phase != "meeting":
            return rank._replace(phase="joined", doing=None)
        return rank._replace(phase="idle", doing=None, joins=False, at=rank.at + 1)

    def _recovered(self, rank: Rank, theirs: list[int]) -> Rank:
        """`Communicator.agree` where the ranks did not ask for the same."""
        rank = rank._replace(
            number=max(rank.number, *theirs), history=(), recoveries=rank.recoveries + 1, results=()
        )
        if self.rules.ends_joining:
            rank = self._meeting_over(rank)
        rank = rank._replace(joins=False)
        return self._over(rank) if self.catches else rank._replace(phase="failing", doing=None)

    # Errors.

    def _report(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        """`FailureReporter.report`: each ends by itself where all fail, else the job ends."""
        if all(each.phase in ("failing", "failed") for each in state.ranks):
            yield f"{r} report", self._put(state, r, rank._replace(phase="failed"))
        else:
            yield f"{r} report", state._replace(ended=f"rank {r} failed")

    # Joining.

    def _join_in(self, state: State, r: int, rank: Rank) -> State:
        """`joined_ranks.join_in`."""
        mine = Joining(r, rank.meetings, rank.number)
        observer = rank.observer and (rank.observer[0], mine.begun)
        rank = rank._replace(
            phase="joined", joins=True, joined=_with(rank.joined, mine), observer=observer
        )
        others = [q for q in range(self.size) if q != r]
        return self._send(self._put(state, r, rank), r, others, ("joined", mine))

    def _next_in_join(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        """`_Join._next`, and what follows from it."""
        told = {number: op for number, op in rank.asked if number > rank.number}
        op = told.get(rank.number + 1)
        rank = rank._replace(asked=frozenset(told.items()))
        others = self._joined(rank, r)
        if op is not None:
            if op.kind == "split" or (op.kind == "broadcast" and op.root == r):  # _Join._cannot
                rank = rank._replace(phase="failing", joins=False)
                yield f"{r} cannot", self._put(state, r, rank)
            else:
                yield f"{r} takes part", self._put(state, r, self._begun(rank, op))
        elif len(others) == self.size - 1 and max(each.begun for each in others) <= rank.number:
            rank = self._meeting_over(rank)
            sent = (*rank.sent, ("control", "last", None))
            yield f"{r} end_meeting", self._put(state, r, rank._replace(phase="meeting", sent=sent))
        else:
            joined = {each.rank for each in others}
            left = {q for q, each in enumerate(state.ranks) if each.phase in ("left", "finished")}
            if left - joined:  # _Join._check_still_there
                rank = rank._replace(phase="failing", joins=False)
                yield f"{r} ends join", self._put(state, r, rank)

    def _meeting_over(self, rank: Rank) -> Rank:
        """`joined_ranks.end_meeting`."""
        return rank._replace(
            meetings=rank.meetings + 1, observer=None, telling=None, asked=frozenset()
        )

    def _joined(self, rank: Rank, r: int) -> list[Joining]:
        """`joined_ranks.joined_ranks`."""
        return [each for each in rank.joined if each.rank != r and each.meeting == rank.meetings]

    # The watchdog's thread.

    def _mailbox(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        """`Mailbox.poll`, a message at a time, and `joined_ranks.tell_who_joined`."""
        for sender in range(self.size):
            if state.mail[sender][r]:
                message, *later = state.mail[sender][r]
                arrived = self._mailed(state, sender, r, tuple(later))
                yield f"{r} poll {message}", self._put(arrived, r, _taken_in(rank, message))
        if rank.telling is not None:
            yield f"{r} tells the past", self._tell_past(state, r, rank)
        elif self._joins:
            yield from self._tell_who_joined(state, r, rank)

    def _tell_who_joined(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        joined = {each.rank: each for each in self._joined(rank, r)}
        known = rank.observer[0] if rank.observer is not None else frozenset()
        if joined.keys() <= known or not all(q in joined for q in range(r)):
            return
        mine = next((each for each in rank.joined if each.rank == r), None)
        last = mine.begun if mine is not None and mine.meeting == rank.meetings else float("inf")
        by_lower = max((joined[q].begun for q in range(r)), default=0)
        new = tuple((q, max(joined[q].begun, by_lower)) for q in sorted(joined.keys() - known))
        rank = rank._replace(observer=(frozenset(joined), last), telling=(new, last))
        yield f"{r} tell_who_joined", self._put(state, r, rank)

    def _tell_past(self, state: State, r: int, rank: Rank) -> State:
        assert rank.telling is not None
        new, last = rank.telling
        state = self._put(state, r, rank._replace(telling=None))
        for q, first in new:
            past = tuple((n, op) for n, op in rank.history if first < n <= last)
            if past:
                state = self._send(state, r, [q], ("announced", past))
        return state

    def _watchdog(self, state: State, r: int, rank: Rank) -> Iterator[tuple[str, State]]:
        """`Watchdog._on_stall`, with what `WaitingRanks` and `Elsewhere` have told."""
        if not rank.in_progress:
            return
        left = [each for each in state.ranks if each.phase in ("left", "finished")]
        if any(each.number < rank.number or _end_otherwise(rank, each) for each in left):
            yield f"{r} _gone", state._replace(ended="a rank ended the program before")
        if any(self._contradicts(rank, each) for each in state.ranks):
            yield f"{r} mismatch", state._replace(ended="mismatch")

    def _contradicts(self, rank: Rank, other: Rank) -> bool:
        """Whether another rank is known to do something else, of which it will not be told."""
        if other.is_gone or (rank.is_comparing and other.is_comparing):
            return False
        if other.number == rank.number:
            told = rank.is_told_of_mismatch and other.is_told_of_mismatch
            if other.phase == "begun" or (other.in_progress and told):
                return False
        # From WaitingRanks, or the answer of one that does not wait there.
        asked = dict(other.order).get(rank.number, rank.doing.signature)
        return asked != rank.doing.signature

    # MPI.

    def _receive(
        self, state: State, rank: Rank, comm: object, kind: str, sources: Sequence[int]
    ) -> tuple[Rank, list] | None:
        """The oldest message of each source that was not taken yet; None if one has none."""
        got, found = dict(rank.got), []
        for source in sources:
            sent = [each[2] for each in state.ranks[source].sent if each[:2] == (comm, kind)]
            taken = got.get((comm, kind, source), 0)
            if len(sent) <= taken:
                return None
            found.append(sent[taken])
            got[comm, kind, source] = taken + 1
        return rank._replace(got=frozenset(got.items())), found

    def _put(self, state: State, r: int, rank: Rank) -> State:
        return state._replace(ranks=(*state.ranks[:r], rank, *state.ranks[r + 1 :]))

    def _send(self, state: State, r: int, to: Iterator[int], message: object) -> State:
        for q in to:
            state = self._mailed(state, r, q, (*state.mail[r][q], message))
        return state

    def _mailed(self, state: State, r: int, q: int, queue: tuple[object, ...]) -> State:
        row = (*state.mail[r][:q], queue, *state.mail[r][q + 1 :])
        return state._replace(mail=(*state.mail[:r], row, *state.mail[r + 1 :]))


def _end_otherwise(rank: Rank, other: Rank) -> bool:
    """The opposite of `order_check.ends_alike`."""
    return rank.number == other.number and rank.order != other.order


def _taken_in(rank: Rank, message: tuple) -> Rank:
    """`Mailbox._take_in`."""
    kind, content = message
    if kind == "joined":
        return rank._replace(joined=_with(rank.joined, content))
    return rank._replace(asked=frozenset({**dict(rank.asked), **dict(content)}.items()))


def _with(joined: frozenset[Joining], new: Joining) -> frozenset[Joining]:
    return frozenset({new, *(each for each in joined if each.rank != new.rank)})


@dataclass(frozen=True)
class Found:
    """What became of all runs.

    Attributes
    ----------
    states : how many were visited.
    ended : the messages with which jobs ended.
    finished : of those in which all ranks finished, how often each rank was told of a mismatch and
        its results since then, [P] each.
    failed : whether there is one in which all ranks ended with errors of their own.
    hangs : the transitions that lead to a state from which nothing does.
    """

    states: int
    ended: frozenset[str]
    finished: frozenset[tuple[tuple[int, tuple[object, ...]], ...]]
    failed: bool
    hangs: tuple[tuple[str, ...], ...]

    @property
    def differ(self) -> bool:
        """Whether ranks finished with unlike results, of what each of them did."""
        both = (zip(*(results for _, results in ranks), strict=False) for ranks in self.finished)
        return any(len(set(each)) > 1 for results in both for each in results)


def explore(model: Model) -> Found:
    """Visit all states, breadth first."""
    came_from: dict[State, tuple[State, str] | None] = {model.start: None}
    ended, finished, failed, hangs = set(), set(), False, []
    waiting = deque([model.start])
    while waiting:
        state = waiting.popleft()
        stuck = True
        for name, after in model.next(state):
            stuck = False
            if after not in came_from:
                came_from[after] = (state, name)
                waiting.append(after)
        if not stuck:
            continue
        phases = {rank.phase for rank in state.ranks}
        if state.ended:
            ended.add(state.ended)
        elif phases == {"finished"}:
            finished.add(tuple((rank.recoveries, rank.results) for rank in state.ranks))
        elif phases == {"failed"}:
            failed = True
        else:
            hangs.append(_way(came_from, state))
    return Found(len(came_from), frozenset(ended), frozenset(finished), failed, tuple(hangs))


def _way(came_from: dict, state: State) -> tuple[str, ...]:
    way = []
    while (before := came_from[state]) is not None:
        state, name = before
        way.append(name)
    return tuple(reversed(way))
