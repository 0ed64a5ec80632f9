"""Collectives from several threads: in order where the program fixes one, else refused."""

from __future__ import annotations

import threading
import time

import pytest
import tensorflow as tf
from mpi4py import MPI

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.parallel.execution.dispatch import check_threads_of_mpi

pytestmark = pytest.mark.ranks(most=2, reason="it is about the threads of a rank")

needs_ranks = pytest.mark.ranks(least=2, reason="one rank has nobody to wait for")


def mean_of(i):
    return sp.allreduce(tf.cast(i, tf.float32) + sp.rank())


MEANS = [i + (sp.size() - 1) / 2 for i in range(4)]


@pytest.mark.parametrize(
    "stage",
    (
        lambda data: data.map(mean_of, num_parallel_calls=4),
        lambda data: data.map(mean_of, num_parallel_calls=tf.data.AUTOTUNE),
        lambda data: data.interleave(
            lambda i: tf.data.Dataset.from_tensors(mean_of(i)), 4, num_parallel_calls=4
        ),
        lambda data: data.map(tf.function(mean_of), num_parallel_calls=2),
    ),
)
def test_parallel_stages_of_a_pipeline_are_refused(stage):
    with pytest.raises(InputError, match="parallel stage of a tf.data pipeline"):
        stage(tf.data.Dataset.range(4))


@pytest.mark.parametrize("traced", (False, True))
def test_a_pipeline_in_order(traced):
    function = tf.function(mean_of) if traced else mean_of
    for _ in range(2):
        assert [float(y) for y in tf.data.Dataset.range(4).map(function)] == MEANS


@needs_ranks
def test_a_pipeline_with_a_group_of_its_own():
    group = sp.current_world().communicator.split(0)

    def doubled(i):
        return sp.allreduce(2.0 * tf.cast(i, tf.float32), sp.Sum, communicator=group)

    for step, y in enumerate(tf.data.Dataset.range(20).map(doubled)):
        assert float(y) == 2 * step * sp.size()
        assert float(sp.allreduce(tf.constant(1.0 * step), sp.Sum)) == step * sp.size()
    group.free()


@needs_ranks
def test_two_threads_at_once_are_refused():
    """On the rank where they meet; the first call continues, and nothing follows it."""
    group = sp.current_world().communicator.split(0)
    x, results = tf.constant(1.0 + sp.rank()), []

    def total():
        results.append(float(sp.allreduce(x, sp.Sum, communicator=group)))

    if sp.rank() == 0:
        thread = threading.Thread(target=total)
        thread.start()
        while group.progress.in_progress is None:
            time.sleep(0.001)
        with pytest.raises(InputError, match="while allreduce.* was in progress in another thread"):
            sp.broadcast(x, 0, communicator=group)
        sp.barrier()
        thread.join()
        with pytest.raises(InputError, match="give each thread a separate group"):
            total()
    else:
        sp.barrier()
        total()
    assert results == [sum(range(1, sp.size() + 1))]


@needs_ranks
def test_threads_with_groups_of_their_own():
    groups = [sp.current_world().communicator.split(0) for _ in range(2)]
    sums: dict[int, list[float]] = {0: [], 1: []}

    def work(number):
        for step in range(50):
            x = tf.fill([100], float(step + number + sp.rank()))
            sums[number].append(float(sp.allreduce(x, communicator=groups[number])[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in sums]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, values in sums.items():
        assert values == [step + number + (sp.size() - 1) / 2 for step in range(50)]
    for group in groups:
        group.free()


@pytest.mark.parametrize("compile_it", (False, True))
def test_iterations_that_may_run_in_parallel_keep_their_order(compile_it):
    @tf.function(jit_compile=compile_it)
    def run():
        return tf.map_fn(
            mean_of, tf.range(4), fn_output_signature=tf.float32, parallel_iterations=4
        )

    for _ in range(5):
        assert run().numpy().tolist() == MEANS


@needs_ranks
@pytest.mark.parametrize(("level", "shape"), (("SINGLE", [2]), ("SERIALIZED", [None])))
def test_graphs_need_an_mpi_for_threads(monkeypatch, level, shape):
    """MPI is made to say that it was started with less, as by a program before `init`."""
    monkeypatch.setattr(MPI, "Query_thread", lambda: getattr(MPI, f"THREAD_{level}"))
    check_threads_of_mpi.cache_clear()
    assert sp.allreduce(tf.ones(2), sp.Sum).numpy().tolist() == [sp.size()] * 2
    for compile_it in (False, True) if shape == [2] else (False,):
        function = tf.function(sp.allreduce, jit_compile=compile_it)
        with pytest.raises(InputError, match=f"MPI_THREAD_MULTIPLE; got MPI_THREAD_{level}"):
            function.get_concrete_function(tf.TensorSpec(shape))
