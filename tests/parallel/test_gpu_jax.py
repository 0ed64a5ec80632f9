"""The handler of compiled functions and NCCL on a GPU that TensorFlow does not see, through JAX.

JAX takes foreign functions by the same C interface of XLA. This needs neither TensorFlow nor an MPI
library, but JAX, CuPy, and a process that TensorFlow is not in:

    python -m pytest --noconftest -m gpu tests/parallel/test_gpu_jax.py

With JAX for the CPU and `-m "not gpu"`, a copy takes NCCL's place, to rehearse the tests.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from gpu_work import Busy, leave_out
from inside import (
    ELEMENT_TYPES,
    TESTED_VERSIONS,
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    NCCLTransport,
    Reducescatter,
    c_function,
    load_gpu,
    load_nccl,
    one_tensor,
)

from sciml_par.parallel import Sum

COUNT = 1 << 18
NUMBERS = itertools.count()


class Copies:
    """NCCL's work for one rank, on the host: the result is the input."""

    def prepared(self, request):
        nbytes = math.prod(request.shape) * request.element.size
        return lambda send, receive: ctypes.memmove(receive, send, nbytes)


class OnGpu:
    """NCCL of one rank."""

    def __init__(self):
        gpu, nccl = load_gpu(), load_nccl()
        self.nccl = NCCLTransport.connect(nccl, gpu, 0, 1, lambda shared: shared)

    def prepared(self, request):
        return self.nccl.prepare(request) if self.nccl.carries(request) else None


@pytest.fixture(scope="module", params=["cpu", pytest.param("CUDA", marks=pytest.mark.gpu)])
def platform(request):
    if "tensorflow" in sys.modules:
        pytest.skip("takes a process without TensorFlow: pytest --noconftest")
    # JAX would take three quarters of the GPU's memory, and leave NCCL without.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    found = jax.devices()[0].platform
    if (found in ("gpu", "cuda")) != (request.param == "CUDA"):
        leave_out(request.config, f"JAX computes on {found}")
    return request.param


@pytest.fixture(scope="module")
def transport(platform):
    return Copies() if platform == "cpu" else OnGpu()


KEPT = []
"""XLA keeps the bare pointers of handlers for the life of the process."""


def register(name, act, platform):
    """With the oldest version of the interface, from the tested one on, that this XLA takes."""
    import jax

    major, tested = TESTED_VERSIONS[0]
    for minor in range(tested, tested + 8):
        entry = c_function(act, (major, minor), iter(()))
        KEPT.append(entry)
        pointer = jax.ffi.pycapsule(ctypes.cast(entry, ctypes.c_void_p).value)
        try:
            return jax.ffi.register_ffi_target(name, pointer, platform=platform, api_version=1)
        except Exception as error:
            refusal = error
    raise refusal


def call_of(handler, request, platform):
    """The collective as a function of (x, token): the token keeps collectives in order."""
    import jax

    name = f"sciml_par_test_{next(NUMBERS)}"
    register(name, one_tensor(handler, with_stream=platform == "CUDA"), platform)
    kinds = (
        jax.ShapeDtypeStruct(request.receive_shape, request.element.numpy),
        jax.ShapeDtypeStruct((), np.float32),
    )
    return jax.ffi.ffi_call(name, kinds, has_side_effect=True)


def requests(dtype, n):
    """One of each kind, which gives one rank its own tensor."""
    return [
        Allreduce(dtype, (n,), Sum),
        Broadcast(dtype, (n,), 0),
        Allgather(dtype, (n,), (n,)),
        Reducescatter(dtype, (n,), Sum, (n,), 0),
        Alltoall(dtype, (n,), (n,), (n,)),
    ]


def test_types(platform, transport):
    import jax

    for dtype, element in ELEMENT_TYPES.items():
        for request in requests(dtype, 61) if element.nccl_name else []:
            call = call_of(transport.prepared(request), request, platform)
            x = (np.arange(61) % 100).astype(element.numpy)
            y, _ = jax.jit(call)(x, np.float32(0))
            np.testing.assert_array_equal(np.asarray(y), x, err_msg=f"{request}")


def in_turns(calls, x, steps):
    """A compiled loop of computations and collectives; modulo 2³² it forgets nothing."""
    import jax

    def body(i, state):
        x, token = state
        for call in calls:
            x, token = call(3 * x + 1, token)
        return x, token

    loop = jax.jit(lambda x: jax.lax.fori_loop(0, steps, body, (x, np.float32(0)))[0])
    return loop, lambda: np.asarray(loop(x))


def after(x, steps):
    for _ in range(steps):
        x = x * np.uint32(3) + np.uint32(1)
    return x


def test_computations_and_collectives_in_turns(platform, transport):
    each = requests("uint32", COUNT)
    calls = [call_of(transport.prepared(request), request, platform) for request in each]
    for x in (np.arange(COUNT, dtype=np.uint32), np.arange(COUNT, dtype=np.uint32)[::-1].copy()):
        _, run = in_turns(calls, x, 100)
        np.testing.assert_array_equal(run(), after(x, 100 * len(calls)))


def test_the_host_waits_for_no_collective(platform, transport):
    """The first one comes back while the GPU is at other work in front of it."""
    if platform != "CUDA":
        pytest.skip("takes the streams of a GPU")
    import jax

    busy, ahead, armed = Busy(), [], False
    request = Allreduce("uint32", (COUNT,), Sum)
    transfer = transport.prepared(request)

    def watched(send, receive, stream):
        if armed and not ahead:
            busy.put_on(stream)
        transfer(send, receive, stream)
        if armed:
            ahead.append(not busy.is_done())

    x = jax.device_put(np.arange(COUNT, dtype=np.uint32)).block_until_ready()
    loop, run = in_turns([call_of(watched, request, platform)], x, 100)
    run()
    armed = True
    np.testing.assert_array_equal(run(), after(np.arange(COUNT, dtype=np.uint32), 100))
    busy.release()
    assert len(ahead) == 100 and ahead[0]


@pytest.mark.launches
def test_nothing_here_takes_tensorflow_or_mpi():
    program = (
        "import sys\n"
        "for name in ('tensorflow', 'keras', 'mpi4py'): sys.modules[name] = None\n"
        "import test_gpu_jax\n"
    )
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, timeout=100, env={**os.environ, "PYTHONPATH": paths})
