"""The collectives of compiled programs as machine code, without Python and its lock.

Python never runs these functions: `translation.py` translates them. XLA calls `handler` with the
address of a call frame. If the ranks have agreed on the request and nobody observes the group, the
tensor travels through shared memory here. Otherwise the entry in Python carries out the collective.

A transfer. Each rank has a slot in shared memory, of two halves that take turns, and a flag, which
counts the transfers for which its data are written. A rank writes its data, raises its flag, waits
for all other flags, and computes the result from the slots. When it raises its flag for transfer
n + 1, it has seen all flags for n. So a rank that has seen all flags for n + 1 knows that nobody
reads the half of n any more, which is also that of n + 2.

A rank with a new request waits in MPI, where the ranks compare their requests. It still raises its
flag, with a mark that no request has. Ranks that have agreed on theirs and wait here notice the
difference, and compare as well.
"""

from __future__ import annotations

from sciml_par.parallel.native.layout import (
    DIGEST_STEP,
    DIGESTS_KEPT,
    HISTORY_KEPT,
    TABLE_LENGTH,
    WORD,
    Flag,
    Group,
    Job,
    Kind,
    Outcome,
    Site,
)
from sciml_par.parallel.native.primitives import (
    add,
    call,
    call_int32,
    copy,
    exchange_if,
    fence,
    load,
    load_acquire,
    pause,
    store,
)
from sciml_par.parallel.native.xla_structures import (
    ARGUMENTS_AT,
    ATTRIBUTES_AT,
    DATA_AT,
    EXTENSION_AT,
    RESULTS_AT,
    VALUE_AT,
)
from sciml_par.parallel.requests.signature import KEY_MASK

JOB = 0
"""The address of the `Job` record, which `NativeCode` sets."""

FUTEX = 202
"""The number of Linux's system call on x86-64."""

FUTEX_WAIT = 0
FUTEX_WAKE = 1
LOW_BITS = 0xFFFFFFFF
EVERYBODY = 0x7FFFFFFF
LOOKS_AFTER_SIGNALS = 2


def handler(frame: int) -> int:
    """Carry out a collective here, or by Python's entries: XLA_FFI_Handler."""
    if load(frame + WORD * EXTENSION_AT) != 0:  # XLA asks for the version of the interface
        return call(load(JOB + WORD * Job.EXECUTE), frame)
    number = load(load(load(load(frame + WORD * ATTRIBUTES_AT)) + WORD * VALUE_AT))
    table = load(JOB + WORD * Job.TABLE)
    site = load_acquire(table + WORD * (number & (TABLE_LENGTH - 1)))
    if site == 0 or load(site + WORD * Site.NUMBER) != number:
        return call(load(JOB + WORD * Job.EXECUTE), frame)
    group = load(site + WORD * Site.GROUP)
    if load_acquire(site + WORD * Site.READY) != load_acquire(group + WORD * Group.GENERATION):
        return call(load(JOB + WORD * Job.EXECUTE), frame)
    if load_acquire(group + WORD * Group.VISIT) != 0:
        store(group + WORD * Group.VISIT, 0)
        return call(load(JOB + WORD * Job.EXECUTE), frame)
    if begin(group, load(site + WORD * Site.ANNOUNCEMENT), load(site + WORD * Site.KEY)) == 0:
        return call(load(JOB + WORD * Job.EXECUTE), frame)  # which raises
    # Read only now: an observer first sets it, and then reads what has begun.
    if load_acquire(group + WORD * Group.OBSERVED) != 0:
        return call(load(JOB + WORD * Job.RESUME), frame)
    if transfer_of(site, frame) != Outcome.DONE:
        error = call(load(JOB + WORD * Job.FAIL), frame)
        end(group)
        return error
    end(group)
    return 0


