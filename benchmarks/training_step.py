"""How long one training step takes: the engine beside the usual ways, in one run.

The problem is the Poisson equation with a 16×2 network in float32. On one rank: the engine's
loop, and the same step written with a Keras model and Keras' Adam, called from Python as a
function compiled by XLA, and as a plain graph. On two ranks: the engine's loop in data mode, with
its allreduce and with the allreduce left out. All are timed in turns, several rounds each;
the figures are medians, and what counts is their ratios.

    python benchmarks/training_step.py

starts its own mpirun, prints a table and writes benchmarks/results/training_step.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from _measuring import RESULTS, Candidate, in_turns, repeated, report, run_ranks, write_json

ENGINE_STEPS = 4000
CALLS = 200
ROUNDS = 9

# Microseconds per step of the same examples under Horovod 0.28, made to build against TensorFlow
# 2.21 by hand, on two cores of an AMD EPYC: its best form, ranks bound to cores. Horovod cannot
# be installed any more, so these two are not measured in this run.
HOROVOD_BEST = {"data": 524.0, "ensemble": 127.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", choices=("ensemble", "data"))
    worker = parser.parse_args().worker
    if worker == "ensemble":
        report(ensemble_times())
    elif worker == "data":
        report(data_times())
    else:
        compare()


def compare() -> None:
    """Run both workers, print the table, write the JSON."""
    ensemble = run_ranks(None, __file__, "--worker", "ensemble")
    data = run_ranks(2, __file__, "--worker", "data")
    alone = run_ranks(2, __file__, "--worker", "ensemble")
    engine, engine_2, engine_data = ensemble["engine"], alone["engine"], data["with_allreduce"]
    rows = [
        ("ensemble, 1 rank: engine", engine, engine),
        ("  Keras step, jit_compile", ensemble["keras_jit"], engine),
        ("  Keras step, tf.function", ensemble["keras_graph"], engine),
        ("ensemble, 2 ranks: engine", engine_2, engine_2),
        ("  Horovod's best (measured elsewhere)", HOROVOD_BEST["ensemble"], engine_2),
        ("data, 2 ranks: engine", engine_data, engine_data),
        ("  the same without the allreduce", data["without_allreduce"], engine_data),
        ("  Horovod's best (measured elsewhere)", HOROVOD_BEST["data"], engine_data),
    ]
    print(f"{'step of':40}{'µs':>8}{'÷ engine':>10}")
    for name, microseconds, base in rows:
        print(f"{name:40}{microseconds:8.1f}{microseconds / base:10.2f}")
    found = {"ensemble_1_rank": ensemble, "ensemble_2_ranks": alone, "data_2_ranks": data}
    write_json(RESULTS / "training_step.json", found)


def ensemble_times() -> dict[str, float]:
    """The engine beside Keras on 101 points, on this rank alone, with the threads of `init`.

    OMP_NUM_THREADS=1 is the kindest to the compiled Keras step.
    """
    import sciml_par
    from sciml_par.parallel import current_world

    sciml_par.init()
    engine = engine_loop(current_world().alone, points=101)
    step = keras_step(points=101)
    import tensorflow as tf

    compiled = tf.function(step, jit_compile=True)
    graph = tf.function(step)
    return in_turns(
        {
            "engine": engine,
            "keras_jit": calls_of(compiled),
            "keras_graph": calls_of(graph),
        },
        ROUNDS,
    )


def data_times() -> dict[str, float]:
    """The engine on 51 points per rank, with and without its allreduce."""
    import sciml_par
    from sciml_par.parallel import current_world

    sciml_par.init()
    world = current_world()
    return in_turns(
        {
            "with_allreduce": engine_loop(world.communicator, points=51),
            "without_allreduce": engine_loop(world.alone, points=51, shard_of=world.communicator),
        },
        ROUNDS,
    )


def engine_loop(group: Any, *, points: int, shard_of: Any = None) -> Callable[[], float]:
    """A function that does some steps of the engine and returns microseconds per step.

    `shard_of` is the group whose division of the points is used: `group` by default.
    """
    from sciml_par.networks import MLP
    from sciml_par.problems import poisson
    from sciml_par.training.loop import Loop
    from sciml_par.training.objective import Objective
    from sciml_par.training.optimizers.adam import Adam
    from sciml_par.training.rank_points import points_of_rank

    divided = shard_of or group
    own_points = points_of_rank(
        poisson(), points, boundary_points=None, rank=divided.rank, size=divided.size
    )
    model = MLP(1, 1)
    totals = [divided.size * points, 2]
    objective = Objective(model, own_points, totals=totals, communicator=group, dtype="float32")
    loop = Loop(objective, Adam(), log_every=1000, communicator=group)
    start = loop.start([v.numpy() for v in model.trainable_variables], "float32")
    return lambda: 1e6 * loop.advance(start, ENGINE_STEPS).seconds / ENGINE_STEPS


def keras_step(*, points: int) -> Callable[[], Any]:
    """The same step as one writes it with Keras and nested gradient tapes."""
    import keras
    import numpy as np
    import tensorflow as tf

    dense = keras.layers.Dense
    model = keras.Sequential([keras.Input([1]), dense(16, "tanh"), dense(16, "tanh"), dense(1)])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    x = tf.constant(np.linspace(-1, 1, points)[:, None], tf.float32)
    f = tf.constant(4 * np.pi**2 * np.sin(2 * np.pi * x.numpy()), tf.float32)
    ends = tf.constant([[-1.0], [1.0]])

    def step() -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as second:
                second.watch(x)
                with tf.GradientTape() as first:
                    first.watch(x)
                    u = model(x)
                slope = first.gradient(u, x)
            residual = -second.gradient(slope, x) - f
            loss = tf.reduce_mean(residual**2) + tf.reduce_sum(model(ends) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def calls_of(step: Callable[[], Any]) -> Candidate:
    """Calls of a step from Python, of which the first is not timed; the last loss is read."""

    def calls() -> None:
        for _ in range(CALLS):
            loss = step()
        float(loss)

    timed = repeated(calls, 1, each=CALLS)

    def after_one_more() -> float:
        step()
        return timed()

    return after_one_more


if __name__ == "__main__":
    main()
