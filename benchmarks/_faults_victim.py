"""The program to which faults.py does something: `mpirun -np P python _faults_victim.py FAULT`.

FAULT is a `Fault` as JSON. Lines in the file `events` tell when the ranks reach their moments:
the time on the clock of the host, the moment, the rank, the process. Most faults come from here;
those from outside are done by `_faults_job.py` as soon as it reads that the moment has come.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _faults_kinds import FAULT, MISMATCHES, Fault

OUT = Path("out")
CALLS, STEPS_PER_CALL = 12, 50
FINAL_FILES = 6
EPOCHS = 6
STEPS, EVERY = 320, 40


class Moments:
    """Tells where this rank is, and lets the fault come at its moment.

    Attributes
    ----------
    disagree : makes a collective in which this rank differs from the others, or does not, once
        there are collectives.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.rank = int(os.environ.get("PMI_RANK", "0"))
        self.disagree: Callable[[str, bool], None] | None = None
        self._passed: Counter[str] = Counter()

    def tell(self, what: str) -> None:
        line = f"{time.monotonic():.6f} {what} {self.rank} {os.getpid()}\n"
        file = os.open("events", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def at(self, moment: str) -> None:
        fault, passed = self.fault, self._passed[moment]
        self._passed[moment] += 1
        now = moment == fault.moment and passed == fault.count
        if passed == 0 or now:
            self.tell(f"{moment}-{passed}")
        if not now or fault.of_kind.from_outside or fault.kind in ("none", "truncated checkpoint"):
            return
        kind = fault.inner if fault.kind == "lost message" else fault.kind
        mine = fault.rank == self.rank
        if kind in MISMATCHES:
            assert self.disagree is not None
            if mine:
                self.tell("fault")
            self.disagree(kind, mine)
        elif mine:
            self.tell("fault")
            self._fail(kind)

    def _fail(self, kind: str) -> None:
        sys.stdout.flush()
        if kind == "exception":
            raise RuntimeError(FAULT)
        if kind == "sys.exit":
            sys.exit(self.fault.code)
        if kind == "os._exit":
            os._exit(self.fault.code)
        if kind == "fork" and os.fork() == 0:
            self._be_a_child()

    def _be_a_child(self) -> None:
        inner = self.fault.inner
        time.sleep(self.fault.fraction)
        if inner == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        if inner == "collective" and self.disagree is not None:
            self.disagree("shape", False)
        self._fail("exception" if inner == "collective" else inner)

    @property
    def loses_its_numbers(self) -> bool:
        """Return whether this rank's numbers become NaN now, in its own collectives."""
        fault = self.fault
        due = fault.kind == "NaN" and self._passed["training"] == fault.count + 1
        if due and fault.rank == self.rank:
            self.tell("fault")
            return True
        return False


def make_disagree(par: Any, tf: Any, fault: Fault) -> Callable[[str, bool], None]:
    """Call a collective on all ranks, in which one of them may differ."""

    # In a child made by a fork TensorFlow has no threads: a graph, whatever is in it, never ends.
    in_child = fault.mode == "graph" and fault.kind == "fork"

    def wrapped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if in_child or fault.mode in ("eager", "fit", "train"):
            return function
        return tf.function(function, jit_compile=fault.mode == "compiled")

    reduce = wrapped(par.allreduce)
    largest = wrapped(lambda x: par.allreduce(x, par.Max))
    gather = wrapped(par.allgather)
    usual, longer = tf.ones(3), tf.ones(5)
    other_type = tf.ones(3, tf.float64)
    if fault.agreed:
        for x in (usual, longer, other_type):
            reduce(x)
        largest(usual)
        gather(usual)

    def disagree(kind: str, differs: bool) -> None:
        if kind == "order" and differs:
            gather(usual)
        if not differs or kind == "order":
            reduce(usual)
        elif kind == "operation":
            largest(usual)
        elif kind != "missing call":
            reduce(longer if kind == "shape" else other_type)
        if kind == "order" and not differs:
            gather(usual)

    return disagree


def with_own_collectives(par: Any, tf: Any, moments: Moments) -> None:
    """Run a loop of allreduces: eager, in graphs, or in compiled loops."""
    mode = moments.fault.mode

    def steps(x: Any) -> Any:
        if mode != "eager":
            moments.at("compilation")
        if mode != "compiled":
            return par.allreduce(x)
        step = lambda i, x: (i + 1, par.allreduce(x))  # noqa: E731
        return tf.while_loop(lambda i, x: i < STEPS_PER_CALL, step, (0, x))[1]

    function = steps
    if mode != "eager":
        function = tf.function(steps, jit_compile=mode == "compiled", autograph=False)
    function(tf.ones(7))
    for call in range(CALLS):
        moments.at("training")
        x = function(tf.fill([7], float("nan") if moments.loses_its_numbers else 1.0))
        if not bool(tf.reduce_all(tf.math.is_finite(x))):
            raise ArithmeticError(f"the sum is not finite in call {call}")
        time.sleep(0.1)


def with_fit(par: Any, tf: Any, moments: Moments) -> None:
    """Run Keras' fit, with a file at the end of each epoch as in docs/failures.md."""
    import keras

    class Traced(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            if not isinstance(x, keras.KerasTensor):
                moments.at("compilation")
            return x

    def save(path: Path, moment: str) -> None:
        draft = path.with_name(f"unfinished-{path.name}")
        model.save(draft)
        moments.at(moment)
        os.replace(draft, path)
        if moment == "checkpoint":
            moments.tell("written")

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            moments.at("training")
            time.sleep(0.02)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if par.rank() == 0:
                save(OUT / "checkpoint.keras", "checkpoint")

    layers = [keras.Input([1]), Traced(), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(par.DistributedOptimizer(keras.optimizers.Adam()), "mse")
    par.broadcast_variables(model.variables)
    x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
    model.fit(x, tf.sin(x), batch_size=8, epochs=EPOCHS, callbacks=[Watch()], verbose=0)
    par.barrier()
    if par.rank() == 0:
        for number in range(FINAL_FILES):
            save(OUT / f"final-{number}.keras", "saving")
    par.barrier()


def with_train(par: Any, tf: Any, moments: Moments) -> int:
    """Train a physics-informed network, with checkpoints and results."""
    import sciml_par as sp
    from sciml_par.networks import MLP
    from sciml_par.problems import Dirichlet, Interval, Problem, laplacian
    from sciml_par.training import Adam, Checkpoint, PiecewiseConstantDecay

    fault = moments.fault
    watch_files(moments)

    def residual(u: Any, x: Any) -> Any:
        moments.at("compilation")
        return laplacian(u, x) + 1.0

    rate: Any = 1e-3
    if fault.kind == "NaN":
        rate = PiecewiseConstantDecay([EVERY * fault.count + 20], [1e-3, 1e38])
        moments.tell("fault")
    result = sp.train(
        Problem(Interval(-1, 1), residual, conditions=[Dirichlet(0.0)]),
        network=lambda d, m, **more: MLP(d, m, width=8, depth=2, **more),
        points=32,
        optimizer=Adam(rate),
        steps=STEPS,
        checkpoint=Checkpoint(OUT, every=EVERY),
        resume=fault.kind == "truncated checkpoint",
        callbacks=lambda progress: moments.at("training"),
        progress=False,
    )
    result.save(OUT, overwrite=True, plots=False)
    return sp.programs.conclude(result, OUT)


def watch_files(moments: Moments) -> None:
    flush, replace = os.fsync, os.replace

    def fsync(file: Any) -> None:
        if os.path.isfile(f"/proc/self/fd/{file}"):
            moments.at("checkpoint")
        flush(file)

    def put(draft: Any, path: Any, **options: Any) -> None:
        is_checkpoint = Path(path).name.startswith("checkpoint")
        if not is_checkpoint and Path(path).parent == OUT:
            moments.at("saving")
        replace(draft, path, **options)
        if is_checkpoint:
            moments.tell("written")

    os.fsync, os.replace = fsync, put


def lose_a_message(fault: Fault) -> None:
    """Let one of this rank's messages to the others not be sent."""
    from sciml_par.parallel.groups.mailbox import Mailbox

    send, sent = Mailbox.send, Counter[str]()

    def lossy(self: Mailbox, message: Any, **options: Any) -> None:
        sent["all"] += 1
        if sent["all"] != fault.lost + 1:
            send(self, message, **options)

    Mailbox.send = lossy  # type: ignore[method-assign]


def main() -> int:
    fault = Fault(**json.loads(sys.argv[1]))
    moments = Moments(fault)
    moments.tell("born")
    early = fault.fraction < 0.5 and fault.kind not in (*MISMATCHES, "lost message")
    if early:
        moments.at("start")  # before there is MPI
    import sciml_par.parallel as par

    if fault.kind == "lost message" and fault.rank == moments.rank:
        lose_a_message(fault)
    par.init()
    import tensorflow as tf

    moments.disagree = make_disagree(par, tf, fault)
    if not early:
        moments.at("start")
    moments.tell("begun")
    program = {"fit": with_fit, "train": with_train}.get(fault.mode, with_own_collectives)
    code = program(par, tf, moments) or 0
    if fault.kind in MISMATCHES:
        moments.at("end")
        moments.tell("done")
    else:
        moments.tell("done")
        moments.at("end")
    return code


if __name__ == "__main__":
    sys.exit(main())
