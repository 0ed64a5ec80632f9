"""All runs of small programs in a model of the ranks: none hangs, and each rule is needed.

The model is in agreement_model.py. What it says of programs that only compare is tried on the ranks
there are.
"""

from __future__ import annotations

import itertools

import pytest
import tensorflow as tf
from agreement_model import Found, Model, Op, Rules, explore

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError

long = pytest.mark.long
"""Programs with joins on three ranks, which have hundreds of thousands of states."""

made_up = pytest.mark.ranks(most=1, reason="the ranks are those of a model")

SUM, MAX = Op("allreduce", "sum"), Op("allreduce", "max")
FROM_0, FROM_1 = Op("broadcast", "x", 0), Op("broadcast", "x", 1)
NEW, OTHER = Op("allreduce", "new"), Op("allreduce", "other")
ROWS, SPLIT, JOIN, RAISE = Op("rows", "n"), Op("split"), Op("join"), Op("raise")
SHARED = Op("allreduce", "shared", shared=True)
SHARED_0 = Op("broadcast", "shared", 0, shared=True)
BY_MPI = (SUM, FROM_0, NEW, OTHER)
IN_SHARED_MEMORY = (SHARED, SHARED_0, FROM_0, NEW)
AGREED = (SUM, MAX, FROM_0, FROM_1, SHARED, SHARED_0)


def run(*programs, **options) -> Found:
    return explore(Model(programs, agreed=AGREED, **options))


def words(letters, most):
    """All programs of at most so many calls."""
    return [w for n in range(most + 1) for w in itertools.product(letters, repeat=n)]


def assert_sound(found: Found, *programs) -> None:
    """No hang; the same results, but where what was agreed on was confused at the very end."""
    assert found.hangs == (), programs
    if len(set(programs)) == 1:
        assert not found.ended and not found.failed and len(found.finished) == 1
    if found.differ:
        assert "another order" in found.ended, programs


@made_up
@pytest.mark.parametrize("letters", (BY_MPI, IN_SHARED_MEMORY))
@pytest.mark.parametrize("catches", (False, True))
def test_all_pairs_of_short_programs(letters, catches):
    programs = words(letters, 2)
    for pair in itertools.product(programs, repeat=2):
        assert_sound(run(*pair, catches=catches), *pair)


@made_up
@pytest.mark.parametrize("first", (SHARED, SHARED_0, NEW))
@pytest.mark.parametrize("second", (SHARED, SHARED_0, NEW, ROWS))
def test_in_shared_memory_every_difference_can_be_caught(first, second):
    programs = ((first, SHARED_0), (second, SHARED_0), (first, SHARED_0))
    found = run(*programs, catches=True)
    assert not found.ended and not found.hangs and not found.failed
    (ranks,) = found.finished
    assert {told for told, _ in ranks} == {int(first != second)}
    assert len({results for _, results in ranks}) == 1


@made_up
@pytest.mark.parametrize("other", (MAX, FROM_1, ROWS, SPLIT, RAISE))
def test_other_calls_beside_short_programs(other):
    for first in words((SUM, FROM_0, NEW), 2):
        for second in ((other,), (other, SUM), (FROM_1, other)):
            assert_sound(run(first, second), first, second)


@made_up
@pytest.mark.parametrize(
    "programs",
    (
        ((SUM, FROM_0, NEW),) * 2,
        ((FROM_0, SUM), (NEW,)),
        ((FROM_0,), (NEW,)),
        ((SPLIT,), (SUM,)),
        ((RAISE,), (SUM,)),
        ((JOIN,), (SUM, JOIN)),
        ((FROM_0, NEW),) * 3,
    ),
)
def test_a_rank_is_lost_at_any_moment(programs):
    found = run(*programs, losses=1)
    assert found.hangs == () and {f"rank {r} is lost" for r in range(2)} <= found.ended


@made_up
def test_all_ranks_raise():
    found = run((SUM, RAISE), (SUM, RAISE))
    assert found.failed and found.hangs == () and not found.finished


@made_up
@pytest.mark.parametrize(
    "programs",
    (
        ((FROM_0, FROM_1, NEW), (FROM_0, FROM_1, NEW), (FROM_0, FROM_1, NEW)),
        ((FROM_0, SUM), (NEW,), (FROM_0, SUM)),
        ((FROM_0,), (FROM_0, SUM), (NEW,)),
        ((FROM_0, SHARED), (SHARED,), (NEW,)),
        ((SHARED, SHARED_0), (NEW, SHARED_0), (SHARED, SHARED_0)),
        ((SHARED,), (SUM,), (SHARED_0,)),
        ((NEW, FROM_0), (OTHER, FROM_0), (NEW, FROM_0)),
        ((FROM_0, NEW, FROM_0), (NEW, FROM_0), (FROM_0, NEW, FROM_0)),
        ((SUM,), (SUM,), (SPLIT,)),
        ((ROWS,), (FROM_0, ROWS), (ROWS,)),
    ),
)
@pytest.mark.parametrize("catches", (False, True))
def test_three_ranks(programs, catches):
    assert_sound(run(*programs, catches=catches), *programs)


