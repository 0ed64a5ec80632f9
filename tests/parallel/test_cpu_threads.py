"""Each rank's share of the cores, on made-up hosts."""

from __future__ import annotations

import os

import pytest
from threadpoolctl import threadpool_limits

from sciml_par.parallel.startup.cpu_threads import (
    let_waiting_ranks_yield,
    limit_threads,
    requested_threads,
    share_of_cores,
    thread_pools,
)

pytestmark = pytest.mark.ranks(most=1, reason="the hosts are made up")


def cores(*numbers):
    return frozenset(numbers)


@pytest.mark.parametrize(
    ("mine", "neighbours", "share"),
    [
        (cores(*range(8)), [cores(*range(8))], 8),  # alone
        (cores(*range(8)), [cores(*range(8))] * 2, 4),  # unbound
        (cores(*range(8)), [cores(*range(8))] * 3, 2),  # rounded down
        (cores(0, 1), [cores(0, 1)] * 4, 1),  # more ranks than cores
        (cores(0, 1), [cores(0, 1), cores(2, 3)], 2),  # bound
        (cores(5), [cores(4), cores(5)], 1),
        (cores(*range(4)), [cores(*range(4))] * 2 + [cores(*range(4, 8))] * 2, 2),  # by socket
        (cores(0, 1, 2), [cores(0, 1, 2), cores(2, 3)], 1),  # they overlap in one
        (cores(), [cores()], 1),
    ],
)
def test_share_of_cores(mine, neighbours, share):
    assert share_of_cores(mine, neighbours) == share


HEAVY_YIELD = "MPIR_CVAR_ENABLE_HEAVY_YIELD"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"MPI_LOCALNRANKS": "3"}, "1"),
        ({"MPI_LOCALNRANKS": "2"}, None),  # a core for each
        ({}, None),  # no launcher, or another
        ({"MPI_LOCALNRANKS": "many"}, None),
        ({"MPI_LOCALNRANKS": "3", HEAVY_YIELD: "0"}, "0"),  # as the user says
    ],
)
def test_ranks_that_wait_yield_where_they_outnumber_the_cores(given, found):
    let_waiting_ranks_yield(given, cores(4, 5))
    assert given.get(HEAVY_YIELD) == found


def test_a_rank_bound_to_one_core_counts_those_of_its_launcher(monkeypatch):
    own = {0: {1}, os.getppid(): {0, 1, 2}}
    monkeypatch.setattr(os, "sched_getaffinity", own.__getitem__, raising=False)
    for ranks, found in (("3", None), ("4", "1")):
        environment = {"MPI_LOCALNRANKS": ranks}
        let_waiting_ranks_yield(environment)
        assert environment.get(HEAVY_YIELD) == found


@pytest.mark.parametrize(
    ("text", "threads"),
    [("4", 4), (" 2 ", 2), ("4,2,1", 4), ("", None), ("0", None), ("-3", None), ("many", None)],
)
def test_requested_threads(text, threads):
    assert requested_threads({"OMP_NUM_THREADS": text}) == threads
    assert requested_threads({}) is None


@pytest.fixture
def pools():
    """Two threads for each BLAS at the start of a test, and as many as before at its end."""
    import scipy.linalg.cython_blas  # noqa: F401  # loads SciPy's own BLAS

    with threadpool_limits(2, user_api="blas"):
        yield lambda: {n for name, n in thread_pools().items() if name.startswith("openblas")}


def test_limit_threads_keeps_what_the_user_has_set(monkeypatch, pools):
    monkeypatch.delitem(__import__("sys").modules, "tensorflow")
    before = pools()
    environment = {"TF_NUM_INTEROP_THREADS": "7", "OPENBLAS_NUM_THREADS": "2"}
    limit_threads(1, environment)
    assert pools() == before
    assert environment == {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "2",
        "MKL_NUM_THREADS": "1",
        "BLIS_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "7",
    }


def test_limit_threads_reaches_libraries_that_are_loaded(monkeypatch, pools):
    monkeypatch.delitem(__import__("sys").modules, "tensorflow")
    limit_threads(1, {})
    assert pools() == {1}


def test_too_late_for_tensorflow_is_a_warning():
    import tensorflow as tf

    tf.constant(1.0) + 1.0  # its threads run from here on
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    with pytest.warns(RuntimeWarning, match=r"init\(\) came after TensorFlow had started"):
        limit_threads(threads + 1, {})
