"""A term of the loss, and the check that its residual has the shape it must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sciml_par._partial_operators import order_of
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.functions import refuse_trainable
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Plan
from sciml_par.problems.fields.recording import Parametrized, Trace, trace

Arrays = tuple[FloatArray, ...]

# A residual with as many components as points, and more than these, is a mistake, not a system.
MANY_EQUATIONS = 16


@dataclass(frozen=True)
class Sums:
    """Residuals r = S f − v that couple points, by what single points have.

    Attributes
    ----------
    function : f: (u, *arrays) -> [n, c], row by row.
    arrays : of all arrays of r, those of f, the matrix S: [k, n], also a sparse one, and v: [k, c].
    """

    function: Callable[..., tf.Tensor]
    arrays: Callable[..., tuple[Arrays, Any, FloatArray]]


_REMEDY = (
    "return a row for each point: keep both axes, as x[:, 0:1] in place of x[:, 0] and "
    "keepdims=True in sums (tf.ensure_shape states an unknown shape); compute with TensorFlow in "
    "the dtype of x, as tf.cast(..., x.dtype); join equations with tf.concat([...], axis=1), or "
    "give the problem several Residuals"
)


@dataclass(frozen=True)
class _Shifted:
    """(u, *arrays, e) -> r(u, *arrays) − e, of a residual r."""

    inner: Callable[..., tf.Tensor]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the unknowns that r takes."""
        return tuple(getattr(self.inner, "names", ()))

    def __call__(self, u: Any, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute r − e: [k, c] (local)."""
        *given, e = arrays
        return self.inner(u, *given) - e


@dataclass(frozen=True)
class Term:
    """One term w · (1/N) Σ_i |r(x_i)|² of a loss.

    Parameters
    ----------
    name : str
        For messages and progress, unique in its problem.
    weight : float
        w, non-negative, dimensionless.
    points : callable
        n -> (x: [N, d], *payload: [N, ...]), NumPy arrays of float64 with equal first axes; every
        row belongs to one point, so that rows can be dealt out to ranks.
    function : callable
        (u, *arrays) -> r: [N, k], the arrays as tensors.
    problem : str
        Name of the problem, for messages.
    sums : Sums, optional
        The same residuals, if they couple points.
    """

    name: str
    weight: float
    points: Callable[[int | tuple[int, ...]], Arrays]
    function: Callable[..., tf.Tensor]
    problem: str = ""
    sums: Sums | None = None
    _known: dict[tuple[Any, ...], tuple[Plan, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def residual(self, u: Any, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute the pointwise residuals r: [N, k] (local).

        If `u` is a `Field` with a jet, all its values and derivatives at the same points are
        computed together; the plan for it is recorded once and kept.

        Parameters
        ----------
        u : Field or callable [n, d] -> [n, m]
        *arrays : tensors
            The arrays of `points`, or some of their rows, in the dtype of the field.

        Raises
        ------
        InputError
            The residual has the wrong rank, number of rows or dtype.
        """
        if isinstance(u, Field) and u.has_jet:
            u = u.with_plan(self.plan(u, *arrays))
        # Fresh tensors: tf.gradients(y, x) follows all that was computed from x in its graph, and
        # in that of a step the parameters of a trial depend on the points as well.
        arrays = tuple(tf.identity(array) for array in arrays)
        return self._checked(self.function(u, *arrays), arrays)

    def plan(self, u: Any, *arrays: tf.Tensor) -> Plan:
        """Return the requests of the residual to u, recorded unless they are known (local).

        `residual` does this automatically. If the field keeps results, record the plan before,
        since it is recorded in a throw-away graph.
        """
        return self._found(u, arrays)[0] if isinstance(u, Field) and u.has_jet else ()

    def components(self, u: Any, *arrays: Any) -> int:
        """Return k, the number of equations, by running the residual without computing (local).

        Parameters
        ----------
        u : Field or callable [n, d] -> [n, m]
        *arrays : tensors or specifications, with one row at least
        """
        return int(self._found(as_field(u), arrays)[1])

    def with_weight(self, weight: float) -> Term:
        """Return the same term with another weight, and with its plans (local)."""
        other = replace(self, weight=weight)
        object.__setattr__(other, "_known", self._known)
        return other

    def with_points(self, points: Callable[..., Arrays]) -> Term:
        """Return the same term at other points (local)."""
        return replace(self, points=points)

    @property
    def order(self) -> int:
        """The highest order of derivatives in the plans that are known, from 2 on."""
        requests = [request for plan, _ in self._known.values() for request in plan]
        return max([2, *(order_of(each) for request in requests for each in request.higher)])

    @property
    def is_shifted(self) -> bool:
        """Whether its last array are the values that its residuals are to have."""
        return isinstance(self.function, _Shifted)

    def shifted(self) -> Term:
        """Return the term whose residuals are r − e, with e its last array (local)."""
        return self if self.is_shifted else replace(self, function=_Shifted(self.function))

    def check(self, u: Any, *arrays: Any, own_variables: Sequence[Any] = ()) -> Trace:
        """Run the residual once in a throw-away graph and check its result (local).

        Parameters
        ----------
        u : Field or callable [n, d] -> [n, m], or Parametrized
        *arrays : tensors or NumPy arrays
            Of the shapes and dtypes met in training; their values are not used.
        own_variables : sequence of variables
            Those that u itself reads.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            The residual does not return one tensor with the expected rank, number of rows and
            dtype; it reads a trainable variable that is not one of u's; or it does not use u.
            Errors of the residual get notes with the term, the problem and advice.
        """
        traced = trace(self.function, as_field(u), arrays, context=self._place())
        own = {id(variable) for variable in own_variables}
        read = [variable for variable in traced.variables if id(variable) not in own]
        refuse_trainable(read, f"the residual {self._place()}")
        result = self._checked(traced.result, arrays)
        # A residual of unknowns alone, such as a penalty, does without u.
        if not traced.asked and not getattr(self.function, "names", ()):
            raise InputError(
                f"the residual {self._place()} never asks for u, so that no training changes it; "
                f"write the equation with u(x) and the operators, as laplacian(u, x) - f, or leave "
                f"the term out."
            )
        if self._is_every_pair(result, u, arrays):
            rows = arrays[0].shape[0]
            raise self._error(
                f"[{rows}, k] with k the number of equations",
                f"shape {result.shape.as_list()}, a value for every pair of points",
                f"keep both axes everywhere: x[:, i:i+1] in place of x[:, i], as an array [{rows}] "
                f"and one [{rows}, 1] are broadcast; data has the shape [n, 1], not [n]",
            )
        self._known[_form(arrays)] = traced.plan, result.shape[1]
        return traced

    def _is_every_pair(self, result: tf.Tensor, u: Any, arrays: Any) -> bool:
        """Return whether [n] met [n, 1], rather than n points having n equations by accident."""
        rows, columns = arrays[0].shape[0], result.shape[1]
        if rows is None or rows < 2 or columns != rows:
            return False
        if rows > MANY_EQUATIONS:
            return True
        more = [tf.TensorSpec([rows + 1, *a.shape[1:]], a.dtype) for a in arrays]
        again = trace(self.function, as_field(u), more, context=self._place())
        return bool(self._checked(again.result, more).shape[1] != columns)

    def _found(self, u: Field, arrays: Sequence[Any]) -> tuple[Plan, int]:
        """Return the plan of the residual and its number of equations."""
        key = _form(arrays)
        if key not in self._known:
            traced = trace(self.function, u, arrays, context=self._place())
            self._known[key] = traced.plan, self._checked(traced.result, arrays).shape[1]
        return self._known[key]

    def _checked(self, result: Any, arrays: Any) -> tf.Tensor:
        """Let a result through if it is one tensor with a row for each point."""
        rows, dtype = arrays[0].shape[0], tf.as_dtype(arrays[0].dtype)
        if isinstance(result, (tf.Tensor, tf.Variable)):
            shape = result.shape
            every = shape.rank == 2 and (None in (rows, shape[0]) or shape[0] == rows)
            if every and result.dtype == dtype:
                return result
            got = f"shape {shape} and dtype {result.dtype.name}"
        else:
            got = "None" if result is None else f"a {type(result).__name__}"
        expected = f"one tensor of shape [{rows or 'n'}, k] and dtype {dtype.name}"
        raise self._error(expected, got, _REMEDY)

    def _place(self) -> str:
        return f"in term {self.name!r}" + (f" of problem {self.problem!r}" if self.problem else "")

    def _error(self, expected: str, got: str, remedy: str) -> InputError:
        return InputError(
            f"the residual {self._place()} must return {expected}, got {got}; {remedy}."
        )


def _form(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((tuple(a.shape[1:]), tf.as_dtype(a.dtype)) for a in arrays)


def as_field(u: Any) -> Any:
    """Return a Field as it is, also where it is parametrized; another callable as a Field."""
    return u if isinstance(u, Field | Parametrized) else Field(u)
