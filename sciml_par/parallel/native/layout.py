"""The records that Python and the machine code share: offsets of their words of 8 bytes."""

from __future__ import annotations

from enum import IntEnum

WORD = 8

DIGEST_STEP = 16
"""The watchdogs compare the digest of the order, which is kept after every 16th collective."""

DIGESTS_KEPT = 1 << 16
"""Their number: the collectives of three seconds, at three microseconds each."""

HISTORY_KEPT = 1024

COMPARING = 1 << 32
"""`Flag.COMPARED` of a rank that first compares its request; no request has this value."""

TABLE_LENGTH = 1 << 16
"""The number of call sites for the machine code. Python serves others."""


class Job(IntEnum):
    """The record of the process.

    TABLE : the address of the table of call sites' records, by the low bits of their number.
    EXECUTE : Python's entry that carries out a collective.
    RESUME : the one that carries out what the machine code has begun, and tells the observers.
    FAIL : the one that returns the error of a transfer.
    SYSCALL : libc's function.
    CHECK_SIGNALS, ENSURE, RELEASE, CLEAR, MATCHES : functions of Python's C interface.
    KEYBOARD_INTERRUPT : Python's class.
    INTERRUPTED : whether an error of this class ended a wait.
    """

    TABLE, EXECUTE, RESUME, FAIL, SYSCALL, CHECK_SIGNALS, ENSURE, RELEASE = range(8)
    CLEAR, MATCHES, KEYBOARD_INTERRUPT, INTERRUPTED, LENGTH = range(8, 13)


class Group(IntEnum):
    """The record of a group of ranks.

    LOCK : 0; 1 while a collective is in progress; 2 after two were begun at the same time.
    SEQUENCE, DIGEST : see `Progress`.
    PENDING : the number of the announcement in progress, or 0.
    GENERATION : 1 + the number of times the ledger was emptied; -1 if Python must refuse all.
    OBSERVED : whether there are observers of the collectives.
    VISIT : whether the next collective must go by Python, which handles signals there.
    CALLS : the number of meetings at the flags, to transfer or to compare.
    USELESS : whether nothing can be carried any more: a wait was given up, or the group was freed.
    RANK, SIZE : this process's number, and the number of ranks.
    FLAGS, SLOTS, STRIDE : the addresses of the ranks' flags and slots in shared memory, and the
        bytes of half a slot.
    SPINS : the number of looks at a flag before the rank sleeps.
    SLEEP : the longest sleep before it checks signals, a `timespec`.
    HISTORY : (number of the collective, number of its announcement), a ring.
    DIGESTS : (number of the collective, digest after it), a ring.
    """

    LOCK, SEQUENCE, DIGEST, PENDING, GENERATION, OBSERVED, VISIT, CALLS, USELESS = range(9)
    RANK, SIZE, FLAGS, SLOTS, STRIDE, SPINS, SLEEP = range(9, 16)
    HISTORY = 17
    DIGESTS = 17 + 2 * HISTORY_KEPT
    LENGTH = 17 + 2 * HISTORY_KEPT + 2 * DIGESTS_KEPT


class Site(IntEnum):
    """The record of a call site, or of a request of eager code.

    NUMBER : the number of the call site in the program.
    GROUP : the address of its group's record.
    READY : the group's GENERATION in which the ranks have agreed on the request; 0 before.
    ANNOUNCEMENT : its number, see `Group.HISTORY`.
    KEY : its contribution to the digest of the order.
    KIND : see `Kind`.
    GIVEN : the bytes that this rank gives.
    COUNT : the number of elements to reduce.
    COMBINE : the function that reduces them.
    ROOT : the rank that gives in a broadcast.
    LENGTHS : the address of all ranks' numbers of bytes in an allgather.
    COMPARED : a digest of the request and all lengths.
    PARTS : the number of tensors that have the elements; 0 for a single one.
    PART_LENGTHS : the address of (bytes, elements) of each of them.
    PLACES : the address of memory for their addresses.
    """

    NUMBER, GROUP, READY, ANNOUNCEMENT, KEY, KIND, GIVEN, COUNT, COMBINE, ROOT = range(10)
    LENGTHS, COMPARED, PARTS, PART_LENGTHS, PLACES, LENGTH = range(10, 16)


class Kind(IntEnum):
    """The kinds of transfers through shared memory."""

    ALLREDUCE, BROADCAST, ALLGATHER = range(3)


class Flag(IntEnum):
    """The record of a rank in shared memory, two cache lines long.

    CALLS : the number of transfers whose data are written, and of comparisons.
    COMPARED : `Site.COMPARED` of the last two of them, by their halves, or `COMPARING`.
    SLEEPERS : the number of ranks that sleep until the next, or are about to; on a separate line.
    """

    CALLS = 0
    COMPARED = 1
    SLEEPERS = 8
    LENGTH = 16


class Outcome(IntEnum):
    """The results of `transfer`."""

    DONE, GIVEN_UP, DIFFERENT = range(3)
