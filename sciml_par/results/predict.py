"""Predictions of trained members at any points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, checked_number
from sciml_par._masked import with_gaps
from sciml_par._other_names import OtherAttributes
from sciml_par._rounding import coarse_rounding
from sciml_par._text import counted
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.metrics.norms import relative_l2_error
from sciml_par.problems.checks.arrays import Array
from sciml_par.problems.checks.functions import as_columns
from sciml_par.problems.checks.names import coordinate_names
from sciml_par.results.member import Member, in_the_mean, numbers_text
from sciml_par.results.trained_field import TrainedField

_VALUES_AT_ONCE = 1 << 18  # points × members
FEWEST_ROWS = 256
_MARGIN = 1e-3  # of a domain's width
_MEMBERS_BEYOND = 2.5
"""How many members must lie outside of an interval on each side for its ends to be quantiles."""


class EnsemblePrediction(OtherAttributes):
    """The predictions of trained members at n points, as `Result.predict` returns them.

    Attributes
    ----------
    x : the points, [n, d].
    mean : over the members that finished, [n, m].
    deviation : their standard deviation, with M − 1 in the denominator, [n, m]; NaN for one.
    lower, upper : the ends of the interval that was asked for, [n, m]; None without `interval`.
    interval : its probability, or None.
    left_out : the numbers of the members that are not in mean and deviation.
    """

    def __init__(
        self, predictor: Predictor, x: Array, *, batch_size: int, interval: float | None = None
    ) -> None:
        self.x, self.interval = x, interval
        self.lower: Array | None = None
        self.upper: Array | None = None
        self.left_out = predictor.left_out
        self._predictor, self._batch_size = predictor, batch_size
        shape, dtype = (len(x), predictor.outputs), predictor.dtype
        self.mean, self.deviation = np.empty(shape, dtype), np.empty(shape, dtype)
        if interval is not None:
            self.lower, self.upper = np.empty(shape, dtype), np.empty(shape, dtype)
        for rows, values in predictor.batches(x, batch_size):
            used = values[predictor.used].astype(np.float64)
            self.mean[rows] = used.mean(axis=0)
            self.deviation[rows] = used.std(axis=0, ddof=1) if len(used) > 1 else np.nan
            if interval is not None and self.lower is not None and self.upper is not None:
                self.lower[rows], self.upper[rows] = interval_of(used, interval)

    @cached_property
    def members(self) -> Array:
        """The predictions of all members, those left out of the mean included: [M, n, m]."""
        predictor = self._predictor
        found = np.empty((predictor.members, len(self.x), predictor.outputs), predictor.dtype)
        for rows, values in predictor.batches(self.x, self._batch_size):
            found[:, rows] = values
        return found

    @cached_property
    def error(self) -> Array:
        """The estimated error |e| of the mean at x, [n, m]; NaN where it is not known.

        It is numerical: what errors of observed values do to u is in `Uncertainty.bands`.

        Of a loaded result, it is known at the evaluation points.
        """
        return self._predictor.error(self.x)

    def relative_l2_error(self, exact: Any, *, where: Any = True) -> float:
        """Return ‖u − u*‖₂ / ‖u*‖₂ of the mean at x (dimensionless, local).

        Parameters
        ----------
        exact : u*, a function x: [n, d] -> [n, m], or its values [n, m].
        where : what counts, as one side of an interface: booleans [n] or [n, m], or a function of
            x that returns them. Values u* that are NaN never count.

        Raises
        ------
        InputError
            exact or where have other shapes, or u* is zero wherever it counts.
        """
        what, (n, m) = "EnsemblePrediction.relative_l2_error", self.mean.shape
        true, counts = (given(self.x) if callable(given) else given for given in (exact, where))
        true, counts = as_columns(true, n, what=f"{what}: exact", columns=m), np.asarray(counts)
        if counts.dtype != bool or counts.shape not in ((), (n,), (n, 1), (n, m)):
            raise InputError(
                f"{what}: expected where to be booleans [{n}] or [{n}, {m}], as x[:, 0] < 1 gives "
                f"them; got {list(counts.shape)} of {counts.dtype}."
            )
        counts = (counts[:, None] if counts.ndim == 1 else counts) & ~np.isnan(true)
        return relative_l2_error(np.asarray(self.mean[counts], np.float64), true[counts])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Let NumPy and Matplotlib take the mean, [n, m]."""
        return np.array(self.mean, dtype)

    def __repr__(self) -> str:
        total = self._predictor.members
        out = f", {numbers_text(self.left_out)} left out" if self.left_out else ""
        return (
            f"EnsemblePrediction of {counted(total, 'member')}{out}: mean and deviation "
            f"{list(self.mean.shape)}, members {[total, *self.mean.shape]}, {self.mean.dtype}"
        )