def transfer_of(site: int, frame: int) -> int:
    """Call `transfer` with the addresses in a call frame."""
    operands = load(frame + WORD * ARGUMENTS_AT)
    parts = load(site + WORD * Site.PARTS)
    if parts == 0:
        receive = load(load(load(frame + WORD * RESULTS_AT)) + WORD * DATA_AT)
        return transfer(site, load(load(operands) + WORD * DATA_AT), receive)
    places = load(site + WORD * Site.PLACES)
    part = 0
    while part < parts:
        store(places + WORD * part, load(load(operands + WORD * part) + WORD * DATA_AT))
        part += 1
    return transfer(site, places, places)


def begin(group: int, announcement: int, key: int) -> int:
    """Begin this rank's next collective; return its number, or 0 if another is in progress."""
    if exchange_if(group + WORD * Group.LOCK, 0, 1) == 0:
        store(group + WORD * Group.LOCK, 2)
        return 0
    number = load(group + WORD * Group.SEQUENCE) + 1
    store(group + WORD * Group.SEQUENCE, number)
    store(group + WORD * Group.PENDING, announcement)
    digest = (3 * load(group + WORD * Group.DIGEST) + key) & KEY_MASK
    store(group + WORD * Group.DIGEST, digest)
    if number & (DIGEST_STEP - 1) == 0:
        place = Group.DIGESTS + 2 * ((number >> 4) & (DIGESTS_KEPT - 1))
        store(group + WORD * place + WORD, digest)
        store(group + WORD * place, number)
    place = Group.HISTORY + 2 * (number & (HISTORY_KEPT - 1))
    store(group + WORD * place + WORD, announcement)
    store(group + WORD * place, number)
    fence()
    return number


def end(group: int) -> int:
    """End the collective, also after a failure."""
    store(group + WORD * Group.PENDING, 0)
    exchange_if(group + WORD * Group.LOCK, 1, 0)
    return 0


def transfer(site: int, send: int, receive: int) -> int:
    """Carry out a request from the address `send` to `receive`; return an `Outcome`.

    If the elements are in several tensors, both are the address of their addresses.
    """
    group = load(site + WORD * Site.GROUP)
    if load(group + WORD * Group.USELESS) != 0:
        return Outcome.GIVEN_UP
    calls = load(group + WORD * Group.CALLS)
    rank = load(group + WORD * Group.RANK)
    size = load(group + WORD * Group.SIZE)
    stride = load(group + WORD * Group.STRIDE)
    flags = load(group + WORD * Group.FLAGS)
    half = calls & 1
    slots = load(group + WORD * Group.SLOTS) + half * stride
    give(site, send, slots + 2 * stride * rank)
    compared = load(site + WORD * Site.COMPARED)
    calls = meet(group, compared)
    different = 0
    other = 0
    while other < size:
        if other != rank:
            flag = flags + WORD * Flag.LENGTH * other
            if wait(flag, calls, group) != 0:
                store(group + WORD * Group.USELESS, 1)
                return Outcome.GIVEN_UP
            different |= load(flag + WORD * (Flag.COMPARED + half)) - compared
        other += 1
    if different != 0:
        return Outcome.DIFFERENT
    return take(site, slots, receive)


def meet(group: int, compared: int) -> int:
    """Show the others that this rank's data are written, and wake those that sleep.

    With `COMPARING` there are no data: this rank first compares its request. Returns the number of
    the meeting.
    """
    calls = load(group + WORD * Group.CALLS)
    flag = load(group + WORD * Group.FLAGS) + WORD * Flag.LENGTH * load(group + WORD * Group.RANK)
    store(flag + WORD * (Flag.COMPARED + (calls & 1)), compared)
    calls += 1
    store(group + WORD * Group.CALLS, calls)
    store(flag + WORD * Flag.CALLS, calls)
    fence()  # with that in `wait`: a rank about to sleep sees the flag, or is seen here
    if load_acquire(flag + WORD * Flag.SLEEPERS) != 0:
        call(load(JOB + WORD * Job.SYSCALL), FUTEX, flag, FUTEX_WAKE, EVERYBODY, 0, 0)
    return calls


