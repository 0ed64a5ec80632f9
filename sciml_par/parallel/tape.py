"""A gradient tape whose gradients are those of all ranks together."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.fusion import fused_allreduce
from sciml_par.parallel.reduction import Average, ReduceOp


class DistributedGradientTape:
    """A `tf.GradientTape` that reduces its gradients over the ranks.

        with tf.GradientTape() as tape:
            loss = ...
        tape = DistributedGradientTape(tape)
        gradients = tape.gradient(loss, variables)   # (1/P) Σ_r ∇ loss_r

    Parameters
    ----------
    tape : what computes this rank's gradients.
    op : Average, as users of Horovod expect, or Sum.
    communicator, device : as for `allreduce`.

    Notes
    -----
    All gradients travel in one buffer per element type and 64 MiB. A gradient that is None stays
    None; it must be so on every rank. Everything else that a tape can do it does as the inner tape.
    """

    def __init__(
        self,
        tape: Any,
        op: ReduceOp = Average,
        *,
        communicator: Communicator | None = None,
        device: str | None = None,
    ) -> None:
        self._tape = tape
        self._op = op
        self._communicator = communicator
        self._device = device

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self._tape.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    @as_written
    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        """The gradient of `target` with respect to `sources`, reduced (collective).

        Parameters and result are those of `tf.GradientTape.gradient`; a sparse gradient
        (IndexedSlices) comes back dense.
        """
        local = self._tape.gradient(target, sources, output_gradients, **options)
        flat = tf.nest.flatten(local, expand_composites=False)
        present = [tf.convert_to_tensor(g) for g in flat if g is not None]
        reduced = iter(
            fused_allreduce(present, self._op, communicator=self._communicator, device=self._device)
        )
        complete = [None if g is None else next(reduced) for g in flat]
        return tf.nest.pack_sequence_as(local, complete)