@made_up
@pytest.mark.parametrize(
    "programs",
    (
        ((JOIN,), (SUM, NEW, JOIN)),
        ((JOIN,), (FROM_1,) * 4 + (JOIN,)),
        ((SUM, JOIN, NEW), (JOIN, NEW)),
        ((JOIN, SUM, JOIN), (SUM, JOIN, SUM, SUM, JOIN)),
        pytest.param(((JOIN,), (SUM, JOIN), (JOIN,)), marks=long),
        ((JOIN,), (SHARED, NEW, SHARED, JOIN)),
        pytest.param(((SHARED, JOIN), (SHARED, NEW, JOIN), (JOIN,)), marks=long),
    ),
)
def test_ranks_that_join_come_to_the_same(programs):
    found = run(*programs)
    assert found.hangs == () and not found.ended and not found.failed
    (ranks,) = found.finished
    # Who has joined has the results of those who have not.
    assert len({results for _, results in ranks}) == 1


@made_up
@pytest.mark.parametrize(
    "programs",
    (
        ((JOIN,), (FROM_0, JOIN)),
        ((JOIN,), ()),
        ((JOIN,), (SPLIT, JOIN)),
        ((FROM_0, JOIN), (NEW, JOIN)),
        pytest.param(((JOIN, SUM, JOIN), (NEW, JOIN), (OTHER, JOIN)), marks=long),
    ),
)
@pytest.mark.parametrize("catches", (False, True))
def test_ranks_that_cannot_join_hear_of_it(programs, catches):
    found = run(*programs, catches=catches)
    assert found.hangs == () and not found.differ


@made_up
@pytest.mark.parametrize(
    ("without", "programs", "options"),
    (
        ({"group_ledger": False}, ((SUM, SUM), (SUM, SUM._replace(site=1))), {}),
        ({"watchdog": False}, ((NEW,), ()), {}),
        ({"watchdog": False}, ((NEW,), (SUM,)), {}),
        ({"announced": False}, ((SHARED,), (NEW,)), {}),
        ({"announced": False}, ((NEW, SHARED), (NEW, SHARED_0), (SHARED,)), {"catches": True}),
        pytest.param(
            {"ends_joining": False},
            ((JOIN, SUM, JOIN), (NEW, JOIN), (OTHER, JOIN)),
            {"catches": True},
            marks=long,
        ),
        ({"seen_split": False}, ((SPLIT,), (SUM,)), {}),
        ({"lost_found": False}, ((SUM,), (SUM,)), {"losses": 1}),
    ),
)
def test_without_a_rule_ranks_hang(without, programs, options):
    assert run(*programs, rules=Rules(**without), **options).hangs
    assert not run(*programs, **options).hangs


@made_up
def test_without_comparing_each_time_ranks_get_what_was_meant_for_another_call():
    programs = (FROM_0, NEW, FROM_0), (NEW, FROM_0)
    assert run(*programs, catches=True, rules=Rules(compared_always=False)).differ
    assert not run(*programs, catches=True).differ


REAL = {
    "sum": lambda value: sp.allreduce(tf.fill([31], value), sp.Sum),
    "new": lambda value: sp.allreduce(tf.fill([32], value), sp.Sum),
    "other": lambda value: sp.allreduce(tf.fill([33], value), sp.Sum),
    "x": lambda value: sp.broadcast(tf.fill([34], value), 0),
    "n": lambda value: sp.current_world().communicator.gather_rows(0),
}


def really(program) -> tuple[int, list[float]]:
    """How often this rank is told of a mismatch, and its results since then."""
    progress = sp.current_world().communicator.progress
    told, results = 0, []
    for place, op in enumerate(program):
        try:
            results.append(float(REAL[op.what](10.0 * place + sp.rank())[0]))
        except CollectiveMismatchError:
            told, results = told + 1, []
    assert progress.in_progress is None
    return told, results


@pytest.mark.ranks(least=2, most=2, reason="the model's programs here are for two ranks")
@pytest.mark.parametrize("most", (1, pytest.param(2, marks=long)))
def test_two_ranks_do_what_the_model_says(most):
    """All pairs of programs of which no run ends the job."""
    world = sp.current_world().communicator
    ledger, tried = world.progress.ledger, 0
    by_memory = world.shared is not None
    calls = [op._replace(shared=by_memory) for op in (SUM, NEW, OTHER, FROM_0)]
    last = (ROWS, calls[3], calls[0])
    programs = [program for program in words(calls, most) if program.count(calls[2]) < 2]
    for pair in itertools.product(programs, repeat=2):
        if len(pair[0]) != len(pair[1]):
            continue  # one rank leaves too early
        pair = tuple((*program, *last) for program in pair)
        found = run(*pair, catches=True)
        if found.ended or len(found.finished) != 1:
            continue
        tried += 1
        ledger.clear()
        for op in (SUM, FROM_0):
            REAL[op.what](0.0)
        (expected,) = found.finished
        told, results = really(pair[sp.rank()])
        assert told == expected[sp.rank()][0]
        everyone = sp.current_world().communicator.allgather_object(results)
        assert everyone[0] == everyone[1], pair
    if by_memory:
        assert tried == 1 + 4**2 + (15**2 if most == 2 else 0)
    else:
        assert tried > (30 if most == 2 else 5)
