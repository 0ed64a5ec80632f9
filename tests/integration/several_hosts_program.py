"""What ranks on two hosts find, as JSON files in the folder in which they run; see
test_several_hosts.py."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

HOST = os.uname().nodename
# As `srun` has it, on top of what MPI's launcher says. On the first host all ranks see both
# GPUs; on the second one the scheduler shows one to each, which that calls 0 or by its name.
os.environ.update(SLURM_JOB_ID="77", SLURM_NNODES="2", SLURM_NTASKS="4", SLURM_PROCID="3")
own = os.environ.get("MPI_LOCALRANKID") or os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1" if HOST == "hosta" else f"GPU-{own}f2a"
os.environ["SCIML_PAR_TRANSPORT"] = "mpi"

import sciml_par.parallel as sp  # noqa: E402

sp.init()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from sciml_par.networks import MLP  # noqa: E402
from sciml_par.problems import poisson  # noqa: E402
from sciml_par.training import Checkpoint, train  # noqa: E402

world = sp.current_world()
mine = tf.range(3.0) + float(sp.rank())
sp.start_timeline("timeline.json")


@tf.function(jit_compile=True)
def steps(x):
    return tf.while_loop(
        lambda i, x: i < 5, lambda i, x: (i + 1, sp.allreduce(x, sp.Average)), (0, x)
    )[1]


found = {
    "host": HOST,
    "gpu": os.environ["CUDA_VISIBLE_DEVICES"],
    "places": [sp.rank(), sp.local_rank(), sp.local_size(), sp.cross_rank(), sp.cross_size()],
    "homogeneous": sp.is_homogeneous(),
    "hosts": world.hosts,
    "sum": sp.allreduce(mine, sp.Sum).numpy().tolist(),
    "large": float(tf.reduce_max(sp.allreduce(tf.ones(300_000), sp.Sum))),
    "compiled": steps(mine).numpy().tolist(),
    "rows": sp.allgather(mine[: sp.rank() + 1]).numpy().tolist(),
    "last": sp.broadcast(mine, 3).numpy().tolist(),
    "of_the_host": world.host.allgather_object(sp.rank()),
}
sp.stop_timeline()


training = partial(
    train,
    poisson(),
    network=partial(MLP, width=4, depth=1),
    points=40,
    log_every=5,
    evaluation_points=11,
    progress=False,
    checkpoint=Checkpoint("shared"),
    resume="auto",
)
first, longer = (training(steps=steps).members[0] for steps in (10, 20))
found["first"] = np.ravel(first.losses).tolist()
found["longer"] = np.ravel(longer.losses).tolist()
Path(f"rank-{sp.rank()}.json").write_text(json.dumps(found))
