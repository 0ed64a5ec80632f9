"""Compare the time of one training step with the usual ways, in one run.

The problem is the Poisson equation with a 16×2 network in float32. On one rank: the engine's
loop, and the same step written with a Keras model and Keras' Adam, called from Python as a
function compiled by XLA, and as a plain graph. On two ranks: the engine's loop in data mode, with
its allreduce and with the allreduce left out. On one rank again: 16 and 64 stacked members, per
member, as one computation on one thread and, where there are two cores, as two at once on two; and
Keras' Adam inside the loop. All are timed in turns, several rounds each; the figures are medians,
and what counts is their ratios.

    python benchmarks/training_step.py

starts its own mpirun, prints a table and writes benchmarks/results/training_step.json.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from _runner import RESULTS, Candidate, in_turns, on_ranks, parse, repeated, report, slowest

import sciml_par.parallel as sp
from sciml_par._tensorflow import tf

ENGINE_STEPS = 4000
CALLS = 200
ROUNDS = 9

# Microseconds per step of the same examples under Horovod 0.28, made to build against TensorFlow
# 2.21 by hand, on two cores of an AMD EPYC: its best form, ranks bound to cores. Horovod cannot
# be installed any more, so these two are not measured in this run.
HOROVOD_BEST = {"data": 524.0, "ensemble": 127.0}


def main() -> None:
    parse(__doc__)
    ensemble, alone = on_ranks(None, ensemble_times), on_ranks(2, ensemble_times)
    data, stacked = on_ranks(2, data_times), on_ranks(None, stacked_times, 1)
    two = on_ranks(None, stacked_times, 2)
    engine, engine_2, engine_data = ensemble["engine"], alone["engine"], data["with_allreduce"]
    one_member = stacked["1 member"]
    rows = [
        ("ensemble, 1 rank: engine", engine, engine),
        ("  Keras step, jit_compile", ensemble["keras_jit"], engine),
        ("  Keras step, tf.function", ensemble["keras_graph"], engine),
        ("ensemble, 2 ranks: engine", engine_2, engine_2),
        ("  Horovod's best (measured elsewhere)", HOROVOD_BEST["ensemble"], engine_2),
        ("data, 2 ranks: engine", engine_data, engine_data),
        ("  the same without the allreduce", data["without_allreduce"], engine_data),
        ("  Horovod's best (measured elsewhere)", HOROVOD_BEST["data"], engine_data),
        *((f"stacked: {name}", value, one_member) for name, value in stacked.items()),
        *((f"on two threads: {name}", value, one_member) for name, value in two.items()),
    ]
    columns = {"step of": "name:<40", "µs": "microseconds:8.1f", "÷ engine": "ratio:10.2f"}
    table = [{"name": name, "microseconds": us, "ratio": us / base} for name, us, base in rows]
    report(columns, table, RESULTS / "training_step.json")


def ensemble_times() -> dict[str, float]:
    """Time the engine next to Keras on 101 points, on this rank alone, with the threads of `init`.

    OMP_NUM_THREADS=1 is the kindest to the compiled Keras step.
    """
    sp.init()
    engine = engine_loop(sp.current_world().alone, points=101)
    step = keras_step(points=101)
    candidates = {
        "engine": engine,
        "keras_jit": calls_of(tf.function(step, jit_compile=True)),
        "keras_graph": calls_of(tf.function(step)),
    }
    return slowest(in_turns(candidates, ROUNDS))


def data_times() -> dict[str, float]:
    """Time the engine on 51 points per rank, with and without its allreduce."""
    sp.init()
    world = sp.current_world()
    everyone = world.communicator
    candidates = {
        "with_allreduce": engine_loop(everyone, points=51),
        "without_allreduce": engine_loop(world.alone, points=51, shard_of=everyone),
    }
    return slowest(in_turns(candidates, ROUNDS))


def stacked_times(threads: int) -> dict[str, float]:
    """Return microseconds per step and member of stacks on a rank with `threads` threads.

    On one thread of Keras' Adam in place of the engine's as well.
    """
    import keras

    sp.init(threads=threads)
    engine = partial(engine_loop, sp.current_world().alone, points=101)
    candidates = {
        f"{count} member{'s' * (count > 1)}": engine(members=count, threads=min(count, threads))
        for count in (1, 16, 64)
    }
    if threads == 1:
        adam = keras.optimizers.Adam(1e-3)
        candidates["1 member, Keras' Adam"] = engine(optimizer=adam)
    return in_turns(candidates, ROUNDS)


def engine_loop(
    group: Any, *, points: int, shard_of: Any = None, members: int = 1, optimizer: Any = None,
    threads: int = 1, steps: int = ENGINE_STEPS,
) -> Callable[[], float]:  # fmt: skip
    """Return a function that runs steps of the engine and returns microseconds per step and member.

    `shard_of` is the group whose division of the points is used: `group` by default. The members
    are divided into as many equal parts as there are threads.
    """
    import numpy as np

    from sciml_par.networks import make_network
    from sciml_par.problems import poisson
    from sciml_par.training import Adam
    from sciml_par.training.loop.divided_loop import divide_loop
    from sciml_par.training.loop.loop import Loop
    from sciml_par.training.loop.stops import Stops
    from sciml_par.training.loss.objective import StackedObjective, field_of
    from sciml_par.training.loss.parameter_layout import ParameterLayout
    from sciml_par.training.optimizers.phases import as_optimizer
    from sciml_par.training.points.feed import DividedFeed
    from sciml_par.training.points.make_feed import make_feed

    divided, problem = shard_of or group, poisson()
    of = {"rank": divided.rank, "size": divided.size, "seed": 0, "dtype": "float32"}
    feed = make_feed(problem, points_per_rank=points, **of)
    networks = [make_network(seed=j) for j in range(members)]
    layout = ParameterLayout.of(networks[0].trainable_variables)

    def loop_of(count: int) -> Any:
        objective = StackedObjective(
            partial(field_of, problem, networks[0]),
            problem.terms,
            layout=layout,
            members=count,
            stacked=feed.stacked,
            communicator=group,
        )
        return Loop(objective, as_optimizer(optimizer or Adam()), feed, communicator=group)

    loop, data = loop_of(members), feed.chunk(0)
    rows = [layout.flatten([v.value for v in each.trainable_variables]) for each in networks]
    theta = tf.constant(np.stack(rows))
    start = loop.start(theta)
    if threads > 1:
        parts, thetas = [loop_of(members // threads)] * threads, tf.split(theta, threads)
        loop = divide_loop(loop, parts, thetas, threads=threads)
        data = DividedFeed([feed] * threads).chunk(0)
    steps = max(1, steps // members)

    def run() -> float:
        at = {"step": 0, "phase_start": 0, "count": steps, "log_every": 1000}
        chunk = loop.advance(start, data, Stops().limits("float32"), tf.ones([members, 1]), **at)
        return 1e6 * chunk.seconds / steps / members

    return run


def keras_step(*, points: int) -> Callable[[], Any]:
    """Return the same step as written with Keras and nested gradient tapes."""
    import keras
    import numpy as np

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
    """Time calls of a step from Python except the first; the last loss is read."""

    def calls() -> None:
        for _ in range(CALLS):
            loss = step()
        float(loss)

    timed = repeated(calls, 1, each=CALLS)
    return lambda: (step(), timed())[1]


if __name__ == "__main__":
    main()
