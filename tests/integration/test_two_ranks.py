"""Every collective on two ranks, by MPI on any machine and by NCCL where they can share a GPU.

One GPU for several ranks needs NCCL 2.30. This experimental feature may hang, so it runs in
separate processes with a time limit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from launch import launch

import sciml_par.parallel as sp
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_gpu, load_nccl

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, sys

by = sys.argv[1]
os.environ.update(
    SCIML_PAR_TRANSPORT=by,
    SCIML_PAR_SHARE_GPUS="1",
    SCIML_PAR_STALL_LIMIT="120",
    NCCL_MULTI_RANK_GPU_ENABLE="1",
    NCCL_MAX_CTAS="1",
    NCCL_NVLS_ENABLE="0",
)
import sciml_par.parallel as sp

sp.init()
import numpy as np
import tensorflow as tf

from sciml_par.parallel.groups.call_site import PreparedCall

rank, size = sp.rank(), sp.size()
carried, execute = set(), PreparedCall.execute


def recording(self, *arguments):
    carried.add(self.signature.transport)
    execute(self, *arguments)


PreparedCall.execute = recording


def of(rank):
    return np.random.default_rng(rank).normal(size=(4 * size, 3))


def every_collective(x):
    mine = x[: rank + 1]
    return [
        sp.allreduce(x, sp.Sum),
        sp.allreduce(x, sp.Average),
        sp.allreduce(x, sp.Max),
        sp.broadcast(x, size - 1),
        sp.allgather(x),
        sp.allgather(mine),
        sp.reducescatter(x, sp.Sum),
        sp.reducescatter(x[:3], sp.Sum),
        sp.alltoall(x)[0],
    ]


def expected():
    all_x = np.stack([of(r) for r in range(size)])
    total = all_x.sum(0)
    rows_of_three = slice(0, 2) if rank == 0 else slice(2, 3)
    return [
        total,
        total / size,
        all_x.max(0),
        all_x[-1],
        np.concatenate(all_x),
        np.concatenate([all_x[r, : r + 1] for r in range(size)]),
        total[4 * rank : 4 * rank + 4],
        total[rows_of_three],
        np.concatenate(all_x[:, 4 * rank : 4 * rank + 4]),
    ]


def slope(x):
    \"\"\"Of Σ_r Σ y_r, where y is 0.5 Σ_r x_r, ten times over.\"\"\"
    with tf.GradientTape() as tape:
        tape.watch(x)
        body = lambda i, y: (i + 1, 0.5 * sp.allreduce(y, sp.Sum))
        y = tf.while_loop(lambda i, y: i < 10, body, (0, x), maximum_iterations=10)[1]
    return tape.gradient(y, x)


CONTEXTS = {
    "eager": lambda f: f,
    "graph": tf.function,
    "compiled": lambda f: tf.function(f, jit_compile=True),
}
with tf.device("/GPU:0" if by == "nccl" else "/CPU:0"):
    x = tf.identity(tf.constant(of(rank), tf.float32))
    for name, context in CONTEXTS.items():
        results = context(every_collective)(x)
        for i, (y, right) in enumerate(zip(results, expected(), strict=True)):
            np.testing.assert_allclose(y.numpy(), right, 1e-5, 1e-6, err_msg=f"{name} {i}")
        if name != "eager":
            np.testing.assert_allclose(context(slope)(x).numpy(), (0.5 * size) ** 10, 1e-6)
        os.write(1, f"{name} by {' '.join(sorted(carried))} on rank {rank}\\n".encode())
        carried.clear()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def check(program: Path, by: str, *, fresh: bool) -> None:
    ended = launch(2, program, by, folder=program.parent, threads=1, fresh=fresh)
    assert ended.code == 0, f"{ended.out}\n{ended.err}"
    contexts = ("eager", "graph", "compiled")
    lines = [f"{c} by {by.upper()} on rank {rank}" for c in contexts for rank in (0, 1)]
    assert sorted(ended.out.splitlines()) == sorted(lines)


@pytest.mark.all
def test_by_mpi(program):
    """The same program, so that it is known to be right before it meets a GPU."""
    check(program, "mpi", fresh=False)


@pytest.fixture
def shared_gpu():
    """Return a GPU that takes two ranks."""
    if sp.current_world().gpu is None:
        pytest.skip("there is no GPU")
    try:
        load_gpu()
        version = load_nccl().version
    except MissingBindingError as missing:
        pytest.skip(str(missing))
    if version < (2, 30):
        pytest.skip("NCCL takes several ranks on a GPU from 2.30 on")
    if not has_gpus():
        pytest.skip("TensorFlow sees no GPU")


@pytest.mark.gpu
def test_by_nccl(shared_gpu, program):
    check(program, "nccl", fresh=True)
