"""Predictions, and the data they were trained on, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_columns, as_real, check_finite, check_label, keep
from sciml_par.evaluation.metrics.norms import relative_l2_error


@dataclass(frozen=True, eq=False)
class Shard:
    """The part of the domain, and the points in it, that one rank or member was trained on.

    Attributes
    ----------
    label : str
        Name in the legend, such as "rank 0".
    training_points : array [k, d] or [k] (read as [k, 1]), optional
        The points of the training set; k may be 0.
    sub_domain : (lower, upper), optional
        Opposite corners of the sub-domain: two numbers if d = 1, else two arrays [d].

    Raises
    ------
    InputError
        If a shape is wrong, a number is not finite, or not lower < upper.
    """

    label: str
    training_points: np.ndarray | None = None
    sub_domain: tuple[ArrayLike, ArrayLike] | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "Shard.label")
        if self.training_points is not None:
            where = f"Shard {self.label!r}, training_points"
            points = as_columns(self.training_points, where)
            check_finite(points, where)
            keep(self, training_points=points)
        if self.sub_domain is not None:
            keep(self, sub_domain=_corners(self.sub_domain, self.label))

    @property
    def corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The sub-domain as two arrays [d], or None if it is not known."""
        if self.sub_domain is None:
            return None
        lower, upper = self.sub_domain
        return np.asarray(lower), np.asarray(upper)

    @property
    def dimension(self) -> int | None:
        """The d of the points or of the sub-domain; None if the shard holds neither."""
        if self.training_points is not None and self.training_points.size:
            return int(self.training_points.shape[1])
        return None if self.corners is None else int(self.corners[0].size)


@dataclass(frozen=True, eq=False)
class Prediction:
    """One trained network, evaluated at points, with the data it was trained on.

    An ensemble is drawn from one `Prediction` a member, with one shard each. A model that all
    ranks train together is one `Prediction` with one shard a rank.

    Attributes
    ----------
    label : str
        Name in the legend, such as "rank 1, member 2".
    x : array [n, d] or [n] (read as [n, 1])
        Where the network was evaluated, in any order; finite.
    u : array [n, m] or [n] (read as [n, 1])
        The prediction u(x). Values that are not finite are kept, and named in the legend.
    u_exact : array [n, m] or [n], optional
        The exact solution u*(x) at the same points; None or NaN where it is not known.
    shards : tuple of Shard
        The parts it was trained on; may be empty.
    sound : bool
        False leaves it out of the mean over members, for example if it diverged.
    inside : array [n] of bool, optional
        Whether each point lies in the domain, by default all do. The others are not drawn and
        count in no error.
    coordinates : d names, optional
        Such as ("x", "t"); by default "x", or "x_1", "x_2", …. A name is a letter, a letter with an
        index after "_", a word, or Matplotlib's mathematics between two "$".
    fields : m names, optional
        Of the outputs, such as ("u", "v", "p"); by default "u", or "u_1", "u_2", ….
    estimated_error : array [n, m] or [n], optional
        An estimate of u* − u at the same points, such as `ErrorEstimate.values`; for the figure.

    Raises
    ------
    InputError
        If there are no points, or the shapes of x, u, u_exact, estimated_error, inside, the names
        and the shards do not agree.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.evaluation import Prediction, Shard
    >>> x = np.linspace(-1.0, 1.0, 101)
    >>> left = Shard("rank 0", training_points=x[:50:5], sub_domain=(-1.0, 0.0))
    >>> right = Shard("rank 1", training_points=x[50::5], sub_domain=(0.0, 1.0))
    >>> u = np.sin(np.pi * x)
    >>> Prediction("prediction", x, u, u_exact=u, shards=(left, right)).components
    1
    """

    label: str
    x: np.ndarray
    u: np.ndarray
    u_exact: np.ndarray | None = None
    shards: tuple[Shard, ...] = ()
    sound: bool = True
    inside: np.ndarray | None = None
    coordinates: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    estimated_error: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "Prediction.label")
        where = f"Prediction {self.label!r}"
        x, u = as_columns(self.x, f"{where}, x"), as_columns(self.u, f"{where}, u")
        check_finite(x, f"{where}, x")
        if len(x) == 0 or len(x) != len(u):
            raise InputError(
                f"{where}: expected x of shape [n, d] and u of shape [n, m] with the same n >= 1; "
                f"got x {list(x.shape)} and u {list(u.shape)}. Evaluate the network at every row "
                "of x."
            )
        keep(self, x=x, u=u, shards=_checked_shards(self.shards, x.shape[1], where))
        for name in ("u_exact", "estimated_error"):
            if (values := getattr(self, name)) is not None:
                keep(self, **{name: as_columns(values, f"{where}, {name}")})
                if (shape := getattr(self, name).shape) != u.shape:
                    raise InputError(
                        f"{where}, {name}: expected the shape of u, {list(u.shape)}; got "
                        f"{list(shape)}. Evaluate it at every row of x."
                    )
        keep(self, inside=_mask(self.inside, len(x), where))
        for name, count, letter in (("coordinates", x.shape[1], "x"), ("fields", u.shape[1], "u")):
            keep(self, **{name: _names(getattr(self, name), count, letter, f"{where}, {name}")})

    @property
    def known(self) -> bool:
        """Whether there is an exact solution to compare with."""
        return self.u_exact is not None and not bool(np.isnan(self.u_exact[self.inside]).all())

    @property
    def exact(self) -> np.ndarray:
        """The exact solution, [n, m]: all NaN where it is not known."""
        return np.full_like(self.u, np.nan) if self.u_exact is None else self.u_exact

    @property
    def relative_l2_error(self) -> float:
        """‖u − u*‖₂ / ‖u*‖₂ over the values u* that are known (dimensionless).

        NaN if none are, or all are zero.
        """
        there = np.asarray(self.inside)[:, None] & ~np.isnan(self.exact)
        exact = self.exact[there]
        return relative_l2_error(self.u[there], exact) if exact.any() else float("nan")

    @property
    def dimension(self) -> int:
        """The number d of coordinates of a point."""
        return int(self.x.shape[1])

    @property
    def components(self) -> int:
        """The number m of outputs at a point."""
        return int(self.u.shape[1])

    @property
    def trained(self) -> np.ndarray:
        """Mask [n] of the points of the domain that lie in a sub-domain, where all shards tell."""
        boxes = [shard.corners for shard in self.shards if shard.corners is not None]
        if not boxes or len(boxes) < len(self.shards):
            return np.asarray(self.inside)
        covered = [((self.x >= lo) & (self.x <= hi)).all(axis=1) for lo, hi in boxes]
        return np.asarray(np.any(covered, axis=0) & self.inside)


