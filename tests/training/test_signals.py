"""Signals that stop a training on all ranks, and what they leave as it was."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from trainings import quick

import sciml_par.parallel as sp
from sciml_par import solve
from sciml_par.problems import Box, Dirichlet, Problem, laplacian, poisson
from sciml_par.training import Progress
from sciml_par.training.run.signals import signals_caught

small = partial(quick, points=9, steps=100_000_000)


def send(name: str) -> Any:
    """A callback by which the last rank gets a signal, once: a second SIGINT would end the job."""
    sent: list[int] = []

    def act(progress: Progress) -> None:
        if sp.rank() == sp.size() - 1 and not sent:
            sent.append(progress.step)
            os.kill(os.getpid(), getattr(signal, name))

    return act


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"] if sp.size() == 1 else ["SIGINT"])
def test_one_rank_with_a_signal_stops_all(name: str) -> None:
    before, pipe = signal.getsignal(getattr(signal, name)), signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(pipe)
    result = small(poisson(), callbacks=send(name))
    (member,) = result.members
    assert (member.ended, member.steps > 0) == (name, True)
    assert member.prediction.u.shape == (11, 1)
    everyone = sp.current_world().communicator.allgather_object(member.steps)
    assert len(set(everyone)) == 1
    assert signal.getsignal(getattr(signal, name)) == before
    assert signal.set_wakeup_fd(pipe) == pipe


def test_a_signal_cuts_the_estimate() -> None:
    name = "SIGTERM" if sp.size() == 1 else "SIGINT"
    result = small(poisson(), callbacks=send(name), estimate=True)
    assert f"{name} has ended it" in result.error.reason


def test_a_signal_ends_solve_with_the_best_solution_so_far() -> None:
    """The last rank gets it when its residual is run first, long before the tolerance is met."""
    name, sent = "SIGTERM" if sp.size() == 1 else "SIGINT", list[bool]()

    def layer(u: Any, x: Any) -> Any:
        if not sent and sp.rank() == sp.size() - 1:
            os.kill(os.getpid(), getattr(signal, name))
        sent.append(True)
        return 1e-4 * laplacian(u, x) - u(x) ** 3 + 1.0

    problem = Problem(Box([0, 0], [1, 1]), layer, conditions=[Dirichlet(0.0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(problem, tolerance=1e-12, seconds=1e4, progress=False)
    assert np.isfinite(result.loss) and result.mode == "data"
    said = [str(each.message) for each in caught if f"{name} has ended it" in str(each.message)]
    assert len(said) == (sp.rank() == 0)


@pytest.mark.ranks(most=1, reason="local")
def test_an_inner_call_hears_of_the_signals_and_the_limit_of_the_outer_one() -> None:
    world = sp.current_world()
    with signals_caught(world) as outer, signals_caught(world) as inner:
        assert inner.stop() is None
        outer.received(signal.SIGTERM)
        assert inner.stop() == "SIGTERM"
    with signals_caught(world, until=0.0), signals_caught(world) as inner:
        assert inner.stop() == "wall time"
    with signals_caught(world) as alone:
        assert alone.stop() is None


@pytest.mark.ranks(most=1, reason="local")
def test_handlers_of_the_program_and_ignored_signals_stay() -> None:
    seen: list[int] = []
    own = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with signals_caught(sp.current_world()) as watcher:
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGTERM)
        assert watcher.stop() is None
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, own)
        signal.signal(signal.SIGTERM, ignored)


@pytest.mark.ranks(most=1, reason="local")
def test_in_another_thread_nothing_is_caught() -> None:
    found: list[Any] = []

    def work() -> None:
        before = signal.getsignal(signal.SIGTERM)
        with signals_caught(sp.current_world()):
            found.append(signal.getsignal(signal.SIGTERM) == before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.ranks(most=1, reason="local")
def test_one_ctrl_c_that_comes_twice_is_one() -> None:
    # A shell that starts tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with signals_caught(sp.current_world()) as watcher:
            for _ in range(2):  # a launcher and a terminal pass it on
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert watcher.stop() == "SIGINT"