def interval_of(values: Array, probability: float) -> tuple[Array, Array]:
    """Return lower and upper ends for a further member, of those of M > 1 members: [M, ...]."""
    from scipy.stats import t

    members, outside = len(values), (1 - probability) / 2
    if members * outside >= _MEMBERS_BEYOND:
        lower, upper = np.quantile(values, [outside, 1 - outside], axis=0, method="weibull")
        return lower, upper
    spread = values.std(axis=0, ddof=1) * np.sqrt(1 + 1 / members)
    half, mean = t.ppf(1 - outside, members - 1) * spread, values.mean(axis=0)
    return mean - half, mean + half


OfMembers = Callable[[Array, Array], Array]
"""A quantity of members that are alike: weights [M, p] and x: [n, d] -> [M, n, m]."""


class Predictor:
    """Members with their weights and fields, those of one field stacked."""

    where = "Result.predict"

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = len(members)
        entering = zip(members, in_the_mean(members), strict=True)
        self.left_out = tuple(member.number for member, enters in entering if not enters)
        self.used = [m.number not in self.left_out for m in members]
        self._stacks: list[tuple[OfMembers, list[int], Array]] = []
        groups: dict[tuple[TrainedField, str], list[int]] = {}
        for j, member in enumerate(members):
            key = field_of_member(member), kept_weights(member).dtype.name
            groups.setdefault(key, []).append(j)
        for (field, _), alike in groups.items():
            weights = np.stack([kept_weights(members[j]) for j in alike])
            self._stacks.append((field.of_members, alike, weights))
        errors = [member.error for member in members if member.number not in self.left_out]
        self._error = errors[0] if len(errors) == 1 else None
        self._domains = [m.form.domain for m in members if m.number not in self.left_out]
        first = members[0].prediction
        self.dimension, self.outputs = first.x.shape[1], first.u.shape[1]
        self.dtype = np.result_type(*(weights for _, _, weights in self._stacks))

    def error(self, x: Array) -> Array:
        """Return the estimated error of a single member at x, [n, m], or NaN."""
        if self._error is None:
            return np.full((len(x), self.outputs), np.nan)
        return np.abs(self._error.values_at(np.asarray(x, np.float64)))

    def batches(self, x: Array, size: int) -> Iterator[tuple[slice, Array]]:
        """Yield up to `size` rows of x: [n, d] at a time, and all members' values [M, rows, m]."""
        # The rows are filled up to a power of four, so that few numbers of points are compiled for.
        length = FEWEST_ROWS
        while length < len(x):
            length *= 4
        length = min(size, length)
        for first in range(0, len(x), length):
            part = x[first : first + length]
            whole = np.concatenate([part, np.repeat(part[-1:], length - len(part), axis=0)])
            values = np.empty((self.members, len(part), self.outputs), self.dtype)
            for of_members, places, weights in self._stacks:
                values[places] = of_members(weights, whole)[:, : len(part)]
            yield slice(first, first + len(part)), values

    def predict(
        self, x: Any, *, batch_size: int | None, interval: float | None = None
    ) -> EnsemblePrediction:
        """Predict at x: [n, d]; see `Result.predict`."""
        points = self.points(x)
        if interval is not None:
            interval = self._checked(interval)
        if self.left_out:
            warnings.warn(
                f"{self.where}: {numbers_text(self.left_out)} did not finish, and "
                f"{'is' if len(self.left_out) == 1 else 'are'} not in mean and deviation.",
                RuntimeWarning,
                stacklevel=4,
            )
        outside = self._outside(points)
        if len(outside):
            warnings.warn(
                f"{self.where}: {len(outside)} of {len(points)} points lie outside of the domain "
                f"that the training was on, the first of them {points[outside[0]].tolist()}; "
                f"there a network extrapolates.",
                RuntimeWarning,
                stacklevel=4,
            )
        size = max(FEWEST_ROWS, _VALUES_AT_ONCE // self.members)
        if batch_size is not None:
            size = checked_integer(batch_size, f"{self.where}: batch_size", least=1)
        return EnsemblePrediction(self, points, batch_size=size, interval=interval)

    def _checked(self, interval: Any) -> float:
        """Return the probability of an interval that the members can give."""
        probability = checked_number(interval, "Result.predict: interval")
        if not 0 < probability < 1:
            raise InputError(
                f"Result.predict: interval is a probability between 0 and 1, as 0.95; got "
                f"{interval!r}."
            )
        if sum(self.used) < 2:
            raise InputError(
                "Result.predict: interval= is that of several members, and there is one. "
                "result.uncertainty().bands(x) is what the data leave open of one model; or train "
                "more on samples of the observations, as mode=Ensemble(members=16, bootstrap=True)."
            )
        return probability

    def _outside(self, x: Array) -> Array:
        """Return the rows outside of the boxes around the domains of all members in the mean."""
        outside = np.ones(len(x), np.bool_)
        for domain in self._domains:
            if domain is None:
                return np.empty(0, np.int64)
            low, high = np.array(domain)
            margin = _MARGIN * (high - low) + np.finfo(x.dtype).eps * np.abs(domain).max()
            outside &= np.any((x < low - margin) | (x > high + margin), axis=1)
        return np.flatnonzero(outside)

    def points(self, x: Any) -> Array:
        """Return points as [n, d], in the precision of the weights."""
        d, unread = self.dimension, np.empty((0, 0, 0))
        try:
            given = with_gaps(x)
            # Of complex numbers NumPy would drop the imaginary parts.
            read = x is not None and not np.iscomplexobj(given)
            points = np.asarray(given, np.float64) if read else unread
        except (TypeError, ValueError):
            points = unread
        if points.ndim < 2 and d == 1:
            points = points.reshape(-1, 1)
        if points.ndim != 2 or points.shape[1] != d:
            what = f"a {type(x).__name__} that NumPy does not read as real numbers"
            shape = what if points is unread else list(np.shape(points))
            point = f" One point is [[{', '.join(['0.5'] * d)}]]." if points.ndim == 1 else ""
            raise InputError(
                f"{self.where}: expected points x of the shape [n, {d}], a row for each; got "
                f"{shape}.{point}"
            )
        coarse = coarse_rounding(points[np.isfinite(points).all(axis=1)], self.dtype.name)
        if coarse is not None and coarse.coincide:
            text = coarse.text(self.dtype.name, "the points", coordinate_names(d))
            warnings.warn(f"{self.where}: {text}", RuntimeWarning, stacklevel=5)
        return points.astype(self.dtype)


def field_of_member(member: Member) -> TrainedField:
    """Return the field of a member."""
    if member.weights is None or not isinstance(member.prediction, Prediction):
        trained = f" and on rank {member.rank}, where it was trained" if member.rank else ""
        raise InputError(
            f"Result: the weights of member {member.number} are on rank 0{trained}. Predict on "
            f"rank 0, which has those of all members; in mode 'data' all ranks have them. For "
            f"predictions on every rank, load what result.save(folder) has written: "
            f"Result.load(folder)."
        )
    if not isinstance(member.field, TrainedField):
        missing = f"the network of member {member.number} is not here."
        raise InputError(f"Result: {member.field or missing}")
    return member.field


def kept_weights(member: Member) -> Array:
    """Return the weights that predict, [p]."""
    assert member.weights is not None
    return member.weights.best if member.kept == "best" else member.weights.last
