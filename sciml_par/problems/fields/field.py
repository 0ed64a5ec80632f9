"""The field u that a residual receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sciml_par import _tape
from sciml_par._partial_operators import Operator
from sciml_par._tape import Function, Jet
from sciml_par._tensorflow import is_recorded, tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import places_of
from sciml_par.problems.fields import answers as _given
from sciml_par.problems.fields.plan import Coefficients, Plan, Request, as_coefficients, as_matrices

JetFunction = Callable[..., Jet]
Selection = int | str | tuple[int | str, ...]
Key = tuple[int, int, bool]
_NONE: Mapping[str, Any] = MappingProxyType({})


class Field:
    """A field u: [n, d] -> [n, m] with its derivatives, as residuals receive it.

    Call it to evaluate u; the operators of this package differentiate it. At the first request at a
    tensor of points, a field with a plan computes all values and derivatives of the plan together,
    and keeps them. Use such a field for ONE evaluation of one residual. Without a plan, a field
    keeps nothing.

    Parameters
    ----------
    function : callable
        x: [n, d] -> u: [n, m], differentiable TensorFlow operations, pointwise: row i of the result
        depends on row i of x only.
    jet : callable, optional
        (x: [n, d], second: [K, d, d]) -> (u: [n, m], du: [n, m, d], L: [n, m, K]) with
        L[..., k] = Σ_ij second[k,i,j] ∂²u/∂x_i∂x_j. By default, nested GradientTapes compute these.
        A jet may also take ``higher``, Q operators of third and fourth order as for
        `sciml_par.networks.MLP.jet`. If Q > 0, it then returns H: [n, m, Q] as well. Otherwise,
        GradientTapes around the jet compute H.
    plan : tuple of Request, optional
        From `record`. It affects the cost, not the result: other requests are computed when they
        are made.
    unknowns : dict of str to tensor, optional
        Values of the unknown coefficients, for the residuals that take them.
    coordinates, components : sequence of str, optional
        Names of the d coordinates and of the m components, for operators and ``u["v"]``.

    Notes
    -----
    While a tape watches x, kept values are not used, so u(x) and the results of operators can be
    differentiated by x. To a tape inside a residual that differentiates by *parameters* of the
    network, values that were kept before it are constants.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Field, laplacian
    >>> u = Field(lambda x: x**3)
    >>> laplacian(u, tf.constant([[2.0]])).numpy()
    array([[12.]], dtype=float32)

    Components by name or number, several by commas, are fields as well:

    >>> w = Field(lambda x: tf.concat([x, x**2], axis=1), components=("v", "p"))
    >>> laplacian(w["p"], tf.constant([[2.0]])).numpy()
    array([[2.]], dtype=float32)
    """

    def __init__(
        self,
        function: Function,
        *,
        jet: JetFunction | None = None,
        plan: Plan = (),
        unknowns: Mapping[str, Any] | None = None,
        coordinates: Sequence[str] | None = None,
        components: Sequence[str] | None = None,
    ) -> None:
        if not callable(function):
            raise InputError(f"Field: function must be callable, got {type(function).__name__}")
        if jet is not None and not callable(jet):
            raise InputError(f"Field: jet must be callable or None, got {type(jet).__name__}")
        self._source = _Source(function, jet)
        self._plan, self._unknowns = plan, unknowns or _NONE
        self.coordinates = None if coordinates is None else tuple(coordinates)
        self.components = None if components is None else tuple(components)
        self._kept: dict[Key, _AtPoints] = {}
        # Of a field that is some components of another, which is asked in its place.
        self._parent: Field | None = None
        # Whether it asks other fields, for which known derivatives may answer, but not for it.
        self._is_made = False

    @property
    def plan(self) -> Plan:
        """The requests that this field computes together."""
        return self._plan

    @property
    def unknowns(self) -> Mapping[str, Any]:
        """Values of the coefficients that are sought with the field, by name."""
        return self._unknowns

    @property
    def has_jet(self) -> bool:
        """Whether derivatives come from a jet, which a plan makes cheaper."""
        return self._source.jet is not None

    def has_jet_to(self, order: int) -> bool:
        """Return whether derivatives of this order come from a jet without tapes around it."""
        if self._parent is not None:
            return self._parent.has_jet_to(order)
        own = self._source.jet
        return own is not None and (order <= 2 or _tape.takes_higher(own))

    def with_plan(self, plan: Plan) -> Field:
        """Return the same field with another plan, for one evaluation of a residual."""
        return self._like(plan=plan)

    def with_unknowns(self, unknowns: Mapping[str, Any]) -> Field:
        """Return the same field with values of the coefficients that are sought with it."""
        return self._like(unknowns=unknowns)

    def with_names(
        self, coordinates: Sequence[str] | None, components: Sequence[str] | None
    ) -> Field:
        """Return the same field whose coordinates and components have names (local)."""
        return self._like(coordinates=coordinates, components=components)

    def _like(self, **changed: Any) -> Field:
        kept = {
            "plan": self._plan,
            "unknowns": self._unknowns,
            "coordinates": self.coordinates,
            "components": self.components,
        }
        return Field(self._source.function, jet=self._source.jet, **(kept | changed))

    def __getitem__(self, which: Selection) -> Field:
        """Return the field of some components, by names or numbers.

        ``u["p"]`` has one component; ``u["u", "v"]`` has two, in this order. The whole field
        computes everything once.
        """
        names = self.components
        places = places_of(which, names, "component", "u(x)[:, 0:1] slices values, u[0] the field")
        chosen = None if names is None else tuple(names[c] for c in places)

        def value(x: tf.Tensor) -> tf.Tensor:
            return _columns(self(x), places)

        def jet(x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
            return tuple(_columns(part, places) for part in self.jet(x, second, higher))

        part = Field(
            value,
            jet=jet if self.has_jet else None,
            coordinates=self.coordinates,
            components=chosen,
        )
        part._parent = self
        return part.as_made()

    def as_made(self) -> Field:
        """Mark this field as one that asks other fields, and return it (local)."""
        self._is_made = True
        return self

    def _not_values(self, *_: Any, **__: Any) -> Any:
        """Raise an error: arithmetic and TensorFlow's functions take values."""
        raise InputError(
            "a Field is a function of points, not values: write u(x), as in tf.sin(u(x)) + "
            "x * u(x); the field is the first argument, as in residual(u, x) and ansatz(u, x)"
        )

    __tf_tensor__ = __array__ = __neg__ = __abs__ = __pow__ = __rpow__ = _not_values
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _not_values
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _not_values

    def __iter__(self) -> Any:
        """Raise an error: the number of components may be unknown."""
        raise InputError(
            'a field cannot be unpacked; its components are fields u[0], u[1] or u["v"], and their '
            "values are slices such as u(x)[:, 0:1]"
        )

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Evaluate the field: x: [n, d] -> [n, m] (local)."""
        x = as_points(x)
        answers = self._answers_at(x)
        known = None if answers is None else answers.value(self, x)
        return self.computed(x) if known is None else known

    def computed(self, x: tf.Tensor) -> tf.Tensor:
        """Evaluate the field without asking for answers in its place (local)."""
        kept = self._at(x)
        return self._source.value_at(x) if kept is None else kept.value()

    def jet(self, x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
        """Compute value [n, m], first derivatives [n, m, d] and operators [n, m, K] at x (local).

        Parameters
        ----------
        x : tensor [n, d]
        second : array [K, d, d]
            Symmetric coefficient matrices; K may be 0.
        higher : sequence of operators
            Q of third and fourth order, whose values [n, m, Q] come last where Q > 0.
        """
        x, wanted = as_points(x), tuple(higher)
        answers = self._answers_at(x)
        known: Jet | None = None if answers is None else answers.jet(self, x, second, wanted)
        return self._computed_jet(x, second, wanted) if known is None else known

    def _computed_jet(
        self, x: tf.Tensor, second: Coefficients, wanted: tuple[Operator, ...]
    ) -> Jet:
        kept = self._at(x)
        if kept is None:
            return self._source.jet_at(x, second, wanted)
        return kept.jet(second, wanted)

    def _answers_at(self, x: tf.Tensor) -> _given.Answers | None:
        return None if self._is_made else _given.answers_at(x)

    def _at(self, x: tf.Tensor) -> _AtPoints | None:
        if not self._plan or _tape.is_watched(x) or _given.on_trial():
            return None
        key, graph = cache_key(x)
        if key not in self._kept:
            slot = len(self._kept)
            request = self._plan[slot] if slot < len(self._plan) else Request()
            self._kept[key] = _AtPoints(self._source, x, graph, request)
        return self._kept[key]


@dataclass(frozen=True)
class _Source:
    """The functions that define a field."""

    function: Function
    jet: JetFunction | None

    def value_at(self, x: tf.Tensor) -> tf.Tensor:
        return _tape.checked_output(self.function(x), x)

    def jet_at(self, x: tf.Tensor, second: Coefficients, higher: tuple[Operator, ...] = ()) -> Jet:
        return _tape.jet_at(self.function, self.jet, x, second, higher)


class _AtPoints:
    """The values and derivatives of a planned field at one tensor of points."""

    def __init__(self, source: _Source, x: tf.Tensor, graph: Any, request: Request) -> None:
        # x and graph are referenced so that their identities, the key, are not given to others.
        self._source, self._x, self._graph, self._request = source, x, graph, request
        self._place = {matrix: k for k, matrix in enumerate(request.second)}
        self._higher_place = {operator: k for k, operator in enumerate(request.higher)}
        self._jet: Jet | None = None
        self._value: tf.Tensor | None = None

    def value(self) -> tf.Tensor:
        if self._request.derivatives:
            return self._planned_jet()[0]
        if self._value is None:
            self._value = self._source.value_at(self._x)
        return self._value

    def jet(self, second: Coefficients, higher: tuple[Operator, ...]) -> Jet:
        wanted = as_matrices(second)
        known = all(m in self._place for m in wanted) and all(
            operator in self._higher_place for operator in higher
        )
        if not self._request.derivatives or not known:
            return self._source.jet_at(self._x, second, higher)
        u, du, operators, *above = self._planned_jet()
        chosen = u, du, _select(operators, [self._place[m] for m in wanted])
        if not higher:
            return chosen
        return *chosen, _select(above[0], [self._higher_place[operator] for operator in higher])

    def _planned_jet(self) -> Jet:
        if self._jet is None:
            second = as_coefficients(self._request.second, self._x.shape[1])
            self._jet = self._source.jet_at(self._x, second, self._request.higher)
        return self._jet


def _select(operators: tf.Tensor, places: list[int]) -> tf.Tensor:
    if not places:
        return operators[..., :0]
    if places == list(range(operators.shape[-1])):
        return operators
    return tf.stack([operators[..., k] for k in places], axis=-1)


def _columns(values: tf.Tensor, places: tuple[int, ...]) -> tf.Tensor:
    """Return some components: [n, m, …] -> [n, k, …]."""
    m, last = values.shape[1], max(places)
    if last >= m:
        raise InputError(
            f"there is no component {last}: the field has {m}, with the numbers 0 to {m - 1}"
        )
    return tf.concat([values[:, c : c + 1] for c in places], axis=1)


def cache_key(x: tf.Tensor) -> tuple[Key, Any]:
    """Return the key for results at x, and the graph that it names by its identity."""
    # A result belongs to the graph it was made in (a branch of tf.cond has its own), and one made
    # while recording was stopped would disconnect whoever records later.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    return (id(x), id(graph), is_recorded()), graph


def as_points(x: Any) -> tf.Tensor:
    """Let a tensor of points [n, d] through; arrays are converted."""
    points = x if isinstance(x, tf.Tensor) else tf.convert_to_tensor(x)
    if points.shape.rank != 2 or points.shape[1] is None:
        raise InputError(
            f"points must have the shape [n, d] with d known, got {points.shape}; one coordinate "
            f"of several is x[:, i:i+1] (shape [n, 1]), not x[:, i] (shape [n])"
        )
    if not points.dtype.is_floating:
        raise InputError(f"points must be floating-point numbers, got {points.dtype.name}")
    return points
