"""Networks in overlapping windows, joined by a smooth partition of unity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_positive
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.networks.keras.factory import is_factory, make_network
from sciml_par.networks.keras.windowed_model import WindowedModel, partition_of
from sciml_par.networks.models.polynomials import Polynomials
from sciml_par.networks.propagation.partition import Partition


@dataclass(frozen=True)
class Windows(ByName):
    r"""Makes networks u(x) = Σ_k w_k(x) N_k(z_k(x)) of overlapping windows.

    The box of the points is divided into parts. Around each of them lies a window, which reaches
    into its neighbours, with a network N_k in coordinates z_k that are in [−1, 1] there. The
    weights w_k are a smooth partition of unity (`Partition`), so that u is three times
    continuously differentiable. Only neighbours couple, which `LeastSquares` makes use of (finite
    basis networks: Moseley, Markham and Nissen-Meyer 2023, doi:10.1007/s10444-023-10065-9; with
    random features: Dong and Li 2021, arXiv:2012.02895).

    Parameters
    ----------
    inner : callable
        Makes the network of a window, `RandomFeatures`, `Polynomials` or `MLP`, or a
        `functools.partial` of these. Each window has other initial weights.
    parts : int or sequence of d ints
        The number of parts along each axis; one number is that of all axes.
    overlap : float
        By which a window reaches into the next part, in units of a part's side, in (0, 0.5]. The
        larger, the worse conditioned are the linear systems.
    splits : sequence of ints
        Numbers of parts to split into halves along each axis, one after another. The first half
        has the number of the part, and the others follow after all other parts; see `split`.
    unused : sequence of ints
        Numbers of parts without a window. `train` adds those that lie outside of the domain.
    enriched : sequence of ints
        Numbers of parts whose windows have twice as many random features; see `enrich`.

    Raises
    ------
    InputError
        A number of parts that is not a positive integer, an overlap outside of (0, 0.5], or a part
        to be split or enriched that does not exist; when a network is made, another number of
        axes, a network without dense layers alone, or enriched windows without random features.

    Examples
    --------
    >>> from functools import partial
    >>> from sciml_par.networks import RandomFeatures, Windows
    >>> model = Windows(partial(RandomFeatures, features=100), parts=(4, 4))(2, 1)
    >>> model.partition.count
    16
    >>> windows = Windows(partial(RandomFeatures, features=100), parts=(4, 4)).split(5, 6)
    >>> windows(2, 1).partition.count
    22
    """

    inner: Callable[..., Any]
    _: KW_ONLY
    parts: int | Sequence[int] = 4
    overlap: float = 0.15
    splits: Sequence[int] = ()
    unused: Sequence[int] = ()
    enriched: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not is_factory(self.inner):
            raise InputError(
                f"Windows: expected a function that makes the network of a window, such as "
                f"functools.partial(RandomFeatures, features=200); got {self.inner!r}."
            )
        several = isinstance(self.parts, Sequence | np.ndarray)
        given = tuple(self.parts) if several else (self.parts,)  # type: ignore[arg-type]
        checked = tuple(checked_integer(each, "Windows: parts", least=1) for each in given)
        object.__setattr__(self, "parts", checked if several else checked[0])
        if not is_positive(self.overlap) or self.overlap > 0.5:
            raise InputError(
                f"Windows: overlap must be in (0, 0.5], the part of a side by which a window "
                f"reaches into the next part; got {self.overlap!r}."
            )
        object.__setattr__(self, "overlap", float(self.overlap))
        for name in ("splits", "unused", "enriched"):
            numbers = (checked_integer(k, f"Windows: {name}", least=0) for k in getattr(self, name))
            object.__setattr__(self, name, tuple(numbers))

    def split(self, *numbers: int) -> Windows:
        """Return windows of which these parts are split into halves along each axis (local).

        Neighbours should differ by a factor of two at most, since a window is steep where it meets
        a much smaller one. All halves have as many features as a part at the beginning.
        """
        enriched = tuple(k for k in self.enriched if k not in numbers)
        return replace(self, splits=(*self.splits, *numbers), enriched=enriched)

    def enrich(self, *numbers: int) -> Windows:
        """Return windows of which these parts have twice as many random features (local).

        This resolves smooth solutions better than to split; see `split` for others.
        """
        return replace(self, enriched=(*self.enriched, *numbers))

    def partition(self, lower: Any, upper: Any) -> Partition:
        """Return the partition of a box: [d], [d] (local)."""
        return partition_of(
            self.parts, self.overlap, (lower, upper), self.splits, self.unused, self.enriched
        )

    def boxes(self, lower: Any, upper: Any) -> tuple[Any, Any]:
        """Return the corners of the parts of a box: [d], [d] -> [K, d], [K, d] (local)."""
        return self.partition(lower, upper).boxes()

    def __call__(
        self, inputs: int, outputs: int, *, seed: int = 0, dtype: str = "float64", box: Any = None
    ) -> WindowedModel | Polynomials:
        """Return a model for points of a box, [−1, 1]^d by default (local)."""
        around = ([-1.0] * inputs, [1.0] * inputs)
        made = make_network(self.inner, inputs, outputs, seed=seed, dtype=dtype, box=around).model
        if isinstance(made, Polynomials):
            return self._of_polynomials(made, around if box is None else box, dtype)
        return WindowedModel(
            inputs,
            outputs,
            inner=made,
            parts=self.parts,
            overlap=self.overlap,
            splits=self.splits,
            unused=self.unused,
            enriched=self.enriched,
            box=around if box is None else box,
            seed=seed,
            dtype=dtype,
        )

    def _of_polynomials(self, inner: Polynomials, box: Any, dtype: str) -> Polynomials:
        if self.splits or self.enriched:
            raise InputError(
                "Windows: polynomials are not split or enriched; give Polynomials the sides of "
                "its cells by breaks=, or a higher degree."
            )
        d = inner.input_size
        parts = partition_of(self.parts, self.overlap, box).parts
        lower, upper = (np.asarray(corner, np.float64) for corner in box)
        return Polynomials(
            d,
            inner.output_size,
            exponents=inner.exponents,
            breaks=[np.linspace(lower[i], upper[i], parts[i] + 1) for i in range(d)],
            overlap=self.overlap,
            dropped=self.unused,
            box=box,
            dtype=dtype,
        )