def _checked_shards(shards: tuple[Shard, ...], dimension: int, where: str) -> tuple[Shard, ...]:
    if isinstance(shards, Shard) or not all(isinstance(shard, Shard) for shard in shards):
        raise InputError(f"{where}: expected shards to be a tuple of Shard; got {shards!r}.")
    for shard in shards:
        if shard.dimension not in (None, dimension):
            raise InputError(
                f"{where}: x has d = {dimension}, but shard {shard.label!r} has d = "
                f"{shard.dimension}. Pass points [k, d] and corners [d] of the same d."
            )
    return tuple(shards)


def _corners(sub_domain: tuple[ArrayLike, ArrayLike], label: str) -> tuple[np.ndarray, np.ndarray]:
    where = f"Shard {label!r}, sub_domain"
    if not isinstance(sub_domain, tuple | list) or len(sub_domain) != 2:
        raise InputError(f"{where}: expected a pair (lower, upper); got {sub_domain!r}.")
    lower, upper = (np.atleast_1d(as_real(corner, where)) for corner in sub_domain)
    agree = lower.ndim == 1 and lower.shape == upper.shape
    # Written so that a NaN fails, as no comparison with it is true.
    if not agree or not np.all((lower < upper) & np.isfinite(upper - lower)):
        raise InputError(
            f"{where}: expected finite lower < upper, numbers or arrays [d]; got {sub_domain!r}."
        )
    return lower, upper


def _mask(inside: ArrayLike | None, points: int, where: str) -> np.ndarray:
    mask = np.ones(points, dtype=bool) if inside is None else np.array(inside)
    if mask.dtype != bool or mask.shape != (points,) or not mask.any():
        raise InputError(
            f"{where}, inside: expected an array of {points} bool, one a row of x and at least one "
            f"of them True; got shape {list(mask.shape)} of {mask.dtype}."
        )
    mask.flags.writeable = False
    return mask


def _names(names: tuple[str, ...], count: int, letter: str, where: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) not in (0, count):
        raise InputError(f"{where}: expected {count} names in a tuple; got {names!r}.")
    for name in names:
        check_label(name, where)
        is_mathematics = len(name) > 2 and name[0] == name[-1] == "$"
        if "$" in (name[1:-1] if is_mathematics else name):
            raise InputError(
                f"{where}: expected a name such as 'x', 'u_1' or 'temperature', or mathematics "
                f"between two '$'; got {name!r}."
            )
    default = (letter,) if count == 1 else tuple(f"{letter}_{k + 1}" for k in range(count))
    return tuple(names) or default