def give(site: int, send: int, slot: int) -> int:
    """Copy this rank's elements into its slot."""
    parts = load(site + WORD * Site.PARTS)
    if parts == 0:
        copy(slot, send, load(site + WORD * Site.GIVEN))
    lengths = load(site + WORD * Site.PART_LENGTHS)
    part = 0
    while part < parts:
        length = load(lengths + 2 * WORD * part)
        copy(slot, load(send + WORD * part), length)
        slot += length
        part += 1
    return 0


def take(site: int, slots: int, receive: int) -> int:
    """Compute the result from all ranks' slots."""
    group = load(site + WORD * Site.GROUP)
    distance = 2 * load(group + WORD * Group.STRIDE)
    kind = load(site + WORD * Site.KIND)
    if kind == Kind.ALLREDUCE:
        return combine(site, slots, receive)
    if kind == Kind.BROADCAST:
        length = load(load(site + WORD * Site.LENGTHS))
        copy(receive, slots + distance * load(site + WORD * Site.ROOT), length)
        return Outcome.DONE
    lengths = load(site + WORD * Site.LENGTHS)
    size = load(group + WORD * Group.SIZE)
    other = 0
    while other < size:
        length = load(lengths + WORD * other)
        copy(receive, slots + distance * other, length)
        receive += length
        other += 1
    return Outcome.DONE


def combine(site: int, slots: int, receive: int) -> int:
    """Reduce the elements in the slots."""
    function = load(site + WORD * Site.COMBINE)
    parts = load(site + WORD * Site.PARTS)
    if parts == 0:
        call(function, slots, receive, load(site + WORD * Site.COUNT))
    lengths = load(site + WORD * Site.PART_LENGTHS)
    part = 0
    while part < parts:
        call(function, slots, load(receive + WORD * part), load(lengths + 2 * WORD * part + WORD))
        slots += load(lengths + 2 * WORD * part)
        part += 1
    return Outcome.DONE


def wait(flag: int, calls: int, group: int) -> int:
    """Wait for a rank's flag; return 1 if a signal's handler raises first."""
    rounds = 0
    while 1:
        spins = load(group + WORD * Group.SPINS)
        while spins > 0:
            if load_acquire(flag) >= calls:
                return 0
            pause()
            spins -= 1
        add(flag + WORD * Flag.SLEEPERS, 1)
        fence()
        seen = load_acquire(flag)
        if seen < calls:
            sleep = group + WORD * Group.SLEEP
            call(load(JOB + WORD * Job.SYSCALL), FUTEX, flag, FUTEX_WAIT, seen & LOW_BITS, sleep, 0)
        add(flag + WORD * Flag.SLEEPERS, -1)
        rounds += 1
        if rounds & (LOOKS_AFTER_SIGNALS - 1) == 0 and signalled() != 0:
            return 1
    return 0


def signalled() -> int:
    """Let Python handle signals, on its main thread; return 1 if a handler raised."""
    state = call_int32(load(JOB + WORD * Job.ENSURE))
    failed = call_int32(load(JOB + WORD * Job.CHECK_SIGNALS))
    if failed != 0:
        kind = load(JOB + WORD * Job.KEYBOARD_INTERRUPT)
        if call_int32(load(JOB + WORD * Job.MATCHES), kind) != 0:
            store(JOB + WORD * Job.INTERRUPTED, 1)
        call(load(JOB + WORD * Job.CLEAR), 0)
    call(load(JOB + WORD * Job.RELEASE), state)
    return failed != 0


def spin(times: int) -> int:
    """Pause `times` times, to measure: processors differ ten-fold."""
    while times > 0:
        pause()
        times -= 1
    return 0


def settle() -> int:
    """Call `fence`, for Python."""
    fence()
    return 0


FUNCTIONS = (
    handler,
    transfer_of,
    begin,
    end,
    transfer,
    meet,
    give,
    take,
    combine,
    wait,
    signalled,
    spin,
    settle,
)
