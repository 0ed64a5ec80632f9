"""Collectives inside XLA-compiled functions: custom calls that execute a `CallSite`'s calls.

Order. XLA keeps program order only among operations that depend on each other. Therefore every
collective reads a scalar variable, passes it through its custom call and writes it back.
TensorFlow threads variables through loops, branches and nested functions in program order, so all
collectives of a program depend on each other, and all ranks run them in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_lifetime import (
    graphs_under_construction,
    hidden_variable,
    with_the_graph,
)
from sciml_par.parallel.execution.vectorized import AllPasses, convert_to_nothing
from sciml_par.parallel.execution.xla_call_sites import (
    Act,
    CallSites,
    Frame,
    OnHost,
    Role,
    gpu_handler,
    on_copies,
    one_tensor,
    operands,
    results,
    stream,
)
from sciml_par.parallel.execution.xla_ffi import CUDA, HOST, UnavailableError, foreign_calls
from sciml_par.parallel.execution.xla_module import SCALAR, TARGET, ArrayType, custom_call
from sciml_par.parallel.groups.call_site import CallSite, PreparedCall
from sciml_par.parallel.groups.world import present_world
from sciml_par.parallel.native.code import native_code
from sciml_par.parallel.requests.request import Shape
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.tensors.packing import shape_of

if TYPE_CHECKING:
    from sciml_par.parallel.execution.tensor_bundle_call import TensorBundleCall


class Bridge:
    """Puts custom calls into programs."""

    def __init__(self, *, with_gpus: bool) -> None:
        self._foreign = foreign_calls()
        self.sites = CallSites()
        self._register_on_host()
        self._platforms = ["CPU"]
        self.takes_bundles = not with_gpus
        """Whether one custom call may take many tensors."""
        if with_gpus:
            self._foreign.register(TARGET, CUDA, self.sites.act(Role.GPU))
            self._platforms.append("CUDA")
        # XLA wants a program's variables on the program's device. On a GPU, TensorFlow would keep
        # an integer in host memory.
        self._orders = {
            kind: hidden_variable(0.0, tf.float32, "sciml_par_order", device=f"/{kind}:0")
            for kind in ["CPU", "GPU"][: 1 + with_gpus]
        }

    def _register_on_host(self) -> None:
        """Let XLA call the machine code if the ranks have it, otherwise Python."""
        if self._foreign.has(TARGET, HOST):
            return  # a target keeps its first entries for the life of the process
        world = present_world()
        if world is None or world.communicator.native.obstacle:
            self._foreign.register(TARGET, HOST, self.sites.act(Role.HOST))
            return
        code, roles = native_code(), (Role.HOST, Role.RESUME, Role.FAIL)
        code.set_entries(*(self._foreign.entry(self.sites.act(role)) for role in roles))
        self._foreign.register_address(TARGET, HOST, code.handler)

    def _add(
        self,
        call: PreparedCall,
        reading: Callable[[Callable[..., object]], Act],
        more: Mapping[Role, Act],
    ) -> int:
        """Return the number of a new call site; machine code serves it if it can.

        reading : gives, for a function of addresses, the act that reads them from a frame.
        """
        execute, resume = reading(call.execute), reading(call.resume)
        number = self.sites.add(
            {Role.HOST: execute, Role.RESUME: resume, Role.FAIL: call.fail, **more}
        )
        if call.shared is not None:
            call.shared.enter(number, call.announcement)
            with_the_graph(None, call.shared.leave, number)
        return number

    def order(self) -> Any:
        """Return the handle of the order's variable in the graph under construction, for `emit`."""
        graph = tf.compat.v1.get_default_graph()
        kind = _device_kind() if len(self._orders) > 1 else "CPU"
        return graph.capture(self._orders[kind].handle)

    def emit(
        self,
        call_site: CallSite,
        x: Any,
        order: Any,
        all_passes: AllPasses,
        *,
        on_host: bool = False,
    ) -> Any:
        """Put a collective into the graph under construction."""
        more = {}
        if "CUDA" in self._platforms:
            handler = gpu_handler(call_site, on_host=on_host)
            more[Role.GPU] = one_tensor(handler, with_stream=True)
        call = call_site.prepared(call_site.communicator.mpi_transport)
        number = self._add(call, lambda run: one_tensor(run, with_stream=False), more)
        return self._call(number, [x], [call_site.request.receive_shape], order, all_passes)[0]

    def emit_bundle(
        self, call: TensorBundleCall, xs: Sequence[Any], order: Any, all_passes: AllPasses
    ) -> list[Any]:
        """Put a collective on many tensors into the graph under construction, as `emit`."""
        n = len(xs)
        number = self._add(call, lambda run: lambda f: run(operands(f, n).tobytes()), {})
        # XLA would copy each result separately to its place in a loop.
        return self._call(number, xs, [shape_of(x) for x in xs], order, all_passes, in_place=n)

    def on_host_here(self) -> bool:
        """Return whether the program under construction will run on the host alone."""
        return len(self._orders) == 1 or _device_kind() == "CPU"

    def emit_host_function(
        self, act: OnHost, xs: Sequence[Any], shapes: Sequence[Shape]
    ) -> list[Any]:
        """Put a call of `act` into the graph under construction."""
        dtype = xs[0].dtype.name
        sent = [ArrayType(dtype, shape_of(x)) for x in xs]
        received = [ArrayType(dtype, shape) for shape in shapes]

        def places(frame: Frame) -> tuple[list[int], list[int]]:
            return operands(frame, len(sent)).tolist(), results(frame, len(received)).tolist()

        acts: dict[Role, Act] = {Role.HOST: lambda frame: act(*places(frame))}
        if "CUDA" in self._platforms:
            world = present_world()
            nbytes = [[each.nbytes for each in kinds] for kinds in (sent, received)]
            run = on_copies(world.communicator.gpu if world else None, act, *nbytes)
            acts[Role.GPU] = lambda frame: run(*places(frame), stream(frame))
        return custom_call(xs, sent, received, self.sites.add(acts), self._platforms)

    def failing(self, act: Callable[[], None], operand: Any) -> Any:
        """Return a call that fails with the error that `act` raises, in a plain graph."""
        number, flag = self.sites.add({Role.HOST: lambda _: act()}), ArrayType("bool", ())
        with tf.device("/CPU:0"):
            return custom_call([operand], [flag], [flag], number, ["CPU"])[0]

    def _call(
        self,
        number: int,
        xs: Sequence[Any],
        shapes: Sequence[Shape],
        order: Any,
        all_passes: AllPasses,
        *,
        in_place: int = 0,
    ) -> list[Any]:
        """Return the results of a custom call in the order of collectives."""
        dtype = xs[0].dtype.name
        token = tf.raw_ops.ReadVariableOp(resource=order, dtype=tf.float32)
        *ys, token = custom_call(
            [*xs, token],
            [*(ArrayType(dtype, shape_of(x)) for x in xs), SCALAR],
            [*(ArrayType(dtype, shape) for shape in shapes), SCALAR],
            number,
            self._platforms,
            in_place=in_place,
        )
        all_passes.convert(token.op, len(xs), len(xs))
        passed_on = tf.raw_ops.AssignVariableOp(resource=order, value=token)
        convert_to_nothing(passed_on)
        with tf.control_dependencies([passed_on]):
            return [tf.identity(y) for y in ys]


def _device_kind() -> str:
    """Return "CPU" if the program under construction was placed there, otherwise "GPU"."""
    from tensorflow.python.eager import context

    # A function does not inherit the device of its caller's graph.
    asked = context.context().device_name or ""
    return "CPU" if tf.DeviceSpec.from_string(asked).device_type == "CPU" else "GPU"


@lru_cache(maxsize=1)
def bridge() -> Bridge:
    """Return the bridge of this process, or raise `InputError` with the obstacle."""
    try:
        return Bridge(with_gpus=has_gpus())
    except UnavailableError as reason:
        raise InputError(
            f"A collective in tf.function(jit_compile=True) needs foreign calls from XLA, but "
            f"{reason}. Use TensorFlow 2.21, or leave jit_compile out."
        ) from None


def only_functions_under_construction() -> bool:
    """Return whether no loop or branch is under construction."""
    from tensorflow.python.framework.func_graph import FuncGraph

    graphs = graphs_under_construction()
    # Those of loops and branches are of derived classes.
    return all(type(each) is FuncGraph for each in graphs if isinstance(each, FuncGraph))


def in_compiled_function() -> bool:
    """Return whether XLA will compile the graph under construction as a whole."""
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))
