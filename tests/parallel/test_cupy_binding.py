"""The calls to CuPy, on recorded fakes, and the fakes' interface next to the real one's.

test_collectives.py shows that the calls have the right arguments.
"""

from __future__ import annotations

import inspect
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from fake_cupy import (
    ERRORS,
    ILLEGAL_ADDRESS,
    NOT_READY,
    FakeNccl,
    FakeNcclCommunicator,
    FakeRuntime,
)
from mpi4py import MPI

import sciml_par.parallel as sp
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.transports import cupy_binding
from sciml_par.parallel.transports.cupy_binding import (
    BindingError,
    Gpu,
    MissingBindingError,
    Nccl,
    load_gpu,
    load_nccl,
)

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def gpu(runtime):
    return Gpu(runtime)


@pytest.fixture
def nccl(runtime):
    """NCCL for each rank alone."""
    return FakeNccl(MPI.COMM_SELF, runtime)


def test_every_element_type_and_operation_has_its_number(nccl):
    numbers = {name: Nccl(nccl).datatype(element) for name, element in ELEMENT_TYPES.items()}
    without = dict.fromkeys(("bool", "int16", "uint16", "complex64", "complex128"))
    integers = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5}
    floats = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
    assert numbers == {**without, **integers, **floats}
    assert Nccl(SimpleNamespace(NCCL_FLOAT32=7)).datatype(ELEMENT_TYPES["bfloat16"]) is None
    operations = (sp.Sum, sp.Product, sp.Max, sp.Min, sp.Average)
    assert [Nccl(nccl).operation(op) for op in operations] == [0, 1, 2, 3, 4]


def test_an_error_is_not_a_mark_still_ahead(gpu, runtime):
    """CuPy gives the code of cudaEventQuery back, and raises nothing."""
    event = gpu.new_event()
    runtime.code = ILLEGAL_ADDRESS
    with pytest.raises(BindingError, match="cudaEventQuery failed: cudaErrorIllegalAddress: an il"):
        gpu.has_passed(event)


ERRORS_OF = {
    "cudaGetDeviceProperties": ("getDeviceProperties", lambda gpu, _: gpu.name()),
    "cudaStreamCreate": ("streamCreateWithFlags", lambda gpu, _: gpu.new_stream()),
    "cudaEventRecord": ("eventRecord", lambda gpu, _: gpu.record(1, 0)),
    "cudaEventQuery": ("eventQuery", lambda gpu, _: gpu.has_passed(1)),
    "cudaMemcpyAsync": ("memcpyAsync", lambda gpu, _: gpu.copy_to_host(0, 0, 0, 0)),
    "ncclGetUniqueId": ("get_unique_id", lambda _, nccl: nccl.new_id()),
    "ncclCommInitRank": ("NcclCommunicator", lambda _, nccl: nccl.connect(1, bytes(128), 0)),
    "ncclCommSplit": ("commSplit", lambda _, nccl: nccl.connect(1, bytes(128), 0).split(0, 0)),
}


@pytest.mark.parametrize("reported", ERRORS_OF)
def test_errors_name_the_function(gpu, nccl, runtime, reported):
    function, use = ERRORS_OF[reported]
    for fake in (runtime, nccl):
        fake.failing[function] = "unhandled system error"
    with pytest.raises(BindingError, match=f"^{reported} failed: unhandled system error.$"):
        use(gpu, Nccl(nccl))


# Loading


@pytest.fixture
def installed(monkeypatch, runtime, nccl):
    """The fakes in the place of CuPy."""
    package, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    package.cuda, cuda.runtime, cuda.nccl = cuda, runtime, nccl
    monkeypatch.setitem(sys.modules, "cupy", package)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)


def test_a_gpu_that_is_not_the_first_is_told_to_each_thread(installed, runtime):
    gpu = load_gpu(2)
    # NCCL connects the GPU of the calling thread, and what is made belongs to it.
    assert runtime.calls[-1] == ("setDevice", (2,))
    for make in (gpu.new_stream, gpu.new_event):
        make()
        assert runtime.calls[-2] == ("setDevice", (2,))
    assert gpu.name() == "Fake GPU" and runtime.calls[-1] == ("getDeviceProperties", (2,))


@pytest.mark.parametrize("load", (load_gpu, load_nccl))
def test_cupy_is_not_installed(load, monkeypatch):
    for name in ("cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingBindingError) as error:
        load()
    assert str(error.value).startswith("CuPy cannot be imported (")
    assert str(error.value).endswith("): pip install 'sciml-par[gpu]'")


def test_no_gpu(installed, runtime, monkeypatch):
    runtime.failing["getDeviceCount"] = "cudaErrorInsufficientDriver: too old"
    with pytest.raises(MissingBindingError, match=r"finds no GPU \(cudaErrorInsufficientDriver"):
        load_gpu()
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(MissingBindingError, match="^CUDA finds no GPU$"):
        load_gpu()


def test_nccl_is_found_missing_or_too_old(installed, nccl, monkeypatch):
    for code, found in ((21800, (2, 18, 0)), (23007, (2, 30, 7))):
        nccl.version = code
        assert load_nccl().version == found
    for code, version in ((21703, "2.17.3"), (20403, "2.4.3")):
        nccl.version = code
        with pytest.raises(MissingBindingError, match=f"{version} is too old, 2.18 is the oldest"):
            load_nccl()
    monkeypatch.setattr(nccl, "available", False)
    with pytest.raises(MissingBindingError, match=r"no NCCL: pip install 'sciml-par\[gpu\]'"):
        load_nccl()


def parameters_of_cython(function) -> list[str]:
    """Return the parameters without a default, from Cython's docstring."""
    text = re.search(r"\((.*?)\)", function.__doc__.splitlines()[0])[1]
    parameters = [p.split() for p in text.split(", ") if p and "=" not in p]
    return [words[-1] for words in parameters if words[-1] != "self"]


def parameters_of_python(function) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    return [name for name in needed if name != "self"]


def test_the_fakes_have_the_interface_and_the_numbers_of_cupy():
    pytest.importorskip("cupy", reason="CuPy is not installed: nothing to compare with")
    from cupy.cuda import nccl, runtime

    own = {"add", "enqueue", "record", "names"}
    for fake, real in (
        (FakeRuntime, runtime),
        (FakeNccl, nccl),
        (FakeNcclCommunicator, nccl.NcclCommunicator),
    ):
        for name, function in inspect.getmembers(fake, inspect.isfunction):
            if not name.startswith("_") and name not in own:
                theirs = parameters_of_cython(getattr(real, name))
                assert parameters_of_python(function) == theirs, name
        numbers = {name: value for name, value in vars(fake).items() if type(value) is int}
        assert numbers == {name: getattr(real, name) for name in numbers}
    assert runtime.streamNonBlocking == cupy_binding._NON_BLOCKING
    assert runtime.eventDisableTiming == cupy_binding._NO_TIMING
    assert cupy_binding._NOT_READY == NOT_READY
    for code, text in ERRORS.items():
        assert str(runtime.CUDARuntimeError(code)) == text
    # Event 0 is none, and there may be no driver; neither raises here.
    assert runtime.eventQuery(0) not in (0, NOT_READY)
