"""Gradient tapes over the ranks, by Horovod's names."""

from __future__ import annotations

from typing import Any

from sciml_par import parallel
from sciml_par.horovod.common.arguments import gradient_options, groups_of, variables_of
from sciml_par.horovod.common.process_sets import ProcessSet, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted


def _with_horovods_flag(method: Any) -> Any:
    """Return a method that takes Horovod's flag in place of `unconnected_gradients`."""

    def called(
        self: Any,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: Any = False,
        *,
        unconnected_gradients: Any = None,
    ) -> Any:
        fourth = "none" if isinstance(use_generic_names, bool) else use_generic_names
        return method(self, target, sources, output_gradients, unconnected_gradients or fourth)

    called.__name__, called.__doc__ = method.__name__, method.__doc__
    return called


class _DistributedGradientTape(parallel.DistributedGradientTape):
    """The tape that `DistributedGradientTape` returns; see there for the parameters."""

    def __init__(
        self,
        tape: Any,
        device_dense: str,
        device_sparse: str,
        compression: Any,
        sparse_as_dense: bool,
        op: ReduceOp,
        gradient_predivide_factor: float,
        groups: Any,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        super().__init__(tape, op, **gradient_options(locals()))

    gradient = _with_horovods_flag(parallel.DistributedGradientTape.gradient)
    get_local_and_global_gradients = _with_horovods_flag(
        parallel.DistributedGradientTape.get_local_and_global_gradients
    )


@not_converted  # AutoGraph changes `locals`
def DistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a `tf.GradientTape` that reduces its gradients over the ranks.

        with tf.GradientTape() as tape:
            loss = ...
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, variables)

    Parameters
    ----------
    gradtape : the `tf.GradientTape` of this rank.
    device_dense, …, process_set : as for `DistributedOptimizer`.
    scale_local_gradients : divide the gradients by sources of `register_local_source` by P.
    """
    options = locals()
    options["tape"] = options.pop("gradtape")
    options["groups"] = groups_of(options.pop("num_groups"), groups)
    return _DistributedGradientTape(**options)


@not_converted  # AutoGraph changes `locals`
def PartialDistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a `DistributedGradientTape` that leaves some layers' gradients to each rank.

    Parameters
    ----------
    local_layers : a Keras layer, or several, whose gradients are not reduced.
    """
    options = locals()
    local = variables_of(options.pop("local_layers"))
    tape = DistributedGradientTape(**options)
    for variable in local:
        tape.register_local_source(variable)
    return tape
