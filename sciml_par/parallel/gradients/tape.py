"""A gradient tape that reduces its gradients over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.arguments import list_of
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.reduction import Gradient, GradientReduction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp
from sciml_par.parallel.tensors.compression import Compressor


class DistributedGradientTape:
    """A `tf.GradientTape` that reduces its gradients over the ranks.

        with tf.GradientTape() as tape:
            loss = ...
        tape = DistributedGradientTape(tape)
        gradients = tape.gradient(loss, variables)   # (1/P) Σ_r ∇ loss_r

    Parameters
    ----------
    tape : the tape that computes this rank's gradients.
    op : Average, Sum, or Adasum.
    compression : the conversion of gradients for the transfer, such as Compression.fp16.
    sparse_as_dense : reduce `tf.IndexedSlices` as dense tensors. By default the slices of all ranks
        are gathered, which is less data if few rows have a gradient.
    gradient_predivide_factor : f splits the division of an Average: by f before the sum and by P/f
        after it, for element types of small range.
    groups : which gradients travel together: all (None), n parts of about equal length (n), or
        those of each list of variables, with the rest together.
    local_sources : the sources whose gradients are not reduced.
    scale_local_gradients : divide these by P.
    communicator, device : as for `allreduce`.

    Raises
    ------
    InputError
        An option is outside its range, or two options exclude each other.

    Notes
    -----
    All gradients of a group travel in one buffer per element type and 64 MiB. A gradient of None
    stays None, and must be None on every rank. `jacobian` is reduced as well, `batch_jacobian`
    raises `InputError`; all other methods are those of the inner tape.
    """

    def __init__(
        self,
        tape: Any,
        op: ReduceOp = Average,
        *,
        compression: type[Compressor] | None = None,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        groups: int | Sequence[Sequence[Any]] | None = None,
        local_sources: Sequence[Any] = (),
        scale_local_gradients: bool = True,
        communicator: Communicator | None = None,
        device: str | None = None,
    ) -> None:
        self._tape = tape
        self._reduction = GradientReduction(
            op,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=groups,
            scale_local_gradients=scale_local_gradients,
            communicator=communicator,
            device=device,
            where="DistributedGradientTape",
        ).with_local(*list_of(local_sources, "DistributedGradientTape", of="local sources"))

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self._tape.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def register_local_source(self, source: Any) -> None:
        """Add `source` to `local_sources` (local)."""
        self._reduction = self._reduction.with_local(source)

    @not_converted
    def gradient(self, target: Any, sources: Any, *args: Any, **options: Any) -> Any:
        """Return the gradient of `target` with respect to `sources`, reduced (collective).

        Parameters and result are those of `tf.GradientTape.gradient`.

        Raises
        ------
        CollectiveMismatchError
            The ranks do not have gradients by the same sources.
        """
        local = self._tape.gradient(target, sources, *args, **options)
        return tf.nest.pack_sequence_as(local, self._reduced(local, sources))

    @not_converted
    def jacobian(self, target: Any, sources: Any, *args: Any, **options: Any) -> Any:
        """Return the Jacobian of `target` with respect to `sources`, reduced (collective).

        Parameters and result are those of `tf.GradientTape.jacobian`: the Jacobian of the mean of
        the ranks' targets [...], which have the same shape on all ranks.

        Raises
        ------
        CollectiveMismatchError
            The ranks' targets have different shapes.
        """
        local = self._tape.jacobian(target, sources, *args, **options)
        return tf.nest.pack_sequence_as(local, self._reduced(local, sources))

    def batch_jacobian(self, *args: Any, **options: Any) -> Any:
        """Raise `InputError`: its rows belong to samples, which are others on each rank."""
        raise InputError(
            "DistributedGradientTape: batch_jacobian has one row for each sample, and the ranks "
            "have different samples, so nothing can be reduced. Call batch_jacobian of the "
            "tf.GradientTape that this tape was made of."
        )

    @not_converted
    def get_local_and_global_gradients(
        self, target: Any, sources: Any, *args: Any, **options: Any
    ) -> tuple[list[Gradient], list[Gradient]]:
        """Return the gradients in two lists, otherwise as `gradient` (collective).

        Returns
        -------
        The gradients by the local sources and those by all others, each in the order of `sources`.
        """
        found = self._reduced(self._tape.gradient(target, sources, *args, **options), sources)
        own: list[Gradient] = []
        reduced: list[Gradient] = []
        for gradient, source in zip(found, tf.nest.flatten(sources), strict=True):
            (own if self._reduction.is_local(source) else reduced).append(gradient)
        return own, reduced

    def _reduced(self, local: Any, sources: Any) -> list[Gradient]:
        return self._reduction.reduce(
            tf.nest.flatten(local, expand_composites=False), tf.nest.flatten(sources)
        )
