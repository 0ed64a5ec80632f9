"""Where the words of the records lie that Python and the machine code share.

Each number counts words of 8 bytes from the start of its record.
"""

from __future__ import annotations

from enum import IntEnum

WORD = 8

DIGEST_STEP = 16
"""Every how many collectives the digest of their order is kept, as in `Progress`."""

DIGESTS_KEPT = 1 << 16
"""How many of them: at three microseconds each, those of three seconds."""

HISTORY_KEPT = 1024

COMPARING = 1 << 32
"""What `Flag.COMPARED` is of a rank that compares its request with others first: of no request."""

TABLE_LENGTH = 1 << 16
"""How many call sites the machine code can find. Others are served by Python."""


class Job(IntEnum):
    """One for the process: what all call sites need.

    TABLE : the address of the table of call sites' records, by the low bits of their number.
    ONE_TENSOR, SEVERAL : of each target, the addresses of three entries in Python, see `Entry`.
    SYSCALL : of libc.
    CHECK_SIGNALS, ENSURE, RELEASE, CLEAR, MATCHES : of Python's C interface.
    KEYBOARD_INTERRUPT : Python's class.
    INTERRUPTED : whether a wait was given up for an error of this class.
    """

    TABLE = 0
    ONE_TENSOR = 1
    SEVERAL = 4
    SYSCALL = 7
    CHECK_SIGNALS = 8
    ENSURE = 9
    RELEASE = 10
    CLEAR = 11
    MATCHES = 12
    KEYBOARD_INTERRUPT = 13
    INTERRUPTED = 14
    LENGTH = 15


class Entry(IntEnum):
    """What Python does for a target.

    EXECUTE : everything.
    RESUME : the same for what the machine code has begun, and somebody wants to be told of.
    FAIL : return the error of a transfer.
    """

    EXECUTE = 0
    RESUME = 1
    FAIL = 2


class Group(IntEnum):
    """One for each group of ranks.

    LOCK : 0; 1 while a collective is in progress; 2 once two were begun at a time.
    SEQUENCE, DIGEST : see `Progress`.
    PENDING : the number of the announcement of what is in progress, or 0.
    GENERATION : 1 + how often the ledger was emptied; -1 where Python is to refuse everything.
    OBSERVED : whether somebody wants to be told of each collective.
    VISIT : that the next collective is to go by Python, which looks after signals there.
    CALLS : how often the ranks have met at their flags, for a transfer or to compare.
    USELESS : that nothing can be carried any more: a wait was given up, or the group was freed.
    RANK, SIZE : this process's number, and how many there are.
    FLAGS, SLOTS, STRIDE : the shared memory: the address of the ranks' flags and of their slots,
        and the bytes of half a slot.
    SPINS : how often a flag is looked at before the rank sleeps.
    SLEEP : how long it sleeps at the most before it looks after signals, a `timespec`.
    HISTORY : (number of the collective, of its announcement), the last ones, in a ring.
    DIGESTS : (number of the collective, digest after it), in a ring.
    """

    LOCK = 0
    SEQUENCE = 1
    DIGEST = 2
    PENDING = 3
    GENERATION = 4
    OBSERVED = 5
    VISIT = 6
    CALLS = 7
    USELESS = 8
    RANK = 9
    SIZE = 10
    FLAGS = 11
    SLOTS = 12
    STRIDE = 13
    SPINS = 14
    SLEEP = 15
    HISTORY = 17
    DIGESTS = 17 + 2 * HISTORY_KEPT
    LENGTH = 17 + 2 * HISTORY_KEPT + 2 * DIGESTS_KEPT


class Site(IntEnum):
    """One for each call site, and for each request of eager code.

    NUMBER : of the call site, which the program says.
    GROUP : the address of its group's record.
    READY : the group's GENERATION in which the ranks have agreed on the request; 0 before.
    ANNOUNCEMENT : its number, see `Group.HISTORY`.
    KEY : what it adds to the digest of the order.
    KIND : see `Kind`.
    GIVEN : how many bytes this rank gives.
    COUNT : how many elements are reduced.
    COMBINE : the function that reduces them.
    ROOT : who gives in a broadcast.
    LENGTHS : the address of all ranks' numbers of bytes in an allgather.
    COMPARED : a number in which ranks differ that ask for other lengths.
    PARTS : how many tensors hold the elements; 0 if one does.
    PART_LENGTHS : the address of (bytes, elements) of each of them.
    PLACES : the address of room for their addresses.
    """

    NUMBER = 0
    GROUP = 1
    READY = 2
    ANNOUNCEMENT = 3
    KEY = 4
    KIND = 5
    GIVEN = 6
    COUNT = 7
    COMBINE = 8
    ROOT = 9
    LENGTHS = 10
    COMPARED = 11
    PARTS = 12
    PART_LENGTHS = 13
    PLACES = 14
    LENGTH = 16


class Kind(IntEnum):
    """What a transfer through shared memory does."""

    ALLREDUCE = 0
    BROADCAST = 1
    ALLGATHER = 2


class Flag(IntEnum):
    """One for each rank, in shared memory. Two lines of the cache lie between two.

    CALLS : how many transfers the rank has put its data there for, or comparisons it has begun.
    COMPARED : `Site.COMPARED` of the last two of them, by their halves, or `COMPARING`.
    SLEEPERS : how many ranks sleep until the next, or are about to; on a line of its own.
    """

    CALLS = 0
    COMPARED = 1
    SLEEPERS = 8
    LENGTH = 16


class Outcome(IntEnum):
    """What `transfer` returns."""

    DONE = 0
    GIVEN_UP = 1
    DIFFERENT = 2
